"""Two plans: the first difference, passes, steps, bytes by cause, and implementations.

Nodes and tensors are those of one name in both; numbers differ between plans.  Names that MXNet
gives, such as `_plus18`, count on in a process: they are those of the other network where both have
as many of them.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..base import numbered
from .facts_json import from_json, to_json
from .notebook import comparison_html
from .overview import pass_changes
from .schema import BindFacts, EntryFacts, ImplementationFacts, PlanFacts
from .wording import Answer, described_node, described_tensor, listed, shortened

__all__ = ["PlanComparison", "compared"]

StepKey = tuple[str, int]
"""The name of a step, and how many steps before it have it."""
SWITCHED_OFF = "passes that are switched off"


@dataclass(frozen=True, repr=False)
class PlanComparison(Answer):
    """The differences between two plans.

    Attributes
    ----------
    before, after : BindFacts
        The facts of both.
    growths : dict of str to int
        By their causes, the bytes that the second plan has more.
    """

    before: BindFacts
    after: BindFacts
    growths: Mapping[str, int]

    def _repr_html_(self) -> str:
        return comparison_html(self.before, self.after, str(self.data["first"] or ""),
                               self.growths)


def compared(before: BindFacts, after: BindFacts) -> PlanComparison:
    """Tell what differs between two plans."""
    before = _renamed(before, _new_names(before, after))
    network = list(_network(before, after))
    passes = list(_passes(before, after))
    steps = _StepMatch(before.plan, after.plan)
    causes = _bytes_by_cause(before.plan, after.plan)
    choices = list(_choices(before.plan, after.plan, steps))
    totals = before.plan.memory.total, after.plan.memory.total
    first = _first(before, after)
    lines = [f"first difference: {first}"] if first else ["the plans are equal"]
    for title, group in (("network", network), ("passes", passes), ("steps", list(steps.told())),
                         ("implementations", choices)):
        lines += [f"{title}:", *(f"  {line}" for line in shortened(group, 20))] if group else []
    if causes:
        lines += [f"memory: {totals[0]:,} bytes become {totals[1]:,} ({totals[1] - totals[0]:+,}):",
                  *(f"  {sum(each.values()):>+14,}  {cause}: "
                    f"{listed(_largest(each), 4)}"
                    for cause, each in causes.items())]
    return PlanComparison("\n".join(lines), {
        "equal": not first, "first": first, "network": network, "passes": passes,
        "gone": steps.gone, "new": steps.new, "changed": steps.changed, "moved": steps.moved,
        "total": list(totals), "bytes": causes, "implementations": choices}, before, after,
        {cause: sum(each.values()) for cause, each in causes.items()})


# -- names ----------------------------------------------------------------------------------------


def _new_names(before: BindFacts, after: BindFacts) -> dict[str, str]:
    """By automatic name of a node in one network, that of its twin in the other one."""
    one, other = _automatic_names(before), _automatic_names(after)
    return {name: new for kind, names in one.items()
            if names != other[kind] and len(names) == len(other[kind])
            for name, new in zip(names, other[kind], strict=True)}


def _automatic_names(facts: BindFacts) -> defaultdict[tuple[str, str], list[str]]:
    """By operator and name without its number, the names of nodes that nobody has named."""
    names = defaultdict(list)
    for number in facts.graph:
        node = facts.nodes[number]
        stem = node.name.rstrip("0123456789")
        if stem != node.name and (stem.startswith("_") or stem == node.op.lower()):
            names[node.op, stem].append(node.name)
    return names


def _renamed(facts: BindFacts, new_names: Mapping[str, str]) -> BindFacts:
    """The facts with other names of nodes, also where other names begin with them or have them."""
    if not new_names:
        return facts
    longest_first = sorted(map(re.escape, new_names), key=len, reverse=True)
    pattern = re.compile(f"(?<![0-9A-Za-z_])({'|'.join(longest_first)})(?![0-9])")
    text = pattern.sub(lambda match: new_names[match[1]], json.dumps(to_json(facts)))
    return from_json(json.loads(text))


# -- the network and its passes -------------------------------------------------------------------


def _network(before: BindFacts, after: BindFacts) -> Iterator[str]:
    """Differences of what is bound."""
    one, other = before.network, after.network
    for what, was, now in (
            ("name", one.name, other.name), ("context", one.context, other.context),
            ("gradients", _told(one.requests), _told(other.requests)),
            ("exact", one.exact, other.exact),
            ("outputs", listed(one.outputs), listed(other.outputs)),
            (SWITCHED_OFF, listed(one.disabled_passes), listed(other.disabled_passes))):
        if was != now:
            yield f"{what}: {was} becomes {now}"
    nodes = [dict(_listing(facts, facts.graph)) for facts in (before, after)]
    yield from (f"{name} becomes {nodes[1][name]}, was {text}" for name, text in nodes[0].items()
                if name in nodes[1] and nodes[1][name] != text)
    for verb, one_side, other_side in (("gone", *nodes), ("new", *reversed(nodes))):
        names = [name for name in one_side if name not in other_side]
        if names:
            yield f"{verb}: {listed(names)}"


def _told(requests: Mapping[str, str]) -> str:
    counts = Counter(requests.values())
    return ", ".join(f"{count} of {request}" for request, count in counts.items()) or "none"


def _listing(facts: BindFacts, graph: Iterable[int]) -> Iterator[tuple[str, str]]:
    """The nodes of a graph, each with all that is known of it."""
    for number in graph:
        node = facts.nodes[number]
        reads = ", ".join(facts.nodes[source].name + f".{index}" * bool(index)
                          for source, index in node.inputs)
        yield node.name, (f"{described_node(node)} of {reads or 'nothing'}: "
                          f"{', '.join(map(described_tensor, node.outputs))}")


def _passes(before: BindFacts, after: BindFacts) -> Iterator[str]:
    """Passes that changed only one of the graphs, or both by different numbers of nodes."""
    one, other = ({each.name: pass_changes(facts, each) for each in facts.passes}
                  for facts in (before, after))
    for name in dict.fromkeys([*one, *other]):
        was, now = one.get(name, "changed nothing"), other.get(name, "changed nothing")
        if was != now:
            yield f"{name}: {was}; now {now}"


def _first(before: BindFacts, after: BindFacts) -> str | None:
    """The first difference on the way from the symbol to the memory plan."""
    stages = [[("the network", facts.graph), *((f"the graph after {each.name}", each.graph)
                                               for each in facts.passes)]
              for facts in (before, after)]
    bound = [line for line in _network(before, after) if not line.startswith(SWITCHED_OFF)]
    if bound:
        return f"what is bound: {bound[0]}"
    for (stage, one), (other_stage, other) in zip(*stages, strict=False):
        if stage != other_stage:
            one_only = stage not in dict(stages[1])
            return (f"{stage if one_only else other_stage}: this pass changes nothing in the "
                    f"{'second' if one_only else 'first'} plan")
        nodes = zip(_listing(before, one), _listing(after, other), strict=False)
        for (name, text), (other_name, other_text) in nodes:
            if (name, text) != (other_name, other_text):
                return f"{stage}: {name} = {text}; now {other_name} = {other_text}"
    if len(stages[0]) != len(stages[1]):
        longer = max(stages, key=len)
        return (f"{longer[min(map(len, stages))][0]}: this pass changes nothing in the "
                f"{'second' if longer is stages[0] else 'first'} plan")
    return _first_of_plans(before.plan, after.plan)


def _first_of_plans(one: PlanFacts, other: PlanFacts) -> str | None:
    """The first step, and the first tensor, that differ."""
    for index, (step, now) in enumerate(zip(one.steps, other.steps, strict=False)):
        for what, was, value in (("is", f"{step.name} ({step.op})", f"{now.name} ({now.op})"),
                                 ("is computed by", _chosen(step.implementation),
                                  _chosen(now.implementation))):
            if was != value:
                return f"step {index} {step.name} {what} {was}; now {value}"
        for body, other_body in zip(step.subgraphs, now.subgraphs, strict=False):
            if (first := _first_of_plans(body, other_body)) is not None:
                return f"step {index} {step.name}: {first} of its body"
    if len(one.steps) != len(other.steps):
        return f"{len(one.steps)} steps; now {len(other.steps)}"
    for entry, moved in zip(one.entries, other.entries, strict=False):
        if entry != moved:
            return f"the memory of {entry.name}"
    return None if one.storages == other.storages else "the sizes or addresses of storages"


# -- steps ----------------------------------------------------------------------------------------


class _StepMatch:
    """Steps of one name in both plans."""

    def __init__(self, before: PlanFacts, after: PlanFacts):
        one, other = _step_keys(before), _step_keys(after)
        common = [(place, other[key]) for key, place in one.items() if key in other]
        in_place = _longest_rising([there for _, there in common])
        self.gone = [_title(before, place) for key, place in one.items() if key not in other]
        self.new = [_title(after, place) for key, place in other.items() if key not in one]
        self.moved = [_title(after, there) for _, there in common if there not in in_place]
        self.changed = [f"{before.steps[here].name}: {before.steps[here].op} becomes "
                        f"{after.steps[there].op}" for here, there in common
                        if before.steps[here].op != after.steps[there].op]
        self.common = [(here, there) for here, there in common
                       if before.steps[here].op == after.steps[there].op]

    def told(self) -> Iterator[str]:
        """A line for each kind of difference."""
        for verb, names in (("gone", self.gone), ("new", self.new), ("changed", self.changed),
                            ("moved", self.moved)):
            if names:
                yield f"{len(names)} {verb}: {listed(names)}"


def _step_keys(plan: PlanFacts) -> dict[StepKey, int]:
    counts = Counter[str]()
    keys = {}
    for index, step in enumerate(plan.steps):
        keys[step.name, counts[step.name]] = index
        counts[step.name] += 1
    return keys


def _title(plan: PlanFacts, index: int) -> str:
    return f"{plan.steps[index].name} ({plan.steps[index].op})"


def _longest_rising(numbers: Sequence[int]) -> set[int]:
    """The numbers of a longest rising subsequence: what is left in place."""
    ends: list[int] = []
    before: dict[int, int | None] = {}
    for number in numbers:
        place = bisect_left(ends, number)
        before[number] = ends[place - 1] if place else None
        ends[place:place + 1] = [number]
    chain, current = set(), ends[-1] if ends else None
    while current is not None:
        chain.add(current)
        current = before[current]
    return chain


def _choices(before: PlanFacts, after: PlanFacts, steps: _StepMatch) -> Iterator[str]:
    """Steps that are in both plans and computed by other implementations."""
    for one, other in steps.common:
        was, now = (_chosen(plan.steps[index].implementation)
                    for plan, index in ((before, one), (after, other)))
        if was != now:
            yield f"{after.steps[other].name}: {was} becomes {now}"


def _chosen(choice: ImplementationFacts | None) -> str:
    if choice is None or choice.chosen is None:
        return "nothing"
    parts = ", ".join(_chosen(part) for part in choice.chosen.parts)
    return f"{choice.chosen.name} of {parts}" if parts else choice.chosen.name


# -- memory ---------------------------------------------------------------------------------------

OWN = "in memory of its own"
REUSE = "addresses used again at other steps, and gaps between them"


def _bytes_by_cause(before: PlanFacts, after: PlanFacts) -> dict[str, dict[str, int]]:
    """By cause and tensor, the bytes that the plan has grown by; their sum is the whole growth."""
    causes: dict[str, dict[str, int]] = defaultdict(dict)
    one, other = _accounts(before), _accounts(after)
    for name in dict.fromkeys([*one, *other]):
        (was, how), (now, now_how) = (each.get(name, (0, "")) for each in (one, other))
        if was != now:
            causes[_cause(how, now_how, now - was)][name] = now - was
    reuse = [plan.memory.total - sum(nbytes for nbytes, _ in accounts.values())
             for plan, accounts in ((before, one), (after, other))]
    if reuse[0] != reuse[1]:
        causes[REUSE]["all"] = reuse[1] - reuse[0]
    return dict(causes)


def _cause(how: str, now_how: str, growth: int) -> str:
    if not how or not now_how:
        return "gone" if how else "new"
    if how == now_how:
        return "grew" if growth > 0 else "shrank"
    return f"no longer {how}" if growth > 0 else f"now {now_how}"


def _accounts(plan: PlanFacts) -> dict[str, tuple[int, str]]:
    """By name, the bytes that a tensor or workspace accounts for, and how it has its memory.

    The largest entry of a storage accounts for it, the first of several; the others for nothing.
    """
    owned = {max(each.entries, key=lambda eid: plan.entries[eid].nbytes): each.nbytes
             for each in plan.storages if each.entries}
    names = numbered([entry.name for entry in plan.entries])
    accounts = {names[eid]: (owned.get(eid, 0), OWN if eid in owned else _how(plan, entry))
                for eid, entry in enumerate(plan.entries)
                if entry.storage is not None or entry.view_of is not None}
    for step in plan.steps:
        nbytes = sum(plan.storages[sid].nbytes for sid in step.scratch)
        if nbytes:
            name = f"workspace of step {step.name}"
            accounts[name] = nbytes + accounts.get(name, (0, ""))[0], "a workspace"
    return accounts


def _how(plan: PlanFacts, entry: EntryFacts) -> str:
    """How an entry has its memory, which is not its own."""
    if entry.in_place_of is not None:
        return "in place of another"
    is_view = entry.producer is not None and plan.steps[entry.producer].is_view
    return "a view" if is_view or entry.view_of is not None else "a part of another"


def _largest(growths: Mapping[str, int]) -> list[str]:
    """Names with bytes, the largest changes first."""
    order = sorted(growths.items(), key=lambda pair: -abs(pair[1]))
    return [f"{name} {nbytes:+,}" for name, nbytes in order]
