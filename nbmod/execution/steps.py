"""Programs: the nodes of a graph as steps in planned memory.

What an executor and the body of a loop have in common.  A subclass finds out about its graph
(`shape`, `dtype` and `context` of every entry, which of them are `external`, that is, have memory
of their own) and calls the methods here one after another:

    bodies       the programs of nodes that run graphs of their own
    scratch      what every node wants beside its outputs
    plan_steps   the graph as the planner sees it
    _prepare     a node on its arrays: a function without arguments
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base import MXNetError, OutOfMemory
from ..context import Context
from ..graph import Graph, Node
from ..ops.device import device_of
from ..ops.internal import CrossDeviceCopy
from ..ops.op import Backward, Call, Mode, Spec
from ..passes.memory.plan import Plan
from ..passes.memory.plan_step import NONE, PlanStep
from ..passes.switches import is_enabled
from .arena import Storages, piece_of

if TYPE_CHECKING:
    from .subgraph_executor import Body

__all__ = ["Program", "Step"]


@dataclass
class Step:
    """One node, ready to run.  `run` is None for a view: its output is its input's memory."""

    node: Node
    run: Callable[[], None] | None
    ins: list[Any]
    outs: list[Any]


class Program:
    """The computed nodes of a graph, on their way to steps."""

    graph: Graph
    computed: list[Node]
    specs: list[Spec]
    context: list[Context]
    external: Collection[int]
    ends: Collection[int]
    """Entries that somebody outside wants."""
    spaces: list[Context]
    bodies: Mapping[int, Sequence[Body]]
    """By step, the programs that it runs."""
    scratch: list[list[Spec]]
    plan_steps: list[PlanStep]
    plan: Plan
    memory: Storages
    arrays: list[Any]
    steps: list[Step]
    mode: Mode
    forward_mode: Mode
    _states: dict[int, dict[str, Any]]

    def _require_support(self) -> None:
        """One MXNetError for all nodes that their device cannot execute."""
        lacking: dict[Context, list[Node]] = {}
        for node in self.computed:
            ctx, op = self._context_of(node), node.required_op
            if not (op.runs_bodies or isinstance(op, CrossDeviceCopy)
                    or device_of(ctx).supports(op)):
                lacking.setdefault(ctx, []).append(node)
        for ctx, missing in lacking.items():
            listed = ", ".join(node.describe() for node in missing[:20])
            more = f" and {len(missing) - 20} more" if len(missing) > 20 else ""
            raise MXNetError(f"bind: {ctx} has no kernels yet for {listed}{more}; bind to "
                             "mx.cpu(), or put these nodes in a ctx_group on mx.cpu()")

    def _context_of(self, node: Node) -> Context:
        return self.context[self.graph.output_eids(node)[0]]

    def _wanted(self) -> set[int]:
        """Entries that have to be computed; the first output of a forward node always is."""
        read = {eid for node in self.computed for eid in self.graph.input_eids(node)}
        return read | set(self.ends) | set(self.external) | {
            self.graph.output_eids(node)[0] for node in self.computed
            if not isinstance(node.op, Backward)}

    def _bodies(self, wanted: Collection[int]) -> Mapping[int, Sequence[Body]]:
        from .subgraph_executor import (
            body_programs,  # bodies are programs, and programs have bodies
        )

        bodies = {}
        for index, node in enumerate(self.computed):
            ins, outs, op = self.graph.input_eids(node), self.graph.output_eids(node), node.op
            if op is not None and op.runs_bodies:
                parts = op.body_parts([self.specs[e] for e in ins], [e in wanted for e in outs])
                bodies[index] = body_programs(parts, self._context_of(node))
        return bodies

    def _plan_steps(self, wanted: Collection[int]) -> list[PlanStep]:
        """The graph as the planner sees it: integers only."""
        space = {ctx: number for number, ctx in enumerate(self.spaces)}
        steps = []
        for node, scratch in zip(self.computed, self.scratch, strict=True):
            ins, outs = self.graph.input_eids(node), self.graph.output_eids(node)
            op = node.required_op
            steps.append(PlanStep(
                ins, tuple([eid if eid in wanted else NONE for eid in outs]),
                tuple(_inplace_positions(op)), tuple([spec.nbytes for spec in scratch]),
                view=op.view, accumulates=op.accumulates, sums=op.name == "_grad_add",
                space=space[self._context_of(node)], **self._side_by_side(node, ins, outs)))
        return _without_disabled(steps)

    def _side_by_side(self, node: Node, ins: Sequence[int], outs: Sequence[int]) -> dict[str, Any]:
        """What the planner may know of tensors that a node joins, cuts, or has in rows apart."""
        op, specs = node.required_op, self.specs
        known: dict[str, Any] = {}
        given = [specs[eid] for eid in ins], [specs[eid] for eid in outs]
        for name in ("joins", "cuts"):
            found = getattr(op, name)(*given)
            if found:
                size = specs[(outs if name == "joins" else ins)[0]].dtype.itemsize
                known = {"rows": found.number, name: tuple(size * at for at in found.offsets)}
        if (names := op.apart()) and self._context_of(node).device_type == "cpu":
            named = zip((*op.list_inputs(), *op.list_outputs()), (*ins, *outs), strict=True)
            known["apart"] = tuple(eid for name, eid in named if name in names)
        return known

    def _scratch(self, index: int, node: Node) -> list[Spec]:
        """The temporary arrays that a node wants on its device."""
        ins, outs = self.graph.input_eids(node), self.graph.output_eids(node)
        op = node.required_op
        if index in self.bodies:
            return [Spec((body.nbytes,), np.dtype(np.uint8)) for body in self.bodies[index]]
        if isinstance(op, CrossDeviceCopy):
            return []
        device = device_of(self._context_of(node))
        return device.scratch(op, [self.specs[e] for e in ins], [self.specs[e] for e in outs])

    def _take(self, arrays: list[Any]) -> None:
        """Give every planned entry its memory in `arrays`, where others have theirs already."""
        for step in self.plan_steps:
            for eid in step.outputs:
                if eid != NONE and arrays[eid] is None:
                    arrays[eid] = self._array(eid, arrays)

    def _array(self, eid: int, arrays: list[Any]) -> Any:
        """The memory of one planned entry."""
        spec, piece = self.specs[eid], self.plan.pieces.get(eid)
        if eid not in self.plan.view_of:
            return self.memory.array(self.plan.storage[eid], spec, piece)
        source = arrays[self.plan.view_of[eid]]
        if piece is None:
            return source.reshape(spec.shape)
        return piece_of(device_of(self.context[eid]), source, 0, spec, piece)

    def _prepare(self, index: int, node: Node) -> Step:
        step, op = self.plan_steps[index], node.required_op
        ins = [self.arrays[eid] for eid in step.inputs]
        outs = [None if eid == NONE else self.arrays[eid] for eid in step.outputs]
        if index in self.plan.views:
            return Step(node, None, ins, outs)
        device = device_of(self._context_of(node))
        if op.view or isinstance(op, CrossDeviceCopy):
            target = self.arrays[step.outputs[0]].reshape(ins[0].shape)
            return Step(node, partial(device.copy, ins[0], target), ins, outs)
        scratch = [self.memory.array(sid, spec) for sid, spec
                   in zip(self.plan.scratch[index], self.scratch[index], strict=True)]
        add = tuple(eid in self.plan.add or self._adds(eid) for eid in step.outputs)
        specs = [self.specs[eid] for eid in self.graph.output_eids(node)]
        mode = self.forward_mode if node.recomputes else self.mode
        call = Call(mode, scratch, add, specs, self._context_of(node), self._state_of(node))
        if index in self.bodies:
            call.bodies = [partial(body.bind, block, call) for body, block
                           in zip(self.bodies[index], scratch, strict=True)]
            return Step(node, op.prepare(ins, outs, call), ins, outs)
        return Step(node, device.prepare(op, ins, outs, call), ins, outs)

    def _state_of(self, node: Node) -> dict[str, Any]:
        """What the node, or the one on whose behalf it is there, keeps between runs."""
        return self._states.setdefault(id(node.source or node), {})

    def place(self, eid: int) -> str:
        """Where an entry is that is not planned, in words; "" for others."""
        raise NotImplementedError

    def _adds(self, eid: int) -> bool:
        """Whether what is computed for an entry is added to what is there."""
        raise NotImplementedError

    def _located(self, index: int, error: Exception) -> Exception:
        """`error` with the name of the node that it came from."""
        node = self.computed[index]
        if isinstance(error, MXNetError) and str(error).startswith(node.name):
            return error
        shapes = ", ".join(str(self.specs[eid].shape) for eid in self.graph.input_eids(node))
        kind = OutOfMemory if isinstance(error, MemoryError) else MXNetError
        return kind(f"{node.describe()}: {error} [input shapes: {shapes}]")


SHARING: dict[str, dict[str, Any]] = {
    "view": {"view": False}, "inplace": {"inplace": ()}, "accumulate": {"accumulates": False},
    "alias_concat": {"joins": ()}, "alias_slice": {"cuts": ()}}
"""Passes of the memory planner, and the steps that it sees when they are switched off."""


def _without_disabled(steps: list[PlanStep]) -> list[PlanStep]:
    """`steps` that allow less sharing where passes are switched off."""
    less = {key: value for name, fields in SHARING.items() if not is_enabled(name)
            for key, value in fields.items()}
    return [step._replace(**less) for step in steps] if less else steps


def _inplace_positions(op: Any) -> list[tuple[int, int]]:
    inputs, outputs = op.list_inputs(), op.list_outputs()
    return [(inputs.index(i), outputs.index(o)) for i, o in op.inplace
            if i in inputs and o in outputs]
