"""`ImageRecordIter`: pictures from record files, changed at random, as batches.

A batch is a job of the pipeline, cut into parts of a few pictures.  A part reads its records by
position, decodes, changes and normalizes them, each straight into its place in the batch's array,
which is lent (`ndarray.lending`): between the file and the network nothing is copied.

Order and changes follow from the seed and the position of a sample alone, whatever the number of
threads, so a position is all it takes to go on exactly where another iterator stopped.

`RecordIter` does all that; which picture and which label come out is for its heirs to say.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from ..base import MXNetError
from ..log import get_logger
from ..ndarray.lending import Loans, Sealed
from ..ops import rng
from ..pictures.codecs import decode
from ..pictures.native import Augmentation, Pixels
from ..recordio import IRHeader, MXRecordIO, unpack
from ..serialization import read_arrays, write_arrays
from .data import DataBatch, DataDesc, expect_same
from .native import MXDataIter, deciding, options_of, require_part
from .pipeline import Job, Pipeline
from .record_table import image_list, record_offsets
from .sampler import Chosen, Sampler

__all__ = ["ImageRecordInt8Iter", "ImageRecordIter", "ImageRecordIter_v1", "ImageRecordUInt8Iter",
           "ImageRecordUInt8Iter_v1", "RecordIter", "RecordOptions"]

_PART = 8
"""Pictures of a part: few enough that threads end together, enough that they rarely meet."""


@dataclass(frozen=True, kw_only=True)
class RecordOptions(Pixels):
    """Which records are read, by whom, and how batches are made of them.  See `ImageRecordIter`."""

    name: ClassVar[str]
    dtypes: ClassVar[tuple[str, ...]]

    path_imgrec: str
    batch_size: int
    path_imglist: str = ""
    path_imgidx: str = ""
    label_width: int = 1
    shuffle: bool = False
    seed: int = 0
    seed_aug: int | None = None
    num_parts: int = 1
    part_index: int = 0
    round_batch: bool = True
    preprocess_threads: int = 4
    prefetch_buffer: int = 4
    verbose: bool = True
    dtype: str = "float32"
    ctx: str = "cpu"
    device_id: int = 0
    shuffle_chunk_size: int = 0
    shuffle_chunk_seed: int = 0
    data_name: str = "data"
    label_name: str = "softmax_label"


@dataclass(frozen=True, kw_only=True)
class _ImageRecordOptions(Augmentation, RecordOptions):
    """See `ImageRecordIter`."""

    name: ClassVar[str] = "ImageRecordIter"
    dtypes: ClassVar[tuple[str, ...]] = ("float32", "uint8", "int8")

    aug_seq: Literal["aug_default"] = "aug_default"


class RecordIter(MXDataIter):
    """Base of the iterators over record files: `_cut` makes the picture and the label of a record,
    `_label_numbers` says how many numbers such a label has."""

    def __init__(self, options: RecordOptions):
        self._options = options
        if options.dtype not in options.dtypes:
            raise MXNetError(f"{options.name}: dtype is {options.dtype!r}, expected "
                             f"{' or '.join(map(repr, options.dtypes))}")
        require_part(options.name, options.num_parts, options.part_index)
        self._reader = MXRecordIO(options.path_imgrec, "r")
        self._offsets = record_offsets(options.path_imgrec, options.path_imgidx,
                                       options.num_parts, options.part_index)
        if not len(self._offsets):
            raise MXNetError(f"{options.name}: part {options.part_index} of {options.num_parts} "
                             f"of {options.path_imgrec} has no records")
        self._labels = (image_list(options.path_imglist, options.label_width)
                        if options.path_imglist else None)
        size, width = options.batch_size, self._label_numbers()
        super().__init__(
            size, DataDesc(options.data_name, (size, *options.data_shape),
                           np.dtype(options.dtype).type),
            DataDesc(options.label_name, (size,) if width == 1 else (size, width)))
        self._sampler = Sampler(len(self._offsets), size, options.shuffle, 2 * options.seed,
                                options.round_batch)
        self._data = Loans((size, *options.data_shape), options.dtype)
        self._label = Loans((size, width), np.float32)
        self._pipeline = Pipeline(options.preprocess_threads, options.prefetch_buffer)
        self._mean = self._means()
        if options.verbose:
            get_logger().info("%s: %s, %d records, %d threads", options.name, options.path_imgrec,
                              len(self._offsets), options.preprocess_threads)
        self._begin(0)

    # -- batches ----------------------------------------------------------------------------

    def _begin(self, position: int) -> None:
        """Go on at this position of the epoch."""
        self._position, self.current_batch = position, None
        self._pipeline.start(self._jobs(position))

    def _jobs(self, position: int) -> Iterator[Job]:
        for chosen in self._sampler.batches(position):
            data, label = self._data.rent(), self._label.rent()
            draws = self._draws(chosen.start)
            parts = [partial(self._fill, chosen, slice(at, at + _PART), draws, data, label)
                     for at in range(0, self.batch_size, _PART)]
            yield Job(parts, partial(self._batch, chosen, data, label))

    def _draws(self, position: int) -> np.ndarray:
        """The random numbers of a batch, a row for each picture."""
        seed = self._options.seed if self._options.seed_aug is None else self._options.seed_aug
        generator = rng.generator(rng.Stream(2 * seed + 1, position))
        return generator.random((self.batch_size, self._options.draws))

    def _fill(self, chosen: Chosen, rows: slice, draws: np.ndarray, data: np.ndarray,
              label: np.ndarray) -> None:
        for row in range(*rows.indices(self.batch_size)):
            record = int(chosen.samples[row])
            try:
                self._load(record, draws[row], data[row], label[row])
            except MXNetError as error:
                raise MXNetError(f"{self._options.path_imgrec}, record {record} at offset "
                                 f"{self._offsets[record]}: {error}") from error

    def _load(self, record: int, draws: np.ndarray, data: np.ndarray, label: np.ndarray) -> None:
        """One picture and its label, to their places."""
        image = self._cut(record, draws, label)
        self._options.finish(image, draws, self._mean, data)

    def _cut(self, record: int, draws: np.ndarray, label: np.ndarray) -> np.ndarray:
        """The picture of a record before its last steps; its label is written to `label`."""
        raise NotImplementedError(f"{type(self).__name__} does not define _cut")

    def _label_numbers(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} does not define _label_numbers")

    def _read(self, record: int) -> tuple[np.ndarray, Any]:
        """The picture of a record as it is in the file, and its label."""
        content = self._reader.read_at(int(self._offsets[record]))
        channels = self._options.data_shape[0]
        try:
            header, encoded = unpack(content)
            image = decode(encoded, {3: 3, 1: 1}.get(channels, 0))
        except MXNetError as error:
            raise MXNetError(f"{error}.  Hint: `python -m nbmod rec verify --decode` lists what is "
                             "damaged, `rec repair --decode` leaves it out") from error
        if image.shape[2] != channels:
            raise MXNetError(f"the picture has {image.shape[2]} channels, data_shape has "
                             f"{channels}")
        return image, self._label_of(header)

    def _label_of(self, header: IRHeader) -> Any:
        width = self._options.label_width
        if self._labels is not None:
            if header.id not in self._labels:
                raise MXNetError(f"{self._options.path_imglist} has no label for id {header.id}")
            return self._labels[header.id]
        if 0 < width != np.size(header.label):
            raise MXNetError(f"the record has {np.size(header.label)} labels, expected "
                             f"label_width={width}")
        return header.label

    def _batch(self, chosen: Chosen, data: np.ndarray, label: np.ndarray) -> DataBatch:
        label = label.reshape(self.provide_label[0].shape)
        return DataBatch([Sealed(data)], [Sealed(label)], chosen.pad, chosen.samples)

    def next_batch(self) -> DataBatch:
        batch = self._pipeline.next()
        self._position += self.batch_size
        return batch

    def reset(self) -> None:
        self._sampler.next_epoch(self._position)
        self._begin(self._sampler.start)

    def close(self) -> None:
        """End the threads."""
        self._pipeline.close()

    # -- resume -----------------------------------------------------------------------------

    def _made(self) -> dict[str, Any]:
        return {**self._sampler.state(), "bytes_of_file": self._reader.size()}

    def state_dict(self) -> dict[str, Any]:
        return {"options": deciding(self._options), **self._made(),
                "start": self._sampler.start, "position": self._position}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        expect_same(self, state.get("options", {}), **deciding(self._options))
        expect_same(self, dict(state), **self._made())
        self._sampler.start = state["start"]
        self._begin(state["position"])

    # -- the mean picture -------------------------------------------------------------------

    def _means(self) -> np.ndarray:
        """What is subtracted: numbers for channels, or the picture in the file `mean_img`.

        A file that is not there is made, of all pictures as they are cut.
        """
        path = self._options.mean_img
        if not path:
            return self._options.means()
        if not os.path.exists(path):
            get_logger().info("%s: cannot find %s, the mean picture is computed",
                              self._options.name, path)
            write_arrays(path, [self._average()], ["mean_img"])
        arrays, names = read_arrays(path)
        mean = dict(zip(names, arrays, strict=False)).get("mean_img")
        if not isinstance(mean, np.ndarray) or mean.shape != self._options.data_shape:
            found = mean.shape if isinstance(mean, np.ndarray) else "no such array"
            raise MXNetError(f"{path}: expected an array mean_img of shape "
                             f"{self._options.data_shape}, found {found}")
        return np.ascontiguousarray(mean, np.float32)

    def _average(self) -> np.ndarray:
        total = np.zeros(self._options.data_shape)
        label = np.empty(self._label.shape[1:], np.float32)
        for record in range(len(self._offsets)):
            total += self._cut(record, self._draws(record)[0], label).transpose(2, 0, 1)
        return (total / len(self._offsets)).astype(np.float32)


class _ImageRecordIter(RecordIter):
    """See `ImageRecordIter`."""

    _options: _ImageRecordOptions

    def _label_numbers(self) -> int:
        return self._options.label_width

    def _cut(self, record: int, draws: np.ndarray, label: np.ndarray) -> np.ndarray:
        image, label[:] = self._read(record)
        return self._options.cut(image, draws)


def ImageRecordIter(**options: Any) -> MXDataIter:
    """Batches of pictures from a record file, decoded and changed by threads.

    path_imgrec: the file.  path_imgidx: its index, which saves a walk through it.  path_imglist: a
    list with other labels.  data_shape: (channels, height, width).  label_width=1: how many labels
    a picture has.  batch_size, round_batch: see `io.native`.  shuffle=False, seed=0.  num_parts,
    part_index: read one of several equal parts.  preprocess_threads=4.  prefetch_buffer=4: how many
    batches are made ahead.  dtype: float32, uint8 or int8 (uint8 and int8 are not normalized, but
    int8 takes the means off).  What is done to pictures: the fields of
    `nbmod.pictures.native.Augmentation`, with MXNet's names and defaults.  ctx, device_id,
    shuffle_chunk_size and shuffle_chunk_seed are taken and mean nothing: all records are shuffled.

    Data have shape (batch_size, *data_shape), red first; labels (batch_size,), or (batch_size,
    label_width).  Raises MXNetError that names file, record and offset.
    """
    return _ImageRecordIter(options_of(_ImageRecordOptions, options))


def ImageRecordUInt8Iter(**options: Any) -> MXDataIter:
    """`ImageRecordIter` with dtype uint8: pixels as they are."""
    return ImageRecordIter(**options | {"dtype": "uint8"})


def ImageRecordInt8Iter(**options: Any) -> MXDataIter:
    """`ImageRecordIter` with dtype int8: pixels less the means, from -128 to 127."""
    return ImageRecordIter(**options | {"dtype": "int8"})


ImageRecordIter_v1, ImageRecordUInt8Iter_v1 = ImageRecordIter, ImageRecordUInt8Iter
"""Their older selves, which take the same options."""
