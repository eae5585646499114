"""Random programs over arrays that share memory, in nbmod and in MXNet."""

from __future__ import annotations

import pytest

import nbmod as mx
from tests.compare import assert_sequences_agree
from tests.programs import array_calls

EACH = 100


@pytest.mark.parametrize("first", range(0, 600, EACH))
def test_programs_over_arrays_end_as_in_mxnet(oracle, first):
    # Integers mostly; gradients of float16 products have 11 bits.
    assert_sequences_agree(oracle, array_calls, range(first, first + EACH), 1e-3)


@pytest.mark.parametrize("stype", ["default", "csr", "row_sparse"])
def test_the_whole_of_an_array_is_the_array(stype):
    x = mx.nd.array([[1.0, 0.0], [2.0, 3.0]]).tostype(stype)
    assert x[:] is x
    if stype == "default":
        assert x[()] is x and x[::1] is x and x[0:] is not x and x[...] is not x
        assert x[0].T.shape == (2,) and x.T is not x


def test_the_whole_of_a_variable_is_differentiated():
    x = mx.nd.array([1.0, 2.0])
    x.attach_grad()
    y = x[:]
    with mx.autograd.record():
        z = (y * y).sum()
    z.backward()
    assert x.grad.asnumpy().tolist() == [2.0, 4.0]


@mx.operator.register("keeps_text")
class _KeepsTextProp(mx.operator.CustomOpProp):
    def __init__(self, value):
        super().__init__()
        self.value = value

    def infer_shape(self, in_shape):
        return in_shape, [(len(self.value),)], []

    def create_operator(self, ctx, shapes, dtypes):
        text = self.value

        class KeepsText(mx.operator.CustomOp):
            def forward(self, is_train, req, in_data, out_data, aux):
                self.assign(out_data[0], req[0], mx.nd.array([*text.encode()]))

        return KeepsText()


def test_parameters_that_are_equal_but_written_differently_are_told_apart():
    for value in (1, True, 1.0, (1, 2), (True, 2), (1.0, 2), [1, 2], [1, True], 0, False, -0.0, 0.0,
                  ((1,), 2), ((True,), 2)):
        codes = mx.nd.Custom(mx.nd.zeros(1), op_type="keeps_text", value=value).asnumpy()
        assert bytes(codes.astype(int).tolist()).decode() == str(value)
    x = mx.nd.ones((2, 3))
    assert mx.nd.sum(x, axis=1).shape == mx.nd.sum(x, axis=[1]).shape == (2,)
    for wrong in (True, 1.0, [True]):
        with pytest.raises(mx.MXNetError, match="axis is"):
            mx.nd.sum(x, axis=wrong)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_implementations_are_chosen_once_for_a_shape(monkeypatch, dtype):
    x, w = mx.nd.ones((4, 8, 5, 5), dtype=dtype), mx.nd.ones((8, 8, 3, 3), dtype=dtype)

    def values():
        y = mx.nd.Convolution(x, w, no_bias=True, kernel=(3, 3), num_filter=8)
        return mx.nd.Pooling(y, kernel=(2, 2), pool_type="avg").asnumpy().tolist()

    expected = values()
    for name in ("choose", "rows"):
        monkeypatch.delattr(f"nbmod.ops.dispatch.{name}")
    assert values() == expected
