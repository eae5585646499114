"""The plans of ten networks as texts, so that a change of a pass is a readable difference.

    python -m tests.explain.golden            # writes tests/explain/golden/*.txt again
    python -m tests.explain.golden FOLDER

The texts leave out what depends on the host: addresses, workspaces, implementations, and bytes of
packed filters.  What else depends on it is set for the process that writes them: lanes of vectors
and threads.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

__all__ = ["FOLDER", "write"]

FOLDER = Path(__file__).with_name("golden")
SETTINGS = {"NBMOD_SIMD_LANES": "8", "NUMBA_NUM_THREADS": "1"}


def write(folder: Path) -> None:
    """Write the texts of all networks, in a process with these settings and no others."""
    inherited = {name: value for name, value in os.environ.items()
                 if not name.startswith(("NBMOD_", "MXNET_", "NUMBA_"))}
    with TemporaryDirectory() as cache:     # which has no measured times of algorithms
        subprocess.run([sys.executable, "-m", __spec__.name, str(folder), "--here"], check=True,
                       env={**inherited, **SETTINGS, "NBMOD_CACHE_DIR": cache},
                       cwd=Path(__file__).parents[2])


def _write_here(folder: Path) -> None:
    from tests.explain.networks import NETWORKS, planned

    folder.mkdir(exist_ok=True)
    for name in NETWORKS:
        (folder / f"{name}.txt").write_text("\n".join([*_text(planned(name)), ""]))


def _text(plan) -> Iterator[str]:
    facts = plan.facts
    yield from (line for line in str(plan).splitlines()
                if line.startswith(("arguments", "outputs")))
    yield f"{len(facts.plan.steps)} steps, {'training' if facts.network.training else 'inference'}"
    for each in facts.passes:
        yield from _pass(facts, each)
    yield from _remarks(facts)
    yield from _steps(facts)
    yield from _memory(facts.plan)


def _pass(facts, change) -> Iterator[str]:
    from nbmod.explain.overview import is_rewired
    from nbmod.explain.wording import described_change, described_node

    yield f"\n{change.name}: {change.description}"
    for node in map(facts.nodes.__getitem__, change.added):
        yield f"  adds {node.name}: {described_node(node)}"
    for node in map(facts.nodes.__getitem__, change.removed):
        yield f"  removes {node.name}: {node.op}"
    for pair in change.replaced:
        before, after = facts.nodes[pair.before], facts.nodes[pair.after]
        if not is_rewired(before, after):
            yield f"  changes {before.name}: {described_change(before, after)}"


def _remarks(facts) -> Iterator[str]:
    """Without the lines of rules, which move with every edit; nodes that changed by name only."""
    from nbmod.explain.wording import described_remark

    groups = defaultdict(lambda: defaultdict(list))
    for each in facts.remarks:
        text = described_remark(each).partition("; rule")[0]
        told = f"done: {each.rule}" if each.verdict == "done" else text
        groups[each.pass_name][told].append(each.name)
    for name, rules in groups.items():
        yield f"\nremarks of {name}"
        yield from (f"  {rule}: {', '.join(names)}" for rule, names in rules.items())


def _steps(facts) -> Iterator[str]:
    plan = facts.plan
    yield "\nsteps"
    for index, step in enumerate(plan.steps):
        reads = ", ".join(plan.entries[eid].name for eid in step.reads)
        writes = ", ".join("-" if eid is None else plan.entries[eid].name for eid in step.writes)
        work = "; view" * step.is_view + f"; {step.operations} operations" * bool(step.operations)
        yield f"  {index} {step.name} ({step.op}): {reads or 'nothing'} -> {writes}{work}"
        for body in step.subgraphs:
            yield from (f"      {each.name} ({each.op})" for each in body.steps)
    for group in plan.constants:
        names = ", ".join(facts.nodes[number].name for number in group)
        yield f"  when what they read has changed: {names}"


def _memory(plan) -> Iterator[str]:
    yield "\nmemory"
    for storage in plan.storages:
        if storage.scratch_of is None:
            names = [_how(plan, eid) for eid in storage.entries]
            until = "kept" if storage.held else storage.last
            yield f"  {storage.nbytes} bytes, steps {storage.first} to {until}: {', '.join(names)}"
    views = [f"{entry.name} of {plan.entries[entry.view_of].name}" for entry in plan.entries
             if entry.view_of is not None]
    if views:
        yield f"  views of arrays: {', '.join(views)}"


def _how(plan, eid: int) -> str:
    entry = plan.entries[eid]
    if entry.in_place_of is not None:
        return f"{entry.name} in place of {plan.entries[entry.in_place_of].name}"
    if entry.producer is not None and plan.steps[entry.producer].is_view:
        return f"{entry.name} (view)"
    return f"{entry.name} (added to)" if entry.adds else entry.name


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    (_write_here if "--here" in sys.argv else write)(target)
