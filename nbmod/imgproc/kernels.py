"""Kernels over the pixels of an image; they release the GIL, so threads work on different images.

Images are uint8 (height, width, channels); results for the network are (channels, height, width).
Each has a twin in NumPy, for where there is no compiler.
"""

from __future__ import annotations

import numpy as np

from ..ops.jit import kernel

__all__ = ["hwc_to_chw", "normalize", "shift_hls", "subtract_mean", "warp_affine"]

_STEPS = 32  # source coordinates are rounded to 1/32 pixel, as in OpenCV


def _planes(image, mirrored):
    return (image[:, ::-1] if mirrored else image).transpose(2, 0, 1)


def _normalize(image, mirrored, mean, scale, shift, line, out):
    centered = _planes(image, mirrored).astype(np.float32) - mean
    out[...] = centered * scale[:, None, None] + shift


@kernel(plain=_normalize)
def normalize(image, mirrored, mean, scale, shift, line, out):
    """out[c, y, x] = (image[y, x, c] - mean[c, y, x]) * scale[c] + shift; x is mirrored first.

    `mean` of shape (c, 1, 1) is a scalar for each channel.  line: workspace for one row of one
    channel, uint8 (width,), which makes the elements contiguous for SIMD.
    """
    channels, height, width = out.shape
    mean_image = mean.shape[1] > 1
    for c in range(channels):
        for y in range(height):
            row, target = image[y], out[c, y]
            for x in range(width):
                line[width - 1 - x if mirrored else x] = row[x, c]
            if mean_image:
                means = mean[c, y]
                for x in range(width):
                    target[x] = (np.float32(line[x]) - means[x]) * scale[c] + shift
            else:
                channel_mean, factor = mean[c, 0, 0], scale[c]
                for x in range(width):
                    target[x] = (np.float32(line[x]) - channel_mean) * factor + shift


def _hwc_to_chw(image, mirrored, out):
    out[...] = _planes(image, mirrored)


@kernel(plain=_hwc_to_chw)
def hwc_to_chw(image, mirrored, out):
    """out[c, y, x] = image[y, x, c]; x is mirrored first."""
    channels, height, width = out.shape
    for y in range(height):
        row = image[y]
        for c in range(channels):
            target = out[c, y]
            if mirrored:
                for x in range(width):
                    target[x] = row[width - 1 - x, c]
            else:
                for x in range(width):
                    target[x] = row[x, c]


def _subtract_mean(image, mirrored, mean, low, high, out):
    out[...] = np.clip(_planes(image, mirrored) - mean[:, None, None], low, high)


@kernel(plain=_subtract_mean)
def subtract_mean(image, mirrored, mean, low, high, out):
    """out[c, y, x] = image[y, x, c] - mean[c], clipped to [low, high]; x is mirrored first."""
    channels, height, width = out.shape
    for c in range(channels):
        for y in range(height):
            for x in range(width):
                value = np.int64(image[y, width - 1 - x if mirrored else x, c]) - mean[c]
                out[c, y, x] = min(max(value, low), high)


def _warp_affine(image, inverse, fill, out):
    y, x = np.indices(out.shape[:2])
    column, row = (np.floor((a * x + b * y + c) * _STEPS + 0.5) / _STEPS for a, b, c in inverse)
    left, top = np.floor(column).astype(np.int64), np.floor(row).astype(np.int64)
    right, bottom = column - left, row - top
    total = np.full(out.shape, 0.5)
    for dy, vertical in enumerate((1 - bottom, bottom)):
        for dx, horizontal in enumerate((1 - right, right)):
            at = top + dy, left + dx
            inside = [(i >= 0) & (i < size) for i, size in zip(at, image.shape, strict=False)]
            seen = image[tuple(np.clip(i, 0, size - 1)
                               for i, size in zip(at, image.shape, strict=False))]
            total += (vertical * horizontal)[..., None] * np.where(
                (inside[0] & inside[1])[..., None], seen, fill)
    out[...] = total


@kernel(plain=_warp_affine)
def warp_affine(image, inverse, fill, out):
    """out[y, x] = image at inverse @ (x, y, 1), bilinear; outside the image is `fill`."""
    height, width, channels = image.shape
    for y in range(out.shape[0]):
        for x in range(out.shape[1]):
            source_x = inverse[0, 0] * x + inverse[0, 1] * y + inverse[0, 2]
            source_y = inverse[1, 0] * x + inverse[1, 1] * y + inverse[1, 2]
            column, row = np.floor(source_x * _STEPS + 0.5), np.floor(source_y * _STEPS + 0.5)
            left, top = np.int64(np.floor(column / _STEPS)), np.int64(np.floor(row / _STEPS))
            right, bottom = column / _STEPS - left, row / _STEPS - top
            for c in range(channels):
                total = 0.5
                for dy in range(2):
                    for dx in range(2):
                        weight = (bottom if dy else 1 - bottom) * (right if dx else 1 - right)
                        inside = 0 <= top + dy < height and 0 <= left + dx < width
                        total += weight * (image[top + dy, left + dx, c] if inside else fill)
                out[y, x, c] = np.uint8(total)


def _shift_hls(image, hue, lightness, saturation, out):
    red, green, blue = np.moveaxis(image.astype(np.float64), 2, 0)
    high, low = image.max(axis=2).astype(np.float64), image.min(axis=2).astype(np.float64)
    both, chroma = high + low, np.where(high > low, high - low, np.inf)     # of gray 0 is added
    sixths = hue / 30 + np.select(
        [high == low, high == red, high == green],
        [0, (green - blue) / chroma, (blue - red) / chroma + 2], (red - green) / chroma + 4)
    shifted = saturation / 255 + np.where(
        high > low, high - low, 0) / np.where(both < 255, np.maximum(both, 1), 510 - both)
    level = np.clip(both / 2 + lightness, 0, 255)
    amplitude = np.clip(shifted, 0, 1) * np.minimum(level, 255 - level)
    turn = sixths[..., None] - 2 * np.arange(3)
    weight = np.clip(np.abs(turn - 6 * np.floor(turn / 6) - 3) - 1, 0, 1)
    out[...] = level[..., None] + amplitude[..., None] * (2 * weight - 1) + 0.5


@kernel(plain=_shift_hls)
def shift_hls(image, hue, lightness, saturation, out):
    """out = image (height, width, 3), with its HLS values shifted: hue in units of 2 degrees,
    lightness and saturation on a scale of 0 to 255, as in OpenCV.

    Hue wraps around; the others are clipped.  HLS to RGB: Smith, "Color gamut transform pairs",
    SIGGRAPH 1978.
    """
    height, width, _ = image.shape
    for y in range(height):
        for x in range(width):
            # RGB to HLS; the hue in sixths of the circle.
            red, green, blue = float(image[y, x, 0]), float(image[y, x, 1]), float(image[y, x, 2])
            high, low = max(red, green, blue), min(red, green, blue)
            chroma, both = high - low, high + low
            sixths, shifted = hue / 30, saturation / 255
            if chroma > 0:
                shifted += chroma / (both if both < 255 else 510 - both)
                if high == red:
                    sixths += (green - blue) / chroma
                elif high == green:
                    sixths += (blue - red) / chroma + 2
                else:
                    sixths += (red - green) / chroma + 4
            # HLS to RGB.
            level = min(max(both / 2 + lightness, 0.0), 255.0)
            amplitude = min(max(shifted, 0.0), 1.0) * min(level, 255 - level)
            for c in range(3):
                turn = sixths - 2 * c
                distance = abs(turn - 6 * np.floor(turn / 6) - 3) - 1
                weight = min(max(distance, 0.0), 1.0)
                out[y, x, c] = np.uint8(level + amplitude * (2 * weight - 1) + 0.5)
