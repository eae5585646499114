"""How an epoch of a `DataLoader` scales with its processes, by a transformation in Python.

    python -m bench.loader

Wall time tells that only with as many idle cores as workers.  Processor time tells it on any
machine: the share of the workers' that is the transformation (the epoch without workers, over
theirs together), and the time of the parent, in which no worker helps.  The last column is the
speed-up over one worker that follows, if cores are free: the larger of the parent's time and of a
worker's share bounds an epoch.  Linux only, since it reads `/proc`.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nbmod import gluon

WORKERS = (0, 1, 2, 4, 8)
EPOCHS, BATCH, BATCHES = 3, 32, 16


class Epoch(NamedTuple):
    """Seconds of an epoch: on the clock, and of processors."""

    wall: float
    parent: float
    workers: float


def transformed(image: np.ndarray) -> np.ndarray:
    """The image, after a millisecond or two in Python's interpreter."""
    total = 0.0
    for value in image[0, :2].ravel().tolist():
        for factor in range(200):
            total += value * factor % 7
    image[0, 0, 0] = total
    return image


def processor_time(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measured(dataset: Any, workers: int) -> Epoch:
    """The mean of some epochs, after one that starts the workers."""
    loader = gluon.data.DataLoader(dataset, BATCH, num_workers=workers)
    list(loader)
    pool = loader._worker_pool
    processes = [worker.process.pid for worker in pool._workers] if pool else []

    def now() -> np.ndarray:
        return np.array([time.perf_counter(), time.process_time(),
                         sum(map(processor_time, processes))])

    start = now()
    for _ in range(EPOCHS):
        for _ in loader:
            pass
    return Epoch(*((now() - start) / EPOCHS))


def main() -> None:
    """Print the table."""
    images = np.ones((BATCH * BATCHES, 3, 64, 64), np.float32)
    dataset = gluon.data.ArrayDataset(images).transform(transformed)
    print("| workers | wall s | parent's s | workers' s | of it work | speed-up that follows |",
          "|--:|--:|--:|--:|--:|--:|", sep="\n")
    alone = one = 0.0
    for count in WORKERS:
        epoch = measured(dataset, count)
        least = max(epoch.parent, epoch.workers / max(count, 1))
        alone, one = (least, least) if count == 0 else (alone, least if count == 1 else one)
        print(f"| {count} | {epoch.wall:.2f} | {epoch.parent:.3f} | {epoch.workers:.2f} | "
              f"{alone / max(epoch.workers, alone) if count else 1:.2f} | {one / least:.2f} |")


if __name__ == "__main__":
    main()
