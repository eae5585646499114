"""Generic checks of every op over its samples (`tests/cases`), through the public interface.

Results are compared with MXNet's in `tests/oracle/test_ops.py`; here an op must be consistent: the
shapes and types it infers are those it produces, its gradient is the derivative of its forward
pass, gradients are added or omitted as requested, inputs are unchanged, and calling it eagerly
equals binding it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

import nbmod as mx
from nbmod.ndarray.functions import op_function
from nbmod.ops import OPS
from nbmod.ops.op import Call
from nbmod.ops.param import fields_of
from nbmod.symbol.namespace import symbol_function
from tests.cases import Sample, all_samples
from tests.compare import assert_same
from tests.grouped import Case, over_groups
from tests.programs import common
from tests.sample_runs import compose, inferred, run

SAMPLES = all_samples()
GOOD = {name: sample for name, sample in SAMPLES.items() if not (sample.error or sample.eager)}
STEP = 1e-6
# A central difference is off by step^2 (times the third derivative) and by eps / step.
DERIVATIVE_TOLERANCE = 1e-6


def op_of(case: Case) -> str:
    return SAMPLES[case.values[0]].op


def over(names: Iterable[str]) -> Any:
    """Parametrise a test over operators; it runs for each of the named samples."""
    return over_groups("name", [Case(name, (name,)) for name in names], op_of)


def over_types(names: Iterable[str]) -> Any:
    """Parametrise a test over operators; it runs for all element types of the named samples."""
    cases = [Case(f"{name}-{dtype}", (name, dtype))
             for name in names for dtype in SAMPLES[name].dtypes]
    return over_groups("name, dtype", cases, op_of)


@functools.cache
def ran(name: str, dtype: str) -> dict[str, Any]:
    """The sample's outputs and `write` gradients, computed once for the checks that share them."""
    sample = SAMPLES[name]
    return run(sample, dtype, {arg: "write" for arg in sample.differentiated(dtype)})


@over_types(GOOD)
def test_outputs_have_the_inferred_shape_and_type(name, dtype):
    sample = SAMPLES[name]
    shapes, types = inferred(compose(sample), sample.arrays(dtype))
    outputs = ran(name, dtype)["outputs"]
    assert [y.shape for y in outputs] == [tuple(shape) for shape in shapes]
    assert [y.dtype for y in outputs] == [np.dtype(kind) for kind in types]


@over(name for name, sample in GOOD.items() if sample.inference)
def test_inference_from_the_first_input_contradicts_nothing(name):
    """Arguments are not compared here: an op may guess a default for missing ones."""
    sample = SAMPLES[name]
    symbol, specs = compose(sample), sample.specs
    arguments = symbol.list_arguments()
    if not arguments:
        return
    known = {arguments[0]: specs[arguments[0]].shape}
    _, out_shapes, aux_shapes = symbol.infer_shape_partial(**known)
    wanted = [y.shape for y in ran(name, sample.dtypes[0])["outputs"]]
    wanted += [specs[aux].shape for aux in symbol.list_auxiliary_states()]
    for found, real in zip([*out_shapes, *aux_shapes], wanted, strict=True):
        filled = [r if f == 0 else f for f, r in zip(found or real, real, strict=True)]
        assert tuple(filled) == real


@over(name for name, sample in GOOD.items() if not (sample.loss or sample.random))
def test_gradient_is_the_derivative(name):
    """One random direction for each input: two forward runs whatever the size."""
    sample = SAMPLES[name]
    if "float64" not in sample.dtypes or not sample.differentiated("float64"):
        return
    outputs, gradients = ran(name, "float64")["outputs"], ran(name, "float64")["grads"]
    if any(y.dtype != np.float64 for y in outputs):
        return  # differences of rounded outputs are meaningless
    inputs, heads = sample.arrays("float64"), sample.heads(outputs)
    value = scalar_function(sample, inputs, heads)
    for index, arg in enumerate(sample.differentiated("float64")):
        direction = np.random.default_rng(index).standard_normal(inputs[arg].shape)
        up, down = (value({arg: inputs[arg] + s * direction}) for s in (STEP, -STEP))
        expected = (up - down) / (2 * STEP)
        terms = gradients[arg] * direction
        scale = np.abs(terms).sum() + abs(value({})) + 1
        assert abs(terms.sum() - expected) <= DERIVATIVE_TOLERANCE * scale, (
            f"{sample.op}: gradient of {arg} along a direction is {terms.sum()}, "
            f"finite differences give {expected}"
        )


def scalar_function(sample: Sample, inputs: dict[str, np.ndarray], heads: list[np.ndarray]) -> Any:
    """The sum of outputs times head gradients, as a function of changed inputs."""
    symbol = compose(sample)
    arrays = {name: common.nd(mx, array) for name, array in inputs.items()}
    args = {name: arrays[name] for name in symbol.list_arguments()}
    aux = {name: arrays[name] for name in symbol.list_auxiliary_states()}
    executor = symbol.bind(mx.cpu(), args, aux_states=aux)

    def value(changed: dict[str, np.ndarray]) -> float:
        for name, array in (inputs | changed).items():
            arrays[name][:] = array
        outputs = executor.forward(is_train=sample.is_train)
        return sum(float((y.asnumpy() * h).sum()) for y, h in zip(outputs, heads, strict=True))

    return value


@over(name for name, sample in GOOD.items() if not sample.random)
def test_add_is_write_plus_what_was_there(name):
    sample = SAMPLES[name]
    dtype = sample.dtypes[0]
    args = sample.differentiated(dtype)
    if not args:
        return
    added = run(sample, dtype, {arg: "add" for arg in args})["grads"]
    for arg in args:
        written = ran(name, dtype)["grads"][arg]
        assert_same(added[arg], written + np.ones_like(written), sample.tolerance(dtype), arg)


@over(name for name, sample in GOOD.items()
      if OPS.find(sample.op).accumulates and "float64" in sample.dtypes)
def test_forward_adds_where_the_op_says_so(name):
    symbol, arrays = compose(SAMPLES[name]), SAMPLES[name].arrays("float64")
    ins = [np.ascontiguousarray(arrays[arg]) for arg in symbol.list_arguments()]
    out, op = np.ones_like(ran(name, "float64")["outputs"][0]), symbol.entries[0].node.op
    if op.random or any(x.dtype != np.float64 for x in (*ins, out)):
        return      # gradients have one type, which is not an integer
    with np.errstate(all="ignore"):     # infinity and NaN are results
        op.forward(ins, [out], Call(add=[True]))
    # Kernels and NumPy differ in the last digits.
    np.testing.assert_allclose(out, ran(name, "float64")["outputs"][0] + 1, rtol=1e-12, atol=1e-12)


@over(name for name, sample in GOOD.items() if not sample.random)
def test_each_gradient_alone_is_the_same(name):
    sample = SAMPLES[name]
    dtype = sample.dtypes[0]
    args = sample.differentiated(dtype)
    if len(args) < 2:
        return
    for arg in args:
        alone = run(sample, dtype, {arg: "write"})["grads"]
        assert set(alone) == {arg}
        assert_same(alone[arg], ran(name, dtype)["grads"][arg], sample.tolerance(dtype), arg)


@over_types(GOOD)
def test_inputs_are_left_alone(name, dtype):
    sample = SAMPLES[name]
    inputs, after = sample.arrays(dtype), ran(name, dtype)
    for arg, array in after["args"].items():
        if arg not in sample.writes:
            assert_same(array, inputs[arg], 0, arg)
    if not sample.is_train:
        for aux, array in after["aux"].items():
            assert_same(array, inputs[aux], 0, aux)


@over_types(name for name, sample in GOOD.items() if not sample.random)
def test_eager_call_gives_the_executors_result(name, dtype):
    sample = SAMPLES[name]
    inputs = sample.arrays(dtype)
    bound = common.run(mx, compose(sample), inputs, {}, is_train=False)["outputs"]
    arrays = {arg: common.nd(mx, array) for arg, array in inputs.items()}
    function = common.op_function(mx.nd, sample.op)
    given = ((), arrays) if sample.keyword else (tuple(arrays.values()), {})
    result = function(*given[0], **given[1], **sample.attrs)
    eager = list(result) if isinstance(result, (list, tuple)) else [result]
    assert len(eager) == len(bound)
    for index, (got, want) in enumerate(zip(eager, bound, strict=True)):
        if sample.compares(index):
            assert_same(got.asnumpy(), want, sample.tolerance(dtype), f"output {index}")


@over(name for name, sample in SAMPLES.items() if sample.error)
def test_wrong_call_is_a_named_error(name):
    sample = SAMPLES[name]
    with pytest.raises(mx.MXNetError, match=sample.error):
        run(sample, sample.dtypes[0], {})


HAVE_PARAMETERS = sorted(name for name in OPS if fields_of(OPS[name]) and name != "Custom")


# Custom passes them to the user's operator.
@over_groups("name, way", [Case(f"{name}-{way}", (name, way))
                           for name in HAVE_PARAMETERS for way in ("nd", "sym")],
             lambda case: case.values[1])
def test_an_unknown_parameter_is_refused_by_name(name, way):
    function = (op_function if way == "nd" else symbol_function)(name)
    with pytest.raises(mx.MXNetError, match=f"{OPS[name].name}.*unknown parameter 'senseless'"):
        function(senseless=3)


def test_the_op_class_and_attributes_refuse_unknown_parameters_as_well():
    with pytest.raises(mx.MXNetError, match="here .FullyConnected.: unknown .* 'senseless'"):
        OPS["FullyConnected"].from_attrs({"senseless": "3", "__hidden__": "1"}, "here")
    with pytest.raises(mx.MXNetError, match="unknown parameter 'senseless'"):
        mx.sym.FullyConnected(mx.sym.var("x"), attr={"senseless": "3"})


WITHOUT_PARAMETERS = sorted({OPS[name].name for name in OPS if not fields_of(OPS[name])})


def _senseless(name: str) -> mx.sym.Symbol:
    """A symbol of an op without parameters that is given one."""
    inputs = [mx.sym.var(f"v{index}") for index in range(len(OPS[name]().list_inputs()))]
    return symbol_function(name)(*inputs, name="node", senseless=3)


@pytest.mark.parametrize("name", WITHOUT_PARAMETERS)
def test_an_op_without_parameters_ignores_one_with_one_warning(name, monkeypatch):
    monkeypatch.setattr("nbmod.ops.param._warned", set())
    with pytest.warns(UserWarning, match=f"node .{name}.: .* no parameters .* 'senseless'"):
        symbol = _senseless(name)
    assert symbol.attr("senseless") == "3"  # as in MXNet
    _senseless(name)  # no second warning
    assert mx.sym.load_json(symbol.tojson()).tojson() == symbol.tojson()


@pytest.mark.filterwarnings("ignore:node .*has no parameters")
def test_mxnet_ignores_them_as_well(oracle):
    written = [_senseless(name).tojson() for name in WITHOUT_PARAMETERS]
    read = oracle.call("mx_symbol.rewrite_all", written)
    refused = {name for name, text in zip(WITHOUT_PARAMETERS, read, strict=True) if text is None}
    # The wheel of MXNet lacks these operators.
    assert refused == {"_contrib_BroadcastScale", *(
        f"_contrib_intgemm_{name}" for name in ("maxabsolute", "prepare_data", "take_weight"))}
    assert all('"senseless": "3"' in text for text in read if text)


def test_an_eager_call_ignores_parameters_that_the_operator_lacks(monkeypatch):
    monkeypatch.setattr("nbmod.ops.param._warned", set())
    with pytest.warns(UserWarning, match="^relu: .* ignores 'slope', 'beta'"):
        assert mx.nd.relu(mx.nd.ones((1,)), slope=0.5, beta=[1, 2]).asscalar() == 1
    mx.nd.relu(mx.nd.ones((1,)), slope=0.5, beta=[1, 2])
    mx.nd.relu(mx.nd.ones((1,)), slope=0.25, beta=[1, 2])


def test_what_is_known_is_told():
    with pytest.raises(mx.MXNetError, match="it takes .'lower'.; did you mean 'lower'"):
        mx.nd.linalg.potrf(mx.nd.ones((1, 1)), lowr=False)
