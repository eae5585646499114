"""Compiled graphs in memory: an array for every entry, and a function for every node.

`BoundGraph` turns a plan into arrays and nodes into functions without arguments, once; a run calls
these functions in order (`run_steps`).  Nothing is inferred, allocated or decided while it runs.
A *watcher* sees every step from outside: a monitor, the profiler, the sanitizer (`run_watched`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from ..base import MXNetError, OutOfMemory
from ..graph import Entry, Node
from ..interrupts import from_handler
from ..ops.device import Device, device_of
from ..ops.internal import CrossDeviceCopy
from ..ops.numpy_forms import prepare_numpy_form
from ..ops.op import Call, Mode
from ..passes.memory.plan_step import NONE
from .arena import BlockMemory, DeviceArray, Memory, piece_of
from .pipeline import CompiledGraph, CompiledSubgraph
from .sanitizer import checks

__all__ = ["BoundGraph", "BoundSubgraph", "Modes", "Step", "StepWatcher", "run_steps",
           "run_watched"]


EntryArray: TypeAlias = Any  # type: ignore[explicit-any]
"""The `DeviceArray` of an entry; None if it is not computed.  Any: readers of a step's arrays know
that they are computed, and on which device."""


@dataclass
class Step:
    """One node, ready to run.  `run` is None for a view: its output is its input's memory."""

    node: Node
    run: Callable[[], None] | None
    ins: list[DeviceArray | None]
    outs: list[DeviceArray | None]


class Modes(NamedTuple):
    """Whether nodes work as in training, at present."""

    current: Mode
    recomputed: Mode
    """Of forward nodes that the backward pass computes again: that of the forward pass."""


States = dict[int, dict[str, object]]
"""What nodes keep between runs, by `id` of the symbol's node."""


class BoundGraph:
    """A compiled graph in memory.

    Parameters
    ----------
    compiled : CompiledGraph
        What to run.
    memory : Memory or BlockMemory
        The memory that its plan describes.
    arrays : mapping of int to array
        The memory of external entries.
    modes : Modes
        Looked at by the steps in every run.
    states : dict
        What nodes keep between runs.
    numpy_forms : bool, default False
        Whether nodes run with NumPy instead of kernels.

    Attributes
    ----------
    arrays : list
        The array of every entry; None for entries that are not computed.
    steps : list of Step
        One for each node.
    calls : list of callable or None
        What a run calls: the functions of the steps, joined where their device can do that.
    """

    def __init__(self, compiled: CompiledGraph, memory: Memory | BlockMemory,
                 arrays: Mapping[int, DeviceArray], modes: Modes, states: States,
                 numpy_forms: bool = False):
        self.compiled, self.memory, self.modes, self._states = compiled, memory, modes, states
        self._numpy_forms = numpy_forms
        self.arrays: list[EntryArray] = [arrays.get(eid)
                                         for eid in range(compiled.graph.num_entries)]
        for step in compiled.plan_steps:
            for eid in step.outputs:
                if eid != NONE and self.arrays[eid] is None:
                    self.arrays[eid] = self._allocate(eid)
        self.steps = [self._prepare(index) for index in range(len(compiled.nodes))]
        self.calls = device_of(compiled.spaces[0]).capture([step.run for step in self.steps],
                                                           compiled.num_forward)

    def _allocate(self, eid: int) -> DeviceArray:
        """The memory of one planned entry."""
        compiled, plan = self.compiled, self.compiled.plan
        spec, piece = compiled.specs[eid], plan.pieces.get(eid)
        if eid not in plan.view_of:
            return self.memory.array(plan.storage[eid], spec, piece)
        source = self.arrays[plan.view_of[eid]]
        if piece is None:
            return source.reshape(spec.shape)
        return piece_of(device_of(compiled.devices[eid]), source, 0, spec, piece)

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
        if compiled.is_idle(node):
            return Step(node, None, ins, outs)
        if op.view or isinstance(op, CrossDeviceCopy):
            return Step(node, partial(device.copy, ins[0], outs[0].reshape(ins[0].shape)),
                        ins, outs)
        workspace = [self.memory.array(sid, spec) for sid, spec
                     in zip(plan.scratch[index], compiled.workspaces[index], strict=True)]
        call = Call(self.modes.recomputed if node.recomputes else self.modes.current, workspace,
                    tuple(eid in plan.add or eid in compiled.accumulated for eid in step.outputs),
                    compiled.output_specs(node), ctx,
                    self._states.setdefault(id(compiled.origin(node)), {}))
        if index in compiled.subgraphs:
            call.subgraphs = [partial(BoundSubgraph, subgraph, block, call) for subgraph, block
                           in zip(compiled.subgraphs[index], workspace, strict=True)]
            return Step(node, op.prepare(ins, outs, call), ins, outs)
        if compiled.lacks_elements:
            return Step(node, self._prepare_eagerly(node, ins, outs, call), ins, outs)
        prepare = prepare_numpy_form if self._numpy_forms else device.prepare
        return Step(node, prepare(op, ins, outs, call), ins, outs)

    def _prepare_eagerly(self, node: Node, ins: list[DeviceArray | None],
                         outs: list[EntryArray], call: Call) -> Callable[[], None]:
        """The function of a node in a graph some of whose arrays have no elements, for which no
        kernels are made."""
        device = device_of(self.compiled.context_of(node))
        if self.compiled.has_zero_gradients(node):
            written = zip(outs, call.add, strict=True)
            return partial(_write_zeros, device,
                           [out for out, add in written if not (out is None or add)])
        return partial(device.run, node.required_op, ins, outs, call)

    def located(self, index: int, error: Exception) -> Exception:
        """`error` with the name of the node that it came from."""
        compiled, node = self.compiled, self.compiled.nodes[index]
        if isinstance(error, MXNetError) and str(error).startswith(node.name):
            return error
        shapes = ", ".join(str(spec.shape) for spec in compiled.input_specs(node))
        kind = OutOfMemory if isinstance(error, MemoryError) else MXNetError
        return kind(f"{node.describe()}: {error} [input shapes: {shapes}]")


def _write_zeros(device: Device, arrays: Sequence[DeviceArray]) -> None:
    for array in arrays:
        device.copy(np.zeros((), array.dtype), array)


Noted: TypeAlias = Any  # type: ignore[explicit-any]
"""What `before` hands to `after`.  Any: of a type that only the watcher knows."""


class StepWatcher(Protocol):
    """What sees every step from outside."""

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
