"""A small network and data on which callbacks are tested."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

import nbmod as mx

RATE = (("learning_rate", 0.1), ("momentum", 0.9))


def network() -> mx.sym.Symbol:
    hidden = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=4, name="first")
    last = mx.sym.FullyConnected(mx.sym.Activation(hidden, act_type="relu"), num_hidden=2,
                                 name="last")
    return mx.sym.SoftmaxOutput(last, name="softmax")


def data(batch_size: int = 4, samples: int = 16, shuffle: bool = False) -> mx.io.NDArrayIter:
    x = np.random.RandomState(0).normal(size=(samples, 3)).astype(np.float32)
    return mx.io.NDArrayIter(x, (x[:, 0] > 0).astype(np.float32), batch_size, shuffle=shuffle)


def module(contexts: int = 1) -> mx.mod.Module:
    return mx.mod.Module(network(), context=[mx.cpu(i) for i in range(contexts)])


class Scripted(mx.metric.EvalMetric):
    """A metric whose value after each evaluation is that of a list; NaN before."""

    def __init__(self, values: Iterable[float], name: str = "accuracy"):
        self.values = iter(values)
        super().__init__(name)

    def reset(self) -> None:
        super().reset()
        self.value = next(self.values, float("nan"))

    def update(self, labels: object, preds: object) -> None:
        pass

    def get(self) -> tuple[str, float]:
        return self.name, self.value


def fit(found: mx.mod.Module, scores: Iterable[float] | None = None, epochs: int = 8,
        name: str = "accuracy", **options) -> mx.mod.Module:
    """Train, with scripted scores of the validation."""
    mx.random.seed(3)
    metric = None if scores is None else Scripted([float("nan"), *scores], name)
    found.fit(data(), None if scores is None else data(), validation_metric=metric,
              num_epoch=epochs, **{"optimizer_params": RATE, "initializer": mx.init.Xavier()}
              | options)
    return found


def params(found: mx.mod.Module) -> dict[str, np.ndarray]:
    return {name: array.asnumpy().copy() for part in found.get_params()
            for name, array in part.items()}


def equal(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    return one.keys() == other.keys() and all(
        (one[name] == other[name]).all() for name in one)
