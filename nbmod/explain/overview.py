"""A plan at a glance: the network, its passes with their changes, steps and memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from .failures import described_failure
from .schema import BindFacts, GraphNodeFacts, PassFacts
from .wording import counted, described_tensor, listed, step_title

__all__ = ["is_rewired", "overview", "pass_changes"]

INPUTS = 6
"""Arguments and outputs that are shown."""


def overview(facts: BindFacts) -> str:
    """A summary of one screen."""
    if facts.failure is not None and not facts.plan.steps:
        first, *rest = described_failure(facts)
        return "\n".join([f"{facts.network.name} is not bound: it {first}", *rest])
    return "\n".join([*_network(facts), *_passes(facts), *_remarks(facts), *_memory(facts),
                      *(() if facts.failure is None else described_failure(facts))])


def _network(facts: BindFacts) -> Iterator[str]:
    network, steps = facts.network, facts.plan.steps
    variables = {facts.nodes[number].name: facts.nodes[number].outputs[0]
                 for number in facts.graph if not facts.nodes[number].op}
    fed = [name for name in network.arguments if name not in network.requests]
    yield (f"{network.name} on {network.context}: "
           f"{'training' if network.training else 'inference'}, {counted(len(steps), 'step')} "
           f"({counted(sum(step.is_view for step in steps), 'view')}), "
           f"{facts.plan.memory.total:,} bytes")
    yield "arguments: " + listed((f"{name} {described_tensor(variables[name])}"
                                  for name in [*fed, *network.requests]), INPUTS)
    yield "outputs: " + listed((f"{name} {described_tensor(facts.nodes[node].outputs[index])}"
                                for name, (node, index) in zip(
        network.outputs, facts.outputs, strict=True)), INPUTS)
    if network.disabled_passes:
        yield f"passes that are switched off: {', '.join(network.disabled_passes)}"


def _passes(facts: BindFacts) -> Iterator[str]:
    width = max((len(each.name) for each in facts.passes), default=0)
    yield (f"{counted(len(facts.passes), 'pass', 'passes')} changed the graph of "
           f"{counted(len(facts.graph), 'node')}:")
    for each in facts.passes:
        yield f"  {each.name.ljust(width)}  {pass_changes(facts, each)}: {each.description}"


def pass_changes(facts: BindFacts, change: PassFacts) -> str:
    """The number of nodes that a pass has added, removed and changed."""
    changed = sum(not is_rewired(facts.nodes[pair.before], facts.nodes[pair.after])
                  for pair in change.replaced)
    counts = {"added": len(change.added), "removed": len(change.removed), "changed": changed}
    return ", ".join(f"{count} {verb}" for verb, count in counts.items() if count) or (
        f"{len(change.replaced)} read other nodes")


def is_rewired(before: GraphNodeFacts, after: GraphNodeFacts) -> bool:
    """Whether a node differs from the one before by nothing but what it reads."""
    return (before.op, before.parameters) == (after.op, after.parameters) and (
        len(before.inputs) == len(after.inputs))


def _remarks(facts: BindFacts) -> Iterator[str]:
    for verdict in ("done", "refused"):
        counts = Counter(each.pass_name for each in facts.remarks if each.verdict == verdict)
        if counts:
            yield f"{verdict}: " + ", ".join(f"{name} {count}" for name, count in counts.items())


def _memory(facts: BindFacts) -> Iterator[str]:
    memory = facts.plan.memory
    arenas = ", ".join(f"arena of {context} {nbytes:,} bytes"
                       for context, nbytes in memory.arenas.items())
    yield (f"memory: {', '.join([arenas] * bool(arenas) + [f'outputs {memory.held:,} bytes'])}; "
           f"{memory.unshared:,} bytes if nothing shared memory")
    if memory.peak_step is not None:
        yield (f"peak: {memory.live[memory.peak_step]:,} bytes at "
               f"{step_title(facts.plan, memory.peak_step)}")
