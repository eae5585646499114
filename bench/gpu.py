"""nbmod and PyTorch on a GPU, in turns, each in its own process.

    python -m bench.gpu [NAME ...] [--budget SECONDS] [--rounds N] [--limit SECONDS] [--out FILE]

Names are prefixes of workloads' names.  nbmod runs launch by launch, with forward and backward as
CUDA graphs, and with graphs and factors rounded to TF32; PyTorch, if this Python has one that sees
the GPU, runs in full precision and with TF32.  A step ends when the GPU is done.  Ratios are
between equal precisions, the columns of rates those of the fastest nbmod; `launches` are 200 tiny
layers, so a microsecond of each is 0.2 ms.  A table is printed; FILE receives all figures as JSON.
After `--limit` seconds no further workload begins.  NBMOD_CUDA_COMPILER chooses the compiler of
nbmod's kernels.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import nbmod as mx
from nbmod.bench.foreign.worker_process import WorkerCrash, WorkerError, WorkerProcess
from nbmod.core.gpus import gpus_offered
from nbmod.ops.cuda.runtime.compiler import compiler_name

from .compare import measured
from .report import Result
from .virtual_environment import ROOT
from .workloads import Shape, Workload, model, variable

VARIANTS: dict[str, tuple[str, dict[str, bool]]] = {
    "nbmod": ("nbmod", {}), "nbmod graphs": ("nbmod", {"graphs": True}),
    "nbmod TF32": ("nbmod", {"graphs": True, "tf32": True}),
    "PyTorch": ("pytorch", {}), "PyTorch TF32": ("pytorch", {"tf32": True})}
"""Columns: the framework, and its options."""
LAYERS = 200


class Variant(WorkerProcess):
    """A process that runs networks on the GPU with its own options."""

    def __init__(self, framework: str, extras: dict[str, bool]):
        super().__init__(Path(sys.executable), ROOT, "bench.frameworks", timeout=300)
        self.framework, self.extras = framework, extras

    def call(self, function: str, *args: Any, **kwargs: Any) -> Any:
        if function == "entry.prepare":
            args = self.framework, args[1] | self.extras | {"device": "gpu"}
        return super().call(function, *args, **kwargs)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--budget", type=float, default=4,
                        help="seconds for the rounds of a workload; default: %(default)s")
    parser.add_argument("--rounds", type=int, default=8, help="the most; default: %(default)s")
    parser.add_argument("--limit", type=float, default=720,
                        help="seconds after which no workload begins; default: %(default)s")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(argv, argparse.Namespace(threads=1, processor=False))
    if not mx.num_gpus():
        parser.error(f"this machine offers {gpus_offered()}; NUMBA_ENABLE_CUDASIM=1 simulates one, "
                     "slowly")
    chosen = [one for one in workloads()
              if not options.names or one.name.startswith(tuple(options.names))]
    if not chosen:
        parser.error(f"no workload begins with {' or '.join(options.names)}")
    results: list[Result] = []
    start = time.monotonic()
    print(f"nbmod's kernels are compiled by {compiler_name()}")
    with ExitStack() as stack:
        workers = {name: stack.enter_context(closing(worker)) for name, worker in _workers()}
        about = {"date": datetime.date.today().isoformat(), "compiler": compiler_name(),
                 "versions": {name: worker.call("entry.version", worker.framework)
                              for name, worker in workers.items()}}
        try:
            for workload in chosen:
                if time.monotonic() - start > options.limit:
                    print(f"stopped after {options.limit:g} seconds: {len(chosen) - len(results)} "
                          f"of {len(chosen)} workloads are not measured")
                    break
                results.append(measured(workload, dict(workers), options))
                print("\n".join(table(results[-1:], list(workers), len(results) == 1)), flush=True)
        finally:
            if options.out:
                found = {**about, "results": [asdict(result) for result in results]}
                options.out.write_text(json.dumps(found, indent=1) + "\n")


def _workers() -> Iterator[tuple[str, Variant]]:
    """The columns whose processes start on this machine."""
    for name, (framework, extras) in VARIANTS.items():
        worker = Variant(framework, extras)
        try:
            worker.call("entry.version", framework)
        except (WorkerError, WorkerCrash) as error:
            worker.close()
            print(f"*** {name} is left out: {error}", file=sys.stderr)
        else:
            yield name, worker


def table(results: Sequence[Result], columns: Sequence[str], head: bool = True) -> list[str]:
    """Milliseconds of every column, nbmod's best times over PyTorch's of that precision, rates."""
    peers = [name for name in columns if not name.startswith("nbmod")]

    def best(one: Result, alike: str | None = None) -> float:
        return min((one.values[name] for name in columns if name in one.values
                    and name not in peers
                    and (alike is None or name.endswith("TF32") == alike.endswith("TF32"))),
                   default=float("nan"))

    lines = []
    if head:
        lines.append(f"{'workload, ms':34}" + "".join(f"{name:>14}" for name in columns)
                     + "".join(f"{'/ ' + name:>16}" for name in peers)
                     + f"{'TFLOP/s':>9}{'GB/s':>7}")
    for one in results:
        lines.append(f"{one.name:34}" + "".join(
            f"{one.values.get(name, float('nan')):14.3f}" for name in columns) + "".join(
            f"{best(one, name) / one.values.get(name, float('nan')):16.2f}" for name in peers)
            + f"{one.operations / best(one) / 1e9:9.2f}{one.nbytes / best(one) / 1e6:7.0f}")
    return lines


# -- workloads ----------------------------------------------------------------------------------


def workloads() -> Iterator[Workload]:
    """Bandwidth, products, convolutions, batch norm, whole networks, launches."""
    image = (64, 256, 56, 56)
    yield _op("copy", lambda x: mx.sym.identity(x, name="op"), image)
    yield _op("relu", lambda x: mx.sym.Activation(x, act_type="relu", name="op"), image)
    yield _op("softmax", lambda x: mx.sym.softmax(x, name="op"), (32768, 1000))
    for training in (False, True):
        yield _op("batch norm", lambda x: mx.sym.BatchNorm(
            x, fix_gamma=False, eps=1e-5, name="op"), image, training)
    for size in (1024, 2048, 4096):
        yield Workload(f"product {size}", lambda: mx.sym.dot(
            variable("lhs"), variable("rhs"), name="op"),
            {"lhs": (size, size), "rhs": (size, size)}, False)
    for shape, filters, kernel, stride in CONVOLUTIONS:
        for training in (False, True):
            yield _op(f"convolution {kernel}x{kernel}, {shape[1]} to {filters} at {shape[2]}",
                      _convolution(filters, kernel, stride), shape, training)
    for name, phases in (("resnet50", ("infer 1", "infer 32", "train 32", "train 128")),
                         ("mobilenet_v2", ("infer 32", "train 32"))):
        for phase in phases:
            yield model(name, *phase.split())
    yield _op("launches", _layers, (8, 8))


CONVOLUTIONS = [((32, 3, 224, 224), 64, 7, 2), ((32, 64, 56, 56), 64, 3, 1),
                ((32, 256, 56, 56), 64, 1, 1), ((32, 256, 14, 14), 256, 3, 1),
                ((32, 512, 7, 7), 2048, 1, 1)]
"""Shapes of images, filters, sides of a filter, strides: some of ResNet-50's."""


def _op(name: str, build: Any, shape: Shape, training: bool = False) -> Workload:
    return Workload(f"{name} {'train' if training else 'infer'}",
                    lambda: build(variable("data")), {"data": shape}, training, inputs=(),
                    updates=False)


def _convolution(filters: int, kernel: int, stride: int) -> Any:
    return lambda x: mx.sym.Convolution(
        x, num_filter=filters, kernel=(kernel, kernel), stride=(stride, stride),
        pad=(kernel // 2, kernel // 2), no_bias=True, name="op")


def _layers(x: Any) -> Any:
    for number in range(LAYERS):
        x = mx.sym.FullyConnected(x, num_hidden=8, no_bias=True, name=f"fc{number}")
    return x


if __name__ == "__main__":
    main()
