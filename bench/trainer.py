"""Steps of hybridized networks by a trainer, beside modules and MXNet.

    python -m bench.trainer                a table: milliseconds, on a quiet machine
    python -m bench.trainer --processor    processor time instead
    python -m bench.trainer LSTM           rows whose names contain one of these words
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import nbmod as mx
from nbmod.bench.foreign.worker_process import WorkerProcess
from nbmod.bench.rounds import Arm

from .peers import arm_of, asked, interval, inverse, mxnet_worker, peer_arm, timed
from .programs import eager_calls, trainer_steps
from .programs.eager_calls import Run


class Row(NamedTuple):
    """A step and what it is compared with."""

    program: Callable[..., Run]
    args: tuple[object, ...]
    module: tuple[Callable[..., Run], tuple[object, ...]] | None
    """The step of nbmod's module; None: that of MXNet is compared."""
    goal: float


ROWS = {
    "perceptron": Row(eager_calls.perceptron, (True,), (eager_calls.perceptron_module, ()), 1.4),
    **{f"ResNet-{layers}": Row(trainer_steps.residual_network, (layers, False),
                               (trainer_steps.residual_network, (layers, True)), 1.03)
       for layers in (18, 50)},
    "LSTM layer": Row(trainer_steps.language_model, (False,), None, 1.0),
    "LSTM cell, unrolled": Row(trainer_steps.language_model, (True,), None, 0.5),
}


def main() -> None:
    """Print the table."""
    options, rows = asked("python -m bench.trainer", ROWS, 20.0)
    worker: WorkerProcess | None = None
    print("| step | ms | beside | ms | ratio | 99% interval | goal |\n"
          "|---|--:|---|--:|--:|--:|--:|")
    for name, row in rows.items():
        arms: dict[str, Arm] = {}
        if row.module is not None:
            program, args = row.module
            arms["module"] = arm_of(program(mx, *args), "module", options.processor)
        elif worker := worker or mxnet_worker(options.threads):
            arms["MXNet"] = peer_arm(worker, row.program, *row.args, processor=options.processor)
        arms["nbmod"] = arm_of(row.program(mx, *row.args), processor=options.processor)
        times, other = timed(arms, options.seconds), next(iter(arms))
        ours, theirs, ratio = times["nbmod"], times[other], inverse(times["nbmod"].ratio)
        print(f"| {name} | {ours.seconds * 1e3:.2f} | {other} | {theirs.seconds * 1e3:.2f} | "
              f"{ratio.median:.2f} | {interval(ratio)} | {row.goal} |", flush=True)


if __name__ == "__main__":
    main()
