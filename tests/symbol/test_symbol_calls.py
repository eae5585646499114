"""Random programs over symbols, in nbmod and in MXNet."""

from __future__ import annotations

import pytest

import nbmod as mx
from nbmod.base import MXNetError
from tests.compare import assert_sequences_agree
from tests.programs import symbol_calls

EACH = 100


@pytest.mark.parametrize("first", range(0, 400, EACH))
def test_programs_over_symbols_make_mxnets_graphs(oracle, first):
    # Gradients of networks of several layers in float32, and of roundings to 4 digits.
    assert_sequences_agree(oracle, symbol_calls, range(first, first + EACH), 1e-3)


def test_an_input_that_is_read_twice_is_listed_twice():
    x = mx.sym.Variable("x")
    assert mx.sym.dot(x, x).get_children().list_outputs() == ["x", "x"]


def test_attributes_of_several_nodes_of_a_name_are_listed():
    a, b = mx.sym.Variable("x", shape=(2, 3)), mx.sym.Variable("x", lr_mult=2)
    assert (a + b).attr_dict()["x"] == {"__shape__": "(2, 3)", "__lr_mult__": "2", "lr_mult": "2"}


@pytest.mark.parametrize("given, declared, found", [
    ((0, 6), (4, 6), (4, 6)), ((4, 0), (0, 6), (4, 6)), ((4, 6), (5,), (4, 6)),
    ((0, 6), (4, 0), (4, 6))])
def test_a_shape_that_is_given_in_part_is_completed_by_the_declared_one(given, declared, found):
    net = mx.sym.square(mx.sym.Variable("x", shape=declared))
    assert net.infer_shape(x=given) == ([found], [found], [])


def test_a_shape_in_part_that_contradicts_the_declared_one_is_an_error():
    with pytest.raises(MXNetError, match=r"x \(variable\): .*__shape__.*\(0, 6\) and \(0, 5\)"):
        mx.sym.Variable("x", shape=(0, 5)).infer_shape_partial(x=(0, 6))
