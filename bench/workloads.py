"""What `bench.compare` runs: symbols with shapes, in suites.

A name is "network phase batch".  Training is forward, backward with the gradients of all
parameters, and a step of SGD with momentum and weight decay: a training loop's work per batch, by a
module in MXNet and nbmod.  In the suite of operators it is forward and backward, with the gradients
of all inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

import nbmod as mx
from nbmod.execution.cost_model import cost_of
from nbmod.ops.op import Spec

from .networks import NETWORKS, language_model, wide_and_deep

__all__ = ["SUITES", "Shape", "Workload", "model", "variable", "workloads"]

Shape = tuple[int, ...]
INPUTS = ("data", "ids", "softmax_label")


@dataclass
class Workload:
    """A symbol at given shapes of its inputs; `inputs` are those without gradients."""

    name: str
    build: Callable[[], Any]
    shapes: dict[str, Shape]
    training: bool
    inputs: tuple[str, ...] = INPUTS
    updates: bool = True
    symbol: Any = field(init=False)

    def network(self, threads: int) -> dict[str, Any]:
        """The arguments of `Network`."""
        self.symbol = self.build()
        args, _, aux = self.symbol.infer_shape(**self.shapes)
        arguments = dict(zip(self.symbol.list_arguments(), args, strict=True))
        wanted = [name for name in arguments if name not in self.inputs and "state" not in name]
        return {"graph": self.symbol.tojson(), "args": arguments,
                "aux": dict(zip(self.symbol.list_auxiliary_states(), aux, strict=True)),
                "wanted": wanted, "training": self.training,
                "updates": self.training and self.updates, "threads": threads}

    def cost(self) -> tuple[float, float]:
        """Multiplications plus additions, and bytes that its operators read and write.

        A training step computes three products per layer, or two where the data is an input.
        """
        symbol = self.build()
        internals = symbol.get_internals()
        shapes = dict(zip(internals.list_outputs(), internals.infer_shape(**self.shapes)[1],
                          strict=True))
        operations = nbytes = 0.0
        for node in _nodes(symbol):
            ins = [_spec(shapes[_label(entry)]) for entry in node.inputs]
            outs = [_spec(shapes.get(_output(node, i), ())) for i in range(node.num_outputs)]
            cost = cost_of(node.op, ins, outs)
            leaf = node.inputs[0].node.name in self.inputs
            operations += cost.operations * ((2 if leaf else 3) if self.training else 1)
            nbytes += cost.nbytes
        return operations, nbytes


def _nodes(symbol: Any) -> list[Any]:
    from nbmod.graph import Graph

    return [node for node in Graph(symbol.entries).nodes if not node.is_variable]


def _label(entry: Any) -> str:
    node = entry.node
    return node.name if node.is_variable else _output(node, entry.index)


def _output(node: Any, index: int) -> str:
    return f"{node.name}_{node.op.list_outputs()[index]}"


def _spec(shape: Shape) -> Spec:
    return Spec(tuple(shape), np.dtype(np.float32))


def _models() -> Iterator[Workload]:
    """Networks for images, infer at batches of 16 and 1, training steps."""
    for name, phases in (("resnet50", ("infer 16", "infer 1", "train 16")),
                         ("resnet18", ("infer 16", "infer 1", "train 16")),
                         ("vgg16", ("infer 1", "infer 16", "train 4")),
                         ("mobilenet_v2", ("infer 16", "infer 1", "train 16"))):
        for phase in phases:
            yield model(name, *phase.split())


def model(name: str, phase: str, batch: str) -> Workload:
    """A network of `NETWORKS`; `phase` is infer or train."""
    build, (_, *shape) = NETWORKS[name]
    return Workload(f"{name} {phase} {batch}", build, {"data": (int(batch), *shape)},
                    phase == "train")


def _small() -> Iterator[Workload]:
    """Networks whose steps are mostly the overhead of calls."""
    for phase in ("infer", "train"):
        yield model("perceptron", phase, "64")
        yield model("lenet", phase, "64")
        yield Workload(f"wide_and_deep {phase} 64", wide_and_deep,
                       {"data": (64, 13), "ids": (64, 26)}, phase == "train")


def _rnn() -> Iterator[Workload]:
    """A language model: 2 layers of 650, 35 words, batch 32, a vocabulary of 10,000."""
    for mode, phase, kind in product(("lstm", "gru"), ("train", "infer"), ("fused", "unrolled")):
        yield Workload(f"{mode} {kind} {phase} 32",
                       lambda kind=kind, mode=mode: language_model(kind == "fused", mode),
                       {"ids": (32, 35), "softmax_label": (32, 35)}, phase == "train")


PRODUCTS = [(1024, 1024, 1024, False), (64, 784, 128, True), (1120, 650, 2600, True),
            (32, 650, 2600, True), (1, 4096, 4096, True), (1120, 650, 10000, True)]
"""(m, k, n), and whether the right factor is transposed, as the weight of a dense layer."""


def _ops() -> Iterator[Workload]:
    """Single operators."""
    from .ops import CASES

    big = (16, 256, 56, 56)
    more: dict[str, tuple[Callable[[], Any], dict[str, Shape]]] = {
        **{f"dot {m}x{k}x{n}{' turned' * turned}": (
            lambda turned=turned: mx.sym.dot(variable("lhs"), variable("rhs"), transpose_b=turned,
                                             name="op"),
            {"lhs": (m, k), "rhs": (n, k) if turned else (k, n)})
           for m, k, n, turned in PRODUCTS},
        "batch_dot 12x128x64x128": (
            lambda: mx.sym.batch_dot(variable("lhs"), variable("rhs"), transpose_b=True, name="op"),
            {"lhs": (12, 128, 64), "rhs": (12, 128, 64)}),
        "add": (lambda: mx.sym.elemwise_add(variable("lhs"), variable("rhs"), name="op"),
                {"lhs": big, "rhs": big}),
        "relu": (lambda: mx.sym.Activation(variable("data"), act_type="relu", name="op"),
                 {"data": big}),
        "sigmoid": (lambda: mx.sym.sigmoid(variable("data"), name="op"), {"data": big}),
        "embedding": (lambda: mx.sym.Embedding(variable("ids"), input_dim=10_000, output_dim=650,
                                               name="op"), {"ids": (32, 35)}),
        "concat": (lambda: mx.sym.concat(variable("lhs"), variable("rhs"), name="op"),
                   {"lhs": (16, 64, 56, 56), "rhs": (16, 64, 56, 56)}),
        "batch norm": (lambda: mx.sym.BatchNorm(variable("data"), fix_gamma=False, eps=1e-5,
                                                name="op"), {"data": big}),
    }
    for name, (build, shape) in CASES.items():
        more[name] = build, {"data": shape}
    for name, (build, shapes) in more.items():
        for training in (False, True):
            yield Workload(f"{name} {'train' if training else 'infer'}", build, shapes, training,
                           inputs=("ids",), updates=False)


def variable(name: str) -> Any:
    """An input."""
    return mx.sym.Variable(name)


SUITES: dict[str, Callable[[], Iterator[Workload]]] = {
    "models": _models, "small": _small, "rnn": _rnn, "ops": _ops}


def workloads(suite: str, names: list[str]) -> list[Workload]:
    """The workloads of a suite with one of the prefixes `names`, or all."""
    return [one for one in SUITES[suite]()
            if not names or any(one.name.startswith(name) for name in names)]
