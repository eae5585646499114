"""Operators that run one by one, recorded and differentiated, beside MXNet.

    python -m bench.eager                a table: microseconds, on a quiet machine
    python -m bench.eager --processor    processor time instead, for a machine that others use, too
    python -m bench.eager products step  rows whose names contain one of these words
"""

from __future__ import annotations

from collections.abc import Callable

import nbmod as mx
from nbmod.bench.rounds import Arm

from .peers import arm_of, asked, interval, inverse, mxnet_worker, peer_arm, timed
from .programs import eager_calls as programs

Subject = tuple[Callable[..., Callable[[], object]], tuple[object, ...]]
ROWS: dict[str, Subject] = {
    "a + b": (programs.add, ()),
    "dense operator": (programs.dense, (False,)),
    "dense block": (programs.dense, (True,)),
    "sum of squares, recorded": (programs.loss, (False,)),
    "sum of squares, backward too": (programs.loss, (True,)),
    "10 products, recorded": (programs.products, (False,)),
    "10 products, backward too": (programs.products, (True,)),
    "10 x (dense, relu), recorded": (programs.layers, (False,)),
    "10 x (dense, relu), backward too": (programs.layers, (True,)),
    "perceptron step, module": (programs.perceptron_module, ()),
    "perceptron step, hybridized": (programs.perceptron, (True,)),
    "perceptron step, eager": (programs.perceptron, (False,)),
    "ResNet-18 inference": (programs.residual_network, (False,)),
    "ResNet-18 step": (programs.residual_network, (True,)),
}


def main() -> None:
    """Print the table."""
    options, rows = asked("python -m bench.eager", ROWS, 8.0)
    worker = mxnet_worker(options.threads)
    print("| what | nbmod | MXNet | nbmod / MXNet | 99% interval |\n|---|--:|--:|--:|--:|")
    for name, (program, args) in rows.items():
        arms: dict[str, Arm] = {}
        if worker is not None:
            arms["MXNet"] = peer_arm(worker, program, *args, processor=options.processor)
        arms["nbmod"] = arm_of(program(mx, *args), processor=options.processor)
        times = timed(arms, options.seconds)
        ours = times["nbmod"]
        ratio = inverse(ours.ratio)
        print(f"| {name} | {ours.seconds * 1e6:.1f} | {times['MXNet'].seconds * 1e6:.1f} | "
              f"{ratio.median:.2f} | {interval(ratio)} |", flush=True)


if __name__ == "__main__":
    main()
