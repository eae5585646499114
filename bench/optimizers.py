"""One step of an optimizer over all parameters of a network, nbmod and MXNet interleaved.

    python -m bench.optimizers [optimizer ...]      a table: milliseconds, ratio, GB/s
    python -m pytest bench/optimizers.py            the same by the fixture `kernel_benchmark`

The updater gets all parameters in one call, as from a module on one device.  GB/s are of the least
memory traffic of a step, in one pass.  Figures are medians, taken after the kernels have been
compiled.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import pytest

from .networks import NETWORKS
from .peers import HEAD, arms_of, cells, mxnet_worker, timed
from .programs import steps

# optimizer: parameters, arrays read and written per weight
OPTIMIZERS: dict[str, tuple[dict[str, Any], int]] = {
    "sgd": ({}, 3),
    "sgd momentum": ({"momentum": 0.9}, 5),
    "nag": ({"momentum": 0.9}, 5),
    "adam": ({}, 7),
    "rmsprop": ({}, 5),
    "adagrad": ({}, 5),
    "lamb": ({}, 7),
    "lars": ({"momentum": 0.9}, 5),
}
CASES = [(name, net) for net in ("resnet50", "perceptron") for name in OPTIMIZERS]


def shapes_of(network: str) -> dict[str, tuple[int, ...]]:
    """The shapes of a network's parameters by name."""
    build, data = NETWORKS[network]
    symbol = build()
    shapes, _, _ = symbol.infer_shape(data=data)
    found = dict(zip(symbol.list_arguments(), shapes, strict=True))
    return {name: shape for name, shape in found.items() if name not in ("data", "softmax_label")}


def arguments(name: str, network: str) -> tuple[str, dict[str, Any], dict[str, tuple[int, ...]]]:
    """The arguments of `steps.optimizer`: the optimizer, its parameters, the network's."""
    params = {"learning_rate": 1e-3, "wd": 1e-4, **OPTIMIZERS[name][0]}
    return name.split()[0], params, shapes_of(network)


def main(names: list[str]) -> None:
    worker = mxnet_worker()
    print(f"{'optimizer':13} {'network':11} {HEAD} {'GB/s':>6}")
    for name, network in CASES:
        if names and name not in names:
            continue
        times = timed(arms_of(worker, steps.optimizer, *arguments(name, network)))
        moved = 4 * OPTIMIZERS[name][1] * sum(math.prod(s) for s in shapes_of(network).values())
        print(f"{name:13} {network:11} {cells(times)} {moved / times['nbmod'].seconds / 1e9:6.1f}",
              flush=True)


@pytest.mark.parametrize("name, network", CASES)
def test_step(beside: Any, name: str, network: str) -> None:
    """One row per optimizer and network: a step of all parameters."""
    beside(steps.optimizer, *arguments(name, network))


if __name__ == "__main__":
    main(sys.argv[1:])
