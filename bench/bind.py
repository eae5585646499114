"""Binding: seconds of every stage from a symbol to an executor, beside MXNet's.

    python -m bench.bind [network ...]

Processor seconds, the least of some rounds, kernels from the cache.  `bind` is `simple_bind` for
inference, `train` with gradients, `reshape` that of the trained executor; `switch` is the change of
a BucketingModule to a bucket of a new length.  DenseNet is one of the graphs of real models
(`bench.real_graphs`), left out where these are absent.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import nbmod as mx
from tests.oracle.client import Oracle
from tests.programs import binding_programs as programs

from .networks import resnet
from .peers import mxnet_worker
from .real_graphs import texts

ROUNDS = 3
CHAINS = [100, 1000, 20_000, 200_000]
BUCKETS = [35, 30, 25, 20]


def networks() -> dict[str, tuple[Any, dict, dict]]:
    """name -> (JSON, or builder and length; shapes; shapes to reshape to)."""
    def words(length: int, batch: int) -> dict[str, tuple[int, ...]]:
        return {"data": (batch, length), "softmax_label": (batch, length)}

    def images(batch: int, size: int = 224) -> dict[str, tuple[int, ...]]:
        return {"data": (batch, 3, size, size)}

    found = {
        "lstm 35": (("unrolled", 35), words(35, 32), words(35, 16)),
        "lstm 100": (("unrolled", 100), words(100, 32), words(100, 16)),
        "resnet50": (resnet([3, 4, 6, 3], True).tojson(), images(4), images(2)),
        "resnet152": (resnet([3, 8, 36, 3], True).tojson(), images(4), images(2)),
        **{f"chain {length}": (("chain", length), {"data": (4, 3)}, {"data": (2, 3)})
           for length in CHAINS},
    }
    if (graph := texts().get("iface/d201")) is not None:
        found["densenet201"] = graph, images(4, 112), images(2, 112)
    return found


def show(title: str, ours: Mapping[str, float], theirs: Mapping[str, float]) -> None:
    """One line for each stage."""
    for stage, seconds in ours.items():
        peer = theirs.get(stage, float("nan"))
        print(f"{title:12} {stage:8} {seconds * 1e3:9.1f} {peer * 1e3:9.1f} {seconds / peer:6.2f}",
              flush=True)


def compare(worker: Oracle | None, function: str, *args: Any) -> tuple[Any, Any]:
    """The results of a program of `binding_programs` in nbmod and in MXNet."""
    ours = getattr(programs, function)(mx, *args)
    theirs = worker.call("mx_scripts.run", "binding_programs", function, *args) if worker else None
    return ours, theirs


def main(names: list[str]) -> None:
    worker = mxnet_worker()
    print(f"{'network':12} {'stage':8} {'nbmod ms':>9} {'MXNet ms':>9} {'ratio':>6}")
    for name, case in networks().items():
        if not names or name in names:
            show(name, *compare(worker, "stage_seconds", *case, ROUNDS))
    if not names:
        ours, theirs = compare(worker, "switch_seconds", BUCKETS, 32)
        show("lstm buckets", {"switch": ours}, {"switch": theirs} if worker else {})


if __name__ == "__main__":
    main(sys.argv[1:])
