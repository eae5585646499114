"""Inference of storage types: the third attribute of entries, beside shape and element type.

Types flow forwards only, from variables whose storage type is declared, by the rules of
`ops.sparse.storage_types`.  The gradient of a variable has the type that its gradient graph gives.

Assumes: what `declared_storage` checks, that a declared type exists; nothing else is known of
variables.  That head gradients are dense; `execution.call_arguments.load_head_gradients` copies
those that are given to dense arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..base import STORAGE_FLAGS, MXNetError, wrong_type
from ..graph import Entry, Graph, Node
from ..ops.internal import ZeroGradient
from ..ops.op import Backward
from ..ops.sparse.row_gradients import gradient_letters
from ..ops.sparse.storage_types import LETTERS, STYPES, result
from .gradient import gradient

__all__ = ["Letters", "declared_storage", "falls_back", "gradient_storage",
           "infer_gradient_storage", "infer_storage", "letters_in"]

_STYPE_OF_ATTR = {str(flag): stype for stype, flag in STORAGE_FLAGS.items()}

Letters = dict[Entry, str]


def declared_storage(graph: Graph, stypes: Mapping[str, str]) -> dict[str, str]:
    """Storage types of variables that are not dense: from `stypes`, or their attributes."""
    if not isinstance(stypes, Mapping):
        raise wrong_type("simple_bind: stype_dict", stypes, "a dict of storage types by name")
    declared = {node.name: stypes.get(node.name) or _STYPE_OF_ATTR.get(
        node.attrs.get("__storage_type__", "0"), "") for node in graph.variables}
    for name, stype in declared.items():
        if stype not in LETTERS:
            raise MXNetError(f"storage type of {name} is {stype or 'unknown'!r}, expected one of "
                             f"{[*LETTERS]}")
    return {name: stype for name, stype in declared.items() if stype != "default"}


def infer_storage(graph: Graph, declared: Mapping[str, str]) -> Letters:
    """The storage type of every entry, as a letter; outputs but the first are dense."""
    letters: Letters = {Entry(node): LETTERS[declared.get(node.name, "default")]
                        for node in graph.variables}
    _flow(graph.nodes, letters)
    return letters


def gradient_storage(graph: Graph, letters: Letters, wrt: Sequence[Node]) -> dict[str, str]:
    """Storage types of the gradients of variables; head gradients are dense."""
    gradients, known = infer_gradient_storage(graph, letters, wrt)
    return {node.name: STYPES[known[entry]]
            for node, entry in zip(wrt, gradients.outputs, strict=True)}


def infer_gradient_storage(graph: Graph, letters: Letters, wrt: Sequence[Node]
                           ) -> tuple[Graph, Letters]:
    """The graph of the gradients of variables, and the storage types of its entries.

    A variable through which no gradient flows has one of no rows if it is row_sparse itself.
    """
    heads = [Entry(Node(None, "head")) for _ in graph.outputs]
    gradients = Graph(gradient(graph, wrt, heads))
    known = {**letters, **dict.fromkeys(heads, "d")}
    known.update({grad: "r" for node, grad in zip(wrt, gradients.outputs, strict=True)
                  if isinstance(grad.node.op, ZeroGradient) and letters[Entry(node)] == "r"})
    _flow(gradients.nodes, known)
    return gradients, known


def falls_back(node: Node, letters: Letters) -> bool:
    """Whether a node converts sparse inputs to dense arrays."""
    ins = letters_in(node, letters)
    if node.op is None or not set(ins) - {"d"}:
        return False
    if isinstance(node.op, Backward):
        return gradient_letters(node.op, ins) is None
    return result(node.op, ins) is None


def letters_in(node: Node, letters: Letters) -> str:
    """The storage types of the inputs of a node."""
    return "".join([letters[entry] for entry in node.inputs])


def _flow(nodes: Sequence[Node], letters: Letters) -> None:
    """Add the letters of the outputs of nodes in topological order."""
    for node in nodes:
        if node.op is None or Entry(node) in letters:
            continue
        ins = letters_in(node, letters)
        outs = ["d"] * node.num_outputs
        if isinstance(node.op, Backward):
            outs = gradient_letters(node.op, ins) or outs
        elif set(ins) - {"d"} or node.op.makes_sparse:
            outs[0] = result(node.op, ins) or "d"
        letters.update({Entry(node, index): letter for index, letter in enumerate(outs)})
