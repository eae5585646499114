"""Random sequences of updates by an optimizer, whose weights must agree in nbmod and MXNet.

Rates and multipliers change, and states are saved and loaded, between updates of several weights,
one at a time or several in one call.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.programs.calls import call, draw_names

Arguments = dict[str, Any]
Call = tuple[str, Arguments]
SHAPES = ((3, 4), (5,), (2, 3, 2))
"""Those of the weights; the number of a weight is its index."""


class Updates:
    """An updater, and the weights that it has updated.

    Parameters
    ----------
    mx : module
        nbmod or MXNet.
    name : str
        Name of the optimizer.
    options : dict
        Its parameters; "scheduler" names a class and its arguments.
    dtype : str
        Element type of weights and gradients.
    """

    def __init__(self, mx: Any, name: str, options: Arguments, dtype: str):
        self.mx, self.dtype = mx, dtype
        given = {key: value for key, value in options.items() if key != "scheduler"}
        if "scheduler" in options:
            kind, arguments = options["scheduler"]
            given["lr_scheduler"] = getattr(mx.lr_scheduler, kind)(**arguments)
        self.optimizer = mx.optimizer.create(name, **given)
        self.updater = mx.optimizer.get_updater(self.optimizer)
        self.weights = [self.array(index, 0) for index in range(len(SHAPES))]

    def array(self, index: int, seed: int) -> Any:
        values = np.random.default_rng([seed, index]).uniform(-1, 1, SHAPES[index])
        return self.mx.nd.array(values, dtype=self.dtype)

    def update(self, indices: list[int], seed: int) -> None:
        for index in indices:
            self.updater(index, self.array(index, seed), self.weights[index])

    def update_several(self, indices: list[int], seed: int) -> None:
        self.updater(indices, [self.array(index, seed) for index in indices],
                     [self.weights[index] for index in indices])

    def rate(self, value: float) -> Any:
        self.optimizer.set_learning_rate(value)
        return self.optimizer.learning_rate

    def multipliers(self, kind: str, given: dict[int, float]) -> None:
        getattr(self.optimizer, f"set_{kind}_mult")(given)

    def scale(self, value: float) -> None:
        self.optimizer.rescale_grad = value

    def states(self, whole: bool, renewed: bool) -> None:
        """Saved and loaded, by the same updater or by a new one of the same optimizer."""
        saved = self.updater.get_states(dump_optimizer=whole)
        if renewed:
            self.updater = self.mx.optimizer.get_updater(self.optimizer)
        self.updater.set_states(saved)
        self.optimizer = self.updater.optimizer

    def counts(self) -> Any:
        return [self.optimizer.num_update, self.optimizer.learning_rate]

    def new_weight(self, index: int) -> None:
        self.weights[index] = self.array(index, 1)


# -- sequences ------------------------------------------------------------------------------------

OPTIMIZERS: dict[str, tuple[Arguments, ...]] = {
    "sgd": ({}, {"momentum": 0.9}, {"momentum": 0.5, "lazy_update": False}),
    "nag": ({"momentum": 0.9}, {}),
    "adam": ({}, {"beta1": 0.5, "epsilon": 0.01}),
    "adagrad": ({}, {"eps": 0.1}),
    "rmsprop": ({}, {"centered": True}, {"gamma1": 0.5, "clip_weights": 0.5}),
    "adadelta": ({}, {"rho": 0.5, "epsilon": 0.01}),
    "ftrl": ({}, {"lamda1": 0.1}),
    "adamax": ({},),
    "nadam": ({},),
    "signum": ({}, {"momentum": 0.0}, {"wd_lh": 0.01}),
    "dcasgd": ({},),     # momentum of one element only
    "ftml": ({},),
    "lars": ({"momentum": 0.9, "momentum_correction": False},),     # in MXNet that of some weights
    "lamb": ({}, {"bias_correction": False, "lower_bound": 0.1}),
    "test": ({},),
}
OF_FLOAT64 = ("sgd", "nag", "adam", "signum", "dcasgd", "ftml", "lars", "lamb", "test")
"""Others have float32 states in MXNet, and errors."""
SCHEDULERS: tuple[tuple[str, Arguments], ...] = (
    ("FactorScheduler", {"step": 2, "factor": 0.5}),
    ("MultiFactorScheduler", {"step": [2, 5], "factor": 0.3}),
    ("PolyScheduler", {"max_update": 40, "base_lr": 0.2}),
    ("CosineScheduler", {"max_update": 8, "base_lr": 0.2, "final_lr": 0.01, "warmup_steps": 2}),
)


def some(rng: random.Random) -> list[int]:
    return rng.sample(range(len(SHAPES)), rng.choice((1, 1, 2, 3)))


CALLS: dict[str, tuple[float, Callable[[random.Random], Arguments]]] = {
    "update": (8, lambda rng: {"indices": some(rng), "seed": rng.randrange(2, 100)}),
    "update_several": (3, lambda rng: {"indices": some(rng), "seed": rng.randrange(2, 100)}),
    "rate": (1, lambda rng: {"value": rng.choice((0.05, 0.5))}),
    "multipliers": (1, lambda rng: {"kind": rng.choice(("lr", "wd")), "given": {
        index: rng.choice((0.5, 2)) for index in some(rng)}}),
    "scale": (0.5, lambda rng: {"value": rng.choice((1, 0.5))}),
    "states": (1.5, lambda rng: {"whole": rng.random() < 0.5, "renewed": rng.random() < 0.5}),
    "counts": (0.5, lambda rng: {}),
    "new_weight": (0.5, lambda rng: {"index": rng.randrange(len(SHAPES))}),
}
"""Weight, and a function that draws the arguments."""


def draw(seed: int) -> tuple[str, Arguments, str, list[Call]]:
    """The optimizer, its parameters, the element type and calls."""
    rng = random.Random(seed)
    name = rng.choice(list(OPTIMIZERS))
    options = {"learning_rate": 0.1, **rng.choice(OPTIMIZERS[name])}
    for key, value in (("wd", 0.1), ("clip_gradient", 0.5), ("rescale_grad", 0.5),
                       ("begin_num_update", 3)):
        if rng.random() < 0.3:
            options[key] = value
    if rng.random() < 0.3 and name != "lamb":   # weights of one call have several rates in MXNet
        options["scheduler"] = rng.choice(SCHEDULERS)
    dtypes = ["float32", "float32"]
    if name != "lamb":      # the norm of float16 weights is that of their float32 copies here
        dtypes.append("float16")
    if name in OF_FLOAT64:
        dtypes.append("float64")
    dtype = rng.choice(dtypes)
    if dtype == "float16":
        options["multi_precision"] = True
    names = draw_names(rng, CALLS, rng.randrange(4, 16))
    return name, options, dtype, [(each, CALLS[each][1](rng)) for each in names]


def run(mx: Any, seed: int) -> list[Any]:
    """After each call its answer and all weights, or "error" where it raised."""
    name, options, dtype, calls = draw(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        updates = Updates(mx, name, options, dtype)
        found = []
        for call_name, arguments in calls:
            answer = call(updates, call_name, arguments)
            found.append([answer, [weight.asnumpy() for weight in updates.weights]])
        return found
