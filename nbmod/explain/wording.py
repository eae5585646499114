"""Answers, and facts of a plan in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .schema import GraphNodeFacts, Json, PlanFacts, RemarkFacts, TensorFacts

__all__ = ["Answer", "counted", "described_node", "described_remark", "described_tensor", "listed",
           "step_label"]


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
    return f"{node.op}({parameters})" if node.op else "variable"


def step_label(plan: PlanFacts, index: int) -> str:
    """The number, name and operator of a step."""
    step = plan.steps[index]
    return f"step {index}, {step.name} ({step.op})"


def described_remark(remark: RemarkFacts) -> str:
    """The rule of a remark, its evidence, and where it is."""
    evidence = "; ".join(f"{name.replace('_', ' ')}: {_evidence(value)}"
                         for name, value in remark.evidence.items())
    return f"{remark.verdict}: {remark.rule}" + f" ({evidence})" * bool(evidence) + (
        f"; rule at nbmod/{remark.where}")


def _evidence(value: Json) -> str:
    if isinstance(value, Mapping):
        output = value.get("output")
        return f"{value.get('name')}" + (f" output {output}" if output else "")
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_evidence, value)) or "none"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def counted(count: int, noun: str, plural: str = "") -> str:
    """A number and its noun."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def listed(words: Iterable[str], most: int = 8) -> str:
    """Words with commas, and the number of those beyond `most`."""
    known = list(words)
    rest = len(known) - most
    return ", ".join(known[:most] + [f"{rest} more"] * (rest > 0)) or "none"
