"""Programs whose results must be the same bits whether their kernels are compiled or loaded.

    python -m tests.programs.cold_programs results.npz

runs them all, in this order, and writes the arrays they end with.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np

import nbmod as mx

BATCH, CLASSES = 50, 10


def perceptron() -> mx.sym.Symbol:
    """Dense layers; batch norm and LayerNorm have kernels with helpers and relaxed sums."""
    data = mx.sym.Variable("data")
    data = mx.sym.BatchNorm(mx.sym.FullyConnected(data, num_hidden=48), fix_gamma=False)
    data = mx.sym.Dropout(mx.sym.Activation(data, act_type="relu"), p=0.2)
    data = mx.sym.LayerNorm(mx.sym.FullyConnected(data, num_hidden=32))
    return mx.sym.FullyConnected(mx.sym.tanh(data), num_hidden=CLASSES)


NETWORKS = {
    "perceptron": (perceptron(), (64,), "adam", {"learning_rate": 1e-2}),
}

EAGER = {
    "LayerNorm": lambda x, g: mx.nd.LayerNorm(x, g, g),
    "InstanceNorm": lambda x, g: mx.nd.InstanceNorm(x.reshape((8, 8, 100)), g[:8], g[:8]),
    "GroupNorm": lambda x, g: mx.nd.GroupNorm(x.reshape((8, 8, 100)), g[:4], g[:4], num_groups=4),
    "softmax": lambda x, g: mx.nd.softmax(x),
    "arithmetic": lambda x, g: mx.nd.tanh(x * 2 + 1) * g,
    "small": lambda x, g: (mx.nd.exp(x[:2]) * 2).sum(),
}


def trained(name: str) -> Iterator[tuple[str, np.ndarray]]:
    """Parameters, predictions and metrics of a network after some epochs."""
    logits, shape, optimizer, options = NETWORKS[name]
    mx.random.seed(7)
    rng = np.random.RandomState(3)
    x = rng.rand(4 * BATCH, *shape).astype(np.float32)
    y = rng.randint(0, CLASSES, len(x)).astype(np.float32)
    module = mx.mod.Module(mx.sym.SoftmaxOutput(logits, name="softmax"))
    metric = mx.metric.CrossEntropy()
    module.fit(mx.io.NDArrayIter(x, y, BATCH, shuffle=True), num_epoch=5, eval_metric=metric,
               optimizer=optimizer, optimizer_params=options, initializer=mx.init.Xavier())
    for parameters in module.get_params():
        yield from ((key, value.asnumpy()) for key, value in parameters.items())
    yield "predictions", module.predict(mx.io.NDArrayIter(x, None, BATCH)).asnumpy()
    yield "metric", np.array(metric.get()[1])


def called(name: str) -> Iterator[tuple[str, np.ndarray]]:
    """The result of an eager expression, and its gradients."""
    rng = np.random.RandomState(3)
    inputs = [mx.nd.array(rng.randn(*shape)) for shape in ((64, 100), (100,))]
    for each in inputs:
        each.attach_grad()
    with mx.autograd.record():
        result = EAGER[name](*inputs)
    result.backward(mx.nd.array(rng.randn(*result.shape)))
    for key, array in zip(("result", "x", "g"), (result, *(each.grad for each in inputs)),
                          strict=True):
        yield key, array.asnumpy()


def main(path: str) -> None:
    results = {}
    for names, run in ((NETWORKS, trained), (EAGER, called)):
        for name in names:
            results.update((f"{name}: {key}", array) for key, array in run(name))
    np.savez(path, **results)


if __name__ == "__main__":
    main(sys.argv[1])
