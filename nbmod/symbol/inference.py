"""Shapes and types of a symbol's arguments, outputs and auxiliary states.

Users pass what they know by argument name or in the order of `list_arguments`; everything else is
the inference pass.  In what users see, 0 is an unknown dimension, () an unknown shape and None an
unknown type.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..base import MXNetError, did_you_mean
from ..graph import Entry, Graph, Node
from ..ops.shape import PartialShape, is_known
from ..passes.infer import infer_shape, infer_type

__all__ = ["Inference"]

Shapes = list[tuple[int, ...]]


class Inference:
    """The part of `Symbol` that infers."""

    __slots__ = ()

    entries: list[Entry]

    def infer_shape(self, *args: Any, **kwargs: Any
                    ) -> tuple[Shapes, Shapes, Shapes] | tuple[None, None, None]:
        """(shapes of arguments, of outputs, of auxiliary states).

        `kwargs` are known shapes by variable name, `args` in the order of `list_arguments()` with
        None for unknown.  (None, None, None) and a warning that lists what is missing if not all of
        them follow.  Raises MXNetError where shapes contradict each other, naming the node.
        """
        graph = Graph(self.entries)
        found = _select(graph, _shape_facts(graph, args, kwargs))
        if all(is_known(shape) for part in found for shape in part):
            return found
        _warn("shape", [f"{node.name}: {shape or ()}" for node, shape
                        in zip(graph.arguments, found[0], strict=True) if not is_known(shape)],
              " (0s in shape mean unknown dimensions)")
        return None, None, None

    def infer_shape_partial(self, *args: Any, **kwargs: Any) -> tuple[Shapes, Shapes, Shapes]:
        """`infer_shape` as far as it goes: 0 is an unknown dimension, () an unknown shape."""
        graph = Graph(self.entries)
        facts = _shape_facts(graph, args, kwargs)
        return _select(graph, [() if shape is None else shape for shape in facts])

    def infer_type(self, *args: Any, **kwargs: Any
                   ) -> tuple[list, list, list] | tuple[None, None, None]:
        """(types of arguments, of outputs, of auxiliary states) as NumPy scalar types.

        Called like `infer_shape`; (None, None, None) and a warning where some do not follow.
        """
        found = self.infer_type_partial(*args, **kwargs)
        if all(dtype is not None for part in found for dtype in part):
            return found
        _warn("type", [f"{node.name}: None" for node, dtype
                       in zip(Graph(self.entries).arguments, found[0], strict=True)
                       if dtype is None], "")
        return None, None, None

    def infer_type_partial(self, *args: Any, **kwargs: Any) -> tuple[list, list, list]:
        """`infer_type` as far as it goes: None is an unknown type."""
        graph = Graph(self.entries)
        known = _known(graph, "types", args, kwargs, read_dtype)
        facts = infer_type(graph, known, default=None)
        return _select(graph, [None if dtype is None else dtype.type for dtype in facts])


def _shape_facts(graph: Graph, args: Sequence[Any], kwargs: Mapping[str, Any]
                 ) -> list[PartialShape]:
    """The shape of every entry; what the caller says is () is unknown."""
    known = _known(graph, "shapes", args, kwargs, read_shape)
    return infer_shape(graph, {name: shape for name, shape in known.items() if shape})


def _known(graph: Graph, what: str, args: Sequence[Any], kwargs: Mapping[str, Any], read: Any
           ) -> dict[str, Any]:
    """What the caller knows, by variable name."""
    if args and kwargs:
        raise ValueError(f"infer: give known {what} by position or by name, not both")
    arguments = [node.name for node in graph.arguments]
    if len(args) > len(arguments):
        raise MXNetError(f"infer: {len(args)} {what} are given for {len(arguments)} "
                         f"arguments {arguments}")
    if args:
        kwargs = {name: value for name, value in zip(arguments, args, strict=False)
                  if value is not None}
    variables = {node.name for node in graph.variables}
    for name in kwargs:
        if name not in variables:
            raise MXNetError(f"infer: {name!r} is not an argument; the arguments are "
                             f"{arguments[:50]}{did_you_mean(name, variables)}")
    return {name: read(name, value) for name, value in kwargs.items()}


def _select(graph: Graph, facts: list) -> tuple[list, list, list]:
    """The facts of arguments, of outputs and of auxiliary states."""
    def of(nodes: list[Node]) -> list:
        return [facts[graph.output_eids(node)[0]] for node in nodes]

    return of(graph.arguments), [facts[eid] for eid in graph.output_ids], of(graph.states)


def _warn(what: str, unknown: list[str], hint: str) -> None:
    if unknown:
        lines = "".join(f"\n\t{line}" for line in unknown)
        warnings.warn(f"Cannot decide {what} for the following arguments{hint}. Consider "
                      f"providing them as input:{lines}", stacklevel=3)


def read_shape(name: str, shape: Any) -> tuple[int, ...]:
    """A shape given for `name`, negative dimensions as unknown ones; TypeError if it is none."""
    try:
        if isinstance(shape, tuple):
            return tuple(max(operator.index(dim), 0) for dim in shape)
    except TypeError:
        pass
    raise TypeError(f"shape of {name} is {shape!r}, expected a tuple of integers")


def read_dtype(name: str, dtype: Any) -> np.dtype:
    """An element type given for `name`; TypeError if it is none."""
    try:
        return np.dtype(dtype)
    except TypeError:
        raise TypeError(f"type of {name} is {dtype!r}, expected an element type such as 'float32'"
                        ) from None
