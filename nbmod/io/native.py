"""Common parts of MXNet's native iterators: `MXDataIter` and how the last batch is filled.

A native iterator is created by a function that takes any keyword; all values may be strings;
unknown keywords are ignored.  The options are the fields of a dataclass, whose docstring describes
them: signature and docstring of the function list them (`lists_options`).  Threads prepare batches
ahead (`job_pipeline`).

The last batch.  Samples form a ring.  With `round_batch` an incomplete batch is filled from the
start of the ring, `pad` is the number of those samples, and the next epoch begins after them.
Without it the batch keeps the elements of the previous batch in these rows.
"""

from __future__ import annotations

import dataclasses
import inspect
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from ..base import MXNetError
from ..ops.device import CPU
from ..ops.op import Spec
from ..ops.param import parse_params
from .data_iter import DataBatch, DataDesc, WholeBatches, name_of, require_batch_size

__all__ = ["MXDataIter", "list_files", "lists_options", "options_of", "require_part",
           "resume_options"]

Options = TypeVar("Options")
Factory = TypeVar("Factory", bound=Callable[..., Any])


class MXDataIter(WholeBatches):
    """Base class of the native iterators, such as `ImageRecordIter` and `CSVIter`.

    `getdata` and `getlabel` return an NDArray, not a list.  Subclasses define `next_batch`.

    Parameters
    ----------
    name : str
        The name by which users know the iterator.
    batch_size : int
        Number of samples in a batch.
    data : DataDesc
        Description of the data.
    label : DataDesc
        Description of the labels.

    Raises
    ------
    MXNetError
        If `batch_size` is less than 1, or its labels need more memory than the machine has.
    """

    def __init__(self, name: str, batch_size: int, data: DataDesc, label: DataDesc):
        require_batch_size(name, batch_size)
        super().__init__(batch_size)
        self._public_name = name
        CPU.require_memory(Spec(label.shape, np.dtype(label.dtype)))    # data may be sparse
        self.provide_data, self.provide_label = [data], [label]
        self._only: DataBatch | None = None

    def iter_next(self) -> bool:
        self.current_batch = self._only
        return self._only is not None or super().iter_next()

    def debug_skip_load(self) -> None:
        """Return the next batch again and again, without an end.

        This measures the speed of the consumer without the cost of loading.
        """
        self._only = self.next()

    def _current(self) -> DataBatch:
        if self.current_batch is None:
            raise MXNetError(f"{name_of(self)}: there is no current batch; call next or "
                             "iter_next first")
        return self.current_batch

    def getdata(self) -> Any:
        """Return the data of the current batch, an NDArray; MXNetError before the first batch."""
        return self._current().data[0]

    def getlabel(self) -> Any:
        """Return the labels of the current batch, an NDArray; MXNetError before the first batch."""
        return self._current().label[0]

    def getindex(self) -> np.ndarray:
        """Return the samples' positions, as int64; MXNetError before the first batch."""
        return self._current().index

    def getpad(self) -> int:
        return self._current().pad or 0


def lists_options(cls: type, *fixed: str) -> Callable[[Factory], Factory]:
    """Decorate a function `f(**options)` so that signature and docstring list the options.

    Parameters
    ----------
    cls : type
        Dataclass of the options; the docstrings of the class and its bases describe them.
    *fixed : str
        Names of options that the function sets itself.
    """
    entries: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        _, _, section = inspect.cleandoc(base.__doc__ or "").partition("Parameters\n----------\n")
        entries |= {entry.split(" :")[0]: entry.rstrip()
                    for entry in re.split(r"\n(?=\w)", section) if entry}
    fields = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
              for name, parameter in inspect.signature(cls).parameters.items() if name not in fixed]
    fields.sort(key=lambda parameter: parameter.default is not inspect.Parameter.empty)

    def decorate(function: Factory) -> Factory:
        summary, _, rest = inspect.cleandoc(function.__doc__ or "").partition("Returns\n-------\n")
        function.__doc__ = "\n".join([
            f"{summary}Parameters\n----------",
            *(entries[field.name] for field in fields if field.name in entries),
            "**options\n    Ignored; there is a warning if the name resembles that of an option.\n",
            f"Returns\n-------\n{rest}"])
        plain = inspect.signature(function)
        function.__signature__ = plain.replace(  # type: ignore[attr-defined]
            parameters=[*fields, *plain.parameters.values()])
        return function

    return decorate


def options_of(cls: type[Options], values: Mapping[str, Any]) -> Options:
    """Return the options of an iterator, a dataclass, from keywords that may be strings.

    A dtype of None selects the default.  An unknown keyword is ignored, as in MXNet.

    Parameters
    ----------
    cls : type
        Dataclass of the options.
    values : mapping
        Values by name.

    Raises
    ------
    MXNetError
        For an invalid value; names the option, what was expected and given.
    """
    known = {field.name for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    used = {name: value for name, value in values.items() if name in known
            and not (name == "dtype" and value in (None, "None"))}
    return cls(**parse_params(cls, used))


_IRRELEVANT_TO_RESUME = frozenset({
    "path_imgrec", "path_imgidx", "path_imglist", "image", "label", "data_csv", "label_csv",
    "data_libsvm", "label_libsvm", "ctx", "device_id", "shuffle_chunk_size", "shuffle_chunk_seed",
    "preprocess_threads", "prefetch_buffer", "verbose", "silent"})
"""Options that do not affect batches: paths, threads, prefetching and logging."""


def resume_options(options: Any) -> dict[str, Any]:
    """Return the options that determine the batches, as plain data.

    An iterator resumes only from the state of one for which they are equal.

    Parameters
    ----------
    options : dataclass
        Options of an iterator.
    """
    values = {field.name: getattr(options, field.name) for field in dataclasses.fields(options)
              if field.name not in _IRRELEVANT_TO_RESUME}
    return {name: list(value) if isinstance(value, tuple) else value
            for name, value in values.items()}


def list_files(name: str, paths: str) -> list[str]:
    """Return the files that a string names, as a list of paths.

    Parameters
    ----------
    name : str
        Name of the iterator, for the message.
    paths : str
        A path, or several separated by ';'; a folder means all its files, sorted by name.

    Raises
    ------
    MXNetError
        If a file does not exist.
    """
    files: list[str] = []
    for path in paths.split(";"):
        path = path.removeprefix("file://")
        if os.path.isdir(path):
            inside = (os.path.join(path, entry) for entry in sorted(os.listdir(path)))
            files += [entry for entry in inside if os.path.isfile(entry)]
        elif os.path.isfile(path):
            files.append(path)
        else:
            raise MXNetError(f"{name}: no such file: {path!r}")
    return files


def require_part(name: str, num_parts: int, part_index: int) -> None:
    """Check that a part exists.

    Parameters
    ----------
    name : str
        Name of the iterator, for the message.
    num_parts : int
        Number of parts.
    part_index : int
        Index of the part, from 0.

    Raises
    ------
    MXNetError
        Unless 0 <= part_index < num_parts.
    """
    if num_parts < 1 or not 0 <= part_index < num_parts:
        raise MXNetError(f"{name}: part_index is {part_index} of num_parts {num_parts}, expected "
                         "0 <= part_index < num_parts")
