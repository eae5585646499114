"""Instrumentation of functions and executors while the profiler runs.

Executors report their steps to `Executor.profiler`.  Other functions, listed in `SPANS`, are
replaced by wrappers that measure them.  `uninstall` reverses `install`.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from ..context import Context
from ..execution.cost_model import StepCost, cost_of, costs_of
from ..execution.steps import BoundGraph
from ..executor import Executor
from ..ndarray import array_creation, invocation
from ..ops import OPS
from ..ops.device import device_of
from ..ops.op import Spec
from .recorder import RECORDER, now

__all__ = ["install", "uninstall"]

SPANS = (
    ("executor", "Executor", ("forward", "backward")),
    ("module.module", "Module", ("forward", "backward", "update")),
    ("kvstore.kvstore", "KVStore", ("init", "push", "pull", "pushpull", "broadcast")),
    ("io.data_iter", "DataIter", ("__next__",)),
    ("ndarray.ndarray", "NDArray", ("asnumpy",)),
)
"""(module, class, methods) that are recorded as API calls."""

_replaced: list[tuple[Any, str, Any]] = []
_costs: weakref.WeakKeyDictionary[BoundGraph, list[StepCost]] = weakref.WeakKeyDictionary()
"""The cost of every step."""


def install(config: dict[str, Any]) -> None:
    """Start to measure what `config` selects."""
    everything = config["profile_all"]
    if everything or config["profile_api"]:
        for module, name, methods in SPANS:
            owner = getattr(import_module(f"nbmod.{module}"), name)
            for method in methods:
                base = next(base for base in owner.__mro__ if method in vars(base))
                _replace(base, method, functools.partial(_measured, f"{name}.{method}"))
        exchange = import_module("nbmod.kvstore.distributed.overlap").OverlappedExchange
        _replace(exchange, "_perform", _measured_exchange)
        _replace(exchange, "_wait", _measured_wait)
    if everything or config["profile_imperative"] or config["profile_symbolic"]:
        custom = import_module("nbmod.operator.definition").PropDefinition
        _replace(custom, "_guarded", _measured_custom)
    if everything or config["profile_imperative"]:
        _replace(invocation, "execute", _measured_op)
        _replace(array_creation, "_filled", _measured_filling)
    if everything or config["profile_symbolic"] or config["profile_memory"]:
        memory = everything or config["profile_memory"]
        steps = everything or config["profile_symbolic"]
        _replace(Executor, "profiler", lambda none: _StepRecorder(steps, memory))


def uninstall() -> None:
    """Restore all replaced functions."""
    while _replaced:
        owner, name, original = _replaced.pop()
        setattr(owner, name, original)


def _replace(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    original = vars(owner)[name]
    _replaced.append((owner, name, original))
    setattr(owner, name, make(original))


def _measured(name: str, function: Callable) -> Callable:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        start = now()
        try:
            return function(*args, **kwargs)
        finally:
            RECORDER.span("api", name, start, now() - start)

    return call


def _measured_exchange(perform: Callable) -> Callable:
    """Wrap the method of distributed stores that exchanges a bucket."""

    @functools.wraps(perform)
    def call(owner: Any, what: str, exchange: Callable[[], None]) -> None:
        return _measured(what, perform)(owner, what, exchange)

    return call


def _measured_wait(wait: Callable) -> Callable:
    """Wrap the method of distributed stores that waits for an exchange."""

    @functools.wraps(wait)
    def call(owner: Any, event: Any, what: str) -> None:
        return _measured(f"wait for {what}", wait)(owner, event, what)

    return call


def _measured_custom(guarded: Callable) -> Callable:
    """Wrap the method that calls custom operators: their time, and that of what they call."""

    @functools.wraps(guarded)
    def call(definition: Any, what: str, *args: Any, **kwargs: Any) -> Any:
        if what not in ("forward", "backward"):
            return guarded(definition, what, *args, **kwargs)
        before, start = RECORDER.custom, now()
        RECORDER.custom = f"{'_backward_' if what == 'backward' else ''}{definition.name}::"
        try:
            return guarded(definition, what, *args, **kwargs)
        finally:
            RECORDER.span("Custom Operator", f"{RECORDER.custom}pure_python", start, now() - start)
            RECORDER.custom = before

    return call


def _measured_op(execute: Callable) -> Callable:
    """Wrap the function that runs an eager operator."""

    @functools.wraps(execute)
    def call(op: Any, ins: Any, device: Any, outs: Any = (), ctx: Context | None = None,
             *more: Any) -> Any:
        start = now()
        results = execute(op, ins, device, outs, ctx, *more)
        device.synchronize()
        in_specs = [Spec(a.shape, a.dtype) for a in ins]
        out_specs = [None if a is None else Spec(a.shape, a.dtype) for a in results]
        _record(op.name, op, start, str(ctx or device), cost_of(op, in_specs, out_specs))
        return results

    return call


def _measured_filling(fill: Callable) -> Callable:
    """Wrap the function that makes zeros and ones, which are operators to MXNet."""

    @functools.wraps(fill)
    def call(shape: Any, value: float, *more: Any) -> Any:
        start = now()
        result = fill(shape, value, *more)
        op = OPS.find("_ones" if value else "_zeros")
        spec = Spec(result.shape, result._data.dtype)
        _record(op.name, op, start, str(result.context), StepCost(0, spec.nbytes))
        return result

    return call


class _StepRecorder(NamedTuple):
    """Records the `steps` of executors, and `memory` before the forward and the backward pass."""

    steps: bool
    memory: bool

    def before(self, bound: BoundGraph, index: int) -> tuple[StepCost, float]:
        """The cost of the step, and its start time."""
        if self.memory and index in (0, bound.compiled.num_forward):
            for ctx, nbytes in bound.memory.nbytes.items():
                RECORDER.counter("Device Storage", f"Memory: {ctx.device_type}/{ctx.device_id}",
                                 nbytes, memory=True)
        if bound not in _costs:
            _costs[bound] = costs_of(bound.compiled)
        return _costs[bound][index], now()

    def after(self, bound: BoundGraph, index: int, noted: tuple[StepCost, float]) -> None:
        """Record the step."""
        if self.steps:
            step, (cost, start) = bound.steps[index], noted
            ctx = bound.compiled.context_of(step.node)
            device_of(ctx).synchronize()
            _record(step.node.name, step.node.op, start, str(ctx), cost, step.run is None)


def _record(name: str, op: Any, start: float, process: str, cost: StepCost, view: bool = False
            ) -> None:
    duration = now() - start
    seconds = max(duration, 1e-3) / 1e6
    args: dict[str, Any] = {"op": op.name, "bytes": cost.nbytes}
    if view:
        args["view"] = True
    elif cost.operations:
        args |= {"operations": cost.operations,
                 "GFLOP/s": float(f"{cost.operations / seconds / 1e9:.4g}")}
    else:
        args["GB/s"] = float(f"{cost.nbytes / seconds / 1e9:.4g}")
    if RECORDER.custom:
        RECORDER.span("Custom Operator", RECORDER.custom + name, start, duration, process, args)
    else:
        RECORDER.span("operator", RECORDER.prefix + name, start, duration, process, args, op.name)
