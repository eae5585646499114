"""Executors bound for inference behave like any other: passes are seen in `debug_str` only."""

from __future__ import annotations

import numpy as np
import pytest

import nbmod as mx
from nbmod.core.config import CONFIG
from tests.passes.test_pipelines import bound_twice, fill, unoptimized
from tests.programs.custom_ops import register

sym = mx.sym
SHAPE = (2, 3, 6, 6)


def network():
    """A network to which every pass applies."""
    data = sym.Variable("data")
    x = sym.Convolution(data, kernel=(3, 3), num_filter=4, name="conv")
    x = sym.BatchNorm(x, fix_gamma=False, momentum=0.5, name="bn")
    x = sym.Dropout(sym.Activation(x, act_type="relu", name="relu"), p=0.5, name="drop")
    x = sym.broadcast_mul(x, sym.ones((1, 4, 1, 1), name="ones") * 2, name="scaled")
    x = sym.exp(x, name="one") + sym.exp(x, name="other")
    return sym.FullyConnected(x, num_hidden=3, name="fc")


def bound(**options):
    executor = network().simple_bind(mx.cpu(), grad_req="null", data=SHAPE, **options)
    fill(executor)
    return executor


def names(executor) -> list[str]:
    return [node.name for node in executor.compiled.nodes]


EVERYTHING = ["conv", "bn", "relu", "drop", "ones", "_mulscalar", "scaled", "one", "other",
              "_plus", "fc"]


def plain_names(executor) -> list[str]:
    return [name.rstrip("0123456789") for name in names(executor)]


def test_debug_str_shows_what_happened():
    text = bound().debug_str()
    for line in ("Rewritten, 3 change(s):",
                 "  drop (Dropout) passes relu on",
                 "  other (exp) is what one is",
                 "  bn (BatchNorm) is folded into conv"):
        assert line in text.splitlines()
    assert "conv_folded.weight (_folded_batch_norm)  (4, 3, 3, 3)  float32  reads: conv_weight" in (
        text)
    assert "Derived, computed when what they read has changed, 464 bytes:" in text
    assert sym.Variable("x").simple_bind(mx.cpu(), grad_req="null", x=(1,)).debug_str().count(
        "Derived") == 0


@pytest.mark.parametrize("options", [
    {"grad_req": "write"}, {"grad_req": {"data": "add"}},
    {"grad_req": "null", "group2ctx": {"some": mx.cpu(1)}},
], ids=["training", "one gradient", "groups"])
def test_what_is_not_for_inference_alone_stays(options):
    executor = network().simple_bind(mx.cpu(), data=SHAPE, **options)
    assert [name.rstrip("0123456789")
            for name in names(executor)][:executor.compiled.num_forward] == (
        EVERYTHING)
    assert "Simplified" not in executor.debug_str() and "Derived" not in executor.debug_str()


def test_training_mode_uses_the_statistics_of_the_batch():
    """As an executor with gradients does: Dropout draws, BatchNorm uses batch statistics."""
    executor = bound()
    trained = network().bind(mx.cpu(), executor.arg_dict, {"data": mx.nd.zeros(SHAPE)}, "write",
                             executor.aux_dict)
    for is_train in (True, False, True):
        mx.random.seed(3)
        got = executor.forward(is_train=is_train)[0].asnumpy()
        mx.random.seed(3)
        want = trained.forward(is_train=is_train)[0].asnumpy()
        np.testing.assert_allclose(got, want, 1e-5, 1e-5)


def test_moving_statistics_stay_when_nothing_is_trained():
    """MXNet updates them in backward, which an executor without gradients does not have."""
    executor = bound()
    before = executor.aux_dict["bn_moving_mean"].asnumpy()
    executor.forward(is_train=True)
    executor.backward()
    np.testing.assert_array_equal(executor.aux_dict["bn_moving_mean"].asnumpy(), before)


def test_outputs_are_the_same_objects_in_every_mode():
    executor = bound()
    outputs, memory = executor.outputs[0], executor.outputs[0]._data
    for is_train in (False, True, False):
        assert executor.forward(is_train=is_train)[0] is outputs
        assert executor.outputs[0] is outputs and outputs._data is memory
    executor.set_monitor_callback(lambda name, array: None)
    assert executor.forward()[0] is outputs and outputs._data is memory


def test_monitors_see_every_node_by_its_own_name():
    executor, seen = bound(), {}
    executor.forward()
    want = executor.outputs[0].asnumpy()
    executor.set_monitor_callback(lambda name, array: seen.setdefault(name, array.asnumpy()))
    executor.forward()
    assert {"bn_output", "drop_output", "ones_output", "one_output", "other_output"} <= set(seen)
    np.testing.assert_allclose(seen["fc_output"], want, 1e-5, 1e-5)
    np.testing.assert_array_equal(seen["fc_output"], executor.outputs[0].asnumpy())
    seen.clear()
    executor.set_monitor_callback(None)
    executor.forward()
    assert not seen


def test_inputs_of_a_forward_reach_both_ways():
    executor, batches = bound(), mx.nd.random.uniform(shape=(2, *SHAPE))
    for is_train in (False, True):
        results = []
        for batch in batches:
            mx.random.seed(1)
            results.append(executor.forward(is_train, data=batch)[0].asnumpy())
        assert not np.allclose(*results)


def test_other_executors_of_the_model_may_run_in_between():
    """They share the arena, also with the executor that runs every node."""
    executor = bound()
    want = executor.forward()[0].asnumpy()
    small = executor.reshape(data=(1, 3, 6, 6))
    large = executor.reshape(data=(9, 3, 6, 6), allow_up_sizing=True)
    for other in (small, large, small):
        other.forward(is_train=True)
        other.forward()
        np.testing.assert_array_equal(executor.forward()[0].asnumpy(), want)
    assert names(small) == names(executor) and small.planned.constants == executor.planned.constants


@pytest.mark.parametrize("switch", ["block", "environment"])
def test_exactness_can_be_asked_for(switch, monkeypatch):
    """Then results equal those of every node computed separately, bit for bit."""
    if switch == "environment":
        monkeypatch.setattr(CONFIG, "exact", True)
        executor = bound()
        monkeypatch.undo()
    else:
        with mx.exact():
            executor = bound()
    assert "bn" in names(executor) and "drop" not in names(executor)
    want = unoptimized(executor).forward()[0].asnumpy()
    np.testing.assert_array_equal(executor.forward()[0].asnumpy(), want)
    assert "bn" in names(executor.reshape(data=(1, 3, 6, 6)))
    assert "bn" not in names(bound())


def test_outputs_may_be_variables_and_constants():
    x = sym.Variable("x")
    symbol = sym.Group([x, sym.BlockGrad(x), sym.ones((2,)), x + sym.ones((2,)), sym.Dropout(x)])
    executor = symbol.bind(mx.cpu(), {"x": mx.nd.array([3, 4])})
    for is_train in (False, False):
        values = [out.asnumpy().tolist() for out in executor.forward(is_train)]
        assert values == [[3, 4], [3, 4], [1, 1], [4, 5], [3, 4]]
    executor.outputs[1][:] = 7
    executor.outputs[4][:] = 8
    assert executor.arg_dict["x"].asnumpy().tolist() == [3, 4]


def test_outputs_nobody_reads_are_not_computed_nor_stored():
    parts = sym.SliceChannel(sym.Variable("x"), num_outputs=4, name="parts")
    executor = (parts[0] + parts[2]).simple_bind(mx.cpu(), grad_req="null", x=(2, 4))
    outs = executor.steps[0].outs
    assert [out is None for out in outs] == [False, True, False, True]
    norm = sym.BatchNorm(sym.sqrt(sym.Variable("x")), name="bn")
    executor = norm.simple_bind(mx.cpu(), grad_req="null", x=(2, 4))
    assert [out is None for out in executor.steps[-1].outs] == [False, True, True]


def test_custom_operators_keep_their_state_in_both_modes():
    """One `CustomOp` for each node and executor, whichever graph is run."""
    made = []

    class Counting(mx.operator.CustomOp):
        def __init__(self):
            super().__init__()
            made.append(self)
            self.runs = 0

        def forward(self, is_train, req, in_data, out_data, aux):
            self.runs += 1
            self.assign(out_data[0], req[0], in_data[0] + self.runs)

    @mx.operator.register("counting_runs")
    class CountingProp(mx.operator.CustomOpProp):
        def create_operator(self, ctx, in_shapes, in_dtypes):
            return Counting()

    symbol = sym.Custom(sym.Dropout(sym.Variable("data")), op_type="counting_runs")
    executor = symbol.simple_bind(mx.cpu(), grad_req="null", data=(1,))
    seen = [executor.forward(mode)[0].asscalar() for mode in (False, True, False, True)]
    assert seen == [1, 2, 3, 4] and len(made) == 1


def test_equal_custom_operators_are_two():
    register(mx)
    x, label = sym.Variable("x"), sym.Variable("label")
    parts = [sym.Custom(x, label, op_type="test_softmax") for _ in range(2)]
    executor = (parts[0] + parts[1]).simple_bind(mx.cpu(), grad_req="null", x=(2, 3))
    assert len(executor.compiled.nodes) == 3


def test_modules_for_inference_follow_the_parameters_they_are_given():
    module = mx.mod.Module(network(), label_names=None)
    module.bind([("data", SHAPE)], for_training=False)
    module.init_params(mx.init.Uniform(0.5))
    batch = mx.io.DataBatch([mx.nd.ones(SHAPE)])
    executor = module._exec_group.execs[0]
    assert "bn" not in names(executor)
    for scale in (1, 2, 0.5):
        arg, aux = module.get_params()
        module.set_params({name: value * scale for name, value in arg.items()}, aux)
        module.forward(batch)
        got = module.get_outputs()[0].asnumpy()
        want = unoptimized(executor).forward()[0].asnumpy()
        np.testing.assert_allclose(got, want, 1e-5, 1e-5)


def test_a_module_that_shares_parameters_follows_training():
    """One module trains, another one scores with the same arrays, as `shared_module` makes it."""
    symbol = sym.SoftmaxOutput(network(), name="softmax")
    train = mx.mod.Module(symbol)
    train.bind([("data", SHAPE)], [("softmax_label", (2,))])
    train.init_params(mx.init.Uniform(0.5))
    train.init_optimizer(optimizer_params={"learning_rate": 0.5})
    score = mx.mod.Module(symbol)
    score.bind([("data", SHAPE)], [("softmax_label", (2,))], for_training=False,
               shared_module=train)
    rng = np.random.RandomState(0)
    executor, before = score._exec_group.execs[0], None
    for _ in range(3):
        batch = mx.io.DataBatch([mx.nd.array(rng.rand(*SHAPE))], [mx.nd.array([0, 2])])
        train.forward_backward(batch)
        train.update()
        score.forward(batch)
        got = score.get_outputs()[0].asnumpy()
        np.testing.assert_allclose(got, unoptimized(executor).forward()[0].asnumpy(), 1e-5, 1e-5)
        assert before is None or not np.allclose(got, before)
        before = got


def test_folding_survives_statistics_without_variance():
    """Dead channels: var 0 scales by 1 / sqrt(eps), as it does without folding."""
    plain, executor = bound_twice(network(), {"data": SHAPE})
    for bound_ in (plain, executor):
        bound_.aux_dict["bn_moving_var"][:] = 0
    np.testing.assert_allclose(executor.forward()[0].asnumpy(), plain.forward()[0].asnumpy(),
                               1e-5, 1e-4)
