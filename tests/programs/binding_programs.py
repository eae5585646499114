"""The stages from a description to an executor; runs in MXNet and in nbmod.

Every stage is timed in CPU time of the process, which other load on the machine disturbs less
than wall-clock time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

Shapes = dict[str, tuple[int, ...]]

INPUTS = ("data", "softmax_label", "label")


def unrolled(mx: Any, length: int, hidden: int = 200, vocabulary: int = 2000) -> Any:
    """A language model: two layers of LSTM cells over `length` words."""
    words = mx.sym.Embedding(mx.sym.Variable("data"), input_dim=vocabulary, output_dim=hidden,
                            name="embedding")
    stack = mx.rnn.SequentialRNNCell()
    for layer in range(2):
        stack.add(mx.rnn.LSTMCell(hidden, prefix=f"lstm{layer}_"))
    outputs, _ = stack.unroll(length, words, merge_outputs=True)
    scores = mx.sym.FullyConnected(mx.sym.Reshape(outputs, shape=(-1, hidden)),
                                   num_hidden=vocabulary, name="scores")
    label = mx.sym.Reshape(mx.sym.Variable("softmax_label"), shape=(-1,))
    return mx.sym.SoftmaxOutput(scores, label, name="softmax")


def chain(mx: Any, length: int) -> Any:
    """`length` additions, one after another."""
    net = mx.sym.Variable("data")
    for _ in range(length):
        net = net + 1
    return net


def requests(symbol: Any) -> dict[str, str]:
    """Gradients of parameters, or of everything where there are none."""
    names = symbol.list_arguments()
    trained = [name for name in names if name not in INPUTS] or names
    return {name: "write" if name in trained else "null" for name in names}


BUILDERS = {"unrolled": unrolled, "chain": chain}


def stage_seconds(mx: Any, source: Any, shapes: Shapes, other: Shapes, rounds: int
                  ) -> dict[str, float]:
    """The minimum seconds of every stage.

    `source` is JSON, or a name in BUILDERS and a length; `other` are the shapes to reshape to.
    """
    clock, cpu = Clock(), mx.cpu()
    for _ in range(rounds):
        symbol = mx.sym.load_json(source) if isinstance(source, str) else clock(
            "compose", BUILDERS[source[0]], mx, source[1])
        clock("load", mx.sym.load_json, symbol.tojson())
        clock("infer", symbol.infer_shape, **shapes)
        clock("bind", symbol.simple_bind, cpu, grad_req="null", **shapes)
        trained = clock("train", symbol.simple_bind, cpu, grad_req=requests(symbol), **shapes)
        clock("reshape", trained.reshape, True, True, **other)
    return {stage: min(seconds) for stage, seconds in clock.times.items()}


def switch_seconds(mx: Any, lengths: list[int], batch: int) -> float:
    """The minimum seconds in which a BucketingModule prepares a new bucket."""
    def generate(length: int) -> tuple:
        return unrolled(mx, length), ("data",), ("softmax_label",)

    def descriptions(length: int) -> tuple[list, list]:
        return [("data", (batch, length))], [("softmax_label", (batch, length))]

    module = mx.mod.BucketingModule(generate, default_bucket_key=max(lengths), context=mx.cpu())
    module.bind(*descriptions(max(lengths)))
    module.init_params()
    clock = Clock()
    for length in sorted(lengths)[:-1]:
        clock("switch", module.switch_bucket, length, *descriptions(length))
    return min(clock.times["switch"])


class Clock:
    """Calls functions and records the seconds they take, by stage."""

    def __init__(self) -> None:
        self.times: dict[str, list[float]] = {}

    def __call__(self, stage: str, action: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        started = time.process_time()
        result = action(*args, **kwargs)
        self.times.setdefault(stage, []).append(time.process_time() - started)
        return result
