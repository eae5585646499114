"""Answers about a node: what became of it, and why a pass has left it as it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ..passes.switches import PASSES
from .node_history import Change, NodeHistory, joined_nodes
from .overview import is_rewired
from .schema import BindFacts, RemarkFacts
from .wording import (
    Answer,
    described_change,
    described_implementation,
    described_memory,
    described_node,
    described_place,
    described_remark,
    described_tensor,
    listed,
    step_label,
    step_title,
)

__all__ = ["why", "why_not"]


def why(history: NodeHistory, node: int) -> Answer:
    """Tell what passes made of a node, the step that computes it, and its memory."""
    facts, subject = history.facts, history.facts.nodes[node]
    changes, last = list(history.changes(node)), history.last(node)
    remarks = _remarks(history, node)
    lines = [f"{subject.name}: {described_node(subject)}, "
             + "; ".join(map(described_tensor, subject.outputs))]
    lines += (f"  {line}" for line in _pass_by_pass(facts, changes, remarks))
    steps = [index for index, step in enumerate(facts.plan.steps) if step.node == last]
    entries = [eid for eid, entry in enumerate(facts.plan.entries) if entry.node == last]
    if not facts.plan.entries:
        lines.append("no step computes it: the network is not bound")
    elif last is None:
        lines.append("no step computes it: nothing reads its result")
    elif not subject.op:
        lines += _variable(facts, subject.name, entries)
    elif steps:
        lines.append(f"computed by {step_title(facts.plan, steps[0])}")
        lines += (f"  {line}" for line in
                  described_implementation(facts.plan.steps[steps[0]].implementation))
        lines += (f"  memory of {facts.plan.entries[eid].name}: "
                  f"{described_memory(facts.plan, eid)}" for eid in entries
                  if facts.plan.entries[eid].kind != "unread")
    else:
        lines.append(f"its result is {facts.nodes[last].name}, "
                     f"{described_memory(facts.plan, entries[0])}")
    return Answer("\n".join(lines), {
        "node": node, "name": subject.name, "final": last, "step": steps[0] if steps else None,
        "entries": entries, "remarks": [facts.remarks.index(each) for each in remarks],
        "changes": [{"pass": each.change.name, "before": each.before, "after": each.after}
                    for each in changes]})


def _variable(facts: BindFacts, name: str, entries: Sequence[int]) -> Iterator[str]:
    """Who reads an array of the caller, and what becomes of its gradient."""
    for eid in entries:
        readers = facts.plan.entries[eid].readers
        yield f"read by {listed(step_label(facts.plan, index) for index in readers)}"
    request = facts.network.requests.get(name)
    yield f"gradient: {request or 'none'}"


def _pass_by_pass(facts: BindFacts, changes: Iterable[Change], remarks: Sequence[RemarkFacts]
                  ) -> Iterator[str]:
    """The changes, with the remarks of the passes, in the order in which passes ran."""
    by_pass = {change.change.name: text for change in changes if (text := _change(facts, change))}
    told = {each.pass_name for each in remarks}
    order = [each.name for each in facts.passes] + [name for name in PASSES if name in told]
    for name in dict.fromkeys([*order, *told]):
        yield from (f"{name}: {line}" for line in _decisions(
            by_pass.get(name), [each for each in remarks if each.pass_name == name]))


def _decisions(change: str | None, remarks: Iterable[RemarkFacts]) -> Iterator[str]:
    """The change of a node by a pass with the rule that did it, and what else the pass remarks."""
    for each in remarks:
        if change and each.verdict == "done":
            yield f"{change}: {each.rule}; {described_place(each)}"
            change = ""
        elif change is None or each.verdict == "refused":
            yield described_remark(each)
    if change:
        yield change


def _change(facts: BindFacts, change: Change) -> str:
    """A change in words; empty where the node only reads others than before."""
    if change.after is None:
        return "removed"
    after = facts.nodes[change.after]
    if change.before is None:
        return f"added, {described_node(after)}"
    before = facts.nodes[change.before]
    if change.is_absorbed:
        return f"becomes part of {after.name} ({after.op})" if after.op else f"is {after.name}"
    return "" if is_rewired(before, after) else described_change(before, after)


def _remarks(history: NodeHistory, node: int) -> list[RemarkFacts]:
    """The remarks about a node, under all its numbers, and about its results."""
    facts, numbers = history.facts, history.names(node)
    last, name = history.last(node), facts.nodes[node].name
    entries = {eid for eid, entry in enumerate(facts.plan.entries)
               if entry.node == last and last in numbers}
    return [each for each in facts.remarks
            if each.node in numbers or (each.entry is not None and each.entry in entries)
            or (each.node is None and each.entry is None and each.name == name)
            or numbers[-1] in joined_nodes(each)]


def why_not(history: NodeHistory, node: int, pass_name: str) -> Answer:
    """Why a pass, or a part of bind, has left a node as it is, or that it has not."""
    facts, name = history.facts, history.facts.nodes[node].name
    remarks = [each for each in _remarks(history, node) if each.pass_name == pass_name]
    changes = [text for change in history.changes(node) if change.change.name == pass_name
               and (text := _change(facts, change))]
    refused = [each for each in remarks if each.verdict == "refused"]
    lines = [f"{pass_name} ({PASSES.get(pass_name, 'a part of bind')}):"]
    lines += (f"  {name}: {line}" for line in _decisions(changes[0] if changes else None, remarks))
    if pass_name in facts.network.disabled_passes:
        lines.append(f"  it is switched off, so {name} did not meet it")
    elif not remarks and not changes:
        lines += _unmet(history, node, pass_name)
    return Answer("\n".join(lines), {
        "node": node, "name": name, "pass": pass_name, "changed": bool(changes),
        "refused": [facts.remarks.index(each) for each in refused],
        "disabled": pass_name in facts.network.disabled_passes})


def _unmet(history: NodeHistory, node: int, pass_name: str) -> Iterator[str]:
    """Why a pass has no word about a node."""
    facts, name = history.facts, history.facts.nodes[node].name
    for change in history.changes(node):
        if change.is_absorbed and change.after is not None:
            yield (f"  {name} became part of {facts.nodes[change.after].name} by "
                   f"{change.change.name}: ask about that")
            return
    kinds = {facts.nodes[each.node].op for each in facts.remarks
             if each.pass_name == pass_name and each.node is not None}
    yield (f"  {name} ({facts.nodes[node].op or 'variable'}) is not of the kind that it looks for"
           + f"; here it met {listed(sorted(kinds))}" * bool(kinds))
