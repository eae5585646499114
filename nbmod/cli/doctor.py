"""`doctor`: a report on nbmod and this machine, a self test, and the cost of a cold compile.

Issues should contain the report; `--compile` measures a compilation instead.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from ..base import MXNetError
from .options import add_network_options, import_modules

if TYPE_CHECKING:
    from ..ops.build.costs import KernelCost

__all__ = ["HELP", "arguments", "compile_cold", "report", "run", "table"]

HELP = ("print what reports of problems should contain, and test this installation; or what a cold "
        "compile costs")
EXTRAS = {"cuda": "numba-cuda", "cuda-mlir": "numba-cuda-mlir", "fast": "nbmod-kernels",
          "image": "simplejpeg Pillow", "mpi": "mpi4py openmpi", "nccl": "nccl4py",
          "onnx": "onnx onnxruntime", "plot": "matplotlib", "serve": "waitress",
          "sklearn": "scikit-learn", "tensorboard": "tensorboardX", "viz": "matplotlib"}
"""Distributions of the extras in setup.cfg."""
VARIABLES = ("NBMOD_", "MXNET_", "NUMBA_", "OMP_", "GOMP_", "MKL_", "OPENBLAS_", "CUDA_",
             "LD_PRELOAD", "PYTHONPATH")
"""Beginnings of the names of environment variables that matter."""
SPECIAL = ("avx512vnni", "avxvnni", "avx512bf16", "avx512fp16", "amx-int8", "amx-bf16", "neon",
           "dotprod", "i8mm", "bf16", "fullfp16", "sve", "sve2")
"""Instruction sets beyond the levels that matter to kernels, by LLVM's names."""
COLUMNS = ("kernel", "CPU s", "frontend", "lowering", "LLVM", "code kB")

CHILD = """
import json, sys
request = json.loads(sys.stdin.readline())
sys.path[:] = request.pop("path")
from nbmod.cli.doctor import compile_cold
compile_cold(**request)
"""

Section = tuple[str, list[tuple[str, str]]]


class NamedNetwork(NamedTuple):
    """The network for `--compile`: `symbol` is a file, or the name of a built-in network."""

    title: str
    symbol: str
    shapes: dict[str, tuple[int, ...]]
    training: bool


NETWORKS = (NamedNetwork("LeNet, training step", "lenet", {"data": (64, 1, 28, 28)}, True),
            NamedNetwork("ResNet-50, inference", "resnet50_v1", {"data": (1, 3, 224, 224)}, False))


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("--compile", nargs="?", const="", metavar="SYMBOL", help="measure what a "
                        "cold compile of a network costs, a -symbol.json file with --shape; "
                        "default: LeNet's training step and ResNet-50's inference")
    add_network_options(parser)
    parser.add_argument("--train", action="store_true", help="backward and an update as well")
    parser.add_argument("--markdown", action="store_true", help="print the report as a section of "
                        "Markdown, to be pasted into an issue")
    parser.add_argument("--dist", action="store_true", help="test distributed training instead: "
                        "start three ranks on this host, which exchange buffers")
    parser.add_argument("--no-test", action="store_true", help="leave out the self test")


def run(options: argparse.Namespace) -> int:
    """Print the report, the costs of compilation, or a test of MPI."""
    from ..ops.jit import require_compiler

    if options.dist:
        return _print_dist_test(options.markdown)
    if options.compile is None:
        if options.shape or options.train:
            raise MXNetError("doctor: --shape and --train are for --compile SYMBOL")
        return _print_report(options.markdown, not options.no_test)
    if options.compile and not options.shape:
        raise MXNetError("doctor: give the shapes of the network's inputs, such as "
                         "--shape data=1,3,224,224")
    if not options.compile and (options.shape or options.train):
        raise MXNetError("doctor: --shape and --train need a network: --compile SYMBOL")
    require_compiler("doctor --compile")
    networks = NETWORKS if not options.compile else [
        NamedNetwork(options.compile, options.compile, dict(options.shape), options.train)]
    for number, network in enumerate(networks):
        print(*[""] * (number > 0), *_costs(network, options.modules), sep="\n", flush=True)
    return 0


# -- the report -----------------------------------------------------------------------------------


def report() -> list[Section]:
    """Titles, each with names and values."""
    environment = _environment()    # before libraries set variables of their own
    return [("Versions", _versions()), ("Processor", _processor()), ("Compile cache", _cache()),
            ("GPUs", _gpus()), ("Extras", _extras()), ("Environment", environment)]


def _print_report(markdown: bool, tested: bool) -> int:
    """Print the report; the exit status is 1 if a test failed."""
    outcomes = []
    with _foldable(markdown):
        print("\n\n".join(map(_text, report())), flush=True)
        if tested:    # last, as a test may end the process
            from .self_test import self_test

            outcomes = self_test()
            print("\n" + _text(("Self test", outcomes)))
    return int(any(outcome.startswith("FAILED") for _, outcome in outcomes))


def _print_dist_test(markdown: bool) -> int:
    """Print the results of the ranks; the exit status is 1 if they failed."""
    from .dist_test import dist_test

    rows, passed = dist_test()
    with _foldable(markdown):
        print(_text(("Distributed training", rows)))
    return int(not passed)


@contextmanager
def _foldable(markdown: bool) -> Iterator[None]:
    """A block whose output is a folded section of Markdown, on request."""
    if markdown:
        print("<details><summary>nbmod doctor</summary>\n\n```")
    yield
    if markdown:
        print("```\n\n</details>")


def _text(section: Section) -> str:
    title, rows = section
    width = max(len(name) for name, _ in rows)
    return "\n".join([title, *(f"  {name:{width}}  {value}" for name, value in rows)])


def _gpus() -> list[tuple[str, str]]:
    from ..context import gpu_memory_info, num_gpus
    from ..core.gpus import gpus_offered

    rows = []
    for number in range(num_gpus()):
        free, total = gpu_memory_info(number)
        rows.append((f"gpu({number})", f"{free / 2 ** 30:.1f} of {total / 2 ** 30:.1f} GB free"))
    return rows or [("usable", gpus_offered())]


def _extras() -> list[tuple[str, str]]:
    def told(name: str) -> str:
        version = _version(name)
        return f"{name} {version}" if version else f"no {name}"

    return [(extra, ", ".join(map(told, names.split()))) for extra, names in EXTRAS.items()]


def _version(name: str) -> str:
    """The version of an installed distribution, else ''."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _environment() -> list[tuple[str, str]]:
    """Variables that nbmod, numba, threads and BLAS read, as far as they are set."""
    return [(name, value) for name, value in sorted(os.environ.items())
            if name.startswith(VARIABLES)] or [("variables", "none that matter are set")]


def _versions() -> list[tuple[str, str]]:
    from .. import __version__
    from ..ops.jit import compiler_trouble

    return [("nbmod", __version__), ("import mxnet", _mxnet()),
            ("Python", f"{platform.python_version()} ({platform.python_implementation()})"),
            *((name, _version(name) or "none") for name in ("numpy", "numba", "llvmlite")),
            ("kernels", f"none, NumPy computes ({trouble})" if (trouble := compiler_trouble())
             else "compiled by numba"),
            ("system", platform.platform())]


def _mxnet() -> str:
    """The package that `import mxnet` of this environment loads."""
    from importlib.machinery import PathFinder

    spec = PathFinder.find_spec("mxnet")
    if spec is None or spec.origin is None:
        return "nothing: only under `nbmod run`, or with the distribution nbmod-mxnet"
    folder, file = os.path.split(spec.origin)
    if file == "mxnet.py":
        return f"nbmod, by nbmod-mxnet in {folder}"
    return f"the real MXNet in {folder}, which nbmod-mxnet never hides"


def _processor() -> list[tuple[str, str]]:
    from ..ops.build.levels import features_of, supported
    from ..ops.jit import num_threads
    from ..ops.simd.host import cpu_name, registers

    sets, vectors = features_of(""), registers()
    special = [each for each in SPECIAL if sets.get(each)]
    return [("name", cpu_name()), ("CPU level", next(iter(supported()), platform.machine())),
            ("special instructions", " ".join(special) or "none"),
            ("vector registers", f"{vectors.number} of {8 * vectors.nbytes} bits"),
            ("threads", f"{num_threads()} of {os.cpu_count()} cores")]


def _cache() -> list[tuple[str, str]]:
    from ..core.config import CONFIG
    from ..ops.build import shipped
    from ..ops.build.store import cache_folder, is_enabled, keeps_code, kept_bytes, kept_files

    folder = cache_folder()
    use = "read and written" if keeps_code() else "read only" if is_enabled() else "not used"
    return [("folder", f"{folder} ({use})"), ("kernels", str(kept_files())),
            ("size", f"{kept_bytes() / 2 ** 20:.1f} of {CONFIG.cache_size / 2 ** 20:.0f} MB"),
            ("installed kernels", shipped.level() or "none")]


# -- the costs of compilation ---------------------------------------------------------------------


def _costs(network: NamedNetwork, modules: Sequence[str]) -> list[str]:
    """Compile with an empty cache in a process of its own; the lines of a table."""
    from ..ops.build.costs import KernelCost

    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="nbmod-doctor-") as folder:
        answer = _ask({"path": sys.path, "symbol": network.symbol, "shapes": network.shapes,
                       "training": network.training, "modules": modules}, folder)
    seconds = time.perf_counter() - started
    costs = [KernelCost(*row) for row in answer["costs"]]
    shapes = ", ".join(f"{name} {shape}" for name, shape in network.shapes.items())
    return [f"{network.title} ({shapes}), with an empty cache and one process:",
            *table(costs),
            f"{seconds:.1f} s from start to end, {answer['cpu']:.1f} s of CPU time; "
            f"{answer['files']} files of {answer['nbytes'] / 1e3:.0f} kB"]


def _ask(request: dict[str, object], folder: str) -> dict[str, Any]:
    """The answer of the process that compiles; MXNetError with its message if it fails."""
    env = os.environ | {"NBMOD_CACHE": "1", "NBMOD_CACHE_DIR": folder, "NBMOD_COMPILERS": "1",
                        "NBMOD_TUNE": "0", "NBMOD_SHIPPED": "0", "NBMOD_NUMPY_FIRST": "0"}
    done = subprocess.run([sys.executable, "-c", CHILD], input=json.dumps(request), text=True,
                          env=env, capture_output=True)
    if done.returncode:
        raise MXNetError(f"doctor: compilation ended with status {done.returncode}:\n{done.stderr}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if "error" in answer:
        raise MXNetError(f"doctor: {answer['error']}")
    return answer


def table(costs: Sequence[KernelCost]) -> list[str]:
    """The lines: a header, kernels with the most expensive first, their total."""
    from ..ops.build.costs import KernelCost

    rows = sorted(costs, key=lambda cost: -cost.seconds)
    rows.append(KernelCost(f"total of {len(costs)} kernels", sum(cost.frontend for cost in costs),
                           sum(cost.lowering for cost in costs), sum(cost.llvm for cost in costs),
                           sum(cost.nbytes for cost in costs)))
    cells = [COLUMNS, *((cost.name, *(f"{part:.2f}" for part in (cost.seconds, *cost[1:4])),
                         f"{cost.nbytes / 1e3:.1f}") for cost in rows)]
    width = max(len(line[0]) for line in cells)
    return [f"{line[0]:{width}}" + "".join(f"  {cell:>8}" for cell in line[1:]) for line in cells]


def compile_cold(symbol: str, shapes: dict[str, Sequence[int]], training: bool,
                 modules: Sequence[str]) -> None:
    """In the process that compiles: run a network once, and print costs as JSON."""
    from ..ops.build.costs import measured
    from ..ops.build.store import kept_bytes, kept_files
    from .warmup import warm

    try:
        import_modules(argparse.Namespace(modules=modules))
        with measured() as costs:
            warm(_network(symbol), {name: tuple(shape) for name, shape in shapes.items()}, training)
    except (MXNetError, OSError) as error:
        print(json.dumps({"error": str(error)}))
        return
    print(json.dumps({"costs": costs, "files": kept_files(), "nbytes": kept_bytes(),
                      "cpu": time.process_time()}))


def _network(symbol: str) -> Any:
    """A network in a file, or a built-in one."""
    if symbol == "lenet":
        from .demo import lenet

        return lenet()
    if symbol == "resnet50_v1":
        from ..gluon.model_zoo.vision import resnet50_v1

        return resnet50_v1().symbol
    from ..symbol import load

    return load(symbol)
