"""Answers about a step: what it reads and writes, where, by which implementation."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from .node_history import NodeHistory
from .schema import BindFacts, Json, PlanFacts, StepFacts, StepTimeFacts, ValueFacts
from .wording import (
    Answer,
    counted,
    described_implementation,
    described_loop,
    described_memory,
    described_storage,
    described_tensor,
    listed,
    step_label,
    step_title,
)

__all__ = ["code_answer", "run_answer", "step_answer"]


def step_answer(history: NodeHistory, index: int) -> Answer:
    """Tell what a step does."""
    facts = history.facts
    plan, step = facts.plan, facts.plan.steps[index]
    computes = [node for node in facts.graph
                if facts.nodes[node].op and history.last(node) == step.node]
    gradients = [number for number, each in enumerate(plan.steps) if each.forward == index]
    lines = [f"{step_title(plan, index)}, {step.phase} on {step.context}"]
    if computes:
        lines.append(f"  computes {', '.join(facts.nodes[node].name for node in computes)}")
    elif step.forward is None and (maker := history.inserted_by(step.node)):
        lines.append(f"  inserted by {maker} for "
                     + listed(facts.nodes[node].name for node in facts.nodes[step.node].origins))
    lines += (f"  {line}" for line in _arrays(plan, step))
    lines += (f"  gradient of {step_label(plan, each)}" for each in [step.forward]
              if each is not None)
    lines += (f"  its gradient: {step_label(plan, each)}" for each in gradients)
    lines += (f"  {line}" for line in _work(step))
    if facts.run is not None:
        lines += (f"  {line}" for line in _values(plan, facts.run.steps[index]))
    time = next((each for each in facts.measured.steps if each.step == index), None) if (
        facts.measured) else None
    if time is not None:
        lines.append(f"  {_time(time)}")
    for body in step.subgraphs:
        lines += [f"  runs a body of {counted(len(body.steps), 'step')} in "
                  f"{body.memory.total:,} bytes:",
                  *(f"    {step_title(body, each)}" for each in range(len(body.steps)))]
    data: dict[str, Json] = {
        "step": index, "name": step.name, "op": step.op, "computes": computes,
        "reads": list(step.reads), "writes": list(step.writes), "scratch": list(step.scratch),
        "operations": step.operations, "nbytes": step.nbytes, "forward": step.forward,
        "gradients": gradients, "is_view": step.is_view,
        "seconds": None if time is None else time.seconds,
        "share": None if time is None else time.share, "roof": "" if time is None else time.roof}
    return Answer("\n".join(lines), data)


def code_answer(facts: BindFacts, steps: Collection[int]) -> Answer:
    """The kernels of steps: source and hot loops; one that several steps call the first time only.

    Parameters
    ----------
    facts : BindFacts
        With the code of these steps.
    steps : collection of int
        The steps.
    """
    assert facts.code is not None
    lines, told, data = list[str](), dict[int, int](), dict[str, Json]()
    for each in facts.code.steps:
        if each.step in steps:
            title, data[str(each.step)] = step_title(facts.plan, each.step), list(each.kernels)
            if not each.kernels:
                lines.append(f"{title}: no kernel, NumPy runs it")
            for number in each.kernels:
                kernel = facts.code.kernels[number]
                lines.append(f"{title}: kernel {kernel.name}" + (
                    f", as in step {told[number]}" if number in told else f" at {kernel.where}"))
                if told.setdefault(number, each.step) == each.step:
                    lines += [kernel.source.rstrip(), *described_loop(kernel)]
    return Answer("\n".join(lines), data)


def run_answer(facts: BindFacts) -> Answer:
    """The values that each step wrote in a run.

    Parameters
    ----------
    facts : BindFacts
        With a run.
    """
    assert facts.run is not None
    lines, damaged = list[str](), list[int]()
    for index, written in enumerate(facts.run.steps):
        lines += (f"{step_label(facts.plan, index)}: {line}" for line in _values(facts.plan,
                                                                                written))
        damaged += [index] * any(each.not_finite for each in written)
    if damaged:
        lines.insert(0, "the first values that are not finite: "
                     + step_title(facts.plan, damaged[0]))
    return Answer("\n".join(lines), {"not_finite": damaged})


def _values(plan: PlanFacts, written: Iterable[ValueFacts]) -> Iterator[str]:
    for each in written:
        text = ("no finite value" if each.low is None else
                f"{each.low:g} to {each.high:g}, mean {each.mean:g}")
        if each.not_finite:
            text += f", {counted(each.not_finite, 'value')} not finite"
        yield f"{plan.entries[each.entry].name} is {text}"


def _arrays(plan: PlanFacts, step: StepFacts) -> Iterator[str]:
    for verb, eids in (("reads", step.reads), ("writes", step.writes)):
        for eid in eids:
            if eid is not None:
                entry = plan.entries[eid]
                yield (f"{verb} {entry.name}, {described_tensor(entry.tensor)}: "
                       f"{described_memory(plan, eid)}")
    for sid in step.scratch:
        yield f"workspace: {described_storage(plan, sid)}"


def _work(step: StepFacts) -> Iterator[str]:
    if step.is_view:
        yield "a view: nothing runs, the result is in memory already"
        return
    yield (f"{step.operations:,} operations, " if step.operations else "") + (
        f"{step.nbytes:,} bytes read and written")
    yield from described_implementation(step.implementation)


def _time(time: StepTimeFacts) -> str:
    """The measured time, and how far it is from the roof that bounds the step."""
    text = f"measured: {time.seconds * 1e3:.4g} ms"
    if time.noise is not None:
        text += f" +-{time.noise:.0%}"
    return text if time.share is None else (
        f"{text}, bounded by {time.roof}: {time.share:.0%} of that, where it would take "
        f"{time.share * time.seconds * 1e3:.4g} ms")
