"""`CachedOp`: a network that is bound when it is called, and one node of the tape when recorded.

A call finds its executor by its *signature*: context, shapes and types of the inputs, and which of
them are on the tape.  It copies the inputs into the executor's arrays, runs, and hands out the
outputs (`lent_outputs`).  Parameters are bound as they are: nothing is copied, and the executor
writes their gradients where `autograd` expects them (`network_call`).

Run node by node are networks whose shapes follow from values, small ones (`inline_limit`), as by
MXNet, and calls of signatures that do not come again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from ..base import MXNetError
from ..context import Context, computing, current_context, resolve
from ..core.config import is_exact
from ..core.fork import fresh
from ..executor import Executor
from ..graph import Entry, Graph
from ..ndarray import NDArray, mutation
from ..ndarray.recording import STATE, RecordingScope
from ..ndarray.tape import Marked, live_entry, require_unrecorded
from ..ops.device import device_of
from ..symbol import Symbol
from ..symbol.compose import copy_graph
from .bind import bind
from .network_call import Lease, NetworkCall, Slots, run_nodes
from .step_monitor import MonitorCallback, StepMonitor

__all__ = ["CachedOp"]

Parameters = Callable[[Context], Mapping[str, NDArray]]
Flag = str | bool | int | float | tuple[int, ...]
Results: TypeAlias = Any  # type: ignore[explicit-any]
"""An NDArray, or a list if there are several.  Any: callers know how many outputs a network has."""

_FLAGS = {"static_alloc", "static_shape", "inline_limit", "forward_bulk_size",
          "backward_bulk_size", "data_indices", "param_indices", "subgraph", "is_dynamic"}
_TRUE = {"1", "true", "True"}
_MANY, _REMEMBERED = 8, 1024
"""Signatures that did not come again: from the first number on, one is bound when it does, if it is
among the last ones."""


class _Bound(NamedTuple):
    """The parameters on one context."""

    arrays: dict[str, NDArray]
    leaves: dict[str, Marked]
    """Parameters that have a gradient."""
    recorded: dict[str, NDArray]
    """Parameters to which a recorded value was assigned, so that gradients flow on."""
    entries: list[tuple[NDArray, Entry | None]]
    """Each array with the entry that `attach_grad` or an assignment would replace."""


class CachedOp:
    """A network that is called on arrays.

    Parameters
    ----------
    sym : Symbol
        The network.
    flags : sequence of (str, value), optional
        Flags of MXNet. `inline_limit`, by default 2, is the number of operators up to which the
        network runs node by node unless `static_alloc` is set; the others have no effect.
    input_names : sequence of str, optional
        Variables that a call takes, in order; all by default, in the order of
        ``sym.list_inputs()``.  Names of other arguments are ignored.
    parameters : callable, optional
        Returns the arrays of all other variables on a context, by name.  They are bound as they
        are, so writing to them needs no further call; `reset` after they are replaced.
    per_call : dict of str to callable, optional
        Functions that return the arrays of further variables on a context, of which there are new
        ones for each call.

    Examples
    --------
    >>> a, b = mx.sym.var("a"), mx.sym.var("b")
    >>> net = mx.nd.CachedOp(mx.sym.tanh(mx.sym.exp(a * b)))
    >>> x = mx.nd.zeros((2,))
    >>> x.attach_grad()
    >>> with mx.autograd.record():
    ...     y = net(x, mx.nd.ones((2,)))
    >>> y.backward()
    >>> x.grad.asnumpy().round(4).tolist()
    [0.42, 0.42]
    """

    def __init__(self, sym: Symbol, flags: Sequence[tuple[str, Flag]] = (),
                 input_names: Sequence[str] | None = None, parameters: Parameters | None = None,
                 per_call: Mapping[str, Callable[[Context], NDArray]] | None = None):
        entries = sym.entries if parameters else _with_own_names(sym.entries)
        graph = Graph(entries)
        self._same = [(index, entry.node.name) for index, entry in enumerate(entries)
                      if entry.node.op is None]
        self._graph = Graph([entry for entry in entries if entry.node.op is not None])
        self._computed_from = {node.name for node in self._graph.variables}
        variables = [node.name for node in graph.variables]
        names = variables if input_names is None else [*input_names]
        self._num_inputs = len(names)
        self._read = [(name, position) for position, name in enumerate(names)
                      if name in variables]
        self._states = {node.name for node in graph.states}
        self._parameters, self._per_call = parameters, dict(per_call or {})
        self._names = [name for name in variables if name not in {*names, *self._per_call}]
        ops = [node.op for node in self._graph.nodes if node.op is not None]
        self._has_loops = any(op.runs_subgraphs for op in ops)      # which only executors run
        self._runs_nodes = any(op.shape_of_values is not None for op in ops) or (
            len(ops) <= _inline_limit(_read_flags(flags)) and not self._has_loops)
        self._monitor: StepMonitor | None = None
        self._lock = fresh(threading.RLock())
        self.reset()

    def reset(self) -> None:
        """Drop all executors; calls bind the arrays anew that `parameters` returns."""
        self._slots = Slots()
        self._last: Executor | None = None
        self._bound: dict[Context, _Bound] = {}
        self._single: dict[Hashable, None] = {}

    def read_per_call(self, name: str, array_on: Callable[[Context], NDArray]) -> None:
        """Read a parameter for each call from now on, since a program replaces its array.

        Parameters
        ----------
        name : str
            Name of the variable.
        array_on : callable
            Returns its array on a context.
        """
        self._per_call[name] = array_on
        self._names = [each for each in self._names if each != name]
        self.reset()

    @property
    def executor(self) -> Executor | None:
        """That of the last call; None before the first, or if nodes run one by one."""
        return self._last

    def set_monitor_callback(self, callback: MonitorCallback | None,
                             monitor_all: bool = False) -> None:
        """Observe the arrays that calls compute, as `Executor.set_monitor_callback`.

        Parameters
        ----------
        callback : callable or None
            Called as ``callback(name, array)`` after each op; None ends the observation.
        monitor_all : bool, default False
            Whether it is called with the inputs of each op, too.
        """
        self._monitor = None if callback is None else StepMonitor(callback, monitor_all)
        for slot in self._slots.all:
            for call in [*slot.calls.values()]:
                call.executor.set_monitor_callback(callback, monitor_all)

    # -- calls -----------------------------------------------------------------------------------

    def __call__(self, *args: NDArray | None, out: NDArray | Sequence[NDArray] | None = None,
                 default_ctx: Context | None = None) -> Results:
        """Compute the outputs.

        Parameters
        ----------
        *args : NDArray
            Inputs, all on one context.
        out : NDArray or list of NDArray, optional
            Arrays to write the outputs to.
        default_ctx : Context, optional
            Context of a call without inputs; the current one by default.

        Returns
        -------
        NDArray or list of NDArray
            The output, or a list if there are several. They have memory of their own, but for
            outputs that are inputs or parameters.

        Raises
        ------
        MXNetError
            For another number of inputs, or inputs on several contexts.
        """
        inputs = self._by_name(args)
        ctx = _context(inputs, default_ctx)
        if self._per_call:
            inputs |= {name: array_on(ctx) for name, array_on in self._per_call.items()}
        bound = self._parameters_on(ctx)
        if bound.recorded and STATE.recording:
            inputs |= {name: array for name, array in bound.recorded.items() if live_entry(array)}
        if self._runs_nodes:
            outputs = run_nodes(self._graph, {**bound.arrays, **inputs}, ctx, self._monitor)
        else:
            outputs = self._run(inputs, bound, ctx)
        for index, name in self._same:
            array = inputs[name] if name in inputs else bound.arrays[name]
            outputs[index:index] = [_same(array)]
        if out is not None:
            return _written(outputs, out)
        return outputs[0] if len(outputs) == 1 else outputs

    def _by_name(self, args: Sequence[NDArray | None]) -> dict[str, NDArray]:
        """The inputs that the network reads."""
        if len(args) != self._num_inputs:
            raise MXNetError(f"CachedOp: {len(args)} inputs are given, expected "
                             f"{self._num_inputs}: {[name for name, _ in self._read]}")
        inputs = {}
        for name, position in self._read:
            array = args[position]
            if not isinstance(array, NDArray):
                raise MXNetError(f"CachedOp: input {name!r} is a {type(array).__name__}, expected "
                                 "an NDArray")
            inputs[name] = array
        return inputs

    def _parameters_on(self, ctx: Context) -> _Bound:
        """The parameters on a context; executors are dropped if one was marked anew."""
        former = self._bound.get(ctx)
        if former is not None and all([array._entry is entry for array, entry in former.entries]):
            return former
        bound = self._bound[ctx] = self._read_parameters(ctx)
        if former is not None and bound.leaves != former.leaves:
            self.reset()
            self._bound[ctx] = bound
        return bound

    def _read_parameters(self, ctx: Context) -> _Bound:
        by_name = self._parameters(ctx) if self._parameters is not None else {}
        if missing := [name for name in self._names if name not in by_name]:
            raise MXNetError(f"CachedOp: no arrays are given for {missing}, which are neither "
                             f"inputs {[name for name, _ in self._read]} nor parameters")
        arrays = {name: by_name[name] for name in self._names}
        leaves, recorded = {}, {}
        for name, array in arrays.items():
            entry = live_entry(array)
            if entry is None or name in self._states or name not in self._computed_from:
                continue
            if not isinstance(entry.node, Marked):
                recorded[name] = array
            elif entry.node.request != "null":
                leaves[name] = entry.node
        return _Bound(arrays, leaves, recorded, [
            (array, array._entry) for array in arrays.values()])

    def _run(self, inputs: Mapping[str, NDArray], bound: _Bound, ctx: Context) -> list[NDArray]:
        """Run an executor."""
        recording, is_train, states = STATE.recording, STATE.training, self._states
        if self._same:
            inputs = {name: inputs[name] for name in inputs if name in self._computed_from}
        flowing = tuple([name for name, array in inputs.items() if live_entry(array)
                         and name not in states]) if recording else ()
        is_recorded = bool(flowing) or recording and bool(bound.leaves)
        signature = (ctx, is_exact(), is_recorded, flowing, *[
            id(array) if name in states else (array._data.shape, array._data.dtype, type(array))
            for name, array in inputs.items()])
        lease = self._slots.take(signature, is_train)
        call = lease.slot.find(signature)
        if self._is_one_of_many(signature, call is not None):
            return run_nodes(self._graph, {**bound.arrays, **inputs}, ctx, self._monitor)
        STATE.recording = False
        try:
            if call is None:
                call = self._bind(signature, lease, inputs, flowing, bound, ctx, is_recorded)
            self._last = call.executor
            for name, target in call.copied.items():
                _copy(inputs[name], target)
            results = call.lent.forward(is_train)
        finally:
            STATE.recording = recording
        if is_recorded:
            node = call.record(lease, [inputs[name]._entry for name in flowing], ctx)
            for index, result in enumerate(results):
                result._entry = Entry(node, index)
        return results

    def _is_one_of_many(self, signature: Hashable, is_bound: bool) -> bool:
        """Whether nodes run one by one, since every call is of another signature.

        To bind an executor takes longer than to run it once.
        """
        if is_bound:
            if self._single:
                self._single.pop(signature, None)
            return False
        if (self._has_loops or signature in self._single
                or self._slots.known(signature) is not None):
            self._single.pop(signature, None)
            return False
        self._single[signature] = None
        if len(self._single) > _REMEMBERED:
            del self._single[next(iter(self._single))]
        return len(self._single) > _MANY

    def _bind(self, signature: Hashable, lease: Lease, inputs: Mapping[str, NDArray],
              flowing: Sequence[str], bound: _Bound, ctx: Context, is_recorded: bool
              ) -> NetworkCall:
        """Bind an executor in a slot; one that is bound in another slot is compiled already."""
        leaves = bound.leaves if is_recorded else {}
        own = {name: array if name in self._states else lease.slot.buffer(name, array)
               for name, array in inputs.items()}
        grads = {name: leaf.grad for name, leaf in leaves.items()} | {
            name: lease.slot.buffer(f"gradient of {name}", inputs[name].tostype("default"))
            for name in flowing}
        requests = dict.fromkeys(flowing, "write") | {name: leaf.request
                                                      for name, leaf in leaves.items()}
        with self._lock:
            arrays, like = {**bound.arrays, **own}, self._slots.known(signature)
            if like is None:
                symbol = Symbol(self._graph.outputs)
                states = [arrays[name] for name in symbol.list_auxiliary_states()]
                binding = bind(symbol, ctx, arrays, grads, requests, states)
            else:
                known = like.executor._binding
                binding = known._replace(
                    args={name: arrays[name] for name in known.args},
                    grads={name: grads[name] for name in known.grads},
                    compiled=like.executor.compiled if like.executor.is_planned else None)
            others = [call.executor for call in lease.slot.calls.values()]
            executor = Executor(binding, others[0] if others else None)
            if (monitor := self._monitor) is not None:
                executor.set_monitor_callback(monitor.callback, monitor.monitor_all)
            copied = {name: executor.arg_dict[name] for name in inputs if name not in self._states}
            call = NetworkCall(executor, copied, flowing, leaves)
            lease.slot.add(signature, call)
        return call


def _read_flags(flags: Sequence[tuple[str, Flag]]) -> dict[str, Flag]:
    settings = {str(name): value for name, value in flags}
    if unknown := [name for name in settings if name not in _FLAGS]:
        raise MXNetError(f"CachedOp: Cannot find argument {unknown[0]!r}, expected one of "
                         f"{sorted(_FLAGS)}")
    return settings


def _inline_limit(flags: Mapping[str, Flag]) -> int:
    """The number of operators up to which nodes run one by one."""
    return 0 if str(flags.get("static_alloc")) in _TRUE else int(str(flags.get("inline_limit", 2)))


def _with_own_names(entries: Sequence[Entry]) -> list[Entry]:
    """The network in which each variable, which is an input, has a name of its own."""
    names = [node.name for node in Graph(entries).variables]
    if len({*names}) == len(names):
        return [*entries]
    copies = copy_graph(entries)
    for position, node in enumerate(Graph(copies).variables):
        if names.index(node.name) != position:
            node.name = f"{node.name}#{position}"
    return copies


def _context(inputs: Mapping[str, NDArray], default: Context | None) -> Context:
    if not inputs:
        return resolve(default or current_context())
    first, *others = [computing(array._ctx) for array in inputs.values()]
    if any([ctx is not first and ctx != first for ctx in others]):
        names = {computing(array._ctx): name for name, array in inputs.items()}
        listed = ", ".join(f"{name!r} on {ctx}" for ctx, name in names.items())
        raise MXNetError(f"CachedOp: inputs are on several contexts: {listed}; bring them together "
                         "with as_in_context")
    return first


def _copy(source: NDArray, target: NDArray) -> None:
    """Copy an array to one of the same shape, type and storage."""
    if source.is_sparse:
        target[:] = source
    else:
        device_of(source._ctx).copy(source._data, target._data)
        mutation.written(target._data)


def _same(array: NDArray) -> NDArray:
    """The array under which an output that is an input is known: memory and entry are shared."""
    same = array.detach()
    same._entry = array._entry
    return same


def _written(outputs: Sequence[NDArray], out: NDArray | Sequence[NDArray]) -> Results:
    """`out`, which receives the outputs, and their entries."""
    targets = [out] if isinstance(out, NDArray) else [*out]
    if len(targets) != len(outputs):
        raise MXNetError(f"CachedOp: {len(targets)} arrays are given as out, expected "
                         f"{len(outputs)}")
    if STATE.recording:
        require_unrecorded("CachedOp", targets)
    with RecordingScope(False, None):
        for output, target in zip(outputs, targets, strict=True):
            target[:] = output
    for output, target in zip(outputs, targets, strict=True):
        if STATE.recording:
            target._entry = live_entry(output)
    return out
