"""Answers about memory: why a tensor is alive, who shares a storage, and what fills the peak."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .schema import BindFacts, Json, PlanFacts, StorageFacts
from .wording import (
    PLACES,
    Answer,
    counted,
    described_memory,
    described_storage,
    listed,
    shortened,
    step_label,
    step_title,
)

__all__ = ["alive", "peak", "storage_answer"]

ROWS = 15
"""Storages that are shown at the peak."""
Reading = tuple[int, int]
"""A step, and an entry that it reads."""


def alive(plan: PlanFacts, eid: int, index: int) -> Answer:
    """Why the memory of an entry is in use at a step, or since when it is free."""
    entry, step = plan.entries[eid], step_title(plan, index)
    sid = _storage_of(plan, eid)
    data: dict[str, Json] = {"entry": eid, "name": entry.name, "step": index, "storage": sid,
                             "producer": entry.producer, "readers": list(entry.readers)}
    if sid is None:
        kind = plan.entries[_root(plan, eid)].kind
        return Answer(f"{entry.name} has no memory of the plan: {described_memory(plan, eid)}"
                      + f", which is {PLACES[kind]}" * (_root(plan, eid) != eid),
                      {**data, "alive": kind != "unread"})
    storage = plan.storages[sid]
    is_alive = storage.first <= index and (storage.held or index <= storage.last)
    readings = [reading for reading in _readings(plan, storage) if reading[0] >= index]
    data |= {"alive": is_alive, "first": storage.first, "last": storage.last,
             "held": storage.held, "waiting": [list(each) for each in readings],
             "keeper": {"reason": storage.keeper.reason, "step": storage.keeper.step,
                        "entry": storage.keeper.entry}}
    lines = [f"{entry.name} is {'' if is_alive else 'not '}alive at {step}: its memory is "
             f"{described_storage(plan, sid)}, {_span(storage)}",
             *(f"  {line}" for line in _life(plan, eid)),
             *(f"  {line}" for line in shortened([*_heirs(plan, eid, storage)])),
             *(f"  {line}" for line in shortened([
                 f"yet to come: {step_label(plan, at)} reads {plan.entries[read].name}"
                 for at, read in readings if is_alive and at > index])),
             f"  {_kept(plan, storage)}"]
    return Answer("\n".join(lines), data)


def _root(plan: PlanFacts, eid: int) -> int:
    """The entry whose memory a view shows."""
    while (view_of := plan.entries[eid].view_of) is not None:
        eid = view_of
    return eid


def _storage_of(plan: PlanFacts, eid: int) -> int | None:
    return plan.entries[_root(plan, eid)].storage


def _span(storage: StorageFacts) -> str:
    if storage.first == storage.last and not storage.held:
        return f"at step {storage.first}"
    return f"from step {storage.first} " + (
        "on, also after the run" if storage.held else f"to step {storage.last}")


def _life(plan: PlanFacts, eid: int) -> Iterator[str]:
    """Who writes and who reads an entry."""
    entry = plan.entries[eid]
    if entry.producer is not None:
        yield f"written by {step_label(plan, entry.producer)}"
    *others, last = [step_label(plan, at) for at in entry.readers] or ["nothing"]
    yield f"read by {listed([*others, f'{last}: its last reader' if others else last])}"


def _heirs(plan: PlanFacts, eid: int, storage: StorageFacts) -> Iterator[str]:
    """The entries that have the memory before or after an entry, or together with it."""
    for other in _in_order(plan, storage.entries):
        if other != eid:
            entry = plan.entries[other]
            yield (f"shares it with {entry.name}, {_how(plan, other)}, written by step "
                   f"{entry.producer}, read by {_steps(entry.readers)}")


def _in_order(plan: PlanFacts, eids: Sequence[int]) -> list[int]:
    return sorted(eids, key=lambda eid: (plan.entries[eid].producer or 0, eid))


def _how(plan: PlanFacts, eid: int) -> str:
    """How an entry came to its memory."""
    entry = plan.entries[eid]
    if entry.in_place_of is not None:
        return f"in place of {plan.entries[entry.in_place_of].name}"
    if entry.producer is not None and plan.steps[entry.producer].is_view:
        return f"a view of {plan.entries[plan.steps[entry.producer].reads[0]].name}"
    assert entry.storage is not None
    if entry.nbytes < plan.storages[entry.storage].nbytes:
        return f"a part of {entry.nbytes:,} bytes from {entry.offset:,}"
    return "added to what is there" if entry.adds else "the whole of it"


def _steps(indices: Sequence[int]) -> str:
    return f"step {listed(map(str, indices))}" if indices else "nothing"


def _readings(plan: PlanFacts, storage: StorageFacts) -> list[Reading]:
    """The steps that read what is in a storage, in order, and what they read."""
    return sorted((at, eid) for eid in storage.entries for at in plan.entries[eid].readers)


def _kept(plan: PlanFacts, storage: StorageFacts) -> str:
    """The last event of a storage: why it is not free before."""
    keeper = storage.keeper
    name = "" if keeper.entry is None else plan.entries[keeper.entry].name
    if keeper.reason == "output":
        return f"kept, since {name} is an output of the network: it lives on after the run"
    assert keeper.step is not None
    step = step_label(plan, keeper.step)
    return {"read": f"kept until {step} reads {name}, as the last",
            "written": f"kept until {step} writes {name}, which nothing reads",
            "scratch": f"workspace of {step}"}[keeper.reason]


def storage_answer(plan: PlanFacts, sid: int) -> Answer:
    """Who shares a storage, one after another, and what it would cost not to."""
    storage = plan.storages[sid]
    members = _in_order(plan, storage.entries)
    apart = sum(plan.entries[eid].nbytes for eid in members) if members else storage.nbytes
    neighbours = [other for other in range(len(plan.storages)) if other != sid
                  and _overlap(storage, plan.storages[other])]
    lines = [f"{described_storage(plan, sid)}, {_span(storage)}"]
    lines += (f"  {line}" for line in shortened([
        f"{plan.entries[eid].name}, {plan.entries[eid].nbytes:,} bytes, {_how(plan, eid)}: "
        f"written by step {plan.entries[eid].producer}, read by "
        f"{_steps(plan.entries[eid].readers)}" for eid in members]))
    lines.append(f"  {_kept(plan, storage)}")
    if len(members) > 1:
        lines.append(f"with memory of their own these {len(members)} tensors would take {apart:,} "
                     f"bytes, {apart - storage.nbytes:,} more")
    if neighbours:
        lines.append("other steps use its addresses for " + listed(
            f"storage {other} ({_span(plan.storages[other])})" for other in neighbours))
    return Answer("\n".join(lines), {
        "storage": sid, "nbytes": storage.nbytes, "first": storage.first, "last": storage.last,
        "entries": members, "apart": apart, "cost": apart - storage.nbytes,
        "same_addresses": neighbours})


def _overlap(one: StorageFacts, other: StorageFacts) -> bool:
    """Whether two storages have addresses in common."""
    return (one.offset is not None and other.offset is not None and one.space == other.space
            and one.offset < other.offset + other.nbytes
            and other.offset < one.offset + one.nbytes)


def peak(facts: BindFacts) -> Answer:
    """The storages that are alive when most memory is in use, and why each of them is."""
    plan, index = facts.plan, facts.plan.memory.peak_step
    if index is None:
        return Answer("there are no steps, so there is no peak", {"step": None, "storages": []})
    living = sorted((sid for sid, each in enumerate(plan.storages) if each.nbytes
                     and each.first <= index and (each.held or index <= each.last)),
                    key=lambda sid: (-plan.storages[sid].nbytes, sid))
    nbytes = plan.memory.live[index]
    lines = [f"{nbytes:,} bytes in {counted(len(living), 'storage')} at {step_title(plan, index)}"]
    for sid in living[:ROWS]:
        storage = plan.storages[sid]
        held = listed([plan.entries[eid].name for eid in _in_order(plan, storage.entries)], 3)
        lines.append(f"  {storage.nbytes:>14,}  storage {sid}: "
                     + f"{held}; " * bool(storage.entries) + _kept(plan, storage))
    rest = living[ROWS:]
    if rest:
        lines.append(f"  {sum(plan.storages[sid].nbytes for sid in rest):>14,}  "
                     f"{len(rest)} smaller ones")
    return Answer("\n".join(lines), {"step": index, "nbytes": nbytes, "storages": living})
