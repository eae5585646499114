"""`ImageRecordIter`: batches of augmented images from record files.

A batch is a job of the pipeline, cut into parts of a few images.  A part reads its records by
position, decodes, augments and normalizes them, each straight into its place in the batch's array,
which comes from a pool (`ndarray.buffer_pool`).

Order and augmentation follow from the seed and the position of a sample alone, for any number of
threads, so a position is enough to continue exactly where another iterator stopped.

`RecordIter` does all that; its subclasses define the image and the label of a record.
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
from ..imgproc.codecs import decode
from ..imgproc.record_augmenter import Augmentation, Pixels
from ..log import get_logger
from ..ndarray import NDArray
from ..ndarray.buffer_pool import BufferPool
from ..ops.random import rng
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
"""Images of a part: few enough that threads end together, enough that they rarely meet."""


@dataclass(frozen=True, kw_only=True)
class RecordOptions(Pixels):
    """Options that select records and make batches of them: see `ImageRecordIter`."""

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
    """Base class of the iterators over record files.

    `_cut` returns the image of a record and writes its label; `_label_numbers` returns the number
    of elements of such a label.

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
        size, width = options.batch_size, self._label_numbers()
        super().__init__(
            size, DataDesc(options.data_name, (size, *options.data_shape),
                           np.dtype(options.dtype).type),
            DataDesc(options.label_name, (size,) if width == 1 else (size, width)))
        self._sampler = Sampler(len(self._offsets), size, options.shuffle, 2 * options.seed,
                                options.round_batch)
        self._data = BufferPool((size, *options.data_shape), options.dtype)
        self._label = BufferPool((size, width), np.float32)
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
            data, label = self._data.acquire(), self._label.acquire()
            draws = self._draws(chosen.start)
            parts = [partial(self._fill, chosen, slice(at, at + _PART), draws, data, label)
                     for at in range(0, self.batch_size, _PART)]
            yield Job(parts, partial(self._batch, chosen, data, label))

    def _draws(self, position: int) -> np.ndarray:
        """The random numbers of a batch, a row for each image."""
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
        """One image and its label, to their places."""
        image = self._cut(record, draws, label)
        self._options.finish(image, draws, self._mean, data)

    def _cut(self, record: int, draws: np.ndarray, label: np.ndarray) -> np.ndarray:
        """The image of a record before its last steps; its label is written to `label`."""
        raise NotImplementedError(f"{type(self).__name__} does not define _cut")

    def _label_numbers(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} does not define _label_numbers")

    def _read(self, record: int) -> tuple[np.ndarray, Any]:
        """The image of a record as it is in the file, and its label."""
        content = self._reader.read_at(int(self._offsets[record]))
        channels = self._options.data_shape[0]
        try:
            header, encoded = unpack(content)
            image = decode(encoded, {3: 3, 1: 1}.get(channels, 0))
        except MXNetError as error:
            raise MXNetError(f"{error}.  Hint: `python -m nbmod rec verify --decode` lists what is "
                             "damaged, `rec repair --decode` leaves it out") from error
        if image.shape[2] != channels:
            raise MXNetError(f"the image has {image.shape[2]} channels, data_shape has "
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
        return DataBatch([NDArray(data, cpu())], [NDArray(label, cpu())], chosen.pad,
                         chosen.samples)

    def next_batch(self) -> DataBatch:
        """Return the next batch; raises StopIteration at the end of the epoch."""
        batch = self._pipeline.next()
        self._position += self.batch_size
        return batch

    def reset(self) -> None:
        """Start the next epoch; with `round_batch` after the samples that filled the last batch."""
        self._sampler.next_epoch(self._position)
        self._begin(self._sampler.start)

    def close(self) -> None:
        """End the threads."""
        self._pipeline.close()

    # -- resume -----------------------------------------------------------------------------

    def _made(self) -> dict[str, Any]:
        return {**self._sampler.state(), "bytes_of_file": self._reader.size()}

    def state_dict(self) -> dict[str, Any]:
        """Return the position and the options that determine batches: see `DataIter.state_dict`."""
        return {"options": deciding(self._options), **self._made(),
                "start": self._sampler.start, "position": self._position}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a position that `state_dict` returned.

        Parameters
        ----------
        state : dict
            State of an iterator over a file of the same size with the same options, apart from
            paths and the numbers of threads and batches made ahead.

        Raises
        ------
        MXNetError
            If one of these differs.
        """
        expect_same(self, state.get("options", {}), **deciding(self._options))
        expect_same(self, dict(state), **self._made())
        self._sampler.start = state["start"]
        self._begin(state["position"])

    # -- the mean image -------------------------------------------------------------------

    def _means(self) -> np.ndarray:
        """What is subtracted: numbers for channels, or the image in the file `mean_img`.

        A file that is not there is made, of all images as they are cut.
        """
        path = self._options.mean_img
        if not path:
            return self._options.means()
        if not os.path.exists(path):
            get_logger().info("%s: cannot find %s, the mean image is computed",
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
    """Batches of images from a record file, decoded and augmented by threads.

    Parameters
    ----------
    **options
        The options below, by keyword; each may also be given as text.
    path_imgrec : str
        Record file to read.
    data_shape : tuple of int
        Shape of an image in a batch, (channels, height, width), with 1, 3 or 4 channels.
    batch_size : int
        Number of images in a batch.
    path_imgidx : str, default ''
        Index of the record file, which saves scanning it for the starts of the records.
    path_imglist : str, default ''
        List file (number, labels, path) whose labels replace those of the records, by their id.
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
        What fills a last batch that is not full.  True: samples from the start of the next epoch,
        which then begins after them.  False: samples of the batch before.  `pad` of the batch is
        their number.
    preprocess_threads : int, default 4
        Number of threads that decode and augment images.
    prefetch_buffer : int, default 4
        Number of batches that are made ahead.
    verbose : bool, default True
        Whether to log the file, the number of records and the number of threads.
    dtype : str, default 'float32'
        Element type of the data: 'float32', 'uint8' (pixels as they are) or 'int8' (pixels minus
        the means, clipped to -128 to 127).
    resize : int, default -1
        Length that the shorter side of the image is resized to first; not positive: no resizing.
    inter_method : int, default 1
        Interpolation: 1 linear, 2 cubic, 3 area, 4 Lanczos, 9 cubic where both sides
        grow, area where both shrink and linear otherwise, 10 one of 0 to 4 at random.
    rand_crop : bool, default False
        Crop at a random position instead of the center.
    random_resized_crop : bool, default False
        Crop a window of random area, aspect ratio and position, and resize it to `data_shape`;
        excludes `rand_crop`, the crop sizes and the random scales.
    min_random_area : float, default 1
        Smallest share of the image's area for `random_resized_crop`.
    max_random_area : float, default 1
        Largest share of the image's area for `random_resized_crop`.
    max_aspect_ratio : float, default 0
        With `random_resized_crop`: largest ratio of width to height if `min_aspect_ratio` is given,
        or else the ratio is from 1 - max_aspect_ratio to 1 + max_aspect_ratio.  Without: largest
        random change of the image's aspect ratio, as a share of it.
    min_aspect_ratio : float, optional
        Smallest ratio of width to height for `random_resized_crop`.
    min_crop_size : int, default -1
        Shortest side of a random square window, see `max_crop_size`.
    max_crop_size : int, default -1
        If positive, a square window with a side of `min_crop_size` to `max_crop_size` pixels is
        cropped and resized to `data_shape`.
    max_rotate_angle : int, default 0
        Largest angle of a random rotation, in degrees, in either direction.
    rotate : int, default -1
        Angle of a fixed rotation in degrees if positive; replaces `max_rotate_angle`.
    max_shear_ratio : float, default 0
        Largest random shear, in either direction.
    min_random_scale : float, default 1
        Smallest factor of a random scaling.
    max_random_scale : float, default 1
        Largest factor of a random scaling.
    min_img_size : float, default 0
        Shortest side of an image after scaling, in pixels.
    max_img_size : float, default 1e10
        Longest side of an image after scaling, in pixels.
    pad : int, default 0
        Number of pixels added at each edge before cropping.
    fill_value : int, default 255
        Value of pixels that padding, rotation and shear add.
    brightness : float, default 0
        Largest random change of brightness, as a share: the factor is from 1 - brightness to
        1 + brightness.
    contrast : float, default 0
        Largest random change of the distance to the image's mean gray, as a share.
    saturation : float, default 0
        Largest random change of the distance to each pixel's gray, as a share.
    pca_noise : float, default 0
        Standard deviation of random shifts along the principal components of colors (Krizhevsky et
        al., "ImageNet classification with deep convolutional neural networks", 2012).
    random_h : int, default 0
        Largest random change of the hue, in units of 2 degrees.
    random_s : int, default 0
        Largest random change of the saturation, from 0 to 255.
    random_l : int, default 0
        Largest random change of the lightness, from 0 to 255.
    mirror : bool, default False
        Mirror all images horizontally.
    rand_mirror : bool, default False
        Mirror an image horizontally with probability 1/2.
    max_random_contrast : float, default 0
        Largest random change of the factor of normalized pixels, as a share.
    max_random_illumination : float, default 0
        Largest random number added to normalized pixels, before `scale`.
    mean_img : str, default ''
        File with a mean image, an array 'mean_img' of the shape `data_shape`, which is subtracted.
        A file that does not exist is written, with the mean of all images of the part as they are
        cropped.
    mean_r : float, default 0
        Mean of the red channel (of the only one if images are gray), which is subtracted;
        without effect if `mean_img` is given, as the other means.
    mean_g : float, default 0
        Mean of the green channel.
    mean_b : float, default 0
        Mean of the blue channel.
    mean_a : float, default 0
        Mean of the alpha channel.
    std_r : float, default 1
        Standard deviation of the red channel (or the only one), which is divided by; 0 counts as 1.
    std_g : float, default 1
        Standard deviation of the green channel.
    std_b : float, default 1
        Standard deviation of the blue channel.
    std_a : float, default 1
        Standard deviation of the alpha channel.
    scale : float, default 1
        Factor of the pixels after the means are subtracted.
    aug_seq : str, default 'aug_default'
        Accepted for compatibility; 'aug_default' is the only sequence of augmenters.
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

    An option with another name has no effect; if it resembles a known one, there is a warning.
    """
    return _ImageRecordIter(options_of(_ImageRecordOptions, options))


def ImageRecordUInt8Iter(**options: Any) -> MXDataIter:
    """`ImageRecordIter` with dtype 'uint8': pixels as they are, not normalized.

    Parameters
    ----------
    **options
        Options of `ImageRecordIter`; `dtype` is replaced.

    Returns
    -------
    MXDataIter
        Iterator over batches.
    """
    return ImageRecordIter(**options | {"dtype": "uint8"})


def ImageRecordInt8Iter(**options: Any) -> MXDataIter:
    """`ImageRecordIter` with dtype 'int8': pixels minus the means, clipped to -128 to 127.

    Parameters
    ----------
    **options
        Options of `ImageRecordIter`; `dtype` is replaced.

    Returns
    -------
    MXDataIter
        Iterator over batches.
    """
    return ImageRecordIter(**options | {"dtype": "int8"})


ImageRecordIter_v1, ImageRecordUInt8Iter_v1 = ImageRecordIter, ImageRecordUInt8Iter
"""Their older selves, which take the same options."""
