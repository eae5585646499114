"""Single ops, nbmod and MXNet interleaved in one run.

    python -m bench.ops [name ...]          a table: milliseconds, ratio, GFLOP/s
    python -m pytest bench/ops.py           the same by the fixture `kernel_benchmark`

Forward is in training mode; backward gives the gradients of all inputs.  Figures are medians, taken
after the kernels have been compiled; a row takes some ten seconds.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import pytest

import nbmod as mx

from .peers import HEAD, arms_of, cells, mxnet_worker, timed
from .programs import steps

Shape = tuple[int, ...]


def conv(data: Shape, filters: int, kernel: int, stride: int = 1, groups: int = 1
         ) -> tuple[Callable[[], Any], Shape]:
    """A 2-D convolution that keeps the size of the image, up to its stride."""
    return lambda: mx.sym.Convolution(
        mx.sym.Variable("data"), num_filter=filters, kernel=(kernel, kernel), num_group=groups,
        stride=(stride, stride), pad=(kernel // 2, kernel // 2), no_bias=True, name="op"), data


def dense(data: Shape, hidden: int) -> tuple[Callable[[], Any], Shape]:
    """A dense layer with bias."""
    return lambda: mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=hidden,
                                         name="op"), data


def pool(data: Shape, **attrs: Any) -> tuple[Callable[[], Any], Shape]:
    """A pooling."""
    return lambda: mx.sym.Pooling(mx.sym.Variable("data"), name="op", **attrs), data


def layer(kind: str, data: Shape, **attrs: Any) -> tuple[Callable[[], Any], Shape]:
    """An operator of one input, and parameters whose shapes are inferred from it."""
    return lambda: getattr(mx.sym, kind)(mx.sym.Variable("data"), name="op", **attrs), data


ROWS, IMAGES = (4096, 1000), (16, 64, 56, 56)
CASES = {
    "conv stem": conv((16, 3, 224, 224), 64, 7, 2),
    "conv 3x3 56": conv((16, 64, 56, 56), 64, 3),
    "conv 3x3 14": conv((16, 256, 14, 14), 256, 3),
    "conv 3x3 7": conv((16, 512, 7, 7), 512, 3),
    "conv 1x1 56": conv((16, 64, 56, 56), 256, 1),
    "conv 1x1 14": conv((16, 1024, 14, 14), 256, 1),
    "conv 1x1 stride 2": conv((16, 256, 56, 56), 512, 1, 2),
    "conv 3x3 batch 1": conv((1, 256, 14, 14), 256, 3),
    "conv 32 groups": conv((16, 128, 56, 56), 128, 3, 1, 32),
    "conv depthwise": conv((16, 144, 56, 56), 144, 3, 1, 144),
    "conv LeNet": conv((64, 20, 12, 12), 50, 5),
    "dense 784-128": dense((64, 784), 128),
    "dense 2048-1000": dense((16, 2048), 1000),
    "dense 1024-1024": dense((1024, 1024), 1024),
    "max 3x3 stride 2": pool((16, 64, 112, 112), kernel=(3, 3), stride=(2, 2), pad=(1, 1)),
    "max 2x2 stride 2": pool((64, 20, 24, 24), kernel=(2, 2), stride=(2, 2)),
    "avg 3x3": pool((16, 64, 56, 56), kernel=(3, 3), pad=(1, 1), pool_type="avg"),
    "avg global": pool((16, 2048, 7, 7), global_pool=True, pool_type="avg", kernel=(7, 7)),
    "softmax": layer("softmax", ROWS),
    "softmax of channels": layer("softmax", IMAGES, axis=1),
    "log_softmax": layer("log_softmax", ROWS),
    "layer norm": layer("LayerNorm", ROWS),
    "instance norm": layer("InstanceNorm", IMAGES),
    "group norm": layer("GroupNorm", IMAGES, num_groups=8),
    "dropout": layer("Dropout", ROWS),
    "sum of rows": layer("sum", ROWS, axis=1),
    "sum of columns": layer("sum", ROWS, axis=0),
    "mean of images": layer("mean", IMAGES, axis=(2, 3)),
    "transpose": layer("transpose", (2048, 2048), axes=(1, 0)),
    "transpose NHWC": layer("transpose", IMAGES, axes=(0, 2, 3, 1)),
    "split": layer("SliceChannel", IMAGES, num_outputs=4),
}


def operations(symbol: Any, shape: Shape) -> float:
    """Multiplications and additions of a forward pass: two for each weight and output pixel."""
    shapes, (out, *_), _ = symbol.infer_shape(data=shape)
    if len(shapes) == 1 or len(shapes[1]) == 1:  # no weight, or one value per channel
        return float("nan")
    return 2.0 * math.prod(shapes[1]) * math.prod(out) / out[1]


def main(names: list[str]) -> None:
    worker = mxnet_worker()
    print(f"{'op':18} {'':8} {HEAD} {'GFLOP/s':>8}")
    for name in names or CASES:
        build, shape = CASES[name]
        symbol = build()
        for program, share in ((steps.forward, 1), (steps.backward, 2)):
            times = timed(arms_of(worker, program, symbol.tojson(), {"data": shape}))
            speed = share * operations(symbol, shape) / times["nbmod"].seconds / 1e9
            print(f"{name:18} {program.__name__:8} {cells(times)} {speed:8.1f}", flush=True)


@pytest.mark.parametrize("name", CASES)
def test_op(beside: Any, name: str) -> None:
    """One row per op: forward and backward together."""
    build, shape = CASES[name]
    beside(steps.step, build().tojson(), {"data": shape})


if __name__ == "__main__":
    main(sys.argv[1:])
