"""Binding: seconds of every stage from a symbol to an executor, beside MXNet's.

    python -m bench.bind [network ...]

Medians of processor time, kernels from the cache.  `bind` is `simple_bind` for
inference, `train` with gradients, `reshape` that of the trained executor; `switch` is the change of
a BucketingModule to a bucket of a new length.  DenseNet is one of the graphs of real models
(`bench.real_graphs`), left out where these are absent.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from nbmod.bench.rounds import Arm

from .networks import resnet
from .peers import HEAD, arms_of, cells, mxnet_worker, timed
from .programs import binding_programs as programs
from .real_graphs import texts

CHAINS = [100, 1000, 20_000, 200_000]
BUCKETS = [35, 30]


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


def show(title: str, stage: str, arms: Mapping[str, Arm]) -> None:
    """One line for a stage."""
    print(f"{title:12} {stage:8} {cells(timed(arms))}", flush=True)


def main(names: list[str]) -> None:
    worker = mxnet_worker()
    print(f"{'network':12} {'stage':8} {HEAD}")
    for name, case in networks().items():
        for stage in programs.STAGES if not names or name in names else ():
            if stage != "compose" or not isinstance(case[0], str):
                show(name, stage, arms_of(worker, programs.stage, stage, *case, processor=True))
    if not names:
        show("lstm buckets", "switch", arms_of(worker, programs.switch, BUCKETS, 32,
                                               processor=True))


if __name__ == "__main__":
    main(sys.argv[1:])
