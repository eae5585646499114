"""One operator at a time in a worker process: forward and each gradient by itself."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["direction", "prepare"]

_steps: list[tuple[Callable[[], Any], Callable[[], Any]]] = []
"""The setup, and the timed function, of forward and of every gradient."""


def prepare(package: str, graph: str, shapes: dict[str, tuple[int, ...]], wanted: list[str]
            ) -> None:
    """Bind an operator for forward and for the gradient of each input `wanted`, and run each once,
    which compiles missing kernels."""
    mx = importlib.import_module(package)
    symbol, random = mx.sym.load_json(graph), np.random.default_rng(0)
    args = {name: mx.nd.array(random.standard_normal(shape, dtype=np.float32))
            for name, shape in shapes.items()}
    _steps[:] = [_forward(mx, symbol, args), *(_gradient(mx, symbol, args, name)
                                               for name in wanted)]
    for before, run in _steps:
        before()
        run()


def direction(number: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """The subject of an arm: forward, or the gradient of an input."""
    return _steps[number]


def _forward(mx: Any, symbol: Any, args: dict[str, Any]) -> tuple[Callable, Callable]:
    executor = symbol.bind(mx.cpu(), args, grad_req="null")

    def run() -> None:
        executor.forward(is_train=False)
        mx.nd.waitall()

    return lambda: None, run


def _gradient(mx: Any, symbol: Any, args: dict[str, Any], name: str) -> tuple[Callable, Callable]:
    requests = {each: "write" if each == name else "null" for each in args}
    executor = symbol.bind(mx.cpu(), args, args_grad={name: mx.nd.zeros(args[name].shape)},
                           grad_req=requests)
    heads = [mx.nd.ones(executor.outputs[0].shape)]

    def before() -> None:
        executor.forward(is_train=True)
        mx.nd.waitall()

    def run() -> None:
        executor.backward(heads)
        mx.nd.waitall()

    return before, run
