"""Plans in notebooks: the picture of their memory, and a table below it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from .overview import overview, pass_changes
from .plan_chart import plan_chart
from .schema import BindFacts
from .wording import counted

__all__ = ["comparison_html", "explanation_html"]


def explanation_html(facts: BindFacts) -> str:
    """A plan: its memory, and what each pass has changed; or why there is none."""
    if facts.failure is not None:
        return f"<pre>{escape(overview(facts))}</pre>"
    rows = [(each.name, pass_changes(facts, each), each.description) for each in facts.passes]
    return f"{plan_chart(facts.plan, facts.network.name)}{_table(('pass', 'nodes', ''), rows)}"


def comparison_html(before: BindFacts, after: BindFacts, first: str, growths: Mapping[str, int]
                    ) -> str:
    """Two plans: their memory on one scale, the first difference, and bytes by their causes."""
    plans = before.plan, after.plan
    top = max(plan.memory.total for plan in plans)
    charts = "".join(
        f'<div style="flex:1 1 380px">{plan_chart(plan, f"{title} plan", top=top)}</div>'
        for plan, title in zip(plans, ("first", "second"), strict=True))
    totals = [plan.memory.total for plan in plans]
    rows = [("memory", f"{totals[0]:,}", f"{totals[1]:,}", f"{totals[1] - totals[0]:+,}"),
            *((cause, "", "", f"{nbytes:+,}") for cause, nbytes in growths.items())]
    steps = ", then ".join(counted(len(plan.steps), "step") for plan in plans)
    return (f'<div style="display:flex;flex-wrap:wrap;gap:8px">{charts}</div>'
            f"<p>{escape(f'first difference: {first}' if first else 'the plans are equal')}; "
            f"{steps}</p>{_table(('bytes', 'first plan', 'second plan', 'difference'), rows)}")


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["".join(f"<th>{escape(cell)}</th>" for cell in head), *(
        "".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows)]
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"
