"""Random programs over NDArrays that share memory, whose results must agree in nbmod and MXNet.

A program has a list of arrays.  Steps change them in place, or add arrays: views, copies, results.
After each step all arrays are compared, so that a view that should share memory and does not, or
the other way round, is found.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.programs.calls import call, draw_names

Step = tuple[str, dict[str, Any]]
MOST = 8
"""Arrays that a program has; older ones are dropped."""


class Arrays:
    """The arrays of a program.

    Parameters
    ----------
    mx : module
        nbmod or MXNet.
    """

    def __init__(self, mx: Any):
        self.mx = mx
        self.arrays: list[Any] = []
        self.sources: list[object] = []
        """For each array an object that it has in common with those whose memory it may share."""

    def keep(self, array: Any, source: object = None) -> None:
        self.arrays.append(array)
        self.sources.append(source or object())
        del self.arrays[:-MOST], self.sources[:-MOST]

    def pick(self, at: int) -> Any:
        return self.arrays[at % len(self.arrays)]

    def source(self, at: int) -> object:
        return self.sources[at % len(self.arrays)]

    def overlap(self, at: int, other: int) -> bool:
        """Whether arrays may share memory: MXNet then reads what it has overwritten."""
        return self.source(at) is self.source(other)

    def is_empty(self, at: int, key: tuple[Any, ...]) -> bool:
        """Whether an index picks no elements, which MXNet refuses in most cases."""
        try:
            return np.zeros(self.pick(at).shape)[_key(key)].size == 0
        except IndexError:
            return False

    # -- arrays -----------------------------------------------------------------------------

    def new(self, shape: tuple[int, ...], seed: int, dtype: str) -> None:
        values = np.random.default_rng([seed, *shape]).integers(-9, 9, shape)
        self.keep(self.mx.nd.array(values, dtype=dtype))

    def index(self, at: int, key: tuple[Any, ...]) -> None:
        if not self.is_empty(at, key):
            self.keep(self.pick(at)[_key(key)], self.source(at))

    def reshape(self, at: int, shape: tuple[int, ...]) -> None:
        self.keep(self.pick(at).reshape(shape), self.source(at))

    def method(self, at: int, name: str, arguments: dict[str, Any]) -> None:
        self.keep(getattr(self.pick(at), name)(**arguments), self.source(at))

    def combine(self, at: int, other: int, name: str) -> None:
        self.keep(getattr(self.mx.nd, name)(self.pick(at), self.pick(other)))

    def alias(self, at: int) -> None:
        self.keep(self.pick(at), self.source(at))

    # -- changes ----------------------------------------------------------------------------

    def assign(self, at: int, key: tuple[Any, ...], value: float | None, other: int) -> None:
        if self.is_empty(at, key) or (value is None and self.overlap(at, other)):
            return
        self.pick(at)[_key(key)] = self.pick(other) if value is None else value

    def in_place(self, at: int, name: str, value: float | None, other: int) -> None:
        if value is not None or not self.overlap(at, other):
            getattr(self.pick(at), name)(self.pick(other) if value is None else value)

    def copyto(self, at: int, other: int) -> None:
        if not self.overlap(at, other):
            self.pick(at).copyto(self.pick(other))

    def out(self, at: int, other: int, third: int, name: str) -> None:
        if not (self.overlap(at, third) or self.overlap(other, third)):
            getattr(self.mx.nd, name)(self.pick(at), self.pick(other), out=self.pick(third))

    def unary_out(self, at: int, other: int, name: str) -> None:
        if at == other or not self.overlap(at, other):
            getattr(self.mx.nd, name)(self.pick(at), out=self.pick(other))

    def gradient(self, at: int, other: int, req: str) -> None:
        """The gradient of a product, where the first array is a variable for a moment."""
        x, y = self.pick(at), self.pick(other)
        x.attach_grad(req)
        with self.mx.autograd.record():
            z = x * y + x
        z.backward()
        self.keep(x.grad)


def _key(key: tuple[Any, ...]) -> Any:
    parts = tuple(slice(*part) if isinstance(part, (tuple, list)) else part for part in key)
    return parts[0] if len(parts) == 1 else parts


# -- programs -------------------------------------------------------------------------------------

SHAPES = ((4,), (3, 4), (2, 3, 4), (1, 4), (3, 1), (6, 2), (12,))
DTYPES = ("float32", "float32", "float32", "float64", "int32", "float16")


def a_key(rng: random.Random) -> tuple[Any, ...]:
    """A basic index: integers and slices, mostly along the first axis."""
    parts = []
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3))):
        kind = rng.random()
        if kind < 0.3:
            parts.append(rng.randrange(-3, 4))
        elif kind < 0.8:
            first = rng.choice((None, 0, 1, 2, -2))
            parts.append((first, rng.choice((None, 2, 3, 4, -1)), None))
        else:
            parts.append((None, None, rng.choice((1, 2, -1))))
    return tuple(parts)


def two(rng: random.Random) -> dict[str, int]:
    return {"at": rng.randrange(MOST), "other": rng.randrange(MOST)}


def a_value(rng: random.Random) -> float | None:
    return rng.choice((None, None, 2.0, -1.0, 3.0))


STEPS: dict[str, tuple[float, Callable[[random.Random], dict[str, Any]]]] = {
    "new": (3, lambda rng: {"shape": rng.choice(SHAPES), "seed": rng.randrange(99),
                            "dtype": rng.choice(DTYPES)}),
    "index": (5, lambda rng: {"at": rng.randrange(MOST), "key": a_key(rng)}),
    "reshape": (3, lambda rng: {"at": rng.randrange(MOST), "shape": rng.choice(
        ((-1,), (4, 3), (2, -1), (0, -1), (-1, 1), (2, 3, 2), (1, -1), (3, 4)))}),
    "method": (3, lambda rng: {"at": rng.randrange(MOST), **rng.choice((
        {"name": "copy", "arguments": {}}, {"name": "transpose", "arguments": {}},
        {"name": "flatten", "arguments": {}}, {"name": "expand_dims", "arguments": {"axis": 0}},
        {"name": "astype", "arguments": {"dtype": "float32"}},
        {"name": "astype", "arguments": {"dtype": "int32", "copy": False}},
        {"name": "astype", "arguments": {"dtype": "float32", "copy": False}},
        {"name": "slice_axis", "arguments": {"axis": 0, "begin": 1, "end": 3}},
        {"name": "detach", "arguments": {}}, {"name": "squeeze", "arguments": {}},
        {"name": "sum", "arguments": {"axis": 0}}, {"name": "abs", "arguments": {}},
        {"name": "broadcast_to", "arguments": {"shape": (3, 4)}},
        {"name": "clip", "arguments": {"a_min": -2, "a_max": 2}}))}),
    "combine": (2, lambda rng: {**two(rng), "name": rng.choice(
        ("add", "subtract", "multiply", "maximum", "broadcast_add"))}),
    "alias": (0.5, lambda rng: {"at": rng.randrange(MOST)}),
    "assign": (5, lambda rng: {**two(rng), "key": a_key(rng), "value": a_value(rng)}),
    "in_place": (4, lambda rng: {**two(rng), "value": a_value(rng), "name": rng.choice(
        ("__iadd__", "__isub__", "__imul__"))}),
    "copyto": (1, two),
    "out": (3, lambda rng: {**two(rng), "third": rng.randrange(MOST), "name": rng.choice(
        ("elemwise_add", "elemwise_mul", "broadcast_sub", "broadcast_maximum"))}),
    "unary_out": (2, lambda rng: {**two(rng), "name": rng.choice(("abs", "negative", "square"))}),
    "gradient": (1, lambda rng: {**two(rng), "req": rng.choice(("write", "add"))}),
}
"""Weight, and a function that draws the arguments."""


def draw(seed: int) -> list[Step]:
    """The steps of a program."""
    rng = random.Random(seed)
    names = ["new", "new", *draw_names(rng, STEPS, rng.randrange(4, 20))]
    return [(name, STEPS[name][1](rng)) for name in names]


def run(mx: Any, seed: int) -> list[Any]:
    """After each step all arrays, or "error" where it raised."""
    program, found = Arrays(mx), []
    for name, arguments in draw(seed):
        failed = call(program, name, arguments) == "error"
        found.append(["error" if failed else "", [array.asnumpy() for array in program.arrays]])
    return found
