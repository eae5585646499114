"""Training of networks on one batch again and again, and when its steps happen.

A `Timeline` is a step of training in one process: when each parameter is first read, when each
gradient is final, and what comes after the backward pass.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import nbmod as mx
from nbmod.kvstore.distributed.overlap import first_reads, last_writes

from .networks import language_model, lenet, resnet, vgg16

__all__ = ["NETWORKS", "Timeline", "Training"]

NETWORKS: dict[str, tuple[Callable[[int], Any], str, tuple[int, ...], int]] = {
    "resnet50": (lambda batch: resnet([3, 4, 6, 3], True), "data", (3, 224, 224), 1000),
    "vgg16": (lambda batch: vgg16(), "data", (3, 224, 224), 1000),
    "lstm": (lambda batch: language_model(True, batch=batch), "ids", (35,), 10_000),
    "lenet": (lambda batch: lenet(), "data", (1, 28, 28), 10),
}
"""name -> (builder, its input, the shape of a sample, number of classes)."""



@dataclass(frozen=True)
class Timeline:
    """A step of training: parameters and sizes in the order of creation, seconds from its start.

    `update` is the time of the update, which is part of what comes between `backward`, the end of
    the backward pass, and `step`, the end of the step.
    """

    shapes: dict[str, tuple[int, ...]]
    reads: dict[str, float]
    finals: dict[str, float]
    backward: float
    update: float
    step: float

    def slowed(self, seconds: float) -> Timeline:
        """The same, when forward and backward pass share their cores with so much other work."""
        factor = 1 + seconds / self.backward
        return replace(self, reads={name: factor * time for name, time in self.reads.items()},
                       finals={name: factor * time for name, time in self.finals.items()},
                       backward=factor * self.backward, step=self.step + seconds)


class Small(mx.init.Uniform):
    """Small values, for parameters of an RNN operator, too."""

    def _init_default(self, name: str, arr: Any) -> None:
        self._init_weight(name, arr)


class NoMetric(mx.metric.EvalMetric):
    """A metric that computes nothing."""

    def __init__(self) -> None:
        super().__init__("none")

    def update(self, labels: Any, preds: Any) -> None:
        pass


class Clock:
    """Notes when each step of an executor begins and ends."""

    def __init__(self) -> None:
        self.begins: dict[int, float] = {}
        self.ends: dict[int, float] = {}

    def before(self, bound: Any, index: int) -> None:
        self.begins[index] = time.perf_counter()

    def after(self, bound: Any, index: int, noted: None) -> None:
        self.ends[index] = time.perf_counter()


class TimedModule(mx.mod.Module):
    """A module that notes when the parts of a step of `fit` happen."""

    began = computed = updated = 0.0

    def forward_backward(self, data_batch: Any) -> None:
        self.began = time.perf_counter()
        super().forward_backward(data_batch)
        self.computed = time.perf_counter()

    def update(self) -> None:
        super().update()
        self.updated = time.perf_counter()


class Training:
    """A network that `fit` trains on one batch.

    Parameters
    ----------
    name : str
        One of `NETWORKS`.
    batch : int
        Samples.
    store : KVStore, optional
        The store; without one the module updates its parameters itself.
    """

    def __init__(self, name: str, batch: int, store: Any = None):
        build, data, shape, classes = NETWORKS[name]
        rng = np.random.default_rng(store.rank if store else 0)
        values = rng.random((batch, *shape), np.float32)
        labels = (batch, *shape) if name == "lstm" else (batch,)
        values, target = ((rng.integers(0, classes, labels), rng.integers(0, classes, labels))
                          if name == "lstm" else (values, rng.integers(0, classes, labels)))
        self._samples = mx.io.NDArrayIter({data: values.astype("f4")},
                                          {"softmax_label": target.astype("f4")}, batch)
        symbol = build(batch)
        states = [each for each in symbol.list_arguments() if "_state" in each]
        self.module = TimedModule(symbol, [data], ["softmax_label"], fixed_param_names=states)
        self._store = store

    def fit(self, steps: int, at_step: Callable[[TimedModule], None]) -> None:
        """Train for some steps, after each of which a function is called."""
        self.module.fit(
            mx.io.ResizeIter(self._samples, steps), num_epoch=1, kvstore=self._store,
            optimizer="sgd", optimizer_params={"learning_rate": 1e-4, "momentum": 0.9, "wd": 1e-4},
            initializer=Small(0.05), eval_metric=NoMetric(),
            batch_end_callback=lambda param: at_step(self.module))

    def seconds(self, steps: int) -> list[float]:
        """Seconds of steps, after one that is not counted."""
        times: list[float] = []
        self.fit(steps + 1, lambda module: times.append(time.perf_counter()))
        return np.diff(times).tolist()

    def timeline(self, steps: int) -> Timeline:
        """The medians of some steps, after one that is not counted."""
        self.fit(1, lambda module: None)
        executor = self.module._exec_group.execs[0]
        names = [name for name in self.module._param_names
                 if executor.grad_dict.get(name) is not None]
        clock, number = Clock(), {name: place for place, name in enumerate(names)}
        reads = first_reads(executor.compiled, number)
        finals = last_writes(executor.compiled, number)
        rows: list[list[float]] = []

        def note(module: TimedModule) -> None:
            parts = [*(clock.begins[reads[number[name]]] for name in names),
                     *(clock.ends[finals[number[name]]] for name in names),
                     module.computed, module.updated, time.perf_counter()]
            rows.append([part - module.began for part in parts])

        executor.planned.watchers.append(clock)
        self.fit(steps + 1, note)
        executor.planned.watchers.remove(clock)
        *parts, computed, updated, whole = np.median(rows[1:], axis=0).tolist()
        count = len(names)
        return Timeline({name: tuple(executor.arg_dict[name].shape) for name in names},
                        dict(zip(names, parts[:count], strict=True)),
                        dict(zip(names, parts[count:], strict=True)),
                        computed, updated - computed, whole)
