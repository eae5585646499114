"""Memory-bound ops: bandwidth of single ops, as a share of that of a copy.

    python -m bench.bandwidth [name ...]

A row is a step of the bound network: an op, its gradient, or a conversion to or from the blocked
layout.  Its bytes are those of its inputs and outputs, each once, so an op that reads twice, or
whose output needs a read for ownership before the write, does not reach the bandwidth of a copy.
All arrays are larger than most caches.  Times are medians.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import nbmod as mx
from nbmod.bench.roofs import measured_roofs
from nbmod.bench.step_facts import StepTime, step_times
from nbmod.ops.jit import num_threads

from .elementwise import CASES as CHAINS
from .ops import Shape, layer, pool

REPEATS = 15
ROWS, WIDE, IMAGES = (8192, 1000), (16, 256, 56, 56), (16, 64, 112, 112)


def between(shape: Shape, channels: int, **attrs: Any) -> tuple[Callable[[], Any], Shape]:
    """A pooling in the blocked layout, after a 1x1 convolution."""
    data = mx.sym.Variable("data")
    conv = mx.sym.Convolution(data, kernel=(1, 1), num_filter=channels, name="conv")
    return lambda: mx.sym.Pooling(conv, name="op", **attrs), shape


def norm(shape: Shape) -> tuple[Callable[[], Any], Shape]:
    """Batch norm and ReLU in the blocked layout."""
    data = mx.sym.Variable("data")
    conv = mx.sym.Convolution(data, kernel=(1, 1), num_filter=shape[1], name="conv")
    return lambda: mx.sym.Activation(mx.sym.BatchNorm(conv, name="op", fix_gamma=False),
                                     act_type="relu"), shape


def joined(shape: Shape) -> tuple[Callable[[], Any], Shape]:
    """Two tensors concatenated along channels."""
    data = mx.sym.Variable("data")
    return lambda: mx.sym.concat(data * 2, data * 3, dim=1, name="op"), shape


MAX = {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1)}
AVERAGE = {"kernel": (3, 3), "pad": (1, 1), "pool_type": "avg"}
OPS: dict[str, tuple[Callable[[], Any], Shape]] = {
    "max pooling": pool(IMAGES, **MAX),
    "average pooling": pool(WIDE, **AVERAGE),
    "global pooling": pool((64, 2048, 14, 14), global_pool=True, pool_type="avg", kernel=(7, 7)),
    "global maximum": pool((64, 2048, 14, 14), global_pool=True, pool_type="max", kernel=(7, 7)),
    "blocked max pooling": between(IMAGES, 64, **MAX),
    "blocked average pooling": between((16, 64, 56, 56), 256, **AVERAGE),
    "blocked batch norm": norm((16, 256, 56, 56)),
    "small blocked batch norm": norm((16, 256, 28, 28)),
    "reorder 7 x 7": between((64, 2048, 7, 7), 2048, kernel=(1, 1)),
    "layer norm": layer("LayerNorm", ROWS),
    "dropout": layer("Dropout", ROWS),
    "transpose": layer("transpose", (4096, 2048), axes=(1, 0)),
    "transpose to NHWC": layer("transpose", WIDE, axes=(0, 2, 3, 1)),
    "transpose of heads": layer("transpose", (32, 128, 16, 64), axes=(0, 2, 1, 3)),
    "swapped axes": layer("SwapAxis", (128, 64, 1024), dim1=0, dim2=1),
    "sum of rows": layer("sum", ROWS, axis=1),
    "sum of columns": layer("sum", ROWS, axis=0),
    "product of rows": layer("prod", ROWS, axis=1),
    "norm of rows": layer("norm", ROWS, axis=1),
    "moments of rows": layer("moments", ROWS, axes=(1,)),
    "sum of images": layer("sum", WIDE, axis=(0, 2, 3)),
    "mean of images": layer("mean", WIDE, axis=(2, 3)),
    "concat": joined((16, 128, 56, 56)),
    "split": layer("SliceChannel", WIDE, num_outputs=4),
}


def rows(symbol: Any, shapes: dict[str, Shape]) -> list[StepTime]:
    """Times of the memory-bound steps of a bound symbol, with gradients of all inputs."""
    executor = _bound(symbol, shapes)
    return [row for row in step_times(executor, True, REPEATS)
            if row.cost.nbytes > 2 ** 20 and not row.cost.operations]


def _bound(symbol: Any, shapes: dict[str, Shape]) -> Any:
    executor = symbol.simple_bind(mx.cpu(), grad_req="write", **shapes)
    for name, array in executor.arg_dict.items():
        array[:] = 1 if name.endswith("_gamma") else 0.05 * mx.nd.random.normal(shape=array.shape)
    return executor


def main(names: list[str]) -> None:
    copied = measured_roofs().nbytes["copy"]
    print(f"{num_threads()} threads; copies {copied / 1e9:.1f} GB/s")
    cases = {name: (build, {"data": shape}) for name, (build, shape) in OPS.items()}
    for name, (build, shapes) in {**CHAINS, **cases}.items():
        if names and name not in names:
            continue
        for row in rows(build(), shapes):
            rate = row.cost.nbytes / row.seconds
            print(f"{name:24} {row.op[:36]:36} {row.seconds * 1e3:8.3f} ms {rate / 1e9:6.1f} GB/s "
                  f"{rate / copied:5.0%}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
