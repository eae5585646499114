"""Changes that each pass makes to a graph, as differences of listings.

    NBMOD_PRINT_PASSES=1 python script.py

A listing has one line for each node: its name, shape and type of what it computes, as far as they
are known, its op with the parameters that are not defaults, and what it reads.  Lines have no
numbers, so a node that a pass leaves as it is keeps its line.

    -fc1: (32, 64) float32 = FullyConnected(num_hidden=64) of data, fc1_weight, fc1_bias
    -relu1: (32, 64) float32 = Activation(act_type=relu) of fc1
    +fc1: (32, 64) float32 = _fused_layer(layer=FullyConnected(num_hidden=64), relu=True) of ...
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import unified_diff

from .schema import BindFacts, PassFacts
from .wording import Answer, described_node, described_tensor

__all__ = ["listing", "passes_answer"]


def passes_answer(facts: BindFacts) -> Answer:
    """The unified difference that each pass makes to the listing, in the order in which they ran.

    What is hoisted out of the steps stays in the graph, so it is named after them.
    """
    differences = list(_differences(facts))
    lines = [f"{facts.network.name}: pass {each.name} ({each.description})\n{text}\n"
             for each, text in differences]
    hoisted = [facts.nodes[node].name for group in facts.plan.constants for node in group]
    lines += [f"computed only when what they read has changed: {', '.join(hoisted)}\n"
              ] * bool(hoisted)
    return Answer("\n".join(lines).rstrip() or "no pass changed the graph",
                  {"differences": [[each.name, text] for each, text in differences],
                   "hoisted": hoisted})


def _differences(facts: BindFacts) -> Iterator[tuple[PassFacts, str]]:
    """The passes that changed a line."""
    before = listing(facts, facts.graph, facts.outputs)
    for each in facts.passes:
        after = listing(facts, each.graph, each.outputs)
        text = "\n".join(unified_diff(before, after, f"before {each.name}",
                                      f"after {each.name}", n=1, lineterm=""))
        if text:
            yield each, text
        before = after


def listing(facts: BindFacts, graph: Sequence[int], outputs: Sequence[Sequence[int]]) -> list[str]:
    """A line for each node of a graph, and one for its outputs."""
    def listed(entries: Sequence[Sequence[int]]) -> str:
        return ", ".join(f"{facts.nodes[node].name}[{index}]" if index else facts.nodes[node].name
                         for node, index in entries)
    return [*(f"{node.name}: {', '.join(map(described_tensor, node.outputs))} = "
              f"{described_node(node)}{' of ' * bool(node.inputs)}{listed(node.inputs)}"
              for node in (facts.nodes[number] for number in graph)),
            f"outputs: {listed(outputs)}"]
