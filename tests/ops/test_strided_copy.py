"""Parallel copies equal NumPy's, from and to views of any kind, with non-temporal stores or not."""

from __future__ import annotations

import numpy as np
import pytest

import nbmod as mx
from nbmod.ops.jit import Kernel
from nbmod.ops.simd import nontemporal
from nbmod.ops.tensor import strided_copy


def numbers(shape, dtype):
    return np.random.RandomState(0).randint(-99, 99, shape).astype(dtype)


VIEWS = {
    "whole": ((7, 300), lambda a: a, True),
    "columns": ((5, 6, 260), lambda a: a[:, 1:4, 128:], True),
    "rows": ((9, 20001), lambda a: a[2:8], True),
    "swapped": ((4, 6, 36), lambda a: a.swapaxes(0, 1), True),
    "one row": ((3, 4, 130), lambda a: a[1], True),
    "every other": ((5, 40), lambda a: a[:, ::2], False),
    "turned over": ((20, 20), lambda a: a.T, False),
    "backwards": ((6, 70), lambda a: a[::-1], False),
    "repeated": ((1, 70), lambda a: np.broadcast_to(a, (5, 70)), False),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8"])
@pytest.mark.parametrize("far", [np.inf, 0])
@pytest.mark.parametrize("name", VIEWS)
def test_moves_are_those_of_numpy(name, far, dtype, monkeypatch):
    """Copied there, and back into a larger tensor; `runs` have a kernel, and elements outside are
    not written."""
    shape, view, runs = VIEWS[name]
    monkeypatch.setattr(strided_copy, "_WORTH_IT", 0)
    monkeypatch.setattr(nontemporal, "NONTEMPORAL_BYTES", far)
    source = numbers(shape, dtype)
    there = np.empty(view(source).shape, dtype)
    move = strided_copy.prepare_move(view(source), there)
    assert isinstance(move.func, Kernel) == runs or there.itemsize == 1
    move()
    np.testing.assert_array_equal(there, view(source))
    if name != "repeated":
        back, expected = numbers(shape, dtype)[::-1].copy(), numbers(shape, dtype)[::-1].copy()
        np.copyto(view(expected), there)
        strided_copy.prepare_move(there, view(back))()
        np.testing.assert_array_equal(back, expected)


@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8"])
@pytest.mark.parametrize("far", [np.inf, 0])
@pytest.mark.parametrize("shape, axes", [
    ((160, 96), (1, 0)), ((75, 1030), (1, 0)), ((3, 67, 5, 7), (0, 2, 3, 1)),
    ((2, 40, 3), (0, 2, 1)), ((4, 32, 6, 16), (3, 1, 2, 0)),
])  # fmt: skip
def test_transposed_copies_are_those_of_numpy(shape, axes, far, dtype, monkeypatch):
    monkeypatch.setattr(strided_copy, "_WORTH_TURNING", 0)
    monkeypatch.setattr(nontemporal, "NONTEMPORAL_BYTES", far)
    source = numbers(shape, dtype)
    view = source.transpose(axes)
    room = np.empty(source.size + 64, dtype)
    out = room[-room.ctypes.data % 64 // room.itemsize:][:source.size].reshape(view.shape)
    copy = strided_copy.prepare_copy(source, view, out)
    assert isinstance(copy.func, Kernel)
    copy()
    np.testing.assert_array_equal(out, view)


def test_joins_and_cuts_of_large_tensors():
    """Through an executor, where they take kernels; gradients too."""
    a, b = mx.sym.Variable("a"), mx.sym.Variable("b")
    whole = mx.sym.concat(a * 2, b, a, dim=1)
    parts = mx.sym.split(whole, num_outputs=3, axis=2)
    shapes = {"a": (3, 150, 600), "b": (3, 300, 600)}
    executor = mx.sym.Group([*parts, whole]).simple_bind(mx.cpu(), **shapes)
    x = {name: numbers(shape, "float32") for name, shape in shapes.items()}
    for name, array in x.items():
        executor.arg_dict[name][:] = array
    *found, joined = (out.asnumpy() for out in executor.forward(is_train=True))
    expected = np.concatenate([x["a"] * 2, x["b"], x["a"]], 1)
    np.testing.assert_array_equal(joined, expected)
    for part, other in zip(found, np.split(expected, 3, 2), strict=True):
        np.testing.assert_array_equal(part, other)
    executor.backward([mx.nd.array(each) for each in (*found, joined)])
    g = 2 * expected
    np.testing.assert_array_equal(executor.grad_dict["b"].asnumpy(), g[:, 150:450])
    np.testing.assert_array_equal(executor.grad_dict["a"].asnumpy(), 2 * g[:, :150] + g[:, 450:])
