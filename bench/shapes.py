"""Random shapes of convolutions, poolings and products: what `bench.sweep` times.

Case `number` of a `seed` does not depend on how many are drawn.  Sizes are log-uniform; a case that
is too large gets a smaller batch, then is drawn again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

__all__ = ["FAMILIES", "KINDS", "Case", "case", "cases"]

MOST_PRODUCTS, LEAST_PRODUCTS = 5 * 10 ** 8, 10 ** 4
"""Multiplications of forward."""
MOST_NUMBERS = 12 * 10 ** 6
"""Elements of inputs and output together: 200 MB with those of the gradients."""
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """An operator and the shapes of its inputs; gradients are computed for the inputs `wanted`."""

    family: str
    op: str
    attrs: dict[str, Any]
    shapes: dict[str, Shape]
    wanted: tuple[str, ...]

    @property
    def key(self) -> str:
        """The case in one line."""
        attrs = " ".join(f"{name}={json.dumps(value)}".replace(" ", "")
                         for name, value in self.attrs.items())
        sizes = " ".join("x".join(map(str, self.shapes[name])) for name in self.wanted)
        return f"{self.op} {sizes} {attrs}"

    def symbol(self, mx: Any) -> Any:
        """The operator over variables, in `mx` or in nbmod."""
        inputs = [mx.sym.Variable(name) for name in self.shapes]
        return getattr(mx.sym, self.op)(*inputs, name="op", **self.attrs)


class Draw:
    """Random sizes."""

    def __init__(self, seed: int, number: int) -> None:
        self.random = np.random.default_rng([seed, number])

    def size(self, least: int, most: int) -> int:
        """A log-uniform integer."""
        return int(np.exp(self.random.uniform(np.log(least), np.log(most + 1))))

    def one(self, *choices: Any) -> Any:
        return choices[self.random.integers(len(choices))]

    def channels(self) -> int:
        """A number of channels, often a power of two."""
        return self.one(self.size(1, 512), 2 ** int(self.random.integers(10)), self.size(1, 32))

    def kernel(self, image: int) -> int:
        """A kernel size, from one pixel to the whole image."""
        small = self.one(1, 2, 3, 3, 3, 4, 5, 7)
        return min(image, self.one(small, small, small, self.size(1, image), image))

    def stride(self, kernel: int) -> int:
        return self.one(1, 1, 1, 2, 2, self.size(1, max(4, kernel)))

    def pad(self, span: int) -> int:
        return self.one(0, 0, span // 2, span // 2, int(self.random.integers(span)))


@dataclass(frozen=True)
class Sliding:
    """One axis of an image under a window."""

    image: int
    kernel: int
    stride: int
    pad: int
    dilate: int

    @property
    def out(self) -> int:
        return (self.image + 2 * self.pad - self.dilate * (self.kernel - 1) - 1) // self.stride + 1


LENGTHS = {1: (4, 4000), 2: (2, 256), 3: (2, 40)}
"""Sizes of the image by the number of axes."""


def _axes(draw: Draw, rank: int, dilated: bool = True) -> list[Sliding]:
    """Axes of one image; in half of all images they are equal."""
    first = [_axis(draw, rank, dilated) for _ in range(rank)]
    return [first[0]] * rank if draw.one(True, False) else first


def _axis(draw: Draw, rank: int, dilated: bool) -> Sliding:
    image = draw.size(*LENGTHS[rank])
    kernel = draw.kernel(image)
    dilate = draw.one(1, 1, 1, 1, 2, draw.size(1, 6)) if dilated else 1
    span = dilate * (kernel - 1) + 1
    pad = max(draw.pad(span), -(-(span - image) // 2))
    return Sliding(image, kernel, draw.stride(kernel), pad, dilate)


def _per_axis(axes: list[Sliding]) -> dict[str, Shape]:
    return {name: tuple(getattr(axis, name) for axis in axes)
            for name in ("kernel", "stride", "pad", "dilate")}


def _grouped(draw: Draw, family: str) -> tuple[int, int, int]:
    """(channels, filters, groups)."""
    if family == "depthwise":
        groups = max(2, draw.channels())
        return groups, groups * draw.one(1, 1, 1, 2, 3), groups
    if family == "grouped":
        groups = draw.size(2, 32)
        return groups * draw.size(1, 32), groups * draw.size(1, 32), groups
    return draw.channels(), draw.channels(), 1


def _convolution(draw: Draw, family: str) -> tuple[Case, int]:
    rank = {"conv1d": 1, "conv2d": 2, "conv3d": 3}.get(family) or draw.one(1, 2, 2, 2, 3)
    axes, batch = _axes(draw, rank), draw.size(1, 64)
    channels, filters, groups = _grouped(draw, family)
    image, out = [axis.image for axis in axes], [axis.out for axis in axes]
    weight = (filters, channels // groups, *(axis.kernel for axis in axes))
    batch = _fitting(batch, prod(weight) * prod(out), channels * prod(image) + filters * prod(out))
    attrs = {**_per_axis(axes), "num_filter": filters, "num_group": groups, "no_bias": True}
    shapes = {"data": (batch, channels, *image), "weight": weight}
    return (Case(family, "Convolution", attrs, shapes, ("data", "weight")),
            _checked(batch * prod(weight) * prod(out), batch * filters * prod(out), shapes))


def _deconvolution(draw: Draw, family: str) -> tuple[Case, int]:
    """The data has the shape of a convolution's output; MXNet has no dilation in three axes."""
    rank = draw.one(1, 2, 2, 2, 3)
    axes, (filters, channels, groups) = _axes(draw, rank, rank < 3), _grouped(
        draw, draw.one("", "", "", "depthwise", "grouped"))
    out = [axis.out for axis in axes]
    image = [(axis.out - 1) * axis.stride + axis.dilate * (axis.kernel - 1) + 1 - 2 * axis.pad
             for axis in axes]
    weight = (channels, filters // groups, *(axis.kernel for axis in axes))
    batch = _fitting(draw.size(1, 64), prod(weight) * prod(out),
                     channels * prod(image) + filters * prod(out))
    attrs = {**_per_axis(axes), "num_filter": filters, "num_group": groups, "no_bias": True}
    shapes = {"data": (batch, channels, *out), "weight": weight}
    return (Case(family, "Deconvolution", attrs, shapes, ("data", "weight")),
            _checked(batch * prod(weight) * prod(out), batch * filters * prod(image), shapes))


def _pooling(draw: Draw, family: str) -> tuple[Case, int]:
    rank = draw.one(1, 2, 2, 2, 3)
    axes, channels = _axes(draw, rank, False), draw.channels()
    axes = [Sliding(a.image, a.kernel, a.stride, min(a.pad, a.kernel - 1), 1) for a in axes]
    image, out = [axis.image for axis in axes], [axis.out for axis in axes]
    taps = prod(axis.kernel for axis in axes)
    batch = _fitting(draw.size(1, 64), channels * taps * prod(out), channels * prod(image))
    attrs: dict[str, Any] = {"pool_type": draw.one("max", "max", "avg", "avg", "sum")}
    if family == "pool global":
        attrs |= {"global_pool": True, "kernel": (1,) * rank}
    else:
        given = _per_axis(axes)
        attrs |= {name: given[name] for name in ("kernel", "stride", "pad")}
        attrs["pooling_convention"] = draw.one("valid", "full")
    if attrs["pool_type"] == "avg" and draw.one(True, False):
        attrs["count_include_pad"] = False
    shapes = {"data": (batch, channels, *image)}
    return (Case(family, "Pooling", attrs, shapes, ("data",)),
            _checked(batch * channels * taps * prod(out), batch * channels * prod(out), shapes))


def _dense(draw: Draw, family: str) -> tuple[Case, int]:
    rows, depth, hidden = draw.size(1, 4096), draw.size(1, 8192), draw.size(1, 8192)
    shapes = {"data": (rows, depth), "weight": (hidden, depth)}
    return (Case(family, "FullyConnected", {"num_hidden": hidden, "no_bias": True}, shapes,
                 ("data", "weight")), _checked(rows * depth * hidden, rows * hidden, shapes))


def _product(draw: Draw, family: str) -> tuple[Case, int]:
    rows, depth, columns = (draw.size(1, 8192) for _ in range(3))
    stack = () if family == "dot" else (draw.size(1, 512),)
    flags = {f"transpose_{side}": draw.one(True, False) for side in "ab"}
    left = (depth, rows) if flags["transpose_a"] else (rows, depth)
    right = (columns, depth) if flags["transpose_b"] else (depth, columns)
    shapes = {"lhs": (*stack, *left), "rhs": (*stack, *right)}
    count = prod(stack)
    return (Case(family, family, flags, shapes, ("lhs", "rhs")),
            _checked(count * rows * depth * columns, count * rows * columns, shapes))


def _fitting(batch: int, products: int, numbers: int) -> int:
    """The largest batch up to this one that the limits allow."""
    return max(1, min(batch, MOST_PRODUCTS // max(products, 1), MOST_NUMBERS // max(numbers, 1)))


def _checked(products: int, outputs: int, shapes: dict[str, Shape]) -> int:
    """The number of multiplications, or 0 beyond the limits."""
    numbers = outputs + sum(map(prod, shapes.values()))
    sizes = [size for shape in shapes.values() for size in shape]
    fits = LEAST_PRODUCTS <= products <= MOST_PRODUCTS and 0 < numbers <= MOST_NUMBERS
    return products if fits and min(sizes) > 0 and outputs > 0 else 0


KINDS: dict[str, dict[str, tuple[int, Callable[[Draw, str], tuple[Case, int]]]]] = {
    "conv": {"conv1d": (4, _convolution), "conv2d": (10, _convolution),
             "conv3d": (3, _convolution), "depthwise": (4, _convolution),
             "grouped": (4, _convolution), "deconv": (6, _deconvolution)},
    "pool": {"pool": (7, _pooling), "pool global": (1, _pooling)},
    "product": {"dense": (4, _dense), "dot": (3, _product), "batch_dot": (3, _product)},
}
"""The weight of each family, by `--only`."""
FAMILIES = {name: how for kind in KINDS.values() for name, how in kind.items()}


def case(seed: int, number: int, only: str = "") -> Case:
    """Case `number`."""
    draw, families = Draw(seed, number), KINDS[only] if only else FAMILIES
    weights = np.array([weight for weight, _ in families.values()])
    family = str(draw.random.choice(list(families), p=weights / weights.sum()))
    while True:
        found, products = families[family][1](draw, family)
        if products:
            return found


def cases(seed: int, count: int, only: str = "") -> Iterator[tuple[int, Case]]:
    """The first `count` cases with their numbers."""
    for number in range(count):
        yield number, case(seed, number, only)


def _layer(data: Shape, filters: int, *kernel: int, stride: int = 1, pad: int = 0) -> Case:
    """A convolution as in common networks."""
    rank, weight = len(kernel), (filters, data[1], *kernel)
    attrs = {"kernel": kernel, "stride": (stride,) * rank, "pad": (pad,) * rank,
             "num_filter": filters, "no_bias": True}
    return Case("anchor", "Convolution", attrs, {"data": data, "weight": weight},
                ("data", "weight"))


ANCHORS = [
    _layer((50, 1, 56, 300), 100, 3, 300), _layer((50, 1, 56, 300), 100, 5, 300),
    _layer((64, 300, 100), 128, 5), _layer((8, 512, 7, 7), 128, 7, 7),
    _layer((8, 256, 14, 14), 256, 3, 3, pad=1), _layer((4, 64, 56, 56), 64, 3, 3, pad=1),
    _layer((4, 3, 112, 112), 64, 7, 7, stride=2, pad=3), _layer((1, 1, 64, 64), 16, 64, 64),
    _layer((4, 16, 32, 32), 32, 17, 17, pad=8),
]
"""Shapes from networks: text, dense layers as convolutions, images."""
