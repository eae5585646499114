"""`ImageIter`: images from a record file, a list, or image files, changed by augmenters."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from ..base import CheckError, MXNetError, NoSuchFile
from ..context import cpu
from ..core.log import get_logger
from ..io import DataBatch, DataIter
from ..io.data_iter import (
    DamagedState,
    global_random_states,
    require_batches,
    set_global_random_states,
)
from ..io.native import require_part
from ..io.record_table import record_offsets
from ..io.saved_state import expect_same, saved_integer
from ..ndarray import NDArray, array
from ..ndarray.buffer_pool import BufferPool
from ..recordio import MXIndexedRecordIO, MXRecordIO, unpack
from ..recordio.lists import read_list
from . import image_functions
from .augmenter_lists import CreateAugmenter

__all__ = ["ImageIter"]


class ImageIter(DataIter):
    """Batches of images and labels from a record file, or from image files.

    Subclasses may override `next_sample`, `imdecode`, `check_valid_image`, `augmentation_transform`
    and `postprocess_data`.

    Parameters
    ----------
    batch_size : int
        Number of images in a batch.
    data_shape : tuple of int
        Shape of an image in a batch, (3, height, width).
    label_width : int, default 1
        Number of labels of an image.
    path_imgrec : str, optional
        Record file to read.
    path_imglist : str, optional
        List file (number, labels, path).  With a record file it replaces the labels of the records,
        by number; otherwise it names the image files.
    path_root : str, optional
        Folder that the paths of a list are relative to.
    path_imgidx : str, optional
        Index of the record file; without one, the file is scanned for the starts of the records.
    shuffle : bool, default False
        Visit the images in a new random order in every epoch, by Python's `random`.
    part_index : int, default 0
        Part that is read, from 0.
    num_parts : int, default 1
        Number of equal parts that the images are divided into; the remainder is left out.
    aug_list : list of Augmenter, optional
        Augmenters; None: `CreateAugmenter(data_shape, **kwargs)`.
    imglist : list, optional
        Lists of labels and a path, in place of a list file: `[[label, path], ...]`.
    data_name : str, default 'data'
        Name of the data.
    label_name : str, default 'softmax_label'
        Name of the labels.
    dtype : str, default 'float32'
        Element type of the data.
    last_batch_handle : {'pad', 'discard', 'roll_over'}, default 'pad'
        What becomes of a last batch that is not full: it is filled from the start, dropped, or its
        images become the beginning of the next epoch.
    **kwargs
        Arguments of `CreateAugmenter`, if `aug_list` is None.

    Raises
    ------
    MXNetError
        If no source is given, there are no images, or an option is invalid; while reading, for
        damaged records and files, and for augmented images of another shape than `data_shape`.
    ValueError
        If `data_shape` is not (3, height, width).

    Notes
    -----
    Data have the shape (batch_size, *data_shape); labels are float32 of shape (batch_size,), or
    (batch_size, label_width).
    """

    def __init__(self, batch_size: int, data_shape: Sequence[int], label_width: int = 1,
                 path_imgrec: str | None = None, path_imglist: str | None = None,
                 path_root: str | None = None, path_imgidx: str | None = None,
                 shuffle: bool = False, part_index: int = 0, num_parts: int = 1,
                 aug_list: Any = None, imglist: Any = None, data_name: str = "data",
                 label_name: str = "softmax_label", dtype: str = "float32",
                 last_batch_handle: str = "pad", **kwargs: Any):
        super().__init__(batch_size)
        if path_imgrec is None and path_imglist is None and imglist is None:
            raise CheckError(f"{type(self).__name__}: give path_imgrec, path_imglist or imglist")
        require_batches(type(self).__name__, batch_size, last_batch_handle)
        require_part(type(self).__name__, num_parts, part_index)
        self.check_data_shape(data_shape)
        self.data_shape, self.label_width, self.dtype = tuple(data_shape), label_width, dtype
        self.path_root, self.shuffle = path_root, shuffle
        self.last_batch_handle = last_batch_handle
        self.imglist = self._read_list(path_imglist, imglist)
        self.imgrec: MXIndexedRecordIO | None = None
        if path_imgrec is not None:
            self.imgrec = (_UnindexedRecords(path_imgrec) if path_imgidx is None
                           else MXIndexedRecordIO(path_imgidx, path_imgrec, "r"))
        self.imgidx = self.imgrec
        seq = list(self.imgrec.keys) if self.imgrec is not None else list(self.imglist or ())
        size = len(seq) // num_parts
        self.seq = seq[part_index * size:(part_index + 1) * size] if num_parts > 1 else seq
        if not self.seq:
            raise MXNetError(f"{type(self).__name__}: there are no images")
        self.provide_data = [(data_name, (batch_size, *self.data_shape))]
        labels = (batch_size,) if label_width == 1 else (batch_size, label_width)
        self.provide_label = [(label_name, labels)]
        self.auglist: list[Any] = (CreateAugmenter(data_shape, **kwargs) if aug_list is None
                                   else aug_list)
        self.cur = 0
        self._rolled_over: tuple[NDArray, NDArray, int] | None = None
        self._pools: tuple[BufferPool, BufferPool] | None = None
        self._allow_read = True
        self.num_image = len(self.seq)
        self.reset()

    # -- sources ----------------------------------------------------------------------------

    def _read_list(self, path: str | None, listed: Any) -> dict[Any, tuple[np.ndarray, str]] | None:
        """Id -> labels and path."""
        if path is not None:
            return {entry.number: (np.array(entry.labels, np.float32), entry.path)
                    for entry in read_list(path)}
        if listed is None:
            return None
        if not isinstance(listed, (list, tuple)):
            raise CheckError(f"{type(self).__name__}: imglist is a {type(listed).__name__}, "
                             "expected a list of [label, ..., path]")
        entries = {}
        for number, (*labels, name) in enumerate(listed, 1):
            label = np.ravel(np.asarray(labels[0] if len(labels) == 1 else labels, np.float32))
            entries[str(number)] = (label, name)
        return entries

    def reset(self) -> None:
        self._order_copy: tuple[list[Any], list[Any]] | None = None
        if self.shuffle:
            random.shuffle(self.seq)
        if self._rolled_over is None or self.last_batch_handle != "roll_over":
            self._rolled_over = None
        self.cur, self._allow_read = 0, True

    def hard_reset(self) -> None:
        """Start an epoch, and discard images that were kept by 'roll_over'."""
        self._rolled_over = None
        self.reset()

    def next_sample(self) -> tuple[Any, bytes]:
        """Read the next sample.

        Returns
        -------
        float, numpy.ndarray or NDArray
            Labels: those of the record, or an NDArray from a list.
        bytes
            Encoded image.

        Raises
        ------
        StopIteration
            At the end of the epoch.
        """
        if self.cur >= len(self.seq):
            raise StopIteration
        key = self.seq[self.cur]
        self.cur += 1
        if self.imgrec is not None:
            header, data = unpack(self.imgrec.read_idx(key))
            if self.imglist is None:
                return header.label, data
            if key not in self.imglist:
                raise MXNetError(f"{type(self).__name__}: the list has no labels for number {key} "
                                 f"of {self.imgrec.uri}")
            return array(self.imglist[key][0]), data
        assert self.imglist is not None
        label, name = self.imglist[key]
        return array(label), self.read_image(name)

    def read_image(self, fname: str) -> bytes:
        """Read a file relative to `path_root`.

        Parameters
        ----------
        fname : str
            Path.

        Raises
        ------
        MXNetError
            If the file cannot be read.
        """
        path = fname if self.path_root is None else os.path.join(self.path_root, fname)
        try:
            with open(path, "rb") as file:
                return file.read()
        except (OSError, ValueError) as error:  # ValueError: a null byte in the path
            kind = NoSuchFile if isinstance(error, FileNotFoundError) else MXNetError
            raise kind(f"{type(self).__name__}: {path!r} cannot be read: {error}") from error

    # -- processing -------------------------------------------------------------------------

    def imdecode(self, s: bytes) -> NDArray:
        """Decode an image as uint8 of shape (height, width, 3).

        Parameters
        ----------
        s : bytes
            Encoded image.
        """
        return image_functions.imdecode(s)

    def check_data_shape(self, data_shape: Sequence[int]) -> None:
        """Check the shape of images in a batch.

        Parameters
        ----------
        data_shape : sequence of int
            Shape of an image.

        Raises
        ------
        ValueError
            Unless it is (3, height, width).
        """
        if len(data_shape) != 3:
            raise ValueError("data_shape should have length 3, with dimensions CxHxW")
        if data_shape[0] != 3:
            raise ValueError("This iterator expects inputs to have 3 channels.")

    def check_valid_image(self, data: Sequence[NDArray]) -> None:
        """Check a decoded image; a RuntimeError excludes it from the batch.

        Parameters
        ----------
        data : list of NDArray
            The image.

        Raises
        ------
        RuntimeError
            For an image without pixels.
        """
        if len(data[0].shape) == 0:
            raise RuntimeError("Data shape is wrong")

    def augmentation_transform(self, data: NDArray) -> NDArray:
        """Apply all augmenters to an image.

        Parameters
        ----------
        data : NDArray
            Image of shape (height, width, channels).
        """
        for aug in self.auglist:
            data = aug(data)
        return data

    def postprocess_data(self, datum: NDArray) -> NDArray:
        """Transpose an image to (channels, height, width).

        Parameters
        ----------
        datum : NDArray
            Image of shape (height, width, channels).
        """
        return datum.transpose((2, 0, 1))

    # -- batches ----------------------------------------------------------------------------

    def next(self) -> DataBatch:
        """Return the next batch, a `DataBatch`; raises StopIteration at the end of the epoch."""
        if not self._allow_read:
            raise StopIteration
        data, label, start = self._rolled_over or (*self._acquire(), 0)
        rolled, self._rolled_over = start, None
        filled = self._batchify(data, label, start)
        pad = self.batch_size - rolled if rolled else 0
        if filled < self.batch_size:
            self._allow_read = False
            if filled == 0 or self.last_batch_handle == "discard":
                raise StopIteration
            if self.last_batch_handle == "roll_over":
                self._rolled_over = (data, label, filled)
                raise StopIteration
            pad = self.batch_size - filled
            while filled < self.batch_size:
                self.cur, before = 0, filled
                filled = self._batchify(data, label, filled)
                if filled == before:
                    raise MXNetError(f"{type(self).__name__}: checks reject every image")
        return DataBatch([data], [label], pad)

    def _acquire(self) -> tuple[NDArray, NDArray]:
        """Uninitialized data and labels of a batch."""
        shapes = tuple(self.provide_data[0][1]), tuple(self.provide_label[0][1])
        if self._pools is None or tuple(pool.shape for pool in self._pools) != shapes:
            self._pools = BufferPool(shapes[0], self.dtype), BufferPool(shapes[1], np.float32)
        data, label = (NDArray(pool.acquire(), cpu()) for pool in self._pools)
        return data, label

    def _batchify(self, batch_data: NDArray, batch_label: NDArray, start: int = 0) -> int:
        """Fill rows from `start` on; returns the end of the filled rows."""
        filled = start
        for data, label in islice(self._samples(), self.batch_size - start):
            image = self.postprocess_data(data)
            if image.shape != batch_data.shape[1:]:
                raise MXNetError(f"{type(self).__name__}: augmenters made an image of shape "
                                 f"{image.shape}, expected {batch_data.shape[1:]}")
            batch_data[filled] = image
            self._set_label(batch_label, filled, label)
            filled += 1
        return filled

    def _samples(self) -> Iterator[tuple[NDArray, Any]]:
        """The rest of the epoch: augmented images with their labels.

        Images for which a check raises a RuntimeError are skipped.
        """
        while True:
            try:
                label, encoded = self.next_sample()
            except StopIteration:
                return
            try:
                data = self.imdecode(encoded)
            except MXNetError as error:
                raise MXNetError(f"{type(self).__name__}: {self._last_name()}: {error}") from error
            sample = self._augmented(data, label)
            if sample is not None:
                yield sample

    def _augmented(self, data: NDArray, label: Any) -> tuple[NDArray, Any] | None:
        try:
            self.check_valid_image([data])
        except RuntimeError as error:
            self._log_skipped(error)
            return None
        return self.augmentation_transform(data), label

    def _log_skipped(self, error: RuntimeError) -> None:
        get_logger().debug("%s: %s is skipped: %s", type(self).__name__, self._last_name(),
                           error)

    def _last_name(self) -> str:
        """Description of the image that was read last."""
        key = self.seq[self.cur - 1]
        if self.imgrec is not None:
            return f"{self.imgrec.uri}, record {key}"
        return f"sample {key}" if self.imglist is None else self.imglist[key][1]

    def _set_label(self, batch_label: NDArray, row: int, label: Any) -> None:
        values = np.asarray(label.asnumpy() if isinstance(label, NDArray) else label, np.float32)
        if values.size != self.label_width:
            raise MXNetError(f"ImageIter: {self._last_name()}: {values.size} labels, expected "
                             f"label_width={self.label_width}")
        batch_label[row] = array(values.reshape(batch_label.shape[1:] or (1,)))

    # -- resume -----------------------------------------------------------------------------

    def _resume_key(self) -> dict[str, Any]:
        return {"batch_size": self.batch_size, "data_shape": list(self.data_shape),
                "last_batch_handle": self.last_batch_handle,
                "bytes_of_file": 0 if self.imgrec is None else self.imgrec.size()}

    def state_dict(self) -> dict[str, Any]:
        """Return the order, the position, and the random states of Python and NumPy.

        All states of an epoch share the list `order`.
        """
        rolled_over = self._rolled_over and [self._rolled_over[0].asnumpy(),
                                             self._rolled_over[1].asnumpy(), self._rolled_over[2]]
        return {**self._resume_key(), "order": self._order(), "cur": self.cur,
                "reads": self._allow_read, "kept": rolled_over, "random": global_random_states()}

    def _order(self) -> list[Any]:
        """A copy of `seq`, made once per epoch."""
        if self._order_copy is None or self._order_copy[0] is not self.seq:
            self._order_copy = self.seq, list(self.seq)
        return self._order_copy[1]

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Set the random generators of Python and NumPy to their saved states, too.

        The state is that of an iterator over the same images with the same `batch_size`,
        `data_shape` and `last_batch_handle`.
        """
        expect_same(self, state, **self._resume_key())
        order = self._saved_order(state)
        current = saved_integer(self, state, "cur", most=len(order))
        rolled_over = self._saved_rows(state)
        if "random" in state:
            set_global_random_states(state["random"])
        self.seq, self._order_copy = order, None
        self.cur, self._allow_read = current, state.get("reads") is True
        self._rolled_over = rolled_over

    def _saved_order(self, state: dict[str, Any]) -> list[Any]:
        """The order of a saved state: one of the images that there are."""
        order = state.get("order")
        keys = order if isinstance(order, list) else []
        try:
            same = len(keys) == len(self.seq) and {*keys} == {*self.seq}
        except TypeError:   # a key cannot be hashed
            same = False
        if not same:
            raise MXNetError(f"{type(self).__name__}: the saved state is of an iterator over "
                             f"{len(keys)} other images")
        return list(keys)

    def _saved_rows(self, state: dict[str, Any]) -> tuple[NDArray, NDArray, int] | None:
        """The images that a saved state carries over, their labels, and how many they are."""
        saved = state.get("kept")
        if saved is None:
            return None
        is_whole = isinstance(saved, (list, tuple)) and len(saved) == 3
        data, label, count = saved if is_whole else (None, None, None)
        shapes = [tuple(desc[1]) for desc in (*self.provide_data, *self.provide_label)]
        sizes = [getattr(part, "shape", None) for part in (data, label)]
        if sizes != shapes:
            raise DamagedState(f"{type(self).__name__}: the saved state's kept has arrays of "
                               f"shapes {sizes}, expected {shapes}")
        rows = saved_integer(self, {"kept": count}, "kept", most=self.batch_size - 1)
        return array(data, dtype=self.dtype), array(label), rows


class _UnindexedRecords(MXIndexedRecordIO):
    """A record file without an index: keys are 0, 1, 2, ..."""

    def __init__(self, path: str):
        MXRecordIO.__init__(self, path, "r")

    def open(self) -> None:
        MXRecordIO.open(self)
        self.fidx = None
        offsets = record_offsets(self.uri, "").tolist()
        self.keys = list(range(len(offsets)))
        self.idx = dict(enumerate(offsets))
