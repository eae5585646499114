"""Random sequences of calls of metrics, whose values must agree in nbmod and MXNet."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.programs.calls import call, draw_names

Arguments = dict[str, Any]
Call = tuple[str, Arguments]
Metric = tuple[str, Arguments]
CLASSES = 4


class Values:
    """A metric, and batches for it.

    Parameters
    ----------
    mx : module
        nbmod or MXNet.
    metrics : list of (str, dict)
        Name and parameters of the metric, or of those that it is composed of.
    kind : str
        What it compares: "classes", "two", "vectors" or "loss".
    """

    def __init__(self, mx: Any, metrics: list[Metric], kind: str):
        self.mx, self.kind = mx, kind
        made = [mx.metric.create(name, **options) for name, options in metrics]
        self.metric = made[0] if len(made) == 1 else mx.metric.create(made)

    def pair(self, count: int, seed: int) -> tuple[Any, Any]:
        """Labels and predictions."""
        rng = np.random.default_rng([seed, count])
        if self.kind in ("classes", "two"):
            width = 2 if self.kind == "two" else CLASSES
            scores = rng.random((count, width)).astype(np.float32)
            labels = rng.integers(0, width, count).astype(np.float32)
            scores /= scores.sum(axis=1, keepdims=True)
        else:
            labels = rng.standard_normal((count, 3)).astype(np.float32)
            scores = (labels + rng.standard_normal((count, 3)) / 2).astype(np.float32)
        return self.mx.nd.array(labels), self.mx.nd.array(scores)

    def update(self, sizes: list[int], seed: int) -> Any:
        pairs = [self.pair(size, seed + at) for at, size in enumerate(sizes)]
        self.metric.update([label for label, _ in pairs], [scores for _, scores in pairs])
        return self.get()

    def update_dict(self, size: int, seed: int) -> Any:
        label, scores = self.pair(size, seed)
        self.metric.update_dict({"softmax_label": label}, {"softmax_output": scores})
        return self.get()

    def single(self, size: int, seed: int) -> Any:
        """Without lists."""
        self.metric.update(*self.pair(size, seed))
        return self.get()

    def unequal(self, sizes: list[int], seed: int) -> Any:
        """Labels and predictions of different numbers."""
        pairs = [self.pair(size, seed) for size in sizes]
        self.metric.update([pairs[0][0]], [scores for _, scores in pairs])
        return self.get()

    def get(self) -> Any:
        return [_plain(self.metric.get()), self.metric.get_name_value() and _plain(
            self.metric.get_name_value())]

    def get_global(self) -> Any:
        return [_plain(self.metric.get_global()), _plain(self.metric.get_global_name_value())]

    def reset(self) -> None:
        self.metric.reset()

    def reset_local(self) -> None:
        self.metric.reset_local()

    def name(self) -> Any:
        return [str(self.metric.name), self.metric.get_config()["name"]]


def _plain(value: Any) -> Any:
    """Numbers as floats, rounded: some of MXNet are of NumPy."""
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value if isinstance(value, str) else float(value)


# -- sequences ------------------------------------------------------------------------------------

METRICS: dict[str, tuple[Metric, ...]] = {
    "classes": (
        ("acc", {}), ("top_k_accuracy", {"top_k": 2}), ("ce", {}), ("ce", {"eps": 0.1}),
        ("nll_loss", {}), ("perplexity", {"ignore_label": None}),
        ("perplexity", {"ignore_label": 1}), ("pcc", {}), ("loss", {})),
    "two": (("f1", {}), ("f1", {"average": "micro"}), ("mcc", {}), ("mcc", {"average": "micro"}),
            ("acc", {})),
    "vectors": (("mae", {}), ("mse", {}), ("rmse", {}), ("pearsonr", {}), ("loss", {}),
                ("torch", {}), ("caffe", {})),
}


def sizes(rng: random.Random, most: int) -> list[int]:
    return [rng.randrange(1, 9) for _ in range(rng.randrange(1, most + 1))]


CALLS: dict[str, tuple[float, Callable[[random.Random], Arguments]]] = {
    "update": (8, lambda rng: {"sizes": sizes(rng, 3), "seed": rng.randrange(100)}),
    "update_dict": (2, lambda rng: {"size": rng.randrange(1, 9), "seed": rng.randrange(100)}),
    "single": (0.5, lambda rng: {"size": rng.randrange(1, 9), "seed": rng.randrange(100)}),
    "unequal": (0.5, lambda rng: {"sizes": sizes(rng, 2), "seed": rng.randrange(100)}),
    "get": (2, lambda rng: {}),
    "get_global": (2, lambda rng: {}),
    "reset": (1, lambda rng: {}),
    "reset_local": (2, lambda rng: {}),
    "name": (0.5, lambda rng: {}),
}
"""Weight, and a function that draws the arguments."""


def draw(seed: int) -> tuple[list[Metric], str, list[Call]]:
    """One or several metrics, what they compare, and calls."""
    rng = random.Random(seed)
    kind = rng.choice(list(METRICS))
    metrics = [rng.choice(METRICS[kind]) for _ in range(rng.choice((1, 1, 2, 3)))]
    if rng.random() < 0.2:
        metrics[0] = metrics[0][0], {**metrics[0][1], "name": "mine"}
    names = draw_names(rng, CALLS, rng.randrange(3, 14))
    return metrics, kind, [(name, CALLS[name][1](rng)) for name in names]


def run(mx: Any, seed: int) -> list[Any]:
    """What each call gave, or "error" where it raised."""
    metrics, kind, calls = draw(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        values = Values(mx, metrics, kind)
        return [call(values, name, arguments) for name, arguments in calls]
