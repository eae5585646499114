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
