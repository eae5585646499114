"""`CSVIter` and `LibSVMIter`: rows of text files as batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar, Literal

import numpy as np

from ..base import MXNetError
from ..context import cpu
from ..ndarray import NDArray, array
from ..ndarray.buffer_pool import BufferPool
from ..ndarray.sparse_array import CSRNDArray
from ..ops.param import Shape
from ..ops.sparse.formats import CSR
from .data_iter import DataBatch, DataDesc, name_of
from .native import MXDataIter, list_files, lists_options, options_of, require_part, resume_options
from .saved_state import expect_same, saved_integer
from .text_rows import Columns, CSVParser, LibSVMParser, RowStream, blocks_of

__all__ = ["CSVIter", "LibSVMIter"]


class _RowIter(MXDataIter):
    """Batches of rows from parallel streams of data and labels; see `native` for the last batch.

    `present` makes the arrays of a batch, data and label, from the columns of all streams.
    """

    def __init__(self, options: _TextOptions, descriptions: tuple[DataDesc, DataDesc],
                 streams: list[RowStream], present: Callable[[list[Any]], list[Any]]):
        super().__init__(options.name, options.batch_size, *descriptions)
        self.round_batch, self._present, self._streams = options.round_batch, present, streams
        self._resume_key = {"name": options.name, **resume_options(options),
                            "bytes_of_files": [stream.bytes for stream in streams]}
        self._previous: list[Columns] = []
        self._previous_index = np.arange(0)
        self._ended = self._wrapped_around = False

    def next_batch(self) -> DataBatch:
        start = self._streams[0].position
        parts = [] if self._ended else [self._read(self.batch_size)]
        count = len(parts[0][0]) if parts else 0
        if count == 0:
            self._ended = True
            raise StopIteration
        index = np.arange(start, start + count)
        if count < self.batch_size:
            self._ended = True
            parts += self._wrapped(count) if self.round_batch else self._repeated(count)
            wrapped = np.arange(self.batch_size - count)
            index = np.append(index, wrapped % (start + count) if self.round_batch else
                              self._previous_index[count:])
        rows = [Columns.join(same) for same in zip(*parts, strict=True)]
        self._previous, self._previous_index = rows, index
        arrays = self._present([column for part in rows for column in part.columns])
        return DataBatch([arrays[0]], [arrays[1]], self.batch_size - count, index)

    def _read(self, count: int) -> list[Columns]:
        """Read `count` rows of every stream."""
        rows = [stream.read(count) for stream in self._streams]
        if len(set(map(len, rows))) > 1:
            ends = " and ".join(str(stream.position) for stream in self._streams)
            raise MXNetError(f"{name_of(self)}: data and labels have different numbers of "
                             f"rows: {ends}")
        return rows

    def _wrapped(self, count: int) -> list[list[Columns]]:
        """The rows missing after `count`, from the start of the streams."""
        parts: list[list[Columns]] = []
        self._wrapped_around = True
        while count < self.batch_size:
            if not parts or len(parts[-1][0]) == 0:
                for stream in self._streams:
                    stream.restart()
            parts.append(self._read(self.batch_size - count))
            count += len(parts[-1][0])
        return parts

    def _repeated(self, count: int) -> list[list[Columns]]:
        """The rows missing after `count`, from the previous batch."""
        if not self._previous:
            raise MXNetError(f"{name_of(self)}: {count} rows do not fill a batch of "
                             f"{self.batch_size}; choose a smaller one, or round_batch=True")
        return [[rows[count:] for rows in self._previous]]

    def reset(self) -> None:
        """Start the next epoch, after the rows that padded the last batch, if any."""
        if not (self._ended and self._wrapped_around):
            for stream in self._streams:
                stream.restart()
        self._ended = self._wrapped_around = False
        self.current_batch = None

    def state_dict(self) -> dict[str, Any]:
        return {**self._resume_key, "position": self._streams[0].position, "ended": self._ended,
                "carries": self._wrapped_around}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        expect_same(self, state, **self._resume_key)
        position = saved_integer(self, state, "position")
        self._ended = self._wrapped_around = False
        try:
            self._continue_at(position)
        except MXNetError:
            self.reset()
            raise
        self._ended, self._wrapped_around = state.get("ended") is True, state.get("carries") is True
        self.current_batch = None

    def _continue_at(self, position: int) -> None:
        self._previous = []
        if not self.round_batch and position >= self.batch_size:
            for stream in self._streams:  # the previous batch may pad the last one
                stream.restart(position - self.batch_size)
            self._previous = self._read(self.batch_size)
            self._previous_index = np.arange(position - self.batch_size, position)
        else:
            for stream in self._streams:
                stream.restart(position)

    def close(self) -> None:
        """Stop the threads that read ahead."""
        for stream in self._streams:
            stream.close()


@dataclass(frozen=True, kw_only=True)
class _TextOptions:
    """Options of the iterators over text files.

    Parameters
    ----------
    data_shape : tuple of int
        Shape of one sample.
    batch_size : int
        Number of rows in a batch.
    label_shape : tuple of int, default (1,)
        Shape of one label.
    round_batch : bool, default True
        What fills an incomplete last batch.  True: rows from the start of the files, or of the part
        of them, and the next epoch begins after them.  False: rows of the previous batch.  `pad` of
        the batch is their number.
    prefetch_buffer : int, default 4
        Number of blocks of 1 MB that are parsed ahead.
    ctx : str, default 'cpu'
        Accepted for compatibility; has no effect.
    data_name : str, default 'data'
        Name of the data.
    label_name : str, default 'softmax_label'
        Name of the labels.
    """

    name: ClassVar[str]

    data_shape: Shape
    batch_size: int
    label_shape: Shape = (1,)
    round_batch: bool = True
    prefetch_buffer: int = 4
    ctx: str = "cpu"
    data_name: str = "data"
    label_name: str = "softmax_label"


@dataclass(frozen=True, kw_only=True)
class _CSVOptions(_TextOptions):
    """Options of `CSVIter`.

    Parameters
    ----------
    data_csv : str
        File with the data: a path, several separated by ';', or a folder for all its files.
    data_shape : tuple of int
        Shape of one sample; a line has as many numbers as it has elements.
    label_csv : str, default 'NULL'
        File with the labels; 'NULL': all labels are 0.
    dtype : {'float32', 'int32', 'int64', None}, default None
        Element type of data and labels; None: float32.
    """

    name: ClassVar[str] = "CSVIter"
    data_csv: str
    label_csv: str = "NULL"
    dtype: Literal["float32", "int32", "int64"] | None = None


@lists_options(_CSVOptions)
def CSVIter(**options: Any) -> MXDataIter:
    r"""Batches of rows from CSV files: decimals separated by commas, without a header.

    Options are keywords; each may also be given as a string.

    Returns
    -------
    MXDataIter
        Iterator over batches.  Data have the shape (batch_size, *data_shape), labels
        (batch_size, *label_shape), or (batch_size,) if `label_shape` is (1,).

    Raises
    ------
    MXNetError
        For invalid options and missing files; while reading, for a malformed line, with its file
        and number, and for different numbers of rows in data and labels.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "rows.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("1,2\n3,4\n5,6\n")
    ...     rows = mx.io.CSVIter(data_csv=path, data_shape=(2,), batch_size=2)
    ...     batches = [(batch.data[0].asnumpy().tolist(), batch.pad) for batch in rows]
    ...     rows.close()
    >>> batches
    [([[1.0, 2.0], [3.0, 4.0]], 0), ([[5.0, 6.0], [1.0, 2.0]], 1)]
    """
    settings = options_of(_CSVOptions, options)
    dtype = np.dtype(settings.dtype or "float32")
    label_shape = () if settings.label_shape == (1,) else settings.label_shape
    if not prod(settings.data_shape) or not prod(label_shape):
        raise MXNetError(f"CSVIter: data_shape is {settings.data_shape} and label_shape "
                         f"{label_shape}, expected at least one element in a row")
    shapes = [(settings.batch_size, *settings.data_shape), (settings.batch_size, *label_shape)]
    streams = []
    for paths, shape in ((settings.data_csv, settings.data_shape),
                         (settings.label_csv, settings.label_shape)):
        if paths != "NULL":
            streams.append(RowStream(blocks_of(list_files("CSVIter", paths)),
                                     CSVParser(prod(shape), dtype), settings.prefetch_buffer))

    pools = [BufferPool(shape, dtype) for shape in shapes]

    def present(columns: list[np.ndarray]) -> list[NDArray]:
        arrays = [pool.acquire() for pool in pools]
        arrays[1][...] = 0
        for target, column in zip(arrays, columns, strict=False):
            target[...] = column.reshape(target.shape)
        return [NDArray(target, cpu()) for target in arrays]

    names = (settings.data_name, settings.label_name)
    described = [DataDesc(name, shape, dtype.type)
                 for name, shape in zip(names, shapes, strict=True)]
    return _RowIter(settings, (described[0], described[1]), streams, present)


@dataclass(frozen=True, kw_only=True)
class _LibSVMOptions(_TextOptions):
    """Options of `LibSVMIter`.

    Parameters
    ----------
    data_libsvm : str
        File with the data: a path, several separated by ';', or a folder for all its files.
    data_shape : tuple of int
        (columns,); indices start at 0.
    label_libsvm : str, default 'NULL'
        File with the labels as rows of pairs; 'NULL': the label is the first number of a line of
        the data.
    label_shape : tuple of int, default (1,)
        (columns,) of `label_libsvm`.
    num_parts : int, default 1
        Number of parts of equal numbers of bytes that the files are divided into.
    part_index : int, default 0
        Part that is read, from 0.
    dtype : {'float32', None}, default None
        Element type; only float32.
    """

    name: ClassVar[str] = "LibSVMIter"
    data_libsvm: str
    label_libsvm: str = "NULL"
    num_parts: int = 1
    part_index: int = 0
    dtype: Literal["float32"] | None = None


@lists_options(_LibSVMOptions)
def LibSVMIter(**options: Any) -> MXDataIter:
    r"""Batches of compressed rows from LibSVM files: a label and pairs index:value in a line.

    Options are keywords; each may also be given as a string.

    Returns
    -------
    MXDataIter
        Iterator over batches.  Data are a CSRNDArray of shape (batch_size, columns), labels float32
        of shape (batch_size,), or a CSRNDArray if `label_libsvm` is given.

    Raises
    ------
    MXNetError
        For invalid options and missing files; while reading, for a malformed line or an index that
        is out of range, with file and line number.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "rows.libsvm")
    ...     with open(path, "w") as file:
    ...         _ = file.write("1 0:2 2:3\n0 1:4\n")
    ...     rows = mx.io.LibSVMIter(data_libsvm=path, data_shape=(3,), batch_size=2)
    ...     batch = rows.next()
    ...     rows.close()
    >>> batch.data[0].asnumpy().tolist(), batch.label[0].asnumpy().tolist()
    ([[2.0, 0.0, 3.0], [0.0, 4.0, 0.0]], [1.0, 0.0])
    """
    chosen = options_of(_LibSVMOptions, options)
    require_part("LibSVMIter", chosen.num_parts, chosen.part_index)
    if len(chosen.data_shape) != 1 or len(chosen.label_shape) != 1:
        raise MXNetError(f"LibSVMIter: data_shape is {chosen.data_shape} and label_shape "
                         f"{chosen.label_shape}, expected (columns,)")
    shapes: list[Shape] = [(chosen.batch_size, *chosen.data_shape),
                           (chosen.batch_size, *chosen.label_shape)]
    streams = []
    for paths, shape in ((chosen.data_libsvm, chosen.data_shape),
                         (chosen.label_libsvm, chosen.label_shape)):
        if paths != "NULL":
            blocks = blocks_of(list_files("LibSVMIter", paths), chosen.num_parts, chosen.part_index)
            streams.append(RowStream(blocks, LibSVMParser(shape[0]), chosen.prefetch_buffer))
    if len(streams) == 1:
        shapes[1] = shapes[1][:1]

    def present(columns: list[Any]) -> list[NDArray]:
        used = columns[:2] if len(streams) == 1 else columns[::2]
        return [CSRNDArray(column, cpu()) if isinstance(column, CSR) else array(column)
                for column in used]

    described = (DataDesc(chosen.data_name, shapes[0]), DataDesc(chosen.label_name, shapes[1]))
    return _RowIter(chosen, described, streams, present)
