"""A network called through the tape: what a call of `CachedOp` adds to its executor.

    python -m bench.calls                a table: microseconds, on a quiet machine
    python -m bench.calls --processor    processor time instead, for a machine that others use, too

`call` is inference, `record` a recorded call and its backward pass with a head gradient, `loss` the
same under a loss of two eager operators.  MXNet's rows are of `CachedOp` with static_alloc and
static_shape, its fastest.
"""

from __future__ import annotations

import argparse

import nbmod as mx
from nbmod.bench.rounds import Arm

from .peers import arm_of, mxnet_worker, peer_arm, timed
from .programs import network_calls as programs

LAYERS = (3, 20)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.calls")
    parser.add_argument("--processor", action="store_true", help="processor time of all threads")
    by_processor = parser.parse_args().processor
    worker = mxnet_worker(1 if by_processor else 0)
    print("| layers | what | executor | CachedOp | more | MXNet |")
    print("|---:|---|---:|---:|---:|---:|")
    for layers in LAYERS:
        for what in ("call", "record", "loss"):
            trains, loss = what != "call", what == "loss"
            arms: dict[str, Arm] = {
                "executor": arm_of(programs.executor(mx, layers, trains), "executor",
                                   by_processor),
                "nbmod": arm_of(programs.cached_op(mx, layers, trains, loss),
                                processor=by_processor)}
            if worker is not None:
                arms["MXNet"] = peer_arm(worker, programs.cached_op, layers, trains, loss,
                                         processor=by_processor)
            found = {name: time.seconds * 1e6 for name, time in timed(arms).items()}
            print(f"| {layers} | {what} | {found['executor']:.0f} | {found['nbmod']:.0f} | "
                  f"{found['nbmod'] - found['executor']:.0f} | {found['MXNet']:.0f} |", flush=True)


if __name__ == "__main__":
    main()
