"""Ranks killed at random moments: all end with a message, and training ends with the same bits.

    python -m tests.kvstore.distributed.kills --trials 200
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.kvstore.distributed.launched import Launch
from tests.kvstore.distributed.training import BATCHES, EPOCHS

SCRIPT = Path(__file__).parent / "training.py"
LIMIT = 10.0
"""Seconds in which the death of a rank is told."""


@dataclass(frozen=True)
class Trial:
    """What a kill has led to; `seconds` until the message, `problem` is empty if all is right."""

    rank: int
    moment: str
    seconds: float
    message: str
    problem: str


def bits(prefix: Path) -> list[bytes]:
    """Parameters and optimizer states at the end."""
    return [Path(f"{prefix}-{EPOCHS:04d}.{kind}").read_bytes() for kind in ("params", "states")]


def trained(prefix: Path, ranks: int, options: Sequence[str]) -> list[bytes]:
    """What training without a kill ends with."""
    run = Launch(["-n", str(ranks), str(SCRIPT), str(prefix), *options])
    assert run.wait() == 0, run.text
    return bits(prefix)


def kill_once(prefix: Path, ranks: int, chance: random.Random, expected: list[bytes],
              options: Sequence[str]) -> Trial:
    """Train, kill a rank at a random moment, and compare what training ends with."""
    run = Launch(["-n", str(ranks), "--restarts", "1", str(SCRIPT), str(prefix), *options])
    rank = chance.randrange(ranks)
    run.until(lambda: len(run.ranks()) == ranks, "all ranks start")
    moment = f"{chance.uniform(0, 4):.2f} s after the start"
    if chance.random() < 0.8:    # most of them while it trains, some while it starts
        moment = f"epoch {chance.randrange(EPOCHS)}, batch {chance.randrange(BATCHES)}"
        run.until(lambda: run.said(f"[{rank}] {moment}"), "it trains")
    time.sleep(float(moment.split()[0]) if moment[0].isdigit() else chance.uniform(0, 0.15))
    number = run.ranks().get(rank)
    killed = time.monotonic()
    if number is not None:    # else it has ended already
        os.kill(number, signal.SIGKILL)
    status = run.wait()
    told = [(at, line) for at, line in run.lines if line.startswith("nbmod: rank")]
    seconds = told[0][0] - killed if told else 0.0
    return Trial(rank, moment, seconds, told[0][1] if told else "",
                 _problem(run, status, f"nbmod: rank {rank} of {ranks}", number is not None)
                 or ("a late message" if seconds > LIMIT else "")
                 or ("" if bits(prefix) == expected else "other bits"))


def _problem(run: Launch, status: int, name: str, killed: bool) -> str:
    """What is wrong with the messages and processes of a launch."""
    told = run.said("nbmod: rank")
    if killed and not (len(told) == 1 and told[0].startswith(name)
                       and "was killed by SIGKILL" in told[0]) or told and not killed:
        return f"{len(told)} messages: {run.text}"
    if status != 0:
        return f"exit status {status}: {run.text}"
    return ""


def trials(count: int, ranks: int, seed: int) -> Iterator[Trial]:
    """Kill a rank in each of `count` trainings."""
    chance, options = random.Random(seed), ["--pause", "0.1"]
    with tempfile.TemporaryDirectory() as folder:
        expected = trained(Path(folder, "whole"), ranks, options)
        for number in range(count):
            yield kill_once(Path(folder, str(number)), ranks, chance, expected, options)
            for file in Path(folder).glob(f"{number}-*"):
                file.unlink()


def described(done: Sequence[Trial]) -> str:
    """How long the messages took."""
    told = [trial.seconds for trial in done if trial.message]
    return (f"{len(told)} kills, the message after {statistics.mean(told):.2f} s "
            f"(at most {max(told):.2f} s)")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.kvstore.distributed.kills",
                                     description=__doc__)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    done: list[Trial] = []
    for trial in trials(args.trials, args.ranks, args.seed):
        done.append(trial)
        print(len(done), trial, flush=True)
    wrong = [trial for trial in done if trial.problem]
    print(f"{len(done)} trials, {described(done)}, {len(wrong)} problems")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
