"""The table of implementations: how an op is computed, and how its gradient.

An op is declared by its rules (`ops.op`).  What computes it is a row of this table, under a key:

    reference   NumPy: the definition; eager calls, first answers and tests use it
    numba       a function made for the arrays at hand, mostly a compiled kernel: bound networks
    cuda        launches of GPU kernels

The methods of an op's class are its first two rows: `forward` and `backward` compute at once
(reference), `prepare` and `prepare_backward` return a function that computes (numba); each is the
default of the other.  `implements` declares a row elsewhere:

    implements(Dropout, "cuda", _forward, scratch=lambda op, ins, outs: [outs[1]])

A row serves the subclasses of its op, too, unless one of them overrides how it is computed.
Tensors that rows of the CPU do not read as they are stored, such as float16, are converted around
them (`OpTraits.storage`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial, reduce
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple, TypeAlias

from ..base import MXNetError
from .op import Backward, Call, Op, Spec

__all__ = ["CUDA", "NUMBA", "REFERENCE", "Implementation", "Prepare", "Storage", "Workspace",
           "find", "implementation_of", "implements", "prepare", "workspace"]

REFERENCE, NUMBA, CUDA = "reference", "numba", "cuda"

DeviceArray: TypeAlias = Any
"""An array that only its device knows.  Any: NumPy's, or a GPU's."""
Prepared: TypeAlias = Any
"""What a device runs.  Any: a function without arguments, or the launches of a GPU."""
AnyOp: TypeAlias = Any
"""An op with parameters that its implementation reads.  Any: each has its own."""

Prepare = Callable[[AnyOp, Sequence[DeviceArray], Sequence[DeviceArray], Call], Prepared]
"""From the op, inputs, outputs and the call to what runs."""
Workspace = Callable[[AnyOp, list[Spec], list[Spec]], list[Spec]]
"""From the op and the specs of inputs and outputs to those of temporary arrays."""


class Implementation(NamedTuple):
    """One way to compute an op, or its gradient: a row of the table."""

    key: str
    prepare: Prepare
    workspace: Workspace


Storage = Callable[[Implementation], Implementation]
"""From an implementation to one that converts tensors around it."""


def nothing(op: AnyOp, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    """No workspace."""
    return []


# -- methods of the class -------------------------------------------------------------------------

_METHODS = {
    (REFERENCE, False): Implementation(
        REFERENCE, lambda op, ins, outs, call: partial(op.forward, ins, outs, call),
        lambda op, ins, outs: op.scratch(ins, outs)),
    (REFERENCE, True): Implementation(
        REFERENCE, lambda op, ins, outs, call: partial(op.backward, ins, outs, call),
        lambda op, ins, outs: op.backward_scratch(ins, outs)),
    (NUMBA, False): Implementation(
        NUMBA, lambda op, ins, outs, call: op.prepare(ins, outs, call),
        lambda op, ins, outs: op.scratch(ins, outs)),
    (NUMBA, True): Implementation(
        NUMBA, lambda op, ins, outs, call: op.prepare_backward(ins, outs, call),
        lambda op, ins, outs: op.backward_scratch(ins, outs))}
_EXECUTION = {False: {"forward", "prepare", "reduce"},
              True: {"backward", "prepare_backward", "spread"}}
"""Methods by which a class overrides the rows of its bases."""

# -- rows declared elsewhere ----------------------------------------------------------------------

_ROWS: dict[tuple[type[Op], str, bool], Implementation] = {}
_FOUND: dict[tuple[type[Op], str, bool], Implementation | None] = {}
"""Results of `find`, until a row is added."""


def implements(ops: type[Op] | tuple[type[Op], ...], key: str, forward: Prepare | None = None,
               backward: Prepare | None = None, scratch: Workspace = nothing,
               backward_scratch: Workspace = nothing) -> None:
    """Declare an implementation of one or several ops.

    Parameters
    ----------
    ops : class or tuple of classes
        The ops; subclasses that do not override how they are computed follow.
    key : str
        What computes: see the table above.
    forward, backward : callable, optional
        Functions of ``(op, ins, outs, call)`` that prepare the op and its gradient: they return a
        function without arguments, or launches of a GPU.
    scratch, backward_scratch : callable, optional
        Functions of ``(op, ins, outs)``, specs, that return those of temporary arrays.

    Raises
    ------
    MXNetError
        If a function has another signature.

    Examples
    --------
    >>> from nbmod.ops.dispatch import find, implements
    >>> from nbmod.ops.op import Op
    >>> class Nothing(Op):
    ...     pass
    >>> implements(Nothing, "numba", lambda op, ins, outs, call: lambda: None)
    >>> find(Nothing, "numba").key
    'numba'
    """
    for op in ops if isinstance(ops, tuple) else (ops,):
        for is_gradient, prepares, needs in ((False, forward, scratch),
                                             (True, backward, backward_scratch)):
            if prepares is not None:
                _check(op, key, prepares)
                _ROWS[op, key, is_gradient] = Implementation(key, prepares, needs)
    _FOUND.clear()


def _check(op: type[Op], key: str, prepares: Prepare) -> None:
    """MXNetError for a function with another signature."""
    try:
        inspect.signature(prepares).bind("op", "ins", "outs", "call")
    except TypeError:
        raise MXNetError(f"{op.__name__}: its implementation {key!r} is {prepares}, expected a "
                         "function of (op, ins, outs, call)") from None


def find(kind: type[Op], key: str, is_gradient: bool = False) -> Implementation | None:
    """The implementation of a class of ops, or of its gradient, under a key; None if there is
    none."""
    known = kind, key, is_gradient
    if known not in _FOUND:
        _FOUND[known] = _declared(*known) or _of_methods(*known)
    return _FOUND[known]


def _declared(kind: type[Op], key: str, is_gradient: bool) -> Implementation | None:
    for base in kind.__mro__:
        if issubclass(base, Op):
            _load(base, key)
            if row := _ROWS.get((base, key, is_gradient)):
                return row
            if _EXECUTION[is_gradient] & vars(base).keys():
                break   # it overrides the execution of the remaining bases
    return None


def _of_methods(kind: type[Op], key: str, is_gradient: bool) -> Implementation | None:
    row = _METHODS.get((key, is_gradient))
    return None if row is None else reduce(lambda inner, storage: storage(inner),
                                           reversed(kind.storage), row)


def implementation_of(op: Op, key: str) -> Implementation | None:
    """`find` of an op; a `Backward` is the gradient of its forward op."""
    if isinstance(op, Backward):
        return find(type(op.fwd), key, True)
    return find(type(op), key)


def workspace(op: Op, key: str, ins: Sequence[Spec], outs: Sequence[Spec]) -> list[Spec]:
    """The temporary arrays of an op; none for one that has no such implementation."""
    row = implementation_of(op, key)
    return [] if row is None else row.workspace(getattr(op, "fwd", op), list(ins), list(outs))


def prepare(op: Op, key: str, ins: Sequence[DeviceArray], outs: Sequence[DeviceArray], call: Call
            ) -> Prepared:
    """What runs an op on these arrays; MXNetError if it has no such implementation."""
    row = implementation_of(op, key)
    if row is None:
        raise MXNetError(f"{op.name} has no implementation {key!r}")
    return row.prepare(getattr(op, "fwd", op), ins, outs, call)


def _load(kind: type[Op], key: str) -> None:
    """Import what declares rows of a class: the module of `ops.<key>` with the relative path of
    the class's own, and its `gpu_module`."""
    if key == CUDA and vars(kind).get("gpu_module"):
        import_module(kind.gpu_module)
    if key != CUDA or not kind.__module__.startswith(f"{__package__}."):
        return
    package, _, _ = name = kind.__module__.replace(__package__, f"{__package__}.{key}", 1
                                                   ).rpartition(".")
    if find_spec(package) is not None and find_spec("".join(name)) is not None:
        import_module("".join(name))
