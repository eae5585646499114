"""MXNet's saves that are killed or run out of space, for its own Python: `python mx_saves.py`.

The trials of `killed_saves`, in forked processes that are killed after a random time; MXNet renames
nothing.  A line of JSON tells what happened to the files of each kind of trial.
Imports neither nbmod nor the rest of the tests, which need a newer NumPy.
"""

from __future__ import annotations

import json
import logging
import os
import pathlib
import pickle
import random
import resource
import signal
import sys
import tempfile
import time

os.environ["MXNET_ENGINE_TYPE"] = "NaiveEngine"    # children have no threads

import mxnet as mx
import numpy as np

SAVES = 4


class Saver:
    """A module whose every array holds the number of the save."""

    def __init__(self, folder: pathlib.Path):
        self.prefix = str(folder / "net")
        data = mx.sym.Variable("data")
        net = mx.sym.FullyConnected(data, num_hidden=400, name="fc")
        self.module = mx.mod.Module(mx.sym.SoftmaxOutput(net, name="softmax"))
        self.module.bind([("data", (2, 300))], [("softmax_label", (2,))])
        self.module.init_params(mx.init.Zero())
        self.module.init_optimizer(kvstore=None, optimizer="adam")
        self.module.forward_backward(mx.io.DataBatch([mx.nd.ones((2, 300))], [mx.nd.zeros((2,))]))
        self.module.update()

    def save(self, number: int, epoch: int) -> None:
        """Write a checkpoint of this number."""
        states = [array for state in self.module._updater.states.values() for array in state]
        for array in [*self.module._exec_group.execs[0].arg_dict.values(), *states]:
            array[:] = number
        self.module._params_dirty = True
        self.module.save_checkpoint(self.prefix, epoch, save_optimizer_states=True)

    def problem(self, epoch: int) -> str:
        """What is wrong with the checkpoint of an epoch; empty: nothing."""
        path = pathlib.Path(f"{self.prefix}-{epoch:04d}.states")
        try:
            _, params, _ = mx.model.load_checkpoint(self.prefix, epoch)
        except Exception:
            return "parameters do not load"
        try:
            states = pickle.loads(path.read_bytes())  # of this program's own arrays
        except Exception:
            return "states do not load" if path.exists() else "states are missing"
        arrays = [*params.values(), *(array for state in states.values() for array in state)]
        numbers = {float(value) for array in arrays for value in np.unique(array.asnumpy())}
        return "" if len(numbers) == 1 else "of several saves without a word"


def killed(saver: Saver, folder: pathlib.Path, epochs: list, delay: float) -> str:
    """What is wrong with a folder after its saves have been killed."""
    for path in folder.iterdir():
        path.unlink()
    saver.save(1, 1)
    child = os.fork()
    if not child:
        for number, epoch in enumerate(epochs, 2):
            saver.save(number, epoch)
        os._exit(0)
    time.sleep(delay)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    found = {int(path.stem.rsplit("-", 1)[1]) for path in folder.glob("net-*.params")}
    problems = sorted({problem for epoch in found if (problem := saver.problem(epoch))})
    return " and ".join(problems)


def full(saver: Saver, folder: pathlib.Path, limit: int) -> str:
    """What is wrong with a folder after a save on a disk with this many bytes left."""
    saver.save(1, 1)
    old = {path.name: path.read_bytes() for path in folder.iterdir()}
    child = os.fork()
    if not child:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        try:
            saver.save(2, 1)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    new = {path.name: path.read_bytes() for path in folder.iterdir()}
    return "" if new == old else "files changed"


def main() -> None:
    trials, disks, seed = map(int, sys.argv[1:])
    logging.disable(logging.INFO)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        saver = Saver(folder)
        start = time.monotonic()
        saver.save(1, 1)
        seconds = SAVES * (time.monotonic() - start)
        for what, epochs in (("Killed while new epochs are saved", list(range(2, 2 + SAVES))),
                             ("Killed while the same epoch is saved again", [1] * SAVES)):
            delays = random.Random(f"{what} {seed}")
            report(what, [killed(saver, folder, epochs, delays.uniform(0, seconds))
                          for _ in range(trials)])
        most = max(path.stat().st_size for path in folder.iterdir())
        limits = random.Random(f"full {seed}")
        report("Saves on a disk that is full after some bytes",
               [full(saver, folder, limits.randrange(most)) for _ in range(disks)])


def report(what: str, found: list) -> None:
    failures = [problem for problem in found if problem]
    print(json.dumps({"what": what, "trials": len(found), "failures": failures}), flush=True)


if __name__ == "__main__":
    main()
