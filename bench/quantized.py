"""Quantised layers: nbmod fused and op by op, the same layers in float32, and MXNet, in one run.

    python -m bench.quantized [block ...]

A block is the three convolutions of a bottleneck of ResNet-50, each with ReLU.  Quantised, they are
`quantized_conv` and a calibrated `requantize` to uint8, which has ReLU in it; MXNet's operators
take no other data.  Milliseconds are medians for a batch of 16; the last column are the operations
of the fused block, multiplications and additions.
"""

from __future__ import annotations

import sys
from typing import Any
from unittest.mock import patch

import numpy as np

import nbmod as mx
from nbmod.passes.optimize import pipelines

from .peers import arm_of, mxnet_worker, peer_arm, timed
from .programs import steps

BATCH = 16
BLOCKS = {"56 x 56": (64, 56), "28 x 28": (128, 28), "14 x 14": (256, 14), "7 x 7": (512, 7)}
"""Filters of the middle convolution, a quarter of the block's channels, and the size of images."""
Values = dict[str, np.ndarray]


def layers(width: int) -> list[tuple[str, int, int]]:
    """Name, kernel and filters of each convolution."""
    return [("a", 1, width), ("b", 3, width), ("c", 1, 4 * width)]


def real(width: int) -> Any:
    """A block in float32."""
    x = mx.sym.Variable("data")
    for name, kernel, filters in layers(width):
        x = mx.sym.Convolution(x, kernel=(kernel, kernel), pad=(kernel // 2, kernel // 2),
                               num_filter=filters, no_bias=True, name=name)
        x = mx.sym.relu(x, name=f"{name}_relu")
    return x


def quantised(width: int) -> Any:
    """The block in 8-bit integers."""
    ops, variable = mx.sym.contrib, mx.sym.Variable
    x = [variable("data", dtype="uint8"), variable("min_data"), variable("max_data")]
    for name, kernel, filters in layers(width):
        x = ops.quantized_conv(
            data=x[0], weight=variable(f"{name}_weight", dtype="int8"), min_data=x[1],
            max_data=x[2], min_weight=variable(f"{name}_min"), max_weight=variable(f"{name}_max"),
            kernel=(kernel, kernel), pad=(kernel // 2, kernel // 2), num_filter=filters,
            no_bias=True, name=name)
        x = ops.requantize(*x, min_calib_range=0.0, max_calib_range=8.0, out_type="uint8",
                           name=f"{name}_bytes")
    return x[0]


def values_of(symbol: Any, shape: tuple[int, ...]) -> Values:
    """Integers for tensors, -1 and 1 for the ends of ranges."""
    rng, found = np.random.default_rng(0), {}
    names, shapes = symbol.list_arguments(), symbol.infer_shape(data=shape)[0]
    for name, size in zip(names, shapes, strict=True):
        if name == "data":
            found[name] = rng.integers(0, 256, size).astype(np.uint8)
        elif name.endswith("_weight") and not name.startswith(("min", "max")):
            found[name] = rng.integers(-127, 128, size).astype(np.int8)
        else:
            found[name] = np.full(size, -1 if "min" in name else 1, np.float32)
    return found


def compare(worker: Any, name: str) -> dict[str, float]:
    """Median milliseconds of each variant."""
    width, size = BLOCKS[name]
    shapes = {"data": (BATCH, 4 * width, size, size)}
    whole = quantised(width)
    bytewise = whole.tojson(), shapes, values_of(whole, shapes["data"]), "null"
    exact = real(width).tojson(), shapes, None, "null"
    arms: dict[str, Any] = {"joined": arm_of(steps.forward(mx, *bytewise)),
                            "real": arm_of(steps.forward(mx, *exact))}
    with patch.object(pipelines, "fuse_int8", lambda before, *_: before):
        arms["op by op"] = arm_of(steps.forward(mx, *bytewise))
    if worker:
        arms |= {"MXNet": peer_arm(worker, steps.forward, *bytewise),
                 "MXNet real": peer_arm(worker, steps.forward, *exact)}
    return {way: 1e3 * found.seconds for way, found in timed(arms, seconds=20).items()}


def main(names: list[str]) -> None:
    worker = mxnet_worker()
    ways = ["joined", "op by op", "real", "MXNet", "MXNet real"][:None if worker else 3]
    print(f"{'block':8}", *(f"{way:>10}" for way in ways), f"{'GOP/s':>8}")
    for name in names or BLOCKS:
        found, (width, size) = compare(worker, name), BLOCKS[name]
        work = 2 * BATCH * size ** 2 * (4 + 9 + 4) * width ** 2
        print(f"{name:8}", *(f"{found[way]:10.2f}" for way in ways),
              f"{work / found['joined'] / 1e6:8.0f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
