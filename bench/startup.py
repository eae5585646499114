"""Start-up: from the start of a process to its first result, cold and warm, with the peers beside.

    python -m bench.startup [--wheel dist/nbmod_kernels-*.whl] [--tasks "ResNet-50"]

"Cold" is an empty cache of compiled code, "warm" the same again; "installed" is an empty cache with
the kernels of a wheel (`python -m kernels`); "NumPy first" answers before kernels are compiled.
Every figure is wall-clock time of a fresh process from its start to its end, the median of three
where it is not cold, with its processor time, which does not depend on what else runs.  All
variables are 0: making numbers takes longer than some frameworks do.
"""

from __future__ import annotations

import argparse
import compileall
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from typing import NamedTuple

from nbmod.ops.jit import num_threads

from .environments import PEERS, python_of
from .mxnet_environment import find_python
from .workloads import model

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
NUMPY_FIRST = 'import os; os.environ["NBMOD_NUMPY_FIRST"] = "1"' + RESNET
TIMED = """
import time
started = time.perf_counter()
{code}
print(time.perf_counter() - started)
"""
STEP = """
import json, sys
import numpy as np
from bench.frameworks import {module} as framework
from bench.frameworks.network import Network
network = Network(**json.load(open(sys.argv[1])))
network.args, network.aux = ({{name: tuple(shape) for name, shape in found.items()}}
                             for found in (network.args, network.aux))
shapes = network.args | network.aux
network.values = lambda: {{name: np.zeros(shape, np.float32) for name, shape in shapes.items()}}
{build}
"""
DEMO = """
import pathlib, sys
from nbmod.cli.demo import demo
demo(pathlib.Path(sys.argv[1]).parent)
"""
TASKS = {"ResNet-50, first output": ("resnet50", "infer", "1"),
         "LeNet, first training step": ("lenet", "train", "64")}
BUILDS = {
    "pytorch": "framework.torch.set_num_threads(network.threads)\n"
               "framework._built(network, 'NCHW').step()",
    "torch.compile": "framework.torch.set_num_threads(network.threads)\n"
                     "framework.torch.compile(framework._built(network, 'NCHW').step)()",
}
"""PyTorch without the choice of a layout, which needs several runs."""


class Taken(NamedTuple):
    """Seconds of a process, by the clock and of all processors."""

    wall: float
    processor: float


def seconds(python: str, code: str, runs: int = 5, cache: str | None = None) -> float:
    """Median time of `code` in a fresh interpreter; `START` in it restarts the clock."""
    code = TIMED.format(code=code.replace("START", "started = time.perf_counter()"))
    environment = _environment({"NBMOD_CACHE_DIR": cache} if cache else {})
    times = [float(subprocess.run([python, "-c", code], env=environment, check=True, cwd=ROOT,
                                  capture_output=True, text=True).stdout.split()[-1])
             for _ in range(runs)]
    return statistics.median(times)


def process_seconds(python: str, code: str, runs: int, cache: str) -> float:
    """The same from the start of the process to its end."""
    return taken(python, [code], runs, {"NBMOD_CACHE_DIR": cache}).wall


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


# -- whole processes beside the peers -------------------------------------------------------------


def taken(python: str, words: list[str], runs: int, settings: dict[str, str]) -> Taken:
    """Medians of processes that run `python -c` with `words`."""
    found = []
    for _ in range(runs):
        before, started = _children(), time.perf_counter()
        subprocess.run([python, "-c", *words], env=_environment(settings), check=True, cwd=ROOT,
                       capture_output=True)
        found.append(Taken(time.perf_counter() - started, _children() - before))
    return Taken(*map(statistics.median, zip(*found, strict=True)))


def _environment(settings: dict[str, str]) -> dict[str, str]:
    """The environment with `settings`, in which Python keeps bytecode, as installed packages do."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | settings


def _children() -> float:
    """Processor time of all child processes that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def rows(title: str, wheel: pathlib.Path | None) -> Iterator[tuple[str, str, Taken]]:
    """Framework, state of its cache, and seconds, for a task."""
    with tempfile.TemporaryDirectory() as scratch:
        file = pathlib.Path(scratch) / "network.json"
        file.write_text(json.dumps(model(*TASKS[title]).network(num_threads())
                                   if title in TASKS else {}))
        if title.startswith("ResNet"):
            settings = {"NBMOD_CACHE_DIR": str(file.parent / "first"), "NBMOD_SHIPPED": "0"}
            yield "nbmod", "cold, NumPy first", taken(sys.executable, [NUMPY_FIRST], 1, settings)
        code = STEP.format(module="nbmod", build="framework.build(network).step()")
        yield from _ours(code if title in TASKS else DEMO, file, wheel)
        for framework in ("mxnet", "pytorch", "onnxruntime") if title in TASKS else ():
            with contextlib.suppress(subprocess.CalledProcessError):    # it cannot do the task
                yield from _theirs(framework, file)


def _ours(code: str, file: pathlib.Path, wheel: pathlib.Path | None
          ) -> Iterator[tuple[str, str, Taken]]:
    settings = {"NBMOD_CACHE_DIR": str(file.parent / "cache"), "NBMOD_SHIPPED": "0"}
    yield "nbmod", "cold", taken(sys.executable, [code, str(file)], 1, settings)
    yield "nbmod", "warm", taken(sys.executable, [code, str(file)], 3, settings)
    if wheel is not None:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(file.parent / "site")
        path = os.pathsep.join([str(file.parent / "site"), os.environ.get("PYTHONPATH", "")])
        settings = {"NBMOD_CACHE_DIR": str(file.parent / "empty"), "PYTHONPATH": path}
        yield "nbmod", "installed", taken(sys.executable, [code, str(file)], 3, settings)
        compiled = len(list((file.parent / "empty").rglob("*.kernel")))
        assert not compiled, f"{compiled} kernels were compiled beside those installed"


def _theirs(framework: str, file: pathlib.Path) -> Iterator[tuple[str, str, Taken]]:
    python = python_of(framework)
    if python is None:
        return
    build = BUILDS.get(framework, "framework.build(network).step()")
    words = [STEP.format(module=framework, build=build), str(file)]
    yield PEERS[framework], "no compiler", taken(str(python), words, 3, {})
    if framework == "pytorch":
        words = [STEP.format(module=framework, build=BUILDS["torch.compile"]), str(file)]
        settings = {"TORCHINDUCTOR_CACHE_DIR": str(file.parent / "inductor")}
        yield "torch.compile", "cold", taken(str(python), words, 1, settings)
        yield "torch.compile", "warm", taken(str(python), words, 3, settings)


def imports() -> Iterator[tuple[str, str, Taken]]:
    """The import, and the first expression."""
    peer = find_python()
    for title, code in (("import", IMPORT), ("import and first expression", EXPRESSION)):
        text = code.replace("START; ", "")
        yield title, "nbmod", taken(sys.executable, [text.format(package="nbmod")], 5, {})
        if peer:
            yield title, "MXNet", taken(str(peer), [text.format(package="mxnet")], 5, {})


def main(argv: list[str] | None = None) -> None:
    """Print a Markdown table, a row as soon as it is known."""
    parser = argparse.ArgumentParser(prog="python -m bench.startup", description=__doc__)
    parser.add_argument("--wheel", type=pathlib.Path, help="a wheel of nbmod-kernels")
    parser.add_argument("--tasks", default="", help="those whose names begin so; default: all")
    options = parser.parse_args(argv)
    compileall.compile_dir(ROOT / "nbmod", quiet=1)     # as pip does
    print("| from the start of the process | framework | cache | seconds | processor seconds |")
    print("|---|---|---|--:|--:|")
    for title, framework, found in imports() if not options.tasks else ():
        print(_row(title, framework, "", found), flush=True)
    for title in [*TASKS, "the demo"]:
        if title.startswith(options.tasks):
            for framework, cache, found in rows(title, options.wheel):
                print(_row(title, framework, cache, found), flush=True)


def _row(title: str, framework: str, cache: str, found: Taken) -> str:
    return f"| {title} | {framework} | {cache} | {found.wall:.2f} | {found.processor:.2f} |"


if __name__ == "__main__":
    main()
