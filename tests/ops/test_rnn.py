"""RNN beyond its samples: dropout, lengths, clipping, threads, shape inference, memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nbmod as mx
from nbmod.base import MXNetError
from nbmod.execution.compile_ahead import recorded
from nbmod.ops import jit
from nbmod.ops.rnn import rnn_plan, rnn_steps
from tests.cases import Sample
from tests.cases.rnn import SAMPLES, STATES, rnn
from tests.compare import assert_same
from tests.programs import common, recurrent, rnn_reference
from tests.symbol import test_real_graphs


def run(sample: Sample, dtype: str = "float32", arrays: Any = None) -> dict[str, Any]:
    """Outputs and gradients of a sample; head gradients are cosines of the outputs."""
    arrays = arrays or sample.arrays(dtype)
    symbol = common.compose(mx, "RNN", sample.attrs, list(arrays), True)
    grad = {name: "write" for name in arrays if name != "sequence_length"}
    outputs = common.run(mx, symbol, arrays, {}, None)["outputs"]
    return common.run(mx, symbol, arrays, grad, [np.cos(y) for y in outputs])


@pytest.mark.parametrize("number", [i for i, s in enumerate(SAMPLES) if not (s.error or s.random)])
def test_the_formulas(number):
    """Also what MXNet's CPU rejects or ignores: lengths, clipping, training with projection."""
    sample = SAMPLES[number]
    arrays = sample.arrays("float64")
    wanted = rnn_reference.outputs(dict(sample.attrs), arrays)
    symbol = common.compose(mx, "RNN", sample.attrs, list(arrays), True)
    got = common.run(mx, symbol, arrays, {}, None, is_train=False)["outputs"]
    for index, array in enumerate(got):
        assert_same(array, wanted[index], 1e-10, f"output {index}")


MANY = [rnn("lstm", (2, 19, 9), 7, layers=2, both=True, attrs=STATES),
        rnn("lstm", (6, 37, 19), 21, layers=2, both=True, attrs=STATES),
        rnn("gru", (6, 37, 19), 21, attrs=STATES),
        rnn("lstm", (6, 7, 9), 70, both=True, attrs={"projection_size": 18, **STATES}),
        rnn("rnn_tanh", (2, 301, 99), 70, layers=2, attrs=STATES)]  # fmt: skip
many = pytest.mark.parametrize("sample", MANY, ids=[s.attrs["mode"] + str(i)
                                                    for i, s in enumerate(MANY)])


@many
def test_threads_do_not_change_a_bit(sample):
    before, first = jit.num_threads(), run(sample)
    try:
        jit.set_num_threads(1)
        second = run(sample)
    finally:
        jit.set_num_threads(before)
    for index, array in enumerate(first["outputs"]):
        np.testing.assert_array_equal(array, second["outputs"][index])
    for name, array in first["grads"].items():
        np.testing.assert_array_equal(array, second["grads"][name], name)


SMALL = [rnn("lstm", attrs=STATES), rnn("gru", layers=2, both=True, attrs=STATES),
         rnn("lstm", (9, 7, 5), layers=2, both=True, attrs={"projection_size": 2, **STATES}),
         rnn("rnn_tanh", (9, 7, 5), both=True, attrs=STATES)]


@pytest.mark.parametrize("sample", SMALL, ids=[sample.attrs["mode"] for sample in SMALL])
def test_one_thread_computes_small_layers(sample, monkeypatch):
    """All directions of them, to the same bits as threads that share them."""
    seen, chosen = [], rnn_steps._for
    monkeypatch.setattr(rnn_steps, "_for", lambda scratch, kernel: (
        seen.append(len(scratch["shares"])), chosen(scratch, kernel))[1])
    alone = run(sample)
    assert set(seen) == {1}
    monkeypatch.setattr(rnn_plan, "PARALLEL_FROM", 0)
    shared, directions = run(sample), 1 + sample.attrs.get("bidirectional", False)
    assert set(seen) == {1, -(-jit.num_threads() // directions) * directions}
    for kind in ("outputs", "grads"):
        np.testing.assert_equal(shared[kind], alone[kind])


@many
def test_samples_never_meet(sample):
    """The last sample of a batch, alone in another batch."""
    arrays = sample.arrays("float32")
    alone = {name: array if name == "parameters" else np.ascontiguousarray(array[:, -1:])
             for name, array in arrays.items()}
    for all_of_them, one in zip(run(sample)["outputs"], run(sample, arrays=alone)["outputs"],
                                strict=True):
        assert_same(all_of_them[:, -1:], one, 1e-5, "output of the last sample")


def bound(sample: Sample, **options: Any) -> mx.Executor:
    """The sample with its own values, ready to run."""
    arrays = sample.arrays("float32")
    symbol = common.compose(mx, "RNN", sample.attrs, list(arrays), True)
    executor = symbol.simple_bind(mx.cpu(), **options, **{n: a.shape for n, a in arrays.items()})
    for name, array in arrays.items():
        executor.arg_dict[name][:] = array
    return executor


def passing(p: float, layers: int, both: bool, size: int) -> mx.Executor:
    """Layers of rnn_relu without recurrence, each the identity, on ones."""
    sample = rnn("rnn_relu", (30, 10, size), size, layers, both, attrs={"p": p, **STATES})
    executor = bound(sample)
    for name, array in executor.arg_dict.items():
        array[:] = 1 if name == "data" else 0
    ways, vector = 1 + both, executor.arg_dict["parameters"]
    at = 0
    for layer in range(layers):
        inputs = size * ways if layer else size
        for d in range(ways):
            weight = np.zeros((size, inputs), np.float32)
            weight[:, (inputs - size) * d:][:, :size] = np.eye(size)
            vector[at:at + weight.size] = weight.ravel()
            at += weight.size + size * size
    return executor


@pytest.mark.parametrize("layers, both", [(2, False), (3, True)])
def test_dropout_stands_between_layers_and_backward_knows_it(layers, both):
    mx.random.seed(3)
    executor = passing(0.25, layers, both, 40)
    output, states = (y.asnumpy() for y in executor.forward(is_train=True))
    executor.backward([mx.nd.ones(output.shape), mx.nd.zeros(states.shape)])
    kept, scale = 0.75 ** (layers - 1), (1 / 0.75) ** (layers - 1)
    assert np.all((output == 0) | (np.abs(output - scale) < 1e-5))
    # 12,000 elements or more: the fraction is known to 0.5 percent
    assert np.mean(output > 0) == pytest.approx(kept, abs=0.025)
    np.testing.assert_array_equal(states[: 1 + both], 1)  # states are not dropped out
    halves = np.split(output, 1 + both, axis=2)
    np.testing.assert_allclose(executor.grad_dict["data"].asnumpy(), sum(halves), rtol=1e-6)
    again = executor.forward(is_train=True)[0].asnumpy()
    assert (again != output).any()
    assert np.all(executor.forward(is_train=False)[0].asnumpy() == 1)
    mx.random.seed(3)
    np.testing.assert_array_equal(executor.forward(is_train=True)[0].asnumpy(), output)


def test_dropout_without_a_backward_pass():
    executor = passing(0.5, 3, False, 40)
    lone = executor._symbol.bind(mx.cpu(), executor.arg_dict, grad_req="null")
    output = lone.forward(is_train=True)[0].asnumpy()
    assert np.mean(output > 0) == pytest.approx(0.25, abs=0.025)


@pytest.mark.parametrize("nan, wanted", [(False, [np.nan, 0.5]), (True, [-0.5, 0.5])])
def test_nan_in_a_clipped_cell(nan, wanted):
    sample = rnn("lstm", (1, 2, 1), 1, attrs={
        "lstm_state_clip_min": -0.5, "lstm_state_clip_max": 0.5, "lstm_state_clip_nan": nan,
        **STATES})  # fmt: skip
    executor = bound(sample)
    executor.arg_dict["state_cell"][:] = np.array([np.nan, 100]).reshape(1, 2, 1)
    cells = executor.forward(is_train=False)[2].asnumpy().ravel()
    np.testing.assert_array_equal(cells, np.array(wanted, np.float32))


@pytest.mark.parametrize("kind", ["float32", "int32", "float16", "int64"])
def test_lengths_of_any_type(kind):
    sample = rnn("gru", (5, 4, 3), lengths=(5, 1, 3, 0), both=True)
    arrays = sample.arrays("float32")
    first = run(sample, arrays=arrays)
    lengths = arrays["sequence_length"].astype(kind)
    second = run(sample, arrays=arrays | {"sequence_length": lengths})
    np.testing.assert_array_equal(first["outputs"][0], second["outputs"][0])
    output = first["outputs"][0]
    assert not output[1:, 1].any() and not output[:, 3].any() and output[4, 0].all()
    assert not first["grads"]["data"][3:, 2].any() and first["grads"]["data"][:3, 2].all()


def test_lengths_have_a_gradient_of_zero():
    executor = bound(rnn("gru", (5, 4, 3), lengths=(5, 1, 3, 2)), grad_req="write")
    executor.grad_dict["sequence_length"][:] = 7
    executor.forward(is_train=True)
    executor.backward(mx.nd.ones(executor.outputs[0].shape))
    assert not executor.grad_dict["sequence_length"].asnumpy().any()


def lstm(**attrs: Any) -> mx.sym.Symbol:
    """A bidirectional lstm named r over data."""
    return mx.sym.RNN(mx.sym.Variable("data"), state_size=4, num_layers=2, mode="lstm",
                      bidirectional=True, name="r", **attrs)


@pytest.mark.parametrize("steps, projection, kernels", [
    (20, None, {"forward_layer", "backward_layer"}), (2, None, {"forward_few", "backward_layer"}),
    (20, 3, {"forward_projected", "backward_projected"})])
def test_a_network_compiles_the_kernels_of_its_layers_only(steps, projection, kernels):
    """Others would double the time to compile an unrolled language model."""
    x = mx.sym.RNN(mx.sym.Variable("data"), state_size=4, num_layers=2, mode="lstm", name="rnn",
                   projection_size=projection)
    executor = mx.sym.MakeLoss(x).simple_bind(mx.cpu(), data=(steps, 2, 3))
    found = {kernel.__name__ for kernel, _ in recorded(executor.planned)}
    assert {name for name in found if name.startswith(("forward_", "backward_"))} == kernels


def test_shapes_both_ways():
    symbol = lstm(state_outputs=True)
    assert symbol.list_arguments() == ["data", "r_parameters", "r_state", "r_state_cell"]
    assert symbol.list_outputs() == ["r_output", "r_state_output", "r_statecell_output"]
    assert lstm().list_outputs() == ["r_output"]
    size = symbol.infer_shape(data=(7, 3, 5))[0][1]
    shapes, outputs, _ = symbol.infer_shape(data=(7, 0, 0), r_parameters=size, r_state=(4, 3, 4))
    assert shapes == [(7, 3, 5), size, (4, 3, 4), (4, 3, 4)]
    assert outputs == [(7, 3, 8), (4, 3, 4), (4, 3, 4)]
    partial = symbol.infer_shape_partial(data=(0, 3, 0))
    assert partial[0][1] in ((), (0,)) and partial[0][2] == (4, 3, 4)
    with pytest.raises(MXNetError, match="r.*parameters has 99 elements"):
        symbol.infer_shape(data=(7, 3, 0), r_parameters=(99,))


def test_packed_parameters_of_gluon():
    pieces = [mx.sym.Variable(f"p{i}", shape=shape) for i, shape in enumerate([(12,), (9,), (0,)])]
    vector = mx.sym._internal._rnn_param_concat(*pieces, dim=0)
    symbol = mx.sym.RNN(mx.sym.Variable("data"), vector, mx.sym.Variable("state"), state_size=3,
                        num_layers=1, mode="rnn_tanh")
    shapes, outputs, _ = symbol.infer_shape(data=(5, 2, 4))
    assert shapes[3] == (6,) and shapes[-1] == (1, 2, 3) and outputs == [(5, 2, 3)]


def test_only_training_keeps_what_backward_reads():
    """Inference keeps the gates of one layer, without its cells."""
    sizes = {}
    for request in ("write", "null"):
        executor = lstm().simple_bind(mx.cpu(), grad_req=request, data=(200, 16, 4))
        sizes[request] = executor.compiled.plan.total_bytes
    gates = 200 * 16 * 2 * 4 * 4 * 4  # (T, N, D, G, H) floats
    assert sizes["write"] > 3 * gates
    assert sizes["null"] < 2.5 * gates


@pytest.mark.parametrize("mode", ["lstm", "gru", "rnn_tanh"])
@pytest.mark.parametrize("exponent", [88.7228317, 88.7228394, 88.722847])
def test_exponents_where_float32_overflows(mode, exponent):
    """e**x overflows from 88.7228394 on; gates and candidates there are 0 or 1, not NaN."""
    gates = {"lstm": 4, "gru": 3, "rnn_tanh": 1}[mode]
    for k in range(gates):
        packed = np.zeros(4 * gates, np.float32)
        packed[k] = 1
        for x in (exponent, exponent / 2):
            data = mx.nd.array(np.array([x, -x]).reshape(1, 2, 1))
            states = [mx.nd.zeros((1, 2, 1))] * (2 if mode == "lstm" else 1)
            out = mx.nd.RNN(data, mx.nd.array(packed), *states, state_size=1, num_layers=1,
                            mode=mode)
            assert np.isfinite(out.asnumpy()).all(), (k, x)


def test_eager():
    sample = rnn("gru", layers=2, attrs=STATES)
    arrays = sample.arrays("float32")
    outputs = mx.nd.RNN(*[mx.nd.array(array) for array in arrays.values()], **sample.attrs)
    for got, want in zip(outputs, run(sample)["outputs"], strict=True):
        np.testing.assert_array_equal(got.asnumpy(), want)


@pytest.mark.skipif(not test_real_graphs.ARCHIVES, reason="NO REAL GRAPHS beside the checkout")
@pytest.mark.parametrize("name", ["rnn/cudnn", "rnn/cudnn_bi"])
def test_a_language_model_is_mxnets(oracle, name):
    json = test_real_graphs.texts()[name].replace('"p": "0.2"', '"p": "0"')
    shapes = {"data": (4, 9), "softmax_label": (4, 9)}
    theirs = oracle.call("mx_scripts.run", "recurrent", "trained", json, shapes)
    ours = recurrent.trained(mx, json, shapes)
    assert set(ours) == set(theirs)
    for key, array in theirs.items():
        assert_same(ours[key], array, 1e-5, key)
