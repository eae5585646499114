"""Modules: training, several contexts, checkpoints, changing shapes, and wrong use."""

from __future__ import annotations

import logging
import threading
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import nbmod as mx
from nbmod.base import MXNetError


def network():
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=16, name="fc1")
    x = mx.sym.Activation(x, act_type="relu", name="relu1")
    x = mx.sym.FullyConnected(x, num_hidden=3, name="fc2")
    return mx.sym.SoftmaxOutput(x, name="softmax")


def blobs(count=96, seed=0):
    """Three separable classes in five dimensions."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, count)
    centres = np.eye(3, 5) * 4
    return (centres[labels] + rng.standard_normal((count, 5))).astype(np.float32), labels


def iterator(batch_size=16, **options):
    data, labels = blobs()
    return mx.io.NDArrayIter(data, labels, batch_size, **options)


def start_params(seed=1):
    rng = np.random.default_rng(seed)
    shapes = {"fc1_weight": (16, 5), "fc1_bias": (16,), "fc2_weight": (3, 16), "fc2_bias": (3,)}
    return {name: mx.nd.array(rng.standard_normal(shape) * 0.3) for name, shape in shapes.items()}


def trained(epochs=3, context=None, **fit_options):
    module = mx.mod.Module(network(), context=context or mx.cpu())
    options = {"optimizer_params": {"learning_rate": 0.2, "momentum": 0.9}, **fit_options}
    module.fit(iterator(), num_epoch=epochs, arg_params=start_params(), aux_params={}, **options)
    return module


def _without(name):
    return {key: value for key, value in start_params().items() if key != name}


def _at_its_end():
    data = iterator()
    assert len(list(data)) == 6
    return data


def params_of(module):
    return {name: value.asnumpy() for name, value in module.get_params()[0].items()}


def test_fit_learns_and_logs_in_mxnets_words(caplog):
    with caplog.at_level(logging.INFO):
        module = trained(4, eval_data=iterator())
    assert dict(module.score(iterator(), "acc"))["accuracy"] > 0.95
    lines = [record.getMessage() for record in caplog.records]
    for start in ("Epoch[0] Train-accuracy=", "Epoch[0] Time cost=",
                  "Epoch[3] Validation-accuracy="):
        assert any(line.startswith(start) for line in lines), start


def test_the_executor_is_that_of_the_first_context():
    module = mx.mod.Module(network(), context=[mx.cpu(0), mx.cpu(1)])
    with pytest.raises(MXNetError, match=r"call bind\(\) first"):
        module.executor     # noqa: B018  # it raises
    data = iterator()
    module.bind(data.provide_data, data.provide_label)
    assert module.executor is module._exec_group.execs[0]
    assert module.executor.arg_dict["data"].shape[0] == data.batch_size // 2


def test_a_module_without_executors_says_so():
    loss = mx.mod.PythonLossModule()
    loss.bind([("data", (2,))], [("softmax_label", (2,))])
    with pytest.raises(MXNetError, match="PythonLossModule computes without executors"):
        loss.executor       # noqa: B018  # it raises


def test_calls_come_in_mxnets_order():
    calls = []
    trained(1, eval_data=iterator(),
            batch_end_callback=lambda p: calls.append(("batch", p.epoch, p.nbatch)),
            epoch_end_callback=lambda e, s, a, x: calls.append(("epoch", e, sorted(a))),
            eval_batch_end_callback=[lambda p: calls.append(("eval", p.nbatch))],
            eval_end_callback=lambda p: calls.append(("eval end", p.nbatch)))
    assert calls == ([("batch", 0, i) for i in range(6)]
                     + [("epoch", 0, sorted(start_params()))]
                     + [("eval", i) for i in range(6)] + [("eval end", 6)])


@pytest.mark.parametrize("contexts, kvstore, loads", [
    (2, "local", None), (2, "device", None), (3, "local", [1, 2, 1]), (2, None, None)])
def test_several_contexts_train_as_one(contexts, kvstore, loads):
    one = params_of(trained(2))
    module = mx.mod.Module(network(), context=[mx.cpu(i) for i in range(contexts)],
                           work_load_list=loads)
    module.fit(iterator(), num_epoch=2, arg_params=start_params(), aux_params={},
               kvstore=kvstore, optimizer_params={"learning_rate": 0.2, "momentum": 0.9})
    if kvstore is None:                                 # without a store devices diverge
        assert params_of(module).keys() == one.keys()
        return
    for name, value in params_of(module).items():       # sums in another order: a few ulps
        np.testing.assert_allclose(value, one[name], rtol=1e-4, atol=1e-5)


def test_half_precision_tracks_single():
    """float16 data, weights and outputs; float32 masters in the optimizer."""
    data, labels = blobs()
    iterated = mx.io.NDArrayIter(mx.nd.array(data, dtype="float16"),
                                 mx.nd.array(labels, dtype="float16"), 16)
    module = mx.mod.Module(network(), context=[mx.cpu(0), mx.cpu(1)])
    module.fit(iterated, num_epoch=3, arg_params=start_params(), aux_params={},
               optimizer_params={"learning_rate": 0.2, "momentum": 0.9, "multi_precision": True})
    assert module.get_outputs()[0].dtype == np.float16
    for name, value in params_of(trained(3)).items():
        half = params_of(module)[name]
        assert half.dtype == np.float16
        # Gradients have 11 bits; masters keep what 18 steps would lose.
        np.testing.assert_allclose(half, value, rtol=5e-3, atol=5e-3)


def test_whole_numbers_look_up_rows():
    x = mx.sym.Embedding(mx.sym.Variable("data"), input_dim=4, output_dim=3, name="table")
    module = mx.mod.Module(mx.sym.MakeLoss(mx.sym.sum(x)), label_names=None)
    ids = mx.nd.array([1, 3, 3], dtype="int32")
    module.bind(mx.io.NDArrayIter(ids, batch_size=3).provide_data)
    module.init_params(mx.init.One())
    module.forward_backward(mx.io.DataBatch([ids]))
    executor = module._exec_group.execs[0]
    assert executor.arg_dict["data"].dtype == np.int32
    assert executor.grad_dict["table_weight"].asnumpy()[:, 0].tolist() == [0, 1, 0, 2]


def test_two_runs_are_bitwise_equal():
    runs = [params_of(trained(2, [mx.cpu(0), mx.cpu(1)])) for _ in range(2)]
    for name in runs[0]:
        np.testing.assert_array_equal(runs[0][name], runs[1][name])


def test_checkpoint_and_resume(tmp_path):
    whole = params_of(trained(4))
    prefix = str(tmp_path / "net")
    module = trained(2)
    module.save_checkpoint(prefix, 2, save_optimizer_states=True)
    resumed = mx.mod.Module.load(prefix, 2, load_optimizer_states=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # loaded parameters are those to train
        resumed.fit(iterator(), num_epoch=4, begin_epoch=2,
                    optimizer_params={"learning_rate": 0.2, "momentum": 0.9})
    with pytest.warns(UserWarning, match="already initialized") as warned:
        resumed.init_params()
    assert {warning.filename for warning in warned} == {__file__}
    for name, value in params_of(resumed).items():
        np.testing.assert_array_equal(value, whole[name])
    symbol, args, auxs = mx.model.load_checkpoint(prefix, 2)
    assert symbol.list_arguments() == network().list_arguments() and auxs == {}
    assert sorted(args) == sorted(whole)
    module.save_params(str(tmp_path / "plain.params"))
    other = trained(1)
    other.load_params(str(tmp_path / "plain.params"))
    for name, value in params_of(other).items():
        np.testing.assert_array_equal(value, params_of(module)[name])


def test_predict_strips_padding_and_takes_arrays():
    module = trained(1)
    data, _ = blobs()
    iterated = mx.io.NDArrayIter(data[:50], None, 16)
    unlabelled = mx.mod.Module(network().get_internals()["fc2_output"], label_names=[])
    unlabelled.bind([("data", (16, 5))], for_training=False)
    unlabelled.set_params(*module.get_params())
    out = unlabelled.predict(iterated)
    assert out.shape == (50, 3)
    assert isinstance(unlabelled.predict(iterated, always_output_list=True), list)
    assert [o[0].shape[0] for o in unlabelled.predict(iterated, merge_batches=False)] == [
        16, 16, 16, 2]
    np.testing.assert_allclose(unlabelled.predict(data[:16]).asnumpy(), out.asnumpy()[:16],
                               rtol=1e-6)
    assert [n for _, n, _ in unlabelled.iter_predict(iterated, num_batch=2)] == [0, 1]


def test_predictions_are_joined_along_the_batch_axis_that_layouts_tell():
    x = mx.sym.Variable("data") * 2
    net = mx.sym.Group([mx.sym.identity(x, name="sequence", attr={"__layout__": "TNC"}),
                        mx.sym.sum(x, axis=(0, 2), name="sums")])
    data = np.arange(3 * 10 * 2, dtype=np.float32).reshape(3, 10, 2)
    iterated = mx.io.NDArrayIter(mx.nd.array(data.swapaxes(0, 1)), batch_size=4)

    class TimeMajor(mx.io.DataIter):
        provide_data = [mx.io.DataDesc("data", (3, 4, 2), layout="TNC")]
        provide_label = []

        def reset(self):
            iterated.reset()

        def next(self):
            batch = next(iterated)
            return mx.io.DataBatch([batch.data[0].swapaxes(0, 1)], pad=batch.pad)

    module = mx.mod.Module(net, label_names=None, context=[mx.cpu(0), mx.cpu(1)])
    module.bind(TimeMajor.provide_data, for_training=False)
    module.init_params()
    sequence, sums = module.predict(TimeMajor(4))
    np.testing.assert_array_equal(sequence.asnumpy(), data * 2)
    np.testing.assert_array_equal(sums.asnumpy(), (data * 2).sum(axis=(0, 2)))


def test_shapes_may_change_from_batch_to_batch():
    module = trained(1)
    data, labels = blobs()
    whole = []
    for size in (16, 7, 32, 7, 16):
        batch = mx.io.DataBatch([mx.nd.array(data[:size])], [mx.nd.array(labels[:size])])
        module.forward(batch, is_train=False)
        whole.append(module.get_outputs()[0].asnumpy())
        assert whole[-1].shape == (size, 3)
    # A batch of another size may be multiplied in another order: a few ulps.
    np.testing.assert_allclose(whole[1], whole[0][:7], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(whole[0], whole[4])
    module.forward_backward(mx.io.DataBatch([mx.nd.array(data[:9])], [mx.nd.array(labels[:9])]))
    module.update()


def test_old_executors_of_many_shapes_are_dropped(monkeypatch):
    monkeypatch.setattr("nbmod.module.bound_executors.KEPT_SHAPES", 2)
    module = trained(1)
    for size in (1, 2, 3, 4, 16):
        module.forward(mx.io.DataBatch([mx.nd.ones((size, 5))]), is_train=False)
        assert module.get_outputs()[0].shape == (size, 3)
    assert len(module._exec_group._kept[0]) == 2


@pytest.mark.parametrize("shape", [(16, 6), (16, 5, 2), (4, 7)])
def test_a_batch_that_does_not_fit_changes_nothing(shape):
    module = trained(1)
    before = params_of(module)
    batch = mx.io.DataBatch([mx.nd.ones(shape)], [mx.nd.zeros(shape[:1])])
    with pytest.raises(MXNetError, match="would change the parameter fc1_weight"):
        module.forward(batch)
    module.forward_backward(next(iterator()))
    assert module.data_shapes[0].shape == (16, 5) == module._exec_group.data_shapes[0].shape
    for name, value in params_of(module).items():
        np.testing.assert_array_equal(value, before[name])


def test_a_batch_may_be_any_object_with_data():
    """The batches of old inference scripts: `namedtuple("Batch", ["data"])`."""
    module = mx.mod.Module(network())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module.bind([("data", (4, 5))], for_training=False)
    module.set_params(start_params(), {}, allow_missing=True)
    for size in (4, 2):
        module.forward(SimpleNamespace(data=[mx.nd.ones((size, 5))]))
        assert module.get_outputs()[0].shape == (size, 3)


def test_parameters_of_a_whole_network_fit_its_parts():
    params = start_params()
    part = mx.mod.Module(network().get_internals()["fc1_output"], label_names=None)
    part.bind([("data", (4, 5))], for_training=False)
    part.set_params(params, {})                         # MXNet ignores fc2 here
    assert sorted(part.get_params()[0]) == ["fc1_bias", "fc1_weight"]
    part.init_params(arg_params={}, aux_params={}, allow_missing=True, force_init=True,
                     initializer=mx.init.One())
    assert part.get_params()[0]["fc1_weight"].asnumpy().min() == 1


def test_setting_some_parameters_keeps_what_training_made_of_the_others():
    module = trained(1)
    weight = params_of(module)["fc1_weight"]
    bias = {"fc1_bias": mx.nd.ones((16,))}
    module.set_params(bias, {}, allow_missing=True)
    module.init_params(None, {"fc2_bias": mx.nd.ones((3,))}, {}, allow_missing=True,
                       force_init=True)
    np.testing.assert_array_equal(params_of(module)["fc1_weight"], weight)
    assert params_of(module)["fc1_bias"].min() == params_of(module)["fc2_bias"].min() == 1


@pytest.mark.parametrize("given, fixed, expected", [
    ("add", ["fc1_bias"], "null add null add add null"),
    ({"fc1_weight": "null", "data": "write"}, [], "write null write write write null"),
    (["null", "add", "null", "write", "write", "null"], [], "null add null write write null")])
def test_gradient_requests(given, fixed, expected):
    module = mx.mod.Module(network(), fixed_param_names=fixed)
    module.bind([("data", (4, 5))], [("softmax_label", (4,))], grad_req=given)
    requests = module._exec_group.grad_req
    assert [requests[name] for name in network().list_arguments()] == expected.split()


def test_fixed_parameters_and_input_gradients():
    module = mx.mod.Module(network(), fixed_param_names=["fc1_weight"])
    module.bind([("data", (16, 5))], [("softmax_label", (16,))], inputs_need_grad=True)
    module.init_params(arg_params=start_params(), aux_params={})
    module.init_optimizer(optimizer_params={"learning_rate": 0.5})
    before = params_of(module)
    batch = next(iterator())
    module.forward_backward(batch)
    module.update()
    after = params_of(module)
    np.testing.assert_array_equal(after["fc1_weight"], before["fc1_weight"])
    assert np.abs(after["fc2_weight"] - before["fc2_weight"]).max() > 0
    assert module.get_input_grads()[0].shape == (16, 5)
    assert np.abs(module.get_input_grads()[0].asnumpy()).max() > 0


def test_a_bias_learns_where_the_weight_is_fixed():
    """In MXNet it does not: its gradient is 0 then."""
    module = mx.mod.Module(network(), fixed_param_names=["fc2_weight"])
    module.bind([("data", (16, 5))], [("softmax_label", (16,))])
    module.init_params(arg_params=start_params(), aux_params={})
    batch = next(iterator())
    module.forward_backward(batch)
    error = module.get_outputs()[0].asnumpy() - np.eye(3)[batch.label[0].asnumpy().astype(int)]
    grad = module._exec_group.execs[0].grad_dict["fc2_bias"].asnumpy()
    np.testing.assert_allclose(grad, error.sum(axis=0), 1e-5)


def test_modules_share_parameters_and_optimizer():
    module = trained(1)
    other = mx.mod.Module(network())
    other.bind([("data", (4, 5))], [("softmax_label", (4,))], shared_module=module)
    assert other.params_initialized and other.optimizer_initialized
    data, labels = blobs()
    other.forward_backward(mx.io.DataBatch([mx.nd.array(data[:4])], [mx.nd.array(labels[:4])]))
    other.update()
    shared = module._exec_group.execs[0].arg_dict["fc1_weight"]
    assert other._exec_group.execs[0].arg_dict["fc1_weight"] is shared
    assert other._exec_group.execs[0].arena is module._exec_group.execs[0].arena


def test_states_and_monitor():
    x, h = mx.sym.Variable("data"), mx.sym.Variable("hidden")
    net = mx.sym.Group([x + h, mx.sym.BlockGrad(x * h, name="next")])
    module = mx.mod.Module(net, label_names=[], state_names=["hidden"])
    with pytest.raises(MXNetError, match="bind"):
        module.get_states()
    module.bind([("data", (2, 3)), ], for_training=False)
    module.init_params()
    module.set_states(value=2)
    seen = []
    monitor = mx.mon.Monitor(1, pattern=".*")
    module.install_monitor(monitor)
    monitor.tic()
    module.forward(mx.io.DataBatch([mx.nd.ones((2, 3))]))
    seen = [name for _, name, _ in monitor.toc()]
    assert "next_output" in seen
    assert module.get_outputs()[0].asnumpy().tolist() == [[3.0] * 3] * 2
    assert module.get_states()[0].asnumpy().tolist() == [[2.0] * 3] * 2


WRONG_USE = [
    ("data name", lambda: mx.mod.Module(network(), data_names=["dat"]), ValueError, "dat.*'data'"),
    ("fixed name", lambda: mx.mod.Module(network(), fixed_param_names=["fc3_weight"]), ValueError,
     "fc3_weight"),
    ("forward before bind", lambda: mx.mod.Module(network()).forward(next(iterator())),
     MXNetError, "bind"),
    ("shapes that do not match names", lambda: mx.mod.Module(network()).bind([("x", (1, 5))]),
     ValueError, "data_shapes"),
    ("names and arrays by turns",
     lambda: mx.mod.Module(network()).bind(["data", mx.nd.zeros((1, 5))]), TypeError, "'data'"),
    ("no list of dimensions", lambda: mx.mod.Module(network()).bind([("data", 5)]), TypeError,
     "expected DataDesc"),
    ("no epochs", lambda: mx.mod.Module(network()).fit(iterator()), MXNetError, "num_epoch"),
    ("work loads", lambda: mx.mod.Module(network(), work_load_list=[1, 1]), MXNetError,
     "work loads"),
    ("missing parameter", lambda: mx.mod.Module(network()).fit(
        iterator(), num_epoch=1, arg_params={"fc1_weight": mx.nd.ones((16, 5))}, aux_params={}),
     RuntimeError, "not presented.*allow_missing"),
    ("extra parameter", lambda: trained(1).set_params(
        {"fc9_weight": mx.nd.ones((1,))}, {}, allow_missing=True), ValueError, "fc9_weight"),
    ("no parameters", lambda: trained(1).set_params({}, {}), RuntimeError, "fc1_bias is not pres"),
    ("a bias missing", lambda: trained(1).set_params(
        _without("fc2_bias"), {}), RuntimeError, "have no 'fc2_bias'; pass allow_missing"),
    ("a bias misspelt", lambda: trained(1).set_params(
        {**_without("fc2_bias"), "fc2_bais": mx.nd.ones(3)}, {}), RuntimeError,
     "have no 'fc2_bias'; did you mean 'fc2_bais'"),
    ("an iterator at its end", lambda: mx.mod.Module(network()).fit(_at_its_end(), num_epoch=1),
     MXNetError, "no batch in epoch 0; it had been read to its end.*reset()"),
    ("fewer samples than a batch", lambda: mx.mod.Module(network()).fit(
        mx.io.NDArrayIter(np.ones((3, 5)), np.ones(3), 4, last_batch_handle="discard"),
        num_epoch=1), MXNetError, "fewer samples than a batch"),
    ("batch size in a symbol for two devices", lambda: mx.mod.Module(
        mx.sym.Reshape(mx.sym.var("data"), shape=(8, 4), name="flat"), label_names=None,
        context=[mx.cpu(0), mx.cpu(1)]).bind([("data", (8, 2, 2))]), MXNetError,
     r"flat .Reshape.*the batch of 8 samples is divided over 2 devices.*\(4, 2, 2\)"),
    ("label name", lambda: mx.mod.Module(network()).bind([("data", (4, 5))], [("label", (4,))]),
     KeyError, "label_shapes describes 'label'.*'softmax_label'"),
    ("label shape", lambda: trained(1).forward(
        mx.io.DataBatch([mx.nd.ones((16, 5))], [mx.nd.ones((16, 1))])), MXNetError,
     r"softmax_label of shape \(16, 1\).*bound to \(16,\)"),
    ("parameter shape", lambda: trained(1).set_params(
        {**start_params(), "fc1_bias": mx.nd.ones((7,))}, {}), MXNetError, r"fc1_bias.*\(7,\)"),
    ("optimizer before parameters", lambda: _bound().init_optimizer(), MXNetError, "init_params"),
    ("context", lambda: mx.mod.Module(network(), context="cpu"), TypeError, "'cpu'.*mx.cpu()"),
    ("no contexts", lambda: mx.mod.Module(network(), context=[]), TypeError, r"\[\].*mx.cpu()"),
    ("batch of lists", lambda: trained(1).forward(mx.io.DataBatch([[1, 2]])), TypeError,
     "a list of list, expected a list of NDArrays"),
    ("label taken for a parameter", lambda: mx.mod.Module(network(), label_names=None).fit(
        mx.io.NDArrayIter(np.ones((8, 5)), None, 4), num_epoch=1), ValueError,
     "softmax_label.*name it in Module's label_names"),
    ("label without a value", lambda: mx.mod.Module(network(), label_names=None).fit(
        mx.io.NDArrayIter(np.ones((8, 5)), None, 4), num_epoch=1, arg_params=start_params(),
        aux_params={}), RuntimeError, "softmax_label is not presented.*label_names"),
    ("names twice", lambda: mx.mod.Module(network(), data_names=["data", "data"]), ValueError,
     "'data'.* occur twice"),
    ("an input of two kinds", lambda: mx.mod.Module(network(), label_names=["data"]), ValueError,
     "'data'.* occur twice"),
    ("variables of one name", lambda: mx.mod.Module(_twice(), label_names=None).bind(
        [("data", (4, 5))]), ValueError, "duplicated.*'fc_weight'"),
    ("symbol", lambda: mx.mod.Module("net.json"), TypeError, "symbol is a str.*mx.sym.load"),
    ("batch sizes", lambda: mx.mod.Module(network()).bind(
        [("data", (4, 5))], [("softmax_label", (3,))]), MXNetError,
     r"same batch size: 4.*softmax_label has shape \(3,\)"),
    ("shapes in a dict", lambda: mx.mod.Module(network()).bind({"data": (4, 5)}), ValueError,
     r"expected a list of DataDesc or \(name, shape\)"),
    ("no shape", lambda: mx.mod.Module(network()).bind([("data",)]), TypeError, r"\('data',\)"),
    ("shape as text", lambda: mx.mod.Module(network()).bind([("data", "4,5")]), ValueError,
     "'4,5'.*such as"),
    ("a list of requests too short", lambda: _bound(grad_req=["write"]), MXNetError,
     "lists 1 requests.*fc1_weight"),
    ("request", lambda: _bound(grad_req="wrte"), MXNetError, "'wrte', expected one of"),
    ("gradients of inputs without training", lambda: _bound(
        inputs_need_grad=True, for_training=False), MXNetError, "needs for_training=True"),
    ("shared module unbound", lambda: _bound(shared_module=mx.mod.Module(network())), MXNetError,
     "call bind"),
    ("shared module of another kind", lambda: _bound(shared_module="net"), AssertionError,
     "is a str"),
    ("shared module on fewer devices", lambda: mx.mod.Module(
        network(), context=[mx.cpu(0), mx.cpu(1)]).bind(
        [("data", (4, 5))], [("softmax_label", (4,))], shared_module=trained(1)), MXNetError,
     r"1 context\(s\), this module on 2"),
    ("work loads below zero", lambda: _on_two(work_load_list=[-1, 2]), ValueError, "positive"),
    ("a device without work", lambda: _on_two(work_load_list=[0, 1]), ValueError,
     "cannot be split over 2 devices"),
    ("parameters of numpy", lambda: trained(1).init_params(
        arg_params={name: value.asnumpy() for name, value in start_params().items()},
        aux_params={}, force_init=True), TypeError, "is a ndarray, expected an NDArray"),
    ("forward before parameters", lambda: _bound().forward(next(iterator(4))), MXNetError,
     "init_params"),
    ("backward before forward", lambda: _initialized().backward(), MXNetError,
     "call forward\\(is_train=True\\) first"),
    ("backward without training", lambda: _initialized(for_training=False).backward(), MXNetError,
     "for_training=True"),
    ("update before optimizer", lambda: _initialized().update(), MXNetError, "init_optimizer"),
    ("states before optimizer", lambda: _initialized().save_optimizer_states("states"), MXNetError,
     "init_optimizer"),
    ("borrowed from nobody", lambda: _initialized().borrow_optimizer(_initialized()), MXNetError,
     "init_optimizer"),
    ("no input gradients", lambda: _initialized().get_input_grads(), MXNetError,
     "inputs_need_grad=True"),
    ("optimizer", lambda: _initialized().init_optimizer(optimizer="sdg"), MXNetError,
     "'sdg'.*did you mean 'sgd'"),
    ("store", lambda: _on_two().init_optimizer(kvstore="locl"), MXNetError, "'locl'"),
    ("train data", lambda: mx.mod.Module(network()).fit(np.ones((4, 5)), num_epoch=1), TypeError,
     "train_data is a ndarray.*NDArrayIter"),
    ("validation data", lambda: _initialized().score(np.ones((4, 5)), "acc"), TypeError,
     "eval_data is a ndarray.*NDArrayIter"),
    ("data to predict", lambda: _initialized().predict([1]), ValueError, "is a list"),
    ("rows of no dict", lambda: _with_store().prepare(None, lambda batch: []), MXNetError,
     "expected a dict.*gave a list"),
    ("rows of no parameter", lambda: _with_store().prepare(None, lambda batch: {"fc1_weigt": 1}),
     ValueError, "did you mean 'fc1_weight'"),
    ("lists of batches", lambda: trained(1).forward([next(iterator())] * 2), MXNetError,
     r"a list of 2 was given.*1 device\(s\)"),
    ("no batch", lambda: trained(1).forward(mx.nd.ones((16, 5))), TypeError,
     "is a NDArray, expected a DataBatch"),
    ("an iterator for a batch", lambda: trained(1).forward(iterator()), TypeError,
     "is a NDArrayIter, expected a DataBatch"),
    ("numbers for arrays", lambda: trained(1).forward(mx.io.DataBatch([[1, 2]])), TypeError,
     "list of list, expected a list of NDArrays"),
    ("validation data of fit", lambda: mx.mod.Module(network()).fit(
        iterator(), np.ones((4, 5)), num_epoch=1), TypeError, "fit: eval_data is a ndarray"),
    ("a name for a list", lambda: mx.mod.Module(network(), label_names="softmax_label"),
     ValueError, r"expected a list of names: \['softmax_label'\]"),
    ("a fragment for a list", lambda: mx.mod.DetModule(network(), ["data"], fixed_param="fc1"),
     ValueError, r"fixed_param is 'fc1'.*\['fc1'\]"),
    ("initializer", lambda: _bound().init_params("xavier"), TypeError,
     "initializer is 'xavier'.*mx.init.Xavier"),
    ("initializer of a variable", lambda: _begun_by("xaviar"), ValueError,
     "init_params: w: initializer 'xaviar'.*did you mean 'xavier'"),
    ("a name without a rule", lambda: _begun_by(None), ValueError,
     "init_params: w: Unknown initialization pattern"),
    ("batch arity", lambda: trained(1).forward(mx.io.DataBatch([mx.nd.ones((16, 5))] * 2)),
     MXNetError, "2 arrays"),
]


def _bound(**options):
    module = mx.mod.Module(network())
    module.bind([("data", (4, 5))], [("softmax_label", (4,))], **options)
    return module


def _initialized(**options):
    module = _bound(**options)
    module.init_params()
    return module


def _on_two(**options):
    module = mx.mod.Module(network(), context=[mx.cpu(0), mx.cpu(1)], **options)
    module.bind([("data", (4, 5))], [("softmax_label", (4,))])
    module.init_params()
    return module


def _with_store():
    module = _on_two()
    module.init_optimizer()
    return module


def _begun_by(name):
    """Parameters of a network, one of which has the initializer of this name."""
    w = mx.sym.Variable("w", init=name)
    symbol = mx.sym.FullyConnected(mx.sym.Variable("data"), weight=w, num_hidden=2, name="fc")
    module = mx.mod.Module(symbol, label_names=None)
    module.bind([("data", (4, 5))])
    module.init_params()


def _twice():
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=5, name="fc")
    return mx.sym.MakeLoss(mx.sym.FullyConnected(x, num_hidden=5, name="fc"))


@pytest.mark.filterwarnings("ignore:Data provided by")
@pytest.mark.parametrize("use, error, text", [row[1:] for row in WRONG_USE],
                         ids=[row[0] for row in WRONG_USE])
def test_wrong_use_says_what_to_do(use, error, text):
    with pytest.raises(error, match=text):
        use()


def test_batches_may_hold_numpy_arrays():
    module = mx.mod.Module(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc"),
                           label_names=None)
    module.bind([("data", (4, 3))], for_training=False)
    module.init_params(mx.init.Mixed([".*bias", ".*"], [mx.init.Zero(), mx.init.One()]))
    module.forward(mx.io.DataBatch([np.ones((4, 3), np.float32)]))
    assert module.get_outputs()[0].asnumpy().tolist() == [[3, 3]] * 4
    with pytest.raises(TypeError, match="a list of list, expected"):
        module.forward(mx.io.DataBatch([[1, 2]]))


def test_the_error_of_another_label_says_how_to_name_it():
    net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3),
                               mx.sym.var("sm_label"), name="softmax")
    with pytest.warns(UserWarning):
        module = mx.mod.Module(net)
    with pytest.raises(MXNetError, match=r"label_names=\['sm_label'\]"):
        module.bind([("data", (2, 5))], [("softmax_label", (2,))])


def test_an_executor_group_takes_pairs():
    net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc")
    group = mx.module.executor_group.DataParallelExecutorGroup(
        net, [mx.cpu()], [1], [("data", (4, 3))], None, ["fc_weight", "fc_bias"], True, False)
    assert group.execs[0].outputs[0].shape == (4, 2)
    assert [[*named] for named in group.shared_data_arrays] == [["data"]]
    assert group.shared_data_arrays[0]["data"] is group.execs[0].arg_dict["data"]


def test_the_default_context_has_an_old_name():
    with pytest.warns(DeprecationWarning, match="current_context"):
        assert mx.Context.default_ctx == mx.cpu()


def test_the_default_context_can_be_set_under_its_old_name():
    found = []

    def set_it():
        mx.Context.default_ctx = mx.cpu(3)
        found.append(mx.nd.zeros(1).context)
        with mx.cpu(4):
            found.append(mx.current_context())
        found.append(mx.current_context())

    thread = threading.Thread(target=set_it)
    thread.start()
    thread.join()
    assert [*found, mx.current_context()] == [mx.cpu(3), mx.cpu(4), mx.cpu(3), mx.cpu(0)]
    with pytest.raises(TypeError, match="'gpu' is a str, expected a Context"):
        mx.Context.default_ctx = "gpu"


def test_threads_share_a_context_object():
    """Each returns to its own one, in whichever order their blocks end."""
    shared, entered, left, found = mx.cpu(1), threading.Event(), threading.Event(), []

    def enter():
        with mx.cpu(3):
            with shared:
                entered.set()
                left.wait(60)
            found.append(mx.current_context())

    thread = threading.Thread(target=enter)
    with mx.cpu(2):
        with shared:
            thread.start()
            assert entered.wait(60)
        found.append(mx.current_context())
        left.set()
        thread.join()
    assert found == [mx.cpu(2), mx.cpu(3)]


def test_a_file_that_lacks_a_parameter_is_named(tmp_path):
    """In MXNet it is 0 after `load` and `bind`, without a word."""
    prefix = str(tmp_path / "net")
    mx.model.save_checkpoint(prefix, 3, network(), _without("fc2_bias"), {})
    with pytest.warns(UserWarning, match="net-0003.params has no fc2_bias"):
        module = mx.mod.Module.load(prefix, 3)
    module.bind([("data", (4, 5))], [("softmax_label", (4,))])
    assert not module._exec_group.execs[0].arg_dict["fc2_bias"].asnumpy().any()
    with pytest.raises(MXNetError, match="net-0003.params: fc2_bias is not presented"):
        trained(1).load_params(f"{prefix}-0003.params")
