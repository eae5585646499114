"""Compare networks on a GPU with the same on the CPU: `python -m nbmod.ops.cuda.check [NAME...]`.

One network for each kind of kernels runs forward and backward on `gpu(0)` and on the CPU, on the
same random numbers.  GPU memory starts as NaN, so that an element that no kernel writes is
detected.  The exit status is 1 if anything differs.  After `--limit` seconds no further network
begins.

In a checkout of the repository `python -m tests.cuda.check` compares every op, in all its types.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from ...context import cpu, gpu
from ...core.config import CONFIG
from ...core.gpus import gpu_count, gpus_offered

__all__ = ["main"]

Network: TypeAlias = tuple[object, Mapping[str, Sequence[int]]]
"""A symbol, and the shapes of its inputs."""


def _networks() -> dict[str, Network]:
    """Networks by the kind of their kernels."""
    from ... import sym

    x, y, image = sym.Variable("x"), sym.Variable("y"), sym.Variable("image")
    indices = sym.argmax(sym.BlockGrad(y), axis=1)
    matrix, pair = {"x": (67, 45)}, {"x": (67, 45), "y": (67, 45)}
    pictures = {"image": (3, 5, 17, 19)}
    return {
        "elementwise": (sym.tanh(sym.exp(x) * 2 + sym.sigmoid(y)), pair),
        "broadcast": (sym.broadcast_mul(x, y), {"x": (67, 45), "y": (1, 45)}),
        "reduce": (sym.sum(x, axis=1) + sym.max(x, axis=1), matrix),
        "rearrange": (sym.Concat(sym.transpose(x), sym.slice_axis(
            sym.reshape(y, shape=(45, -1)), axis=1, begin=2, end=9), dim=1), pair),
        "order": (sym.Group([sym.sort(x, axis=1), sym.topk(x, k=3, ret_typ="value")]), matrix),
        "take": (sym.take(x, indices), pair),
        "dense": (sym.FullyConnected(x, num_hidden=33), matrix),
        "products": (sym.batch_dot(x, y, transpose_b=True), {"x": (5, 21, 34), "y": (5, 19, 34)}),
        "linalg": (sym.linalg.gemm2(x, x, transpose_b=True), matrix),
        "convolution": (sym.Convolution(image, kernel=(3, 3), pad=(1, 1), num_filter=7), pictures),
        "grouped convolution": (sym.Convolution(
            image, kernel=(3, 3), stride=(2, 2), num_filter=10, num_group=5), pictures),
        "deconvolution": (sym.Deconvolution(
            image, kernel=(4, 4), stride=(2, 2), num_filter=6), pictures),
        "pooling": (sym.Group([sym.Pooling(image, kernel=(3, 3), stride=(2, 2), pool_type=kind)
                               for kind in ("max", "avg")]), pictures),
        "batch norm": (sym.BatchNorm(image, fix_gamma=False), pictures),
        "layer norm": (sym.LayerNorm(x), matrix),
        "softmax": (sym.SoftmaxOutput(x, indices), pair),
        "recurrent": (sym.RNN(x, state_size=8, num_layers=2, mode="lstm"), {"x": (7, 3, 6)}),
        "resize": (sym.UpSampling(image, scale=2, sample_type="nearest"), pictures)}


def _difference(symbol: object, shapes: Mapping[str, Sequence[int]]) -> str:
    """The difference, or the error, of a network; empty if there is none."""
    from ...test_utils import check_consistency

    try:
        check_consistency(symbol, [{"ctx": ctx, **shapes} for ctx in (cpu(), gpu(0))])
    except Exception as error:      # noqa: BLE001  whatever it is, it is this network's result
        return f"{type(error).__name__}: {error}"
    return ""


def main(argv: Sequence[str] | None = None) -> int:
    """Run it; 0 if all agree."""
    networks = _networks()
    parser = argparse.ArgumentParser(prog=f"python -m {__spec__.name}",
                                     description="networks on the GPU against the CPU")
    parser.add_argument("names", nargs="*", metavar="NAME", help="beginnings of names of networks: "
                        f"{', '.join(networks)}; default: all")
    parser.add_argument("--seed", type=int, default=0, help="of the inputs; default: %(default)s")
    parser.add_argument("--limit", type=float, default=720, metavar="SECONDS",
                        help="begin nothing later than that; default: %(default)s")
    options = parser.parse_args(argv)
    start = time.monotonic()
    if not gpu_count():
        parser.error(f"this machine offers {gpus_offered()}; NUMBA_ENABLE_CUDASIM=1 checks in the "
                     "simulator")
    CONFIG.check = max(CONFIG.check, 1)
    beginnings = tuple(options.names) or ("",)
    chosen = {name: each for name, each in networks.items() if name.startswith(beginnings)}
    if not chosen:
        parser.error(f"no network begins with {' or '.join(options.names)}")
    from .runtime.compiler import compiler_name

    print(f"kernels are compiled by {compiler_name()}")
    failed = done = 0
    for name, network in chosen.items():
        if time.monotonic() - start > options.limit:
            print(f"stopped after {options.limit:g} seconds: {len(chosen) - done} of {len(chosen)} "
                  "networks are not checked")
            break
        done += 1
        np.random.seed(options.seed)
        difference = _difference(*network)
        failed += bool(difference)
        print(f"{name}: {f'FAILED, {difference}' if difference else 'agrees'}", flush=True)
    print(f"{done} networks, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
