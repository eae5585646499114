"""The network that every framework is given: graph, shapes, and gradients; needs NumPy only."""

from __future__ import annotations

import ast
import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from math import prod, sqrt
from typing import Any, NamedTuple

import numpy as np

__all__ = ["SGD", "Built", "Network", "Node", "numbers"]

SGD = {"learning_rate": 1e-5, "momentum": 0.9, "wd": 1e-4}
"""The parameters of the optimizer."""


class Node(NamedTuple):
    """A variable if `op` is "null"; inputs are (index of a node, index of its output)."""

    name: str
    op: str
    attrs: dict[str, Any]
    inputs: list[tuple[int, int]]


class Built(NamedTuple):
    """A network ready to run: `step` runs it once; `result` is the first output of the last run."""

    step: Callable[[], Any]
    result: Callable[[], Any]
    note: str = ""


@dataclass
class Network:
    """A symbol as JSON, shapes of its arguments and of its auxiliary states (`aux`).

    Training runs forward and backward, for the gradients of the arguments `wanted`, and if
    `updates` a step of `SGD` on these.
    """

    graph: str
    args: dict[str, tuple[int, ...]]
    aux: dict[str, tuple[int, ...]]
    wanted: list[str]
    training: bool
    updates: bool
    threads: int
    device: str = "cpu"
    """Or "gpu"."""
    graphs: bool = False
    """nbmod on a GPU: replay the forward and the backward pass as CUDA graphs."""
    tf32: bool = False
    """PyTorch on a GPU: round factors of products and convolutions to TF32."""

    @property
    def nodes(self) -> list[Node]:
        """The nodes in topological order; the last one is the output."""
        return [Node(node["name"], node["op"],
                     {key: _value(text) for key, text in node.get("attrs", {}).items()},
                     [(i[0], i[1]) for i in node["inputs"]])
                for node in json.loads(self.graph)["nodes"]]

    @property
    def has_loss(self) -> bool:
        """Whether the output is a loss layer, which needs no head gradient."""
        return self.nodes[-1].op == "SoftmaxOutput"

    def values(self) -> dict[str, np.ndarray]:
        """The values of all variables."""
        return {name: numbers(name, shape) for name, shape in (self.args | self.aux).items()}


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def numbers(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """float32, the same for a name and a shape in every process; magnitudes do not grow with
    depth."""
    if name.endswith(("_var", "_gamma")):
        return np.ones(shape, np.float32)
    if name.endswith(("_beta", "_bias", "_mean", "_label", "_state", "_state_cell")):
        return np.zeros(shape, np.float32)
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    if name == "ids":
        return rng.integers(0, 10_000, shape).astype(np.float32)
    fan = prod(shape[1:]) if name.endswith("_weight") else 400 if name.endswith("ters") else 2
    return rng.standard_normal(shape, np.float32) * np.float32(sqrt(2 / fan))
