"""The stages from a description to an executor; runs in MXNet and in nbmod."""

from __future__ import annotations

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


STAGES = ("compose", "load", "infer", "bind", "train", "reshape")


def stage(mx: Any, name: str, source: Any, shapes: Shapes, other: Shapes
          ) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """One of `STAGES`, of a symbol that has had none before.

    `source` is JSON, or a name in BUILDERS and a length; `other` are the shapes to reshape to.
    """
    def compose() -> Any:
        return BUILDERS[source[0]](mx, source[1])

    symbol, cpu = mx.sym.load_json(source) if isinstance(source, str) else compose(), mx.cpu()
    json, wanted = symbol.tojson(), requests(symbol)
    trained = (symbol.simple_bind(cpu, grad_req=wanted, **shapes) if name == "reshape" else None)
    fresh: list[Any] = []

    def begin() -> None:
        fresh[:] = [mx.sym.load_json(json)]

    stages: dict[str, Callable[[], Any]] = {
        "compose": compose, "load": lambda: mx.sym.load_json(json),
        "infer": lambda: fresh[0].infer_shape(**shapes),
        "bind": lambda: fresh[0].simple_bind(cpu, grad_req="null", **shapes),
        "train": lambda: fresh[0].simple_bind(cpu, grad_req=wanted, **shapes),
        "reshape": lambda: trained.reshape(True, True, **other)}
    return begin, stages[name]


def switch(mx: Any, lengths: list[int], batch: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """A BucketingModule prepares a bucket that it has not had."""
    def generate(length: int) -> tuple:
        return unrolled(mx, length), ("data",), ("softmax_label",)

    def descriptions(length: int) -> tuple[list, list]:
        return [("data", (batch, length))], [("softmax_label", (batch, length))]

    modules: list[Any] = []
    longest, other = max(lengths), sorted(lengths)[-2]

    def begin() -> None:
        module = mx.mod.BucketingModule(generate, default_bucket_key=longest, context=mx.cpu())
        module.bind(*descriptions(longest))
        module.init_params()
        modules[:] = [module]

    return begin, lambda: modules[0].switch_bucket(other, *descriptions(other))
