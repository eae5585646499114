"""Planned memory of whole networks, in MB, with MXNet's own plan beside it.

    python -m bench.memory

No clock runs here.  MXNet's figure is the "Total ... MB allocated" of its `debug_str()`, without
fractions; small networks are therefore planned with the batch multiplied by `TIMES`.  With
MXNET_BACKWARD_DO_MIRROR=1 both plan recomputation of cheap nodes in backward.
"""

from __future__ import annotations

import re

import nbmod as mx

from .networks import NETWORKS
from .peers import mxnet_worker

TIMES = {"lenet": 32, "perceptron": 1024}
CASES = ("resnet50", "resnet18", "vgg16", "mobilenet_v2", "lenet", "perceptron")


def planned_megabytes(name: str, training: bool) -> float:
    """Bytes that nbmod's executor allocates for intermediates and outputs."""
    build, shape = NETWORKS[name]
    executor = build().simple_bind(mx.cpu(), grad_req=requests(build(), training), data=shape)
    return executor.compiled.plan.total_bytes / 2 ** 20


def requests(symbol, training: bool) -> dict[str, str]:
    """Gradients of parameters, not of inputs; none for inference."""
    inputs = ("data", "softmax_label")
    return {name: "write" if training and name not in inputs else "null"
            for name in symbol.list_arguments()}


def mxnet_megabytes(worker, name: str, training: bool) -> float:
    """MXNet's plan for the same graph."""
    build, shape = NETWORKS[name]
    symbol = build()
    times = TIMES.get(name, 1)
    text = worker.call("in_mxnet.debug_text", symbol.tojson(),
                       {"data": [times * shape[0], *shape[1:]]},
                       requests(symbol, training), timeout=600)
    found = re.search(r"Total (\d+) MB allocated", text)
    return float(found.group(1)) / times if found else float("nan")


def main() -> None:
    worker = mxnet_worker()
    print(f"{'network':14} {'phase':10} {'nbmod MB':>9} {'MXNet MB':>9} {'ratio':>6}")
    for name in CASES:
        for training in (False, True):
            ours = planned_megabytes(name, training)
            theirs = mxnet_megabytes(worker, name, training) if worker else float("nan")
            ratio = ours / theirs if theirs else float("nan")
            print(f"{name:14} {'training' if training else 'inference':10} {ours:9.2f} "
                  f"{theirs:9.2f} {ratio:6.2f}", flush=True)


if __name__ == "__main__":
    main()
