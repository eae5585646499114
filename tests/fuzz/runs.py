"""Binding and running a program, in one way."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.fuzz.program import Program, build, drawn

ROUNDS = 2
UNSET = 0.25
"""What gradients hold before the first step, and "add" adds to."""


@dataclass(frozen=True)
class Way:
    """How a program is bound: its element type, and what may be done to it."""

    name: str
    dtype: str = "float32"
    exact: bool = False
    without: tuple[str, ...] = ()
    threads: int = 2
    check: int = 1


Results = dict[str, np.ndarray]


def run(mx: Any, program: Program, way: Way) -> Results:
    """Outputs, gradients and states, by name."""
    with bound(mx, program, way) as executor:
        return results(mx, executor, program)


@contextmanager
def bound(mx: Any, program: Program, way: Way) -> Iterator[Any]:
    """An executor of `program` in nbmod; what it is bound with holds while it runs."""
    config = mx.base.CONFIG
    check, threads = config.check, mx.get_num_threads()
    os.environ["MXNET_BACKWARD_DO_MIRROR"] = str(int(program.mirror))
    with ExitStack() as stack:
        stack.callback(mx.set_num_threads, threads)
        stack.callback(setattr, config, "check", check)
        mx.set_num_threads(min(way.threads, threads))
        config.check = way.check
        if way.exact:
            stack.enter_context(mx.exact())
        stack.enter_context(mx.without_passes(*way.without))
        yield bind(mx, program, way.dtype)


def bind(mx: Any, program: Program, dtype: str = "float32") -> Any:
    """An executor of `program` in either library, with the values that belong to it."""
    symbol, fixed = build(mx, program, dtype)
    shapes = {f"x{i}": shape for i, shape in enumerate(program.inputs)}
    shapes = {name: shape for name, shape in shapes.items() if name in symbol.list_arguments()}
    requests = {name: program.request_of(name) for name in symbol.list_arguments()}
    types = {name: _dtype_of(fixed.get(name), dtype) for name in symbol.list_arguments()}
    groups = {"group2ctx": {"g0": mx.cpu(0), "g1": mx.cpu(1)}} if program.groups else {}
    executor = symbol.simple_bind(mx.cpu(), grad_req=requests, type_dict=types, **groups, **shapes)
    fill(executor, fixed, dtype)
    return executor


def fill(executor: Any, fixed: dict[str, Any], dtype: str = "float32") -> None:
    """Give all arrays of an executor the values that belong to its program."""
    for name, array in {**executor.arg_dict, **executor.aux_dict}.items():
        values = (fixed[name](dtype) if name in fixed else
                  drawn(name, array.shape, array.dtype))
        array[:] = np.asarray(values).reshape(array.shape).astype(array.dtype)
    for array in executor.grad_dict.values():
        if array is not None:
            array[:] = UNSET


def _dtype_of(values: Any, dtype: str) -> Any:
    found = None if values is None else getattr(values(dtype), "dtype", None)
    return np.dtype(dtype) if found is None or found.kind == "f" else found


def results(mx: Any, executor: Any, program: Program) -> Results:
    """A few steps with other data each, and inference in between."""
    found: Results = {}
    for number in range(ROUNDS):
        for i, shape in enumerate(program.inputs):
            if f"x{i}" in executor.arg_dict and number:
                array = executor.arg_dict[f"x{i}"]
                array[:] = drawn(f"x{i}", shape, array.dtype, number)
        executor.forward(is_train=program.trains)
        found |= {f"round {number}, output {i}": array.asnumpy()
                  for i, array in enumerate(executor.outputs)}
        if program.trains:
            executor.backward(heads(mx, executor))
    found |= {f"gradient of {name}": array.asnumpy()
              for name, array in executor.grad_dict.items() if array is not None}
    found |= {f"state {name}": array.asnumpy() for name, array in executor.aux_dict.items()}
    if program.trains:
        executor.forward(is_train=False)
        found |= {f"inference, output {i}": array.asnumpy()
                  for i, array in enumerate(executor.outputs)}
    return found


def heads(mx: Any, executor: Any) -> list[Any]:
    """Head gradients, another for each output."""
    return [mx.nd.array(drawn(f"head{i}", array.shape, array.dtype), dtype=array.dtype)
            for i, array in enumerate(executor.outputs)]
