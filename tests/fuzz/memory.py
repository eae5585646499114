"""Arrays in common with others: one for several arguments, or memory that others write.

Each check gives what a program computes on such arrays, and on arrays of its own with equal values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np

from nbmod.execution import bind as binding
from tests.fuzz.company import check
from tests.fuzz.program import Program, build
from tests.fuzz.runs import (
    Results,
    Way,
    bind,
    empty,
    fill,
    heads,
    kept_by,
    outputs_of,
    results,
    run,
    settings,
    values_of,
)

Table = dict[str, Any]


def _second_array(mx: Any, array: Any) -> Any:
    return mx.nd.from_dlpack(array)


def _capsule(mx: Any, array: Any) -> Any:
    return mx.nd.from_dlpack(mx.nd.to_dlpack_for_write(array))


def _numpy(mx: Any, array: Any) -> Any:
    found = np.from_dlpack(array)
    return found if found.flags.writeable else mx.nd.from_dlpack(array)


HANDED: dict[str, Callable[[Any, Any], Any]] = {
    "second array": _second_array, "capsule": _capsule, "numpy": _numpy}
"""Ways in which memory of an array leaves it, to be written elsewhere."""


@check(0.1)
def written_from_outside(mx: Any, program: Program, way: Way, rng: Random
                         ) -> tuple[Results, Results]:
    """Others write parameters between two forward passes for inference."""
    program = replace(program, request="null")
    built = build(mx, program)
    hand, is_late, comes_in = (HANDED[rng.choice(list(HANDED))], rng.random() < 0.5,
                               rng.random() < 0.3)
    found, expected = Results(), Results()
    with settings(mx, program, way):
        executor = bind(mx, program)
        if comes_in and not program.groups:
            executor = _over_numpy(mx, built, executor)
        given = {**executor.arg_dict, **executor.aux_dict}
        names = [name for name in given if rng.random() < 0.7]
        outside = {} if is_late else {name: hand(mx, given[name]) for name in names}
        executor.forward(is_train=False)
        outside = outside or {name: hand(mx, given[name]) for name in names}
        fresh = empty(mx, program, built)
        for number in (1, 2):
            for name, memory in outside.items():
                memory[...] = values_of(name, given[name], built[1], number=number)
            # Operators that update weights write to their states in every pass.
            others = {name: array.asnumpy() for name, array in given.items() if name not in outside}
            executor.forward(is_train=False)
            found.update(outputs_of(executor, f"write {number}"))
            for name, array in {**fresh.arg_dict, **fresh.aux_dict}.items():
                array[:] = (values_of(name, array, built[1], number=number) if name in outside
                            else others[name])
            fresh.forward(is_train=False)
            expected.update(outputs_of(fresh, f"write {number}"))
    return found, expected


def _over_numpy(mx: Any, built: Any, executor: Any) -> Any:
    """An executor like this one, whose arrays are memory of NumPy."""
    args, aux = ({name: mx.nd.from_dlpack(array.asnumpy()) for name, array in table.items()}
                 for table in (executor.arg_dict, executor.aux_dict))
    return built[0].bind(mx.cpu(), args, grad_req="null", aux_states=aux)


@check(0.1)
def as_one_array(mx: Any, program: Program, way: Way, rng: Random) -> tuple[Results, Results]:
    """One array is bound to several arguments of its shape; their gradients are apart."""
    program, seed = replace(program, groups=False), rng.randrange(1 << 30)
    built, found = build(mx, program), []
    with settings(mx, program, way):
        for shares in (True, False):
            args, common = _arguments(mx, program, built, shares, Random(seed))
            found.append(_steps(mx, program, built, args, common))
    return found[0], found[1]


def _arguments(mx: Any, program: Program, built: Any, shares: bool, rng: Random
               ) -> tuple[Any, list[list[str]]]:
    """A bound executor, and the names of arguments that have one array, or equal ones.

    Not gammas: a fixed one is set to 1 in the user's array.
    """
    pattern = empty(mx, program, built)
    fill(pattern, built[1])
    same: dict[Any, list[str]] = {}
    for name, array in pattern.arg_dict.items():
        if name not in built[1] and not name.endswith("_gamma") and rng.random() < 0.8:
            same.setdefault((array.shape, array.dtype), []).append(name)
    args = dict(pattern.arg_dict)
    for names in same.values():
        for name in names[1:]:
            args[name] = args[names[0]] if shares else args[names[0]].copy()
    executor = built[0].bind(
        mx.cpu(), args, aux_states=pattern.aux_dict,
        args_grad={name: array for name, array in pattern.grad_dict.items() if array is not None},
        grad_req={name: program.request_of(name) for name in args})
    return executor, list(same.values())


def _steps(mx: Any, program: Program, built: Any, executor: Any, common: list[list[str]]
           ) -> Results:
    found = Results()
    for number in range(2):
        executor.forward(is_train=program.trains)
        found.update(outputs_of(executor, f"step {number}"))
        if program.trains:
            executor.backward(heads(mx, executor))
        for names in common:
            for name in names:
                array = executor.arg_dict[name]
                array[:] = values_of(names[0], array, built[1], number=number + 1)
    return found | kept_by(executor)


@check(0.05)
def gradients_over_arguments(mx: Any, program: Program, way: Way, rng: Random
                             ) -> tuple[Results, Results]:
    """Gradients are stored in arrays of arguments; or in copies of these, by the same plan."""
    program = replace(program, groups=False, request="write" if program.trains else "null")
    built, targets = build(mx, program), dict[str, str]()
    found = list[Results]()
    with settings(mx, program, way):
        for shares in (True, False):
            pattern = empty(mx, program, built)
            fill(pattern, built[1])
            targets = targets or _targets(pattern.arg_dict, rng)
            args = pattern.arg_dict
            grads = {name: args[target] if shares else args[target].copy()
                     for name, target in targets.items()}
            with patch.object(binding, "_overlapping", binding._overlapping if shares else (
                    lambda grads, others: frozenset(grads))):
                executor = built[0].bind(mx.cpu(), args, grads, aux_states=pattern.aux_dict)
            executor.forward(is_train=program.trains)
            found.append(outputs_of(executor, "step"))
            if program.trains:
                executor.backward(heads(mx, executor))
            found[-1].update(kept_by(executor))
    return found[0], found[1]


def _targets(args: Table, rng: Random) -> dict[str, str]:
    """Arguments, and others or the same of their shapes and types, in another order.

    Not gammas: a fixed one is set to 1 in the user's array.
    """
    same: dict[Any, list[str]] = {}
    for name, array in args.items():
        if array.dtype == np.float32 and not name.endswith("_gamma"):
            same.setdefault(array.shape, []).append(name)
    return {name: target for names in same.values()
            for name, target in zip(names, rng.sample(names, len(names)), strict=True)}


@check(0.05)
def through_json(mx: Any, program: Program, way: Way, rng: Random) -> tuple[Results, Results]:
    """Written as JSON and read again."""
    symbol, fixed = build(mx, program)
    built = mx.sym.load_json(symbol.tojson()), fixed
    with settings(mx, program, way):
        executor = empty(mx, program, built)
        fill(executor, fixed)
        return results(mx, executor, program), run(mx, program, way)
