"""What is done to every pixel of an image; kernels release the GIL, one image a thread."""

from __future__ import annotations

import numpy as np

from ..ops.jit import kernel

__all__ = ["arrange", "normalize", "place", "recolor", "warp"]

_STEPS = 32  # of a pixel; OpenCV's grid, so that its results are met


@kernel
def normalize(image, mirrored, mean, scale, shift, line, out):
    """out[c, y, x] = (image[y, x, c] - mean[c, y, x]) * scale[c] + shift; x is mirrored first.

    `mean` of shape (c, 1, 1) is one number for each channel.  line: memory for a row of a channel,
    uint8 (width,): numbers that lie side by side are computed with vectors.
    """
    channels, height, width = out.shape
    whole = mean.shape[1] > 1
    for c in range(channels):
        for y in range(height):
            row, target = image[y], out[c, y]
            for x in range(width):
                line[width - 1 - x if mirrored else x] = row[x, c]
            if whole:
                means = mean[c, y]
                for x in range(width):
                    target[x] = (np.float32(line[x]) - means[x]) * scale[c] + shift
            else:
                less, factor = mean[c, 0, 0], scale[c]
                for x in range(width):
                    target[x] = (np.float32(line[x]) - less) * factor + shift


@kernel
def arrange(image, mirrored, out):
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


@kernel
def place(image, mirrored, mean, least, most, out):
    """out[c, y, x] = image[y, x, c] - mean[c], from `least` to `most`; x is mirrored first."""
    channels, height, width = out.shape
    for c in range(channels):
        for y in range(height):
            for x in range(width):
                value = np.int64(image[y, width - 1 - x if mirrored else x, c]) - mean[c]
                out[c, y, x] = min(max(value, least), most)


@kernel
def warp(image, inverse, fill, out):
    """out[y, x] = image at inverse @ (x, y, 1), between its four neighbours; beyond it, `fill`."""
    height, width, channels = image.shape
    for y in range(out.shape[0]):
        for x in range(out.shape[1]):
            across = inverse[0, 0] * x + inverse[0, 1] * y + inverse[0, 2]
            down = inverse[1, 0] * x + inverse[1, 1] * y + inverse[1, 2]
            column, row = np.floor(across * _STEPS + 0.5), np.floor(down * _STEPS + 0.5)
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


@kernel
def recolor(image, hue, light, saturation, out):
    """out = colors of image (height, width, 3) with so much added to their hue, in half degrees,
    and to lightness and saturation, both from 0 to 255, as in OpenCV.

    Hue goes round; the others are cut off.  Back from hue: Smith, "Color gamut transform pairs",
    SIGGRAPH 1978.
    """
    height, width, _ = image.shape
    for y in range(height):
        for x in range(width):
            red, green, blue = float(image[y, x, 0]), float(image[y, x, 1]), float(image[y, x, 2])
            high, low = max(red, green, blue), min(red, green, blue)
            spread, both = high - low, high + low
            sixths, share = hue / 30, saturation / 255
            if spread > 0:
                share += spread / (both if both < 255 else 510 - both)
                if high == red:
                    sixths += (green - blue) / spread
                elif high == green:
                    sixths += (blue - red) / spread + 2
                else:
                    sixths += (red - green) / spread + 4
            level = min(max(both / 2 + light, 0.0), 255.0)
            reach = min(max(share, 0.0), 1.0) * min(level, 255 - level)
            for c in range(3):
                turn = sixths - 2 * c
                away = abs(turn - 6 * np.floor(turn / 6) - 3) - 1
                near = min(max(away, 0.0), 1.0)
                out[y, x, c] = np.uint8(level + reach * (2 * near - 1) + 0.5)
