"""`ImageRecordIter`: batches of augmented images from record files.

A batch is a job of the pipeline, divided into tasks of a few images.  A task reads its records by
offset, decodes, augments and normalizes them, each directly into its row of the batch's array,
which comes from a pool (`ndarray.buffer_pool`).

Order and augmentation depend only on the seed and on the position of a sample, for any number of
threads, so a position is all that is needed to resume exactly.

`RecordIter` does all that; subclasses define how the image and the label of a record are made.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from ..base import MXNetError
from ..context import cpu
from ..core.log import get_logger
from ..core.serialization import read_arrays, write_arrays
from ..imgproc.codecs import decode
from ..imgproc.record_augmenter import Augmentation, ImageOptions
from ..ndarray import NDArray
from ..ndarray.buffer_pool import BufferPool
from ..ops.random import rng
from ..recordio import MXRecordIO, unpack
from .data_iter import DataBatch, DataDesc
from .job_pipeline import Job, Pipeline
from .native import MXDataIter, lists_options, options_of, require_part, resume_options
from .record_table import image_list, record_offsets
from .sampler import LAST_TURN, BatchSamples, SampledIter, Sampler
from .saved_state import expect_same, saved_integer

__all__ = ["ImageRecordInt8Iter", "ImageRecordIter", "ImageRecordIter_v1", "ImageRecordUInt8Iter",
           "ImageRecordUInt8Iter_v1", "RecordIter", "RecordOptions"]

_IMAGES_PER_TASK = 8
"""Few enough to balance the load of the threads, enough to amortize synchronization."""


@dataclass(frozen=True, kw_only=True)
class RecordOptions(ImageOptions):
    """Options that select records and make batches of them.

    Parameters
    ----------
    path_imgrec : str
        Record file to read.
    batch_size : int
        Number of images in a batch.
    path_imglist : str, default ''
        List file (number, labels, path) whose labels replace those of the records, by their id.
    path_imgidx : str, default ''
        Index of the record file, which saves scanning it for the starts of the records.
    label_width : int, default 1
        Number of labels of an image.
    shuffle : bool, default False
        Visit all records in a new random order in every epoch.
    seed : int, default 0
        Seed of the order, and of the augmentation unless `seed_aug` is given.
    seed_aug : int, optional
        Seed of the augmentation.
    num_parts : int, default 1
        Number of parts that the file is divided into: parts have equal numbers of records with an
        index, equal numbers of bytes without.
    part_index : int, default 0
        Part that is read, from 0.
    round_batch : bool, default True
        What fills an incomplete last batch.  True: samples from the start of the next epoch, which
        then begins after them.  False: samples of the previous batch.  `pad` of the batch is their
        number.
    preprocess_threads : int, default 4
        Number of threads that decode and augment images.
    prefetch_buffer : int, default 4
        Number of batches that are prepared ahead.
    verbose : bool, default True
        Whether to log the file, the number of records and the number of threads.
    dtype : str, default 'float32'
        Element type of the data: 'float32', 'uint8' (pixels as they are) or 'int8' (pixels minus
        the means, clipped to -128 to 127).
    ctx : str, default 'cpu'
        Accepted for compatibility; has no effect.
    device_id : int, default 0
        Accepted for compatibility; has no effect.
    shuffle_chunk_size : int, default 0
        Accepted for compatibility; has no effect: all records are shuffled.
    shuffle_chunk_seed : int, default 0
        Accepted for compatibility; has no effect.
    data_name : str, default 'data'
        Name of the data.
    label_name : str, default 'softmax_label'
        Name of the labels.
    """

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
    """Options of `ImageRecordIter`.

    Parameters
    ----------
    aug_seq : str, default 'aug_default'
        Accepted for compatibility; 'aug_default' is the only sequence of augmenters.
    """

    name: ClassVar[str] = "ImageRecordIter"
    dtypes: ClassVar[tuple[str, ...]] = ("float32", "uint8", "int8")

    aug_seq: Literal["aug_default"] = "aug_default"


class RecordIter(SampledIter, MXDataIter):
    """Base class of the iterators over record files.

    Subclasses define `_augmented`, which returns the image of a record and writes its label, and
    `_label_size`, the number of elements of a label.

    Parameters
    ----------
    options : RecordOptions
        Parsed options.
    """

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
        size, width = options.batch_size, self._label_size()
        super().__init__(
            options.name, size, DataDesc(options.data_name, (size, *options.data_shape),
                           np.dtype(options.dtype).type),
            DataDesc(options.label_name, (size,) if width == 1 else (size, width)))
        self._sampler = Sampler(len(self._offsets), size, options.shuffle, 2 * options.seed,
                                options.round_batch)
        self._data = BufferPool((size, *options.data_shape), options.dtype)
        self._label = BufferPool((size, width), np.float32)
        self._pipeline = Pipeline(options.preprocess_threads, options.prefetch_buffer)
        self._mean = self._load_mean()
        if options.verbose:
            get_logger().info("%s: %s, %d records, %d threads", options.name, options.path_imgrec,
                              len(self._offsets), options.preprocess_threads)
        self._begin(0)

    # -- batches ----------------------------------------------------------------------------

    def _jobs(self, position: int) -> Iterator[Job]:
        for chosen in self._sampler.batches(position):
            data, label = self._data.acquire(), self._label.acquire()
            draws = self._draws(chosen.start)
            step = _IMAGES_PER_TASK
            tasks = [partial(self._fill, chosen, slice(at, at + step), draws, data, label)
                     for at in range(0, self.batch_size, step)]
            yield Job(tasks, partial(self._batch, chosen, data, label))

    def _draws(self, position: int) -> np.ndarray:
        """Uniform random draws for a batch, one row for each image."""
        seed = self._options.seed if self._options.seed_aug is None else self._options.seed_aug
        generator = rng.generator(rng.Stream(2 * seed + 1, position))
        return generator.random((self.batch_size, self._options.draws))

    def _fill(self, chosen: BatchSamples, rows: slice, draws: np.ndarray, data: np.ndarray,
              label: np.ndarray) -> None:
        for row in range(*rows.indices(self.batch_size)):
            record = int(chosen.samples[row])
            try:
                image = self._augmented(record, draws[row], label[row])
                self._options.normalize(image, draws[row], self._mean, data[row])
            except MXNetError as error:
                raise MXNetError(f"{self._options.path_imgrec}, record {record} at offset "
                                 f"{self._offsets[record]}: {error}") from error

    def _augmented(self, record: int, draws: np.ndarray, label: np.ndarray) -> np.ndarray:
        """The augmented image of a record, not yet normalized; writes its label to `label`."""
        raise NotImplementedError(f"{type(self).__name__} does not define _augmented")

    def _label_size(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} does not define _label_size")

    def _read(self, record: int) -> tuple[np.ndarray, Any]:
        """Read the image of a record, decoded, and its label."""
        content = self._reader.read_at(int(self._offsets[record]))
        channels = self._options.data_shape[0]
        try:
            header, encoded = unpack(content)
            image = decode(encoded, {3: 3, 1: 1}.get(channels, 0))
        except MXNetError as error:
            raise MXNetError(f"{error}.  Hint: `nbmod rec verify --decode` lists "
                             "damaged records, `rec repair --decode` drops them") from error
        if image.shape[2] != channels:
            raise MXNetError(f"the image has {image.shape[2]} channels, data_shape has "
                             f"{channels}")
        if self._labels is not None:
            if header.id not in self._labels:
                raise MXNetError(f"{self._options.path_imglist} has no label for id {header.id}")
            return image, self._labels[header.id]
        if 0 < self._options.label_width != np.size(header.label):
            raise MXNetError(f"the record has {np.size(header.label)} labels, expected "
                             f"label_width={self._options.label_width}")
        return image, header.label

    def _batch(self, chosen: BatchSamples, data: np.ndarray, label: np.ndarray) -> DataBatch:
        label = label.reshape(self.provide_label[0].shape)
        return DataBatch([NDArray(data, cpu())], [NDArray(label, cpu())], chosen.pad,
                         chosen.samples)

    # -- resume -----------------------------------------------------------------------------

    def _resume_key(self) -> dict[str, Any]:
        return {**self._sampler.state(), "bytes_of_file": self._reader.size()}

    def state_dict(self) -> dict[str, Any]:
        return {"options": resume_options(self._options), **self._resume_key(),
                "start": self._sampler.start, "position": self._position}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a position that `state_dict` returned.

        The files have the same size and the iterators the same options, apart from paths and the
        numbers of threads and of prefetched batches.
        """
        expect_same(self, state)
        expect_same(self, state.get("options", {}), **resume_options(self._options))
        expect_same(self, state, **self._resume_key())
        start = saved_integer(self, state, "start", most=LAST_TURN * self._sampler.count)
        position = saved_integer(self, state, "position", start,
                                 start + self._sampler.count + self.batch_size)
        self._sampler.start = start
        self._begin(position)

    # -- the mean image -------------------------------------------------------------------

    def _load_mean(self) -> np.ndarray:
        """The mean of each channel, or the mean image in the file `mean_img`.

        A missing file is written, with the mean of all augmented images.
        """
        path = self._options.mean_img
        if not path:
            return self._options.means()
        if not os.path.exists(path):
            get_logger().info("%s: cannot find %s, the mean image is computed",
                              self._options.name, path)
            total = np.zeros(self._options.data_shape)
            label = np.empty(self._label.shape[1:], np.float32)
            for record in range(len(self._offsets)):
                total += self._augmented(record, self._draws(record)[0], label).transpose(2, 0, 1)
            write_arrays(path, [(total / len(self._offsets)).astype(np.float32)], ["mean_img"])
        arrays, names = read_arrays(path)
        mean = dict(zip(names, arrays, strict=False)).get("mean_img")
        if not isinstance(mean, np.ndarray) or mean.shape != self._options.data_shape:
            shape = mean.shape if isinstance(mean, np.ndarray) else "no such array"
            raise MXNetError(f"{path}: expected an array mean_img of shape "
                             f"{self._options.data_shape}, found {shape}")
        return np.ascontiguousarray(mean, np.float32)


class _ImageRecordIter(RecordIter):
    """See `ImageRecordIter`."""

    _options: _ImageRecordOptions

    def _label_size(self) -> int:
        return self._options.label_width

    def _augmented(self, record: int, draws: np.ndarray, label: np.ndarray) -> np.ndarray:
        image, label[:] = self._read(record)
        return self._options.augment(image, draws)


@lists_options(_ImageRecordOptions)
def ImageRecordIter(**options: Any) -> MXDataIter:
    """Batches of images from a record file, decoded and augmented by threads.

    Options are keywords; each may also be given as a string.

    Returns
    -------
    MXDataIter
        Iterator over batches.  Data have the shape (batch_size, *data_shape), with the channels in
        the order red, green, blue, alpha; labels are float32 of shape (batch_size,), or
        (batch_size, label_width).

    Raises
    ------
    MXNetError
        For invalid options, a file that cannot be read, or a part without records; while reading,
        for a damaged record or image, with the file, the record and its offset.

    Notes
    -----
    The steps are, in this order: resize; rotate, shear and scale; pad; crop; change colors (only of
    images with three channels); mirror; normalize.  With dtype 'float32', the last is::

        out = (image - mean) * scale / std * contrast + illumination * scale

    with `contrast` from 1 - max_random_contrast to 1 + max_random_contrast, and `illumination` from
    -max_random_illumination to max_random_illumination.  The same seed yields the same batches for
    any number of threads.
    """
    return _ImageRecordIter(options_of(_ImageRecordOptions, options))


@lists_options(_ImageRecordOptions, "dtype")
def ImageRecordUInt8Iter(**options: Any) -> MXDataIter:
    """`ImageRecordIter` with dtype 'uint8': pixels as they are, not normalized.

    Returns
    -------
    MXDataIter
        Iterator over batches.
    """
    return ImageRecordIter(**options | {"dtype": "uint8"})


@lists_options(_ImageRecordOptions, "dtype")
def ImageRecordInt8Iter(**options: Any) -> MXDataIter:
    """`ImageRecordIter` with dtype 'int8': pixels minus the means, clipped to -128 to 127.

    Returns
    -------
    MXDataIter
        Iterator over batches.
    """
    return ImageRecordIter(**options | {"dtype": "int8"})


ImageRecordIter_v1, ImageRecordUInt8Iter_v1 = ImageRecordIter, ImageRecordUInt8Iter
"""Former versions, which take the same options."""
