"""Whole networks, nbmod and MXNet interleaved in one run.

    python -m bench.models [network ...]

Prints the median milliseconds per image (per batch for the perceptron), and the ratio.  Compile
time is measured by `bench.startup`.
"""

from __future__ import annotations

import sys

from .memory import requests
from .networks import NETWORKS
from .peers import HEAD, arms_of, cells, mxnet_worker, timed
from .programs import steps


def main(names: list[str]) -> None:
    worker = mxnet_worker()
    print(f"{'network':14} {'phase':10} {HEAD}  per image")
    for name in names or NETWORKS:
        build, shape = NETWORKS[name]
        symbol, images = build(), 1 if name == "perceptron" else shape[0]
        for training in (False, True):
            times = timed(arms_of(worker, steps.step, symbol.tojson(), {"data": shape}, None,
                                  requests(symbol, training)), seconds=20)
            print(f"{name:14} {'training' if training else 'inference':10} "
                  f"{cells(times, 1e3 / images)}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
