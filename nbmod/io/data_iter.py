"""Base classes of the data iterators: `DataDesc`, `DataBatch` and `DataIter`.

A batch consists of lists of NDArrays; a description is (name, shape) with an element type and a
layout whose letter `N` marks the batch axis.  An iterator describes its batches in `provide_data`
and `provide_label` before it yields the first one.
"""

from __future__ import annotations

import random
import reprlib
from collections import namedtuple
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..base import ArgumentTypeError, CheckError, MXNetError, integer_types, wrong_type
from ..core.reprs import safe_repr, shaped

__all__ = ["HANDLES", "DamagedState", "DataBatch", "DataDesc", "DataIter", "WholeBatches",
           "global_random_states", "name_of", "require_batch_size", "require_batches",
           "set_global_random_states", "why_no_batch"]

_WORDS = {"pos": 624, "buffer_pos": 4}
"""Positions in the words of NumPy's generators, those of MT19937 and Philox."""
MOST_SAMPLES = 2**31 - 1
"""The largest batch."""
HANDLES = ("pad", "discard", "roll_over")
"""Ways to handle a last batch that is not full; `NDArrayIter` describes them."""


class DataDesc(namedtuple("DataDesc", ["name", "shape"])):
    """Name, shape, element type and layout of one input of a network.

    Compares equal to the plain tuple `(name, shape)`.

    Parameters
    ----------
    name : str
        Name of the variable in the symbol.
    shape : sequence of int
        Shape of a batch, including the batch axis.
    dtype : numpy type, default numpy.float32
        Element type.
    layout : str or None, default 'NCHW'
        One letter for each axis; 'N' marks the batch axis, along which a batch is split over
        several devices.  None: the first axis is the batch axis.

    Examples
    --------
    >>> desc = mx.io.DataDesc("data", (32, 10), layout="NC")
    >>> desc == ("data", (32, 10)), desc.layout
    (True, 'NC')
    """

    dtype: Any
    layout: str | None

    def __new__(cls, name: str, shape: Sequence[int], dtype: Any = np.float32,
                layout: str | None = "NCHW") -> DataDesc:
        desc = super().__new__(cls, name, tuple(shape))
        desc.dtype = dtype
        desc.layout = layout
        return desc

    def __repr__(self) -> str:
        return f"DataDesc[{self.name},{self.shape},{self.dtype},{self.layout}]"

    def __reduce__(self) -> tuple[type[DataDesc], tuple[Any, ...]]:
        return DataDesc, (self.name, self.shape, self.dtype, self.layout)

    @staticmethod
    def get_batch_axis(layout: str | None) -> int:
        """Return the position of the batch axis in a layout.

        Parameters
        ----------
        layout : str or None
            Layout with one letter for each axis.

        Returns
        -------
        int
            Position of 'N'; 0 for None, -1 for a layout without 'N'.

        Examples
        --------
        >>> mx.io.DataDesc.get_batch_axis("TNC")
        1
        """
        if not isinstance(layout, (str, type(None))):
            raise wrong_type("DataDesc: layout", layout, "text such as 'NCHW', or None")
        return 0 if layout is None else layout.find("N")

    @staticmethod
    def get_list(shapes: Any, types: Any) -> list[DataDesc]:
        """Make descriptions from pairs, in the order of `shapes`.

        Parameters
        ----------
        shapes : list of (str, tuple of int)
            Names and shapes.
        types : list of (str, numpy type), or None
            Names and element types; None: all are float32.

        Raises
        ------
        KeyError
            If `types` lacks one of the names.
        """
        if types is None:
            return [DataDesc(name, shape) for name, shape in shapes]
        dtypes = dict(types)
        return [DataDesc(name, shape, dtypes[name]) for name, shape in shapes]


class DataBatch:
    """One batch of samples.

    Parameters
    ----------
    data : list of NDArray
        Arrays of the data inputs, in the order of `provide_data`.
    label : list of NDArray, optional
        Arrays of the labels, in the order of `provide_label`.
    pad : int, optional
        Number of samples at the end of the batch that only fill it up.  `Module.predict` and
        `Module.score` leave them out.
    index : array of int, optional
        Positions of the samples in the data set.
    bucket_key : optional
        Key of the network that the batch is for, see `BucketingModule`.
    provide_data : list of DataDesc, optional
        Descriptions of `data`; required if batches differ in shape, as with buckets.
    provide_label : list of DataDesc, optional
        Descriptions of `label`; required if batches differ in shape.

    Raises
    ------
    MXNetError
        If `data` or `label` is neither None, a list nor a tuple.

    Examples
    --------
    >>> print(mx.io.DataBatch([mx.nd.zeros((2, 3))], [mx.nd.zeros((2,))]))
    DataBatch: data shapes: [(2, 3)] label shapes: [(2,)]
    """

    def __init__(self, data: Any, label: Any = None, pad: int | None = None, index: Any = None,
                 bucket_key: Any = None, provide_data: Any = None, provide_label: Any = None):
        for name, value in (("data", data), ("label", label)):
            if value is not None and not isinstance(value, (list, tuple)):
                raise CheckError(f"DataBatch: {name} is a {type(value).__name__}, expected a "
                                 "list of NDArrays")
        self.data = data
        self.label = label
        self.pad = pad
        self.index = index
        self.bucket_key = bucket_key
        self.provide_data = provide_data
        self.provide_label = provide_label

    def __str__(self) -> str:
        data = None if self.data is None else [d.shape for d in self.data]
        label = None if self.label is None else [d.shape for d in self.label]
        return f"{type(self).__name__}: data shapes: {data} label shapes: {label}"


Shapes = Sequence[DataDesc | tuple[str, Sequence[int]]] | None
"""Descriptions of inputs."""


def name_of(iterator: DataIter) -> str:
    """The name by which users know an iterator, for messages.

    Parameters
    ----------
    iterator : DataIter
        The iterator.
    """
    return getattr(iterator, "_public_name", type(iterator).__name__)


def require_batches(iterator: str, batch_size: int, last_batch_handle: str,
                    handles: Sequence[str] = HANDLES) -> None:
    """Check the options of batches that iterators have in common.

    Parameters
    ----------
    iterator : str
        Name of the iterator, for the message.
    batch_size : int
        Number of samples in a batch, at least 1.
    last_batch_handle : str
        One of `handles`.
    handles : sequence of str
        What the iterator supports.

    Raises
    ------
    MXNetError
        If an option is invalid.
    """
    if last_batch_handle not in handles:
        raise MXNetError(f"{iterator}: last_batch_handle is {last_batch_handle!r}, expected one of "
                         f"{handles}")
    require_batch_size(iterator, batch_size)


def require_batch_size(iterator: str, batch_size: object) -> None:
    """Check the number of samples in a batch.

    Parameters
    ----------
    iterator : str
        Name of the iterator, for the message.
    batch_size : object
        What was given.

    Raises
    ------
    MXNetError
        Unless it is an integer from 1 to `MOST_SAMPLES`.
    """
    fits = isinstance(batch_size, integer_types)
    if not fits or not 1 <= batch_size <= MOST_SAMPLES:  # type: ignore[operator]
        error = MXNetError if fits else ArgumentTypeError
        raise error(f"{iterator}: batch_size is {batch_size!r}, expected an integer from 1 to "
                    f"{MOST_SAMPLES:,}")


def global_random_states() -> dict[str, Any]:
    """States of `random` and `numpy.random`, from which scripts and `mx.image` draw."""
    version, words, gauss = random.getstate()
    return {"numpy": np.random.get_state(),
            "python": (version, np.array(words, np.uint32), gauss)}


def set_global_random_states(states: Mapping[str, Any]) -> None:
    """Continue from the states that `global_random_states` returned.

    Parameters
    ----------
    states : mapping
        Result of `global_random_states`.

    Raises
    ------
    DamagedState
        For states that cannot be any; then none is set.
    """
    before = random.getstate()
    try:
        version, words, gauss = states["python"]
        if not isinstance(gauss, (float, type(None))):
            raise ValueError(f"the next Gaussian of Python is {reprlib.repr(gauss)}")
        random.setstate((version, tuple(words.tolist()), gauss))
        _set_numpy_state(states["numpy"])
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        random.setstate(before)
        raise DamagedState(f"the saved states of random generators: {error}") from None


def _set_numpy_state(state: Any) -> None:
    """Set NumPy's state.

    NumPy does not check positions, and reads other memory at one beyond a generator's words.
    """
    fields = {**state["state"], **state} if isinstance(state, dict) else {"pos": state[2]}
    for name, words in _WORDS.items():
        if fields.get(name, 0) not in range(words + 1):
            raise ValueError(f"{name} is {reprlib.repr(fields[name])}, expected 0 to {words}")
    np.random.set_state(state)


class DamagedState(MXNetError):
    """A saved state that no iterator and no random generator can have."""


def why_no_batch(data: DataIter | None) -> str:
    """End an error: why an iterator yields no batch, what to do; it is reset for that.

    Parameters
    ----------
    data : DataIter
        The iterator.
    """
    assert data is not None
    data.reset()
    if next(iter(data), None) is None:
        return "has it fewer samples than a batch, which are discarded?"
    data.reset()
    return "it had been read to its end before: call its reset() first"


class DataIter:
    """Base class of the data iterators.

    A subclass defines `provide_data`, `provide_label` and `reset`, and either `next`, or
    `iter_next` together with `getdata`, `getlabel`, `getindex` and `getpad`.

    Parameters
    ----------
    batch_size : int, default 0
        Number of samples in a batch.

    Attributes
    ----------
    provide_data, provide_label : list of DataDesc
        Descriptions of the arrays of a batch.

    Notes
    -----
    An iterator whose position can be saved and restored also defines `state_dict` and
    `load_state_dict`.  It draws its random numbers from a sequence of its own
    (`ops.random.rng.Sequence`), whose position is part of the state, so that no other random draw
    changes what it yields.

    Examples
    --------
    >>> class Ones(mx.io.DataIter):
    ...     provide_data, provide_label = [mx.io.DataDesc("data", (2, 3))], []
    ...     count = 0
    ...     def reset(self):
    ...         self.count = 0
    ...     def next(self):
    ...         if self.count == 2:
    ...             raise StopIteration
    ...         self.count += 1
    ...         return mx.io.DataBatch([mx.nd.ones((2, 3))], pad=0)
    >>> len(list(Ones(batch_size=2)))
    2
    """

    provide_data: Any
    provide_label: Any

    def __init__(self, batch_size: int = 0):
        self.batch_size = batch_size

    @safe_repr
    def __repr__(self) -> str:
        kind, size = type(self), getattr(self, "batch_size", 0)
        if kind is DataIter or not kind.__module__.startswith("nbmod."):  # may do anything
            return f"<{kind.__name__}{f': batches of {size} samples' * bool(size)}>"
        descs = [*(self.provide_data or ()), *(self.provide_label or ())]
        samples = getattr(self, "num_data", None) or getattr(
            getattr(self, "_sampler", None), "count", None)
        return (f"<{kind.__name__}: {shaped((desc[0], desc[1]) for desc in descs)}"
                + f", {samples} samples" * (samples is not None) + ">")

    def __iter__(self) -> Iterator[DataBatch]:
        return self

    def reset(self) -> None:
        """Start the next epoch."""

    def state_dict(self) -> dict[str, Any] | None:
        """Return the position of the iterator; allowed between any two batches.

        Returns
        -------
        dict or None
            Plain data: numbers, text, lists, dicts with string keys and NumPy arrays.  None: the
            iterator cannot tell its position.
        """
        return None

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a position that `state_dict` returned.

        Parameters
        ----------
        state : dict
            State of an iterator over the same data, constructed with the same options.

        Raises
        ------
        MXNetError
            If the state is that of other data or other options, or if the class does not define
            this method.
        """
        raise MXNetError(f"{type(self).__name__} does not define load_state_dict")

    def next(self) -> DataBatch:
        """Return the next batch.

        Raises
        ------
        StopIteration
            At the end of the epoch.
        """
        if not self.iter_next():
            raise StopIteration
        return DataBatch(data=self.getdata(), label=self.getlabel(), pad=self.getpad(),
                         index=self.getindex())

    def __next__(self) -> DataBatch:
        return self.next()

    def iter_next(self) -> bool:
        """Move to the next batch; returns False at the end of the epoch."""
        raise NotImplementedError(f"{type(self).__name__} defines neither next nor iter_next")

    def getdata(self) -> Any:
        """Return the data arrays of the current batch."""

    def getlabel(self) -> Any:
        """Return the label arrays of the current batch."""

    def getindex(self) -> Any:
        """Return the positions of the samples of the current batch; None if they are not known."""
        return None

    def getpad(self) -> int | None:
        """Return the number of samples at the end of the current batch that only fill it up."""


class WholeBatches(DataIter):
    """Base class of iterators that make whole batches; subclasses define `next_batch`.

    Parameters
    ----------
    batch_size : int
        Number of samples in a batch.
    """

    def __init__(self, batch_size: int):
        super().__init__(batch_size)
        self.current_batch: DataBatch | None = None

    def next_batch(self) -> DataBatch:
        """Return the next batch, a `DataBatch`; raises StopIteration at the end of the epoch."""
        raise NotImplementedError(f"{type(self).__name__} does not define next_batch")

    def next(self) -> DataBatch:
        if not self.iter_next():
            raise StopIteration
        assert self.current_batch is not None
        return self.current_batch

    def iter_next(self) -> bool:
        try:
            self.current_batch = self.next_batch()
        except StopIteration:
            return False
        return True

    def getdata(self) -> Any:
        return self.current_batch and self.current_batch.data

    def getlabel(self) -> Any:
        return self.current_batch and self.current_batch.label

    def getindex(self) -> Any:
        return self.current_batch and self.current_batch.index

    def getpad(self) -> Any:
        return self.current_batch and self.current_batch.pad
