"""`MNISTIter`: handwritten digits from the files of their authors."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar, Literal

import numpy as np

from ..base import MXNetError
from ..context import cpu
from ..core.compressed import read_decompressed
from ..core.log import get_logger
from ..ndarray import NDArray
from ..ndarray.buffer_pool import BufferPool
from ..ops.jit import kernel
from .data_iter import DataBatch, DataDesc
from .native import MXDataIter, lists_options, options_of, require_part, resume_options
from .saved_state import expect_same, saved_integer

__all__ = ["MNISTIter", "read_idx"]

_MAX_DECOMPRESSED = 1 << 28
"""A compressed file may expand to any size; MNIST has 47 MB, EMNIST and its kind 200."""


@dataclass(frozen=True)
class _Options:
    """Options of `MNISTIter`.

    Parameters
    ----------
    image : str, default './train-images-idx3-ubyte'
        File with the images.
    label : str, default './train-labels-idx1-ubyte'
        File with the labels.
    batch_size : int, default 128
        Number of images in a batch.
    shuffle : bool, default True
        Read the images in a random order, which is the same in every epoch.
    flat : bool, default False
        Whether an image is a vector instead of an array (1, rows, columns).
    seed : int, default 0
        Seed of the random order.
    silent : bool, default False
        Whether not to log what was read.
    num_parts : int, default 1
        Number of parts that the images are divided into; the last one has the remainder, too.
    part_index : int, default 0
        Part that is read, from 0.
    prefetch_buffer : int, default 4
        Accepted for compatibility; has no effect: all images are in memory.
    ctx : str, default 'cpu'
        Accepted for compatibility; has no effect.
    dtype : {'float32', None}, default None
        Element type of the data; only float32.
    data_name : str, default 'data'
        Name of the data.
    label_name : str, default 'softmax_label'
        Name of the labels.
    """

    name: ClassVar[str] = "MNISTIter"
    image: str = "./train-images-idx3-ubyte"
    label: str = "./train-labels-idx1-ubyte"
    batch_size: int = 128
    shuffle: bool = True
    flat: bool = False
    seed: int = 0
    silent: bool = False
    num_parts: int = 1
    part_index: int = 0
    prefetch_buffer: int = 4
    ctx: str = "cpu"
    dtype: Literal["float32"] | None = None
    data_name: str = "data"
    label_name: str = "softmax_label"


def read_idx(path: str | os.PathLike[str], dimensions: int) -> np.ndarray:
    """Return the contents of an idx-ubyte file, uint8, which may be compressed with gzip.

    Parameters
    ----------
    path : str or path-like
        File to read.
    dimensions : int
        Number of dimensions that the file must have.

    Raises
    ------
    MXNetError
        If the file cannot be read or is damaged; names the file, what was expected and found.
    """
    data = read_decompressed(path, "an idx-ubyte file", _MAX_DECOMPRESSED)
    head = 4 + 4 * dimensions
    if len(data) < head or data[:4] != bytes((0, 0, 8, dimensions)):
        raise MXNetError(f"{path}: expected an idx-ubyte file of {dimensions} dimension(s), which "
                         f"starts with {bytes((0, 0, 8, dimensions)).hex(' ')}, found "
                         f"{data[:4].hex(' ') or 'nothing'}")
    shape = tuple(int(size) for size in np.frombuffer(data, ">u4", dimensions, 4))
    if not 0 < prod(shape[1:]) <= _MAX_DECOMPRESSED:     # of which there may be no image
        raise MXNetError(f"{path}: expected images of 1 to {_MAX_DECOMPRESSED:,} pixels, found "
                         f"shape {shape}")
    if len(data) - head != prod(shape):
        raise MXNetError(f"{path}: expected {prod(shape):,} bytes for shape {shape}, found "
                         f"{len(data) - head:,}")
    return np.frombuffer(data, np.uint8, offset=head).reshape(shape)


_SCALE = np.float32(1 / 256)


@kernel(plain=lambda pixels, out: np.multiply(pixels, _SCALE, out=out))
def _scale(pixels: np.ndarray, out: np.ndarray) -> None:
    """out = pixels / 256."""
    for k in range(out.size):
        out[k] = np.float32(pixels[k]) * _SCALE


class _MNISTIter(MXDataIter):
    """See `MNISTIter`."""

    def __init__(self, options: _Options):
        images, labels = read_idx(options.image, 3), read_idx(options.label, 1)
        if len(images) != len(labels):
            raise MXNetError(f"MNISTIter: {len(images)} images in {options.image!r}, "
                             f"{len(labels)} labels in {options.label!r}")
        require_part("MNISTIter", options.num_parts, options.part_index)
        order = np.arange(len(images))
        if options.shuffle:
            order = np.random.Generator(np.random.Philox(options.seed)).permutation(order)
        size, first = len(order) // options.num_parts, options.part_index
        last = len(order) if first == options.num_parts - 1 else size * (first + 1)
        order = order[size * first:last]
        # Every epoch has the same order, so permute once; batches are then slices.
        self._images, self._labels = images[order], labels[order].astype(np.float32)
        self._resume_key = {**resume_options(options), "images": len(images)}
        shape = (prod(images.shape[1:]),) if options.flat else (1, *images.shape[1:])
        self._images = self._images.reshape(-1, *shape)
        self._shape = (options.batch_size, *shape)
        self._pool = BufferPool(self._shape, np.float32)
        super().__init__("MNISTIter", options.batch_size, DataDesc(options.data_name, self._shape),
                         DataDesc(options.label_name, (options.batch_size,)))
        self._index = np.zeros(options.batch_size, np.int64)
        self._cursor = 0
        if not options.silent:
            get_logger().info("MNISTIter: load %d images, shuffle=%d, shape=%s", len(self._images),
                              options.shuffle, self._shape)

    def next_batch(self) -> DataBatch:
        start, self._cursor = self._cursor, self._cursor + self.batch_size
        images = self._images[start:self._cursor]
        if len(images) < self.batch_size:
            self._cursor = start
            raise StopIteration
        data = self._pool.acquire()
        _scale(images.reshape(-1), data.reshape(-1))
        label = NDArray(self._labels[start:self._cursor].copy(), cpu())
        return DataBatch([NDArray(data, cpu())], [label], 0, self._index.copy())

    def reset(self) -> None:
        self._cursor, self.current_batch = 0, None

    def state_dict(self) -> dict[str, Any]:
        return {**self._resume_key, "cursor": self._cursor}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        expect_same(self, state, **self._resume_key)
        self._cursor = saved_integer(self, state, "cursor", most=len(self._images))
        self.current_batch = None


@lists_options(_Options)
def MNISTIter(**options: Any) -> MXDataIter:
    """Batches of handwritten digits from idx-ubyte files, which may be compressed with gzip.

    Options are keywords; each may also be given as a string.

    Returns
    -------
    MXDataIter
        Iterator over batches.  Data are float32 from 0 to 255/256, of shape (batch_size, 1, rows,
        columns), or (batch_size, rows * columns) if `flat`; labels are float32 of shape
        (batch_size,).  An incomplete last batch is discarded.

    Raises
    ------
    MXNetError
        For invalid options, and for files that are missing, damaged or of different lengths.

    Examples
    --------
    >>> import os, struct, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     image, label = os.path.join(folder, "images"), os.path.join(folder, "labels")
    ...     with open(image, "wb") as file:
    ...         _ = file.write(struct.pack(">4I", 0x803, 4, 2, 3) + bytes(range(24)))
    ...     with open(label, "wb") as file:
    ...         _ = file.write(struct.pack(">2I", 0x801, 4) + bytes([7, 2, 1, 0]))
    ...     digits = mx.io.MNISTIter(image=image, label=label, batch_size=2, shuffle=False,
    ...                              silent=True)
    >>> batch = digits.next()
    >>> batch.data[0].shape, batch.label[0].asnumpy().tolist()
    ((2, 1, 2, 3), [7.0, 2.0])
    """
    return _MNISTIter(options_of(_Options, options))
