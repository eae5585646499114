"""`ImageDetRecordIter`: images and the bounding boxes of the objects in them, from record files.

The label of a record is a row of elements: A, B, A - 2 further elements, then B for each object:
class, left, top, right, bottom as fractions of width and height, B - 5 further elements.  A batch
has a row

    channels, height, width, n | the n elements of that label | label_pad_value, ...

for each image, with the size and the label of the augmented image.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from ..base import MXNetError
from ..imgproc.record_det_augmenter import DetAugmentation, parse_label
from .image_record import RecordIter, RecordOptions
from .native import MXDataIter, lists_options, options_of
from .record_table import label_lengths

__all__ = ["ImageDetRecordIter"]

_PREFIX = 4
_MIN_LABEL = 7  # a header of two elements and an object of five


@dataclass(frozen=True, kw_only=True)
class _DetRecordOptions(DetAugmentation, RecordOptions):
    """Options of `ImageDetRecordIter`.

    Parameters
    ----------
    dtype : str, default 'float32'
        Element type of the data; only 'float32'.
    aug_seq : str, default 'det_aug_default'
        Accepted for compatibility; 'det_aug_default' is the only sequence of augmenters.
    label_width : int, default -1
        Number of elements of every label in the file; -1: any.
    label_pad_width : int, default 0
        Length that labels are padded to; 0 or -1: the length of the longest label of the part that
        is read.
    label_pad_value : float, default -1
        Value that labels are padded with.
    """

    name: ClassVar[str] = "ImageDetRecordIter"
    dtypes: ClassVar[tuple[str, ...]] = ("float32",)

    aug_seq: Literal["det_aug_default"] = "det_aug_default"
    label_width: int = -1
    label_pad_width: int = 0
    label_pad_value: float = -1.0


class _ImageDetRecordIter(RecordIter):
    """See `ImageDetRecordIter`."""

    _options: _DetRecordOptions

    def _label_size(self) -> int:
        longest = (max(map(len, self._labels.values()), default=0) if self._labels is not None
                   else int(label_lengths(self._reader, self._offsets).max()))
        options, width = self._options, self._options.label_pad_width
        path = options.path_imglist or options.path_imgrec
        if longest < _MIN_LABEL:
            raise MXNetError(f"{options.name}: the longest label in {path} has {longest} numbers, "
                             f"expected at least {_MIN_LABEL}: a header of 2 and an object of 5")
        if 0 < width < longest:
            raise MXNetError(f"{options.name}: label_pad_width is {width}, expected at least "
                             f"{longest}, the length of the longest label in {path}")
        return _PREFIX + max(width, longest)

    def _augmented(self, record: int, draws: np.ndarray, label: np.ndarray) -> np.ndarray:
        image, elements = self._read(record)
        image, augmented = self._options.augment(image, parse_label(elements), draws)
        flat = np.concatenate([augmented.header, augmented.objects.ravel()])
        label[:_PREFIX] = image.shape[2], *image.shape[:2], len(flat)
        label[_PREFIX:_PREFIX + len(flat)] = flat
        label[_PREFIX + len(flat):] = self._options.label_pad_value
        channels, *size = self._options.data_shape
        if image.shape[:2] == tuple(size):
            return image
        padded = np.zeros((*size, channels), np.uint8)
        padded[:image.shape[0], :image.shape[1]] = image
        return padded


@lists_options(_DetRecordOptions)
def ImageDetRecordIter(**options: Any) -> MXDataIter:
    """Batches of images and of the bounding boxes of objects in them, from a record file.

    Options are keywords; each may also be given as a string.

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
    """
    return _ImageDetRecordIter(options_of(_DetRecordOptions, options))
