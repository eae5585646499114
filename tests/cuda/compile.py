"""Compile every kernel that the sample table reaches to machine code, without a GPU or a driver.

    python -m tests.cuda.compile             a sample for every kernel, of one element type each
    python -m tests.cuda.compile Conv "" ... all samples whose names start so, in all their types

Each kernel is compiled for one compute capability, in turn, or with `--everywhere` for all; with
`--quick` those that differ in numbers only, such as the sizes of windows, are one.
`tests.cuda.compilers` compares what two compilers make of them.

A `Ghost` replaces the GPU: its arrays have no memory, and kernels launched on it are compiled for
the types of their arguments instead, as for a device.  This shows what the simulator cannot: code
that cannot be typed, that uses features a device lacks, or that exceeds its resources.  Needs the
environment of `tests.cuda.setup`.

Binaries are cached, so a second run compiles only what has changed.  Prints one line, as JSON: the
number of binaries, how many are new, failures and exceeded budgets, the largest binary.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
import warnings
from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

os.environ.pop("NUMBA_ENABLE_CUDASIM", None)
# A kernel is compiled by a thread of its own process.
os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import numpy as np

import nbmod as mx
from nbmod.core.config import CONFIG
from nbmod.ops import OPS, device
from nbmod.ops.cuda.device import Gpu
from nbmod.ops.cuda.elementwise.formula_op import COPY, run_program
from nbmod.ops.cuda.lib import gemm, gemm_tensor_cores
from nbmod.ops.cuda.runtime import compiler
from nbmod.ops.cuda.runtime.device_memory import Array
from nbmod.ops.cuda.runtime.launch import CudaKernel, Launch, kernel
from nbmod.ops.elementwise.arithmetic import sum_program
from nbmod.ops.elementwise.formula import VOCABULARY
from nbmod.ops.elementwise.formula_op import FormulaOp
from nbmod.ops.elementwise.program import Assign, Program
from nbmod.ops.op import Backward, Call, Op
from nbmod.ops.optimizer.multi_tensor_apply import TensorUpdate
from tests.cases import Sample, all_samples
from tests.cuda import setup
from tests.cuda.machine_code import machine_code, parameter_sizes
from tests.programs import common

CAPABILITIES = ((9, 0), (8, 0), (10, 0))
SHARED = 48 << 10
"""Bytes of shared memory that a block has without asking for more."""
REGISTERS = 65536
"""Of a multiprocessor, for all threads of the blocks that it runs at once."""
DOUBLES = 4
"""Instructions in double precision: sine and cosine need one to reduce large arguments."""
IN_DOUBLE = ("vocabulary_kernel", "density", "gather")
"""Kernels with all functions there are, some of which need double precision, and with formulas in
which too much of a single one would cancel; positions from the end of an axis by indices that are
not whole numbers."""

UNROLLED = ("pool",), (10, 0), 128
"""Kernels of windows that NVIDIA's linker for this compute capability unrolls, where mlir compiles,
and the bytes that they may spill by that: `bench/results/gpu-compilers.md` tells why."""


class Ghost(Gpu):
    """A GPU without memory that records its launches and the origin of its arrays."""

    def __init__(self) -> None:
        self.device_id = 0
        self.card = None
        self.launches: list[Launch] = []

    def empty(self, shape: Sequence[int], dtype: Any) -> Array:
        return Array(self, SimpleNamespace(address=0, host=None), 0, shape, dtype)

    def copy(self, src: Any, dst: Any) -> None:
        """Copies no memory; records the value of a host array."""
        if isinstance(src, np.ndarray) and src.shape == dst.shape:
            dst.block.host = src.astype(dst.dtype)

    def span(self, array: Array) -> tuple[int, int]:
        """Arrays do not overlap."""
        start = (id(array.block) << 40) + array.offset
        return start, start + array.nbytes

    def full(self, shape: Sequence[int], dtype: Any, value: float) -> Array:
        return self.empty(shape, dtype)

    def from_numpy(self, array: np.ndarray) -> Array:
        return self.empty(array.shape, array.dtype)

    def to_numpy(self, array: Array) -> np.ndarray:
        host = array.block.host
        if host is not None and (host.shape, host.dtype) == (array.shape, array.dtype):
            return host
        return np.ones(array.shape, array.dtype)  # as a parameter one is in every range

    def run(self, op: Any, ins: Sequence[Any], outs: Sequence[Any], call: Any) -> None:
        """No lookup of arrays by address: they have none."""
        self.prepare(self.choose(op, ins, outs), ins, outs, call)()

    def launcher(self, steps: Sequence[Any]) -> Any:
        def run() -> None:
            for step in steps:
                self.launches += [step] if isinstance(step, Launch) else step() or ()

        return run


def bind_and_run(sample: Sample, dtype: str) -> None:
    """Bind the sample to the ghost, forward and backward."""
    symbol = common.compose(mx, sample.op, sample.attrs, list(sample.specs), sample.keyword)
    grads = dict.fromkeys(sample.differentiated(dtype), "write")
    with mx.gpu(0):
        arrays = {name: common.nd(mx, array) for name, array in sample.arrays(dtype).items()}
        args = {name: arrays[name] for name in symbol.list_arguments()}
        aux = {name: arrays[name] for name in symbol.list_auxiliary_states()}
        executor = symbol.bind(
            mx.gpu(0), args, {name: mx.nd.zeros_like(args[name]) for name in grads},
            {name: grads.get(name, "null") for name in args}, aux)
    executor.forward(is_train=sample.is_train)
    if grads:
        executor.backward([mx.nd.zeros(y.shape, mx.gpu(0), y.dtype) for y in executor.outputs])


class Job(NamedTuple):
    """A binary to make."""

    kernel: CudaKernel
    kinds: tuple[str, ...]
    threads: int
    capability: tuple[int, int]

    def __str__(self) -> str:
        function, (major, minor) = self.kernel.function, self.capability
        return f"{function.__module__}.{function.__name__}{self.kinds} sm_{major}{minor}"


def jobs_of(launches: Sequence[Launch], everywhere: bool, quick: bool = False) -> list[Job]:
    """The binaries that launches need, each once: kernels with the same code are one, and with
    `quick` those with the same code but for numbers, for one compute capability each, in turn, or
    for all of them."""
    found: dict[Any, Any] = {}
    for launch in launches:
        launch.check()
        kinds, threads = compiler.kinds_of(launch.args), prod(launch.block)
        code = compiler.fingerprint(launch.kernel.function, numbers=not quick), launch.kernel.exact
        found.setdefault((code, kinds, threads), (launch.kernel, kinds, threads))
    return [Job(*job, capability) for number, job in enumerate(found.values())
            for capability in (CAPABILITIES if everywhere else
                               [CAPABILITIES[number % len(CAPABILITIES)]])]


def complaints(job: Job, binary: compiler.Cubin) -> list[str]:
    """The resources of a multiprocessor of which a kernel takes too much."""
    found = []
    names, capability, most = UNROLLED
    unrolled = (compiler.choice() == "mlir" and job.capability == capability
                and job.kernel.function.__name__ in names)
    if binary.spilled > (most if unrolled else 0):
        found.append(f"{binary.spilled} bytes of registers spilled to memory")
    if binary.shared > SHARED:
        found.append(f"{binary.shared} bytes of shared memory, {SHARED} is the most")
    room = REGISTERS // job.kernel.min_blocks
    if binary.registers * job.threads > room:
        found.append(f"{binary.registers} registers in {job.threads} threads, {room} is the most")
    sizes = [8 if kind[0] == "*" else np.dtype(kind).itemsize for kind in job.kinds]
    if parameter_sizes(binary.cubin) != sizes:
        found.append(f"parameters of {parameter_sizes(binary.cubin)} bytes, {sizes} are passed")
    doubles = machine_code(binary.cubin, job.capability).doubles
    if doubles > DOUBLES and not may_use_doubles(job):
        found.append(f"{doubles} instructions in double precision, which no argument asks for")
    return found


def may_use_doubles(job: Job) -> bool:
    """Whether an argument of a kernel is a double or an integer, or it is one of `IN_DOUBLE`."""
    wide = ("float64", "int64", "uint64")
    return job.kernel.function.__name__ in IN_DOUBLE or any(
        kind.lstrip("*") in wide or kind.startswith("*int") for kind in job.kinds)


def compile_job(number: int) -> tuple[str, list[str], dict[str, Any]]:
    """Compile `JOBS[number]`: its name, errors, and figures."""
    job = JOBS[number]
    before = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            binary = compiler.compile_kernel(job.kernel.function, job.kinds, job.capability,
                                             (job.threads, job.kernel.min_blocks),
                                             job.kernel.exact)
    except Exception as error:
        return str(job), [f"{type(error).__name__}: {error}"[:2000]], {}
    return str(job), complaints(job, binary), {
        **{name: getattr(binary, name) for name in ("registers", "spilled", "stack", "shared")},
        **machine_code(binary.cubin, job.capability)._asdict(), "threads": job.threads,
        "seconds": round(time.perf_counter() - before, 3)}


JOBS: list[Job] = []
"""What is to be compiled; processes inherit it, because kernels cannot be sent to them."""


def chosen(names: Sequence[str]) -> dict[str, Sample]:
    """The named samples, or one for each kernel variant of every op."""
    samples = {name: sample for name, sample in all_samples().items()
               if not (sample.error or sample.eager)}
    if names:
        return {name: sample for name, sample in samples.items() if name.startswith(tuple(names))}
    ways: dict[Any, str] = {}
    for name, sample in samples.items():
        family = "formula" if issubclass(OPS[sample.op], FormulaOp) else sample.op
        words = sorted(f"{k} {v}" for k, v in sample.attrs.items() if isinstance(v, (str, bool)))
        ways.setdefault((family, sample.op if words else "", str(words)), name)
    return {name: samples[name] for name in ways.values()}


def ghost_launches(samples: Mapping[str, Sample], types: int) -> list[Launch]:
    """Kernels launched by samples, forward and backward, with the given number of types."""
    ghost = Ghost()
    device._gpus[0] = ghost
    mx.context.num_gpus = lambda: 1
    for sample in samples.values():
        for dtype in sample.dtypes[:types]:
            try:
                bind_and_run(sample, dtype)
            except mx.MXNetError as error:
                if "no kernels yet" not in str(error):
                    raise
    ghost.launches += products(ghost) + depthwise(ghost)
    updates(ghost)
    for kind in (np.int32, np.uint32):
        ghost.launches.append(Launch(integers, (1,), (32,), (ghost.empty((13,), kind), kind(5))))
    followed()
    for real in ("float32", "float64"):
        x = ghost.empty((5,), real)
        ghost.launcher(run_program(vocabulary(), [x, x], [x] * len(VOCABULARY)))()
        many, one = ghost.empty((512, 1024), real), ghost.empty((1, 1), real)
        ghost.launcher(run_program(COPY, [many], [one]))()
        for name in ("max", "prod", "norm", "argmax"):
            op, y = OPS[name](), ghost.empty((1,), real)
            ghost.launches += launches(ghost, op, [many], [y])
    return ghost.launches


def launches(ghost: Ghost, op: Op, ins: Sequence[Any], outs: Sequence[Any]) -> list[Launch]:
    """Those of an op."""
    choice = ghost.choose(op, ins, outs)
    return [*choice.prepare(ins, outs, Call(scratch=[ghost.empty(*spec)
                                                     for spec in choice.workspace]))]


def products(ghost: Ghost) -> list[Launch]:
    """Products with algorithms that small samples do not reach."""
    configs = [("float32", gemm.GemmConfig(np.float32, gemm.LARGE_TILES))]
    configs += [("float16" if name == "f16" else "float32",
                 gemm.GemmConfig(np.float32, packing.tiles, packing))
                for name, packing in gemm_tensor_cores.PACKINGS.items()]
    x, sizes = ghost.empty, (64, 64, 4096)
    stacks = [x(shape, "float32") for shape in ((2, 64, 4096), (2, 4096, 64), (2, 64, 64))]
    found = launches(ghost, OPS["batch_dot"](), stacks[:2], stacks[2:])
    return found + [launch for kind, config in configs for turned in ((False, False), (True, True))
            for scratch in ([], [x(*spec) for spec in gemm.gemm_scratch(config, sizes)])
            for launch in gemm.gemm(x((64, 4096), kind), x((4096, 64), kind), x((64, 64), kind),
                                    sizes, turned, config=config, scratch=scratch)]


def depthwise(ghost: Ghost) -> list[Launch]:
    """A depthwise convolution of many images, in both layouts; a thread processes several."""
    found: list[Launch] = []
    for image, layout in (((64, 56, 56), "NCHW"), ((56, 56, 64), "NHWC")):
        op = OPS["Convolution"](kernel=(3, 3), num_filter=64, num_group=64, pad=(1, 1),
                                no_bias=True, layout=layout)
        shapes, (out,) = op.infer_shape([(32, *image), None], [None])[:2]
        x, w, y = (ghost.empty(shape, "float32") for shape in (*shapes, out))
        node = Backward(op, 2, ("head", "data", "weight"))
        found += launches(ghost, op, [x, w], [y])
        found += launches(ghost, node, [y, x, w], [x, w])
    return found


@kernel
def integers(x, n):
    """Every operator between integers of 32 bits."""
    m = x[0]
    x[1], x[2], x[3], x[4], x[5] = m + n, m - n, m * n, m // n, m % n
    x[6], x[7], x[8], x[9], x[10] = m << n, m >> n, m & n, m | n, m ^ n
    m <<= 3
    n >>= m
    x[11], x[12] = ~n, 1 << (m >> 2)


def followed() -> None:
    """Norms and layers with fused epilogues, which only passes create."""
    data, z = mx.sym.Variable("data"), mx.sym.Variable("z")
    norm = mx.sym.BatchNorm(data, fix_gamma=False)
    for network in (mx.sym.relu(norm), mx.sym.clip(norm, a_min=0, a_max=6), norm + z,
                    mx.sym.relu(norm + z)):
        for dtype in ("float32", "float16", "float64"):
            shapes = dict.fromkeys({"data", "z"}.intersection(network.list_arguments()),
                                   (8, 16, 8, 8))
            executor = network.simple_bind(mx.gpu(0), type_dict=dict.fromkeys(shapes, dtype),
                                           **shapes)
            executor.forward(is_train=True)
            executor.backward(executor.outputs)
    for layer in (mx.sym.Convolution(data, kernel=(3, 3), pad=(1, 1), num_filter=16),
                  mx.sym.Convolution(data, kernel=(3, 3), num_filter=16, num_group=16),
                  mx.sym.FullyConnected(data, num_hidden=16)):
        for dtype in ("float32", "float16"):
            network = mx.sym.clip(layer + z, a_min=0, a_max=6)
            network.simple_bind(mx.gpu(0), grad_req="null", data=(8, 16, 8, 8),
                                type_dict={"data": dtype, "z": dtype}).forward()


def updates(ghost: Ghost) -> None:
    """Updates and sums of many arrays by one launch, as optimizers and stores make them."""
    for name in ("sgd_mom_update", "nag_mom_update", "adam_update"):
        program = OPS[name].program()
        for dtype in ("float32", "float16"):
            ins, outs = ([ghost.empty((5,), dtype) for _ in names]
                         for names in (program.inputs, program.outputs))
            for call in ghost.multi_tensor_apply([TensorUpdate(program, ins, outs)]).calls:
                call()
    for count, dtype in product((1, 2, 8), ("float16", "float32", "float64")):
        parts = [ghost.empty((5,), dtype) for _ in range(count + 1)]
        update = TensorUpdate(sum_program(count), parts[1:], parts[:1])
        for call in ghost.multi_tensor_apply([update]).calls:
            call()


def vocabulary() -> Program:
    """Every function of the formula language."""
    arguments = {1: "x", 2: "x, z", 3: "x > 0, x, z"}
    steps = tuple(Assign(f"y{i}", f"{word}({arguments[count]})")
                  for i, (word, count) in enumerate(VOCABULARY.items()))
    return Program("vocabulary", steps, ("x", "z"), tuple(step.target for step in steps))


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Compile the kernels of the samples, on all cores."""
    parser = argparse.ArgumentParser(prog="python -m tests.cuda.compile")
    parser.add_argument("names", nargs="*", metavar="NAME", help="beginnings of names of samples")
    parser.add_argument("--everywhere", action="store_true",
                        help="every kernel for every compute capability")
    parser.add_argument("--quick", action="store_true",
                        help="one of those kernels that differ in numbers only, such as sizes")
    parser.add_argument("--figures", type=Path, help="write those of every binary to this file")
    options = parser.parse_args(argv)
    CONFIG.cache_dir = Path(os.environ.get("NBMOD_CUDA_CACHE")
                            or setup.environment(compiler.choice()).folder / "cache")
    start = time.perf_counter()
    found = ghost_launches(chosen(options.names), 9 if options.names else 1)
    JOBS[:] = jobs_of(found, options.everywhere, options.quick)
    bound = time.perf_counter()
    kept = len(list(CONFIG.cache_dir.glob("cubins/*")))
    with multiprocessing.get_context("fork").Pool(os.cpu_count()) as pool:
        results = pool.map(compile_job, range(len(JOBS)), chunksize=4)
    figures = [(name, figures) for name, _, figures in results if figures]
    if options.figures:
        options.figures.write_text(json.dumps(figures))
    largest = {what: max(((each[what], name) for name, each in figures), default=None)
               for what in ("registers", "stack", "shared", "seconds")}
    return {"compiler": compiler.compiler_name(), "binaries": len(JOBS),
            "new": len(list(CONFIG.cache_dir.glob("cubins/*"))) - kept,
            "bound in": round(bound - start, 1),
            "compiled in": round(time.perf_counter() - bound, 1), "largest": largest,
            "failed": {name: wrong for name, wrong, _ in results if wrong}}


if __name__ == "__main__":
    print(json.dumps(main()))
