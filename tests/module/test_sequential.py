"""SequentialModule, PythonModule and PythonLossModule: against MXNet, and wrong use."""

from __future__ import annotations

import numpy as np
import pytest

import nbmod as mx
from nbmod.base import MXNetError
from tests.compare import assert_like
from tests.programs import bucketing, sequences

PROGRAMS = [
    *(("train", kind, contexts) for kind in ("softmax", "named", "hinge", "entropy")
      for contexts in (1, 2)),
    ("fitted", "softmax"), ("fitted", "hinge"), ("set_parameters",), ("answers",), ("losses",)]


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_programs_end_as_in_mxnet(oracle, program):
    name, *args = program
    assert_like(getattr(sequences, name)(mx, *args),
                oracle.call("mx_scripts.run", "sequences", name, *args))


def bound(kind="softmax", size=4, **options):
    sequence = sequences.row(mx, kind)
    sequence.bind([("data", (size, sequences.FEATURES))], [("softmax_label", (size,))], **options)
    sequence.init_params(arg_params=sequences.start(mx), aux_params={})
    return sequence


def batch(size):
    data, labels = sequences.samples()
    return mx.io.DataBatch([mx.nd.array(data[:size])], [mx.nd.array(labels[:size])], pad=0)


def values(sequence):
    return sequences.numbers(sequence.get_params()[0])


def test_input_gradients_reach_the_front():
    """Split in two or whole, the network's input gradient is the same."""
    sequence = bound(inputs_need_grad=True)
    sequence.forward_backward(batch(4))
    x = mx.sym.FullyConnected(sequences.layer(mx, "first", sequences.HIDDEN, act="tanh"),
                              num_hidden=sequences.CLASSES, name="second")
    whole = mx.mod.Module(mx.sym.SoftmaxOutput(x, name="softmax"))
    whole.bind(sequence.data_shapes, sequence.label_shapes, inputs_need_grad=True)
    whole.init_params(arg_params=sequences.start(mx), aux_params={})
    whole.forward_backward(batch(4))
    for ours, theirs in zip(sequence.get_input_grads(), whole.get_input_grads(), strict=True):
        np.testing.assert_array_equal(ours.asnumpy(), theirs.asnumpy())


@pytest.mark.parametrize("kind", ["softmax", "hinge"])
def test_batches_of_other_sizes(kind):
    sequence = bound(kind)
    for size in (4, 7, 2, 4):
        sequence.forward_backward(batch(size))
        assert sequence.get_outputs()[0].shape == (size, sequences.CLASSES)
        assert sequence.data_shapes[0].shape == (size, sequences.FEATURES)
    described = mx.io.DataBatch(batch(3).data, batch(3).label, provide_data=[
        mx.io.DataDesc("data", (3, sequences.FEATURES))], provide_label=[("softmax_label", (3,))])
    sequence.forward(described)
    assert sequence.get_outputs()[0].shape == (3, sequences.CLASSES)


def test_binding_again_keeps_parameters_and_optimizers():
    sequence = bound()
    sequence.init_optimizer(optimizer_params={"momentum": 0.9})
    sequence.forward_backward(batch(4))
    sequence.update()
    before, updater = values(sequence), sequence._modules[0]._updater
    sequence.bind([("data", (3, sequences.FEATURES))], [("softmax_label", (3,))],
                  force_rebind=True)
    for name, value in values(sequence).items():
        np.testing.assert_array_equal(value, before[name])
    sequence.forward_backward(batch(3))
    sequence.update()
    assert sequence._modules[0]._updater is updater


def test_a_module_added_after_bind_takes_part_once_bound():
    sequence = mx.mod.SequentialModule()
    sequence.add(mx.mod.Module(sequences.layer(mx, "first", sequences.HIDDEN), label_names=None))
    sequence.bind([("data", (4, sequences.FEATURES))])
    sequence.init_params(arg_params=sequences.start(mx), aux_params={})
    net = mx.sym.SoftmaxOutput(sequences.layer(mx, "second", sequences.CLASSES), name="softmax")
    sequence.add(mx.mod.Module(net), take_labels=True, auto_wiring=True)
    with pytest.raises(MXNetError, match="call bind"):
        sequence.forward(batch(4))
    sequence.bind([("data", (4, sequences.FEATURES))], [("softmax_label", (4,))])
    with pytest.warns(UserWarning, match="already initialized"):
        sequence.init_params(mx.init.One())
    weight = sequences.start(mx)["first_weight"].asnumpy()
    np.testing.assert_array_equal(values(sequence)["first_weight"], weight)
    assert values(sequence)["second_weight"].min() == 1
    sequence.init_optimizer()
    sequence.forward_backward(batch(4))
    sequence.update()
    assert np.abs(values(sequence)["first_weight"] - weight).max() > 0


def test_rows_hold_rows_and_buckets():
    """A BucketingModule first, a row of modules after it: keys, shapes and labels are passed on."""
    def sym_gen(key):
        x = mx.sym.sum(mx.sym.Embedding(mx.sym.Variable("data"), input_dim=bucketing.WORDS,
                                        output_dim=sequences.FEATURES, name="words"), axis=1)
        return x, ["data"], []

    sequence = mx.mod.SequentialModule()
    sequence.add(mx.mod.BucketingModule(sym_gen, 6))
    sequence.add(sequences.row(mx, "hinge"), take_labels=True, auto_wiring=True)
    sequence.bind([("data", (4, 6))], [("softmax_label", (4,))])
    sequence.init_params()
    sequence.init_optimizer()
    for key in (3, 6, 2):
        sequence.forward_backward(bucketing.batch(mx, key))
        sequence.update()
        assert sequence.get_outputs()[0].shape == (4, sequences.CLASSES)
    assert sequence._modules[0]._curr_bucket_key == 2
    assert "words_weight" in values(sequence) and "second_bias" in values(sequence)


def test_monitors_watch_all_modules():
    sequence = bound("hinge")
    monitor = mx.mon.Monitor(1, pattern=".*output$")
    sequence.install_monitor(monitor)
    monitor.tic()
    sequence.forward(batch(4))
    assert {name for _, name, _ in monitor.toc()} >= {"first_output", "second_output"}


def test_a_bare_python_module_can_be_trained_and_scored():
    """MXNet trains one, but `score` raises: it does not record that it was bound."""
    loss = mx.mod.PythonLossModule(grad_func=lambda scores, labels: scores)
    loss.fit(sequences.iterator(mx), num_epoch=1)
    assert loss.binded and loss.params_initialized and loss.optimizer_initialized
    (name, value), = loss.score(sequences.iterator(mx), "acc")
    data, labels = sequences.samples()
    assert name == "accuracy" and value == np.mean(data.argmax(axis=1) == labels)


def test_a_subclass_may_compute_the_gradient():
    class Half(mx.mod.PythonLossModule):
        def _backward_impl(self):
            self._scores_grad = self._scores / 2

    sequence = mx.mod.SequentialModule()
    sequence.add(mx.mod.Module(sequences.layer(mx, "first", 2), label_names=None))
    sequence.add(Half(), take_labels=True, auto_wiring=True)
    sequence.bind([("data", (4, sequences.FEATURES))], [("softmax_label", (4,))])
    sequence.init_params()
    sequence.forward_backward(batch(4))
    grads = sequence._modules[0]._exec_group.execs[0].grad_dict
    np.testing.assert_allclose(grads["first_bias"].asnumpy(),
                               sequence.get_outputs()[0].asnumpy().sum(axis=0) / 2, rtol=1e-6)


def plain(name="first", data="data"):
    return mx.mod.Module(sequences.layer(mx, name, 3, data), data_names=[data], label_names=None)


def twice():
    x = sequences.layer(mx, "a", 2)
    return mx.mod.Module(mx.sym.Group([x, mx.sym.BlockGrad(x)]), label_names=None)


def of(*modules, **options):
    sequence = mx.mod.SequentialModule()
    for module in modules:
        sequence.add(module, **options)
    return sequence


def bind(sequence, **options):
    sequence.bind([("data", (4, sequences.FEATURES))], **options)
    return sequence


def initialised(*modules, **options):
    sequence = bind(of(*modules, **options))
    sequence.init_params()
    return sequence


def loss(function=sequences.hinge, **bind_options):
    module = mx.mod.PythonLossModule(grad_func=function)
    module.bind([("data", (2, 3))], [("softmax_label", (2,))], **bind_options)
    return module


def trained(module, *out_grads, **options):
    data_batch = mx.io.DataBatch([mx.nd.ones((2, 3))], [mx.nd.ones((2,))])
    module.forward(data_batch, **options)
    module.backward(*out_grads)


WRONG_USE = [
    ("no module", lambda: of("fc1"), TypeError, "got a str, expected a module"),
    ("unknown option", lambda: of(plain(), take_label=True), AssertionError,
     "'take_label'.*did you mean 'take_labels'"),
    ("nothing to bind", lambda: bind(of()), MXNetError, "add modules first"),
    ("forward before bind", lambda: of(plain()).forward(batch(4)), MXNetError,
     "SequentialModule: call bind"),
    ("shapes before bind", lambda: of(plain()).output_shapes, MXNetError, "call bind"),
    ("parameters before bind", lambda: of(plain()).init_params(), MXNetError, "call bind"),
    ("optimizer before parameters", lambda: bind(of(plain())).init_optimizer(), MXNetError,
     "call init_params"),
    ("forward before parameters", lambda: bind(of(plain())).forward(batch(4)), MXNetError,
     "call init_params"),
    ("update before optimizer", lambda: initialised(plain()).update(), MXNetError,
     "call init_optimizer"),
    ("duplicate names", lambda: initialised(plain(), plain(), auto_wiring=True), MXNetError,
     r"'first_weight' of module 1 \(Module\) is already used in module 0 \(Module\)"),
    ("names that do not meet", lambda: bind(of(plain(), plain("second"))), ValueError,
     r"module 1 \(Module\) has inputs \['data'\].*'first_output'.*auto_wiring=True"),
    ("numbers that do not meet", lambda: bind(of(twice(), plain(), auto_wiring=True)), MXNetError,
     r"module 1 \(Module\) has inputs \['data'\], but gets 2"),
    ("shared module", lambda: bind(of(plain()), shared_module=plain()), MXNetError,
     "no shared_module"),
    ("gradients without training", lambda: bind(of(plain()), for_training=False,
                                                inputs_need_grad=True), MXNetError,
     "for_training=True"),
    ("gradients not asked for", lambda: initialised(plain()).get_input_grads(), MXNetError,
     "inputs_need_grad=True"),
    ("labels not passed on", lambda: bind_and_train(take_labels=False), MXNetError,
     "no label.*take_labels=True"),
    ("batch without labels", lambda: bound("hinge").forward_backward(
        mx.io.DataBatch(batch(4).data)), MXNetError, "the batch has no label"),
    ("data that does not fit", lambda: bound().forward(mx.io.DataBatch([mx.nd.ones((4, 9))])),
     MXNetError, "first_weight"),
    ("loss before bind", lambda: mx.mod.PythonLossModule().forward(batch(4)), MXNetError,
     "PythonLossModule: call bind"),
    ("loss without gradient", lambda: trained(loss(None)), MXNetError, "give grad_func"),
    ("gradient of another shape", lambda: trained(loss(lambda s, y: [1, 2])), MXNetError,
     r"grad_func gave shape \(2,\), expected \(2, 3\)"),
    ("something behind a loss", lambda: trained(loss(), [mx.nd.ones((2, 3))]), MXNetError,
     "a loss takes no out_grads"),
    ("backward without training", lambda: trained(loss(for_training=False)), MXNetError,
     "for_training=True"),
    ("backward without labels", lambda: trained(loss(), is_train=False), MXNetError,
     r"forward\(is_train=True\) first"),
    ("no function", lambda: mx.mod.PythonLossModule(grad_func=3), MXNetError, "grad_func is a int"),
    ("two labels", lambda: mx.mod.PythonLossModule(label_names=["a", "b"]), MXNetError,
     r"label_names is \['a', 'b'\], expected one"),
    ("no labels", lambda: mx.mod.PythonLossModule(label_names=None), MXNetError, "label_names is"),
    ("adding gradients", lambda: loss(grad_req="add"), MXNetError, "leave it 'write'"),
    ("names of data", lambda: mx.mod.PythonLossModule().bind([("scores", (2, 3))]), ValueError,
     r"data_shapes describes .*scores.*expected data_names \['data'\]"),
    ("names of labels", lambda: mx.mod.PythonLossModule().bind(
        [("data", (2, 3))], [("label", (2,))]), ValueError, r"expected label_names"),
    ("sliced labels", lambda: loss().update_metric(mx.metric.create("acc"), [], True), MXNetError,
     "presliced"),
    ("outputs of devices", lambda: loss().get_outputs(False), MXNetError,
     "merge_multi_context=True"),
    ("gradients of devices", lambda: loss().get_input_grads(False), MXNetError,
     "merge_multi_context=True"),
    ("shapes nobody says", lambda: mx.mod.PythonModule(["data"], [], ["out"]).bind(
        [("data", (2, 3))]), MXNetError, "does not define _compute_output_shapes"),
]


def bind_and_train(**options):
    sequence = of(plain())
    sequence.add(mx.mod.PythonLossModule(grad_func=sequences.hinge), auto_wiring=True, **options)
    bind(sequence, label_shapes=[("softmax_label", (4,))])
    sequence.init_params()
    sequence.forward_backward(batch(4))


@pytest.mark.parametrize("use, error, text", [row[1:] for row in WRONG_USE],
                         ids=[row[0] for row in WRONG_USE])
def test_wrong_use_says_what_to_do(use, error, text):
    with pytest.raises(error, match=text):
        use()
