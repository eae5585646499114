"""Chains of elementwise nodes on GPUs: one launch forward and one backward, results equal to the
CPU's; what follows a layer is fused as its epilogue."""

from __future__ import annotations

import numpy as np
import pytest

import nbmod as mx
from nbmod.core.config import exact
from nbmod.ops.cuda.runtime import launch, simulator
from tests.compare import assert_same

SHAPES = {"a": (3, 5), "b": (3, 5), "row": (1, 5)}


def gated():
    """tanh(a b + a) sigmoid(b), relu of it and its square."""
    a, b = mx.sym.Variable("a"), mx.sym.Variable("b")
    y = mx.sym.tanh(a * b + a) * mx.sym.sigmoid(b)
    return mx.sym.Group([mx.sym.Activation(y, act_type="relu"), mx.sym.square(y)])


def shifted():
    """A row is broadcast to all rows: its gradient is a reduction, a launch of its own."""
    y = mx.sym.broadcast_add(mx.sym.Variable("a"), mx.sym.Variable("row"))
    return mx.sym.exp(mx.sym.negative(mx.sym.square(y)))


def bound(network, context, dtype, request, shapes):
    """An executor with values from -1 to 1, and gradients initialized to ones."""
    shapes = {name: shapes[name] for name in network.list_arguments() if name in shapes}
    executor = network.simple_bind(context, grad_req=request, **shapes,
                                   type_dict=dict.fromkeys(shapes, dtype))
    rng = np.random.default_rng(0)
    for array in executor.arg_arrays:
        array[:] = rng.uniform(-1, 1, array.shape)
    for array in executor.grad_arrays:
        if array is not None:
            array[:] = 1
    return executor


def answers(network, context, dtype, request, shapes=SHAPES):
    """Outputs, gradients and states; numbers of kernels in the forward and backward passes."""
    executor = bound(network, context, dtype, request, shapes)
    rng, counts = np.random.default_rng(1), [0]
    heads = [mx.nd.array(rng.standard_normal(y.shape), ctx=context, dtype=dtype)
             for y in executor.outputs]
    with pytest.MonkeyPatch.context() as patch:
        run = simulator.run
        patch.setattr(simulator, "run", lambda *args: (
            counts.__setitem__(-1, counts[-1] + 1), run(*args)))
        executor.forward(is_train=True)
        counts.append(0)
        executor.backward(heads)
    return [x.asnumpy() for x in (*executor.outputs, *executor.grad_arrays,
                                  *executor.aux_arrays)], counts


@pytest.mark.gpu
@pytest.mark.parametrize("request_", ["write", "add"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("network, sums", [(gated, 0), (shifted, 1)])
def test_a_chain_is_a_launch(network, sums, dtype, request_):
    got, counts = answers(network(), mx.gpu(0), dtype, request_)
    want, _ = answers(network(), mx.cpu(), dtype, request_)
    for index, (mine, theirs) in enumerate(zip(got, want, strict=True)):
        assert_same(mine, theirs, 1e-6, f"array {index}")
    if launch.SIMULATED and request_ == "write":
        assert counts == [1, 1 + sums]


@pytest.mark.gpu
def test_exact_results_are_those_of_single_nodes():
    """A product and a sum in one kernel are one FMA on a GPU, with one rounding."""
    shapes = {"a": (3, 5), "b": (3, 5)}
    assert gated().simple_bind(mx.gpu(0), **shapes).compiled.fused.notes
    with exact():
        assert not gated().simple_bind(mx.gpu(0), **shapes).compiled.fused.notes


# -- epilogues of norms -------------------------------------------------------------------------

IMAGES = {"data": (3, 5, 4, 2), "z": (3, 5, 4, 2)}
ENDS = {
    "relu": lambda n, z: mx.sym.relu(n),
    "clip": lambda n, z: mx.sym.clip(n, a_min=0, a_max=0.6),
    "add": lambda n, z: n + z,
    "both": lambda n, z: mx.sym.Activation(z + n, act_type="relu"),
}


def followed(end, **attrs):
    """A batch norm, and an epilogue of its results."""
    n = mx.sym.BatchNorm(mx.sym.Variable("data"), name="n", momentum=0.5, **attrs)
    return ENDS[end](n, mx.sym.Variable("z"))


@pytest.mark.gpu
@pytest.mark.parametrize("attrs", [{"fix_gamma": False}, {}, {"fix_gamma": False, "axis": 3},
                                   {"fix_gamma": False, "use_global_stats": True}])
@pytest.mark.parametrize("dtype, schedule", list(zip(("float16", "float32", "float64"),
                                                     simulator.SCHEDULES, strict=True)))
@pytest.mark.parametrize("end", ENDS)
def test_what_follows_a_norm_is_part_of_it(end, dtype, attrs, schedule, monkeypatch):
    monkeypatch.setattr(simulator, "schedule", schedule)
    request = "add" if attrs else "write"
    got, _ = answers(followed(end, **attrs), mx.gpu(0), dtype, request, IMAGES)
    want, _ = answers(followed(end, **attrs), mx.cpu(), dtype, request, IMAGES)
    # The CPU rounds intermediate results to float16 there: 2^-11 of up to 4.
    tolerance = {"float16": 4e-3, "float32": 1e-5, "float64": 1e-12}[dtype]
    for index, (mine, theirs) in enumerate(zip(got, want, strict=True)):
        assert_same(mine, theirs, tolerance, f"array {index}")


@pytest.mark.gpu
@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("end", ENDS)
def test_gradients_behind_norms_are_nan_where_the_cpu_gives_nan(end, frozen):
    symbol, found = followed(end, fix_gamma=False, use_global_stats=frozen), []
    for ctx in (mx.gpu(0), mx.cpu()):
        executor = bound(symbol, ctx, "float32", "write", IMAGES)
        executor.arg_dict["data"][0, 2, 1, 1] = np.nan
        executor.forward(is_train=True)
        heads = np.cos(np.arange(executor.outputs[0].size)).reshape(executor.outputs[0].shape)
        executor.backward(mx.nd.array(heads, ctx))
        found.append([grad.asnumpy() for grad in executor.grad_arrays])
    for mine, theirs in zip(*found, strict=True):
        assert_same(mine, theirs, 1e-5, "gradient")


@pytest.mark.gpu
@pytest.mark.parametrize("end", ENDS)
def test_a_followed_norm_is_two_passes_forward_and_two_backward(end):
    """Statistics, results; two reductions, with the gradient of the addend, and that of data."""
    executor = bound(followed(end, fix_gamma=False), mx.gpu(0), "float32", "write", IMAGES)
    assert [step.node.op_name for step in executor.steps] == [
        "_fused_batch_norm", "_backward__fused_batch_norm"]
    with exact():
        executor = bound(followed(end, fix_gamma=False), mx.gpu(0), "float32", "write", IMAGES)
    assert executor.steps[0].node.op_name == "BatchNorm"


@pytest.mark.gpu
def test_a_norm_whose_results_are_seen_stays():
    """Read by a user, by two nodes, or its statistics are."""
    data = mx.sym.Variable("data")
    n = mx.sym.BatchNorm(data, name="n")
    shown = mx.sym.BatchNorm(data, name="n", output_mean_var=True)
    for network in (mx.sym.Group([mx.sym.relu(n), n]), mx.sym.relu(n) * n,
                    mx.sym.Group([mx.sym.relu(shown[0]), shown[1]])):
        executor = bound(network, mx.gpu(0), "float32", "write", IMAGES)
        assert "BatchNorm" in [step.node.op_name for step in executor.steps]


# -- epilogues of layers ------------------------------------------------------------------------

LAYERS = {
    "convolution": lambda data: mx.sym.Convolution(data, kernel=(3, 3), pad=(1, 1), num_filter=5,
                                                   name="layer"),
    "grouped": lambda data: mx.sym.Convolution(data, kernel=(3, 2), pad=(1, 0), num_filter=10,
                                               num_group=5, no_bias=True, name="layer"),
    "last": lambda data: mx.sym.Convolution(data, kernel=(1, 1), num_filter=2, layout="NHWC",
                                            name="layer"),
    "dense": lambda data: mx.sym.FullyConnected(data, num_hidden=6, name="layer"),
    "long": lambda data: mx.sym.FullyConnected(mx.sym.tile(data, reps=(1, 3, 1, 1)), num_hidden=3,
                                               name="layer", no_bias=True),
}


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("layer", LAYERS)
def test_what_follows_a_layer_in_inference_is_part_of_it(layer, end, dtype):
    """With a norm between them, which is folded into the layer; split sums, too."""
    data = mx.sym.Variable("data")
    plain = LAYERS[layer](data)
    _, (shape,), _ = plain.infer_shape(data=IMAGES["data"])
    shapes = {"data": IMAGES["data"], "z": shape}
    network = ENDS[end](mx.sym.BatchNorm(plain, name="n", axis=3 if layer == "last" else 1)
                        if dtype != "float16" else plain, mx.sym.Variable("z"))
    runs = []
    for context in (mx.gpu(0), mx.cpu()):
        executor = bound(network, context, dtype, "null", shapes)
        runs.append(executor.forward(is_train=False)[0].asnumpy())
        if context == mx.gpu(0):
            assert [step.node.op_name for step in executor.steps][-1] == "_fused_layer"
            assert len(executor.steps) == 1 + (layer == "long")
    # Sums of up to 120 terms, folded weights; in float16 the CPU rounds between the nodes.
    assert_same(*runs, {"float16": 4e-3, "float32": 1e-5, "float64": 1e-12}[dtype], "output")


@pytest.mark.gpu
def test_a_layer_that_learns_stays():
    """Its gradient needs the head gradient of its own results, before the epilogue."""
    network = ENDS["relu"](LAYERS["dense"](mx.sym.Variable("data")), None)
    executor = bound(network, mx.gpu(0), "float32", "write", IMAGES)
    assert executor.steps[0].node.op_name == "FullyConnected"
    request = {"data": "null", "layer_weight": "null", "layer_bias": "null"}
    network = network * mx.sym.Variable("z")
    executor = bound(network, mx.gpu(0), "float32", request | {"z": "write"},
                     IMAGES | {"z": (3, 6)})
    assert executor.steps[0].node.op_name == "_fused_layer"
