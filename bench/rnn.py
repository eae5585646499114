"""The RNN operator, nbmod and MXNet interleaved in one run.

    python -m bench.rnn [mode ...]          a table: milliseconds, ratio, GFLOP/s

Figures are medians, taken after the kernels have been compiled.  A step takes 2 G H (I + H) T N
operations per layer forward, for G gates and a state of H; training takes three times that.
"""

from __future__ import annotations

import statistics
import sys

import nbmod as mx
from nbmod.ops.rnn.rnn_weights import GATES, RnnLayout
from tests.oracle.client import Oracle
from tests.programs import recurrent

from .peers import mxnet_worker

ROUNDS, REPEATS = 3, 5
MODES = ("lstm", "gru", "rnn_tanh")
# (T, N, I, H), layers
SHAPES = [((35, 32, 200, 200), 2), ((50, 64, 512, 512), 1), ((10, 1, 256, 256), 1)]


def compare(worker: Oracle | None, *case) -> tuple[float, float]:
    """Median seconds of nbmod and of MXNet."""
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(ROUNDS):
        ours += recurrent.seconds(mx, *case, REPEATS)
        if worker:
            theirs += worker.call("mx_scripts.run", "recurrent", "seconds", *case, REPEATS)
    return statistics.median(ours), statistics.median(theirs or [float("nan")])


def operations(mode: str, shape: tuple[int, int, int, int], layers: int) -> float:
    """Multiplications and additions of a forward pass."""
    steps, samples, inputs, hidden = shape
    layout = RnnLayout(mode, hidden, layers)
    weights = layout.size(inputs) - 2 * layers * len(GATES[mode]) * hidden
    return 2.0 * weights * steps * samples


def main(modes: list[str]) -> None:
    worker = mxnet_worker()
    print(f"{'mode':9} {'T, N, I, H':20} {'layers':6} {'':9} {'nbmod ms':>9} {'MXNet ms':>9} "
          f"{'ratio':>6} {'GFLOP/s':>8}")
    for mode in modes or MODES:
        for shape, layers in SHAPES:
            for training in (False, True):
                ours, theirs = compare(worker, mode, shape, layers, training)
                work = operations(mode, shape, layers) * (3 if training else 1)
                print(f"{mode:9} {str(shape):20} {layers:6} {'train' if training else 'infer':9} "
                      f"{ours * 1e3:9.3f} {theirs * 1e3:9.3f} {ours / theirs:6.2f} "
                      f"{work / ours / 1e9:8.1f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
