"""Mutated files of every format: each is read, or refused by MXNetError, within seconds.

The trials run in a process of their own, so that a crash of a decoder is a result, too:

    python -m tests.reliability.mutation --seed 3 --share 0.1 "symbol JSON" images
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import time
import warnings
from typing import TYPE_CHECKING

from tests.reliability.figures import Effort, Figure, Promise

if TYPE_CHECKING:
    from tests.reliability.loaders import Loader

PUBLISHED = 60_000
"""Trials of a reader of cost 1."""
MXNET_TRIALS = 300
"""Those of them that a reader of MXNet gets, each in a process of its own."""

SECONDS = 10.0
"""Processor time that reading one of these small files may take."""

EXTREMES = [0, 1, 2, 127, 128, 255, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1,
            2**63, 2**64 - 1]


# ------------------------------------------------------------------------------------- mutations

def mutated(content: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """The content after one to four random changes."""
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
        rng.choice(CHANGES)(changed, others, rng)
    return bytes(changed)


def _set_byte(content: bytearray, _others: list[bytes], rng: random.Random) -> None:
    if content:
        content[rng.randrange(len(content))] = rng.randrange(256)


def _flip_bit(content: bytearray, _others: list[bytes], rng: random.Random) -> None:
    if content:
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)


def _set_integer(content: bytearray, _others: list[bytes], rng: random.Random) -> None:
    """An integer of 1 to 8 bytes becomes an extreme one: lengths, counts and offsets."""
    size, order = rng.choice("BHIQ"), rng.choice("<>")
    bits = 8 * struct.calcsize(size)
    value = struct.pack(order + size, rng.choice(EXTREMES) % (1 << bits))
    at = rng.randrange(len(content) + 1)
    content[at:at + len(value)] = value


def _cut(content: bytearray, _others: list[bytes], rng: random.Random) -> None:
    del content[rng.randrange(len(content) + 1):]


def _remove(content: bytearray, _others: list[bytes], rng: random.Random) -> None:
    start = rng.randrange(len(content) + 1)
    del content[start:start + rng.randint(1, 16)]


def _repeat(content: bytearray, _others: list[bytes], rng: random.Random) -> None:
    start = rng.randrange(len(content) + 1)
    part = content[start:start + rng.randint(1, 64)]
    at = rng.randrange(len(content) + 1)
    content[at:at] = part * rng.choice((1, 2, 50))


def _splice(content: bytearray, others: list[bytes], rng: random.Random) -> None:
    """The rest becomes that of another sample."""
    other = rng.choice(others)
    content[rng.randrange(len(content) + 1):] = other[rng.randrange(len(other) + 1):]


CHANGES = (_set_byte, _set_byte, _flip_bit, _set_integer, _cut, _remove, _repeat, _splice)


# ---------------------------------------------------------------------------------------- trials

def try_one(loader: Loader, content: bytes, folder: pathlib.Path) -> str:
    """What went wrong; empty: nothing."""
    from nbmod.base import MXNetError

    start = time.process_time()
    try:
        loader.load(content, folder)
    except MXNetError:
        pass
    except Exception as error:  # any other class is what this looks for
        return f"{type(error).__name__}: {error}"[:200]
    taken = time.process_time() - start
    return f"took {taken:.0f} s" if taken > SECONDS else ""


def trial_of(loader: Loader, samples: list[bytes], seed: int, trial: int) -> bytes:
    """The content of a trial."""
    rng = random.Random(f"{loader.name} {seed} {trial}")
    return mutated(rng.choice(samples), samples, rng)


def work(effort: Effort, names: list[str]) -> None:
    """Print a line of JSON before and after the trials of each reader."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        os.environ["NBMOD_CACHE_DIR"] = str(folder / "cache")  # for archives that are installed
        from tests.reliability import loaders

        for loader in loaders.chosen(names):
            samples = loader.samples()
            print(json.dumps({"reader": loader.name}), flush=True)
            failures = []
            trials = effort.trials(PUBLISHED // loader.cost, at_least=20)
            for trial in range(trials):
                content = trial_of(loader, samples, effort.seed, trial)
                if problem := try_one(loader, content, folder):
                    failures.append(f"trial {trial}, seed {effort.seed}: {problem}")
            print(json.dumps({"reader": loader.name, "trials": trials, "failures": failures}),
                  flush=True)


def measure(effort: Effort) -> list[Figure]:
    """All readers, one after the other; a crash ends one and the others go on."""
    from tests.reliability import changed_resume, loaders

    left, figures = [loader.name for loader in loaders.LOADERS], []
    while left:
        command = [sys.executable, "-m", "tests.reliability.mutation", "--seed", str(effort.seed),
                   "--share", str(effort.share), *left]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        for line in lines:
            if "trials" in line:
                figures.append(Figure(f"Mutated: {line['reader']}", line["trials"],
                                      tuple(line["failures"])))
                left.remove(line["reader"])
        if left:
            broken = lines[-1]["reader"] if lines else left[0]
            figures.append(Figure(f"Mutated: {broken}", 1, (
                f"the process ended with {done.returncode}: {done.stderr[-300:]}",)))
            left.remove(broken)
    return [*figures, changed_resume.measure(effort)]


def measure_mxnet(effort: Effort) -> list[Figure]:
    """The first of these trials, read by MXNet, where it has such a reader that runs no program."""
    from tests.reliability import loaders, real_mxnet

    with tempfile.TemporaryDirectory() as name:
        for loader in loaders.LOADERS:
            folder = pathlib.Path(name, loader.name)
            folder.mkdir()
            samples = loader.samples()
            for trial in range(effort.trials(MXNET_TRIALS, at_least=5)):
                content = trial_of(loader, samples, effort.seed, trial)
                (folder / f"{trial:04d}").write_bytes(content)
        return [real_mxnet.figure(f"Mutated: {found['reader']}", found["trials"],
                                  found["failures"])
                for found in real_mxnet.lines("mx_readers.py", "problem", name)]


PROMISE = Promise(1, "Byte mutation of every format",
                  "Every file is read or refused by MXNetError", measure, measure_mxnet)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.reliability.mutation")
    parser.add_argument("readers", nargs="*")
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    work(Effort(arguments.share, arguments.seed), arguments.readers)


if __name__ == "__main__":
    main()
