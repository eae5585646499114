"""Chains of elementwise operators, nbmod and MXNet interleaved.

    python -m bench.elementwise [name ...]       a table: milliseconds, ratios, share of bandwidth
    python -m pytest bench/elementwise.py        training by the fixture `kernel_benchmark`

`alone` is nbmod without fusion.  The bytes of a chain are those of its inputs and outputs, each
once: the memory traffic of one fused kernel.  Their share is of the bandwidth of a copy in the same
process.  Figures are medians, taken after the kernels have been compiled.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import contextmanager
from math import prod
from typing import Any

import pytest

import nbmod as mx
from nbmod.bench.roofs import measured_roofs
from nbmod.bench.side_by_side import ArmTime

from .peers import HEAD, arm_of, arms_of, cells, mxnet_worker, timed
from .programs import steps

Shapes = dict[str, tuple[int, ...]]
MANY = (4, 1024, 1024)


def polynomial() -> Any:
    """Multiplications, sums and a ReLU of three tensors: memory-bound."""
    a, b, c = map(mx.sym.Variable, "abc")
    return mx.sym.Activation(a * b + c, act_type="relu") * (a + b) + c


def gates() -> Any:
    """The elementwise part of an LSTM cell."""
    i, f, g, o, c = map(mx.sym.Variable, "ifgoc")
    c = mx.sym.sigmoid(f) * c + mx.sym.sigmoid(i) * mx.sym.tanh(g)
    return mx.sym.Group([mx.sym.sigmoid(o) * mx.sym.tanh(c), c])


def scores() -> Any:
    """Scale, mask and bias of attention."""
    x, mask, bias = map(mx.sym.Variable, ("x", "mask", "bias"))
    return mx.sym.broadcast_add(mx.sym.broadcast_add(x * 0.125, (1 - mask) * -10000.0), bias)


def momentum() -> Any:
    """A step of gradient descent as a script writes it."""
    weight, grad, state = map(mx.sym.Variable, ("weight", "grad", "state"))
    state = 0.9 * state - 0.1 * (mx.sym.clip(grad * 0.5, -1.0, 1.0) + 1e-4 * weight)
    return mx.sym.Group([weight + state, state])


CASES: dict[str, tuple[Callable[[], Any], Shapes]] = {
    "polynomial": (polynomial, dict.fromkeys("abc", MANY)),
    "gates": (gates, dict.fromkeys("ifgoc", (1024, 1024))),
    "scores": (scores, {"x": (16, 16, 128, 128), "mask": (16, 1, 1, 128),
                        "bias": (16, 128, 128)}),
    "momentum": (momentum, dict.fromkeys(("weight", "grad", "state"), MANY)),
}


@contextmanager
def alone() -> Any:
    """Symbols bound in this context are not fused."""
    before = os.environ.get("MXNET_USE_FUSION")
    os.environ["MXNET_USE_FUSION"] = "0"
    try:
        yield
    finally:
        del os.environ["MXNET_USE_FUSION"]
        if before is not None:
            os.environ["MXNET_USE_FUSION"] = before


def moved(symbol: Any, shapes: Shapes) -> int:
    """Bytes of the inputs and outputs of forward."""
    arguments, outputs, _ = symbol.infer_shape(**shapes)
    return 4 * sum(map(prod, (*arguments, *outputs)))


def compare(worker: Any, name: str, grad: str) -> dict[str, ArmTime]:
    """Times of a step: nbmod, nbmod without fusion, MXNet."""
    build, shapes = CASES[name]
    case = build().tojson(), shapes, None, grad
    arms = arms_of(worker, steps.step, *case)
    with alone():
        arms["alone"] = arm_of(steps.step(mx, *case))
    return timed(arms)


def main(names: list[str]) -> None:
    worker, copied = mxnet_worker(), measured_roofs().nbytes["copy"]
    print(f"{'chain':12} {'':8} {HEAD} {'alone ms':>9} {'ratio':>6} {'GB/s':>6} {'of copy':>7}")
    for name in names or CASES:
        build, shapes = CASES[name]
        for grad in ("null", "write"):
            times = compare(worker, name, grad)
            ours, single = times["nbmod"].seconds, times["alone"]
            rate = moved(build(), shapes) / ours if grad == "null" else float("nan")
            print(f"{name:12} {'forward' if grad == 'null' else 'training':8} {cells(times)} "
                  f"{single.seconds * 1e3:9.3f} {single.ratio.median:6.2f} {rate / 1e9:6.1f} "
                  f"{rate / copied:7.0%}", flush=True)


@pytest.mark.parametrize("name", CASES)
def test_chain(beside: Any, name: str) -> None:
    """One row per chain: forward and backward together."""
    build, shapes = CASES[name]
    beside(steps.step, build().tojson(), shapes)


if __name__ == "__main__":
    main(sys.argv[1:])
