"""Inference of shapes and types of a symbol's arguments, outputs and auxiliary states.

Known shapes and types are given by name or in the order of `list_arguments`; the others are found
by the inference pass.  In arguments and results, 0 is an unknown dimension, () an unknown shape and
None an unknown type.  Where `mx.np_shape` is active, -1 is an unknown dimension, () the shape of a
scalar and None an unknown shape.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from ..base import DType, MXNetError, did_you_mean, element_type
from ..context import Context
from ..core.shape_semantics import is_np_shape
from ..graph import Entry, Graph, Node
from ..ops.shape import PartialShape
from ..passes.infer import infer_shape, infer_type

__all__ = ["Inference"]

Shapes = list[tuple[int, ...]]
Types: TypeAlias = "list[type[np.generic[object]]]"
PartialTypes: TypeAlias = "list[type[np.generic[object]] | None]"
T = TypeVar("T")
Given = TypeVar("Given")


class Inference:
    """The inference methods of `Symbol`."""

    __slots__ = ()

    entries: list[Entry]

    def infer_shape(self, *args: tuple[int, ...] | None, **kwargs: tuple[int, ...]
                    ) -> tuple[Shapes, Shapes, Shapes] | tuple[None, None, None]:
        """Infer the shapes of arguments, outputs and auxiliary states from those that are known.

        Parameters
        ----------
        *args : tuple of int or None
            Shapes of arguments in the order of `list_arguments()`; None for unknown.
        **kwargs : tuple of int
            Shapes of variables by name; not both.

        Returns
        -------
        arg_shapes, out_shapes, aux_shapes : list of tuple
            The shapes; (None, None, None), with a warning that lists the unknown ones, if the
            inference is incomplete.

        Raises
        ------
        MXNetError
            If shapes contradict each other, with the name of the node.

        Examples
        --------
        >>> net = mx.sym.Convolution(mx.sym.Variable("x"), kernel=(3, 3), num_filter=8, name="conv")
        >>> net.infer_shape(x=(1, 3, 10, 10))
        ([(1, 3, 10, 10), (8, 3, 3, 3), (8,)], [(1, 8, 8, 8)], [])
        """
        graph = Graph(self.entries)
        shapes = _select(graph, _shape_facts(graph, args, kwargs))
        unknown = -1 if is_np_shape() else 0

        def is_known(shape: PartialShape) -> bool:
            return shape is not None and unknown not in shape

        if all(is_known(shape) for part in shapes for shape in part):
            return shapes  # type: ignore[return-value]  # no None among them
        _warn("shape", [f"{node.name}: {_shown(shape)}" for node, shape
                        in zip(graph.arguments, shapes[0], strict=True) if not is_known(shape)],
              " (0s in shape mean unknown dimensions)")
        return None, None, None

    def infer_shape_partial(self, *args: tuple[int, ...] | None, **kwargs: tuple[int, ...]
                            ) -> tuple[Shapes, Shapes, Shapes]:
        """Infer shapes as `infer_shape` does, also incompletely.

        Parameters
        ----------
        *args, **kwargs
            As for `infer_shape`.

        Returns
        -------
        arg_shapes, out_shapes, aux_shapes : list of tuple
            The shapes, with 0 for an unknown dimension and () for an unknown shape.

        Examples
        --------
        >>> net = mx.sym.FullyConnected(mx.sym.Variable("x"), num_hidden=4, name="fc")
        >>> net.infer_shape_partial(x=(0, 3))[0]
        [(0, 3), (4, 3), (4,)]
        """
        graph = Graph(self.entries)
        facts = _shape_facts(graph, args, kwargs)
        # As many lists as `infer_shape` has results.
        return _select(graph, [_shown(shape) for shape in facts])  # type: ignore[misc]

    def infer_type(self, *args: DTypeLike | None, **kwargs: DTypeLike
                   ) -> tuple[Types, Types, Types] | tuple[None, None, None]:
        """Infer the element types of arguments, outputs and auxiliary states.

        Parameters
        ----------
        *args : dtype or None
            Types of arguments in the order of `list_arguments()`; None for unknown.
        **kwargs : dtype
            Types of variables by name; not both.

        Returns
        -------
        arg_types, out_types, aux_types : list of type
            NumPy scalar types; (None, None, None), with a warning that lists the unknown ones, if
            the inference is incomplete.

        Examples
        --------
        >>> x, y = mx.sym.Variable("x"), mx.sym.Variable("y")
        >>> [kind.__name__ for kind in (x + y).infer_type(x="float16")[0]]
        ['float16', 'float16']
        """
        types = self.infer_type_partial(*args, **kwargs)
        if all(dtype is not None for part in types for dtype in part):
            return types  # type: ignore[return-value]  # no None among them
        _warn("type", [f"{node.name}: None" for node, dtype
                       in zip(Graph(self.entries).arguments, types[0], strict=True)
                       if dtype is None], "")
        return None, None, None

    def infer_type_partial(self, *args: DTypeLike | None, **kwargs: DTypeLike
                           ) -> tuple[PartialTypes, PartialTypes, PartialTypes]:
        """Infer types as `infer_type` does, also incompletely.

        Parameters
        ----------
        *args, **kwargs
            As for `infer_type`.

        Returns
        -------
        arg_types, out_types, aux_types : list of type
            NumPy scalar types, None for unknown ones.
        """
        graph = Graph(self.entries)
        known = _known(graph, "types", args, kwargs, read_dtype)
        facts = infer_type(graph, known, default=None)
        return _select(graph, [None if dtype is None else dtype.type for dtype in facts])


def _shape_facts(graph: Graph, args: Sequence[PartialShape],
                 kwargs: Mapping[str, tuple[int, ...]]) -> list[PartialShape]:
    """The shape of every entry; a given shape () is unknown, unless shapes are NumPy's."""
    known = _known(graph, "shapes", args, kwargs, read_shape)
    if is_np_shape():
        return infer_shape(graph, known, lengths=True)
    return infer_shape(graph, {name: shape for name, shape in known.items() if shape})


def _shown(shape: PartialShape) -> PartialShape:
    """A shape as users see it."""
    return shape if is_np_shape() else shape or ()


def _known(graph: Graph, what: str, args: Sequence[Given | None], kwargs: Mapping[str, Given],
           read: Callable[[str, Given], T]) -> dict[str, T]:
    """The given shapes or types by variable name."""
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


def _select(graph: Graph, facts: Sequence[T]) -> tuple[list[T], list[T], list[T]]:
    """The facts of arguments, outputs and auxiliary states."""
    def of(nodes: list[Node]) -> list[T]:
        return [facts[graph.output_eids(node)[0]] for node in nodes]

    return of(graph.arguments), [facts[eid] for eid in graph.output_ids], of(graph.states)


def _warn(what: str, unknown: list[str], hint: str) -> None:
    if unknown:
        lines = "".join(f"\n\t{line}" for line in unknown)
        warnings.warn(f"Cannot decide {what} for the following arguments{hint}. Consider "
                      f"providing them as input:{lines}", stacklevel=3)


def read_shape(name: str, shape: object) -> tuple[int, ...]:
    """Return a shape given by a user, with 0 for dimensions that are not known.

    Where `mx.np_shape` is active, -1 is an unknown dimension, and 0 a length.

    Parameters
    ----------
    name : str
        Name of the variable, for the error.
    shape : tuple of int
        Argument of the user.

    Raises
    ------
    TypeError
        If it is not a tuple of integers.
    """
    try:
        if isinstance(shape, tuple):
            least = -1 if is_np_shape() else 0
            return tuple([max(operator.index(dim), least) for dim in shape])
    except TypeError:
        pass
    raise TypeError(f"shape of {name} is {shape!r}, expected a tuple of integers")


def read_dtype(name: str, dtype: DTypeLike) -> DType:
    """Return an element type given by a user.

    Parameters
    ----------
    name : str
        Name of the variable, for the error.
    dtype : dtype
        Argument of the user.

    Raises
    ------
    TypeError
        If it is not an element type.
    """
    try:
        return element_type(dtype)
    except TypeError:
        raise TypeError(f"type of {name} is {dtype!r}, expected an element type such as 'float32'"
                        ) from None


def read_context(ctx: object, what: str = "ctx") -> Context:
    """Return a context; TypeError for anything else.

    Parameters
    ----------
    ctx : object
        The argument.
    what : str, default 'ctx'
        Its name, for the error.
    """
    if not isinstance(ctx, Context):
        raise TypeError(f"bind: {what} is a {type(ctx).__name__}, expected a Context such as cpu()")
    return ctx


def read_groups(group2ctx: Mapping[str, Context] | None) -> dict[str, Context]:
    """Return contexts by `ctx_group`.

    Parameters
    ----------
    group2ctx : dict of str to Context or None
        The argument.
    """
    if group2ctx is None:
        return {}
    if not isinstance(group2ctx, Mapping):
        raise TypeError(f"bind: group2ctx is a {type(group2ctx).__name__}, expected a dict of "
                        "contexts by ctx_group")
    return {name: read_context(ctx, f"group2ctx[{name!r}]") for name, ctx in group2ctx.items()}
