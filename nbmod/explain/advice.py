"""Advice: what to change in a network, or in how it is bound, and what that changes in its plan.

Every advice is computed with the plan that there would be (`what_if`), or from bytes of steps that
would go.  The best comes first: the share of memory or time that goes, less that which comes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from ..base import MXNetError
from ..core.reprs import aligned
from ..execution.pipeline import CompiledGraph
from .schema import Advice, BindFacts, EntryFacts, RemarkFacts, StepFacts, StorageFacts, Variant
from .what_if import MIRROR, WhatIf, variant_of
from .wording import Answer, listed

__all__ = ["advice_answer", "advice_on"]

LEAST = 0.01
"""Advice that changes less of everything is left out."""
CANDIDATES = 3
"""Kinds of nodes to recompute, and steps to run earlier, whose plans are computed."""
SHOWN = 5
"""Advice that is told."""
BALANCE = 10
"""Operations in the time of a byte from memory, on most machines: where nothing was measured."""
FED = frozenset({"data", "label"})
"""Inputs of operators that are fed, not trained."""
FUSES = frozenset({"fuse_elementwise", "fuse_epilogue", "fuse_depthwise", "fuse_int8",
                   "fold_batch_norm"})
"""Passes that join a node with the one before."""
INTO, FROM = "_into_blocks", "_from_blocks"


def advice_on(facts: BindFacts, what_if: WhatIf) -> list[Advice]:
    """All advice on a plan, the best first."""
    advisor = _Advisor(facts, what_if)
    every = [each for each in advisor.all() if min(advisor.shares(each)) <= -LEAST]
    return sorted(every, key=lambda each: min(advisor.shares(each))
                  + max(0, *advisor.shares(each)))


def advice_answer(facts: BindFacts) -> Answer:
    """The best advice as a table, with the reasons and what to change below each line."""
    every = facts.advice or ()
    if not every:
        return Answer("no advice: nothing known would change the plan by 1%", {"advice": []})
    shown = every[:SHOWN]
    rows = [["", "advice", "ms", "MB", "MB moved", "steps"]]
    for number, each in enumerate(shown, 1):
        rows.append([f"{number}.", f"{each.kind}: {each.subject}",
                     "" if each.seconds is None else f"{each.seconds * 1e3:+,.3f}",
                     f"{each.total / 1e6:+,.2f}", f"{each.nbytes / 1e6:+,.2f}",
                     f"{each.steps:+}"])
    head, *lines = aligned(rows, range(2))
    told = [head]
    for line, each in zip(lines, shown, strict=True):
        told += [line, f"    because {each.reason}", f"    change: {each.change}"]
    if len(every) > SHOWN:
        told.append(f"and {len(every) - SHOWN} more")
    return Answer("\n".join(told), {"advice": [
        {"kind": each.kind, "subject": each.subject, "bytes": each.total, "nbytes": each.nbytes,
         "steps": each.steps, "seconds": each.seconds} for each in every]})


def _work(figures: Advice | Variant) -> int:
    """Operations and bytes as one number."""
    return figures.operations + BALANCE * figures.nbytes


class _Advisor:
    """A network with the facts of its plan, and kinds of advice on it."""

    def __init__(self, facts: BindFacts, what_if: WhatIf):
        self.facts, self.what_if, self.plan = facts, what_if, facts.plan
        steps = facts.plan.steps
        self.now = Variant("", facts.plan.memory.total, sum(not step.is_view for step in steps),
                           sum(step.operations for step in steps),
                           sum(step.nbytes for step in steps))

    def all(self) -> Iterator[Advice]:
        """Advice of all kinds, in no order."""
        if self.facts.network.training:
            yield from self.unread_gradients()
            yield from self.recomputation()
        yield from self.earlier_reads()
        yield from self.layouts()
        yield from self.fusions()
        yield from self.slow_steps()

    def shares(self, advice: Advice) -> tuple[float, float]:
        """The changes of memory and of time, as shares of all."""
        if advice.seconds is not None and self.facts.measured:
            time = advice.seconds / sum(each.seconds for each in self.facts.measured.steps)
        else:
            time = _work(advice) / max(_work(self.now), 1)
        return advice.total / max(self.now.total, 1), time

    # -- kinds of advice ----------------------------------------------------------------------

    def unread_gradients(self) -> Iterator[Advice]:
        """Gradients of data and labels, which default requests ask for."""
        fed = self._fed() & self.facts.network.requests.keys()
        if not fed:
            return
        names = sorted(fed)
        after = self.what_if.requested(dict.fromkeys(names, "null"))
        yield self._advice(
            "unread gradient", ", ".join(names), f"nobody needs gradients of {listed(names)}, "
            "which are no parameters",
            'grad_req={**dict.fromkeys(net.list_arguments(), "write"), '
            + ", ".join(f'"{name}": "null"' for name in names) + "}",
            [node for node in self.facts.graph if self.facts.nodes[node].name in fed], after)

    def recomputation(self) -> Iterator[Advice]:
        """Tensors that the backward pass could compute again."""
        if self.what_if.options.mirror:
            return
        waiting = self._kept_for_backward()
        nodes = {op: [node for node in self.facts.graph if self.facts.nodes[node].op == op]
                 for op, _ in waiting.most_common(CANDIDATES)}
        for op, numbers in nodes.items():
            names = [self.facts.nodes[node].name for node in numbers]
            yield self._advice(
                "recompute", op, f"at the peak, {waiting[op]:,} bytes wait for the backward pass, "
                f"which {op} can compute again",
                f'with mx.AttrScope(force_mirroring="True"): around {listed(names, 3)}', numbers,
                self.what_if.mirrored(names))
        if waiting:
            yield self._advice(
                "recompute", "cheap nodes", f"at the peak, {sum(waiting.values()):,} bytes wait "
                "for the backward pass", "MXNET_BACKWARD_DO_MIRROR=1", [],
                self.what_if.variant(MIRROR))

    def earlier_reads(self) -> Iterator[Advice]:
        """Steps that keep a tensor alive at the peak, and could have run before."""
        peak, candidates = self.plan.memory.peak_step, []
        for sid, storage in enumerate(self.plan.storages):
            keeper = storage.keeper
            if peak is None or keeper.step is None or keeper.entry is None or not (
                    storage.first <= peak <= storage.last):
                continue
            place = self._earliest(keeper.step)
            if place < keeper.step and self.plan.steps[keeper.step].phase == "forward":
                candidates.append((storage.nbytes, sid, keeper.step, keeper.entry, place))
        if self.what_if.compiled.subgraphs:
            return
        for nbytes, _, index, eid, place in sorted(candidates, reverse=True)[:CANDIDATES]:
            step = self.plan.steps[index]
            yield self._advice(
                "read earlier", step.name, f"{step.name}, step {index}, is the last to read "
                f"{self.plan.entries[eid].name} ({nbytes:,} bytes), and could be step {place}",
                f"let the network reach {step.name} first: as the first output of mx.sym.Group, or "
                "the first operand of what joins it", self._origins(step),
                self.what_if.moved(index, place))

    def layouts(self) -> Iterator[Advice]:
        """Steps between two reorders of their tensors, out of blocks and into them."""
        steps, entries = self.plan.steps, self.plan.entries
        for index, step in enumerate(steps):
            before = [producer for eid in step.reads
                      if (producer := entries[eid].producer) is not None
                      and steps[producer].op == FROM and entries[eid].readers == [index]]
            after = [reader for eid in step.writes if eid is not None
                     for reader in entries[eid].readers if steps[reader].op == INTO]
            if before and after:
                gone = [steps[each] for each in (*before, *after)]
                nbytes = sum(each.nbytes for each in gone)
                yield Advice(
                    "layout", step.name, f"{step.name} ({step.op}) has no form for blocks of "
                    f"channels: {listed(each.name for each in gone)} reorder what it reads and "
                    "writes", f"move {step.name} before the first or behind the last convolution",
                    self._origins(step), 0, -len(gone), 0, -nbytes, self._seconds(0, -nbytes))

    def fusions(self) -> Iterator[Advice]:
        """Nodes that are not fused with the one before, for its result is read elsewhere, too."""
        for remark, entry, source in self._unfused()[:CANDIDATES]:
            try:
                after = self.what_if.read_once(remark.name, source, entry.output)
            except (KeyError, MXNetError):      # a pass has added one of the two
                continue
            readers = remark.evidence.get("readers", [])
            others = [str(each["name"]) for each in readers if isinstance(each, Mapping)
                      and each["name"] != remark.name] if isinstance(readers, Sequence) else []
            yield self._advice(
                "fuse", remark.name, f"{remark.pass_name} needs: {remark.rule}; {entry.name}, "
                f"{entry.nbytes:,} bytes, is "
                f"{f'read by {listed(others)}' if others else 'an output'}, too (rule at "
                f"nbmod/{remark.where})", f"let {listed(others)} read {remark.name} instead of "
                f"{entry.name}" if others else f"leave {entry.name} out of the outputs",
                [] if remark.node is None else [remark.node], after)

    def _unfused(self) -> list[tuple[RemarkFacts, EntryFacts, str]]:
        """Remarks about nodes that read what others do, too; that entry, and the name of its node.

        The largest come first.
        """
        entries: dict[tuple[object, object], EntryFacts] = {
            (each.node, each.output): each for each in self.plan.entries}
        unfused = []
        for remark in self.facts.remarks:
            source = remark.evidence.get("input")
            if remark.verdict == "refused" and remark.pass_name in FUSES and (
                    isinstance(source, Mapping)):
                entry = entries.get((source["node"], source.get("output", 0)))
                if entry is not None and (entry.is_output or "readers" in remark.evidence):
                    unfused.append((remark, entry, str(source["name"])))
        return sorted(unfused, key=lambda each: -each[1].nbytes)

    def slow_steps(self) -> Iterator[Advice]:
        """Measured steps that are far from their roofs."""
        for each in self.facts.measured.steps if self.facts.measured else ():
            if each.share is None or each.share >= 1:
                continue
            step = self.plan.steps[each.step]
            choice = step.implementation
            others = [] if choice is None else [
                one.name for one in choice.rejected if one.cost is not None]
            yield Advice(
                "slow step", step.name, f"step {each.step} reaches {each.share:.0%} of the "
                f"{each.roof} in {each.seconds * 1e3:,.3f} ms",
                f"bind it in `with mx.tuning():`, which measures {listed(others)}, too" if others
                else f"`explanation.reproducer({each.step})`, or `--reproduce {each.step}`, "
                "isolates it", self._origins(step),
                0, 0, 0, 0, -each.seconds * (1 - each.share))

    # -- what they need -----------------------------------------------------------------------

    def _advice(self, kind: str, subject: str, reason: str, change: str, nodes: Sequence[int],
                after: CompiledGraph | Variant) -> Advice:
        """Advice with the differences of another plan."""
        then = after if isinstance(after, Variant) else variant_of(after)
        operations = then.operations - self.now.operations
        nbytes = then.nbytes - self.now.nbytes
        return Advice(kind, subject, reason, change, nodes, then.total - self.now.total,
                      then.steps - self.now.steps, operations, nbytes,
                      self._seconds(operations, nbytes))

    def _seconds(self, operations: int, nbytes: int) -> float | None:
        """The time of operations at the peak, and of bytes from memory."""
        roofs = self.facts.measured
        return None if roofs is None else (operations / roofs.operations["float32"]
                                           + nbytes / roofs.bandwidths["memory"])

    def _fed(self) -> set[str]:
        """Arguments that all readers take as data or label."""
        uses: dict[str, set[str]] = {}
        for node in self.what_if.symbol.graph.nodes:
            if node.op is not None:
                for (source, _), name in zip(node.inputs, node.op.list_inputs(), strict=True):
                    if source.is_variable:
                        uses.setdefault(source.name, set()).add(name)
        return {name for name, inputs in uses.items() if inputs <= FED}

    def _kept_for_backward(self) -> Counter[str]:
        """Bytes at the peak that wait for the backward pass, by operator of the symbol."""
        peak, waiting = self.plan.memory.peak_step, Counter[str]()
        for storage in self.plan.storages:
            keeper = storage.keeper
            if peak is None or keeper.step is None or keeper.entry is None:
                continue
            if storage.first <= peak <= storage.last and self._is_kept(storage):
                entry = self.plan.entries[keeper.entry]
                for node in self.facts.nodes[entry.node].origins:
                    waiting[self.facts.nodes[node].op] += storage.nbytes
        return waiting

    def _is_kept(self, storage: StorageFacts) -> bool:
        first, last = (self.plan.steps[index] for index in (storage.first, storage.last))
        return (first.phase, last.phase) == ("forward", "backward")

    def _earliest(self, index: int) -> int:
        """The first place of a step: after those whose results it reads."""
        producers = (self.plan.entries[eid].producer for eid in self.plan.steps[index].reads)
        return max((each + 1 for each in producers if each is not None), default=0)

    def _origins(self, step: StepFacts) -> list[int]:
        return [*self.facts.nodes[step.node].origins]
