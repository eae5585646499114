"""Ctrl-C at random moments: programs end with it, in time, and leave nothing behind.

Each trial is a process of its own in a session of its own. It says when it begins; after a random
time it gets one SIGINT, and then must end as a program does that was interrupted, with all that it
started. A second figure has one process go on after each interrupt, as a notebook does.
"""

from __future__ import annotations

import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

import nbmod as mx
from tests.reliability import alarms
from tests.reliability.figures import Effort, Figure, Promise

PATIENCE = 60
EACH = 50

PRELUDE = """
    import os, random, signal, sys, time
    # Who runs this in the background may have taught its children to ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    import numpy as np
    import PACKAGE as mx

    def fit(seed):
        net = mx.sym.Convolution(mx.sym.Variable("data"), num_filter=8, kernel=(3, 3))
        net = mx.sym.FullyConnected(mx.sym.relu(net), num_hidden=10)
        module = mx.mod.Module(mx.sym.SoftmaxOutput(net, name="softmax"))
        images = np.random.rand(64, 3, 12, 12).astype(np.float32)
        module.fit(mx.io.NDArrayIter(images, np.arange(64) % 10, 16), num_epoch=10 ** 9)

    def images(seed):
        iterator = mx.io.ImageRecordIter(path_imgrec="a.rec", data_shape=(3, 8, 8), batch_size=3,
                                         verbose=False, preprocess_threads=3)
        while True:
            for batch in iterator:
                pass
            iterator.reset()

    def compilation(seed):
        choose = random.Random(seed)
        while True:
            x = y = mx.sym.Variable("x")
            for _ in range(6):
                name = choose.choice(["sin", "cos", "exp", "tanh", "square", "abs", "floor", "log"])
                y = getattr(mx.sym, name)(y) + choose.choice([x, 1, 2])
            y.bind(mx.cpu(), {"x": mx.nd.ones((5, 5))}).forward()

    def im2rec(seed):
        from nbmod.cli import main as cli
        sys.exit(cli.main(["im2rec", "--num-thread", "2", f"out{seed}", "."]))
"""
ONCE = """
    print("begins", flush=True)
    {work}({seed})
"""
AGAIN = """
    import threading
    choose, problems = random.Random({seed}), 0
    for trial in range({trials}):
        caught = threading.Event()
        def press(delay=choose.uniform(0, 0.8)):
            time.sleep(delay)
            os.kill(os.getpid(), signal.SIGINT)
            if not caught.wait({patience}):
                print("trial", trial, "lost", flush=True)
                os._exit(1)
        thread = threading.Thread(target=press)
        thread.start()
        try:
            {work}({seed} + trial)
        except KeyboardInterrupt:
            caught.set()
        except BaseException as error:
            caught.set()
            print("trial", trial, type(error).__name__, str(error)[:200], flush=True)
            os._exit(1)
        thread.join()
        if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            print("trial", trial, "left a handler", flush=True)
            os._exit(1)
    print("over")
"""
WORK = ("fit", "images", "compilation", "im2rec")
OF_MXNET = ("fit", "images")
"""Its im2rec is a script beside the package."""


@dataclass(frozen=True)
class Program:
    """A program that is interrupted, where it runs, and the package that it uses."""

    work: str
    folder: pathlib.Path
    package: str = "nbmod"
    python: str = sys.executable

    def start(self, ending: str, **parts: object) -> subprocess.Popen[str]:
        code = textwrap.dedent(PRELUDE.replace("PACKAGE", self.package)) + textwrap.dedent(
            ending).format(work=self.work, **parts)
        environment = dict(os.environ)
        if self.package == "nbmod":
            root = pathlib.Path(__file__).parents[2]
            environment["PYTHONPATH"] = os.pathsep.join([str(root), *sys.path])
        if self.work == "compilation":
            environment["NBMOD_CACHE_DIR"] = str(self.folder / "cache")
        return subprocess.Popen([self.python, "-W", "ignore", "-c", code], cwd=self.folder,
                                env=environment, text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, start_new_session=True)


def _prepare(folder: pathlib.Path) -> None:
    """Records for the iterator, and a list of images for im2rec."""
    from tests.programs import image_record_programs

    image_record_programs.write(mx, str(folder), [(16, 20)] * 7, list(range(7)))
    image = mx.image.imencode(np.zeros((64, 64, 3), np.uint8), ".png") if hasattr(
        mx.image, "imencode") else b"image"
    (folder / "none.png").write_bytes(image)


def _interrupt(program: Program, seed: int, delay: float) -> tuple[str, float]:
    """What went wrong with one process, and the seconds that it took to end."""
    (program.folder / f"out{seed}.lst").write_text("0\t0\tnone.png\n" * 100_000)
    process = program.start(ONCE, seed=seed)
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    start = time.monotonic()
    try:
        _, said = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return f"went on for {PATIENCE} s", PATIENCE
    seconds, problem = time.monotonic() - start, ""
    # CPython's status of an interrupted program is 1 if text is evaluated while it ends, as modules
    # do that a thread is importing then.
    ended = (said.rstrip().endswith("KeyboardInterrupt")
             and process.returncode in (1, -signal.SIGINT))
    if not ended and (program.work, process.returncode) != ("im2rec", 130):
        problem = f"ended with {process.returncode}: {said[-300:]}"
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
        problem += " left processes"
    return problem, seconds


def _once(program: Program, effort: Effort) -> Figure:
    """A process for each interrupt."""
    work, failures, longest = program.work, [], 0.0
    trials = effort.trials(EACH)
    for trial in range(trials):
        delay = random.Random(f"{work} {effort.seed} {trial}").uniform(0, 3)
        problem, seconds = _interrupt(program, effort.seed * trials + trial, delay)
        longest = max(longest, seconds)
        if problem:
            failures.append(f"after {delay:.3f} s: {problem}")
    return Figure(f"Interrupted: {work}", trials, tuple(failures),
                  f"longest {longest:.1f} s to the end of the process")


def _again(program: Program, effort: Effort) -> Figure:
    """One process that goes on after each interrupt."""
    trials = effort.trials(EACH, at_least=2)
    process = program.start(AGAIN, seed=effort.seed, trials=trials, patience=PATIENCE)
    said, errors = process.communicate()
    over = said.splitlines()[-1:] == ["over"]
    problems = () if over else (said.strip() or errors[-300:],)
    return Figure(f"Interrupted again and again: {program.work}", trials, problems)


def _measured(effort: Effort, once: tuple[str, ...], again: tuple[str, ...],
              *package_and_python: str) -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        _prepare(folder)
        return [*(_once(Program(work, folder, *package_and_python), effort) for work in once),
                *(_again(Program(work, folder, *package_and_python), effort) for work in again)]


def measure(effort: Effort) -> list[Figure]:
    """Every program in both ways, im2rec once, as it is a command and ends; handlers that raise."""
    return [*_measured(effort, WORK, WORK[:-1]), *alarms.measure(effort)]


def measure_mxnet(effort: Effort) -> list[Figure]:
    """A fifth of the same interrupts of MXNet's programs."""
    from tests.reliability import real_mxnet

    few = Effort(effort.share / 5, effort.seed)
    return _measured(few, OF_MXNET, OF_MXNET, "mxnet", real_mxnet.python())


def short(effort: Effort) -> list[Figure]:
    """One program in each way; tests/io/test_interruption.py has others."""
    return _measured(effort, ("fit",), ("compilation",))


PROMISE = Promise(10, "Interrupts", "Ctrl-C ends the program, handlers may raise, nothing is left",
                  measure, measure_mxnet, short)
