"""Convolution and its gradients as sums over taps, in float64: the reference of fast kernels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np


def _windows(slide: Any, x: np.ndarray, w: np.ndarray
             ) -> Iterator[tuple[list[int], tuple[int, int], slice, tuple]]:
    """(size of y, tap, its filters, the pixels of the padded image that it reads)."""
    (down, right), (high, wide) = slide.stride, slide.dilate
    size = [(x.shape[2 + k] + 2 * slide.pad[k] - slide.dilate[k] * (slide.kernel[k] - 1) - 1)
            // slide.stride[k] + 1 for k in (0, 1)]
    inner, outer = w.shape[1], w.shape[0] // slide.groups
    for group in range(slide.groups):
        for i, j in np.ndindex(*slide.kernel):
            rows = slice(i * high, i * high + down * (size[0] - 1) + 1, down)
            columns = slice(j * wide, j * wide + right * (size[1] - 1) + 1, right)
            channels = slice(group * inner, (group + 1) * inner)
            filters = slice(group * outer, (group + 1) * outer)
            yield size, (i, j), filters, (slice(None), channels, rows, columns)


def _padded(slide: Any, x: np.ndarray) -> np.ndarray:
    top, left = slide.pad
    return np.pad(x.astype(np.float64), ((0, 0), (0, 0), (top, top), (left, left)))


def forward(slide: Any, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """y of x (N, C, H, W) and w (F, C / groups, *kernel)."""
    image, y = _padded(slide, x), None
    for size, (i, j), filters, seen in _windows(slide, x, w):
        if y is None:
            y = np.zeros((len(x), len(w), *size))
        y[:, filters] += np.einsum("nchw,fc->nfhw", image[seen], w[filters, :, i, j])
    assert y is not None
    return y


def backward(slide: Any, x: np.ndarray, w: np.ndarray, g: np.ndarray
             ) -> tuple[np.ndarray, np.ndarray]:
    """Gradients of x and w from that of y."""
    image, gw = _padded(slide, x), np.zeros(w.shape)
    gx = np.zeros_like(image)
    for _, (i, j), filters, seen in _windows(slide, x, w):
        gw[filters, :, i, j] = np.einsum("nchw,nfhw->fc", image[seen], g[:, filters])
        gx[seen] += np.einsum("nfhw,fc->nchw", g[:, filters], w[filters, :, i, j])
    (top, left), (height, width) = slide.pad, x.shape[2:]
    return gx[:, :, top:top + height, left:left + width], gw
