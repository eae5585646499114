"""Saves that are killed, that run out of space, or that may not write: the files stay whole.

A forked process saves a module again and again; parameters, optimizer states and training state of
each save hold its number. Half of the processes are killed after a random time, half at a random
rename, which is where files of two saves could meet. Then every file must load, and every set must
be of one save.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pathlib
import random
import resource
import signal
import tempfile
import time
import warnings
from collections.abc import Callable

import numpy as np

import nbmod as mx
from nbmod.base import MXNetError
from nbmod.optimizer.states import load_states
from tests.reliability.figures import Effort, Figure, Promise
from tests.reliability.power_cuts import order

PUBLISHED = 1000
SAVES = 4
"""Each process is killed in one of them."""
NOBODY = 65534


class Saver:
    """A module whose every array holds the number of the save."""

    def __init__(self, folder: pathlib.Path):
        self.prefix = str(folder / "net")
        data = mx.sym.Variable("data")
        net = mx.sym.FullyConnected(data, num_hidden=400, name="fc")
        self.module = mx.mod.Module(mx.sym.SoftmaxOutput(net, name="softmax"))
        self.module.bind([("data", (2, 300))], [("softmax_label", (2,))])
        self.module.init_params(mx.init.Zero())
        self.module.init_optimizer(optimizer="adam")
        updater = self.module._updater
        for index, name in enumerate(self.module._param_names):
            updater._make_state(index, self.module._arg_params[name])

    def save(self, number: int, epoch: int) -> None:
        """Write a checkpoint of this number."""
        states = [array for state in self.module._updater.states.values() for array in state]
        for array in [*self.module._arg_params.values(), *states]:
            array._data.fill(number)
        self.module.history = [{"epoch": number}]
        self.module.save_checkpoint(self.prefix, epoch, save_optimizer_states=True, integrity=True)

    def problem(self, epoch: int) -> str:
        """What is wrong with the checkpoint of an epoch; empty: nothing."""
        stem, numbers = f"{self.prefix}-{epoch:04d}", {}
        try:
            _, params, _ = mx.model.load_checkpoint(self.prefix, epoch)
            numbers["parameters"] = {float(value) for array in params.values()
                                     for value in np.unique(array.asnumpy())}
            states, _ = load_states(pathlib.Path(f"{stem}.states").read_bytes())
            numbers["states"] = {float(value) for state in states.values() for array in state
                                 for value in np.unique(array.asnumpy())}
            state = mx.module.resume.read(f"{stem}.resume")
            numbers["training state"] = {float(past["epoch"]) for past in state["history"]}
        except (MXNetError, OSError) as error:
            return f"does not load: {error}"
        if len({number for found in numbers.values() for number in found}) == 1:
            return ""
        return f"of several saves: {numbers}"


def forked(work: Callable[[], None]) -> int:
    """Start a process that does this work, and nothing at its end."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)    # of threads that tests have started
        child = os.fork()
    if child:
        return child
    status = 1
    try:
        work()
        status = 0
    finally:
        os._exit(status)


def _kill_at_rename(count: int) -> None:
    """From now on this process dies before its `count`-th rename."""
    replace, left = os.replace, iter(range(count))

    def killing(source: str, target: str) -> None:
        if next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
        replace(source, target)

    os.replace = killing


def _killed(saver: Saver, epochs: list[int], rng: random.Random, seconds: float) -> None:
    """Let a process save these epochs, numbered from 2 on, and kill it."""
    rename = rng.randrange(5 * SAVES) if rng.random() < 0.5 else None

    def work() -> None:
        if rename is not None:
            _kill_at_rename(rename)
        for number, epoch in enumerate(epochs, 2):
            saver.save(number, epoch)

    child = forked(work)
    if rename is None:
        time.sleep(rng.uniform(0, seconds))
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def _trial(saver: Saver, folder: pathlib.Path, epochs: list[int], rng: random.Random,
           seconds: float) -> str:
    """Problems after one killed process, and after the next save."""
    for path in folder.iterdir():
        path.unlink()
    saver.save(1, 1)
    _killed(saver, epochs, rng, seconds)
    found = {int(path.stem.rsplit("-", 1)[1]) for path in folder.glob("net-*.params")}
    problems = [f"epoch {epoch} {problem}" for epoch in sorted(found)
                if (problem := saver.problem(epoch))]
    if 1 not in found:
        problems.append("the older epoch is gone")
    saver.save(9, 9)
    problems += [f"{path.name} was left" for path in folder.glob("*.tmp")]
    return "; ".join(problems)


def _trials(what: str, epochs: list[int], effort: Effort) -> Figure:
    failures = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        saver = Saver(folder)
        start = time.monotonic()
        saver.save(1, 1)
        seconds = SAVES * (time.monotonic() - start)
        trials = effort.trials(PUBLISHED, at_least=6)
        for trial in range(trials):
            rng = random.Random(f"{what} {effort.seed} {trial}")
            if problem := _trial(saver, folder, epochs, rng, seconds):
                failures.append(f"trial {trial}, seed {effort.seed}: {problem}")
    return Figure(what, trials, tuple(failures))


# ------------------------------------------------------------------- what the file system refuses

def _refused(saver: Saver, folder: pathlib.Path, before: Callable[[], None]) -> str:
    """What is wrong after a save that the file system refuses."""
    old = {path.name: path.read_bytes() for path in folder.iterdir()}

    def work() -> None:
        before()
        with contextlib.suppress(MXNetError):
            saver.save(2, 1)
            raise SystemError("nothing was refused")

    _, status = os.waitpid(forked(work), 0)
    if status:
        return f"the process ended with status {status}"
    new = {path.name: path.read_bytes() for path in folder.iterdir()}
    return "" if new == old else f"files changed: {sorted(new)}"


def full_disk(effort: Effort) -> Figure:
    """The disk is full after a random number of bytes of a file."""
    failures = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        saver = Saver(folder)
        saver.save(1, 1)
        most = max(path.stat().st_size for path in folder.iterdir())
        trials = effort.trials(200, at_least=3)
        for trial in range(trials):
            limit = random.Random(f"full {effort.seed} {trial}").randrange(most)
            if problem := _refused(saver, folder, lambda size=limit: resource.setrlimit(
                    resource.RLIMIT_FSIZE, (size, size))):
                failures.append(f"after {limit} bytes: {problem}")
    return Figure("Saves on a disk that is full after some bytes", trials, tuple(failures))


def read_only() -> Figure:
    """A folder, and files in it, that may not be written."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        saver = Saver(folder)
        saver.save(1, 1)
        os.chmod(folder, 0o555)
        problem = _refused(saver, folder, lambda: os.geteuid() == 0 and os.setuid(NOBODY))
        os.chmod(folder, 0o755)
    return Figure("Saves to a folder that is read only", 1, tuple(filter(None, [problem])))


def measure(effort: Effort) -> list[Figure]:
    """All of them; what saves log is not shown."""
    before = logging.root.manager.disable
    logging.disable(logging.INFO)
    try:
        return [_trials("Killed while new epochs are saved", list(range(2, 2 + SAVES)), effort),
                _trials("Killed while the same epoch is saved again", [1] * SAVES, effort),
                full_disk(effort), read_only(), order(effort)]
    finally:
        logging.disable(before)


def measure_mxnet(effort: Effort) -> list[Figure]:
    """Killed saves and full disks of MXNet, a fifth as many."""
    from tests.reliability import real_mxnet

    found = real_mxnet.lines("mx_saves.py", str(effort.trials(PUBLISHED // 5, at_least=6)),
                             str(effort.trials(40, at_least=3)), str(effort.seed))
    return [real_mxnet.figure(line["what"], line["trials"], line["failures"]) for line in found]


PROMISE = Promise(4, "Kill -9 while saving",
                  "Every file loads, and every set is of one save",
                  measure, measure_mxnet)
