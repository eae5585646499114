"""Whole networks, nbmod and MXNet interleaved in one run.

    python -m bench.models [network ...]

Prints the median milliseconds per image (per batch for the perceptron), and the ratio.  Compile
time is measured by `bench.startup`.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import nbmod as mx

from .memory import requests
from .networks import NETWORKS
from .peers import mxnet_worker

ROUNDS = 5
SETTLE = 0.5
"""Seconds between the two packages: MXNet's threads spin for a while after their last work."""


def runner(name: str, training: bool) -> Callable[[], float]:
    """A function that runs one step of nbmod and returns its seconds."""
    build, shape = NETWORKS[name]
    symbol = build()
    executor = symbol.simple_bind(mx.cpu(), grad_req=requests(symbol, training), data=shape)
    for key, array in [*executor.arg_dict.items(), *executor.aux_dict.items()]:
        array[:] = 1 if key.endswith(("_var", "_gamma")) else 0.05 * mx.nd.random.normal(
            shape=array.shape)

    def step() -> float:
        started = time.perf_counter()
        executor.forward(is_train=training)
        if training:
            executor.backward()
        return time.perf_counter() - started

    step()
    return step


def compare(worker, name: str, training: bool) -> tuple[float, float]:
    """Median seconds per step of nbmod and of MXNet, rounds interleaved."""
    build, shape = NETWORKS[name]
    symbol, step = build(), runner(name, training)
    ours, theirs = [], []
    repeats = max(2, min(20, int(0.3 / step())))
    for _ in range(ROUNDS):
        time.sleep(SETTLE)
        ours += [step() for _ in range(repeats)][1:]
        if worker:
            theirs += worker.call("mx_bench.seconds", symbol.tojson(), {"data": list(shape)},
                                  requests(symbol, training), training, repeats)[1:]
    return statistics.median(ours), statistics.median(theirs) if theirs else float("nan")


def main(names: list[str]) -> None:
    worker = mxnet_worker()
    print(f"{'network':14} {'phase':10} {'nbmod ms':>9} {'MXNet ms':>9} {'ratio':>6}  per image")
    for name in names or NETWORKS:
        for training in (False, True):
            ours, theirs = compare(worker, name, training)
            images = 1 if name == "perceptron" else NETWORKS[name][1][0]
            print(f"{name:14} {'training' if training else 'inference':10} "
                  f"{ours / images * 1e3:9.3f} {theirs / images * 1e3:9.3f} {ours / theirs:6.2f}",
                  flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
