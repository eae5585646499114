"""The self test of `doctor`: small networks whose results are known, and files.

A check returns a text about its result, or raises; an MXNetError names the difference.  All checks
run, and errors of any kind are part of the report.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable

import numpy as np

from ..base import MXNetError

__all__ = ["self_test"]

RTOL = 1e-4
"""Tolerance of float32 sums of some hundred products in any order: rounding is below 1e-5."""


def self_test() -> list[tuple[str, str]]:
    """Names of checks, each with `passed` and the time, or what failed."""
    return [(name, _outcome(check)) for name, check in CHECKS.items()]


def _outcome(check: Callable[[], str]) -> str:
    started = time.perf_counter()
    try:
        seen = check()
    except Exception as error:    # the report has errors of all kinds
        return f"FAILED: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
    return f"passed{f', {seen}' if seen else ''} ({time.perf_counter() - started:.1f} s)"


def _close(result: object, expected: object, what: str) -> None:
    difference = np.abs(np.asarray(result, float) - np.asarray(expected, float)).max()
    scale = np.abs(np.asarray(expected, float)).max()
    if not difference <= RTOL * scale:    # NaN is no result either
        raise MXNetError(f"{what} differs by {difference:.3g} of {scale:.3g}")


def _arrays() -> str:
    from .. import nd

    a, b = (np.random.default_rng(0).random((2, 64, 64)) - 0.5).astype("f4")
    _close(nd.dot(nd.array(a), nd.array(b)).asnumpy(), a @ b, "dot")
    _close(nd.exp(nd.array(a)).asnumpy(), np.exp(a), "exp")
    return ""


def _network(gpu: int | None = None) -> str:
    """A dense layer with tanh and its gradients, on all threads of the CPU, or on a GPU."""
    from .. import context, nd, sym
    from ..ops.jit import num_threads, threading_layer

    ctx = context.cpu() if gpu is None else context.gpu(gpu)
    rng = np.random.default_rng(1)
    x, w, b = ((rng.random(shape) - 0.5).astype("f4") for shape in ((64, 128), (96, 128), (96,)))
    net = sym.tanh(sym.FullyConnected(sym.Variable("x"), num_hidden=96, name="fc"))
    arrays = {name: nd.array(value, ctx) for name, value
              in (("x", x), ("fc_weight", w), ("fc_bias", b))}
    grads = {name: nd.zeros(array.shape, ctx) for name, array in arrays.items()}
    executor = net.bind(ctx, arrays, grads)
    executor.forward(is_train=True)
    executor.backward([nd.ones((64, 96), ctx)])
    y = np.tanh(x @ w.T + b)
    _close(executor.outputs[0].asnumpy(), y, "output")
    _close(grads["fc_weight"].asnumpy(), (1 - y * y).T @ x, "gradient of the weight")
    _close(grads["x"].asnumpy(), (1 - y * y) @ w, "gradient of the data")
    return "" if gpu is not None else f"{num_threads()} threads of {threading_layer() or 'NumPy'}"


def _files() -> str:
    from .. import convert, nd, sym

    with tempfile.TemporaryDirectory(prefix="nbmod-doctor-") as folder:
        model = convert.StoredModel(sym.tanh(sym.Variable("x"), name="y"),
                                    {"w": nd.array([1, 2])}, {})
        for name in ("net", "net.safetensors"):
            convert.write_model(model, os.path.join(folder, name))
            copy = convert.read_model(os.path.join(folder, name))
            if copy.symbol is None or copy.symbol.list_outputs() != ["y_output"]:
                raise MXNetError(f"{name}: the network that was written is not read")
            _close(copy.arg_params["w"].asnumpy(), [1, 2], "a parameter")
    return ""


def _gpu() -> str:
    from .. import context

    count = context.num_gpus()
    for number in range(count):
        _network(number)
    return f"{count} GPUs" if count else "none to test"


CHECKS: dict[str, Callable[[], str]] = {
    "arrays": _arrays, "network, gradients": _network, "files": _files, "GPUs": _gpu}
