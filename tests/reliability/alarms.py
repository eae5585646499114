"""Handlers of signals that raise, at random moments of imports, compilation, forward and backward.

    python -m tests.reliability.alarms [SHARE]

One process imports, binds, compiles without a cache and runs one random network after another, and
gets a signal at a random moment of each.  What its handler raises comes out of the call as it is,
or the call ends before the signal; then the handlers are there, and the next network, which takes
new kernels, has the gradient that NumPy computes.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

from tests.reliability.figures import Effort, Figure

TRIALS = 400
PER_PROCESS = 20
"""Trials of one process, of which the first ones import."""
LIMIT = 300
"""Seconds for a process; it takes some ten."""
LONGEST_DELAY = 0.5
"""Seconds to a signal: networks take up to one."""

PROGRAM = """
import json, os, random, signal, sys, threading, time, traceback

seed, trials, longest = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
choose, called, places, problems = random.Random(seed), [], [], []
KINDS = {signal.SIGTERM: SystemExit, signal.SIGINT: KeyboardInterrupt,
         signal.SIGALRM: TimeoutError, signal.SIGUSR1: RuntimeError}

def handler(number, frame):
    places[:] = [f"{each.filename}:{each.lineno}" for each in traceback.extract_stack(frame, 8)]
    called.append(KINDS[number](f"signal {number}"))
    raise called[-1]

for number in KINDS:
    signal.signal(number, handler)
ignored = []
sys.unraisablehook = lambda what: ignored.append(f"{what.exc_value!r} in {what.object!r}")

def work(turn):
    import nbmod as mx
    import numpy as np
    values = np.linspace(0.1, 1, 6 * (turn + 1)).astype("float32")
    x = y = mx.sym.Variable("x")
    expected, slope = values.astype("float64"), np.ones(len(values))
    for name in choose.choices(["sin", "exp", "square"], k=3):
        slope = slope * {"sin": np.cos, "exp": np.exp, "square": lambda x: 2 * x}[name](expected)
        expected = getattr(np, name)(expected)
        y = getattr(mx.sym, name)(y)
    y = mx.sym.MakeLoss(mx.sym.sort(y) if choose.random() < 0.3 else y)
    executor = y.bind(mx.cpu(), {"x": mx.nd.array(values)}, {"x": mx.nd.zeros(len(values))})
    executor.forward(is_train=True)
    executor.backward()
    return executor.grad_dict["x"].asnumpy(), slope

def right(turn):
    found, slope = work(turn)
    return abs(found - slope).max() <= 1e-4 * abs(slope).max()   # float32

def send(number, delay):
    time.sleep(delay)
    os.kill(os.getpid(), number)

for trial in range(trials):
    # While it looks for a package, Python takes any OSError, such as TimeoutError, for its absence.
    number = choose.choice(list(KINDS)[:4 if trial else 2])
    thread = threading.Thread(target=send, args=(number, choose.uniform(0, longest)))
    called.clear(), ignored.clear()
    raised = None
    try:
        thread.start()
        for turn in range(1000):
            work(turn % 40)
    except BaseException as error:
        raised = error
    try:
        thread.join()
    except BaseException as error:
        raised = raised or error
    if not called or raised is not called[-1]:
        problems.append(f"trial {trial}: {KINDS[number].__name__} was to come out, not {raised!r}; "
                        f"called {called} at {places}, ignored {ignored}")
    if any(signal.getsignal(each) is not handler for each in KINDS):
        problems.append(f"trial {trial}: a handler is not restored")
    try:
        assert right(trial % 40)
    except BaseException as error:
        problems.append(f"trial {trial}, {KINDS[number].__name__} at {places}: after it, "
                        f"{error!r:.300}")
        break
    print(json.dumps(problems), flush=True)
print(json.dumps(problems), flush=True)
"""


def _problems(seed: int, trials: int) -> list[str]:
    """What went wrong in one process."""
    root = pathlib.Path(__file__).parents[2]
    environment = dict(os.environ, NBMOD_CACHE="0", NBMOD_COMPILERS="1",
                       PYTHONPATH=os.pathsep.join([str(root), *sys.path]))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, str(seed), str(trials),
         str(LONGEST_DELAY)], env=environment, text=True, capture_output=True, timeout=LIMIT)
    problems: list[str] = json.loads((done.stdout.splitlines() or ["[]"])[-1])
    if done.returncode:
        problems.append(f"ended with {done.returncode}: {done.stderr[-300:]}")
    return [f"seed {seed}: {problem}" for problem in problems]


def measure(effort: Effort) -> list[Figure]:
    """Processes with some trials each."""
    trials = effort.trials(TRIALS, at_least=PER_PROCESS)
    failures = [problem for first in range(0, trials, PER_PROCESS)
                for problem in _problems(effort.seed * TRIALS + first,
                                         min(PER_PROCESS, trials - first))]
    return [Figure("Handlers that raise: import, compilation, forward, backward", trials,
                   tuple(failures))]


if __name__ == "__main__":
    for figure in measure(Effort(share=float(sys.argv[1]) if len(sys.argv) > 1 else 1.0)):
        print(f"{figure.what}: {figure.trials - len(figure.failures)} of {figure.trials}",
              *figure.failures, sep="\n")
