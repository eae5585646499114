"""Loops (`foreach`) and the same graph unrolled, in nbmod and in MXNet.

    python -m bench.control        a table: microseconds for each iteration, forward and backward

The body is a plain recurrent cell: two dense layers, a sum, tanh.  `written out` has the nodes of
all iterations in one graph, so it is what the steps cost without a loop around them.  Figures are
medians, taken after the kernels have been compiled.
"""

from __future__ import annotations

from typing import Any

import nbmod as mx

from .peers import arms_of, mxnet_worker, timed
from .programs import steps

SIZES = [(50, 4, 8), (50, 32, 256), (500, 1, 4)]
"""Iterations, batch, units."""


def cell(units: int) -> Any:
    """A function from a row and a state to the next state, on weights of its own."""
    weight, bias, recurrent = (mx.sym.Variable(name) for name in ("weight", "bias", "recurrent"))

    def step(x: mx.sym.Symbol, h: mx.sym.Symbol) -> mx.sym.Symbol:
        return mx.sym.tanh(mx.sym.FullyConnected(x, weight, bias, num_hidden=units)
                           + mx.sym.FullyConnected(h, recurrent, num_hidden=units, no_bias=True))

    return step


def loop(rows: int, units: int) -> mx.sym.Symbol:
    """`foreach`."""
    step = cell(units)
    return mx.sym.contrib.foreach(lambda x, h: (step(x, h),) * 2, mx.sym.Variable("data"),
                                  mx.sym.Variable("state"))[0]


def written_out(rows: int, units: int) -> mx.sym.Symbol:
    """The nodes of all iterations."""
    step, h, outputs = cell(units), mx.sym.Variable("state"), []
    for x in mx.sym.split(mx.sym.Variable("data"), num_outputs=rows, axis=0, squeeze_axis=True):
        h = step(x, h)
        outputs.append(h)
    return mx.sym.stack(*outputs, axis=0)


def main() -> None:
    """Print the table."""
    worker = mxnet_worker()
    print("| iterations, batch, units | graph | nbmod forward | backward | MXNet forward "
          "| backward |")
    print("|---|---|---:|---:|---:|---:|")
    for rows, batch, units in SIZES:
        shapes = {"data": (rows, batch, units), "state": (batch, units)}
        for name, make in (("foreach", loop), ("written out", written_out)):
            net = make(rows, units)
            found = [timed(arms_of(worker, program, net.tojson(), shapes))
                     for program in (steps.forward, steps.backward)]
            values = [each[way].seconds / rows * 1e6 for way in ("nbmod", "MXNet")
                      for each in found]
            print(f"| {rows}, {batch}, {units} | {name} | "
                  + " | ".join(f"{value:.1f}" for value in values) + " |", flush=True)


if __name__ == "__main__":
    main()
