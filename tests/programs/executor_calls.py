"""Random sequences of calls of executors, whose results must agree in nbmod and MXNet.

Several executors are bound to the same arrays, run, fed, reshaped, and differentiated in turn.
"""

from __future__ import annotations

import os
import random
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np

from tests.programs.calls import attempt, call, draw_names

Arguments = dict[str, Any]
Call = tuple[str, Arguments]
SIZES = (2, 3, 5)
FEATURES = 4
NETS = ("layers", "statistics", "outputs", "views", "shared")


def network(mx: Any, name: str) -> Any:
    """A small network with the arguments "data" and others."""
    sym, x = mx.sym, mx.sym.Variable("data")
    fc = partial(sym.FullyConnected, num_hidden=FEATURES)
    if name == "layers":
        return sym.SoftmaxOutput(fc(sym.Activation(fc(x, name="a"), act_type="relu"), name="b"),
                                 sym.Variable("label"), name="out")
    if name == "statistics":
        return sym.LinearRegressionOutput(
            sym.BatchNorm(fc(x, name="a", no_bias=True), fix_gamma=False, momentum=0.5, name="bn"),
            sym.Variable("label"), name="out")
    if name == "outputs":
        y = sym.tanh(fc(x, name="a"))
        return sym.Group([y, sym.square(y) * 2, sym.BlockGrad(y + 1), sym.sum(y, axis=1)])
    if name == "views":
        y = sym.Reshape(fc(x, name="a"), shape=(0, 2, -1))
        return sym.concat(sym.Flatten(y), sym.slice_axis(x, axis=1, begin=1, end=3) * 2, dim=1)
    weight = sym.Variable("w")
    return sym.tanh(fc(sym.tanh(fc(x, weight, name="a")), weight, name="b")) + x


def values(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).uniform(-1, 1, shape).astype(np.float32)


class Executors:
    """Executors of a network.

    Parameters
    ----------
    mx : module
        nbmod or MXNet.
    net : str
        Name of the network.
    """

    def __init__(self, mx: Any, net: str):
        self.mx, self.symbol = mx, network(mx, net)
        self.executors: list[Any] = []
        self.ready: dict[int, bool] = {}
        """For the executor that ran last by `id`, whether its results can be differentiated."""

    def pick(self, at: int) -> Any:
        return self.executors[at % len(self.executors)]

    def keep(self, executor: Any, seed: int) -> Any:
        self.executors.append(executor)
        del self.executors[:-3]
        self.ready = {}
        for number, (name, array) in enumerate(sorted(executor.arg_dict.items())):
            array[:] = values(array.shape, seed + number)
            if executor.grad_dict.get(name) is not None:
                executor.grad_dict[name][:] = 0
        return None

    def state(self) -> Any:
        """Arrays of all executors."""
        return [[[name, array.asnumpy()] for name, array in sorted(found.items())
                 if array is not None]
                for executor in self.executors
                for found in (executor.arg_dict, executor.grad_dict, executor.aux_dict)]

    # -- binding ----------------------------------------------------------------------------------

    def simple_bind(self, size: int, request: Any, seed: int) -> Any:
        return self.keep(self.symbol.simple_bind(self.mx.cpu(), grad_req=request,
                                                 data=(size, FEATURES)), seed)

    def bind(self, at: int, request: str, seed: int) -> Any:
        """To the arrays of another."""
        other = self.pick(at)
        grads = {name: array for name, array in other.grad_dict.items()
                 if array is not None and request != "null"}
        return self.keep(self.symbol.bind(self.mx.cpu(), other.arg_dict, grads, request,
                                          other.aux_dict), seed)

    def reshape(self, at: int, size: int) -> Any:
        """To another batch size, with all options that this may need."""
        new = self.pick(at).reshape(partial_shaping=True, allow_up_sizing=True,
                                    data=(size, FEATURES))
        return self.keep(new, 1)

    # -- running ----------------------------------------------------------------------------------

    def forward(self, at: int, train: bool, seed: int | None) -> Any:
        executor = self.pick(at)
        given = {}
        if seed is not None:
            given["data"] = self.mx.nd.array(values(executor.arg_dict["data"].shape, seed))
        executor.forward(is_train=train, **given)
        self.ready = {id(executor): train}
        return executor.outputs

    def backward(self, at: int, seed: int) -> Any:
        executor = self.pick(at)
        if not self.ready.get(id(executor)):
            return None     # wrong or undefined in MXNet
        heads = [self.mx.nd.array(values(out.shape, seed)) for out in executor.outputs]
        self.ready = {}
        executor.backward(heads)
        return [[name, array] for name, array in sorted(executor.grad_dict.items())]

    def outputs(self, at: int) -> Any:
        """Only those of the executor that ran last: others may share memory in MXNet."""
        executor = self.pick(at)
        return executor.outputs if id(executor) in self.ready else None

    def output_dict(self, at: int) -> Any:
        executor = self.pick(at)
        return sorted(executor.output_dict) if id(executor) in self.ready else None

    # -- values -----------------------------------------------------------------------------------

    def assign(self, at: int, which: int, seed: int) -> Any:
        """Before the next forward: MXNet reads arguments in `backward`."""
        executor = self.pick(at)
        names = sorted(executor.arg_dict)
        array = executor.arg_dict[names[which % len(names)]]
        array[:] = values(array.shape, seed)
        self.ready = {}
        return None

    def copy_params(self, at: int, names: list[str], extra: bool, seed: int) -> Any:
        executor = self.pick(at)
        given = {name: self.mx.nd.array(values(executor.arg_dict[name].shape, seed))
                 for name in names if name in executor.arg_dict}
        if extra:
            given["unknown"] = self.mx.nd.ones(2)
        self.ready = {}
        executor.copy_params_from(given, allow_extra_params=extra)
        return None

    def zero(self, at: int) -> Any:
        for array in self.pick(at).grad_dict.values():
            if array is not None:
                array[:] = 0
        return None


# -- sequences ------------------------------------------------------------------------------------

REQUESTS: tuple[Any, ...] = ("write", "write", "add", "null")


def which(rng: random.Random, **options: Any) -> Arguments:
    return {"at": rng.randrange(3), **options}


def a_seed(rng: random.Random) -> int:
    return rng.randrange(10, 100)


CALLS: dict[str, tuple[float, Callable[[random.Random], Arguments]]] = {
    "simple_bind": (1, lambda rng: {"size": rng.choice(SIZES), "seed": a_seed(rng),
                                    "request": rng.choice(REQUESTS)}),
    "bind": (1, lambda rng: which(rng, request=rng.choice(REQUESTS), seed=a_seed(rng))),
    "reshape": (1.5, lambda rng: which(rng, size=rng.choice(SIZES))),
    "forward": (8, lambda rng: which(rng, train=rng.random() < 0.7,
                                     seed=rng.choice((None, a_seed(rng))))),
    "backward": (6, lambda rng: which(rng, seed=a_seed(rng))),
    "outputs": (1, which),
    "output_dict": (0.3, which),
    "assign": (2, lambda rng: which(rng, which=rng.randrange(6), seed=a_seed(rng))),
    "copy_params": (1, lambda rng: which(
        rng, names=rng.sample(("a_weight", "a_bias", "w", "bn_gamma", "label"), 2),
        extra=rng.random() < 0.3, seed=a_seed(rng))),
    "zero": (1, which),
}
"""Weight, and a function that draws the arguments."""


def draw(seed: int) -> tuple[str, list[Call]]:
    """The network, and calls."""
    rng = random.Random(seed)
    names = ["simple_bind", "forward", *draw_names(rng, CALLS, rng.randrange(5, 20))]
    return rng.choice(NETS), [(name, CALLS[name][1](rng)) for name in names]


def run(mx: Any, seed: int) -> list[Any]:
    """After each call its answer and all arrays, or "error" where it raised."""
    net, calls = draw(seed)
    # Networks that oneDNN fuses go on with parameters that have been replaced.
    with (patch.dict(os.environ, MXNET_SUBGRAPH_BACKEND="NONE"), mx.name.NameManager(),
          warnings.catch_warnings()):
        warnings.simplefilter("ignore")
        executors, found = Executors(mx, net), []
        for name, arguments in calls:
            answer = call(executors, name, arguments)
            found.append([answer, attempt(executors.state)])
        return found
