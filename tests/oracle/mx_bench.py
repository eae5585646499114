"""Runs in the MXNet worker: whole networks, for benchmarks and for exchange tests."""

from __future__ import annotations

import time
from typing import Any

import mxnet as mx
import numpy as np

from tests.programs import common


def _bound(json: str, shapes: dict[str, list[int]], requests: Any, seed: int = 0) -> Any:
    executor = mx.sym.load_json(json).simple_bind(
        mx.cpu(), grad_req=requests, **{name: tuple(shape) for name, shape in shapes.items()})
    rng = np.random.default_rng(seed)
    for name, array in [*executor.arg_dict.items(), *executor.aux_dict.items()]:
        array[:] = 1 if name.endswith(("_var", "_gamma")) else 0.05 * rng.standard_normal(
            array.shape)
    return executor


def debug_text(json: str, shapes: dict[str, list[int]], requests: dict[str, str]) -> str:
    """MXNet's description of the bound graph, the planned memory in its last lines."""
    return mx.sym.load_json(json).simple_bind(
        mx.cpu(), grad_req=requests,
        **{name: tuple(shape) for name, shape in shapes.items()}).debug_str()[-400:]


def seconds(json: str, shapes: dict[str, list[int]], requests: dict[str, str], training: bool,
            repeats: int) -> list[float]:
    """Time of each forward run, or of forward and backward together."""
    executor = _bound(json, shapes, requests)
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        executor.forward(is_train=training)
        if training:
            executor.backward()
        mx.nd.waitall()
        times.append(time.perf_counter() - started)
    return times


def op_seconds(json: str, shapes: dict[str, tuple[int, ...]], repeats: int,
               values: dict[str, np.ndarray] | None = None, grad: Any = "write"
               ) -> list[tuple[float, float]]:
    """Seconds of forward and of backward, for each of `repeats` runs; see `common.stepper`."""
    return common.seconds(mx, mx.sym.load_json(json), shapes, repeats, values, grad)
