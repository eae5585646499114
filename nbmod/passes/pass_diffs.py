"""Changes that each pass makes to a graph, as differences of listings.

    NBMOD_PRINT_PASSES=1 python script.py

A listing has one line for each node: its name, shape and type of what it computes, as far as they
are known, its op with the parameters that are not defaults, and what it reads.  Lines have no
numbers, so a node that a pass leaves as it is keeps its line.

    -fc1: (32, 64) float32 = FullyConnected(num_hidden=64) of data, fc1_weight, fc1_bias
    -relu1: (32, 64) float32 = Activation(act_type=relu) of fc1
    +fc1: (32, 64) float32 = _fused_layer(layer=FullyConnected(num_hidden=64), relu=True) of ...

Assumes: nothing.  Names may coincide, and ops may have any parameters: listings are read by people.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import Field, fields, is_dataclass
from difflib import unified_diff
from typing import NamedTuple

from ..graph import Entry, Graph, Node
from ..ops.op import Op, Spec
from .infer import Inferred, specs_of
from .rewrite import Rewritten
from .switches import PASSES

__all__ = ["PassDiff", "PassDiffs", "listing", "print_diff", "shown_parameters"]

LONGEST = 60
"""Characters of a parameter; the rest of a program or a table is left out."""


class PassDiff(NamedTuple):
    """A pass, and what it has changed."""

    name: str
    diff: str
    """Unified difference of the listings of the graphs before and after the pass."""


class PassDiffs:
    """An observer that tells `tell` what each pass has changed, if it has changed anything."""

    def __init__(self, tell: Callable[[PassDiff], None]):
        self._tell = tell

    def rewritten(self, name: str, before: Rewritten, after: Rewritten) -> None:
        """A pass has rewritten the forward pass, or says which nodes need not run every time."""
        if after is not before:
            self._compare(name, *(listing(each.graph, specs_of(each.graph, each.specs), {
                id(node) for group in each.groups for node in group}) for each in (before, after)))

    def graphs(self, name: str, before: Inferred, after: Inferred,
               facts: Callable[[list[Spec]], list[Spec]] | None = None) -> None:
        """A pass has rewritten the graph of outputs and gradients."""
        if after.graph is not before.graph:
            self._compare(name, listing(*before), listing(*after))

    def _compare(self, name: str, before: list[str], after: list[str]) -> None:
        lines = unified_diff(before, after, f"before {name}", f"after {name}", n=1, lineterm="")
        if diff := "\n".join(lines):
            self._tell(PassDiff(name, diff))


def print_diff(network: str, difference: PassDiff) -> None:
    """Print a difference for the users of a network of this name."""
    print(f"{network}: pass {difference.name} ({PASSES.get(difference.name, 'a part of bind')})\n"
          f"{difference.diff}\n", file=sys.stderr, flush=True)


def listing(graph: Graph, specs: Sequence[Spec | None], hoisted: Collection[int] = ()
            ) -> list[str]:
    """A line for each node and one for the outputs; `hoisted` are `id`s of nodes."""
    lines = [f"{node.name}: {', '.join(_spec(specs[eid]) for eid in _visible(graph, node))} = "
             f"{_shown(node.op)}{' of ' * bool(node.inputs)}{_listed(node.inputs)}"
             f"{'; only when what it reads has changed' if id(node) in hoisted else ''}"
             for node in graph.nodes]
    return [*lines, f"outputs: {_listed(graph.outputs)}"]


def _shown(value: object) -> str:
    """An op with the parameters that are not defaults, or a parameter."""
    if value is None:
        return "variable"
    if not isinstance(value, Op):
        text = f"{value:.6g}" if isinstance(value, float) else " ".join(str(value).split())
        return text if len(text) <= LONGEST else f"{text[:LONGEST - 3]}..."
    changed = [f"{name}={text}" for name, text in shown_parameters(value).items()]
    return f"{value.name}({', '.join(changed)})" if changed else value.name


def shown_parameters(op: Op | None) -> dict[str, str]:
    """The parameters of an op that are not defaults, as short texts."""
    return {part.name: _shown(option) for part in _fields(op) if part.init and part.repr
            and (option := getattr(op, part.name)) != part.default}


def _fields(op: object) -> Sequence[Field[object]]:
    return fields(op) if is_dataclass(op) and not isinstance(op, type) else ()


def _listed(entries: Sequence[Entry]) -> str:
    return ", ".join(f"{node.name}[{index}]" if index else node.name for node, index in entries)


def _visible(graph: Graph, node: Node) -> range:
    """The outputs of a node that are not hidden."""
    return graph.output_eids(node)[:1 if node.op is None else node.op.num_visible]


def _spec(spec: Spec | None) -> str:
    return "?" if spec is None else f"{spec.shape} {spec.dtype}"
