"""Binding and running a program, with given options."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np

from nbmod.execution.pipeline import validating
from tests.fuzz.program import Program, build, drawn

ROUNDS = 2
UNSET = 0.25
"""What gradients hold before the first step, and "add" adds to."""


@dataclass(frozen=True)
class Way:
    """How a program is bound: its element type, and the permitted transformations."""

    name: str
    dtype: str = "float32"
    exact: bool = False
    without: tuple[str, ...] = ()
    threads: int = 2
    check: int = 1
    narrow: str = "float32"
    """Values are rounded to numbers of this type first."""
    validates: bool = False
    """Whether every pass is validated (`passes.translation_validation`)."""


Results = dict[str, np.ndarray]
Built = tuple[Any, dict[str, Any]]
"""What `build` makes: a symbol, and values of some of its variables."""


def run(mx: Any, program: Program, way: Way) -> Results:
    """Outputs, gradients and states, by name."""
    with bound(mx, program, way) as executor:
        return results(mx, executor, program, way.narrow)


@contextmanager
def bound(mx: Any, program: Program, way: Way) -> Iterator[Any]:
    """An executor of `program` in nbmod; the options of binding hold while it runs."""
    with settings(mx, program, way):
        yield bind(mx, program, way.dtype, way.narrow)


@contextmanager
def settings(mx: Any, program: Program, way: Way) -> Iterator[None]:
    """A block in which executors are bound and run in this way."""
    config = mx.core.config.CONFIG
    check, threads = config.check, mx.get_num_threads()
    mirror = {"MXNET_BACKWARD_DO_MIRROR": str(int(program.mirror))}
    with ExitStack() as stack:
        stack.enter_context(patch.dict(os.environ, mirror))
        stack.callback(mx.set_num_threads, threads)
        stack.callback(setattr, config, "check", check)
        mx.set_num_threads(min(way.threads, threads))
        config.check = way.check
        if way.exact:
            stack.enter_context(mx.exact())
        stack.enter_context(mx.without_passes(*way.without))
        if way.validates:
            stack.enter_context(validating())
        yield


def bind(mx: Any, program: Program, dtype: str = "float32", narrow: str = "float32") -> Any:
    """An executor of `program` in either library, with the values of its variables."""
    built = build(mx, program, dtype)
    executor = empty(mx, program, built, dtype)
    fill(executor, built[1], dtype, narrow)
    return executor


def empty(mx: Any, program: Program, built: Built, dtype: str = "float32", **options: Any) -> Any:
    """An executor of zeros; `options` are those of `simple_bind`."""
    symbol, fixed = built
    shapes = {f"x{i}": shape for i, shape in enumerate(program.inputs)}
    shapes = {name: shape for name, shape in shapes.items() if name in symbol.list_arguments()}
    requests = {name: program.request_of(name) for name in symbol.list_arguments()}
    types = {name: dtype_of(fixed.get(name), dtype) for name in symbol.list_arguments()
             if not (dtype == "float16" and name.endswith(("_gamma", "_beta")))}
    groups = {"group2ctx": {"g0": mx.cpu(0), "g1": mx.cpu(1)}} if program.groups else {}
    return symbol.simple_bind(mx.cpu(), grad_req=requests, type_dict=types, **groups, **options,
                              **shapes)


def fill(executor: Any, fixed: dict[str, Any], dtype: str = "float32", narrow: str = "float32",
         but: Collection[str] = ()) -> None:
    """Assign all arrays of an executor the values of its program, except some."""
    for name, array in {**executor.arg_dict, **executor.aux_dict}.items():
        if name not in but:
            array[:] = values_of(name, array, fixed, dtype, narrow)
    unset_gradients(executor)


def values_of(name: str, array: Any, fixed: dict[str, Any], dtype: str = "float32",
              narrow: str = "float32", number: int = 0) -> np.ndarray:
    """The values of an array, some of which differ from round to round."""
    if name not in fixed:
        return drawn(name, array.shape, array.dtype, number, narrow)
    values = np.asarray(fixed[name](dtype)).reshape(array.shape)
    return (values.astype(narrow) if values.dtype.kind == "f" else values).astype(array.dtype)


def unset_gradients(executor: Any) -> None:
    for array in executor.grad_dict.values():
        if array is not None:
            array[:] = UNSET


def dtype_of(values: Any, dtype: str) -> Any:
    found = None if values is None else getattr(values(dtype), "dtype", None)
    return np.dtype(dtype) if found is None or found.kind == "f" else found


def results(mx: Any, executor: Any, program: Program, narrow: str = "float32") -> Results:
    """A few steps with other data each, and inference in between."""
    found: Results = {}
    for _ in pass_by_pass(mx, executor, program, found, narrow):
        pass
    return found


def pass_by_pass(mx: Any, executor: Any, program: Program, found: Results,
                 narrow: str = "float32") -> Iterator[None]:
    """The same, one pass at a time: forward, then backward.  Results are appended to `found`."""
    for number in range(ROUNDS):
        for name in inputs_of(executor, program) if number else ():
            array = executor.arg_dict[name]
            array[:] = drawn(name, array.shape, array.dtype, number, narrow)
        executor.forward(is_train=program.trains)
        found.update(outputs_of(executor, f"round {number}"))
        yield
        if program.trains:
            executor.backward(heads(mx, executor, narrow))
            yield
    found.update(kept_by(executor))
    if program.trains:
        executor.forward(is_train=False)
        found.update(outputs_of(executor, "inference"))


def inputs_of(executor: Any, program: Program) -> list[str]:
    """Names of the inputs that an executor reads."""
    return [name for name in (f"x{i}" for i in range(len(program.inputs)))
            if name in executor.arg_dict]


def outputs_of(executor: Any, when: str) -> Results:
    return {f"{when}, output {i}": array.asnumpy() for i, array in enumerate(executor.outputs)}


def kept_by(executor: Any) -> Results:
    """Gradients and states."""
    gradients = {f"gradient of {name}": array.asnumpy()
                 for name, array in executor.grad_dict.items() if array is not None}
    return gradients | {f"state {name}": array.asnumpy()
                        for name, array in executor.aux_dict.items()}


def heads(mx: Any, executor: Any, narrow: str = "float32") -> list[Any]:
    """Head gradients, another for each output."""
    return [mx.nd.array(drawn(f"head{i}", array.shape, array.dtype, narrow=narrow),
                        dtype=array.dtype)
            for i, array in enumerate(executor.outputs)]
