"""A table of what passes are worth."""

from __future__ import annotations

from collections.abc import Sequence

from .schema import BindFacts, Variant
from .wording import Answer

__all__ = ["aligned", "variants_answer"]


def aligned(rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """Rows with columns of equal width, of which the first `left` begin at the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) if number < left else cell.rjust(width) for number,
                      (cell, width) in enumerate(zip(row, widths, strict=True))).rstrip()
            for row in rows]


def variants_answer(facts: BindFacts, variants: Sequence[Variant]) -> Answer:
    """A line for the plan, and for each of its variants with the difference."""
    plan = facts.plan
    steps = sum(not step.is_view for step in plan.steps)
    moved = sum(step.nbytes for step in plan.steps)
    rows = [["plan", "memory", "difference", "steps", "difference", "MB moved", "difference"],
            [facts.network.name, f"{plan.memory.total:,}", "", f"{steps:,}", "",
             f"{moved / 1e6:,.1f}", ""]]
    for each in variants:
        rows.append([f"without {each.without}" if each.without else f"with {each.added}",
                     f"{each.total:,}", _difference(each.total - plan.memory.total),
                     f"{each.steps:,}", _difference(each.steps - steps),
                     f"{each.nbytes / 1e6:,.1f}", _difference((each.nbytes - moved) / 1e6, 1)])
    return Answer("\n".join(aligned(rows)), {each.without or each.added: {
        "bytes": each.total - plan.memory.total, "steps": each.steps - steps,
        "nbytes": each.nbytes - moved} for each in variants})


def _difference(value: float, digits: int = 0) -> str:
    return f"{value:+,.{digits}f}" if round(value, digits) else "0"
