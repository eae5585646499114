"""Blocked layout: results equal those without it, forward and backward."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nbmod as mx
from nbmod.core.config import CONFIG
from nbmod.ops.blocked import choose_algorithm
from nbmod.ops.blocked.layout import LANES
from nbmod.ops.jit import num_threads

pytestmark = pytest.mark.skipif(LANES == 1, reason="NBMOD_SIMD_LANES=1 is without vectors")
SHAPE = (2, 3, 19, 17)


def convolution(data, filters, name, kernel=3, pad=1, **others):
    return mx.sym.Convolution(data, num_filter=filters, kernel=(kernel, kernel), pad=(pad, pad),
                              name=name, **others)


def norm(data, name, relu=True, **others):
    data = mx.sym.BatchNorm(data, name=name, **{"fix_gamma": False} | others)
    return mx.sym.Activation(data, act_type="relu", name=f"{name}_relu") if relu else data


def residual():
    x = norm(convolution(mx.sym.Variable("data"), 40, "a", stride=(2, 2), no_bias=True), "na")
    y = norm(convolution(x, 24, "b", 1, 0, no_bias=True), "nb")
    y = norm(convolution(y, 40, "c", no_bias=True), "nc", relu=False)
    return mx.sym.relu(x + y)


def elementwise():
    """Functions of which f(0) is not 0, some whose gradient there is none, and plain inputs."""
    x = convolution(mx.sym.Variable("data"), 20, "a")
    x = mx.sym.sigmoid(x) + 1
    y = convolution(x, 24, "b")
    y = mx.sym.tanh(y) * mx.sym.exp(y * 0.1)
    y = convolution(mx.sym.clip(y, -1, 2), 20, "c", 1, 0)
    return mx.sym.sqrt(mx.sym.abs(x - y) + 0.5)


def joined():
    x = convolution(mx.sym.Variable("data"), 2 * LANES, "a", no_bias=True)
    y = mx.sym.concat(mx.sym.LeakyReLU(x, slope=0.1), convolution(x, LANES, "b", dilate=(2, 2),
                                                                  pad=2), dim=1)
    return convolution(mx.sym.concat(y, x, dim=1), 33, "c", 3, 0, num_group=1)


def pooled():
    x = convolution(mx.sym.Variable("data"), 36, "a", 5, 2)
    pools = [mx.sym.Pooling(x, kernel=(3, 2), stride=(2, 1), pad=(1, 0), pool_type=kind, **others)
             for kind, others in (("max", {}), ("avg", {}), ("sum", {}),
                                  ("avg", {"count_include_pad": False}),
                                  ("max", {"pooling_convention": "full"}))]
    x = mx.sym.Group([convolution(pool, 16, f"p{i}") for i, pool in enumerate(pools)])
    whole = mx.sym.Pooling(x[0], global_pool=True, kernel=(1, 1), pool_type="avg")
    return mx.sym.Group([mx.sym.FullyConnected(whole, num_hidden=5, name="fc"), *x])


def grouped():
    x = convolution(mx.sym.Variable("data"), 4 * LANES, "a", no_bias=True)
    x = norm(x, "na", fix_gamma=True)
    x = norm(convolution(x, 2 * LANES, "b", num_group=2), "nb", use_global_stats=True)
    return convolution(x, 2 * LANES, "c", num_group=2 * LANES)


def separable():
    """Depthwise convolutions: of images, with strides, tails of channels, dilated, on top."""
    x = convolution(mx.sym.Variable("data"), 24, "a", stride=(2, 2), no_bias=True)
    x = norm(x, "na")
    y = norm(convolution(x, 24, "b", num_group=24, no_bias=True), "nb")
    x = x + norm(convolution(y, 24, "c", 1, 0, no_bias=True), "nc", relu=False)
    x = mx.sym.relu(convolution(x, 40, "d", 1, 0))
    x = mx.sym.relu(convolution(x, 40, "e", 5, 2, num_group=40, stride=(2, 1)))
    y = convolution(x, 40, "f", num_group=40, pad=2, dilate=(2, 2), no_bias=True)
    return convolution(mx.sym.relu(y + x), 40, "g", 2, 0, num_group=40, stride=(3, 3))


def shown():
    """Intermediate results of a chain, one of them twice."""
    x = convolution(mx.sym.Variable("data"), 16, "a")
    y = mx.sym.relu(x)
    z = convolution(y, 16, "b")
    return mx.sym.Group([x, y, mx.sym.BlockGrad(z), mx.sym.transpose(z, axes=(0, 2, 3, 1))])


def added():
    """Sums whose operands are sums, and one operand twice."""
    x = convolution(mx.sym.Variable("data"), 16, "a")
    y = norm(convolution(x, 16, "b", no_bias=True), "nb", relu=False) + norm(
        convolution(x, 16, "c", no_bias=True), "nc", relu=False)
    return mx.sym.relu(y + y) + mx.sym.add_n(x, y, x)


NETWORKS = [residual, elementwise, joined, pooled, grouped, separable, shown, added]


def executed(symbol, trained, exact, shape=SHAPE, monitor=None):
    """Outputs, gradients and states of a run, and the executor."""
    request = {name: "null" for name in symbol.list_arguments()} | dict.fromkeys(trained, "write")
    with mx.exact() if exact else nullcontext():
        executor = symbol.simple_bind(mx.cpu(), grad_req=request, data=shape)
    random = np.random.RandomState(7)
    for name, array in sorted((executor.arg_dict | executor.aux_dict).items()):
        spread = random.rand(*array.shape) + 0.5 if "var" in name else random.randn(*array.shape)
        array[:] = spread * (1 if name == "data" or "var" in name else 0.2)
    if monitor is not None:
        executor.set_monitor_callback(monitor)
    executor.forward(is_train=bool(trained))
    outputs = [out.asnumpy() for out in executor.outputs]
    if trained:
        executor.backward([mx.nd.array(np.cos(np.arange(out.size)).reshape(out.shape))
                           for out in outputs])
    grads = {name: grad.asnumpy() for name, grad in executor.grad_dict.items() if grad is not None}
    return outputs, grads, {k: v.asnumpy() for k, v in executor.aux_dict.items()}, executor


def close(found, expected, label):
    """To 4e-5 of the largest element: a few hundred roundings, or two of those of Winograd's tiles,
    which are chosen at other sizes where vectors are narrower."""
    np.testing.assert_allclose(found, expected, atol=4e-5 * (abs(expected).max() + 1e-3),
                               rtol=0, err_msg=label)


@pytest.mark.parametrize("case", ["inference", "parameters", "everything", "last"])
@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.__name__)
def test_networks_give_the_same(network, case):
    symbol = network()
    names = symbol.list_arguments()
    trained = {"inference": [], "everything": names, "last": names[-2:],
               "parameters": [name for name in names if name != "data"]}[case]
    found, expected = (executed(symbol, trained, exact) for exact in (False, True))
    assert "works on blocks of channels" in found[-1].debug_str()
    assert "works on blocks of channels" not in expected[-1].debug_str()
    for index, (mine, other) in enumerate(zip(found[0], expected[0], strict=True)):
        close(mine, other, f"output {index}")
    for mine, other in zip(found[1:3], expected[1:3], strict=True):
        for name in other:
            close(mine[name], other[name], name)


@pytest.mark.parametrize("trained", [False, True])
def test_who_watches_sees_every_node(trained):
    symbol, seen = residual(), {}
    names = symbol.list_arguments()[1:] if trained else []
    watched = executed(symbol, names, False, monitor=lambda name, array: seen.setdefault(
        name, array.shape))
    plain = executed(symbol, names, True)
    assert seen["nb_relu_output"] == (2, 24, 10, 9)
    assert {name for name in symbol.get_internals().list_outputs()
            if name.endswith("_output")} <= set(seen)
    for name in plain[1]:
        close(watched[1][name], plain[1][name], name)


def test_reorders_stand_at_the_borders_only():
    _, _, _, executor = executed(residual(), [], False)
    ops = [step.node.op_name for step in executor.steps]
    assert ops.count("_into_blocks") == ops.count("_from_blocks") == 1
    assert ops.count("_blocked_convolution") == 3
    assert len(ops) == 5  # batch norm, addition and ReLU are fused into the convolutions


SUMMED = {
    "pixels": dict(kernel=1, pad=0),
    "a stride": dict(kernel=1, pad=0, stride=(2, 2)),
    "tiles": {},
    "groups": dict(num_group=2),
    "depthwise": dict(num_group=32),
    "depthwise by tables": dict(num_group=32, kernel=7, pad=3),
}


@pytest.mark.parametrize("own", [False, True], ids=["another", "its data"])
@pytest.mark.parametrize("kind", SUMMED)
def test_sums_are_added_in_place_unless_others_read_what_is_there(kind, own):
    data, stride = mx.sym.Variable("data"), SUMMED[kind].get("stride", (1, 1))
    x, y = convolution(data, 32, "a"), convolution(data, 32, "b", stride=stride)
    y = convolution(x, 32, "c", **SUMMED[kind]) + (x if own and stride == (1, 1) else y)
    found, plain = (executed(mx.sym.relu(y), [], exact, (2, 24, 15, 17)) for exact in (False, True))
    inside = [line for line in found[-1].debug_str().splitlines() if "(in place)" in line]
    assert len(inside) == (not own or stride != (1, 1)), inside
    close(found[0][0], plain[0][0], kind)


def test_depthwise_convolutions_join_blocks():
    _, _, _, executor = executed(separable(), [], False)
    ops = [step.node.op_name for step in executor.steps]
    assert ops == ["_into_blocks", *["_blocked_convolution"] * 7, "_from_blocks"]


@pytest.mark.parametrize("groups, scale, most", [(1, 2, 6), (24, 10, 6), (1, 2, 4.7)])
def test_clips_are_done_by_convolutions(groups, scale, most):
    """Values of about 6; NaN stays."""
    x = convolution(mx.sym.Variable("data"), 24, "a")
    x = convolution(scale * x, 24, "b", num_group=groups)
    symbol = mx.sym.clip(x, a_min=0, a_max=most)
    found, plain = (executed(symbol, [], exact) for exact in (False, True))
    assert [step.node.op_name for step in found[-1].steps][-2:] == ["_blocked_convolution",
                                                                    "_from_blocks"]
    assert 0 == found[0][0].min() < found[0][0].max() == np.float32(most)
    close(found[0][0], plain[0][0], "output")
    found[-1].arg_dict["b_bias"][3] = np.nan
    assert np.isnan(found[-1].forward()[0].asnumpy()[:, 3]).all()


@pytest.mark.parametrize("is_train", [False, True])
def test_leaky_relu_with_random_slopes_stays_plain(is_train):
    """It draws a number for each element, and shows the mask."""
    x = convolution(mx.sym.Variable("data"), 20, "a")
    y = mx.sym.LeakyReLU(x, act_type="rrelu", name="r")
    symbol = mx.sym.Group([x, *y, convolution(y[0], 24, "b")])
    executor = symbol.simple_bind(mx.cpu(), grad_req="write" if is_train else "null", data=SHAPE)
    for name, array in executor.arg_dict.items():
        array[:] = np.random.RandomState(len(name)).randn(*array.shape)
    x, y, mask, _ = (out.asnumpy() for out in executor.forward(is_train=is_train))
    np.testing.assert_array_equal(y, np.where(x > 0, x, mask * x))
    assert mask.shape == x.shape and (np.ptp(mask) > 0.1) == is_train
    assert "_blocked_convolution" in [step.node.op_name for step in executor.steps]


def test_weights_that_are_not_trained_are_packed_when_they_change():
    x = mx.sym.relu(convolution(mx.sym.Variable("data"), 20, "a"))
    symbol, outputs = convolution(x, 20, "b"), []
    for exact in (False, True):
        *_, executor = executed(symbol, ["b_weight"], exact)
        executor.arg_dict["a_weight"][:] *= 2
        executor.forward(is_train=True)
        outputs.append(executor.outputs[0].asnumpy())
        executor.backward(mx.nd.ones(executor.outputs[0].shape))
        outputs.append(executor.grad_dict["b_weight"].asnumpy())
        ops = [step.node.op_name for step in executor.steps]
        assert exact or ("_packed_filters" not in ops and "Activation" not in ops)
    for mine, other in zip(outputs[:2], outputs[2:], strict=True):
        close(mine, other, "after a change")


@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize("most", [0.8, np.inf])
@pytest.mark.parametrize("gamma", [0, 1])
def test_clips_are_done_by_batch_norms_in_training(gamma, most, added):
    """Bounds included: with gammas of 0 all results are 0, and the gradient passes.  A clip without
    an upper bound is no ReLU, whose gradient at 0 is 0."""
    x = convolution(mx.sym.Variable("data"), 20, "a", no_bias=True)
    y, results = norm(x, "n", relu=False) + x * 0 if added else norm(x, "n", relu=False), []
    symbol = mx.sym.clip(y, a_min=0, a_max=most)
    for exact in (False, True):
        with mx.exact() if exact else nullcontext():
            executor = symbol.simple_bind(mx.cpu(), grad_req="write", data=SHAPE)
        for name, array in executor.arg_dict.items():
            array[:] = np.random.RandomState(len(name)).randn(*array.shape)
        executor.arg_dict["n_gamma"][:], executor.arg_dict["n_beta"][:] = gamma, 0
        executor.forward(is_train=True)
        out = executor.outputs[0]
        executor.backward(mx.nd.array(np.cos(np.arange(out.size)).reshape(out.shape)))
        results.append((out, executor.grad_dict, [step.node.op_name for step in executor.steps]))
    (mine, grads, ops), (other, expected, _) = results
    assert ("clip" in ops) == (added or most == np.inf)
    close(mine.asnumpy(), other.asnumpy(), "output")
    for name, grad in expected.items():
        close(grads[name].asnumpy(), grad.asnumpy(), name)


@pytest.mark.parametrize("behind", ["convolution", "norm"])
def test_relu_keeps_what_is_no_number(behind):
    x = convolution(mx.sym.Variable("data"), 16, "a")
    symbol = mx.sym.relu(x if behind == "convolution" else norm(x, "n", relu=False))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nbmod.passes.optimize.pipelines.fold_batch_norm", lambda found, *_: found)
        executor = executed(symbol, [], False)[-1]
    assert len(executor.steps) == 3 + (behind == "norm")
    executor.arg_dict["a_bias"][3] = np.nan
    out = executor.forward()[0].asnumpy()
    assert np.isnan(out[:, 3]).all() and np.isfinite(out[:, :3]).all() and out[:, 4:].min() == 0


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("end", ["relu", "add", "clip"])
def test_gradients_behind_norms_are_nan_where_single_nodes_give_nan(end, frozen, fixed):
    """A NaN in the images, whose results are NaN in a pixel (frozen) or in a channel; the gradient
    of a gamma that is fixed is 0 all the same."""
    x = norm(convolution(mx.sym.Variable("data"), 20, "a", no_bias=True), "n", relu=False,
             use_global_stats=frozen, fix_gamma=fixed)  # fmt: skip
    symbol = {"relu": lambda: mx.sym.relu(x), "clip": lambda: mx.sym.clip(x, a_min=0, a_max=0.5),
              "add": lambda: mx.sym.relu(x + mx.sym.Variable("z"))}[end]()  # fmt: skip
    given = {name: SHAPE[:1] + (20,) + SHAPE[2:] for name in ("z",) if end == "add"}
    found = []
    for exact in (False, True):
        with mx.exact() if exact else nullcontext():
            executor = symbol.simple_bind(mx.cpu(), grad_req="write", data=SHAPE, **given)
        for name, array in executor.arg_dict.items():
            array[:] = np.random.RandomState(len(name)).randn(*array.shape)
        executor.arg_dict["a_weight"][:3] = 0
        executor.arg_dict["data"][0, 0, 1, 1] = np.nan
        executor.aux_dict["n_moving_var"][:] = 1
        executor.forward(is_train=True)
        executor.backward(mx.nd.ones(executor.outputs[0].shape))
        found.append({name: grad.asnumpy() for name, grad in executor.grad_dict.items()})
        assert ("_blocked_batch_norm" in [step.node.op_name for step in executor.steps]) != exact
    mine, theirs = found
    assert any(np.isnan(grad).any() for grad in theirs.values())
    for name, grad in theirs.items():
        close(np.nan_to_num(mine[name], nan=9), np.nan_to_num(grad, nan=9), name)
    assert not fixed or not np.any(theirs["n_gamma"])


def tiled():
    """Layers that use Winograd's tiles at every width, with every epilogue."""
    x = mx.sym.relu(convolution(mx.sym.Variable("data"), 64, "a"))
    y = norm(convolution(x, 72, "b", no_bias=True), "nb")
    return mx.sym.relu(convolution(y, 64, "c", 3, 2) + mx.sym.pad(
        x, mode="constant", pad_width=(0, 0, 0, 0, 1, 1, 1, 1)))


@pytest.mark.parametrize("trained", [False, True])
def test_tiles_of_winograd(trained, monkeypatch):
    """Sums have up to 700 terms, of which tiles keep some 5 digits."""
    monkeypatch.setattr(CONFIG, "winograd", 4)
    symbol = tiled()
    names = symbol.list_arguments() if trained else []
    found, plain = executed(symbol, names, False), executed(symbol, names, True)
    chosen = [step.node.op.winograd_tile for step in found[-1].steps
              if step.node.op_name == "_blocked_convolution"]
    assert len(chosen) == 3 and all(chosen[1:])
    for mine, other in zip(found[0], plain[0], strict=True):
        close(mine, other, "output")
    for name, other in plain[1].items():
        close(found[1][name], other, name)
    # whatever small tiles save
    monkeypatch.setitem(choose_algorithm.WINOGRAD_MARGIN, choose_algorithm.TWO, np.inf)
    for most in (2, 0):
        monkeypatch.setattr(CONFIG, "winograd", most)
        steps = executed(symbol, names, False)[-1].steps
        chosen = [getattr(step.node.op, "winograd_tile", 0) for step in steps]
        assert max(chosen) == most


@pytest.mark.parametrize("network", [residual, separable, joined], ids=lambda net: net.__name__)
def test_any_number_of_threads_gives_the_same_bits(network):
    symbol, many, found = network(), num_threads(), []
    try:
        for count in (1, many):
            mx.set_num_threads(count)
            found.append(executed(symbol, symbol.list_arguments(), False))
    finally:
        mx.set_num_threads(many)
    (outputs, *named, _), (expected, *others, _) = found
    for mine, other in zip(outputs, expected, strict=True):
        np.testing.assert_array_equal(mine, other)
    for mine, other in zip(named, others, strict=True):
        for name in other:
            np.testing.assert_array_equal(mine[name], other[name], err_msg=name)


def test_gradients_that_are_added():
    symbol = residual()
    names = symbol.list_arguments()
    executor = symbol.simple_bind(mx.cpu(), grad_req="add", data=SHAPE)
    for name, array in executor.arg_dict.items():
        array[:] = np.random.RandomState(len(name)).randn(*array.shape) * 0.2
    for _ in range(2):
        executor.forward(is_train=True)
        executor.backward(mx.nd.ones(executor.outputs[0].shape))
    twice = {name: executor.grad_dict[name].asnumpy() for name in names}
    for grad in executor.grad_arrays:
        grad[:] = 0
    executor.forward(is_train=True)
    executor.backward(mx.nd.ones(executor.outputs[0].shape))
    for name in names:
        close(twice[name], 2 * executor.grad_dict[name].asnumpy(), name)


def grown(draw, steps):
    """A network that grows at random; every step reads an existing tensor."""
    data = mx.sym.Variable("data")
    found = [(data, 3, (11, 9)), (convolution(data, 20, "first"), 20, (11, 9))]
    for k in range(steps):
        x, channels, size = draw(st.sampled_from(found[-3:][::-1]))
        kind = draw(st.sampled_from(["convolution", "convolution", "norm", "pooling", "elementwise",
                                     "sum", "concat"]))
        alike = [other for other in found if other[1:] == (channels, size) and other[1] > 3]
        if kind == "convolution":
            kernel, stride, dilate = (draw(st.integers(1, most)) for most in (3, 2, 2))
            pad = draw(st.integers(0, kernel))
            if min(size) + 2 * pad < dilate * (kernel - 1) + 1:
                continue
            filters = draw(st.sampled_from([8, LANES, 20, 2 * LANES]))
            x = convolution(x, filters, f"c{k}", kernel, pad, stride=(stride, stride),
                            dilate=(dilate, dilate), no_bias=draw(st.booleans()))
            size = tuple((n + 2 * pad - dilate * (kernel - 1) - 1) // stride + 1 for n in size)
            channels = filters
        elif kind == "norm":
            x = norm(x, f"n{k}", draw(st.booleans()), fix_gamma=draw(st.booleans()),
                     use_global_stats=True)
        elif kind == "pooling" and min(size) > 2:
            x = mx.sym.Pooling(x, kernel=(2, 3), stride=(2, 1), pad=(0, 1),
                               pool_type=draw(st.sampled_from(["max", "avg"])))
            size = ((size[0] - 2) // 2 + 1, size[1])
        elif kind == "elementwise":
            x = draw(st.sampled_from([mx.sym.relu, mx.sym.sigmoid, mx.sym.tanh, mx.sym.cos]))(x)
        elif kind == "sum" and alike:
            x = x + draw(st.sampled_from(alike))[0]
        elif kind == "concat" and alike:
            x, channels = mx.sym.concat(x, draw(st.sampled_from(alike))[0], dim=1), 2 * channels
        found.append((x, channels, size))
    return mx.sym.Group([found[-1][0] * 1, draw(st.sampled_from(found))[0] * 2])


@given(st.data())
@settings(deadline=None, max_examples=30)
def test_random_networks_give_the_same(data):
    """Batch norms use given statistics here: those of a batch may amplify a rounding error."""
    with mx.name.NameManager():
        symbol = grown(data.draw, data.draw(st.integers(4, 14)))
    names = symbol.list_arguments()
    trained = data.draw(st.sampled_from([[], names, names[1:]]))
    found, expected = (executed(symbol, trained, exact, (2, 3, 11, 9)) for exact in (False, True))
    for mine, other in zip(found[0], expected[0], strict=True):
        close(mine, other, "output")
    # Gradients of biases are sums of hundreds of terms of about 1, which may cancel: 1e-5 is 100
    # roundings of one.
    for name, other in expected[1].items():
        np.testing.assert_allclose(found[1][name], other, rtol=0, err_msg=name,
                                   atol=1e-4 * (abs(other).max() + 1e-1))
