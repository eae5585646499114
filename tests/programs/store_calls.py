"""Random sequences of calls of a key-value store, whose results agree in nbmod and MXNet."""

from __future__ import annotations

import os
import random
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.programs.calls import attempt, call, draw_names

Call = tuple[str, dict[str, Any]]
SHAPES = {"a": (3, 2), "b": (4,), "c": (3, 2), 3: (2, 3), 5: (4, 2)}
"""Shapes of values by key, text or integers."""
SPARSE = ("c", 5)
"""Keys with row_sparse values."""


class Store:
    """A store, and arrays to pull into.

    Parameters
    ----------
    mx : module
        nbmod or MXNet.
    kind : str
        Name of the store.
    folder : str
        For files.
    """

    def __init__(self, mx: Any, kind: str, folder: str):
        self.mx, self.folder = mx, folder
        self.store = mx.kv.create(kind)
        self.has_sums = False
        """Whether values were pushed: in MXNet an updater that comes later takes former values."""

    def value(self, key: Any, seed: int, device: int = 0, whole: bool = False) -> Any:
        """A value; a sparse one has some of the rows, or all."""
        rng = np.random.default_rng([seed, *SHAPES[key]])
        values = rng.integers(-4, 5, SHAPES[key]).astype(np.float32)
        if key not in SPARSE:
            return self.mx.nd.array(values, ctx=self.mx.cpu(device))
        values[:, 0] += 10
        if not whole:
            values[rng.random(len(values)) < 0.4] = 0
        return self.mx.nd.array(values, ctx=self.mx.cpu(device)).tostype("row_sparse")

    def values(self, keys: list[Any], seed: int, devices: int) -> Any:
        """For each key a value, or one for each of several devices."""
        found = [[self.value(key, seed + 10 * at + device, device) for device in range(devices)]
                 for at, key in enumerate(keys)]
        return _one_or_all([many if devices > 1 else many[0] for many in found])

    def first_values(self, keys: list[Any], seed: int) -> Any:
        """Whole ones: MXNet's updates of others end its process."""
        return _one_or_all([self.value(key, seed + at, whole=True) for at, key in enumerate(keys)])

    def outputs(self, keys: list[Any], devices: int) -> Any:
        """Arrays of ones, in the form that `pull` takes."""
        found = [[self.mx.nd.ones(SHAPES[key], ctx=self.mx.cpu(at)) for at in range(devices)]
                 for key in keys]
        return _one_or_all(found)

    # -- calls ------------------------------------------------------------------------------

    def init(self, keys: list[Any], seed: int) -> Any:
        self.store.init(_one_or_all(keys), self.first_values(keys, seed))
        return None

    def push(self, keys: list[Any], seed: int, devices: int, priority: int) -> Any:
        self.has_sums = True
        self.store.push(_one_or_all(keys), self.values(keys, seed, devices), priority=priority)
        return None

    def pull(self, keys: list[Any], devices: int, ignore_sparse: bool) -> Any:
        out = self.outputs(keys, devices)
        self.store.pull(_one_or_all(keys), out, ignore_sparse=ignore_sparse)
        return out

    def pushpull(self, keys: list[Any], seed: int, devices: int) -> Any:
        self.has_sums = True
        out = self.outputs(keys, devices)
        self.store.pushpull(_one_or_all(keys), self.values(keys, seed, devices), out)
        return out

    def broadcast(self, keys: list[Any], seed: int, devices: int) -> Any:
        out = self.outputs(keys, devices)
        self.store.broadcast(_one_or_all(keys), self.first_values(keys, seed), out)
        return out

    def row_sparse_pull(self, key: Any, rows: list[int]) -> Any:
        out = self.mx.nd.zeros(SHAPES[key], stype="row_sparse")
        self.store.row_sparse_pull(key, out, row_ids=self.mx.nd.array(rows, dtype="int64"))
        return out.asnumpy()

    def set_optimizer(self, name: str) -> Any:
        if self.has_sums:
            return None
        # Rates that float32 has exactly; Adam without what amplifies rounding.
        options = {"sgd": {"momentum": 0.5}, "adam": {"epsilon": 0.5}}[name]
        self.store.set_optimizer(self.mx.optimizer.create(name, learning_rate=0.5, **options))
        return None

    def set_updater(self) -> Any:
        def update(key: Any, received: Any, stored: Any) -> None:
            stored += 2 * received

        if not self.has_sums:
            self.store._set_updater(update)
        return None

    def states(self) -> Any:
        path = os.path.join(self.folder, "states")
        self.store.save_optimizer_states(path)
        self.store.load_optimizer_states(path)
        return None

    def about(self) -> Any:
        return [self.store.type, self.store.rank, self.store.num_workers]


def _one_or_all(keys: list[Any]) -> Any:
    return keys if len(keys) > 1 else keys[0]


# -- sequences ------------------------------------------------------------------------------------

Keys = list[Any]
KEYS: tuple[Keys, ...] = (["a", "b", "c"], [3, 5])
"""Keys of a store: MXNet's error for those of both kinds depends on which came first."""


def some(rng: random.Random, keys: Keys) -> Keys:
    return rng.sample(keys, rng.choice((1, 1, 2)))


def a_push(rng: random.Random, keys: Keys) -> dict[str, Any]:
    return {"keys": some(rng, keys), "seed": rng.randrange(100),
            "devices": rng.choice((1, 2))}     # three end the process of MXNet


CALLS: dict[str, tuple[float, Callable[[random.Random, Keys], dict[str, Any]]]] = {
    "push": (5, lambda rng, keys: {**a_push(rng, keys), "priority": rng.choice((0, -1))}),
    "pull": (5, lambda rng, keys: {"keys": some(rng, keys), "devices": rng.choice((1, 2)),
                                   "ignore_sparse": rng.random() < 0.7}),
    "pushpull": (3, a_push),
    "row_sparse_pull": (3, lambda rng, keys: {"key": keys[-1], "rows": [
        rng.randrange(3) for _ in range(rng.randrange(1, 4))]}),
    "set_optimizer": (1, lambda rng, keys: {"name": rng.choice(("sgd", "adam"))}),
    "set_updater": (0.5, lambda rng, keys: {}),
    "states": (0.5, lambda rng, keys: {}),
    "about": (0.3, lambda rng, keys: {}),
}
"""Weight, and a function that draws the arguments; the last key is sparse."""


def draw(seed: int) -> tuple[str, list[Call]]:
    """The kind of store, and calls."""
    rng = random.Random(seed)
    kind = rng.choice(("local", "device", "local_allreduce_cpu"))
    names = draw_names(rng, CALLS, rng.randrange(5, 16))
    keys = rng.choice(KEYS)
    first = rng.choice(("init", "broadcast"))
    calls: list[Call] = [(first, {"keys": keys, "seed": rng.randrange(100)})]
    if first == "broadcast":
        calls[0][1]["devices"] = 2
    if rng.random() < 0.4:
        calls.append(("set_optimizer", {"name": rng.choice(("sgd", "adam"))}))
    return kind, [*calls, *((name, CALLS[name][1](rng, keys)) for name in names)]


def run(mx: Any, seed: int) -> list[Any]:
    """What each call gave, or "error" where it raised."""
    kind, calls = draw(seed)
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        store = Store(mx, kind, folder)
        found = [call(store, name, arguments) for name, arguments in calls]
        attempt(mx.nd.waitall)      # a store that goes before its work ends MXNet's process
        return found
