"""Programs over SequentialModule and Python modules for either package.

`mx` is nbmod in the tests and MXNet in the oracle's worker; this file imports neither.
"""

from __future__ import annotations

from typing import Any

import numpy as np

BATCH, FEATURES, HIDDEN, CLASSES = 8, 5, 6, 3


def samples(count: int = 40) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(2)
    labels = rng.integers(0, CLASSES, count)
    data = np.eye(CLASSES, FEATURES)[labels] * 2 + rng.standard_normal((count, FEATURES))
    return data.astype(np.float32), labels.astype(np.float32)


def iterator(mx: Any) -> Any:
    return mx.io.NDArrayIter(*samples(), BATCH)


def start(mx: Any) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    shapes = {"first_weight": (HIDDEN, FEATURES), "first_bias": (HIDDEN,),
              "second_weight": (CLASSES, HIDDEN), "second_bias": (CLASSES,)}
    return {name: mx.nd.array(rng.standard_normal(shape) * 0.5) for name, shape in shapes.items()}


def numbers(params: dict[str, Any]) -> dict[str, np.ndarray]:
    return {name: value.asnumpy() for name, value in params.items()}


def layer(mx: Any, name: str, size: int, data: str = "data", act: str | None = None) -> Any:
    x = mx.sym.FullyConnected(mx.sym.Variable(data), num_hidden=size, name=name)
    return mx.sym.Activation(x, act_type=act, name=f"{name}_act") if act else x


def hinge(scores: Any, labels: Any) -> np.ndarray:
    """Gradient of the multi-class hinge loss, in NumPy."""
    values, right = scores.asnumpy(), labels.asnumpy().astype(int)
    rows = np.arange(len(right))
    grad = ((values - values[rows, right][:, None] + 1) > 0).astype(np.float32)
    grad[rows, right] = 0
    grad[rows, right] = -grad.sum(axis=1)
    return grad


def entropy(mx: Any) -> Any:
    """Gradient of cross-entropy over softmax, in NDArrays."""
    return lambda scores, labels: mx.nd.softmax(scores) - mx.nd.one_hot(labels, CLASSES)


def row(mx: Any, kind: str, contexts: int = 1) -> Any:
    """Two modules and a loss: in the second module, or as a Python module after it."""
    devices = [mx.cpu(k) for k in range(contexts)]
    sequence = mx.mod.SequentialModule()
    sequence.add(mx.mod.Module(layer(mx, "first", HIDDEN, act="tanh"), label_names=None,
                               context=devices))
    if kind == "softmax":
        net = mx.sym.SoftmaxOutput(layer(mx, "second", CLASSES), name="softmax")
        return sequence.add(mx.mod.Module(net, context=devices), take_labels=True,
                            auto_wiring=True)
    if kind == "named":
        net = mx.sym.SoftmaxOutput(layer(mx, "second", CLASSES, "first_act_output"),
                                   name="softmax")
        return sequence.add(mx.mod.Module(net, data_names=["first_act_output"], context=devices),
                            take_labels=True)
    sequence.add(mx.mod.Module(layer(mx, "second", CLASSES), label_names=None, context=devices),
                 auto_wiring=True)
    loss = mx.mod.PythonLossModule(grad_func=hinge if kind == "hinge" else entropy(mx))
    return sequence.add(loss, take_labels=True, auto_wiring=True)


def train(mx: Any, kind: str, contexts: int, steps: int = 20) -> dict[str, Any]:
    """Steps by hand: outputs of every one, then metric, parameters and the row's descriptions."""
    sequence, batches = row(mx, kind, contexts), iterator(mx)
    sequence.bind(batches.provide_data, batches.provide_label)
    sequence.init_params(arg_params=start(mx), aux_params={})
    sequence.init_optimizer(optimizer_params={"learning_rate": 0.2, "momentum": 0.9,
                                              "wd": 1e-3})
    metric, outputs, grads = mx.metric.create("acc"), [], []
    for step in range(steps):
        if step % 5 == 0:
            batches.reset()
        batch = batches.next()
        sequence.forward_backward(batch)
        grads.append(sequence._modules[1].get_input_grads()[0].asnumpy())
        sequence.update()
        sequence.update_metric(metric, batch.label)
        outputs.append(sequence.get_outputs()[0].asnumpy())
    return {"outputs": outputs, "grads": grads, "metric": metric.get()[1],
            "params": numbers(sequence.get_params()[0]), "names": [
                sequence.data_names, sequence.output_names],
            "shapes": [[list(map(list, described)) for described in (
                sequence.data_shapes, sequence.label_shapes, sequence.output_shapes)]]}


def fitted(mx: Any, kind: str) -> dict[str, Any]:
    """`fit`, `score` and `predict`."""
    sequence, calls = row(mx, kind), []
    sequence.fit(iterator(mx), eval_data=iterator(mx), num_epoch=3, arg_params=start(mx),
                 aux_params={}, optimizer_params={"learning_rate": 0.2},
                 batch_end_callback=lambda p: calls.append(p.eval_metric.get()[1]),
                 epoch_end_callback=lambda e, symbol, a, x: calls.append(
                     [e, symbol is None, sorted(a), sorted(x)]))
    return {"calls": calls, "params": numbers(sequence.get_params()[0]),
            "score": sequence.score(iterator(mx), "acc"),
            "predicted": sequence.predict(iterator(mx)).asnumpy()}


def set_parameters(mx: Any) -> list[Any]:
    """Parameters given in part, and unknown ones."""
    sequence = row(mx, "softmax")
    sequence.bind([("data", (2, FEATURES))], [("softmax_label", (2,))])
    found = []
    given = start(mx)
    part = {"first_weight": given["first_weight"]}
    more = {**given, "third": given["first_bias"]}
    for method, params, options in (
            ("init_params", given, {}), ("init_params", part, {}),
            ("init_params", part, {"force_init": True}),
            ("init_params", part, {"force_init": True, "allow_missing": True}),
            ("init_params", more, {"force_init": True}), ("set_params", part, {}),
            ("set_params", part, {"allow_missing": True}), ("set_params", more, {}),
            ("set_params", more, {"allow_extra": True}),
            ("set_params", {}, {"force_init": False})):
        first = {"initializer": mx.init.One()} if method == "init_params" else {}
        try:
            getattr(sequence, method)(arg_params=params, aux_params={}, **first, **options)
        except RuntimeError:
            found.append("refused")
        found.append(numbers(sequence.get_params()[0]))
    return found


def answers(mx: Any) -> list[Any]:
    """Defaults of a Python module and a loss, in the order in which fit would read them."""
    class Double(mx.mod.PythonModule):
        def _compute_output_shapes(self) -> list[Any]:
            return [(self.output_names[0], self.data_shapes[0][1])]

        def forward(self, data_batch: Any, is_train: Any = None) -> None:
            self.results = [data_batch.data[0] * 2]

        def get_outputs(self, merge_multi_context: bool = True) -> list[Any]:
            return self.results

        def backward(self, out_grads: Any = None) -> None:
            pass

    found: list[Any] = []
    batch = mx.io.DataBatch([mx.nd.array([[1, 2], [3, 0]])], [mx.nd.array([1, 1])])
    for module in (Double(("data",), ["label"], ("double",)), Double(["data"], None, ["double"]),
                   mx.mod.PythonLossModule("loss", label_names=["label"])):
        found += [module.data_names, module.output_names, module.data_shapes, module.label_shapes,
                  module.output_shapes, module.symbol, module.get_params(), module.update()]
        for _ in range(2):
            module.bind([("data", (2, 2))], module._label_names and [("label", (2,))])
            found += [list(map(list, shapes or ())) for shapes in (
                module.data_shapes, module.label_shapes, module.output_shapes)]
        found += [module.init_params(), module.init_optimizer(), module.prepare(batch)]
        metric = mx.metric.create("acc")
        for is_train in (True, False, None):
            module.forward(batch, is_train=is_train)
            module.update_metric(metric, batch.label)
        found += [module.get_outputs()[0].asnumpy(), metric.get()[1], module.update(),
                  module.get_params()]
    return found


def losses(mx: Any) -> list[np.ndarray]:
    """Input gradients of losses whose functions give NDArrays, NumPy arrays and lists."""
    found = []
    batch = mx.io.DataBatch([mx.nd.array([[1, 2], [3, 0]])], [mx.nd.array([1, 1])])
    for function in (lambda s, y: s - y.reshape((-1, 1)), lambda s, y: s.asnumpy() * 2,
                     lambda s, y: [[1, 2], [3, 4]]):
        loss = mx.mod.PythonLossModule(grad_func=function)
        loss.bind([("data", (2, 2))], [("softmax_label", (2,))], inputs_need_grad=True)
        loss.forward(batch, is_train=True)
        loss.backward()
        found.append(loss.get_input_grads()[0].asnumpy())
    return found
