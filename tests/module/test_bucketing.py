"""BucketingModule: against MXNet, one arena for all buckets, shared parameters, wrong use."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nbmod as mx
from nbmod.base import MXNetError
from tests.compare import assert_like
from tests.programs import bucketing

SGD = {"learning_rate": 0.3, "momentum": 0.9, "wd": 1e-3}


PROGRAMS = [
    ("train", 1, "sgd", SGD), ("train", 2, "sgd", SGD), ("train", 2, "sgd", SGD, 20, "device"),
    ("train", 2, "sgd", {"learning_rate": 0.1}, 12, "device", {"type": "2bit", "threshold": 0.05}),
    ("train", 1, "adam", {"learning_rate": 0.02}), ("fitted",), ("stateful", 1), ("stateful", 2),
    ("placed",), ("normalised",), ("watched",)]


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_programs_end_as_in_mxnet(oracle, program):
    name, *args = program
    assert_like(getattr(bucketing, name)(mx, *args),
                oracle.call("mx_scripts.run", "bucketing", name, *args))


@pytest.mark.parametrize("writer", ["mxnet", "nbmod"])
def test_checkpoints_are_exchanged(oracle, tmp_path, writer):
    prefix, keys = str(tmp_path / "net"), [3, 6, 5]

    def call(package, name):
        return getattr(bucketing, name)(mx, prefix, keys) if package == "nbmod" else \
            oracle.call("mx_scripts.run", "bucketing", name, prefix, keys)

    saved = call(writer, "save")
    assert {path.name for path in tmp_path.iterdir()} == {
        "net.buckets", "net-0007.params", *(f"net-{key}-symbol.json" for key in keys)}
    ours, theirs = call("nbmod", "load"), call("mxnet", "load")
    assert_like(ours, theirs)
    assert ours["keys"] == [6, 3, 5]
    for name, value in saved.items():
        np.testing.assert_array_equal(ours["params"][name], value)


def executors(module, key):
    return module._buckets[key]._exec_group.execs


@pytest.mark.parametrize("order", [(6, 2, 3), (2, 3, 6), (3, 9, 2)])
@pytest.mark.parametrize("contexts", [1, 2])
def test_one_arena_as_large_as_the_largest_bucket(order, contexts):
    module = bucketing.bound(mx, contexts)
    for key in order:
        module.forward_backward(bucketing.batch(mx, key))
    for k in range(contexts):
        arenas = {id(executors(module, key)[k].arena) for key in module._buckets}
        needs = [executors(module, key)[k].compiled.plan.arena[0] for key in module._buckets]
        assert len(arenas) == 1
        assert executors(module, order[0])[k].arena.nbytes == max(needs) < sum(needs)
    longest = max(module._buckets)
    alone = mx.mod.BucketingModule(bucketing.network(mx), longest)
    alone.bind([("data", (4 // contexts, longest))], [("softmax_label", (4 // contexts,))])
    assert executors(alone, longest)[0].arena.nbytes == max(needs)


def test_buckets_share_arrays_gradients_and_optimizer():
    module = bucketing.bound(mx)
    module.init_optimizer()
    module.forward_backward(bucketing.batch(mx, 3))
    first, second = executors(module, 3)[0], executors(module, 6)[0]
    for name in bucketing.start():
        assert first.arg_dict[name] is second.arg_dict[name]
        assert first.grad_dict[name] is second.grad_dict[name]
    assert module._buckets[3]._updater is module._buckets[6]._updater


def test_batches_larger_than_the_default_bucket():
    """A larger batch and a longer bucket, then the default again: nothing is lost in between."""
    module, other = bucketing.bound(mx), bucketing.bound(mx)
    for key, size in ((6, 4), (3, 9), (9, 16), (6, 4)):
        data_batch = bucketing.batch(mx, key, size=size)
        module.forward(data_batch, is_train=False)
        assert module.get_outputs()[0].shape == (size, bucketing.CLASSES)
        assert module.output_shapes == [("softmax_output", (size, bucketing.CLASSES))]
        assert module.data_shapes[0].shape == (size, key)
    other.forward(bucketing.batch(mx, 6), is_train=False)
    np.testing.assert_array_equal(module.get_outputs()[0].asnumpy(),
                                  other.get_outputs()[0].asnumpy())


@pytest.mark.parametrize("contexts", [1, 2])
@pytest.mark.parametrize("first", [(), (3,), (3, 2)], ids=str)
def test_parameters_and_states_go_by_name(first, contexts, monkeypatch):
    """Buckets 2 and 3 lack or reorder parameters; values, momenta and rates are right for all."""
    monkeypatch.setenv("MXNET_UPDATE_ON_KVSTORE", "0")
    orders = {4: "abc", 3: "bac", 2: "bc"}

    def sym_gen(key):
        x = mx.sym.sum(mx.sym.Variable("data"), axis=1, keepdims=True)
        for name in orders[key]:
            x = mx.sym.FullyConnected(x, num_hidden=1, name=name, no_bias=True)
        return mx.sym.LinearRegressionOutput(x, mx.sym.Variable("label")), ["data"], ["label"]

    rates = {"a_weight": 0.0, "b_weight": 1.0, "c_weight": 0.5}
    expected = dict.fromkeys(rates, 1.0)
    momenta = dict.fromkeys(rates, 0.0)
    module = mx.mod.BucketingModule(sym_gen, 4, context=[mx.cpu(k) for k in range(contexts)])
    module.bind([("data", (2, 4))], [("label", (2, 1))])
    module.init_params(mx.init.One())
    for key in first:
        module.switch_bucket(key, [("data", (2, key))], [("label", (2, 1))])
    module.init_optimizer(optimizer_params={"learning_rate": 0.1, "momentum": 0.5})
    module._curr_module._optimizer.set_lr_mult(rates)
    for key in (2, 3, 4, 2, 3):
        module.forward_backward(mx.io.DataBatch(
            [mx.nd.ones((2, key))], [mx.nd.ones((2, 1))], bucket_key=key,
            provide_data=[("data", (2, key))], provide_label=[("label", (2, 1))]))
        grads = executors(module, key)[0].grad_dict
        for name in (f"{letter}_weight" for letter in orders[key]):
            gradient = grads[name].asscalar() * contexts / 2
            momenta[name] = 0.5 * momenta[name] - 0.1 * rates[name] * gradient
            expected[name] += momenta[name]
        module.update()
    for name, value in module.get_params()[0].items():
        assert value.asscalar() == pytest.approx(expected[name], rel=1e-6), name


@settings(max_examples=12, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([2, 3, 6, 8]), st.integers(1, 5)), min_size=1,
                max_size=6))
def test_buckets_cannot_be_told_from_modules_of_their_own(batches):
    """For any keys and batch sizes, parameters are those of a fresh Module per batch."""
    module = bucketing.bound(mx)
    options = {"learning_rate": 0.5, "rescale_grad": 0.25}
    module.init_optimizer(optimizer_params=options)
    expected = bucketing.arrays(mx, bucketing.start())
    for step, (key, size) in enumerate(batches):
        data_batch = bucketing.batch(mx, key, step, size)
        module.forward_backward(data_batch)
        module.update()
        alone = mx.mod.Module(bucketing.network(mx)(key)[0])
        alone.bind(data_batch.provide_data, data_batch.provide_label)
        alone.init_params(arg_params=expected, aux_params={})
        alone.init_optimizer(optimizer_params=options)
        alone.forward_backward(data_batch)
        alone.update()
        np.testing.assert_array_equal(module.get_outputs()[0].asnumpy(),
                                      alone.get_outputs()[0].asnumpy())
        expected.update(alone.get_params()[0])
    for name, value in module.get_params()[0].items():
        np.testing.assert_array_equal(value.asnumpy(), expected[name].asnumpy(), name)


def test_set_params_reaches_all_buckets():
    module = bucketing.bound(mx)
    module.forward(bucketing.batch(mx, 3))
    module.set_params({"out_bias": mx.nd.ones((3,)) * 9}, {}, allow_missing=True)
    assert module._params_dirty
    assert executors(module, 3)[0].arg_dict["out_bias"].asnumpy().tolist() == [9, 9, 9]
    assert module.get_params()[0]["out_bias"].asnumpy().tolist() == [9, 9, 9]
    assert not module._params_dirty
    module.init_params(mx.init.One(), force_init=True)
    assert executors(module, 3)[0].arg_dict["out_weight"].asnumpy().min() == 1


def test_rebinding_keeps_parameters_and_optimizer():
    module = bucketing.bound(mx)
    module.init_optimizer(optimizer_params=SGD)
    module.forward_backward(bucketing.batch(mx, 3))
    module.update()
    before = bucketing.numbers(module.get_params()[0])
    momenta = module._curr_module._updater.states
    module.bind([("data", (2, 6))], [("softmax_label", (2,))], force_rebind=True)
    assert module.data_shapes[0].shape == (2, 6)
    for name, value in module.get_params()[0].items():
        np.testing.assert_array_equal(value.asnumpy(), before[name])
    module.forward_backward(bucketing.batch(mx, 3))
    module.update()
    assert module._curr_module._updater.states is momenta


def test_prepare_leaves_the_current_bucket():
    module = bucketing.bound(mx)
    module.prepare(bucketing.batch(mx, 2))
    assert list(module._buckets) == [6, 2] and module._curr_bucket_key == 6
    assert module._curr_module is module._buckets[6] and module.symbol.list_outputs()


def test_input_gradients_and_inputs_for_loss():
    def sym_gen(key):
        x = mx.sym.sum(mx.sym.Variable("data") * 3, axis=1, keepdims=True)
        return mx.sym.LinearRegressionOutput(x, mx.sym.Variable("label")), ["data"], ["label"]

    module = mx.mod.BucketingModule(sym_gen, 4)
    module.bind([("data", (2, 4))], [("label", (2, 1))], inputs_need_grad=True)
    module.init_params()
    module.forward_backward(mx.io.DataBatch(
        [mx.nd.ones((2, 2))], [mx.nd.ones((2, 1))], bucket_key=2,
        provide_data=[("data", (2, 2))], provide_label=[("label", (2, 1))]))
    assert module.get_input_grads()[0].asnumpy().tolist() == [[15, 15], [15, 15]]


def test_tuples_are_keys_too(tmp_path):
    def sym_gen(key):
        return bucketing.network(mx)(key[0])

    module = mx.mod.BucketingModule(sym_gen, (6, 1))
    module.bind([("data", (4, 6))], [("softmax_label", (4,))])
    module.init_params()
    module.switch_bucket((3, np.int64(1)), [("data", (4, 3))], [("softmax_label", (4,))])
    module.save_checkpoint(str(tmp_path / "net"), 1)
    again = mx.mod.BucketingModule.load(str(tmp_path / "net"), 1, sym_gen, (6, 1))
    assert list(again._buckets) == [(6, 1), (3, 1)]


@pytest.mark.filterwarnings("ignore:Data provided by label_shapes")
def test_what_is_loaded_is_used():
    """Networks of a dict are used as they are; sym_gen makes those that it lacks."""
    doubled = {key: bucketing.network(mx)(key)[0] * 2 for key in (3, 6)}
    start = bucketing.arrays(mx, bucketing.start())
    module = mx.mod.BucketingModule.load_dict(doubled, bucketing.network(mx), 6, start, {})
    assert module.params_initialized and sorted(module.get_params()[0]) == sorted(start)
    module.bind([("data", (4, 6))], for_training=False)
    sums = []
    for key in (6, 3, 2):
        module.forward(bucketing.batch(mx, key), is_train=False)
        sums.append(module.get_outputs()[0].asnumpy().sum())
    np.testing.assert_allclose(sums, [8, 8, 4], rtol=1e-6)


def switching(key, module=None, **shapes):
    shapes = {"data_shapes": [("data", (4, 3))], "label_shapes": [("softmax_label", (4,))],
              **shapes}
    return lambda: (module or bucketing.bound(mx)).switch_bucket(key, **shapes)


def unbound():
    return mx.mod.BucketingModule(bucketing.network(mx), 6)


def only_bound():
    module = unbound()
    module.bind([("data", (4, 6))], [("softmax_label", (4,))])
    return module


def more_parameters(key):
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="fc" if key == 6 else "f")
    return mx.sym.SoftmaxOutput(x, name="softmax"), ["data"], ["softmax_label"]


def other_shape(key):
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="fc")
    return mx.sym.SoftmaxOutput(x, name="softmax"), ["data"], ["softmax_label"]


def made(sym_gen):
    module = mx.mod.BucketingModule(sym_gen, 6)
    module.bind([("data", (4, 6))], [("softmax_label", (4,))])
    module.init_params()
    return module


WRONG_USE = [
    ("no default", lambda: mx.mod.BucketingModule(bucketing.network(mx)), MXNetError,
     "default_bucket_key"),
    ("no function", lambda: mx.mod.BucketingModule(6, 6), MXNetError, "sym_gen is a int"),
    ("bare symbol", lambda: mx.mod.BucketingModule(lambda key: mx.sym.Variable("data"), 6),
     ValueError, r"sym_gen\(6\) gave a Symbol.*symbol, data_names, label_names"),
    ("pair", lambda: mx.mod.BucketingModule(lambda key: bucketing.network(mx)(key)[:2], 6),
     ValueError, "expected .symbol, data_names"),
    ("data name", lambda: mx.mod.BucketingModule(
        lambda key: (bucketing.network(mx)(key)[0], ["dat"], ["softmax_label"]), 6), ValueError,
     "dat.*'data'"),
    ("forward before bind", lambda: unbound().forward(bucketing.batch(mx, 3)), MXNetError,
     "BucketingModule: call bind"),
    ("switch before bind", lambda: switching(3, unbound())(), MXNetError, "call bind"),
    ("parameters before bind", lambda: unbound().init_params(), MXNetError, "call bind"),
    ("forward before parameters", lambda: only_bound().forward(bucketing.batch(mx, 3)),
     MXNetError, "call init_params"),
    ("switch before parameters", lambda: switching(3, only_bound())(), MXNetError,
     "BucketingModule: call init_params"),
    ("optimizer before parameters", lambda: only_bound().init_optimizer(), MXNetError,
     "call init_params"),
    ("update before optimizer", lambda: bucketing.bound(mx).update(), MXNetError,
     "call init_optimizer"),
    ("save before bind", lambda: unbound().save_checkpoint("x", 1), MXNetError, "call bind"),
    ("shared module", lambda: unbound().bind([("data", (4, 6))], shared_module=only_bound()),
     MXNetError, "no shared_module"),
    ("no shapes", switching(3, data_shapes=None), MXNetError, "3 comes.*provide_data"),
    ("data shape name", switching(3, data_shapes=[("dat", (4, 3))]), ValueError, "data_shapes"),
    ("batch sizes", switching(3, label_shapes=[("softmax_label", (3,))]), MXNetError,
     "same batch size.*softmax_label"),
    ("parameter of one bucket", lambda: switching(3, made(more_parameters))(), MXNetError,
     r"bucket 3 has \['f_bias', 'f_weight'\].*default.*6 lacks"),
    ("shape of a parameter", lambda: switching(3, made(other_shape))(), MXNetError,
     r"fc_weight.*\(3, 3\).*\(3, 6\)"),
    ("keys to save", lambda: named_bucket().save_checkpoint("x", 1), ValueError,
     "bucket key 'a' cannot be saved.*save_params"),
    ("load without sym_gen", lambda: mx.mod.BucketingModule.load_dict({6: None}), MXNetError,
     "needs sym_gen"),
    ("load without the default", lambda: mx.mod.BucketingModule.load_dict(
        {6: mx.sym.Variable("data")}, bucketing.network(mx), 5, {}, {}), ValueError,
     r"default_bucket_key 5.*\[6\]"),
]


def named_bucket():
    module = mx.mod.BucketingModule(lambda key: other_shape(key), "a")
    module.bind([("data", (4, 6))], [("softmax_label", (4,))])
    return module


@pytest.mark.parametrize("use, error, text", [row[1:] for row in WRONG_USE],
                         ids=[row[0] for row in WRONG_USE])
def test_wrong_use_says_what_to_do(use, error, text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=text):
        use()
    assert list(tmp_path.iterdir()) == []


def test_a_bucket_that_fails_changes_nothing():
    module = bucketing.bound(mx)
    module.forward(bucketing.batch(mx, 2))
    for use in (switching("six", module), switching(3, module, data_shapes=[("dat", (4, 3))])):
        with pytest.raises(MXNetError):
            use()
        assert list(module._buckets) == [6, 2] and module._curr_bucket_key == 2
    module.forward_backward(bucketing.batch(mx, 3))


def test_files_of_buckets_are_checked(tmp_path):
    mx.nd.save(str(tmp_path / "net.buckets"), {"a": mx.nd.ones((2,))})
    with pytest.raises(MXNetError, match="expected one array of bucket keys"):
        mx.mod.BucketingModule.load(str(tmp_path / "net"), 1, bucketing.network(mx), 6)


def test_errors_of_sym_gen_arrive_as_they_are():
    def sym_gen(key):
        raise LookupError("no such length")

    with pytest.raises(LookupError, match="no such length") as found:
        mx.mod.BucketingModule(sym_gen, 6)
    assert "bucket_key 6" in "".join(getattr(found.value, "__notes__", ["bucket_key 6"]))


def test_a_batch_without_a_key_is_for_the_default_bucket():
    """So that a BucketingModule takes plain iterators, also as the first of a SequentialModule."""
    keyed, plain = bucketing.bound(mx), bucketing.bound(mx)
    batch = bucketing.batch(mx, bucketing.DEFAULT)
    keyed.forward(batch)
    plain.forward(mx.io.DataBatch(batch.data, batch.label))
    ours, theirs = (module.get_outputs()[0].asnumpy() for module in (plain, keyed))
    np.testing.assert_array_equal(ours, theirs)
    assert [*plain._buckets] == [bucketing.DEFAULT]


def test_layers_without_a_name_are_the_same_in_every_bucket():
    def draw(length):
        net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, flatten=False)
        return mx.sym.sum(net, axis=1), ("data",), ()

    module = mx.mod.BucketingModule(draw, default_bucket_key=4)
    module.bind([("data", (2, 4, 5))], for_training=False)
    module.init_params()
    module.switch_bucket(2, [("data", (2, 2, 5))])
    assert module.symbol.list_arguments() == [
        "data", "fullyconnected0_weight", "fullyconnected0_bias"]
