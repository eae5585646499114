"""Tensors that are too large: an error that names the request, never a crash; and indices beyond
32 bits.

Sizes that must not be allocated have at least 2^48 bytes, more than any present address space, so
that results do not depend on the overcommitment of memory.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
import pytest

import nbmod as mx
from nbmod import nd, sym
from nbmod.ops.op import Op, Spec
from nbmod.ops.tensor.ordering import rank_work

B, H = 2 ** 33, 2 ** 50
X = sym.Variable("x")
ONE = (1, 1, 2, 2)

# What is called, and what its error must contain: the op or the argument, and the shape.
TOO_LARGE = {
    "zeros": (lambda: nd.zeros((B, B)), ["(8589934592, 8589934592)", "float32", "64 bits"]),
    "zeros of a dimension": (lambda: nd.zeros((2 ** 63,)), ["9223372036854775808"]),
    "zeros without elements": (lambda: nd.zeros((0, B, B)), ["(0, 8589934592, 8589934592)"]),
    "zeros that have 64 bits": (lambda: nd.zeros((H,), dtype="int8"), ["int8", "MiB"]),
    "ones": (lambda: nd.ones((B, B)), ["(8589934592, 8589934592)"]),
    "full": (lambda: nd.full((H,), 1), ["float32"]),
    "empty": (lambda: nd.empty((2 ** 31,) * 3), ["64 bits"]),
    "arange": (lambda: nd.arange(H), ["_arange", str(H)]),
    "arange of a fraction": (lambda: nd.arange(0, 1e300), ["_arange", "64 bits"]),
    "linspace": (lambda: nd.linspace(0, 1, H), ["linspace", str(H)]),
    "eye": (lambda: nd.eye(B), ["_eye"]),
    "one_hot": (lambda: nd.one_hot(nd.array([1]), depth=H), ["one_hot", "indices (1,)"]),
    "tile": (lambda: nd.tile(nd.ones((2,)), reps=(B, B)), ["tile", "(8589934592, 17179869184)"]),
    "repeat": (lambda: nd.repeat(nd.ones((2,)), repeats=H), ["repeat", str(2 * H)]),
    "a parameter": (lambda: nd.repeat(nd.ones((2,)), repeats=2 ** 70),
                    ["repeat", "repeats", "64 bits"]),
    "a tuple": (lambda: nd.Pooling(nd.ones(ONE), kernel=(1, 1), stride=(2 ** 70, 1)),
                ["Pooling", "stride", "64 bits"]),
    "broadcast_to": (lambda: nd.ones((1, 1)).broadcast_to((B, B)), ["broadcast_to"]),
    "reshape": (lambda: nd.ones((2, 3)).reshape((B, B)), ["reshape", "(2, 3)"]),
    "pad": (lambda: nd.pad(nd.ones(ONE), mode="constant", pad_width=(0,) * 4 + (B,) * 4), ["Pad"]),
    "topk": (lambda: nd.topk(nd.ones((2,)), k=H), ["topk", "k is", "2 elements"]),
    "random": (lambda: nd.random.uniform(shape=(B, B)), ["_random_uniform"]),
    "diag": (lambda: nd.diag(nd.ones((2,)), k=B), ["diag"]),
    "scatter_nd": (lambda: nd.scatter_nd(nd.ones((1,)), nd.zeros((2, 1)), shape=(B, B)),
                   ["scatter_nd"]),
    "histogram": (lambda: nd.histogram(nd.ones((2,)), bins=H, range=(0, 1)), ["histogram"]),
    "UpSampling": (lambda: nd.UpSampling(nd.ones(ONE), scale=B, sample_type="nearest"),
                   ["UpSampling"]),
    "Convolution": (lambda: nd.Convolution(nd.ones(ONE), nd.ones((1, 1, 1, 1)), kernel=(1, 1),
                                           num_filter=1, pad=(B, B), no_bias=True),
                    ["Convolution", "weight (1, 1, 1, 1)"]),
    "outputs": (lambda: nd.split(nd.ones((2, 2)), num_outputs=2 ** 40),
                ["SliceChannel", "num_outputs"]),
    "inputs": (lambda: nd.concat(nd.ones((2, 2)), num_args=2 ** 40), ["Concat", "num_args"]),
    "layers": (lambda: nd.RNN(nd.ones((1, 1, 1)), nd.ones((5,)), nd.ones((1, 1, 1)), state_size=1,
                              num_layers=2 ** 40, mode="rnn_relu"), ["RNN", "num_layers"]),
    "infer_shape": (lambda: (X + 1).infer_shape(x=(B, B)), ["x (variable)", "64-bit"]),
    "infer_shape of a result": (lambda: sym.tile(X, reps=(B, B), name="t").infer_shape(x=(1,)),
                                ["t (tile)", "64-bit"]),
    "infer_shape of a weight": (
        lambda: sym.FullyConnected(X, num_hidden=B, name="fc").infer_shape(x=(1, B)),
        ["fc_weight", "64-bit"]),
    "simple_bind, argument": (lambda: (X + 1).simple_bind(mx.cpu(), x=(H,)), ["simple_bind: x:"]),
    "simple_bind, weight": (
        lambda: sym.FullyConnected(X, num_hidden=2 ** 30, name="fc").simple_bind(
            mx.cpu(), x=(1, 2 ** 30)), ["fc_weight", "(1073741824, 1073741824)"]),
    "simple_bind, head gradient": (
        lambda: sym.tile(X, reps=(H,), name="t").simple_bind(mx.cpu(), x=(1,)), ["t (tile)"]),
    "simple_bind, result": (
        lambda: sym.sum(sym.tile(X, reps=(H,), name="t")).simple_bind(mx.cpu(), x=(1,)),
        ["largest tensor", "t (tile)", str(H)]),
    "bind": (lambda: sym.tile(X, reps=(H,), name="t").bind(mx.cpu(), {"x": nd.ones((1,))}),
             ["t (tile)", str(H)]),
    "Executor.reshape": (
        lambda: (X + 1).simple_bind(mx.cpu(), x=(1,)).reshape(allow_up_sizing=True, x=(H,)),
        ["reshape: x:", str(H)]),
}  # fmt: skip


@pytest.mark.parametrize("case", TOO_LARGE)
def test_what_is_too_large_is_an_error_that_names_it(case):
    function, words = TOO_LARGE[case]
    with pytest.raises(mx.MXNetError) as raised:
        function()
    for word in words:
        assert word in str(raised.value)


def test_an_index_of_more_than_64_bits_is_out_of_bounds():
    with pytest.raises(IndexError, match="out of bounds"):
        nd.ones((4,))[2 ** 70]


@dataclass(frozen=True)
class Hungry(Op):
    """An op that finds no memory while it runs."""

    def forward(self, ins, outs, call):
        np.empty(H)


def test_memory_that_is_missing_while_an_op_runs_is_told_with_the_op():
    mx.register_op("Hungry")(Hungry)
    try:
        bound = sym.Hungry(X, name="h").bind(mx.cpu(), {"x": nd.ones((3,))})
        with pytest.raises(MemoryError, match=r"h \(Hungry\).*\(3,\)") as raised:
            bound.forward()
        assert isinstance(raised.value, mx.MXNetError)
        with pytest.raises(mx.MXNetError, match=r"Hungry: .*allocate.*data \(3,\)"):
            nd.Hungry(nd.ones((3,)))
    finally:
        mx.unregister_op("Hungry")


def test_an_executor_works_on_after_a_reshape_that_found_no_memory():
    bound = sym.sum(sym.tile(X, reps=(3,))).simple_bind(mx.cpu(), x=(2,))
    with pytest.raises(mx.MXNetError):
        bound.reshape(allow_up_sizing=True, x=(H,))
    bound.arg_dict["x"][:] = 1
    assert bound.forward()[0].asscalar() == 6


@pytest.mark.parametrize("length, kernels", [(1 << 16, True), (1 << 32, True), (1 << 33, False)])
def test_rows_whose_positions_need_more_than_32_bits_are_not_sorted_by_kernels(length, kernels):
    assert bool(rank_work(Spec((1, length, 1), np.dtype(np.float32)), 1)) is kernels


def available_memory() -> int:
    """Usable bytes of memory, 0 where they are unknown."""
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 0


@pytest.mark.skipif(available_memory() < 6 << 30, reason="needs 6 GiB of free memory")
def test_arrays_of_more_than_2_to_the_31_elements():
    """2 GiB of zeros, nearly all of which are never backed by memory."""
    size = 2 ** 31 + 8
    x = nd.zeros((size,), dtype="int8")
    x[size - 3] = 7
    x[2 ** 31 - 1:2 ** 31 + 1] = 5
    assert x[size - 3:].asnumpy().tolist() == [7, 0, 0]
    assert nd.take(x, nd.array([size - 3, 2 ** 31, 0], dtype="int64")).asnumpy().tolist() == [
        7, 5, 0]
    assert nd.max(x).asscalar() == 7
    part = sym.slice_axis(X, axis=0, begin=2 ** 31, end=None)
    assert part.bind(mx.cpu(), {"x": x}).forward()[0].asnumpy().tolist() == [
        5, 0, 0, 0, 0, 7, 0, 0]


@pytest.mark.skipif(available_memory() < 12 << 30, reason="needs 12 GiB of free memory")
def test_kernels_read_beyond_2_to_the_31_elements():
    """An image of 8 GiB whose pixels are 0 except two, so that few pages need memory."""
    n = 47000
    try:
        x = nd.zeros((1, 1, n, n))
    except MemoryError:
        pytest.skip("the system provides at once what it promises")
    x[0, 0, n - 2, n - 1] = 5
    x[0, 0, n - 1, n - 1] = 3
    corners = {"kernel": (1, 1), "stride": (n - 1, n - 1)}
    answers = {
        "slice": nd.slice(x, begin=(0, 0, n - 2, n - 2), end=(1, 1, n, n)),
        "pooling": nd.Pooling(x, pool_type="max", **corners),
        "convolution": nd.Convolution(x, nd.ones((1, 1, 1, 1)), num_filter=1, no_bias=True,
                                      **corners),
        "resize": nd.contrib.BilinearResize2D(x, height=2, width=2),
        "sampler": nd.BilinearSampler(x, nd.ones((1, 2, 1, 1))),
        "rows": nd.Embedding(nd.array([n * n // 8 - 1], dtype="int64"), x.reshape((-1, 8)),
                             input_dim=n * n // 8, output_dim=8),
        "sum": nd.sum(x),
    }  # fmt: skip
    wanted = {"slice": [0, 5, 0, 3], "pooling": [0, 0, 0, 3], "convolution": [0, 0, 0, 3],
              "resize": [0, 0, 0, 3], "sampler": [3], "rows": [0] * 7 + [3], "sum": [8]}
    assert {name: y.asnumpy().ravel().tolist() for name, y in answers.items()} == wanted
