"""Symbols: MXNet's results, errors that name their causes, and graphs of any depth."""

from __future__ import annotations

import copy
import gc
import inspect
import pickle

import numpy as np
import pytest

import nbmod as mx
from nbmod import sym
from nbmod.base import MXNetError, NotImplementedForSymbol
from nbmod.graph import Entry, Graph, Node
from nbmod.ops import OPS
from nbmod.ops.param import MAX_TENSORS
from nbmod.passes.infer import infer_type
from tests.call_counts import calls_of
from tests.programs import symbol_programs

SUBJECTS = sorted({*symbol_programs.SUBJECTS} - {"names", "attributes"})
DEEP = 20_000


@pytest.mark.parametrize("subject", SUBJECTS)
def test_answers_are_mxnets(oracle, subject):
    theirs = oracle.call("mx_symbol.answers", subject)
    wrong = symbol_programs.differences(mx, subject, theirs)
    assert not wrong, wrong


# -- errors: expressions, and words in the message ---------------------------------------------

x, y = sym.Variable("x"), sym.Variable("y")


def net():
    return sym.FullyConnected(x, num_hidden=3, name="fc")


ERRORS = {
    "unknown parameter": (lambda: sym.FullyConnected(x, num_hiden=3, name="fc"),
                          ["fc", "FullyConnected", "num_hiden", "did you mean 'num_hidden'"]),
    "unreadable parameter": (lambda: sym.FullyConnected(x, num_hidden="many", name="fc"),
                             ["fc", "num_hidden", "'many'", "an integer"]),
    "missing parameter": (lambda: sym.FullyConnected(x, name="fc"), ["fc", "num_hidden"]),
    "unknown input": (lambda: sym.FullyConnected(datta=x, num_hidden=3, name="fc"),
                      ["fc", "datta", "did you mean 'data'"]),
    "input of a wrong class": (lambda: sym.FullyConnected(3, num_hidden=3),
                               ["FullyConnected", "data", "int", "Symbol"]),
    "two values": (lambda: sym.Activation(x, data=y, act_type="relu"), ["Activation", "data"]),
    "several outputs": (lambda: sym.exp(sym.SliceChannel(x, num_outputs=3, name="s"), name="e"),
                        ["e (exp)", "data", "3 outputs", "s_output0", "symbol[0]"]),
    "attribute of a variable": (lambda: sym.FullyConnected(x, num_hidden=3, weight_lr_mult=2),
                                ["weight_lr_mult", "Variable('weight', lr_mult=2)"]),
    "computed state": (lambda: sym.BatchNorm(x, moving_mean=y * 2, name="bn"),
                       ["bn (BatchNorm)", "moving_mean", "_mulscalar"]),
    "too many inputs": (lambda: sym.exp(x, "name", None, None, 5), ["exp", "at most 4", "5"]),
    "counts": (lambda: sym.SliceChannel(x, num_outputs=10 ** 9), ["num_outputs", str(MAX_TENSORS)]),
    "unknown variable": (lambda: net()(y=x), ["'y'", "fc_weight"]),
    "unknown argument": (lambda: net().infer_shape(fc_wight=(2, 3)), ["fc_wight", "fc_weight"]),
    "no such op": (lambda: sym.op.FullyConected, ["FullyConected"]),
    "no such output": (lambda: net()["fc_outptu"], ["fc_outptu", "did you mean 'fc_output'"]),
    "composing a variable": (lambda: x(x=y), ["variable"]),
    "attribute": (lambda: sym.Variable("v", lr=3), ["v", "'lr'", "__yourattr__"]),
    "storage": (lambda: sym.Variable("v", stype="dense"), ["v", "dense", "row_sparse"]),
    "group": (lambda: sym.Group([x, 3]), ["int"]),
    "gradient": (lambda: net().gradient(["x"]), ["bind", "backward"]),
    "operand": (lambda: x + "a", ["str", "Symbol or a number"]),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors_say_what_and_where(case):
    act, words = ERRORS[case]
    with pytest.raises((MXNetError, TypeError, ValueError, AttributeError)) as caught:
        act()
    for word in words:
        assert word in str(caught.value), str(caught.value)


def test_truth_of_a_symbol_is_refused():
    with pytest.raises(NotImplementedForSymbol):
        bool(x)


# -- composing ---------------------------------------------------------------------------------

def test_composing_changes_nothing_that_exists():
    fc = net()
    before = fc.tojson()
    sym.Activation(fc, act_type="relu") + 1
    fc(x=y)
    copy.copy(fc)._set_attr(__a__="1")
    assert fc.tojson() == before


def test_positions_compose_in_the_order_of_the_inputs():
    assert net()(y).list_inputs() == ["y", "fc_weight", "fc_bias"]
    assert net()(y, sym.Variable("w")).list_inputs() == ["y", "w", "fc_bias"]


def test_all_variables_of_one_name_are_replaced():
    twice = sym.Variable("d") + sym.Variable("d")
    assert twice(d=x).list_inputs() == ["x"]


def test_an_index_may_count_from_the_end():
    parts = sym.SliceChannel(x, num_outputs=3, name="s")
    assert parts[-1].list_outputs() == ["s_output2"]
    assert parts[1:].list_outputs() == ["s_output1", "s_output2"]


def test_infer_shape_by_position_and_its_warning():
    assert net().infer_shape((2, 5)) == net().infer_shape(x=(2, 5))
    assert (x + y).infer_shape(None, (3, 7))[0] == [(3, 7), (3, 7)]
    with pytest.warns(UserWarning, match="fc_weight"):
        assert net().infer_shape() == (None, None, None)
    with pytest.warns(UserWarning, match="x: None"):
        assert net().infer_type() == (None, None, None)


# -- functions generated from the op table -----------------------------------------------------

def test_functions_have_true_signatures_and_docstrings():
    signature = inspect.signature(sym.FullyConnected)
    assert list(signature.parameters) == [
        "data", "weight", "bias", "num_hidden", "no_bias", "flatten", "name", "attr", "out",
        "kwargs"]
    assert signature.parameters["no_bias"].default is False
    assert "num_hidden : int, required" in (sym.FullyConnected.__doc__ or "")
    assert sym.Concat.__name__ == "Concat" and "*data" in str(inspect.signature(sym.Concat))
    assert sym.FullyConnected is sym.FullyConnected
    for function, inputs in ((sym.contrib.BilinearResize2D, ["data", "like", "height"]),
                             (sym.contrib.DeformablePSROIPooling,
                              ["data", "rois", "trans", "spatial_scale"])):
        assert list(inspect.signature(function).parameters)[:len(inputs)] == inputs
    resized = sym.contrib.BilinearResize2D(sym.var("x"), None, scale_height=2, scale_width=3)
    assert resized.infer_shape(x=(1, 1, 4, 5))[1] == [(1, 1, 8, 15)]
    assert {"FullyConnected", "Variable", "contrib", "zeros"} <= set(dir(sym))


def test_import_paths():
    import nbmod.symbol.symbol as module

    assert module.Symbol is sym.Symbol and module.Variable is sym.var
    assert sym._internal._plus_scalar(x, scalar=2).list_outputs()[0].startswith("_plus_scalar")
    with pytest.raises(AttributeError):
        sym._plus_scalar  # noqa: B018
    with pytest.raises(AttributeError):
        sym._internal.FullyConnected  # noqa: B018


# -- depth -------------------------------------------------------------------------------------

def chain(length):
    symbol = x
    for _ in range(length):
        symbol = symbol + 1
    return symbol


def walk_through(count):
    """All functions that visit all nodes of a chain."""
    deep = chain(count)
    assert deep.list_arguments() == ["x"]
    assert len(deep.get_internals()) == count + 1
    text = deep.tojson()
    again = sym.load_json(text)
    assert again.tojson() == text
    assert copy.deepcopy(again)(x=y).list_arguments() == ["y"]
    assert pickle.loads(pickle.dumps(deep)).tojson() == text
    assert deep.infer_shape(x=(2,))[1] == [(2,)]
    assert len(deep.attr_dict()) == count
    assert "_plusscalar" in deep.debug_str()


def test_a_deep_chain_needs_no_recursion():
    walk_through(DEEP)


def test_a_deep_chain_needs_linear_time():
    walk_through(10)
    short, long = (calls_of(lambda count=count: walk_through(count)) for count in (500, 2000))
    assert long < 4.1 * short


def test_dropping_a_deep_chain_does_not_overflow_the_stack():
    node = Node(None, "x")
    for i in range(200_000):
        node = Node(OPS["exp"](), f"exp{i}", [Entry(node)])
    deep = sym.Symbol([Entry(node)])
    del node, deep
    gc.collect()


def test_types_of_many_unrelated_variables_need_linear_time():
    def infer(count):
        many = sym.Group([sym.Variable(f"v{i}") * 2 for i in range(count)])
        facts = infer_type(Graph(many.entries), {})
        assert set(facts) == {np.dtype(np.float32)}

    infer(10)
    short, long = (calls_of(lambda count=count: infer(count)) for count in (500, 2000))
    assert long < 4.1 * short


# -- binding -----------------------------------------------------------------------------------

def test_binding_ignores_shapes_of_what_is_not_there():
    executor = (x + y).simple_bind(mx.cpu(), x=(2,), softmax_label=(2,))
    assert list(executor.arg_dict) == ["x", "y"]


def test_eval():
    ones = mx.nd.ones((2,))
    assert (x + y).eval(x=ones, y=ones)[0].asnumpy().tolist() == [2, 2]
    with pytest.raises(ValueError, match="'y'"):
        (x + y).eval(x=ones)


BINDINGS = {
    "context": (lambda: x.bind("cpu", {}), ["ctx", "str", "Context"]),
    "arguments": (lambda: x.bind(mx.cpu(), 3), ["args", "int", "dict"]),
    "undecided": (lambda: (x + y).simple_bind(mx.cpu()), ["x", "y", "shape"]),
    "shape": (lambda: (x + y).simple_bind(mx.cpu(), x=3), ["shape of x is 3", "tuple"]),
    "type": (lambda: (x + y).simple_bind(mx.cpu(), x=(3,), type_dict={"x": "real"}),
             ["type of x is 'real'", "float32"]),
}


@pytest.mark.parametrize("case", BINDINGS)
def test_binding_errors(case):
    act, words = BINDINGS[case]
    with pytest.raises((MXNetError, TypeError)) as caught:
        act()
    for word in words:
        assert word in str(caught.value), str(caught.value)


def test_random_samples_take_symbols_by_position():
    low, high = mx.sym.var("low"), mx.sym.var("high")
    for function, names in (("normal", ("loc", "scale")), ("uniform", ("low", "high"))):
        drawn = getattr(mx.sym.random, function)(**dict(zip(names, (low, high), strict=True)),
                                                 shape=5)
        assert drawn.infer_shape(low=(3,), high=(3,))[1] == [(3, 5)]


def test_randn_takes_its_shape_from_what_it_is_added_to():
    drawn = mx.sym.random.randn(data=mx.sym.ones((4,)), loc=5, scale=0.01) + mx.sym.var("x")
    assert drawn.list_arguments() == ["x"]
    values = drawn.eval(x=mx.nd.zeros((2, 3)))[0].asnumpy()
    assert values.shape == (2, 3) and abs(values - 5).max() < 0.1


def test_simple_bind_ignores_what_is_no_shape():
    net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3, name="fc")
    executor = net.simple_bind(mx.cpu(), data=(2, 5), force_rebind=True, axis=-1)
    assert executor.outputs[0].shape == (2, 3)
    assert executor.get_optimized_symbol().tojson() == net.tojson()
    with pytest.raises(TypeError, match="shape of data is 5"):
        net.simple_bind(mx.cpu(), data=5)
