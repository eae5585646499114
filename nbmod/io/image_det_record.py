"""`ImageDetRecordIter`: images and the boxes of the objects in them, from record files.

The label of a record is a row of numbers: A, B, A - 2 further numbers, then B for each object:
class, left, top, right, bottom as fractions of width and height, B - 5 further numbers.  A batch
has a row

    channels, height, width, n | the n numbers of that label | label_pad_value, ...

for each image, with the size and the label of the augmented image.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from ..base import MXNetError
from ..imgproc.record_det_augmenter import DetAugmentation, read_label
from .image_record import RecordIter, RecordOptions
from .native import MXDataIter, options_of
from .record_table import label_lengths

__all__ = ["ImageDetRecordIter"]

_HEAD = 4
_SHORTEST = 7  # a header of two numbers and an object of five


@dataclass(frozen=True, kw_only=True)
class _DetRecordOptions(DetAugmentation, RecordOptions):
    """See `ImageDetRecordIter`."""

    name: ClassVar[str] = "ImageDetRecordIter"
    dtypes: ClassVar[tuple[str, ...]] = ("float32",)

    aug_seq: Literal["det_aug_default"] = "det_aug_default"
    label_width: int = -1
    label_pad_width: int = 0
    label_pad_value: float = -1.0


class _ImageDetRecordIter(RecordIter):
    """See `ImageDetRecordIter`."""

    _options: _DetRecordOptions

    def _label_numbers(self) -> int:
        longest = (max(map(len, self._labels.values()), default=0) if self._labels is not None
                   else int(label_lengths(self._reader, self._offsets).max()))
        options, given = self._options, self._options.label_pad_width
        path = options.path_imglist or options.path_imgrec
        if longest < _SHORTEST:
            raise MXNetError(f"{options.name}: the longest label in {path} has {longest} numbers, "
                             f"expected at least {_SHORTEST}: a header of 2 and an object of 5")
        if 0 < given < longest:
            raise MXNetError(f"{options.name}: label_pad_width is {given}, expected at least "
                             f"{longest}: so long is the longest label in {path}")
        return _HEAD + max(given, longest)

    def _cut(self, record: int, draws: np.ndarray, label: np.ndarray) -> np.ndarray:
        image, numbers = self._read(record)
        image, changed = self._options.cut(image, read_label(numbers), draws)
        told = np.concatenate([changed.header, changed.objects.ravel()])
        label[:_HEAD] = image.shape[2], *image.shape[:2], len(told)
        label[_HEAD:_HEAD + len(told)] = told
        label[_HEAD + len(told):] = self._options.label_pad_value
        channels, *size = self._options.data_shape
        if image.shape[:2] == tuple(size):
            return image
        whole = np.zeros((*size, channels), np.uint8)
        whole[:image.shape[0], :image.shape[1]] = image
        return whole


def ImageDetRecordIter(**options: Any) -> MXDataIter:
    """Batches of images and of the boxes of objects in them, from a record file.

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
    label_width : int, default -1
        Number of elements of every label in the file; -1: any.
    label_pad_width : int, default 0
        Length that labels are padded to; 0 or -1: the length of the longest label of the part that
        is read.
    label_pad_value : float, default -1
        Value that labels are padded with.
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
        Element type of the data; only 'float32'.
    resize : int, default -1
        Length that the shorter side of the image is resized to first; not positive: no resizing.
    inter_method : int, default 1
        Interpolation: 0 nearest, 1 linear, 2 cubic, 3 area, 4 Lanczos, 9 cubic where both sides
        grow, area where both shrink and linear otherwise, 10 one of 0 to 4 at random.
    rand_crop_prob : float, default 0
        Probability of a random crop.
    num_crop_sampler : int, default 1
        Number of crop samplers, which are tried in random order.  The options of crops below have
        one number for all samplers, or one for each.
    max_crop_trials : int or tuple of int, default (25,)
        Number of windows that a sampler tries.
    min_crop_scales : float or tuple of float, default (0,)
        Smallest scale of a window: the square root of its share of the image's area.
    max_crop_scales : float or tuple of float, default (1,)
        Largest scale of a window.
    min_crop_aspect_ratios : float or tuple of float, default (1,)
        Smallest ratio of width to height of a window.
    max_crop_aspect_ratios : float or tuple of float, default (1,)
        Largest ratio of width to height of a window.
    min_crop_overlaps : float or tuple of float, default (0,)
        Smallest intersection over union (IoU) of a window and an object; a window is accepted if at
        least one object meets all three pairs of limits.
    max_crop_overlaps : float or tuple of float, default (1,)
        Largest intersection over union.
    min_crop_sample_coverages : float or tuple of float, default (0,)
        Smallest share of the window that the object covers.
    max_crop_sample_coverages : float or tuple of float, default (1,)
        Largest share of the window that the object covers.
    min_crop_object_coverages : float or tuple of float, default (0,)
        Smallest share of the object that is inside the window.
    max_crop_object_coverages : float or tuple of float, default (1,)
        Largest share of the object that is inside the window.
    crop_emit_mode : {'center', 'overlap'}, default 'center'
        Which objects remain after a crop: those whose center is inside the window, or those of
        which a larger share than `emit_overlap_thresh` is inside.
    emit_overlap_thresh : float, default 0.3
        Share of an object, see `crop_emit_mode`.
    rand_pad_prob : float, default 0
        Probability of padding, which places the image at random in a larger one.
    max_pad_scale : float, default 1
        Largest ratio of the padded sides to the original ones.
    max_random_hue : int, default 0
        Largest random change of the hue, in units of 2 degrees.
    random_hue_prob : float, default 0
        Probability of a change of the hue.
    max_random_saturation : int, default 0
        Largest random change of the saturation, from 0 to 255.
    random_saturation_prob : float, default 0
        Probability of a change of the saturation.
    max_random_illumination : int, default 0
        Largest random change of the lightness, from 0 to 255.
    random_illumination_prob : float, default 0
        Probability of a change of the lightness.
    max_random_contrast : float, default 0
        Largest random change of the factor of pixels, as a share.
    random_contrast_prob : float, default 0
        Probability of a change of the factor of pixels.
    rand_mirror_prob : float, default 0
        Probability of mirroring the image horizontally.
    fill_value : int, default 127
        Value of pixels that padding adds, from 0 to 255.
    resize_mode : {'force', 'shrink', 'fit'}, default 'force'
        How images are resized to `data_shape`.  'force': to exactly that size.  'fit': to the
        largest size of the same aspect ratio within it.  'shrink': as 'fit', but smaller images
        keep their size.
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
    aug_seq : str, default 'det_aug_default'
        Accepted for compatibility; 'det_aug_default' is the only sequence of augmenters.
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
        Iterator over batches.  Data are float32 of shape (batch_size, *data_shape), with the
        channels in the order red, green, blue, alpha; an image that is smaller is stored in the
        upper left corner, and the rest is zeros, from which the means are subtracted as well.
        Labels have the shape (batch_size, 4 + padded length) and the form described in
        `nbmod.io.image_det_record`.

    Raises
    ------
    MXNetError
        For invalid options, a file that cannot be read, labels that are too short, or a
        `label_pad_width` that is too small; while reading, for a damaged record or image, with the
        file, the record and its offset.

    Notes
    -----
    An option with another name has no effect; if it resembles a known one, there is a warning.
    """
    return _ImageDetRecordIter(options_of(_DetRecordOptions, options))
