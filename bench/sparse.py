"""Operations on sparse arrays: nbmod, MXNet and (products only) scipy, interleaved.

    python -m bench.sparse [--cpu] [case ...]
    python -m bench.sparse --memory

Batches have 256 rows with 100 of 100,000 features, weights 16 columns.  Medians in milliseconds,
after kernels have been compiled.  `--cpu` measures the time of processors, one
thread each, for machines that do other work.  `--memory` trains a weight of 10 million rows,
and prints the memory that this takes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from multiprocessing import get_context
from typing import Any

import numpy as np

import nbmod as mx

from .peers import HEAD, arm_of, arms_of, cells, mxnet_worker, timed
from .programs import sparse_memory, sparse_times


def scipy_products() -> dict[str, Callable[[], Any]]:
    """The products that scipy has, its results dense; none where it is absent."""
    try:
        from scipy.sparse import csr_matrix
    except ImportError:
        return {}
    batch = csr_matrix(sparse_times.features(), (sparse_times.BATCH, sparse_times.FEATURES))
    rng = np.random.RandomState(8)
    weight = rng.randn(batch.shape[1], sparse_times.WIDTH).astype(np.float32)
    heads = rng.randn(batch.shape[0], sparse_times.WIDTH).astype(np.float32)
    return {"dot(csr, dense)": lambda: batch @ weight, "dot(csr.T, dense)": lambda: batch.T @ heads}


def main(names: list[str], cpu: bool = False) -> None:
    worker, scipys = mxnet_worker(1 if cpu else 0), scipy_products()
    if cpu:
        mx.set_num_threads(1)
    print(f"{'case':28} {HEAD} {'scipy ms':>9}")
    for case in names or sparse_times.CASES:
        arms = arms_of(worker, sparse_times.subject, case, processor=cpu)
        if case in scipys:
            arms["scipy"] = arm_of(scipys[case], "scipy", cpu)
        times = timed(arms)
        scipy = f"{1e3 * times['scipy'].seconds:9.3f}" if case in scipys else f"{'nan':>9}"
        print(f"{case:28} {cells(times)} {scipy}", flush=True)


def memory(rows: int = 10_000_000, width: int = 16, steps: int = 10) -> None:
    """Print peaks of training, with a store and by a Module, beside the bytes of weight and states,
    of either library."""
    arrays = 3 * rows * width * 4       # the weight and two states of Adam
    print(f"weight and states of {rows:,} x {width}: {arrays >> 20:,} MB, indices of rows "
          f"{8 * rows >> 20:,} MB each")
    for task in ("peak_of_training", "peak_of_module"):
        # Processes of their own, because their largest memory never falls.
        with get_context("spawn").Pool(1) as process:
            found = {"nbmod": process.apply(_peak, (task, rows, width, steps))}
        if worker := mxnet_worker():
            found["MXNet"] = worker.call("in_mxnet.run", "sparse_memory", task, rows, width,
                                         steps)
        for library, peak in found.items():
            print(f"{task:16} {library:6} {peak >> 20:6,} MB, {peak / arrays:.2f} of these")


def _peak(task: str, rows: int, width: int, steps: int) -> int:
    measure = getattr(sparse_memory, task)
    measure(mx, 1000, width, 2)     # compiles kernels
    return int(measure(mx, rows, width, steps))


if __name__ == "__main__":
    if sys.argv[1:] == ["--memory"]:
        memory()
    else:
        main([name for name in sys.argv[1:] if name != "--cpu"], "--cpu" in sys.argv)
