"""Constants derived from parameters are recomputed after any write to these, and only then."""

from __future__ import annotations

import gc
import warnings

import numpy as np
import pytest

import nbmod as mx
from nbmod.ndarray import mutation
from tests.passes.test_pipelines import fill, unoptimized

sym = mx.sym
SHAPE = (2, 3, 6, 6)


def network():
    x = sym.Convolution(sym.Variable("data"), kernel=(3, 3), num_filter=4, name="conv")
    x = sym.BatchNorm(x, fix_gamma=False, eps=1e-3, momentum=0.5, name="bn")
    return sym.FullyConnected(x, num_hidden=3, name="fc")


def bound(**options):
    executor = network().simple_bind(mx.cpu(), grad_req="null", data=SHAPE, **options)
    fill(executor)
    executor.forward()
    return executor


def follows(executor) -> None:
    """Results of the executor equal those of one bound just now, without passes."""
    got = executor.forward()[0].asnumpy()
    want = mx.nd.empty(got.shape)
    for array in unoptimized(executor).forward():
        array.copyto(want)
    np.testing.assert_allclose(got, want.asnumpy(), 1e-5, 1e-5)


def stale(executor) -> bool:
    return any(values.stale for values in executor.planned.constants)


def by_item(executor):
    executor.arg_dict["conv_weight"][:] = 2


def by_element(executor):
    executor.arg_dict["conv_weight"][1, 2, 0, 0] = 5


def by_indices(executor):
    executor.arg_dict["bn_gamma"][mx.nd.array([0, 2])] = 5


def through_views(executor):
    executor.arg_dict["conv_weight"][1:3].reshape((-1,))[4:6][:] = 3


def in_place(executor):
    executor.aux_dict["bn_moving_var"] *= 3


def by_copy(executor):
    mx.nd.full((4,), 3).copyto(executor.arg_dict["conv_bias"])


def from_numpy_array(executor):
    executor.arg_dict["bn_beta"]._sync_copyfrom(np.full(4, 3, np.float32))


def as_out(executor):
    mx.nd.sqrt(mx.nd.full((4,), 3), out=executor.arg_dict["bn_beta"])


def as_random_out(executor):
    mx.nd.random.uniform(1, 2, shape=(4,), out=executor.aux_dict["bn_moving_var"])


def as_state(executor):
    """The momentum, an input that an update op writes to."""
    weight, grad = mx.nd.ones((4,)), mx.nd.ones((4,))
    mx.nd.sgd_mom_update(weight, grad, executor.arg_dict["bn_beta"], lr=0.5, momentum=0.9)


def by_updater(executor):
    update = mx.optimizer.get_updater(mx.optimizer.create("sgd", learning_rate=1.0))
    weight = executor.arg_dict["conv_weight"]
    update(0, mx.nd.ones(weight.shape), weight)


def by_adam(executor):
    update = mx.optimizer.get_updater(mx.optimizer.create("adam", learning_rate=1.0))
    update(0, mx.nd.ones((4,)), executor.arg_dict["bn_gamma"])


def by_name(executor):
    executor.copy_params_from({"conv_bias": mx.nd.full((4,), 3)}, {"bn_moving_mean": mx.nd.ones(4)})


def by_keyword(executor):
    executor.forward(conv_weight=mx.nd.ones(executor.arg_dict["conv_weight"].shape))


def by_pull(executor):
    store = mx.kv.create("local")
    store.init("w", mx.nd.full((4,), 2))
    store.pull("w", out=executor.arg_dict["bn_beta"])


def by_initializer(executor):
    mx.init.Uniform(3)(mx.init.InitDesc("conv_weight"), executor.arg_dict["conv_weight"])


def by_another_executors_gradient(executor):
    symbol = sym.make_loss(sym.sum(sym.Variable("a") * 3))
    grad = executor.arg_dict["bn_beta"]
    other = symbol.bind(mx.cpu(), {"a": mx.nd.ones((4,))}, {"a": grad})
    other.forward(is_train=True)
    other.backward()


def by_another_executors_output(executor):
    """A weight that is the output of another network."""
    other = (sym.Variable("a") * 2).bind(mx.cpu(), {"a": mx.nd.ones((4,))})
    args = {**executor.arg_dict, "bn_beta": other.outputs[0]}
    mixed = network().bind(mx.cpu(), args, None, "null", executor.aux_dict)
    mixed.forward()
    other.arg_dict["a"][:] = 5
    other.forward()
    follows(mixed)
    executor.arg_dict["bn_beta"][:] = 1


def by_training(executor):
    """Moving statistics, which another executor's backward pass updates."""
    other = network().bind(mx.cpu(), executor.arg_dict,
                           {"conv_bias": mx.nd.zeros((4,))}, "write", executor.aux_dict)
    other.forward(is_train=True)
    other.backward(mx.nd.ones((2, 3)))


def by_autograd(executor):
    """The same without a symbol."""
    args = [mx.nd.array(np.random.RandomState(0).rand(2, 4)), mx.nd.ones((4,)), mx.nd.ones((4,)),
            *executor.aux_dict.values()]
    args[1].attach_grad()
    with mx.autograd.record():
        y = mx.nd.BatchNorm(*args, fix_gamma=False)
    y.backward()


def as_gradient(executor):
    """What `backward` of recorded operations writes."""
    x = mx.nd.ones((4,))
    mx.autograd.mark_variables(x, executor.arg_dict["bn_beta"])
    with mx.autograd.record():
        y = 3 * x
    y.backward()


def as_out_of_sparse(executor):
    mx.nd.sparse.dot(mx.nd.array(3 * np.eye(4)).tostype("csr"), mx.nd.ones((4, 1)),
                     out=executor.arg_dict["bn_beta"].reshape((4, 1)))


def as_gradient_of_sparse(executor):
    x = sym.make_loss(sym.dot(sym.Variable("x", stype="csr"), sym.Variable("w")))
    other = x.bind(mx.cpu(), {"x": mx.nd.array(3 * np.eye(4)).tostype("csr"),
                              "w": mx.nd.ones((4, 1))},
                   {"w": executor.arg_dict["bn_beta"].reshape((4, 1))}, {"w": "write"})
    other.forward(is_train=True)
    other.backward()


class Overwriting(mx.operator.NumpyOp):
    """Writes to its input."""

    def forward(self, in_data, out_data):
        in_data[0][:] = 5
        out_data[0][:] = 0


def by_numpy_operator(executor):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        op = Overwriting()
    op(sym.Variable("data"), name="overwriting").bind(
        mx.cpu(), {"data": executor.arg_dict["bn_beta"]}, grad_req="null").forward()


def by_monitor(executor):
    """The function of a monitor gets the arrays themselves."""
    other = sym.relu(sym.Variable("data"), name="relu").bind(
        mx.cpu(), {"data": executor.arg_dict["bn_beta"]}, grad_req="null")
    other.set_monitor_callback(lambda name, array: array.__setitem__(slice(None), 5), True)
    other.forward()


def through_dlpack(executor):
    mx.nd.from_dlpack(executor.arg_dict["bn_beta"])[:] = 3


WRITERS = [by_item, by_element, by_indices, through_views, in_place, by_copy, from_numpy_array,
           as_out, as_random_out, as_state, by_updater, by_adam, by_name, by_keyword, by_pull,
           by_initializer, by_another_executors_gradient, by_another_executors_output, by_training,
           by_autograd, as_gradient, as_out_of_sparse, as_gradient_of_sparse, by_numpy_operator,
           by_monitor, through_dlpack]


@pytest.mark.parametrize("write", WRITERS, ids=lambda write: write.__name__)
def test_every_writer_is_heard(write):
    executor = bound()
    before = executor.outputs[0].asnumpy()
    assert executor.planned.constants and not stale(executor)
    write(executor)
    follows(executor)
    assert np.abs(executor.outputs[0].asnumpy() - before).max() > 1e-3


def test_nothing_is_computed_again_without_need(monkeypatch):
    executor = bound()
    monkeypatch.setattr(type(executor.planned.constants[0]), "refresh",
                        lambda values: pytest.fail("again"))
    for value in range(3):
        executor.forward(data=mx.nd.full(SHAPE, value))
        executor.arg_dict["fc_weight"][:] = value
        executor.outputs[0].asnumpy()


def test_only_what_reads_the_parameter_is_computed_again():
    x = sym.Variable("data")
    for i in range(3):
        x = sym.BatchNorm(sym.FullyConnected(x, num_hidden=4, name=f"fc{i}"), name=f"bn{i}")
    executor = x.simple_bind(mx.cpu(), grad_req="null", data=(2, 4))
    executor.forward()
    executor.arg_dict["fc1_weight"][:] = 1
    assert [values.stale for values in executor.planned.constants] == [False, True, False]


def test_shared_memory_counts_as_changed_always():
    weights = np.ones((4, 3, 3, 3), np.float32)
    args = dict(bound().arg_dict)
    view = weights[:]
    args["conv_weight"] = mx.nd.from_numpy(weights)
    executor = network().bind(mx.cpu(), args, None, "null", bound().aux_dict)
    executor.forward()
    view[:] = 2
    follows(executor)


def test_executors_of_one_model_share_what_follows():
    executor = bound()
    other = executor.reshape(data=(1, 3, 6, 6))
    assert other.planned.constants == executor.planned.constants
    del executor
    gc.collect()
    other.arg_dict["conv_weight"][:] = 1
    assert stale(other)
    follows(other)


def test_nobody_is_told_who_is_gone():
    gc.collect()
    before = dict(mutation._watchers)
    executor = bound()
    assert mutation._watchers != before
    del executor
    gc.collect()
    assert mutation._watchers == before


def test_a_failure_is_not_taken_for_a_result(monkeypatch):
    executor = bound()
    executor.arg_dict["conv_weight"][:] = 1
    from nbmod.ops.internal import FoldedBatchNorm

    def fail(*args):
        raise ValueError("no luck")

    with monkeypatch.context() as patch:
        patch.setattr(FoldedBatchNorm, "forward", fail)
        with pytest.raises(mx.MXNetError, match=r"conv_folded \(_folded_batch_norm\): no luck"):
            executor.forward()
    follows(executor)


def test_an_interrupted_refresh_is_repeated(monkeypatch):
    """By Ctrl-C, for example."""
    executor = bound()
    constants, = executor.planned.constants

    def interrupt(*args):
        raise KeyboardInterrupt

    executor.arg_dict["conv_weight"][:] = 2
    with monkeypatch.context() as context:
        context.setattr(constants, "_run", interrupt)
        with pytest.raises(KeyboardInterrupt):
            executor.forward()
    follows(executor)


def test_exact_constants_have_the_bits_of_steps():
    """NumPy computed them, which rounds otherwise than the kernels of steps."""
    boxes = mx.sym.Reshape(mx.sym.contrib.MultiBoxPrior(mx.sym.var("data"), sizes=(0.5,)),
                           shape=(1, -1, 4))
    scores = mx.sym.batch_dot(boxes, boxes, transpose_b=True)
    net = mx.sym.batch_dot(mx.sym.softmax(scores / 2), boxes)
    with mx.exact():
        hoisted = net.simple_bind(mx.cpu(), "null", data=(4, 1, 13, 17))
        with mx.without_passes("hoist_constants"):
            plain = net.simple_bind(mx.cpu(), "null", data=(4, 1, 13, 17))
    assert hoisted.planned.constants and not plain.planned.constants
    np.testing.assert_array_equal(hoisted.forward()[0].asnumpy(), plain.forward()[0].asnumpy())
