"""Networks whose layers, or outputs, have one name, and ways to run them.

Layers share parameters, as scripts write recurrences and siamese networks by hand.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

BATCH, FEATURES, CLASSES = 6, 4, 3
rng = np.random.RandomState(0)
DATA = rng.uniform(-1, 1, (2 * BATCH, FEATURES)).astype("float32")
LABELS = np.array([0, 1, 2, 2, 1, 1, 0, 2, 0, 1, 0, 2], "float32")
WEIGHT = rng.uniform(-1, 1, (CLASSES, FEATURES)).astype("float32")
BIAS = np.array([0.1, -0.2, 0.3], "float32")


def _layers(sym: Any) -> tuple[Any, Any]:
    """Two layers of one name and one weight."""
    data, weight, bias = map(sym.Variable, ("data", "fc_weight", "fc_bias"))
    first = sym.FullyConnected(data, weight, bias, num_hidden=CLASSES, name="fc")
    return first, sym.FullyConnected(2 * data + 1, weight, bias, num_hidden=CLASSES, name="fc")


def two_layers(sym: Any) -> Any:
    return sym.Group(list(_layers(sym)))


def one_output_twice(sym: Any) -> Any:
    first, _ = _layers(sym)
    return sym.Group([first, first])


def layers_inside(sym: Any) -> Any:
    first, second = _layers(sym)
    return sym.SoftmaxOutput(first * second, name="softmax")


def losses_of_one_label(sym: Any) -> Any:
    label = sym.Variable("softmax_label")
    return sym.Group([sym.SoftmaxOutput(each, label, name="softmax") for each in _layers(sym)])


def losses_of_two_labels(sym: Any) -> Any:
    return sym.Group([sym.SoftmaxOutput(each, sym.Variable(f"{letter}_label"), name="softmax")
                      for letter, each in zip("ab", _layers(sym), strict=True)])


def losses_without_labels(sym: Any) -> Any:
    return sym.Group([sym.MakeLoss(sym.square(each), name="loss") for each in _layers(sym)])


def norms(sym: Any) -> Any:
    """Two BatchNorms of one name and one pair of running statistics."""
    shared = [sym.Variable(f"bn_{part}") for part in ("gamma", "beta", "moving_mean", "moving_var")]
    data = sym.Variable("data")
    return sym.Group([sym.BatchNorm(each, *shared, name="bn", fix_gamma=False, momentum=0.5)
                      for each in (data, sym.square(data))])


def variables_of_one_name(sym: Any) -> Any:
    """Two layers that make variables of their own, which blocks know as one parameter."""
    data = sym.Variable("data")
    return sym.Group([sym.FullyConnected(x, num_hidden=CLASSES, name="fc")
                      for x in (data, 2 * data + 1)])


NETWORKS: dict[str, Callable[[Any], Any]] = {
    network.__name__: network for network in (
        two_layers, one_output_twice, layers_inside, losses_of_one_label, losses_of_two_labels,
        losses_without_labels, norms)}


def labels_of(net: Any) -> list[str]:
    return [name for name in net.list_arguments() if name.endswith("label")]


def params_for(mx: Any, net: Any) -> dict[str, Any]:
    known = {"fc_weight": WEIGHT, "fc_bias": BIAS, "bn_gamma": WEIGHT[0], "bn_beta": WEIGHT[1]}
    return {name: mx.nd.array(known[name]) for name in net.list_arguments() if name in known}


def states_for(mx: Any, net: Any) -> dict[str, Any]:
    return {name: mx.nd.array(WEIGHT[2] + 2) for name in net.list_auxiliary_states()}


def _iterator(mx: Any, net: Any) -> Any:
    return mx.io.NDArrayIter(DATA, {name: np.roll(LABELS, i) for i, name in
                                    enumerate(labels_of(net))} or None, BATCH)


def _module(mx: Any, net: Any, **options: Any) -> tuple[Any, Any]:
    module = mx.mod.Module(net, label_names=labels_of(net) or None, **options)
    data = _iterator(mx, net)
    module.bind(data.provide_data, data.provide_label or None)
    module.init_params(arg_params=params_for(mx, net), aux_params=states_for(mx, net))
    return module, data


def numbers(found: Any) -> Any:
    """Arrays of any kind, in containers, as those of NumPy."""
    if isinstance(found, dict):
        return {name: numbers(each) for name, each in found.items()}
    if isinstance(found, (list, tuple)):
        return [numbers(each) for each in found]
    return found.asnumpy() if hasattr(found, "asnumpy") else found


# -- ways to run ------------------------------------------------------------------------------


def forward(mx: Any, net: Any, contexts: int = 1) -> Any:
    """Outputs with their names and shapes, on one or several devices."""
    module, data = _module(mx, net, context=[mx.cpu(i) for i in range(contexts)])
    module.forward(next(data), is_train=False)
    return [numbers(module.get_outputs()), module.output_names,
            [list(shape) for _, shape in module.output_shapes]]


def two_devices(mx: Any, net: Any) -> Any:
    return forward(mx, net, 2)


def backward(mx: Any, net: Any) -> Any:
    """Gradients, of head gradients that differ, and what training leaves in the states."""
    module, data = _module(mx, net)
    module.forward(next(data), is_train=True)
    heads = None if "softmax" in module.output_names[0] else [
        mx.nd.arange(k, k + output.size).reshape(output.shape) % 5
        for k, output in enumerate(module.get_outputs())]
    module.backward(heads)
    return [numbers(module._exec_group.grad_arrays), numbers(module.get_params()[1])]


def predict(mx: Any, net: Any) -> Any:
    module, data = _module(mx, net)
    return numbers(module.predict(data))


def checkpoint(mx: Any, net: Any) -> Any:
    module, data = _module(mx, net)
    with tempfile.TemporaryDirectory() as folder:
        module.save_checkpoint(os.path.join(folder, "net"), 3)
        loaded = mx.mod.Module.load(os.path.join(folder, "net"), 3,
                                    label_names=labels_of(net) or None)
        loaded.bind(data.provide_data, data.provide_label or None, for_training=False)
        loaded.init_params()
    return numbers(loaded.predict(data))


def fit(mx: Any, net: Any) -> Any:
    module = mx.mod.Module(net, label_names=labels_of(net) or None)
    metric = mx.metric.Accuracy() if labels_of(net) else mx.metric.Loss()
    module.fit(_iterator(mx, net), num_epoch=2, eval_metric=metric, arg_params=params_for(mx, net),
               aux_params=states_for(mx, net), optimizer_params={"learning_rate": 0.1})
    return numbers(module.get_params()[0])


def score(mx: Any, net: Any) -> Any:
    module, data = _module(mx, net)
    return module.score(data, "acc")


def score_by_name(mx: Any, net: Any) -> Any:
    """A metric that chooses its output and label by name."""
    module, data = _module(mx, net)
    metric = mx.metric.Accuracy(output_names=["softmax_output"], label_names=labels_of(net)[-1:])
    return module.score(data, metric)


def feedforward(mx: Any, net: Any) -> Any:
    model = mx.model.FeedForward(net, numpy_batch_size=BATCH, arg_params=params_for(mx, net),
                                 aux_params=states_for(mx, net))
    return numbers(model.predict(DATA))


def bucketing(mx: Any, net: Any) -> Any:
    labels = tuple(labels_of(net)) or None
    module = mx.mod.BucketingModule(lambda key: (net, ("data",), labels), default_bucket_key=1)
    data = _iterator(mx, net)
    module.bind(data.provide_data, data.provide_label or None)
    module.init_params(arg_params=params_for(mx, net), aux_params=states_for(mx, net))
    batch = next(data)
    batch.bucket_key, batch.provide_data, batch.provide_label = (
        2, data.provide_data, data.provide_label or None)
    module.forward(batch, is_train=False)
    return [numbers(module.get_outputs()), module.output_names]


def sequential(mx: Any, net: Any) -> Any:
    """Outputs of one name are wired to the inputs of the next module by position."""
    names = [f"in{i}" for i in range(len(net.list_outputs()))]
    first, *others = map(mx.sym.Variable, names)
    after = sum(((i + 2) * each for i, each in enumerate(others)), first * 3)
    module, data = mx.mod.SequentialModule(), _iterator(mx, net)
    module.add(mx.mod.Module(net, label_names=labels_of(net) or None),
               take_labels=bool(labels_of(net)))
    module.add(mx.mod.Module(after, data_names=names, label_names=None), auto_wiring=True)
    module.bind(data.provide_data, data.provide_label or None, for_training=False)
    module.init_params(arg_params=params_for(mx, net), aux_params=states_for(mx, net))
    module.forward(next(data), is_train=False)
    return numbers(module.get_outputs())


def executor(mx: Any, net: Any) -> Any:
    """Bound from JSON to arrays, outputs and arguments by position."""
    net = mx.sym.load_json(net.tojson())
    given = {"data": mx.nd.array(DATA), **params_for(mx, net),
             **{name: mx.nd.array(LABELS) for name in labels_of(net)}}
    exe = net.bind(mx.cpu(), [given[name] for name in net.list_arguments()],
                   aux_states=states_for(mx, net))
    return [numbers(exe.forward()), net.list_outputs()]


def monitor(mx: Any, net: Any) -> Any:
    """All of what is seen, in order; the names of layers without one differ."""
    module, data = _module(mx, net)
    seen = mx.mon.Monitor(1, lambda x: x.sum(), pattern=".*(fc|bn|softmax|loss)_output")
    module.install_monitor(seen)
    seen.tic()
    module.forward(next(data), is_train=False)
    return [[name, float(value)] for _, name, value in seen.toc()]


def symbol_block(mx: Any, net: Any) -> Any:
    inputs = ["data", *labels_of(net)]
    block = mx.gluon.SymbolBlock(net, [mx.sym.Variable(name) for name in inputs])
    block.initialize()
    for name, value in {**params_for(mx, net), **states_for(mx, net)}.items():
        block.collect_params()[name].set_data(value)
    return numbers(block(mx.nd.array(DATA), *[mx.nd.array(LABELS) for _ in inputs[1:]]))


def symbol_block_of(mx: Any, network: str) -> Any:
    return symbol_block(mx, globals()[network](mx.sym))


WAYS: dict[str, Callable[[Any, Any], Any]] = {
    way.__name__: way for way in (
        forward, two_devices, backward, predict, checkpoint, fit, score, score_by_name, feedforward,
        bucketing, sequential, executor, monitor, symbol_block)}


def run(mx: Any, network: str, way: str) -> Any:
    """What a network answers in a way; 'refused' if that is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return WAYS[way](mx, NETWORKS[network](mx.sym))
        except (ValueError, TypeError, AssertionError, RuntimeError, mx.base.MXNetError):
            return "refused"
