"""Start-up: import, first expression, kernels cold and from the cache, with MXNet beside.

    python -m bench.startup

Every figure is the median of fresh processes; the clock in them measures the statement only.
"""

from __future__ import annotations

import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

from tests.oracle.setup import find_python

ROOT = pathlib.Path(__file__).parent.parent
IMPORT = "import {package} as mx"
EXPRESSION = "import {package} as mx; START; (mx.nd.ones((2, 3)) * 2).asnumpy()"
LENET = """
import nbmod as mx
from nbmod.cli.demo import lenet
START
e = lenet().simple_bind(mx.cpu(), data=(64, 1, 28, 28))
e.forward(is_train=True); e.backward()
"""
RESNET = """
import nbmod as mx
from bench.networks import resnet
e = resnet([3, 4, 6, 3], True).simple_bind(mx.cpu(), grad_req="null", data=(1, 3, 224, 224))
e.forward()
"""
PREDICT = """
import numpy as np
import nbmod as mx
from nbmod.cli.demo import lenet
module = mx.mod.Module(lenet())
module.bind([("data", (64, 1, 28, 28))], for_training=False)
module.init_params()
module.predict(np.zeros((64, 1, 28, 28), np.float32)).asnumpy()
"""
TIMED = """
import time
started = time.perf_counter()
{code}
print(time.perf_counter() - started)
"""


def seconds(python: str, code: str, runs: int = 5, cache: str | None = None) -> float:
    """Median time of `code` in a fresh interpreter; `START` in it restarts the clock."""
    code = TIMED.format(code=code.replace("START", "started = time.perf_counter()"))
    environment = os.environ | ({"NBMOD_CACHE_DIR": cache} if cache else {})
    times = [float(subprocess.run([python, "-c", code], env=environment, check=True, cwd=ROOT,
                                  capture_output=True, text=True).stdout.split()[-1])
             for _ in range(runs)]
    return statistics.median(times)


def process_seconds(python: str, code: str, runs: int, cache: str, **settings: str) -> float:
    """The same from the start of the process to its end."""
    times = []
    for _ in range(runs):
        started = time.perf_counter()
        subprocess.run([python, "-c", code], check=True, cwd=ROOT, capture_output=True,
                       env=os.environ | {"NBMOD_CACHE_DIR": cache} | settings)
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def first_step() -> list[tuple[str, float]]:
    """Seconds to the end of LeNet's first training step, of ResNet-50's first output, and those of
    the whole process that computes it."""
    python, found = sys.executable, []
    with tempfile.TemporaryDirectory() as cache:
        for title, code in (("LeNet, first step", LENET), ("ResNet-50, first output", RESNET)):
            found.append((f"{title}, cold", seconds(python, code, 1, cache)))
            found.append((f"{title}, from the cache", seconds(python, code, 3, cache)))
        found.append(("ResNet-50, whole process, from the cache",
                      process_seconds(python, RESNET, 3, cache)))
    return found


def first_answers() -> Iterator[tuple[str, float]]:
    """Seconds of whole processes that predict once in an empty cache, with NumPy forms at first and
    without them."""
    resnet = RESNET.replace('grad_req="null"', 'grad_req="null", numpy_first=True')
    for title, code in (("LeNet, predict", PREDICT), ("ResNet-50, first output", resnet)):
        for form, switch in (("NumPy first", "1"), ("kernels only", "0")):
            with tempfile.TemporaryDirectory() as cache:
                yield f"{title}, cold, {form}", process_seconds(
                    sys.executable, code, 1, cache, NBMOD_NUMPY_FIRST=switch)


def main() -> None:
    peer = find_python()
    for title, code in (("import", IMPORT), ("first expression after import", EXPRESSION)):
        ours = seconds(sys.executable, code.format(package="nbmod"))
        theirs = seconds(str(peer), code.format(package="mxnet")) if peer else float("nan")
        print(f"{title:34} nbmod {ours * 1e3:8.1f} ms   MXNet {theirs * 1e3:8.1f} ms")
    for title, taken in (*first_step(), *first_answers()):
        print(f"{title:34} nbmod {taken * 1e3:8.1f} ms")


if __name__ == "__main__":
    main()
