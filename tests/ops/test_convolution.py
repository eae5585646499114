"""Convolution beyond its samples: bitwise equal for any number of threads, and window tables."""

from __future__ import annotations

import numpy as np
import pytest

import nbmod as mx
from nbmod.ops import jit
from nbmod.ops.nn.sliding_window import Window

X = mx.sym.Variable("x")
NETS = {
    "3x3": (mx.sym.Convolution(X, kernel=(3, 3), pad=(1, 1), num_filter=37), (5, 19, 13, 11)),
    "deep": (mx.sym.Convolution(X, kernel=(3, 3), num_filter=130), (3, 260, 5, 5)),
    "grouped": (mx.sym.Convolution(X, kernel=(3, 3), num_filter=10, num_group=5), (7, 15, 12, 12)),
    "one image": (mx.sym.Convolution(X, kernel=(1, 1), num_filter=9), (1, 70, 6, 6)),
    "transposed": (mx.sym.Deconvolution(X, kernel=(3, 3), stride=(2, 2), num_filter=21),
                   (3, 18, 7, 9)),
    "dense": (mx.sym.FullyConnected(X, num_hidden=203), (37, 611)),
    "pool": (mx.sym.Pooling(X, kernel=(3, 3), stride=(2, 2)), (3, 5, 11, 12)),
}  # fmt: skip


@pytest.mark.parametrize("net", NETS)
def test_any_number_of_threads_gives_the_same_bits(net):
    many = jit.num_threads()
    try:
        results = []
        for count in (1, many):
            jit.set_num_threads(count)
            results.append(outputs_and_gradients(*NETS[net]))
    finally:
        jit.set_num_threads(many)
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


def outputs_and_gradients(symbol: mx.sym.Symbol, shape: tuple[int, ...]) -> list[np.ndarray]:
    executor = symbol.simple_bind(mx.cpu(), x=shape)
    rng = np.random.default_rng(0)
    for array in executor.arg_arrays:
        array[:] = rng.standard_normal(array.shape)
    out, = executor.forward(is_train=True)
    executor.backward(mx.nd.array(rng.standard_normal(out.shape)))
    return [array.asnumpy() for array in (out, *executor.grad_arrays)]


@pytest.mark.parametrize("size, kernel, stride, pad, dilate", [
    (7, 3, 1, 1, 1), (7, 3, 2, 0, 2), (5, 2, 3, 4, 1), (9, 1, 4, 0, 1), (6, 4, 1, 3, 3),
])  # fmt: skip
def test_a_window_knows_where_its_taps_meet_the_image(size, kernel, stride, pad, dilate):
    """The table against its definition: position o, tap t reads pixel o stride - pad + t dilate."""
    count = (size + 2 * pad - dilate * (kernel - 1) - 1) // stride + 1
    window = Window.over((size,), (count,), (kernel,), (stride,), (pad,), (dilate,))
    for tap, (_, _, offset, lo, hi, *_) in enumerate(window.table[1:]):
        pixels = np.arange(count) * stride - pad + tap * dilate
        assert offset == tap * dilate - pad
        assert np.flatnonzero((pixels >= 0) & (pixels < size)).tolist() == list(range(lo, hi))
