"""`ImageDetIter`: images and the boxes of objects in them, changed together by augmenters.

The label of a record is [A, B, further numbers up to A, then B numbers for every object]: class,
xmin, ymin, xmax, ymax as fractions of width and height, and further numbers.  A batch has a row for
each object, and rows of -1 where an image has fewer objects than the one with most.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..base import ArgumentError, MXNetError
from ..core.log import get_logger
from ..ndarray import NDArray, array
from . import drawing
from .augmenter_lists import IMAGENET_MEAN, IMAGENET_STD
from .det_augmenters import CreateDetAugmenter
from .iterator import ImageIter

__all__ = ["ImageDetIter"]


class ImageDetIter(ImageIter):
    """Batches of images and of the boxes of objects in them.

    Parameters
    ----------
    batch_size, data_shape, path_imgrec, path_imglist, path_root, path_imgidx, shuffle
        As for `ImageIter`.
    part_index, num_parts, imglist, data_name, last_batch_handle
        As for `ImageIter`.
    aug_list : list of DetAugmenter, optional
        Augmenters; None: `CreateDetAugmenter(data_shape, **kwargs)`.
    label_name : str, default 'label'
        Name of the labels.
    **kwargs
        Arguments of `CreateDetAugmenter`, if `aug_list` is None.

    Raises
    ------
    MXNetError
        If no source is given, there are no images, an option is invalid, or a label has another
        form; names the image.

    Notes
    -----
    Data are float32 of shape (batch_size, *data_shape).  Labels are float32 of shape (batch_size,
    *label_shape), with `label_shape` (objects, elements of each): class, xmin, ymin, xmax, ymax, or
    -1 for padding.  The constructor reads all labels to find the largest number of objects.
    Objects without area are skipped, and so are images that show no object with a class of 0 or
    more after augmentation.
    """

    def __init__(self, batch_size: int, data_shape: Sequence[int], path_imgrec: str | None = None,
                 path_imglist: str | None = None, path_root: str | None = None,
                 path_imgidx: str | None = None, shuffle: bool = False, part_index: int = 0,
                 num_parts: int = 1, aug_list: Any = None, imglist: Any = None,
                 data_name: str = "data", label_name: str = "label", last_batch_handle: str = "pad",
                 **kwargs: Any):
        super().__init__(batch_size, data_shape, path_imgrec=path_imgrec,
                         path_imglist=path_imglist, path_root=path_root, path_imgidx=path_imgidx,
                         shuffle=shuffle, part_index=part_index, num_parts=num_parts,
                         aug_list=aug_list or [], imglist=imglist, data_name=data_name,
                         label_name=label_name, last_batch_handle=last_batch_handle)
        self._augmenter_options = kwargs if aug_list is None else None
        self._make_augmenters()
        self.label_shape = self._estimate_label_shape()
        self.provide_label = [(label_name, (batch_size, *self.label_shape))]

    def _make_augmenters(self) -> None:
        """Create augmenters for the current shape of images, unless the caller passed a list."""
        if self._augmenter_options is not None:
            self.auglist = CreateDetAugmenter(self.data_shape, **self._augmenter_options)

    # -- labels -----------------------------------------------------------------------------

    def _parse_label(self, label: Any) -> np.ndarray:
        """The objects with area in the label of a record, (objects, B)."""
        raw = np.ravel(label.asnumpy() if isinstance(label, NDArray) else label)
        if raw.size < 7 or not np.isfinite(raw[:2]).all():
            raise MXNetError(f"a label of {raw.size} numbers, {raw[:7].tolist()}, expected A, B, "
                             "and 5 or more for each object")
        begin, width = int(raw[0]), int(raw[1])
        if begin < 2 or width < 5 or begin >= raw.size or (raw.size - begin) % width:
            raise MXNetError(f"a label of {raw.size} numbers, of which the first {begin} are no "
                             f"objects, and {width} are one; expected 2 or more, 5 or more, and "
                             "whole objects")
        objects = raw[begin:].reshape(-1, width)
        with_area = objects[_have_area(objects)]
        if not len(with_area):
            raise MXNetError("a label in which no object has area")
        return with_area

    def _check_valid_label(self, label: np.ndarray) -> None:
        """MXNetError unless there is an object with area and a class."""
        if label.ndim != 2 or label.shape[1] < 5:
            raise MXNetError(f"a label of shape {label.shape}, expected (objects, 5 or more)")
        if not (_have_area(label) & (label[:, 0] >= 0)).any():
            raise MXNetError("no object with area and a class")

    def _estimate_label_shape(self) -> tuple[int, int]:
        """The largest number of objects in an image, and the elements of each."""
        most, widths = 0, set()
        self.reset()
        try:
            while True:
                label, _ = self.next_sample()
                try:
                    count, width = self._parse_label(label).shape
                except MXNetError as error:
                    raise MXNetError(f"ImageDetIter: {self._last_name()}: {error}") from error
                most = max(most, count)
                widths.add(width)
        except StopIteration:
            self.reset()
        if len(widths) > 1:
            raise MXNetError(f"ImageDetIter: objects have {sorted(widths)} numbers, expected the "
                             "same for all")
        return most, widths.pop()

    def check_label_shape(self, label_shape: Sequence[int]) -> None:
        """Check a shape of labels.

        Parameters
        ----------
        label_shape : tuple of int
            (objects, elements of each).

        Raises
        ------
        ValueError
            If there are fewer objects than now, or another number of elements of each.
        """
        expected = f"expected ({self.label_shape[0]} or more, {self.label_shape[1]})"
        if len(label_shape) != 2 or label_shape[1] != self.label_shape[1]:
            raise ArgumentError(f"ImageDetIter: label_shape is {tuple(label_shape)}, {expected}")
        if label_shape[0] < self.label_shape[0]:
            raise ArgumentError(f"ImageDetIter: label_shape is {tuple(label_shape)}, which has no "
                                f"place for all objects, {expected}")

    def reshape(self, data_shape: Sequence[int] | None = None,
                label_shape: Sequence[int] | None = None) -> None:
        """Change the shapes of batches, beginning with the next one.

        Augmenters of `CreateDetAugmenter` are created again.  Images that were kept for the next
        epoch ('roll_over') are lost.

        Parameters
        ----------
        data_shape : tuple of int, optional
            Shape of images, (3, height, width).
        label_shape : tuple of int, optional
            (objects, elements of each).

        Raises
        ------
        ValueError
            For invalid shapes.
        """
        if data_shape is not None:
            self.check_data_shape(data_shape)
        if label_shape is not None:
            self.check_label_shape(label_shape)
            self.label_shape = label_shape[0], label_shape[1]
        if data_shape is not None:
            self.data_shape = tuple(data_shape)
            self._make_augmenters()
        (data_name, _), (label_name, _) = self.provide_data[0], self.provide_label[0]
        self.provide_data = [(data_name, (self.batch_size, *self.data_shape))]
        self.provide_label = [(label_name, (self.batch_size, *self.label_shape))]
        self._rolled_over = None

    def sync_label_shape(self, it: ImageDetIter, verbose: bool = False) -> ImageDetIter:
        """Give this iterator and another one, such as for validation, the larger label shape.

        Parameters
        ----------
        it : ImageDetIter
            The other iterator.
        verbose : bool, default False
            Whether to log a change.

        Raises
        ------
        TypeError
            If `it` is not an ImageDetIter.
        """
        if not isinstance(it, ImageDetIter):
            raise TypeError(f"ImageDetIter: sync_label_shape with {it!r}, expected an ImageDetIter")
        shape = max(self.label_shape[0], it.label_shape[0]), self.label_shape[1]
        for one in (it, self):
            if one.label_shape != shape:
                one.reshape(label_shape=shape)
                if verbose:
                    get_logger().info("ImageDetIter: label_shape is %s now", shape)
        return it

    # -- samples ----------------------------------------------------------------------------

    def augmentation_transform(self, data: NDArray, label: np.ndarray  # type: ignore[override]
                               ) -> tuple[NDArray, np.ndarray]:
        """Apply all augmenters to an image and its objects.

        Parameters
        ----------
        data : NDArray
            Image of shape (height, width, channels).
        label : numpy.ndarray
            Objects, of shape (objects, 5 or more).
        """
        for aug in self.auglist:
            data, label = aug(data, label)
        return data, label

    def _augmented(self, data: NDArray, label: Any) -> tuple[NDArray, np.ndarray] | None:
        try:
            self.check_valid_image([data])
            objects = self._parse_label(label)
        except RuntimeError as error:
            self._log_skipped(error)
            return None
        return self.augmentation_transform(data, objects)

    def _samples(self) -> Iterator[tuple[NDArray, np.ndarray]]:
        """The rest of the epoch: augmented images that show an object."""
        for data, objects in super()._samples():
            try:
                self._check_valid_label(objects)
            except RuntimeError as error:
                self._log_skipped(error)
                continue
            yield data, objects

    def _set_label(self, batch_label: NDArray, row: int, label: np.ndarray) -> None:
        most, width = self.label_shape
        if len(label) > most or label.shape[1] != width:
            raise MXNetError(f"ImageDetIter: {self._last_name()}: a label of shape {label.shape}, "
                             f"expected ({most} or fewer, {width})")
        padded = np.full((most, width), -1, np.float32)
        padded[:len(label)] = label
        batch_label[row] = array(padded)

    def draw_next(self, color: Any = None, thickness: int = 2, mean: Any = None, std: Any = None,
                  clip: bool = True, waitKey: int | None = None, window_name: str = "draw_next",
                  id2labels: Any = None) -> Iterator[np.ndarray]:
        """Draw the boxes of objects into the images of the rest of the epoch.

        Parameters
        ----------
        color : tuple of int, optional
            Color of the lines, (red, green, blue); None: random.
        thickness : int, default 2
            Width of the lines in pixels.
        mean : array_like or True, optional
            Mean that was subtracted from images, which is added; True: that of ImageNet.
        std : array_like or True, optional
            Standard deviation that images were divided by, which is undone; True: that of ImageNet.
        clip : bool, default True
            Limit pixels to 0 to 255.
        waitKey : int, optional
            Show each image in a window of OpenCV for that many milliseconds; 0: until a key is
            pressed; None: show none.
        window_name : str, default 'draw_next'
            Title of the window.
        id2labels : dict or list, optional
            Names of the classes, which are drawn with Pillow (the extra `[image]`).

        Yields
        ------
        numpy.ndarray
            uint8 image (height, width, 3), with the channels blue, green, red.
        """
        mean = IMAGENET_MEAN if mean is True else mean
        std = IMAGENET_STD if std is True else std
        blue_first = None if color is None else np.broadcast_to(color, 3)[::-1]
        for data, label in super()._samples():
            pixels = data.asnumpy() * (1 if std is None else np.asarray(std))
            pixels = pixels + (0 if mean is None else np.asarray(mean))
            pixels = (pixels.clip(0, 255) if clip else pixels).astype(int)
            image = pixels.astype(np.uint8)[:, :, ::-1].copy()
            for row in label:
                drawing.draw(image, row, blue_first, thickness, id2labels)
            if waitKey is not None:
                drawing.show(image, window_name, waitKey)
            yield image


def _have_area(objects: np.ndarray) -> np.ndarray:
    return (objects[:, 3] > objects[:, 1]) & (objects[:, 4] > objects[:, 2])
