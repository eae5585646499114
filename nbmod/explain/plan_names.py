"""Names that users type, as numbers of nodes, entries, steps and passes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from ..base import MXNetError, did_you_mean
from ..passes.switches import PASSES
from .schema import BindFacts

__all__ = ["PlanNames"]


class PlanNames:
    """The numbers of nodes, entries and steps by name, and what is wrong with a name.

    A number stands for itself.
    """

    def __init__(self, facts: BindFacts):
        self.facts = facts

    def node(self, name: str | int) -> int:
        """A node of the symbol, or one that a pass has made, by its name or that of its output."""
        nodes = self.facts.nodes
        if isinstance(name, int):
            return _within(name, len(nodes), "node")
        numbers = self._nodes.get(name) or self._nodes.get(name.removesuffix("_output"))
        if numbers is None:
            raise MXNetError(f"explain: there is no node {name!r}"
                             f"{did_you_mean(name, self._nodes)}")
        first = set(numbers) & {*self.facts.graph} or {numbers[0]}
        return _only(first, name, "nodes", (f"{number} ({nodes[number].op or 'variable'})"
                                            for number in sorted(first)))

    @cached_property
    def _nodes(self) -> Mapping[str, Sequence[int]]:
        known = defaultdict(list)
        for number, node in enumerate(self.facts.nodes):
            known[node.name].append(number)
        return known

    def entry(self, name: str | int) -> int | None:
        """An output of a node of the final graph, as plans or as MXNet name it; None if none is."""
        entries = self.facts.plan.entries
        if isinstance(name, int):
            return _within(name, len(entries), "tensor")
        numbers = self._entries.get(name)
        return None if numbers is None else _only(numbers, name, "tensors", (
            f"{number} ({entries[number].name} of {self.facts.nodes[entries[number].node].op})"
            for number in numbers))

    @cached_property
    def _entries(self) -> Mapping[str, Sequence[int]]:
        """Tensors by name, and first outputs by the name of their node."""
        known, others = defaultdict(list), defaultdict(list)
        for eid, entry in enumerate(self.facts.plan.entries):
            node = self.facts.nodes[entry.node]
            known[entry.name].append(eid)
            suffix = entry.name.removeprefix(f"{node.name}.")
            others[f"{node.name}_{suffix}" if suffix != entry.name else f"{entry.name}_output"
                   ].append(eid)
            if entry.output == 0 and node.name != entry.name:
                others[node.name].append(eid)
        return {**others, **known}

    def tensor_hint(self, name: str) -> str:
        """The end of an error about a tensor of no known name."""
        return did_you_mean(name, self._entries)

    def step(self, step: str | int) -> int:
        """A step by its number, or by the name of its node."""
        steps = self.facts.plan.steps
        if isinstance(step, int) or step.lstrip("-").isdigit():
            return _within(int(step), len(steps), "step")
        numbers = [index for index, each in enumerate(steps) if each.name == step]
        if not numbers:
            raise MXNetError(f"explain: there is no step {step!r}"
                             f"{did_you_mean(step, [each.name for each in steps])}")
        return _only(numbers, step, "steps", map(str, numbers))

    def storage(self, number: int) -> int:
        """A storage of the plan."""
        return _within(number, len(self.facts.plan.storages), "storage")

    def pass_name(self, name: str) -> str:
        """A pass, or a part of bind that changes graphs."""
        known = [*PASSES, *(each.name for each in self.facts.passes),
                 *(each.pass_name for each in self.facts.remarks)]
        if name not in known:
            raise MXNetError(f"explain: there is no pass {name!r}{did_you_mean(name, known)}; the "
                             f"passes are {', '.join(dict.fromkeys(known))}")
        return name


def _within(number: int, count: int, what: str) -> int:
    if not 0 <= number < count:
        raise MXNetError(f"explain: there is no {what} {number}; " + (
            f"the last one is {count - 1}" if count else "the network has none"))
    return number


def _only(numbers: Iterable[int], name: str, what: str, shown: Iterable[str]) -> int:
    first, *others = numbers
    if others:
        raise MXNetError(f"explain: several {what} are called {name!r}; give the number of one: "
                         f"{', '.join(shown)}")
    return first
