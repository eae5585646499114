"""Same seed, same bits: training in processes that differ in what must not matter."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from tests.reliability.figures import Effort, Figure, Promise

PROGRAM = "from tests.programs.thread_runs import trained; print(trained({seed}, {steps}))"
STEPS = 20

SETTINGS: dict[str, dict[str, str]] = {
    "the same again": {},
    "one thread": {"NUMBA_NUM_THREADS": "1"},
    "three threads": {"NUMBA_NUM_THREADS": "3"},
    "eight threads": {"NUMBA_NUM_THREADS": "8"},
    "threading layer omp": {"NUMBA_THREADING_LAYER": "omp"},
    "threading layer workqueue": {"NUMBA_THREADING_LAYER": "workqueue"},
    "another order of hashes": {"PYTHONHASHSEED": "1"},
    "memory not reused": {"NBMOD_DISABLE_PASSES": "reuse_memory,inplace,view"},
}
COLD = "an empty cache of kernels"
SHORT = ("one thread", "three threads")


def digest(settings: dict[str, str], steps: int, seed: int, python: str = sys.executable) -> str:
    """A digest of outputs and parameters after training in a process of its own."""
    done = subprocess.run(
        [python, "-c", PROGRAM.format(seed=seed, steps=steps)], capture_output=True,
        text=True, check=False, env=os.environ | settings)
    return done.stdout.strip() if done.returncode == 0 else done.stderr[-200:]


def compare(settings: dict[str, dict[str, str]], steps: int, seed: int,
            python: str = sys.executable) -> Figure:
    """How many of the settings give the bits of the first one."""
    first, *others = settings.items()
    expected = digest(first[1], steps, seed, python)
    failures = [f"{name}: {found}, expected {expected}" for name, setting in (first, *others)
                if (found := digest(setting, steps, seed, python)) != expected]
    return Figure("Training runs with the bits of the first", len(settings), tuple(failures),
                  ", ".join(settings))


def measure(effort: Effort) -> list[Figure]:
    """All settings; compiling everything anew takes a minute."""
    with tempfile.TemporaryDirectory() as folder:
        settings = SETTINGS | {COLD: {"NBMOD_CACHE_DIR": folder}}
        return [compare(settings, effort.trials(STEPS, at_least=2), effort.seed)]


def measure_mxnet(effort: Effort) -> list[Figure]:
    """The settings that mean something to MXNet."""
    from tests.reliability import real_mxnet

    threads = {f"{word} thread{'s' * (count > 1)}": {"OMP_NUM_THREADS": str(count)}
               for word, count in (("one", 1), ("three", 3), ("eight", 8))}
    settings = {"the same again": {}, **threads, "another order of hashes": {"PYTHONHASHSEED": "1"},
                "no engine": {"MXNET_ENGINE_TYPE": "NaiveEngine"}}
    return [compare({name: setting | real_mxnet.PACKAGE for name, setting in settings.items()},
                    effort.trials(STEPS, at_least=2), effort.seed, real_mxnet.python())]


def measure_short(effort: Effort) -> list[Figure]:
    """Numbers of threads, on kernels that other tests compile, too."""
    return [compare({name: SETTINGS[name] for name in ("the same again", *SHORT)}, 2, effort.seed)]


PROMISE = Promise(8, "Same seed, same bits",
                  "Training gives the same bits, whatever the threads and the cache", measure,
                  measure_mxnet, measure_short)
