"""Layers beyond their samples: bitwise equal for any threads, statistics far from zero."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nbmod as mx
from nbmod.ops import jit
from nbmod.ops.simd import nontemporal

LAYERS = {
    "BatchNorm": ((6, 5, 9, 11), {"fix_gamma": False}),
    "BatchNorm, channels last": ((6, 30, 30, 5), {"fix_gamma": False, "axis": -1}),
    "LayerNorm": ((600, 40), {}),
    "LayerNorm, long rows": ((2100, 200), {}),
    "InstanceNorm": ((6, 5, 9, 11), {}),
    "InstanceNorm, long rows": ((40, 5, 19, 21), {}),
    "L2Normalization": ((6, 50, 90), {"mode": "channel"}),
    "LRN": ((6, 9, 10, 11), {"nsize": 5}),
    "softmax": ((60, 90), {}),
    "log_softmax": ((6, 90, 70), {"axis": 1}),
    "Dropout": ((70, 90), {}),
}


def run(name: str, data: np.ndarray, attrs: dict[str, Any]) -> dict[str, np.ndarray]:
    """Output, gradients and states of one training step; parameters are ones."""
    mx.random.seed(0)
    symbol = getattr(mx.sym, name.split(",")[0])(mx.sym.Variable("data"), name="op", **attrs)
    executor = symbol.simple_bind(mx.cpu(), data=data.shape)
    for parameter in executor.arg_arrays[1:]:
        parameter[:] = 1
    executor.forward(is_train=True, data=mx.nd.array(data))
    executor.backward(mx.nd.array(np.cos(data)))
    arrays = {"output": executor.outputs[0], **executor.aux_dict}
    arrays |= {f"gradient of {arg}": array for arg, array in executor.grad_dict.items()}
    return {key: array.asnumpy() for key, array in arrays.items()}


@pytest.fixture
def threads():
    before = jit.num_threads()
    yield jit.set_num_threads
    jit.set_num_threads(before)


@pytest.mark.parametrize("name", LAYERS)
def test_threads_do_not_change_a_bit(name, threads):
    shape, attrs = LAYERS[name]
    data = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    expected = run(name, data, attrs)
    threads(1)
    for what, array in run(name, data, attrs).items():
        np.testing.assert_array_equal(array, expected[what], what)


@pytest.mark.parametrize("shape", [(90, 250), (70, 384)])
@pytest.mark.parametrize("name", ["LayerNorm", "InstanceNorm"])
def test_rows_past_the_caches_are_the_same_bits(name, shape, monkeypatch):
    data = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    shape = shape if name == "LayerNorm" else (shape[0] // 5, 5, shape[1])
    data = data.reshape(shape)
    expected = run(name, data, {})
    monkeypatch.setattr(nontemporal, "NONTEMPORAL_BYTES", 0)
    for what, array in run(name, data, {}).items():
        np.testing.assert_array_equal(array, expected[what], what)


@pytest.mark.parametrize("name", ["LayerNorm", "InstanceNorm"])
@pytest.mark.parametrize("size", [60, 6000])
@pytest.mark.parametrize("first", [0, 1e4])
def test_rows_far_from_zero(name, size, first):
    """The mean of 1e4 is a float32, accurate to 5e-4, even if the first element is an outlier."""
    data = (np.random.default_rng(0).standard_normal((6, size)) + 1e4).astype(np.float32)
    data[:, 0] = first
    wide = data.astype(np.float64)
    centred = wide - wide.mean(axis=1, keepdims=True)
    expected = centred / np.sqrt(wide.var(axis=1, keepdims=True) + 1e-3)
    if name == "InstanceNorm":
        data = data.reshape(2, 3, size)
    output = run(name, data, {"eps": 1e-3})["output"] - 1
    np.testing.assert_allclose(output.reshape(6, size), expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("shape", [(8, 3, 20, 20), (3200, 3)])
def test_batch_norm_far_from_zero(shape):
    """The mean of 1e4 is a float32, accurate to 5e-4; E[x^2] - E[x]^2 would lose all digits."""
    rng = np.random.default_rng(0)
    data = (rng.standard_normal(shape) + 1e4).astype(np.float32)
    wide, axes = data.astype(np.float64), tuple(axis for axis in range(len(shape)) if axis != 1)
    centred = wide - wide.mean(axis=axes, keepdims=True)
    expected = centred / np.sqrt(wide.var(axis=axes, keepdims=True) + 1e-3)
    output = run("BatchNorm", data, {"fix_gamma": False})["output"] - 1
    np.testing.assert_allclose(output, expected, rtol=1e-4, atol=1e-3)
