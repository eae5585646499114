"""`ImageDetRecordIter`: pictures and the boxes of the objects in them, from record files.

The label of a record is a row of numbers: A, B, A - 2 numbers more, then B for each object: class,
left, top, right, bottom as shares of width and height, B - 5 numbers more.  A batch has a row

    channels, height, width, n | the n numbers of that label | label_pad_value, ...

for each picture, with the size and the label of the picture as it has become.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from ..base import MXNetError
from ..pictures.detection import DetAugmentation, read_label
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
    """Batches of pictures and of the boxes of objects in them, from a record file.

    What `ImageRecordIter` has is here, too: path_imgrec, path_imgidx, path_imglist, data_shape,
    batch_size, round_batch, shuffle, seed, num_parts, part_index, preprocess_threads,
    prefetch_buffer, data_name, label_name.

    label_width=-1: how many numbers every label has, -1 for any.  label_pad_width=0: up to how
    many labels are filled up; 0 or -1: the length of the longest one of the part that is read.
    label_pad_value=-1: with what.  What is done to pictures: the fields of
    `nbmod.pictures.detection.DetAugmentation`, with MXNet's names and defaults.

    Data have shape (batch_size, *data_shape), float32, red first; a picture that is smaller stands
    in the upper left corner of zeros, from which the means are subtracted, too.  Labels:
    (batch_size, 4 + label_pad_width), see `nbmod.io.image_det_record`.  Raises MXNetError that
    names file, record and offset.
    """
    return _ImageDetRecordIter(options_of(_DetRecordOptions, options))
