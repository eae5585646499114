"""What is compiled ahead: the kernels of standard networks, optimizers, operators and examples."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import logging
import os
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import nbmod as mx
from bench.workloads import SUITES, Shape, Workload
from nbmod.cli.warmup import _common, warm
from nbmod.core.config import exact
from nbmod.execution.compile_ahead import recorded
from nbmod.ops.jit import Kernel, dry_run, set_num_threads

__all__ = ["Job", "PROGRAMS", "jobs", "perform"]

Job = tuple[Kernel, tuple[Any, ...]]
"""A kernel and the types of its arguments."""

THREADS = (1, 2, 4, 8, 16)
"""Numbers of threads, on which the choice of algorithms depends."""
BATCHES = (1, 8, 128)
OPTIMIZERS = ("sgd", "nag", "adam", "adagrad", "adadelta", "adamax", "nadam", "rmsprop", "ftrl",
              "ftml", "signum", "sgld", "dcasgd", "lamb", "lars", "lbsgd",
              "groupadagrad")
FUNCTIONS = ("abs exp log sqrt rsqrt square tanh sigmoid relu softsign negative sign erf softmax "
             "log_softmax").split()
BINARY = "add sub mul div maximum minimum power".split()
REDUCTIONS = "sum mean max min prod norm argmax".split()
MATRICES = {"data": (256, 1024), "other": (256, 1024), "row": (1, 1024)}
EXAMPLES = Path(__file__).parents[1] / "examples"


def jobs(names: list[str]) -> list[Job]:
    """The kernels of the programs of these names; of all, where there is none."""
    found: dict[Job, None] = {}
    for name, program in PROGRAMS.items():
        if not names or name in names:
            before = len(found)
            with np.errstate(all="ignore"):     # in a dry run, elements are arbitrary
                for record in program():
                    found.update(dict.fromkeys(record))
            logging.info("%s: %d kernels", name, len(found) - before)
    return list(found)


def _networks(suite: str) -> Iterator[dict[Job, None]]:
    """Networks of the benchmarks, as measured and at other batches, with and without gradients of
    their inputs."""
    for workload in SUITES[suite]():
        batches = [workload.shapes]
        if suite in ("models", "small"):
            batches += [{name: (batch, *shape[1:]) for name, shape in workload.shapes.items()}
                        for batch in BATCHES]
        for shapes, threads in product(batches, THREADS):
            yield from _network(workload, shapes, threads)


def _network(workload: Workload, shapes: dict[str, Shape], threads: int
             ) -> Iterator[dict[Job, None]]:
    symbol = workload.build()
    set_num_threads(threads)
    for inputs in (workload.inputs, ()) if workload.training else (symbol.list_arguments(),):
        requests = {name: "null" if name in inputs else "write"
                    for name in symbol.list_arguments()}
        yield recorded(symbol.simple_bind(mx.cpu(), requests, **shapes).planned)


def _called(function: Callable[[], object]) -> dict[Job, None]:
    """The kernels of a program; arbitrary elements may make it fail."""
    with dry_run() as found, contextlib.suppress(Exception, SystemExit):
        function()
    return found


def _modules() -> Iterator[dict[Job, None]]:
    """A step of `Module` with every optimizer, and of the layers that most networks have."""
    perceptron = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(
        mx.sym.Variable("data"), num_hidden=128, name="fc"), name="softmax")
    for name in OPTIMIZERS:
        yield _called(partial(warm, perceptron, {"data": (64, 784)}, True, name))
    for training in (False, True):
        yield _called(partial(warm, _common(), {"data": (2, 3, 32, 32)}, training))


def _chains() -> Iterator[dict[Job, None]]:
    """Elementwise chains and reductions, for inference and with gradients."""
    x, y, row = map(mx.sym.Variable, MATRICES)
    symbols = [getattr(mx.sym, name)(x) for name in FUNCTIONS]
    for name in BINARY:
        operator = getattr(mx.sym, f"broadcast_{name}")
        symbols += [operator(x, y), operator(x, row), mx.sym.relu(operator(x, y))]
    for name in REDUCTIONS:
        symbols += [getattr(mx.sym, name)(x, axis=axis) for axis in (0, 1)]
    symbols += [x * mx.sym.sigmoid(x), x * mx.sym.clip(x + 3, 0, 6) / 6, mx.sym.clip(x, 0, 6),
                mx.sym.tanh(x) * mx.sym.sigmoid(y), mx.sym.square(x - y), mx.sym.abs(x - y),
                mx.sym.LeakyReLU(x, slope=0.1), mx.sym.LeakyReLU(x, act_type="elu"),
                mx.sym.LeakyReLU(x, act_type="gelu"), mx.sym.Dropout(x), mx.sym.LayerNorm(x)]
    for symbol in symbols:
        for requests in ("null", "write"):
            shapes = {name: MATRICES[name] for name in symbol.list_arguments() if name in MATRICES}
            yield recorded(symbol.simple_bind(mx.cpu(), requests, **shapes).planned)


def _examples() -> Iterator[dict[Job, None]]:
    """The demo, and the scripts of `examples/`."""
    with _quietly_elsewhere():
        for program in _scripts():
            yield _called(program)


def perform() -> None:
    """Run the demo and the examples: what they choose may depend on their data."""
    with _quietly_elsewhere():
        for program in _scripts():
            program()


def _scripts() -> Iterator[Callable[[], object]]:
    from nbmod.cli.demo import demo

    yield partial(demo, Path("demo"), 1)
    for file in training_examples():
        yield partial(main_of(file), ["--epochs", "1"])


def training_examples() -> list[Path]:
    """The examples that train in one process; others serve until they are stopped, or need MPI."""
    texts = {file: file.read_text() for file in sorted(EXAMPLES.glob("*.py"))}
    return [file for file, text in texts.items() if "--epochs" in text and "dist_sync" not in text]


@contextlib.contextmanager
def _quietly_elsewhere() -> Iterator[None]:
    """A block in an empty folder, whose output is dropped."""
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        os.chdir(folder)
        logging.disable()
        try:
            yield
        finally:
            logging.disable(logging.NOTSET)
            os.chdir(here)


def main_of(file: Path) -> Callable[[list[str]], object]:
    """The function `main` of an example."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    main: Callable[[list[str]], object] = module.main
    return main


def _exact_modules() -> Iterator[dict[Job, None]]:
    """The same without rewrites that change rounding."""
    with exact():
        yield from _modules()


PROGRAMS: dict[str, Callable[[], Iterator[dict[Job, None]]]] = {
    **{suite: partial(_networks, suite) for suite in SUITES},
    "modules": _modules, "exact": _exact_modules, "chains": _chains, "examples": _examples,
}
"""By name: each yields the kernels that it has recorded."""
