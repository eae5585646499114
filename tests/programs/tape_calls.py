"""Random programs of recorded arithmetic, whose gradients must agree in nbmod and MXNet.

A program has arrays of shape (3, 4), some of them variables.  Steps add arrays, with recording on
or off, or differentiate; after each the gradients of all variables are compared.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import numpy as np

from tests.programs.calls import call, draw_names

Step = tuple[str, dict[str, Any]]
SHAPE = (3, 4)
MOST = 10
"""Arrays that a program has; older ones are dropped, but not variables."""
VARIABLES = 3


class Tape:
    """The arrays of a program.

    Parameters
    ----------
    mx : module
        nbmod or MXNet.
    requests : sequence of str
        How gradients of the variables are written.
    """

    def __init__(self, mx: Any, requests: list[str]):
        self.mx = mx
        self.variables = [self.filled(seed) for seed in range(len(requests))]
        for variable, request in zip(self.variables, requests, strict=True):
            variable.attach_grad(request)
        self.arrays: list[Any] = []

    def filled(self, seed: int) -> Any:
        values = np.random.default_rng(seed).uniform(-1, 1, SHAPE)
        return self.mx.nd.array(values, dtype="float64")

    def pick(self, at: int) -> Any:
        every = [*self.variables, *self.arrays]
        return every[at % len(every)]

    def keep(self, array: Any) -> None:
        self.arrays.append(array)
        del self.arrays[:-MOST]

    def scope(self, mode: str) -> AbstractContextManager[Any]:
        autograd = self.mx.autograd
        return {"record": autograd.record, "predict": partial(autograd.record, train_mode=False),
                "pause": autograd.pause}[mode]()

    def gradients(self) -> list[np.ndarray]:
        return [_rounded(variable.grad) for variable in self.variables]

    # -- steps ------------------------------------------------------------------------------

    def unary(self, at: int, name: str, mode: str) -> None:
        with self.scope(mode):
            self.keep(UNARY[name](self.mx.nd, self.pick(at)))

    def binary(self, at: int, other: int, name: str, mode: str) -> None:
        with self.scope(mode):
            self.keep(BINARY[name](self.mx.nd, self.pick(at), self.pick(other)))

    def nested(self, at: int, other: int, mode: str) -> None:
        """Another mode within a mode."""
        with self.scope("record"):
            inner = self.pick(at) * 2
            with self.scope(mode):
                product = inner * self.pick(other)
            self.keep(product + inner)

    def detach(self, at: int) -> None:
        self.keep(self.pick(at).detach())

    def backward(self, at: int, seed: int | None) -> None:
        head = None if seed is None else self.filled(seed)
        self.pick(at).backward(head, retain_graph=True)

    def grad(self, at: int, variable: int) -> None:
        found = self.mx.autograd.grad(self.pick(at), [self.variables[variable]],
                                      retain_graph=True)
        self.keep(found[0])

    def attach(self, at: int, request: str) -> None:
        """Make a variable anew, of a copy of the values."""
        at %= len(self.variables)
        self.variables[at] = self.variables[at].copy()
        self.variables[at].attach_grad(request)

    def assign(self, at: int, other: int) -> None:
        """Other values for a variable."""
        self.variables[at % len(self.variables)][:] = self.pick(other).detach() * 0.5

    def zero(self, at: int) -> None:
        self.variables[at % len(self.variables)].grad[:] = 0


def _rounded(array: Any) -> np.ndarray:
    """Without the last digits, which are all that some gradients have that should be 0."""
    return array.asnumpy().round(9) + 0.0


UNARY: dict[str, Callable[[Any, Any], Any]] = {
    "tanh": lambda nd, x: nd.tanh(x),
    "square": lambda nd, x: x ** 2,
    "rows": lambda nd, x: nd.concat(x[1:], x[:1], dim=0),
    "sum": lambda nd, x: nd.broadcast_mul(x, x.sum(axis=1, keepdims=True)),
    "mean": lambda nd, x: x - x.mean(),
    "reshape": lambda nd, x: x.reshape((4, 3)).T.reshape((3, 4)),
    "softmax": lambda nd, x: nd.softmax(x),
    "clip": lambda nd, x: nd.clip(x * 1, -0.5, 0.5),    # MXNet's adds to no gradient of a variable
    "stop": lambda nd, x: nd.BlockGrad(x) + x,
    "split": lambda nd, x: nd.concat(*nd.split(x, num_outputs=2, axis=1)[::-1], dim=1),
    "negative": lambda nd, x: 1 - x,
    "slice": lambda nd, x: nd.slice_axis(nd.concat(x, x, dim=0), axis=0, begin=1, end=4),
    "one element": lambda nd, x: x * x[0, 1],
    "max": lambda nd, x: nd.broadcast_add(x, x.max(axis=0, keepdims=True)),
    "dropout": lambda nd, x: nd.Dropout(x, p=0) * 2,
}
BINARY: dict[str, Callable[[Any, Any, Any], Any]] = {
    "add": lambda nd, x, y: x + y,
    "multiply": lambda nd, x, y: x * y,
    "divide": lambda nd, x, y: x / (y * y + 1),
    "maximum": lambda nd, x, y: nd.maximum(x, y),
    "dot": lambda nd, x, y: nd.dot(nd.dot(x, y, transpose_b=True), y) * 0.2,
    "where": lambda nd, x, y: nd.where(x > y, x * 2, y),
    "concat": lambda nd, x, y: nd.concat(x, y, dim=1)[:, 2:6],
    "stack": lambda nd, x, y: nd.stack(x, y).sum(axis=0),
    "add_n": lambda nd, x, y: nd.add_n(x, y, x),
    "last row": lambda nd, x, y: nd.broadcast_sub(x, y[2:]),
}


# -- programs -------------------------------------------------------------------------------------

def a_mode(rng: random.Random) -> str:
    return rng.choice(("record", "record", "record", "predict", "pause"))


def place(rng: random.Random) -> int:
    return rng.randrange(VARIABLES + MOST)


STEPS: dict[str, tuple[float, Callable[[random.Random], dict[str, Any]]]] = {
    "unary": (8, lambda rng: {"at": place(rng), "name": rng.choice(list(UNARY)),
                              "mode": a_mode(rng)}),
    "binary": (8, lambda rng: {"at": place(rng), "other": place(rng),
                               "name": rng.choice(list(BINARY)), "mode": a_mode(rng)}),
    "nested": (1, lambda rng: {"at": place(rng), "other": place(rng), "mode": a_mode(rng)}),
    "detach": (0.5, lambda rng: {"at": place(rng)}),
    "backward": (4, lambda rng: {"at": place(rng), "seed": rng.choice((None, 7))}),
    "grad": (1, lambda rng: {"at": place(rng), "variable": rng.randrange(VARIABLES)}),
    "attach": (0.5, lambda rng: {"at": place(rng), "request": rng.choice(("write", "add"))}),
    "assign": (1, lambda rng: {"at": place(rng), "other": place(rng)}),
    "zero": (0.5, lambda rng: {"at": place(rng)}),
}
"""Weight, and a function that draws the arguments."""


def draw(seed: int) -> tuple[list[str], list[Step]]:
    """Requests of the variables, and steps."""
    rng = random.Random(seed)
    requests = [rng.choice(("write", "write", "add")) for _ in range(VARIABLES)]
    names = ["unary", "binary", *draw_names(rng, STEPS, rng.randrange(6, 25))]
    return requests, [(name, STEPS[name][1](rng)) for name in names]


def run(mx: Any, seed: int) -> list[Any]:
    """After each step the gradients and the last array, or "error" where it raised."""
    requests, steps = draw(seed)
    tape, found = Tape(mx, requests), []
    for name, arguments in steps:
        failed = call(tape, name, arguments) == "error"
        last = [_rounded(array) for array in tape.arrays[-1:]]
        found.append(["error" if failed else "", tape.gradients(), last])
        if failed:
            break       # an error may leave MXNet's tape as it was in the middle
    return found
