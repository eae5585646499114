"""A node, followed through the passes from graph to graph, up to the step that computes it.

Remarks tell which node stands for one that a pass removed.  Where there is none, as in a file of an
older version, the node is found again where its result is read: the users of the node before the
pass, or those of its users that are removed as well, read something else after it.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from .schema import BindFacts, GraphNodeFacts, Json, PassFacts, RemarkFacts

__all__ = ["Change", "NodeHistory", "joined_nodes"]


class Change(NamedTuple):
    """A pass that changed a node."""

    change: PassFacts
    before: int | None
    """The node in the graph before; None if the pass has added it."""
    after: int | None
    """The node that computes it in the graph after; None if nothing does."""

    @property
    def is_absorbed(self) -> bool:
        """Whether it became part of another node, or is read elsewhere."""
        return self.before in self.change.removed


class NodeHistory:
    """Changes of nodes by passes."""

    def __init__(self, facts: BindFacts):
        self.facts = facts

    def changes(self, node: int) -> Iterator[Change]:
        """The changes of a node of the symbol, or of one that a pass has made, in order."""
        current: int | None = node if node in self.facts.graph else None
        for step in self._passes:
            if current is None and node in step.after and node not in step.before:
                yield Change(step.change, None, node)
                current = node
            elif current is not None and current not in step.after:
                after = step.heir(current)
                yield Change(step.change, current, after)
                if after is None:
                    return
                current = after

    def names(self, node: int) -> list[int]:
        """The node under all its numbers: of itself, before it became part of another one."""
        numbers = [node]
        for change in self.changes(node):
            if change.is_absorbed:
                break
            numbers += [each for each in change[1:] if each is not None and each != numbers[-1]]
        return list(dict.fromkeys(numbers))

    def last(self, node: int) -> int | None:
        """The node of the final graph that computes a node; None if nothing does."""
        current: int | None = node
        for change in self.changes(node):
            current = change.after
        return current

    def inserted_by(self, node: int) -> str | None:
        """The pass that inserted a node; None for one of the symbol, or that a pass changed."""
        for change in reversed(self.facts.passes):
            node = next((pair.before for pair in change.replaced if pair.after == node), node)
            if node in change.added:
                return change.name
        return None

    def value(self, node: int, output: int) -> tuple[int, int] | None:
        """The output of a node of the final graph that is an output of a node; None if none is."""
        current: tuple[int, int] | None = (node, output)
        for step in self._passes:
            if current is not None and current[0] in step.before and current[0] not in step.after:
                current = step.value(*current)
        return current

    @cached_property
    def _passes(self) -> list[_PassStep]:
        facts = self.facts
        before = [(facts.graph, facts.outputs), *((each.graph, each.outputs)
                                                  for each in facts.passes)]
        return [_PassStep(facts.nodes, each, *graph, _stand_ins(facts.remarks, each.name))
                for each, graph in zip(facts.passes, before, strict=False)]


def _stand_ins(remarks: Sequence[RemarkFacts], pass_name: str) -> dict[int, int | None]:
    """The node that stands for each one that a pass changed; None for one that it left out."""
    known: dict[int, int | None] = {}
    for each in remarks:
        if each.pass_name == pass_name and each.verdict == "done" and each.node is not None:
            into = _node_of(each.evidence.get("into"))
            if into is not None or "into" not in each.evidence:
                known |= dict.fromkeys([each.node, *joined_nodes(each)], into)
    return known


def joined_nodes(remark: RemarkFacts) -> list[int]:
    """Nodes that became part of the one that stands for the remark's own."""
    nodes = remark.evidence.get("joined")
    known = map(_node_of, nodes if isinstance(nodes, (list, tuple)) else [])
    return [each for each in known if each is not None]


def _node_of(value: Json) -> int | None:
    """The number of a node in evidence."""
    node = value.get("node") if isinstance(value, Mapping) else None
    return node if isinstance(node, int) else None


class _PassStep:
    """The graphs before and after a pass."""

    def __init__(self, nodes: Sequence[GraphNodeFacts], change: PassFacts, graph: Sequence[int],
                 outputs: Sequence[Sequence[int]], stand_ins: Mapping[int, int | None]):
        self.nodes, self.change, self.outputs = nodes, change, outputs
        self._stand_ins = stand_ins
        self.before, self.after = set(graph), set(change.graph)
        self._order = graph
        self._replaced = {pair.before: pair.after for pair in change.replaced}

    @cached_property
    def _users(self) -> dict[int, list[tuple[int, int]]]:
        """By node, the nodes that read it, and which of their inputs it is."""
        users = defaultdict(list)
        for user in self._order:
            for position, (node, _) in enumerate(self.nodes[user].inputs):
                users[node].append((user, position))
        return users

    def heir(self, node: int) -> int | None:
        """The node after the pass that computes a node which is gone."""
        if node in self._replaced:
            return self._replaced[node]
        told: int | None = node
        while told is not None and told not in self.after and told in self._stand_ins:
            told = self._stand_ins[told]
        if told is None or told in self.after:
            return told
        name = self.nodes[node].name
        fused = (each for each in self.change.added if name in self.nodes[each].name.split("+"))
        return next(fused, None) or self._nearest_reading(node)

    def _nearest_reading(self, node: int) -> int | None:
        """The node that is read where a node was, or the nearest ones that are computed from it."""
        seen, waiting = {node}, deque([node])
        while waiting:
            current = waiting.popleft()
            for user, position in self._users.get(current, ()):
                if user in self.after or user in self._replaced:
                    inputs = self.nodes[self._replaced.get(user, user)].inputs
                    if position < len(inputs):
                        return inputs[position][0]
                elif user not in seen:
                    seen.add(user)
                    waiting.append(user)
            for before, after in zip(self.outputs, self.change.outputs, strict=False):
                if before[0] == current:
                    return after[0]
        return None

    def value(self, node: int, output: int) -> tuple[int, int] | None:
        """The output of a node after the pass that is read instead of an output of one before."""
        if node in self._replaced:
            return self._replaced[node], output
        for user, position in self._users.get(node, ()):
            inputs = self.nodes[self._replaced.get(user, user)].inputs
            if (user in self.after or user in self._replaced) and position < len(inputs) and (
                    self.nodes[user].inputs[position][1] == output):
                return inputs[position][0], inputs[position][1]
        for before, after in zip(self.outputs, self.change.outputs, strict=False):
            if (before[0], before[1]) == (node, output):
                return after[0], after[1]
        return None
