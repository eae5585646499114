"""The programs of bodies: what runs a graph that a node runs (see `ops.body`).

A body program is planned when its node's executor is bound and lives in one block of scratch memory
of that node: first what its own plan needs, then an array for every entry that the node gives it or
takes from it, apart from those that it lends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from ..config import CONFIG
from ..context import Context
from ..graph import Entry, Node
from ..ops.device import device_of
from ..ops.op import Call, Spec
from ..ops.subgraph import Part
from ..passes.infer import infer_shape, infer_type, require_static
from ..passes.memory.plan import ALIGNMENT, plan_memory
from ..passes.switches import is_enabled
from .arena import Block
from .sanitizer import Sanitizer, check_arrays
from .steps import Program

__all__ = ["Body", "body_programs"]


def body_programs(parts: Iterable[Part], ctx: Context) -> list[Body]:
    """A program on `ctx` for each part."""
    return [Body(part, ctx) for part in parts]


class Body(Program):
    """One part of a body as a program: from what is given to what is wanted."""

    def __init__(self, part: Part, ctx: Context):
        self.part, self.ctx, self.graph = part, ctx, part.body.graph
        require_static(self.graph)
        self.specs = self._infer()
        self.context = [ctx] * self.graph.num_entries
        self.ends = [self.graph.eid(entry) for entry in part.wanted]
        given = {*part.given, *part.lent} - {*part.wanted}
        self.computed = _between(part.wanted, given, self.graph.nodes)
        self._require_support()
        read = {entry for node in self.computed for entry in node.inputs}
        used = dict.fromkeys(entry for entry in (*part.given, *part.lent, *part.wanted)
                             if entry in read or entry in part.wanted)
        self.external = {self.graph.eid(entry) for entry in used}
        wanted = self._wanted()
        self.bodies = self._bodies(wanted)
        self.scratch = [self._scratch(*computed) for computed in enumerate(self.computed)]
        self.spaces = [ctx]
        self.plan_steps = self._plan_steps(wanted)
        self.plan = plan_memory(self.plan_steps, [spec.nbytes for spec in self.specs],
                                set(self.external), reuse=is_enabled("reuse_memory"))
        self.offsets, self.nbytes = self._lay_out([e for e in used if e not in part.lent])
        self.added = {self.graph.eid(entry) for entry in part.added}

    def _infer(self) -> list[Spec]:
        """Of every entry: forward decides, then heads and gradients follow."""
        body, facts = self.part.body, []
        rules: tuple[tuple[Any, list], ...] = (
            (infer_shape, [spec.shape for spec in self.part.specs]),
            (infer_type, [spec.dtype for spec in self.part.specs]))
        for rule, values in rules:
            known: dict[Any, Any] = dict(zip(body.variables, values, strict=True))
            found = rule(body.forward, known)
            known |= {Entry(head): found[body.forward.eid(entry)]
                      for head, entry in zip(body.heads, body.outputs, strict=False)}
            facts.append(rule(body.graph, known, found))
        return list(map(Spec, *facts))

    def _lay_out(self, entries: Sequence[Entry]) -> tuple[dict[int, int], int]:
        """Where in the block the arrays of these entries are, and the size of the block."""
        offsets, end = {}, self.plan.arena.get(0, 0)
        for entry in entries:
            eid = self.graph.eid(entry)
            offsets[eid] = end
            end += -(-self.specs[eid].nbytes // ALIGNMENT) * ALIGNMENT
        return offsets, end

    # -- running ----------------------------------------------------------------------------

    def bind(self, block: Any, call: Call, lent: Mapping[Entry, Any]) -> Body:
        """Take memory, and run in the mode of `call`; `lent` are the arrays of the node itself."""
        self.mode = self.forward_mode = call.mode
        self._states = {} if call.state is None else call.state.setdefault("bodies", {})
        self.memory = memory = Block(self.plan, device_of(self.ctx), block)
        arrays = self.arrays = [None] * self.graph.num_entries
        for entry, array in lent.items():
            arrays[self.graph.eid(entry)] = array
        for eid, offset in self.offsets.items():
            arrays[eid] = memory.view(offset, self.specs[eid])
        self._take(arrays)
        self.steps = [self._prepare(*computed) for computed in enumerate(self.computed)]
        calls = device_of(self.ctx).join([step.run for step in self.steps], len(self.steps))
        if CONFIG.check:
            check_arrays(self, ())
        if CONFIG.check > 1:
            sanitizer = Sanitizer(self)
            calls = [partial(sanitizer.run, index) for index in range(len(calls))]
        self._calls = [(index, call) for index, call in enumerate(calls) if call is not None]
        return self

    def array(self, entry: Entry) -> Any:
        """Where a given value goes, or a wanted result is found; None if nothing reads it."""
        return self.arrays[self.graph.eid(entry)]

    def run(self) -> None:
        """Compute what is wanted from what is given."""
        index = 0
        try:
            for index, run in self._calls:  # noqa: B007  # the error below names it
                run()
        except Exception as error:
            raise self._located(index, error) from error

    def place(self, eid: int) -> str:
        if eid in self.offsets:
            return f"{self.offsets[eid]}+{self.specs[eid].nbytes}"
        return "node's" if eid in self.external else ""

    def _adds(self, eid: int) -> bool:
        return eid in self.added


def _between(wanted: Iterable[Entry], given: set[Entry], nodes: Sequence[Node]) -> list[Node]:
    """The nodes, in order, that have to run to get what is wanted from what is given."""
    waiting, needed = [entry for entry in wanted], set()
    while waiting:
        entry = waiting.pop()
        if entry not in given and id(entry.node) not in needed:
            needed.add(id(entry.node))
            waiting += entry.node.inputs
    return [node for node in nodes if id(node) in needed and not node.is_variable]
