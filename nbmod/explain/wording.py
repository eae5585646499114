"""Answers, and facts of a plan in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from .schema import (
    CandidateFacts,
    GraphNodeFacts,
    ImplementationFacts,
    Json,
    KernelFacts,
    PlanFacts,
    RemarkFacts,
    TensorFacts,
)

__all__ = ["Answer", "counted", "described_change", "described_implementation", "described_loop",
           "described_memory", "described_node", "described_place", "described_remark",
           "described_storage", "described_tensor", "listed", "shortened", "step_label",
           "step_title"]


@dataclass(frozen=True, repr=False)
class Answer:
    """An answer to a question about a plan.

    Attributes
    ----------
    text : str
        For people; so are `str` and `repr`.
    data : dict
        The numbers and names that the text tells, as values that JSON can hold.  Nodes, entries,
        steps and storages have their numbers in the `Explanation.facts`.
    """

    text: str
    data: Mapping[str, Json]

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__


def described_tensor(tensor: TensorFacts | None) -> str:
    """Shape and type."""
    return "of unknown shape" if tensor is None else f"{tuple(tensor.shape)} {tensor.dtype}"


def described_node(node: GraphNodeFacts) -> str:
    """An operator with the parameters that are not defaults."""
    parameters = ", ".join(f"{name}={value}" for name, value in node.parameters.items())
    return f"{node.op}({parameters})" if parameters else node.op or "variable"


def step_label(plan: PlanFacts, index: int) -> str:
    """The number and name of a step."""
    return f"step {index} {plan.steps[index].name}"


def step_title(plan: PlanFacts, index: int) -> str:
    """The number, name and operator of a step."""
    return f"{step_label(plan, index)} ({plan.steps[index].op})"


def described_change(before: GraphNodeFacts, after: GraphNodeFacts) -> str:
    """A change of a node: its new operator, or the parameters that differ."""
    if before.op != after.op:
        return f"{before.op} becomes {described_node(after)}"
    names = dict.fromkeys([*before.parameters, *after.parameters])
    differences = [f"{name}={after.parameters.get(name, 'default')}" for name in names
                   if before.parameters.get(name) != after.parameters.get(name)]
    return f"{after.op} with {', '.join(differences)}" if differences else (
        f"{after.op} of {counted(len(after.inputs), 'input')}")


def described_memory(plan: PlanFacts, eid: int) -> str:
    """Where an entry is, and whose memory it has."""
    entry = plan.entries[eid]
    if entry.view_of is not None:
        return f"a view of {plan.entries[entry.view_of].name}"
    if entry.storage is None:
        return PLACES[entry.kind]
    place = described_storage(plan, entry.storage)
    if entry.nbytes != plan.storages[entry.storage].nbytes or entry.offset:
        place += f", of which {entry.nbytes:,} bytes from {entry.offset:,}"
    if entry.in_place_of is not None:
        return f"{place}, in place of {plan.entries[entry.in_place_of].name}"
    if entry.producer is not None and plan.steps[entry.producer].is_view:
        return f"{place}, which {plan.entries[plan.steps[entry.producer].reads[0]].name} has, too"
    return f"{place}, added to" if entry.adds else place


PLACES = {"variable": "an array of the caller", "gradient": "the caller's array of a gradient",
          "constant": "kept by the program; computed when what it reads has changed",
          "unread": "none, since nothing reads it", "planned": "none"}
"""Memory of entries without a storage, by kind."""


def described_storage(plan: PlanFacts, sid: int) -> str:
    """Size and address of a storage."""
    storage = plan.storages[sid]
    where = ("in a buffer of its own" if storage.offset is None else f"at {storage.offset:,}"
             if len(plan.memory.arenas) < 2 else
             f"at {storage.offset:,} of {[*plan.memory.arenas][storage.space]}")
    return f"storage {sid}, {storage.nbytes:,} bytes {where}"


def described_implementation(choice: ImplementationFacts | None, title: str = "implementation"
                             ) -> Iterator[str]:
    """A line for what was chosen, and one for each that was rejected; so for parts of it."""
    if choice is None:
        return
    chosen = choice.chosen
    yield f"{title}: " + ("none" if chosen is None else _candidate(chosen))
    for each in choice.rejected:
        yield f"  rejected: {_candidate(each)}"
    for part in () if chosen is None else chosen.parts:
        yield from (f"  {line}" for line in described_implementation(part, part.op))


def _candidate(candidate: CandidateFacts) -> str:
    cost = [] if candidate.cost is None else [f"estimated {candidate.cost / 1e3:,.1f} us"]
    return ", ".join([f"{candidate.name} ({candidate.source})", *cost,
                      *([candidate.why_not] if candidate.why_not else [])])


def described_remark(remark: RemarkFacts) -> str:
    """The rule of a remark, its evidence, and where it is."""
    evidence = "; ".join(f"{name.replace('_', ' ')}: {_evidence(value)}"
                         for name, value in remark.evidence.items() if value != []
                         and not (name == "into" and _evidence(value) == remark.name))
    verdict = "refused, since it needs" if remark.verdict == "refused" else remark.verdict
    return f"{verdict}: {remark.rule}" + f" ({evidence})" * bool(evidence) + (
        f"; {described_place(remark)}")


def described_place(remark: RemarkFacts) -> str:
    """The file and the line of the rule."""
    return f"rule at nbmod/{remark.where}"


def _evidence(value: Json) -> str:
    if isinstance(value, Mapping):
        output, step = value.get("output"), value.get("step")
        return (f"step {step} " * (step is not None) + str(value.get("name"))
                + f" output {output}" * bool(output))
    if isinstance(value, (list, tuple)):
        return listed(map(_evidence, value))
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def counted(count: int, noun: str, plural: str = "") -> str:
    """A number and its noun."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def shortened(lines: Sequence[str], most: int = 12) -> list[str]:
    """The first lines, and the number of the others."""
    rest = len(lines) - most
    return [*lines[:most], f"and {rest} more"] if rest > 1 else list(lines)


def described_loop(kernel: KernelFacts) -> Iterator[str]:
    """The hot loop of a kernel: as LLVM has it, and as machine code with its figures."""
    if kernel.intermediate:
        yield f"hot loop of {kernel.name} before code generation:"
        yield from (f"    {line}" for line in kernel.intermediate.splitlines())
    yield (f"hot loop of {kernel.name}: {counted(kernel.instructions, 'instruction')}, vectors of "
           f"{kernel.vector_bits} bits, {counted(kernel.fmas, 'FMA')}, "
           f"{counted(kernel.spills, 'spill')}, {counted(kernel.calls, 'call')}")
    yield from (f"    {line}" for line in kernel.assembly.splitlines())


def listed(words: Iterable[str], most: int = 8) -> str:
    """Words with commas, and the number of those beyond `most`."""
    known = list(words)
    rest = len(known) - most
    return ", ".join(known[:most] + [f"{rest} more"] * (rest > 0)) or "none"
