"""What passes made of a node: it is followed from graph to graph, up to the step that computes it.

A node that a pass removes is found again where its result is read: the users of the node before the
pass, or those of its users that are removed as well, read something else after it.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from .schema import BindFacts, GraphNodeFacts, PassFacts

__all__ = ["Change", "NodeHistory"]


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
    """Changes of nodes by passes.

    Parameters
    ----------
    facts : BindFacts
        The facts of the plan.
    """

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
        return [_PassStep(facts.nodes, each, *graph)
                for each, graph in zip(facts.passes, before, strict=False)]


class _PassStep:
    """The graphs before and after a pass."""

    def __init__(self, nodes: Sequence[GraphNodeFacts], change: PassFacts, graph: Sequence[int],
                 outputs: Sequence[Sequence[int]]):
        self.nodes, self.change, self.outputs = nodes, change, outputs
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
        name = self.nodes[node].name
        fused = [each for each in self.change.added if name in self.nodes[each].name.split("+")]
        if fused:
            return fused[0]
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
