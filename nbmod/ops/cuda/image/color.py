"""Colour augmentation of images: a thread per pixel.

The host draws random parameters in every run.  The mean grey of an image is reduced on the GPU,
rows first, in double precision, as on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...dispatch import implements
from ...image.color import GREY, LIGHT, _brightness, _Colour, _contrast, _hue, _light, _saturation
from ...op import Call, Spec
from ..lib.block_reduce import column_sum_kernel, each_block, sum_kernel
from ..lib.kernel_math import MATH, kernel, maximum, minimum, real_of, thread, threads
from ..runtime.device_memory import Array, Arrays
from ..runtime.launch import CudaKernel, Launch, PerRun, cache, device_function, each
from .preprocess import saturate_function

floor = MATH["floor"]

# -- transforms of a pixel ----------------------------------------------------------------------


@cache
def _grey_function(channels: int, real: type[np.floating]) -> Callable:
    """grey(red, green, blue): luma; the three are equal for an image of one channel."""
    of_red, of_green, of_blue = map(real, GREY)

    @device_function
    def grey(red, green, blue):
        return red * of_red + green * of_green + blue * of_blue

    @device_function
    def same(red, green, blue):
        return red

    return grey if channels == 3 else same


@cache
def _hue_function(real: type[np.floating]) -> Callable:
    none, one, two, three, four, six = map(real, (0, 1, 2, 3, 4, 6))

    @device_function
    def channel(low, span, share):
        return low + span * minimum(maximum(share, none), one)

    @device_function
    def hue(red, green, blue, turn):
        """Rotate the hue by `turn` sixths of the colour circle."""
        high, low = maximum(maximum(red, green), blue), minimum(minimum(red, green), blue)
        span = high - low
        if high == red:
            sixths = green - blue
        elif high == green:
            sixths = blue - red + two * span
        else:
            sixths = red - green + four * span
        at = sixths / (span if span > none else one) + turn
        at -= six * floor(at / six)
        return (channel(low, span, abs(at - three) - one), channel(low, span, two - abs(at - two)),
                channel(low, span, two - abs(at - four)))
    return hue


@cache
def _change_function(transform: Callable, channels: int, real: type[np.floating]) -> Callable:
    """change(red, green, blue, mean, a, b, c): the transformed colour; a, b, c are the results of
    `_coefficients`, mean is the mean grey of the image, for contrast only."""
    grey, hue = _grey_function(channels, real), _hue_function(real)

    @device_function
    def brightness(red, green, blue, mean, a, b, c):
        return red * a, green * a, blue * a

    @device_function
    def contrast(red, green, blue, mean, a, b, c):
        rest = mean * b
        return red * a + rest, green * a + rest, blue * a + rest

    @device_function
    def saturation(red, green, blue, mean, a, b, c):
        rest = grey(red, green, blue) * b
        return red * a + rest, green * a + rest, blue * a + rest

    @device_function
    def turn(red, green, blue, mean, a, b, c):
        return hue(red, green, blue, a)

    @device_function
    def light(red, green, blue, mean, a, b, c):
        return red + a, green + b, blue + c

    return {_brightness: brightness, _contrast: contrast, _saturation: saturation, _hue: turn,
            _light: light}[transform]


def _coefficients(transform: Callable, value: float | np.ndarray, channels: int
                  ) -> tuple[float, float, float]:
    """The arguments a, b, c of `change`, from the parameter of the transform on the CPU."""
    if transform is _light:
        return tuple(LIGHT @ np.asarray(value)) if channels == 3 else (0, 0, 0)
    amount = float(value)
    return (6 * amount if transform is _hue else amount), 1 - amount, 0


@cache
def _grey_sums(width: int, channels: int, real: type[np.floating]) -> CudaKernel:
    """Sums of grey over rows of `width` pixels."""
    grey = _grey_function(channels, real)
    to_green, to_blue = (1, 2) if channels == 3 else (0, 0)

    def load(x, row, term, rows):
        at = (row * width + term) * channels
        return np.float64(grey(real(x[at]), real(x[at + to_green]), real(x[at + to_blue])))

    return sum_kernel(load, np.float64)


@cache
def _change_kernel(transform: Callable, channels: int, dtype: np.dtype, real: type[np.floating]
                   ) -> CudaKernel:
    change, saturate = _change_function(transform, channels, real), saturate_function(dtype, real)
    coloured, averaged, none = channels == 3, transform is _contrast, real(0)

    @kernel(exact=True)
    def change_colours(x, y, total, a, b, c, count):
        mean = real(total[0] / np.float64(count)) if averaged else none
        for i in range(thread(), count, threads()):
            if coloured:
                red, green, blue = change(real(x[3 * i]), real(x[3 * i + 1]), real(x[3 * i + 2]),
                                          mean, a, b, c)
                y[3 * i], y[3 * i + 1] = saturate(red), saturate(green)
                y[3 * i + 2] = saturate(blue)
            else:
                value = real(x[i])
                red, green, blue = change(value, value, value, mean, a, b, c)
                y[i] = saturate(red)
    return change_colours


def _step(transform: Callable, value: float | np.ndarray, x: Array, y: Array, sums: Sequence[Array]
          ) -> list[Launch]:
    """Apply one transform to the image x; y may be x."""
    (height, width, channels), launches, real = x.shape, [], real_of(y.dtype)
    if transform is _contrast:
        launches += each_block(_grey_sums(width, channels, real), height, x, sums[0], width, False)
        launches += each_block(column_sum_kernel(np.float64), 1, *sums, height, False)
    coefficients = map(real, _coefficients(transform, value, channels))
    return launches + each(_change_kernel(transform, channels, y.dtype, real), height * width, x, y,
                           sums[1], *coefficients)


def _change(op: _Colour, ins: Arrays, outs: Arrays, call: Call) -> list[PerRun]:
    (x,), (y,), (middle, *sums) = ins, outs, call.scratch

    def launches() -> list[Launch]:
        sequence, here = [], x
        steps = op.steps() or [(_brightness, 1)]
        for number, (transform, value) in enumerate(steps, 1):
            there = y if number == len(steps) else middle
            sequence += _step(transform, value, here, there, sums)
            here = there
        return sequence

    return [PerRun(launches)]


def _scratch(op: _Colour, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    """An intermediate image, sums of grey over rows, and their sum."""
    shape, real, wide = ins[0].shape, np.dtype(real_of(ins[0].dtype)), np.dtype(np.float64)
    return [Spec(shape, real), Spec(shape[:1], wide), Spec((1,), wide)]


implements(_Colour, "cuda", _change, scratch=_scratch)
