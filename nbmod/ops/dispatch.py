"""The table of implementations: how an op is computed, and how its gradient.

An op is declared by its rules (`ops.op`).  What computes it is a row of this table, under a key:

    reference   NumPy: the definition, which needs no compiler and with which tests compare
    numba       a function made for the arrays at hand, mostly a compiled kernel: bound networks
    eager       computes at once, without preparation: calls of `mx.nd`
    cuda        launches of GPU kernels

The methods of an op's class are its first rows: `forward` and `backward` compute at once (eager,
and reference unless another is declared), `prepare` and `prepare_backward` return a function that
computes (numba); each is the default of the other.  `implements` declares a row elsewhere:

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

__all__ = ["CUDA", "EAGER", "NUMBA", "REFERENCE", "Implementation", "Prepare", "Storage",
           "Workspace", "choose", "find", "implements", "is_declared", "prepare",
           "workspace"]

REFERENCE, NUMBA, EAGER, CUDA = "reference", "numba", "eager", "cuda"

DeviceArray: TypeAlias = Any
"""An array that only its device knows.  Any: NumPy's, or a GPU's."""
Prepared: TypeAlias = Any
"""Work for a device.  Any: a function without arguments, or the launches of a GPU."""
AnyOp: TypeAlias = Any
"""An op with parameters that its implementation reads.  Any: each has its own."""

Prepare = Callable[[AnyOp, Sequence[DeviceArray], Sequence[DeviceArray], Call], Prepared]
"""From the op, inputs, outputs and the call to what runs."""
Workspace = Callable[[AnyOp, list[Spec], list[Spec]], list[Spec]]
"""From the op and the specs of inputs and outputs to those of temporary arrays."""


class Implementation(NamedTuple):
    """One way to compute an op, or its gradient: a row of the table."""

    key: str
    source: str
    """Module and name of what computes."""
    prepare: Prepare
    workspace: Workspace


Storage = Callable[[Implementation], Implementation]
"""From an implementation to one that converts tensors around it."""


def nothing(op: AnyOp, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    """No workspace."""
    return []


# -- methods of the class -------------------------------------------------------------------------

_AT_ONCE, _PREPARED = ("forward", "backward"), ("prepare", "prepare_backward")
_METHODS = {REFERENCE: _AT_ONCE, EAGER: _AT_ONCE, NUMBA: _PREPARED}
"""Methods that compute an op and its gradient."""
_SCRATCH = "scratch", "backward_scratch"
_EXECUTION = {False: {"forward", "prepare", "reduce"},
              True: {"backward", "prepare_backward", "spread"}}
"""Methods by which a class overrides the rows of its bases."""


def _of_methods(kind: type[Op], key: str, is_gradient: bool) -> Implementation | None:
    """The row of a class's own methods; None if it has the defaults of `Op`."""
    if key not in _METHODS:
        return None
    method, scratch = _METHODS[key][is_gradient], _SCRATCH[is_gradient]
    if getattr(kind, method) is getattr(Op, method):
        return None

    def prepare(op: AnyOp, ins: Sequence[DeviceArray], outs: Sequence[DeviceArray], call: Call
                ) -> Prepared:
        compute = getattr(op, method)
        return partial(compute, ins, outs, call) if method in _AT_ONCE else compute(
            ins, outs, call)

    def workspace(op: AnyOp, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        found: list[Spec] = getattr(op, scratch)(ins, outs)
        return found

    owner = next(base for base in kind.__mro__ if method in vars(base))
    return Implementation(key, f"{owner.__module__}.{owner.__qualname__}.{method}", prepare,
                          workspace)


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
        Functions of ``(op, ins, outs, call)``. Under "reference" they compute the op and its
        gradient; else they prepare that: they return a function without arguments, or launches of
        a GPU.
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
                source = f"{prepares.__module__}.{prepares.__qualname__}"
                if key == REFERENCE:
                    prepares = partial(partial, prepares)
                _ROWS[op, key, is_gradient] = Implementation(key, source, prepares, needs)
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
        row = _declared(*known) or _of_methods(*known)
        _FOUND[known] = row and reduce(lambda inner, storage: storage(inner),
                                       reversed(kind.storage if key != CUDA else ()), row)
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


def is_declared(kind: type[Op], key: str, is_gradient: bool = False) -> bool:
    """Whether an implementation is declared elsewhere, not by the methods of the class."""
    return _declared(kind, key, is_gradient) is not None


def choose(op: Op, keys: Sequence[str]) -> Implementation | None:
    """The implementation of an op, under the first of some keys that it has one for; a `Backward`
    is the gradient of its forward op."""
    is_gradient = isinstance(op, Backward)
    kind = type(op.fwd) if isinstance(op, Backward) else type(op)
    return next(filter(None, (find(kind, key, is_gradient) for key in keys)), None)


def workspace(op: Op, keys: Sequence[str], ins: Sequence[Spec], outs: Sequence[Spec]
              ) -> list[Spec]:
    """The temporary arrays of the implementation of an op; a view has none."""
    row = choose(op, keys)
    return [] if row is None else row.workspace(getattr(op, "fwd", op), list(ins), list(outs))


def prepare(op: Op, keys: Sequence[str], ins: Sequence[DeviceArray], outs: Sequence[DeviceArray],
            call: Call) -> Prepared:
    """Prepare an op for these arrays; MXNetError if it has no implementation."""
    row = choose(op, keys)
    if row is None:
        raise MXNetError(f"{op.name} has no implementation {' or '.join(map(repr, keys))}")
    return row.prepare(getattr(op, "fwd", op), ins, outs, call)


def _load(kind: type[Op], key: str) -> None:
    """Import what declares rows of a class: the module of `ops.<key>` with the relative path of
    the class's own, and its `gpu_module`."""
    if key == REFERENCE:
        import_module(".numpy_forms", __package__).load(kind.__module__)
    if key == CUDA and vars(kind).get("gpu_module"):
        import_module(kind.gpu_module)
    if key != CUDA or not kind.__module__.startswith(f"{__package__}."):
        return
    package, _, _ = name = kind.__module__.replace(__package__, f"{__package__}.{key}", 1
                                                   ).rpartition(".")
    if find_spec(package) is not None and find_spec("".join(name)) is not None:
        import_module("".join(name))
