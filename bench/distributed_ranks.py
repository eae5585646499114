"""What each rank of `bench.distributed` does; `python -m nbmod launch` runs this script.

    distributed_ranks.py exchange OUT
    distributed_ranks.py train OUT NETWORK BATCH STEPS [CASE ...]

Rank 0 writes JSON into OUT.  Cases are "alone" (a timeline without exchange, while all other ranks
compute, too), "plain,OVERLAP", and "throttled,OVERLAP,GBIT,MICROSECONDS".
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

import nbmod as mx
from bench.networks import resnet
from bench.throttled import Link, ThrottledCommunicator
from bench.timelines import Training
from nbmod.kvstore.distributed import world
from nbmod.kvstore.distributed.bucket import Scratch, buckets_of
from nbmod.kvstore.distributed.communicator import Communicator
from nbmod.kvstore.distributed.distributed_store import BUCKET_BYTES, DistributedStore

ROUNDS = 7
Figures = dict[str, Any]


# ------------------------------------------------------------------------------------- exchange

def exchange(communicator: Communicator) -> list[Figures]:
    """An exchange of about 100 MB by the store's buckets, and by MPI's Allreduce."""
    shapes, _, _ = resnet([3, 4, 6, 3], True).infer_shape(data=(1, 3, 224, 224))
    inputs = ((1, 3, 224, 224), (1,))
    sets = {"4 keys of 25 MB": [(6250, 1000)] * 4,
            "keys of ResNet-50": [shape for shape in shapes if shape not in inputs]}
    return [{"keys": name, **_exchange(communicator, given)} for name, given in sets.items()]


def _exchange(communicator: Communicator, shapes: list[tuple[int, ...]]) -> Figures:
    from mpi4py import MPI

    timed = ThrottledCommunicator(communicator)
    store = DistributedStore("dist_sync", communicator)
    names = [str(number) for number in range(len(shapes))]
    store.init(names, [mx.nd.zeros(shape) for shape in shapes])
    parts = buckets_of([store.key_of(name) for name in names], 4, [BUCKET_BYTES])
    scratch = Scratch()
    made = {kind: [store.exchange_of([key.name for key in part], one, scratch) for part in parts]
            for kind, one in (("plain", communicator), ("timed", timed))}
    gradients = {key.name: np.ones(key.shape, np.float32) for part in parts for key in part}
    flat = np.ones(sum(array.size for array in gradients.values()), np.float32)
    total = np.empty_like(flat)

    def reduce(kind: str) -> None:
        for one in made[kind]:
            one.bucket.reduce_scatter([gradients[key.name] for key in one.bucket.keys])

    def gather(kind: str) -> None:
        for one in made[kind]:
            one.bucket.all_gather(one.stored)

    actions: dict[str, Callable[[], None]] = {
        "store": lambda: (reduce("plain"), gather("plain")) and None,
        "allreduce": lambda: MPI.COMM_WORLD.Allreduce(flat, total),
        "reduce": lambda: reduce("timed"), "gather": lambda: gather("timed")}
    times: dict[str, list[float]] = {name: [] for name in actions}
    inside: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(ROUNDS + 1):
        for name, action in actions.items():
            communicator.barrier()
            before, began = timed.seconds, time.perf_counter()
            action()
            communicator.barrier()
            times[name].append(time.perf_counter() - began)
            inside[name].append(timed.seconds - before)
    found = {name: statistics.median(values[1:]) for name, values in times.items()}
    host = {f"host {name}": found[name] - statistics.median(inside[name][1:])
            for name in ("reduce", "gather")}
    return {**found, **host, "best store": min(times["store"]),
            "best allreduce": min(times["allreduce"]), "MB": flat.nbytes / 1e6,
            "buckets": len(parts)}


# ------------------------------------------------------------------------------------- training

class Cases:
    """A network in a store, in a store whose exchange is throttled, and without exchange."""

    def __init__(self, communicator: Communicator, network: str, batch: int, steps: int):
        self._communicator, self._steps = communicator, steps
        self._make = lambda store: Training(network, batch, store)
        self._throttled = ThrottledCommunicator(communicator)
        self._made: dict[str, Training] = {}

    def _training(self, kind: str) -> Training:
        if kind not in self._made:
            stores = {"plain": lambda: DistributedStore("dist_sync", self._communicator),
                      "throttled": lambda: DistributedStore("dist_sync", self._throttled),
                      "alone": lambda: None}
            self._made[kind] = self._make(stores[kind]())
            self._made[kind].seconds(1)
        return self._made[kind]

    def run(self, case: str) -> Figures:
        """The figures of a case, a median over steps."""
        kind, *options = case.split(",")
        training = self._training(kind)
        self._communicator.barrier()
        if kind == "alone":
            return {"case": case, **asdict(training.timeline(self._steps))}
        os.environ["NBMOD_DIST_OVERLAP"] = options[0]
        if kind == "throttled":
            self._throttled.link = Link(1e9 * float(options[1]), 1e-6 * float(options[2]))
        return {"case": case, **self._measured(training)}

    def _measured(self, training: Training) -> Figures:
        """Seconds of a step, in exchanges, in which the computation waits for them, and of the
        processor for them."""
        times: list[float] = []
        began, busy, waited = [], [], 0.0

        def note(module: object) -> None:
            nonlocal waited
            times.append(time.perf_counter())
            if len(times) == 1:
                mx.profiler.dumps(reset=True)
                began.append(self._throttled.seconds)
                busy.append(_exchange_thread_seconds())
            elif len(times) == self._steps + 1:
                waited = _waited()
                began.append(self._throttled.seconds)
                busy.append(_exchange_thread_seconds())

        mx.profiler.set_config(profile_api=True, aggregate_stats=True,
                               filename=os.devnull)
        mx.profiler.set_state("run")
        training.fit(self._steps + 1, note)
        mx.profiler.set_state("stop")
        mx.profiler.dumps(reset=True)
        steps = np.diff(times)
        return {"step": float(np.median(steps)), "best": float(steps.min()),
                "mean": float(steps.mean()), "waited": waited / self._steps,
                "exchange": (began[1] - began[0]) / self._steps,
                "processor": (busy[1] - busy[0]) / self._steps}


def _exchange_thread_seconds() -> float:
    """Processor seconds of the threads that exchange, where the system tells them."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return 0.0
    return sum(time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
               for thread in threading.enumerate() if thread.name == "exchange" and thread.ident)


def _waited() -> float:
    """Seconds in which the main thread has waited for exchanges."""
    found = json.loads(mx.profiler.dumps(format="json"))["Time"]
    return sum(row["Total"] for group in found.values() for name, row in group.items()
               if name.startswith("wait for ")) / 1e3


# ------------------------------------------------------------------------------------------ main

def main(task: str, out: str, *options: str) -> None:
    communicator = world("dist_sync")
    if task == "exchange":
        found = exchange(communicator)
    else:
        network, batch, steps, *cases = options
        runs = Cases(communicator, network, int(batch), int(steps))
        found = [{**runs.run(case), "load": os.getloadavg()[0]} for case in cases]
    if communicator.rank == 0:
        Path(out).write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
