"""Training that resumes from a `.resume` file whose values were changed: it refuses, or it trains.

Random changes of bytes fail at the file's checksum.  Here values of its JSON are replaced, removed
and exchanged, and the checksum is that of the new content.  The trials run in a process of their
own, because a position that nobody checks reads other memory:

    python -m tests.reliability.changed_resume --seed 3 --trials 1000
"""

from __future__ import annotations

import argparse
import copy
import json
import logging
import pathlib
import random
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from typing import Any

from tests.reliability.figures import Effort, Figure

PUBLISHED = 20_000
SECONDS = 10.0
"""Processor time that a trial may take: it loads the files and trains for two epochs at most."""

CASES = ("sgd, shuffled, two contexts", "adam, dropout", "steps", "cosine", "samples rolled over",
         "resized", "own iterator", "compression", "in the midst, rolled over",
         "in the midst, own iterator", "in the midst, devices apart",
         "buckets, two contexts, in the midst", "rows, adam", "lbsgd", "sgld", "nadam",
         "evaluation that draws")
"""Those of `tests.programs.resume_runs` that save different parts."""

EXTREMES: tuple[object, ...] = (
    None, True, False, 0, 1, -1, 3, 625, 10**6, 2**31, 2**63, 2**70, 10**12, -10**12, 0.5, 1e308,
    float("nan"), float("inf"), "", "x", "1", [], [1], {}, {"x": 1}, {"$tuple": []}, {"$pairs": []},
    {"$array": ["<f4", [0], ""]}, {"$array": ["<f4", [2], "AAAAAAAAAAA="]},
    {"$array": ["<i8", [1], "AAAAAAAAAAA="]}, {"$ndarray": ["<f4", [2], "AAAAAAAAAAA="]})

Place = tuple[Any, ...]


def places(tree: Any, place: Place = ()) -> Iterator[Place]:
    """The keys that lead to each value of a tree."""
    inner = (tree.items() if isinstance(tree, dict) else
             enumerate(tree) if isinstance(tree, list) else ())
    for key, value in inner:
        yield (*place, key)
        yield from places(value, (*place, key))


def changed(tree: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """A copy with one or two changes of values."""
    tree = copy.deepcopy(tree)
    for _ in range(rng.choice((1, 1, 1, 2))):
        at = rng.choice([*places(tree)])
        owner, key, kind = value_at(tree, at[:-1]), at[-1], rng.random()
        if kind < 0.6:
            owner[key] = copy.deepcopy(rng.choice(EXTREMES))
        elif kind < 0.75:
            del owner[key]
        elif kind < 0.9:
            owner[key] = copy.deepcopy(value_at(tree, rng.choice([*places(tree)])))
        elif isinstance(owner, list):
            owner.append(copy.deepcopy(owner[key]))
        else:
            owner["another"] = rng.choice(EXTREMES)
    return tree


def value_at(tree: Any, place: Place) -> Any:
    for key in place:
        tree = tree[key]
    return tree


def work(trials: int, seed: int) -> dict[str, Any]:
    """Run the trials; what is printed as JSON."""
    from nbmod.module import resume
    from tests.programs import resume_runs

    failures = []
    with tempfile.TemporaryDirectory() as name:
        folder, files = pathlib.Path(name), {}
        for case in CASES:
            try:
                resume_runs.run(case, "first", folder)
            except resume_runs.Broken:
                pass
            files[case] = pathlib.Path(
                f"{resume_runs.prefix_of(case, folder)}-{resume_runs.BROKEN_AT:04d}.resume")
        sound = {case: json.loads(file.read_text()) for case, file in files.items()}
        for content in sound.values():
            del content["checksum"]
        for trial in range(trials):
            rng = random.Random(f"{seed} {trial}")
            case = rng.choice(CASES)
            content = changed(sound[case], rng)
            files[case].write_text(json.dumps(resume.with_checksum(content)))
            if problem := try_one(case, folder):
                failures.append(f"trial {trial}, seed {seed}, {case}: {problem}")
    return {"trials": trials, "failures": failures}


def try_one(case: str, folder: pathlib.Path) -> str:
    """What went wrong when training was to resume; empty: nothing."""
    from nbmod.base import MXNetError
    from tests.programs import resume_runs

    start = time.process_time()
    try:
        resume_runs.run(case, "rest", folder)
    except (MXNetError, resume_runs.Broken):
        pass
    except Exception as error:  # any other class is what this looks for
        return f"{type(error).__name__}: {error}"[:200]
    taken = time.process_time() - start
    return f"took {taken:.0f} s" if taken > SECONDS else ""


def measure(effort: Effort) -> Figure:
    """The trials, in another process."""
    what, trials = "Changed training states, resumed", effort.trials(PUBLISHED, at_least=100)
    done = subprocess.run([sys.executable, "-m", "tests.reliability.changed_resume", "--seed",
                           str(effort.seed), "--trials", str(trials)],
                          capture_output=True, text=True, check=False)
    if done.returncode:
        return Figure(what, trials, (
            f"the process ended with {done.returncode}: {done.stderr[-300:]}",))
    found = json.loads(done.stdout.splitlines()[-1])
    return Figure(what, found["trials"], tuple(found["failures"]))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.reliability.changed_resume")
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    print(json.dumps(work(arguments.trials, arguments.seed)))


if __name__ == "__main__":
    main()
