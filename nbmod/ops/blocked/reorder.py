"""Reorders between (N, C, H, W) and the blocked layout."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ..jit import inlined, kernel, prange
from ..simd.nontemporal import bypasses_cache, store_fence
from ..simd.transpose import (
    transpose,
    transpose_gather,
    transpose_nontemporal,
    transpose_scatter,
)
from .layout import LANES, BlockedLayout, zero_halo

__all__ = ["from_blocks", "into_blocks", "pad_halo"]

NARROW = 4 * LANES
"""Pixels of a row below which squares of pixels are transposed across the ends of rows."""


@kernel(parallel=True)
def _into(data, blocks, geometry, streams):
    """blocks, flat, from data (N, C, pixels of a plane), flat; the halo is not written."""
    images, channels, count, height, width, start, row, plane, lanes = geometry
    for job in prange(images * count):
        n, b = np.int64(job) // count, np.int64(job) % count
        have = min(lanes, channels - b * lanes)
        source, target = (n * channels + b * lanes) * height * width, np.int64(job) * plane + start
        for y in range(height):
            x, line, out = 0, source + y * width, target + y * row
            if have == LANES:
                while x + LANES <= width:
                    at, steps = (line + x, out + x * LANES), (height * width, LANES)
                    if streams:
                        transpose_nontemporal(data, blocks, at, steps)
                    else:
                        transpose(data, blocks, at, steps)
                    x += LANES
            _into_tail(data[line + x:], height * width, blocks[out + x * lanes:], width - x, have,
                       lanes)
        store_fence(blocks)


@inlined
def _into_tail(data, plane, blocks, pixels, have, lanes):
    for i in range(pixels):
        for c in range(have):
            blocks[i * lanes + c] = data[c * plane + i]
        for c in range(have, lanes):
            blocks[i * lanes + c] = 0


@kernel(parallel=True)
def _from(blocks, data, geometry, streams):
    """data from blocks, the inverse."""
    images, channels, count, height, width, start, row, plane, _ = geometry
    for job in prange(images * count):
        n, b = np.int64(job) // count, np.int64(job) % count
        have = min(LANES, channels - b * LANES)
        target, source = (n * channels + b * LANES) * height * width, np.int64(job) * plane + start
        for y in range(height):
            x, line, out = 0, source + y * row, target + y * width
            if have == LANES:
                while x + LANES <= width:
                    at, steps = (line + x * LANES, out + x), (LANES, height * width)
                    if streams:
                        transpose_nontemporal(blocks, data, at, steps)
                    else:
                        transpose(blocks, data, at, steps)
                    x += LANES
            _from_tail(blocks[line + x * LANES:], data[out + x:], height * width, width - x, have)
        store_fence(data)


@inlined
def _from_tail(blocks, data, plane, pixels, have):
    for c in range(have):
        for i in range(pixels):
            data[c * plane + i] = blocks[i * LANES + c]


@kernel(parallel=True)
def _into_narrow(data, blocks, rows, geometry):
    """Reorder like `_into` images whose pixels are vectors rows[0], rows[1], ... of a plane."""
    images, channels, count, plane = geometry
    pixels = len(rows)
    for job in prange(images * count):
        n, b = np.int64(job) // count, np.int64(job) % count
        have, target, x = min(LANES, channels - b * LANES), np.int64(job) * plane, 0
        source = (n * channels + b * LANES) * pixels
        if have == LANES:
            while x + LANES <= pixels:
                transpose_scatter(data, blocks, rows, (source + x, target, x), (pixels, LANES))
                x += LANES
        for i in range(x, pixels):
            _into_tail(data[source + i:], pixels, blocks[target + rows[i] * LANES:], 1, have, LANES)


@kernel(parallel=True)
def _from_narrow(blocks, data, rows, geometry):
    """The inverse."""
    images, channels, count, plane = geometry
    pixels = len(rows)
    for job in prange(images * count):
        n, b = np.int64(job) // count, np.int64(job) % count
        have, source, x = min(LANES, channels - b * LANES), np.int64(job) * plane, 0
        target = (n * channels + b * LANES) * pixels
        if have == LANES:
            while x + LANES <= pixels:
                transpose_gather(blocks, data, rows, (source, target + x, x), (LANES, pixels))
                x += LANES
        for i in range(x, pixels):
            _from_tail(blocks[source + rows[i] * LANES:], data[target + i:], pixels, 1, have)


@kernel(parallel=True)
def _pad(data, blocks, halo):
    """blocks (planes, H + 2 halo, W + 2 halo) from data (planes, H, W)."""
    count, height, width = data.shape
    for k in prange(count):
        plane, inside = blocks[k], data[k]
        for y in range(height):
            source, target = inside[y], plane[y + halo]
            for x in range(width):
                target[x + halo] = source[x]


@kernel(parallel=True)
def _pad_halo(planes, wide, more):
    """wide (count, rows + 2 more, columns + 2 more, lanes): planes with a wider halo of zeros."""
    count, rows, columns, lanes = wide.shape
    for k in prange(count):
        plane, out = planes[k], wide[k]
        for y in range(rows):
            inside = more <= y < rows - more
            for x in range(columns):
                if inside and more <= x < columns - more:
                    for c in range(lanes):
                        out[y, x, c] = plane[y - more, x - more, c]
                else:
                    for c in range(lanes):
                        out[y, x, c] = 0


def pad_halo(blocks: np.ndarray, wide: np.ndarray) -> None:
    """Copy blocked images into `wide`, which has a wider halo."""
    _pad_halo(blocks.reshape(-1, *blocks.shape[2:]), wide.reshape(-1, *wide.shape[2:]),
              (wide.shape[2] - blocks.shape[2]) // 2)


def _geometry(layout: BlockedLayout, batch: int) -> tuple[int, ...]:
    """Sizes and strides for the kernels; an image without a halo is one long row."""
    size = (layout.height, layout.width) if layout.halo else (1, layout.height * layout.width)
    return (batch, layout.channels, layout.blocks, *size, layout.at(0, 0), layout.row, layout.plane,
            layout.lanes)


def _is_narrow(layout: BlockedLayout) -> bool:
    """Whether rows, which the halo separates, end in fewer pixels than a square has."""
    return (layout.halo > 0 and layout.lanes == LANES and layout.width < NARROW
            and layout.width % LANES > 0)


@lru_cache(256)
def _rows(layout: BlockedLayout) -> np.ndarray:
    """Indices of the vectors of an image's pixels in a plane."""
    y, x = np.indices((layout.height, layout.width), dtype=np.int64)
    return (layout.at(y, x) // layout.lanes).reshape(-1)


def into_blocks(layout: BlockedLayout, data: np.ndarray, blocks: np.ndarray) -> None:
    """The blocked `blocks` from `data`, halo included."""
    if layout.lanes == 1:
        _pad(data.reshape(-1, layout.height, layout.width),
             blocks.reshape(-1, *blocks.shape[2:4]), layout.halo)
    elif _is_narrow(layout):
        _into_narrow(data.reshape(-1), blocks.reshape(-1), _rows(layout),
                     (len(data), layout.channels, layout.blocks, layout.plane))
    else:
        _into(data.reshape(-1), blocks.reshape(-1), _geometry(layout, len(data)),
              bypasses_cache(blocks, data))
    zero_halo(blocks, layout.halo)


def from_blocks(layout: BlockedLayout, blocks: np.ndarray, data: np.ndarray) -> None:
    """`data` from `blocks`."""
    if layout.lanes == 1:
        np.copyto(data, layout.inside(blocks)[..., 0])
    elif _is_narrow(layout):
        _from_narrow(blocks.reshape(-1), data.reshape(-1), _rows(layout),
                     (len(data), layout.channels, layout.blocks, layout.plane))
    else:
        geometry = _geometry(layout, len(data))
        _from(blocks.reshape(-1), data.reshape(-1), geometry,
              bypasses_cache(data, blocks) and geometry[4] % LANES == 0)
