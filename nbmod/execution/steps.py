"""Compiled graphs in memory: an array for every entry, and a function for every node.

`BoundGraph` turns a plan into arrays and nodes into functions without arguments, once; a run calls
these functions in order (`run_steps`).  Nothing is inferred, allocated or decided while it runs.
A *watcher* sees every step from outside: a monitor, the profiler, the sanitizer (`run_watched`).

`PlannedProgram` is what an executor runs by a plan: a bound graph of a whole network.  Intermediate
results are in arenas (`execution.arena`), one for each context, which executors of one model share.
Outputs have buffers of their own, stable for the life of the program and overwritten by its next
forward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from ..base import MXNetError, OutOfMemory
from ..context import Context
from ..core.interrupts import from_handler
from ..graph import Entry, Node
from ..ndarray import NDArray, mutation
from ..ops.device import Device, device_of
from ..ops.internal import CrossDeviceCopy
from ..ops.jit import denormals, lacks_compiler
from ..ops.op import Call, Mode
from ..passes.infer import Inferred
from ..passes.memory.plan_step import NONE
from .arena import Arena, BlockMemory, DeviceArray, Memory
from .bind import Arrays, BindArguments
from .bound_arrays import BoundArrays, EntryArray, Modes
from .call_arguments import load_head_gradients
from .debug import debug_str
from .derived_constants import DerivedConstants, derive
from .interpreter import located
from .pipeline import CompiledGraph, CompiledSubgraph, CompileOptions
from .sanitizer import checks

__all__ = ["BoundGraph", "BoundSubgraph", "ExecutorProgram", "PlannedProgram",
           "SharedMemory", "States", "Step", "StepWatcher", "explained", "run_steps", "run_watched"]


@dataclass
class Step:
    """One node, ready to run.  `run` is None for a view: its output is its input's memory."""

    node: Node
    run: Callable[[], None] | None
    ins: list[DeviceArray | None]
    outs: list[DeviceArray | None]


States = dict[int, dict[str, object]]
"""The state of nodes between runs, by `id` of the symbol's node."""


class BoundGraph(BoundArrays):
    """A compiled graph in memory, with what computes it.

    Attributes
    ----------
    steps : list of Step
        One for each node.
    calls : list of callable or None
        What a run calls: the functions of the steps, joined where their device can do that.
    """

    def __init__(self, compiled: CompiledGraph, memory: Memory | BlockMemory,
                 arrays: Mapping[int, DeviceArray], modes: Modes, states: States):
        super().__init__(compiled, memory, arrays, modes)
        self._states = states
        self.steps = [self._prepare(index) for index in range(len(compiled.nodes))]
        self.calls = device_of(compiled.spaces[0]).capture([step.run for step in self.steps],
                                                           compiled.num_forward)

    def _prepare(self, index: int) -> Step:
        """A node on its arrays."""
        compiled, plan = self.compiled, self.compiled.plan
        node, step = compiled.nodes[index], compiled.plan_steps[index]
        ins = [self.arrays[eid] for eid in step.inputs]
        outs: list[EntryArray] = [None if eid == NONE else self.arrays[eid] for eid in step.outputs]
        if index in plan.views:
            return Step(node, None, ins, outs)
        op, ctx = node.required_op, compiled.context_of(node)
        device = device_of(ctx)
        if op.view or isinstance(op, CrossDeviceCopy):
            return Step(node, partial(device.copy, ins[0], outs[0].reshape(ins[0].shape)),
                        ins, outs)
        workspace = self.workspaces(index)
        call = Call(self.modes.recomputed if node.recomputes else self.modes.current, workspace,
                    tuple(eid in plan.add or eid in compiled.accumulated for eid in step.outputs),
                    compiled.output_specs(node), ctx,
                    self._states.setdefault(id(compiled.origin(node)), {}))
        if index in compiled.subgraphs:
            call.subgraphs = [partial(BoundSubgraph, subgraph, block, call) for subgraph, block
                           in zip(compiled.subgraphs[index], workspace, strict=True)]
            return Step(node, op.prepare(ins, outs, call), ins, outs)
        choice = compiled.choices[index]
        assert choice is not None
        return Step(node, device.prepare(choice, ins, outs, call), ins, outs)

    def located(self, index: int, error: Exception) -> Exception:
        """`error` with the name of the node that it came from."""
        node = self.compiled.nodes[index]
        return located(node, [spec.shape for spec in self.compiled.input_specs(node)], error)

Noted: TypeAlias = Any  # type: ignore[explicit-any]
"""The value that `before` hands to `after`.  Any: only the watcher knows its type."""


class StepWatcher(Protocol):
    """An object that sees every step from outside."""

    def before(self, bound: BoundGraph, index: int) -> Noted:
        """A step is about to run; the result is handed to `after`."""

    def after(self, bound: BoundGraph, index: int, noted: Noted) -> None:
        """The step has run."""


def run_steps(bound: BoundGraph, first: int, last: int) -> None:
    """The loop: call the steps from `first` to `last`."""
    index = first
    try:
        for index in range(first, last):
            call = bound.calls[index]
            if call is not None:
                call()
    except Exception as error:
        if from_handler(error):
            raise
        raise bound.located(index, error) from error


def run_watched(watchers: Sequence[StepWatcher], bound: BoundGraph, first: int, last: int) -> None:
    """The loop, each step being watched; the last of `watchers` is nearest to the step."""
    for index in range(first, last):
        noted = [watcher.before(bound, index) for watcher in watchers]
        run = bound.steps[index].run
        try:
            if run is not None:
                run()
        except Exception as error:
            if from_handler(error):
                raise
            raise bound.located(index, error) from error
        for watcher in reversed(watchers):
            watcher.after(bound, index, noted.pop())


class BoundSubgraph:
    """A subgraph in a block of its node's workspace; `shared` are arrays of the node itself."""

    def __init__(self, subgraph: CompiledSubgraph, block: DeviceArray, call: Call,
                 shared: Mapping[Entry, DeviceArray]):
        compiled = subgraph.compiled
        memory = BlockMemory(compiled.plan, device_of(compiled.spaces[0]), block)
        arrays = {compiled.graph.eid(entry): array for entry, array in shared.items()}
        arrays |= {eid: memory.view(offset, compiled.specs[eid])
                   for eid, offset in subgraph.offsets.items()}
        states = {} if call.state is None else call.state.setdefault("bodies", {})
        self.bound = BoundGraph(compiled, memory, arrays, Modes(call.mode, call.mode), states)
        self._run: Callable[[BoundGraph, int, int], None] = run_steps
        if watchers := checks(self.bound):
            self._run = partial(run_watched, watchers)

    def array(self, entry: Entry) -> DeviceArray | None:
        """Where a given value goes, or a wanted result is found; None if nothing reads it."""
        return self.bound.arrays[self.bound.compiled.graph.eid(entry)]

    def run(self) -> None:
        """Compute what is wanted from what is given."""
        self._run(self.bound, 0, len(self.bound.calls))


# -- programs ------------------------------------------------------------------------------------


class ExecutorProgram(Protocol):
    """A program of an executor: a `PlannedProgram` or an `InterpretedProgram`."""

    @property
    def outputs(self) -> list[NDArray]:
        """In the order of the symbol's `list_outputs`."""

    def forward(self, is_train: bool, observers: Sequence[StepWatcher] = ()) -> None:
        """Compute the outputs."""

    def backward(self, out_grads: NDArray | Arrays | None, is_train: bool,
                 observers: Sequence[StepWatcher] = ()) -> None:
        """Compute the gradients of the last forward pass."""

    def retain(self) -> None:
        """Keep what the next backward pass reads, so that another may follow."""


class SharedMemory(NamedTuple):
    """Memory that executors of one model share."""

    arenas: dict[Context, Arena]
    constants: MutableMapping[tuple[Hashable, ...], DerivedConstants]


@contextmanager
def explained(symbol: Inferred) -> Iterator[None]:
    """A block in which memory that cannot be had is an OutOfMemory that names the largest tensor.
    """
    try:
        yield
    except MemoryError as error:
        graph, specs = symbol
        node, spec = max(((node, specs[eid]) for node in graph.nodes for eid
                          in graph.output_eids(node)), key=lambda pair: pair[1].nbytes)
        raise OutOfMemory(f"bind: {error}; the largest tensor is that of {node.describe()}: "
                          f"shape {spec.shape}, {spec.nbytes >> 20:,} MiB") from None


class PlannedProgram:
    """A compiled graph, arrays, and a loop.

    Attributes
    ----------
    binding : BindArguments
        The network, its arrays by name, and where to compute.
    states : dict
        The state of nodes between runs.
    bound : BoundGraph or None
        The steps on their arrays; None while another program has the memory.
    constants : list of DerivedConstants
        What is computed only when a parameter has changed.
    watchers : list of StepWatcher
        Called before and after every step.
    options : CompileOptions
        With which the network was compiled.
    """

    def __init__(self, binding: BindArguments, compiled: CompiledGraph, shared: SharedMemory,
                 states: States, options: CompileOptions):
        self.binding, self.compiled, self.states = binding, compiled, states
        self.options = options
        with explained(binding.inferred):
            self._head_arrays, self._external = self._external_arrays()
            self.constants: list[DerivedConstants] = []
            if compiled.constants:
                self.constants = derive(shared.constants, compiled, self._external,
                                        bool(binding.exact))
            self._memory = Memory(compiled.plan, compiled.spaces, shared.arenas)
        self._floating_point = nullcontext if lacks_compiler() else denormals
        self.modes = Modes(Mode(), Mode())
        self.bound: BoundGraph | None = None
        self._checks: Sequence[StepWatcher] = ()
        self.watchers: list[StepWatcher] = []
        self._written: dict[bool, list[int]] = {}
        self._backward_runs: int | None = None
        self._other: tuple[BoundGraph | None, Sequence[StepWatcher], list[NDArray],
                           dict[int, DeviceArray]] | None = None
        self._kept: list[tuple[Device, DeviceArray, DeviceArray]] = []
        self.outputs: list[NDArray] = []
        self._output_names = binding.symbol.list_outputs()
        self.materialize()

    def _external_arrays(self) -> tuple[dict[int, NDArray], dict[int, DeviceArray]]:
        """Head gradients by position of the output, and the memory of all external entries."""
        compiled, arrays = self.compiled, {**self.binding.args, **self.binding.aux}
        heads, external = {}, {}
        positions = {id(node): position for position, node in enumerate(compiled.heads)}
        for node in compiled.graph.variables:
            eid = compiled.graph.output_eids(node)[0]
            if id(node) in positions:
                ctx = compiled.devices[eid]
                head = heads[positions[id(node)]] = NDArray(
                    device_of(ctx).empty(*compiled.specs[eid]), ctx)
                external[eid] = head._data
            else:
                external[eid] = arrays[node.name]._data
        for eid, name in compiled.gradients.items():
            external[eid] = self.binding.grads[name]._data
        return heads, external

    def materialize(self) -> BoundGraph:
        """Turn the plan into arrays and the nodes into functions."""
        compiled = self.compiled
        with explained(self.binding.inferred):
            self._memory.reserve(self)
        bound = self.bound = BoundGraph(compiled, self._memory, self._external, self.modes,
                                         self.states)
        shown = compiled.graph.output_ids[:len(self.binding.inferred.graph.outputs)]
        self._checks = checks(bound, set(shown) - set(compiled.external))
        results = [NDArray(bound.arrays[eid], compiled.devices[eid]) for eid in shown]
        for old, new in zip(self.outputs, results, strict=False):
            old._data = new._data
        self.outputs = self.outputs or results
        return bound

    def debug_str(self, first: str | None = None) -> str:
        """Describe the plan; `first` says which form runs at first, if that is not this one."""
        if lacks_compiler():
            first = "Runs NumPy forms, node by node: there is no compiler"
        notes = [getattr(watcher, "notes", {}) for watcher in self.watchers]
        return debug_str(self.compiled, self.binding.symbol.list_outputs(), first, notes)

    def renew_outputs(self) -> None:
        """Leave the arrays in `outputs` to those who have them, and make new ones."""
        self._memory.renew()
        self.outputs, self._other = [], None
        self._written.clear()
        self._backward_runs, self._kept = None, []  # what it reads of outputs is in older arrays
        self.materialize()

    def exchange_outputs(self) -> None:
        """Leave the arrays in `outputs` alone until the next exchange, and have those of the last
        one again; the first makes new ones."""
        present = self.bound, self._checks, self.outputs, self._memory.held
        if (other := self._other) is None:
            self.renew_outputs()
        else:
            self.bound, self._checks, self.outputs, self._memory.held = other
            self._written.clear()
            self._backward_runs, self._kept = None, []
        self._other = present

    def release(self) -> None:
        """Release the memory for intermediate results; the next run allocates it again."""
        self.bound, self._checks, self._kept, self._other = None, (), [], None

    def forward(self, is_train: bool, observers: Sequence[StepWatcher] = ()) -> None:
        """Compute the outputs; `observers` see the steps, too."""
        for constants in self.constants:
            if constants.stale:
                with self._floating_point(bool(self.binding.exact)):     # as if they were steps
                    constants.refresh()
        self.modes.current.is_train = self.modes.recomputed.is_train = is_train
        self._backward_runs, self._kept = None, []
        self.run(0, self.compiled.num_forward, observers)
        self._backward_runs = 0

    def backward(self, out_grads: NDArray | Arrays | None, is_train: bool,
                 observers: Sequence[StepWatcher] = ()) -> None:
        """Compute the gradients of the last forward pass."""
        if not self.compiled.heads:
            return
        self._require_values()
        if self._backward_runs:
            self._restore()
            self._kept = []
        if self._head_arrays or out_grads is not None:
            load_head_gradients(self._head_arrays, self._output_names, out_grads)
        self.modes.current.is_train = is_train
        self._backward_runs = 1     # also if it fails
        self.run(self.compiled.num_forward, len(self.compiled.nodes), observers)

    def retain(self) -> None:
        """Copy what the next backward pass is going to overwrite, so that another may follow."""
        compiled = self.compiled
        if not compiled.heads:
            return
        self._require_values()
        if self._backward_runs:
            self._restore()
        elif not self._kept:
            bound = self.bound or self.materialize()
            for eid in compiled.overwritten:
                array, device = bound.arrays[eid], device_of(compiled.devices[eid])
                self._kept.append((device, array, device.empty(*compiled.specs[eid])))
                device.copy(array, self._kept[-1][2])

    def _restore(self) -> None:
        """Write the copies back."""
        for device, array, copy in self._kept:
            device.copy(copy, array)
        self._backward_runs = 0

    def run(self, first: int, last: int, observers: Sequence[StepWatcher] = ()) -> None:
        """Call the steps from `first` to `last`."""
        bound = self.bound or self.materialize()
        self._memory.own(self)
        try:
            # Infinity and NaN are results, not events.
            with self._floating_point(bool(self.binding.exact)), np.errstate(all="ignore"):
                if self._checks or self.watchers or observers:
                    run_watched([*self._checks, *self.watchers, *observers], bound, first, last)
                else:
                    run_steps(bound, first, last)
        finally:
            if mutation.is_watched():
                mutation.written_owners(self._written_owners(bound, self.modes.current.is_train))

    def _written_owners(self, bound: BoundGraph, is_train: bool) -> list[int]:
        """Owners of the memory that a run writes to and others may read: found when asked."""
        if is_train not in self._written:
            graph = self.compiled.graph
            writers = [node for node in self.compiled.nodes
                       if node.op and node.op.writes_aux(is_train)]
            read = {eid for node in writers for eid in graph.input_eids(node)}
            eids = read.intersection(self.compiled.external).union(graph.output_ids)
            self._written[is_train] = [id(mutation.owner(bound.arrays[eid])) for eid in eids]
        return self._written[is_train]

    def _require_values(self) -> None:
        """The results of forward that backward reads must still be in memory."""
        again = "call forward(is_train=True) again before backward"
        if self._backward_runs is None:
            raise MXNetError("backward: call forward(is_train=True) first")
        if not self._memory.is_owned_by(self):
            raise MXNetError("backward: another executor that shares this one's memory was bound "
                             f"or ran since forward, so its intermediate results are lost; {again}")
        if self._backward_runs and self.compiled.overwritten and not self._kept:
            raise MXNetError("backward: intermediate results are overwritten once they are no "
                             f"longer needed, so it runs once for each forward; {again}")
