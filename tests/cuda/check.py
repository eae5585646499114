"""Compare every op on a GPU with the same op on the CPU: `python -m tests.cuda.check`.

The samples of all ops (`tests/cases`) get new values from `--seed` and
run on both devices, in each of their element types and also with grad_req="add".  GPU memory starts
as NaN, so that an element that no kernel writes is detected.  Random ops are compared too: a seed
gives the same values.  Tolerances are those of the samples: both devices compute in the same type,
and differ in the order of sums and in fused multiply-adds.  With `--products`, factors of float32
products are rounded for tensor cores, and the tolerance of float32 is that of `ROUNDED`.

Samples are distributed over worker processes.  A kernel that faults destroys the GPU's context, and
one that hangs blocks its process: either is a failure of its sample, and a new process continues.
A table of failures and of the ops closest to their tolerance is printed; `--out` receives all
figures as JSON.  The exit status is 1 if anything failed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from queue import Empty, Queue
from typing import Any

import numpy as np

from nbmod import __version__
from nbmod.context import cpu, gpu
from nbmod.core.atomic import atomic_write
from nbmod.core.config import CONFIG
from nbmod.core.gpus import gpu_count, gpus_offered
from nbmod.ops.cuda.device import gpu_memory
from tests.cases import Sample, all_samples
from tests.sample_runs import run

__all__ = ["SampleResult", "check_sample", "compare", "main", "sample_names"]

PATIENCE = 120
"""Seconds that a sample may take, compilation included."""
NO_TWIN = "has no kernels yet"
ROUNDED = {"": 0.0, "tf32": 4e-3, "bf16": 3e-2}
"""Tolerance of float32 where factors of products are rounded.  The relative error of a rounding is
at most 2^-11 in TF32, 2^-8 in bfloat16; both factors of a product have it, and gradients and
recurrent layers multiply results of products: eight roundings in all."""
FATAL = ("CUDA_ERROR", "a kernel failed")
"""Text of errors after which the GPU's context is unusable in this process."""


@dataclass
class SampleResult:
    """The result of a sample."""

    name: str
    op: str
    runs: int = 0
    worst: float = 0.0
    """The largest error relative to its tolerance; 0 or infinite for integers and booleans."""
    where: str = ""
    """Type, request and array of the largest error."""
    error: str = ""
    seconds: float = 0.0
    skipped: bool = False
    """The op has no kernels for a GPU."""

    @property
    def failed(self) -> bool:
        return bool(self.error) or not self.worst <= 1


# -- one sample ---------------------------------------------------------------------------------


@cache
def _samples() -> dict[str, Sample]:
    return {name: sample for name, sample in all_samples().items()
            if not (sample.error or sample.eager)}


def sample_names(beginnings: Sequence[str] = ()) -> list[str]:
    """The samples whose names start with one of `beginnings`, or all."""
    return [name for name in _samples() if not beginnings or name.startswith(tuple(beginnings))]


def check_sample(name: str, seed: int = 0) -> SampleResult:
    """Run a sample on both devices, its inputs drawn from `seed`; never raises."""
    sample = _samples()[name].seeded(seed)
    result, started = SampleResult(name, sample.op), time.perf_counter()
    runs = [*((dtype, "write") for dtype in sample.dtypes), (sample.dtypes[0], "add")]
    try:
        for dtype, request in runs:
            compare(result, sample, dtype, request)
    except Exception as error:      # noqa: BLE001  whatever it is, it is this sample's result
        result.skipped = NO_TWIN in str(error)
        result.error = "" if result.skipped else f"{type(error).__name__}: {error}"
    result.seconds = round(time.perf_counter() - started, 3)
    return result


def compare(result: SampleResult, sample: Sample, dtype: str, request: str) -> None:
    """Run a sample on both devices in a type, and note the largest difference."""
    grad = dict.fromkeys(sample.differentiated(dtype), request)
    sides = []
    for place in (gpu(0), cpu(0)):
        with place:
            sides.append(run(sample, dtype, grad))
    got, want = sides
    rounded = ROUNDED[CONFIG.gpu_products] if dtype == "float32" else 0
    tolerance = max(sample.tolerance(dtype), rounded)
    pairs = [(f"output {i}", *pair) for i, pair in enumerate(
        zip(got["outputs"], want["outputs"], strict=True)) if sample.compares(i)]
    pairs += [(f"{part} {arg}", got[part][arg], theirs) for part in ("grads", "aux", "args")
              for arg, theirs in want[part].items()]
    for what, mine, theirs in pairs:
        close = tolerance
        if not close and theirs.dtype.kind == "f":      # a function of integers
            close = sample.tolerance(theirs.dtype.name)
        error = _error(mine, theirs, close)
        if not error <= result.worst:
            result.worst, result.where = error, f"{dtype} {request}, {what}"
    result.runs += 1


def _error(got: np.ndarray, want: np.ndarray, tolerance: float) -> float:
    """The largest difference relative to the tolerance, as `tests.compare.assert_same` does."""
    if got.dtype != want.dtype or got.shape != want.shape:
        return float("inf")
    if want.dtype.kind != "f" or not tolerance:
        return 0.0 if np.array_equal(got, want, equal_nan=want.dtype.kind == "f") else float("inf")
    mine, theirs = got.astype(np.float64), want.astype(np.float64)
    finite = np.isfinite(theirs)
    if not np.array_equal(mine[~finite], theirs[~finite], equal_nan=True):
        return float("inf")
    mine, theirs = mine[finite], theirs[finite]
    if not mine.size:
        return 0.0
    size = np.abs(theirs)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        allowed = tolerance * (size + size.max())
        share = np.where(mine == theirs, 0.0, np.abs(mine - theirs) / allowed)
    return float(np.nan_to_num(share, nan=np.inf).max())


# -- worker processes ---------------------------------------------------------------------------


class Worker:
    """A process that checks the samples whose names it reads, one line each."""

    def __init__(self, seed: int):
        command = [sys.executable, "-m", __spec__.name, "--worker", "--seed", str(seed)]
        environment = {**os.environ, "NBMOD_CHECK": "1", "NBMOD_GPU_PRODUCTS": CONFIG.gpu_products}
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        env=environment, text=True)
        self.lines: Queue[str] = Queue()
        self.listener = threading.Thread(target=self._listen, daemon=True)
        self.listener.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put("")

    def check(self, name: str) -> SampleResult:
        """The result of a sample; one with an error if the process dies of it or hangs."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(name + "\n")
            self.process.stdin.flush()
            line = self.lines.get(timeout=PATIENCE)
        except OSError:
            line = ""
        except Empty:
            return self._lost(name, f"no answer within {PATIENCE} s")
        if not line:
            return self._lost(name, f"its process ended with status {self.process.wait()}")
        result = SampleResult(**json.loads(line))
        if any(word in result.error for word in FATAL):
            self.end()
        return result

    def _lost(self, name: str, why: str) -> SampleResult:
        self.end()
        return SampleResult(name, _samples()[name].op, error=why)

    def end(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.wait()
        self.listener.join()
        for pipe in (self.process.stdin, self.process.stdout):
            with suppress(OSError):     # unread input cannot be flushed
                pipe.close()  # type: ignore[union-attr]

    @property
    def sound(self) -> bool:
        return self.process.poll() is None


def work(seed: int) -> None:
    """Check the samples named on standard input."""
    for line in sys.stdin:
        print(json.dumps(asdict(check_sample(line.strip(), seed))), flush=True)


def check_all(names: Sequence[str], seed: int, jobs: int) -> Iterator[SampleResult]:
    """The results of samples, in the order of completion."""
    waiting: Queue[str] = Queue()
    for name in names:
        waiting.put(name)
    ready: Queue[SampleResult | None] = Queue()
    threads = [threading.Thread(target=_serve, args=(waiting, ready, seed), daemon=True)
               for _ in range(max(1, min(jobs, len(names))))]
    for thread in threads:
        thread.start()
    left = len(threads)
    while left:
        result = ready.get()
        if result is None:
            left -= 1
        else:
            yield result


def _serve(waiting: Queue[str], ready: Queue[SampleResult | None], seed: int) -> None:
    """Check samples in a worker process, which is replaced when it has ended."""
    worker = Worker(seed)
    try:
        while True:
            name = waiting.get_nowait()
            if not worker.sound:
                worker = Worker(seed)
            ready.put(worker.check(name))
    except Empty:
        pass
    finally:
        worker.end()
        ready.put(None)


# -- the report ---------------------------------------------------------------------------------


@dataclass
class Report:
    """The results of all samples."""

    about: dict[str, Any]
    samples: list[SampleResult] = field(default_factory=list)

    def lines(self, closest: int = 10) -> list[str]:
        """Failures, the `closest` ops to their tolerance, and totals."""
        failed = [result for result in self.samples if result.failed]
        passed = sorted((result for result in self.samples if result.runs and not result.failed),
                        key=lambda result: -result.worst)
        rows = [_failure(result) for result in failed]
        rows += ["closest to their tolerance:"] if passed else []
        rows += [f"  {result.worst:6.1%}  {result.name}: {result.where}"
                 for result in passed[:closest]]
        without = sorted({result.op for result in self.samples if result.skipped})
        if without:
            rows.append(f"{len(without)} ops without kernels for a GPU: {', '.join(without)}")
        runs = sum(result.runs for result in self.samples)
        card, products, seed = (self.about[key] for key in ("card", "products", "seed"))
        return [*rows, f"{card}, {products} products, seed {seed}: {len(self.samples)} samples, "
                f"{runs} runs, {len(failed)} failed, {self.about['seconds']:.0f} s"]

    def write(self, path: Path) -> None:
        """Write all figures as JSON."""
        content = {**self.about, "samples": [asdict(result) for result in self.samples]}
        with atomic_write(path) as file:
            file.write(json.dumps(content, indent=1).encode() + b"\n")


def _failure(result: SampleResult) -> str:
    wrong = f"{result.where} is off by {result.worst:.3g} tolerances"
    return f"FAILED {result.name}: {result.error or wrong}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run it; 0 if all agree."""
    parser = argparse.ArgumentParser(prog=f"python -m {__spec__.name}",
                                     description="every op on the GPU against the CPU")
    parser.add_argument("samples", nargs="*", help="beginnings of samples' names; default: all")
    parser.add_argument("--seed", type=int, default=0,
                        help="of the inputs; 0: those of the tests; default: %(default)s")
    parser.add_argument("--products", choices=list(ROUNDED), default=CONFIG.gpu_products,
                        help="round factors of float32 products for tensor cores")
    parser.add_argument("--jobs", type=int, default=min(os.cpu_count() or 1, 8),
                        help="processes; default: %(default)s")
    parser.add_argument("--out", type=Path, help="a file for all figures, as JSON")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    CONFIG.gpu_products = options.products
    if not gpu_count():
        parser.error(f"this machine offers {gpus_offered()}; NUMBA_ENABLE_CUDASIM=1 checks in the "
                     "simulator")
    if options.worker:
        work(options.seed)
        return 0
    names = sample_names(options.samples)
    if not names:
        parser.error(f"no sample begins with {' or '.join(options.samples)}")
    report = Report(_about(options.seed))
    started = time.perf_counter()
    for result in check_all(names, options.seed, options.jobs):
        report.samples.append(result)
        if result.failed:
            print(_failure(result), flush=True)
    report.about["seconds"] = round(time.perf_counter() - started, 1)
    print("\n".join(report.lines()))
    if options.out:
        report.write(options.out)
    return int(any(result.failed for result in report.samples))


def _about(seed: int) -> dict[str, Any]:
    card = "the simulator" if CONFIG.cuda_simulator else f"GPU of {gpu_memory(0)[1] >> 20:,} MiB"
    return {"nbmod": __version__, "numpy": np.__version__, "card": card, "seed": seed,
            "products": CONFIG.gpu_products or "float32"}


if __name__ == "__main__":
    sys.exit(main())
