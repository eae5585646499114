"""Variants of a plan, and a table of what passes are worth."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from ..core.reprs import aligned
from ..passes.memory.plan_step import PLANNER_PASSES
from ..passes.switches import PASSES
from .schema import BindFacts, Variant
from .what_if import WhatIf
from .wording import Answer

__all__ = ["passes_at_work", "variants_answer", "variants_by_name", "with_variants"]


def variants_by_name(facts: BindFacts) -> Mapping[str, Variant]:
    """The variants among the facts, by the pass or the part of bind that they are without."""
    return {each.without or each.added: each for each in facts.variants}


def passes_at_work(facts: BindFacts, knows_network: bool) -> Sequence[str]:
    """Passes that changed something, those of the memory planner, and recomputation.

    Without the network those whose variants are known.
    """
    if not knows_network:
        return [*variants_by_name(facts)]
    changed = {*PLANNER_PASSES, *(each.name for each in facts.passes),
               *(["hoist_constants"] if facts.plan.constants else ())}
    names = [name for name in PASSES
             if name in changed and name not in facts.network.disabled_passes]
    return [*names, "mirror"] if facts.network.training else names


def with_variants(facts: BindFacts, names: Iterable[str], network: Callable[[str], WhatIf]
                  ) -> BindFacts:
    """The facts with variants of these names; `network` gets what it is needed for."""
    for name in names:
        if name not in variants_by_name(facts):
            variant = network(f"the plan without {name}").variant(name)
            facts = replace(facts, variants=[*facts.variants, variant])
    return facts


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
