"""softmax and related ops at every size that selects another kernel, in place or not."""

from __future__ import annotations

import numpy as np
import pytest

import nbmod as mx
from nbmod.core.config import CONFIG
from nbmod.ops.simd.softmax_rows import LOG, _row

SHAPES = [(5, 7), (32, 10), (3, 2000), (90, 100), (700, 13), (6, 40, 50)]
"""By NumPy, by a kernel on one thread (twice), by one on all cores (twice), along strips."""
DTYPES = {"float32": 2e-6, "float64": 1e-13}
"""Of numbers up to 1: a sum of 2000 is rounded some ten times, in lanes."""


def expected(name, x, axis):
    z = x.astype(np.float64) * (-1 if name == "softmin" else 1)
    z -= z.max(axis=axis, keepdims=True)
    log = z - np.log(np.exp(z).sum(axis=axis, keepdims=True))
    return log if name == "log_softmax" else np.exp(log)


def gradient(name, g, y, axis):
    if name == "log_softmax":
        return g - np.exp(y) * g.sum(axis=axis, keepdims=True)
    return (-1 if name == "softmin" else 1) * y * (g - (g * y).sum(axis=axis, keepdims=True))


@pytest.mark.parametrize("inplace", [False, True], ids=["apart", "in place"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin"])
def test_values_and_gradients(name, shape, dtype, inplace):
    """In place where the data is a temporary that nothing else reads."""
    axis = 1
    data = mx.sym.Variable("data")
    source = data + 0.5 if inplace else data
    symbol = getattr(mx.sym, name)(source, axis=axis)
    executor = symbol.simple_bind(mx.cpu(), data=shape, type_dict={"data": dtype})
    rng = np.random.default_rng(0)
    x, g = (rng.standard_normal(shape).astype(dtype) for _ in range(2))
    executor.forward(is_train=True, data=mx.nd.array(x, dtype=dtype))
    executor.backward(mx.nd.array(g, dtype=dtype))
    y = expected(name, x, axis)
    scale = max(1.0, abs(y).max())
    np.testing.assert_allclose(executor.outputs[0].asnumpy(), y, rtol=0,
                               atol=scale * DTYPES[dtype])
    want = gradient(name, g.astype(np.float64), y, axis)
    scale = max(1.0, abs(want).max())
    np.testing.assert_allclose(executor.grad_dict["data"].asnumpy(), want, rtol=0,
                               atol=4 * scale * DTYPES[dtype])


@pytest.mark.parametrize("options", [
    {}, {"use_ignore": True, "ignore_label": 3}, {"smooth_alpha": 0.125}, {"out_grad": True},
    {"normalization": "valid"}, {"normalization": "batch", "grad_scale": 2.0}], ids=str)
@pytest.mark.parametrize("rows", [3, 40, 900])
def test_gradients_of_the_loss(monkeypatch, rows, options):
    """For any implementation; a label outside of the classes means none, if it is accepted."""
    monkeypatch.setattr(CONFIG, "check_labels", False)
    symbol = mx.sym.SoftmaxOutput(mx.sym.Variable("data"), name="softmax", **options)
    executor = symbol.simple_bind(mx.cpu(), data=(rows, 10))
    rng = np.random.default_rng(0)
    x, label = rng.standard_normal((rows, 10)), rng.integers(-1, 11, rows)
    executor.forward(is_train=True, data=mx.nd.array(x), softmax_label=mx.nd.array(label))
    heads = rng.standard_normal((rows, 10)) if options.get("out_grad") else np.ones(10)
    executor.backward(mx.nd.array(heads) if options.get("out_grad") else None)
    y = expected("softmax", x, 1)
    alpha = options.get("smooth_alpha", 0.0)
    named = (label >= 0) & (label < 10)
    target = np.where(np.arange(10) == label[:, None], 1 - alpha, alpha / 9)
    want = (y - target) * heads
    if options.get("use_ignore"):
        want[label == 3] = 0
    count = {"batch": rows, "valid": (label != -1).sum()}.get(options.get("normalization"), 1)
    want *= options.get("grad_scale", 1.0) / count
    assert named.any() and not named.all() or rows == 3
    np.testing.assert_allclose(executor.grad_dict["data"].asnumpy(), want, rtol=0, atol=2e-6)


@pytest.mark.parametrize("log", [False, True])
def test_rows_of_matrices_as_python_functions(log):
    """Without a compiler the micro-kernel is a Python function, which gets whole matrices."""
    x = np.random.default_rng(7).standard_normal((5, 3)).astype(np.float32)
    y = np.empty_like(x)
    for row in range(len(x)):
        _row(x, y, np.ones(1, np.float32), (3 * row, 3 * row), (3, LOG * log))
    share = np.exp(x) / np.exp(x).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(y, np.log(share) if log else share, rtol=1e-5)
