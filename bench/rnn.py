"""The RNN operator, nbmod and MXNet interleaved in one run.

    python -m bench.rnn [mode ...]          a table: milliseconds, ratio, GFLOP/s

Figures are medians, taken after the kernels have been compiled.  A step takes 2 G H (I + H) T N
operations per layer forward, for G gates and a state of H; training takes three times that.
"""

from __future__ import annotations

import sys

import nbmod as mx
from nbmod.ops.rnn.rnn_weights import GATES, RnnLayout

from .peers import HEAD, arms_of, cells, mxnet_worker, timed
from .programs import steps

MODES = ("lstm", "gru", "rnn_tanh")
# (T, N, I, H), layers
SHAPES = [((35, 32, 200, 200), 2), ((50, 64, 512, 512), 1), ((10, 1, 256, 256), 1)]


def operations(mode: str, shape: tuple[int, int, int, int], layers: int) -> float:
    """Multiplications and additions of a forward pass."""
    steps, samples, inputs, hidden = shape
    layout = RnnLayout(mode, hidden, layers)
    weights = layout.size(inputs) - 2 * layers * len(GATES[mode]) * hidden
    return 2.0 * weights * steps * samples


def main(modes: list[str]) -> None:
    worker = mxnet_worker()
    print(f"{'mode':9} {'T, N, I, H':20} {'layers':6} {'':9} {HEAD} {'GFLOP/s':>8}")
    for mode in modes or MODES:
        for shape, layers in SHAPES:
            symbol = mx.sym.RNN(mx.sym.Variable("data"), state_size=shape[3], num_layers=layers,
                                mode=mode, state_outputs=True, name="rnn")
            for grad, phase, passes in (("null", "infer", 1), ("write", "train", 3)):
                times = timed(arms_of(worker, steps.step, symbol.tojson(), {"data": shape[:3]},
                                      None, grad))
                work = operations(mode, shape, layers) * passes / times["nbmod"].seconds
                print(f"{mode:9} {str(shape):20} {layers:6} {phase:9} {cells(times)} "
                      f"{work / 1e9:8.1f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
