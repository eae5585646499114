"""Image resizing with NumPy: the two passes of `image.resample` as weighted sums of its tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dispatch import REFERENCE, implements
from ..image.preprocess import CvResize, ImageResize
from ..image.resample import Table, plan, store_real
from ..op import Call

__all__: list[str] = []


def _weighted(image: np.ndarray, table: Table, axis: int) -> Any:
    """Sums along an axis, in the order and in the type in which kernels add."""
    along = (-1, *[1] * (image.ndim - axis - 1))
    terms = (weight.reshape(along) * image.take(index, axis)
             for index, weight in zip(table[0].T, table[1].T.astype(image.dtype), strict=True))
    return sum(terms)


def _halved(wide: np.ndarray, table: Table) -> Any:
    """The vertical pass in fixed-point arithmetic."""
    parts = (weight[:, None, None] * (wide[index] >> 4) >> 16
             for index, weight in zip(table[0].T, table[1].T.astype(np.int32), strict=True))
    return (sum(parts) + 2) >> 2


def _resize(image: np.ndarray, out: np.ndarray, interp: int) -> None:
    rows, columns, kind = plan(image.shape, out.shape, interp, image.dtype)
    if kind is None:
        out[...] = image[rows[0][:, 0]][:, columns[0][:, 0]]
        return
    wide = _weighted(image.astype(kind), columns, 1)
    if kind == np.int32:
        np.copyto(out, _halved(wide, rows), casting="unsafe")
    else:
        store_real(_weighted(wide, rows, 0), out)


def _image_resize(op: ImageResize | CvResize, ins: Sequence[Any], outs: Sequence[Any], call: Call
                 ) -> None:
    images, results = (tensor.reshape(-1, *tensor.shape[-3:]) for tensor in (ins[0], outs[0]))
    for image, result in zip(images, results, strict=True):
        _resize(image, result, op.interp)


implements((CvResize, ImageResize), REFERENCE, _image_resize)
