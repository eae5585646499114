"""Twenty steps of training in every mode of modules; imports neither package.

A row of `RUNS` is a function of `mx` that trains and returns the parameters by name, and other
results that have to agree.  The networks are small and smooth, so that roundings do not grow.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tests.programs.common import nd
from tests.programs.module_programs import iterator, network, start

STEPS = 20
SETTINGS = {"learning_rate": 0.1, "momentum": 0.9, "wd": 1e-3}
Found = dict[str, np.ndarray]


def images(mx: Any) -> Any:
    """Convolution, normalization, pooling and a classifier for images of any size.

    (No bias before a normalization: its gradient is rounding alone, which Adam makes steps of.)
    """
    x = mx.sym.Convolution(mx.sym.Variable("data"), kernel=(3, 3), num_filter=4, no_bias=True,
                           name="conv")
    x = mx.sym.Activation(mx.sym.BatchNorm(x, fix_gamma=False, name="bn"), act_type="tanh")
    x = mx.sym.Pooling(x, global_pool=True, pool_type="avg", kernel=(1, 1))
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(x, num_hidden=3, name="fc"), name="softmax")


def image_batch(mx: Any, step: int, size: tuple[int, int] = (6, 6), count: int = 8) -> Any:
    rng = np.random.default_rng([step, *size])
    return mx.io.DataBatch(
        [nd(mx, rng.standard_normal((count, 2, *size)).astype(np.float32))],
        [nd(mx, rng.integers(0, 3, count).astype(np.float32))])


def ready(mx: Any, symbol: Any, shapes: list[Any], labels: list[Any], contexts: int = 1,
          store: Any = "local", optimizer: str = "sgd", settings: dict[str, Any] | None = None,
          bind: dict[str, Any] | None = None, kind: Any = None, **options: Any) -> Any:
    """A module bound and initialized with parameters that depend on their names alone."""
    module = (kind or mx.mod.Module)(symbol, context=[mx.cpu(i) for i in range(contexts)],
                                     **options)
    module.bind(shapes, labels or None, **(bind or {}))
    module.init_params(mx.init.Zero())
    args, aux = module.get_params()
    for name in args:
        rng = np.random.default_rng(sum(map(ord, name)))
        values = rng.standard_normal(args[name].shape) * 0.4 + name.endswith("gamma")
        args[name][:] = values.astype(np.float32)
    for name in aux:
        aux[name][:] = float(name.endswith("var"))
    module.set_params(args, aux)
    module.init_optimizer(kvstore=store, optimizer=optimizer,
                          optimizer_params=settings or SETTINGS)
    return module


def step(mx: Any, module: Any, batch: Any) -> None:
    module.forward_backward(batch)
    module.update()
    mx.nd.waitall()  # MXNet's engine does not track that backward writes moving averages


def result(module: Any, **more: Any) -> Found:
    args, aux = module.get_params()
    found = {name: value.asnumpy() for name, value in {**args, **aux}.items()}
    return {**found, "output": module.get_outputs()[0].asnumpy(), **more}


def on_images(mx: Any, sizes: tuple[Any, ...] = ((6, 6),), **options: Any) -> Found:
    """Images, alternating between these sizes."""
    module = ready(mx, images(mx), [("data", (8, 2, *sizes[0]))], [("softmax_label", (8,))],
                   **options)
    for number in range(STEPS):
        step(mx, module, image_batch(mx, number, sizes[number % len(sizes)]))
    return result(module)


def scheduled(mx: Any) -> Found:
    schedule = mx.lr_scheduler.FactorScheduler(step=5, factor=0.5)
    return on_images(mx, optimizer="adam", contexts=2,
                     settings={"learning_rate": 0.01, "lr_scheduler": schedule, "wd": 1e-3})


def time_major(mx: Any, contexts: int) -> Found:
    """Sequences with the batch second."""
    x = mx.sym.Embedding(mx.sym.Variable("data"), input_dim=7, output_dim=5, name="embed")
    x = mx.sym.FullyConnected(x, num_hidden=6, flatten=False, name="hidden")
    x = mx.sym.FullyConnected(mx.sym.Activation(x, act_type="tanh"), num_hidden=7, flatten=False,
                              name="fc")
    label = mx.sym.Reshape(mx.sym.Variable("softmax_label"), shape=(-1,))
    x = mx.sym.SoftmaxOutput(mx.sym.Reshape(x, shape=(-1, 7)), label, name="softmax")
    desc = mx.io.DataDesc
    module = ready(mx, x, [desc("data", (4, 6), layout="TN")],
                   [desc("softmax_label", (4, 6), layout="TN")], contexts,
                   settings={"learning_rate": 0.3, "rescale_grad": 1 / 24})
    for number in range(STEPS):
        words = np.random.default_rng(number).integers(0, 7, (5, 6)).astype(np.float32)
        step(mx, module, mx.io.DataBatch([nd(mx, words[:-1])], [nd(mx, words[1:])]))
    return result(module)


def with_states(mx: Any, contexts: int) -> Found:
    """A recurrent network whose hidden state is carried from batch to batch."""
    held = mx.sym.Variable("held", shape=(0, 6))
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=6, name="in") + \
        mx.sym.FullyConnected(held, num_hidden=6, name="back")
    hidden = mx.sym.Activation(x, act_type="tanh")
    loss = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(hidden, num_hidden=3, name="fc"),
                                name="softmax")
    module = ready(mx, mx.sym.Group([loss, mx.sym.BlockGrad(hidden)]), [("data", (8, 5))],
                   [("softmax_label", (8,))], contexts, state_names=["held"])
    module.set_states(value=0)
    whole = list(iterator(mx))
    for number in range(STEPS):
        step(mx, module, whole[number % 3])
        module.set_states(module.get_outputs(merge_multi_context=False)[1:])
    states = module.get_states(merge_multi_context=False)[0]
    return result(module, held=np.concatenate([state.asnumpy() for state in states]))


def with_input_gradients(mx: Any) -> Found:
    """The input is trained, too: two modules joined by hand, as in a GAN."""
    settings = {"learning_rate": 0.05, "momentum": 0.5}
    first = ready(mx, network(mx).get_internals()["act_output"], [("data", (8, 5))], [],
                  label_names=None, settings=settings)
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="last")
    second = ready(mx, mx.sym.SoftmaxOutput(x, name="softmax"), [("data", (8, 8))],
                   [("softmax_label", (8,))], settings=settings, contexts=2,
                   bind={"inputs_need_grad": True})
    whole, grads = list(iterator(mx)), []
    for number in range(STEPS):
        batch = whole[number % 3]
        first.forward(mx.io.DataBatch(batch.data), is_train=True)
        step(mx, second, mx.io.DataBatch(first.get_outputs(), batch.label))
        grads = second.get_input_grads()
        first.backward(grads)
        first.update()
    return {**result(second, grad=grads[0].asnumpy()),
            **{name: value.asnumpy() for name, value in first.get_params()[0].items()}}


def accumulated(mx: Any) -> Found:
    """Gradients of two batches make one step."""
    module = ready(mx, network(mx), [("data", (8, 5))], [("softmax_label", (8,))], 2,
                   bind={"grad_req": "add"})
    whole = list(iterator(mx))
    for number in range(2 * STEPS):
        module.forward_backward(whole[number % 3])
        if number % 2:
            module.update()
            for arrays in module._exec_group.grad_arrays:
                for array in arrays:
                    array[:] = 0
    return result(module)


def lists(mx: Any, kind: Any = None) -> Found:
    """A batch for each device; with `DetModule`, which MXNet does not have, or with Module."""
    module = ready(mx, images(mx), [("data", (8, 2, 6, 6))], [("softmax_label", (8,))], 2,
                   kind=kind and getattr(mx.mod, kind, None), data_names=["data"],
                   label_names=["softmax_label"])
    metric = mx.metric.create("ce")
    for number in range(STEPS):
        parts = [image_batch(mx, 2 * number + device, count=4) for device in range(2)]
        step(mx, module, parts)
        module.update_metric(metric, [part.label for part in parts], pre_sliced=True)
    return result(module, metric=np.array(metric.get()[1]))


def feed_forward(mx: Any, contexts: int) -> Found:
    model = mx.model.FeedForward(
        network(mx), ctx=[mx.cpu(i) for i in range(contexts)], num_epoch=STEPS // 2, epoch_size=2,
        arg_params=start(mx), aux_params={}, **SETTINGS)
    model.fit(iterator(mx))
    return {**{name: value.asnumpy() for name, value in model.arg_params.items()},
            "output": model.predict(iterator(mx))}


RUNS: dict[str, Callable[[Any], Found]] = {
    "one context": on_images,
    "two contexts": partial(on_images, contexts=2),
    "three contexts, store on devices": partial(on_images, contexts=3, store="device"),
    "uneven work": partial(on_images, contexts=2, work_load_list=[1, 3]),
    "fixed parameters": partial(on_images, fixed_param_names=["conv_weight", "bn_gamma"]),
    "fixed parameters, two contexts": partial(on_images, contexts=2,
                                              fixed_param_names=["conv_weight", "bn_beta"]),
    "images of many sizes": partial(on_images, sizes=((6, 6), (9, 5), (12, 12)), contexts=2),
    "adam, scheduled": scheduled,
    "batch second": partial(time_major, contexts=1),
    "batch second, two contexts": partial(time_major, contexts=2),
    "states": partial(with_states, contexts=1),
    "states, two contexts": partial(with_states, contexts=2),
    "input gradients": with_input_gradients,
    "gradients added": accumulated,
    "lists": lists,
    "lists, DetModule": partial(lists, kind="DetModule"),
    "FeedForward": partial(feed_forward, contexts=1),
    "FeedForward, two contexts": partial(feed_forward, contexts=2),
}


def run(mx: Any, name: str) -> Found:
    return RUNS[name](mx)
