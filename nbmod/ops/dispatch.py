"""The table of implementations: how an op is computed, and how its gradient.

An op is declared by its rules (`ops.op`).  What computes it is a row of this table, under a key:

    reference   NumPy: the definition, which needs no compiler and with which tests compare
    numba       a function made for the arrays at hand, mostly a compiled kernel: bound networks
    eager       computes at once, without preparation: calls of `mx.nd`
    cuda        launches of GPU kernels
    sparse      NumPy, of arrays that are stored as csr or by rows; puts new values into the outputs

The methods of an op's class are its first rows: `forward` and `backward` compute at once (eager,
and reference unless another is declared), `prepare` and `prepare_backward` return a function that
computes (numba); each is the default of the other.  `implements` declares a row elsewhere:

    implements(Dropout, "cuda", _forward, scratch=lambda op, ins, outs: [outs[1]])

A row serves the subclasses of its op, too, unless one of them overrides how it is computed.  There
may be several under one key, with names; each says by an `Estimate` whether it applies and what it
costs.  `choose` returns the chosen one and the rejected ones with their reasons: a `Choice`, which
a compiled graph keeps for every node.
Tensors that rows of the CPU do not read as they are stored, such as float16, are converted around
them (`OpTraits.storage`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from importlib import import_module
from importlib.util import find_spec
from math import inf
from typing import Any, NamedTuple, TypeAlias

from ..base import MXNetError
from .op import Backward, Call, Computation, Op, Spec

__all__ = ["CUDA", "EAGER", "NUMBA", "REFERENCE", "SPARSE", "Candidate", "Choice", "Estimate",
           "Implementation", "Prepare", "Specs", "Storage", "Workspace", "at_once", "choose",
           "declare", "find", "implements", "is_declared", "prepare", "rows", "workspace"]

REFERENCE, NUMBA, EAGER, CUDA, SPARSE = "reference", "numba", "eager", "cuda", "sparse"

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


Specs: TypeAlias = Sequence[Spec]


class Estimate(NamedTuple):
    """Whether an implementation applies to inputs and outputs, and what it costs."""

    cost: float | None = None
    """Nanoseconds on one thread; None if nothing is known."""
    why_not: str = ""
    """Why it does not apply; empty if it does."""
    parts: Sequence[Choice] = ()
    """Computations that it consists of, which have implementations of their own."""


def unknown(op: AnyOp, ins: Specs, outs: Specs) -> Estimate:
    """The estimate of an implementation that always applies."""
    return Estimate()


class Implementation(NamedTuple):
    """One way to compute an op, or its gradient: a row of the table."""

    key: str
    source: str
    """Module and name of what computes."""
    prepare: Prepare
    workspace: Workspace
    estimate: Callable[[AnyOp, Specs, Specs], Estimate] = unknown
    """From the op and the specs of inputs and outputs."""
    name: str = ""
    """The name that tells it from others under its key."""


class Candidate(NamedTuple):
    """An implementation and its estimate."""

    row: Implementation
    estimate: Estimate

    def __str__(self) -> str:
        cost, why_not, parts = self.estimate
        known = why_not or ("" if cost is None else f"{cost:,.0f} ns")
        of = " + ".join(str(part.chosen) for part in parts)
        return " ".join(filter(None, [self.row.name or self.row.key, known and f"({known})",
                                      of and f"of {of}"]))


@dataclass(frozen=True, eq=False)
class Choice:
    """The implementation of an op for inputs and outputs, beside those that were rejected."""

    op: Op
    keys: Sequence[str]
    ins: Specs
    outs: Specs
    candidates: Sequence[Candidate]
    """The candidates that were considered."""
    chosen: Candidate | None
    """None if there is no implementation under the keys: the op is a view."""

    @property
    def rejected(self) -> list[Candidate]:
        """The other candidates, then the implementations under keys that come later."""
        others = [each for each in self.candidates if each is not self.chosen]
        if self.chosen is not None:
            key = self.chosen.row.key
            after = Estimate(why_not=f"{key} precedes it")
            others += [Candidate(row, after) for later in self.keys[self.keys.index(key) + 1:]
                       for row in _rows_of(self.op, later)]
        return others

    @property
    def cost(self) -> float:
        """Nanoseconds on one thread of the chosen one; infinity if they are not known."""
        return inf if self.chosen is None else _cost(self.chosen)

    @property
    def name(self) -> str:
        """The name of the chosen one among those under its key."""
        return "" if self.chosen is None else self.chosen.row.name

    @property
    def row(self) -> Implementation:
        """The chosen one; MXNetError if there is none."""
        if self.chosen is None:
            raise MXNetError(f"{self.op.name} has no implementation "
                             f"{' or '.join(map(repr, self.keys))}")
        return self.chosen.row

    @property
    def parts(self) -> Sequence[Choice]:
        """The choices of the computations that the chosen one consists of."""
        return () if self.chosen is None else self.chosen.estimate.parts

    @cached_property
    def workspace(self) -> list[Spec]:
        """The temporary arrays; a view has none."""
        return [] if self.chosen is None else self.chosen.row.workspace(
            _forward(self.op), list(self.ins), list(self.outs))

    def prepare(self, ins: Sequence[DeviceArray], outs: Sequence[DeviceArray], call: Call
                ) -> Prepared:
        """Prepare the op for these arrays; MXNetError if it has no implementation."""
        return self.row.prepare(_forward(self.op), ins, outs, call)


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
_ESTIMATES = "estimate", "backward_estimate"
"""Estimates, which the class that has the method may have."""
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
        specs: list[Spec] = getattr(op, scratch)(ins, outs)
        return specs

    owner = next(base for base in kind.__mro__ if method in vars(base))
    return Implementation(key, f"{owner.__module__}.{owner.__qualname__}.{method}", prepare,
                          workspace, vars(owner).get(_ESTIMATES[is_gradient], unknown))


# -- rows declared elsewhere ----------------------------------------------------------------------

_ROWS: dict[tuple[type[Op], str, bool], dict[str, Implementation]] = {}
"""By op, key and whether it is the gradient: rows by name."""
_FOUND: dict[tuple[type[Op], str, bool], list[Implementation]] = {}
"""Results of `rows`, until one is added."""


def declare(op: type[Op], row: Implementation, is_gradient: bool = False) -> None:
    """Add a row for an op, in place of one of the same key and name."""
    _ROWS.setdefault((op, row.key, is_gradient), {})[row.name] = row
    _FOUND.clear()


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
        Functions of ``(op, ins, outs, call)``. Under "reference" and "sparse" they compute the op
        and its gradient; else they prepare that: they return a function without arguments, or
        launches of a GPU.
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
                if key in (REFERENCE, SPARSE):
                    prepares = partial(partial, prepares)
                declare(op, Implementation(key, source, prepares, needs), is_gradient)


def _check(op: type[Op], key: str, prepares: Prepare) -> None:
    """MXNetError for a function with another signature."""
    try:
        inspect.signature(prepares).bind("op", "ins", "outs", "call")
    except TypeError:
        raise MXNetError(f"{op.__name__}: its implementation {key!r} is {prepares}, expected a "
                         "function of (op, ins, outs, call)") from None


def rows(kind: type[Op], key: str, is_gradient: bool = False) -> Sequence[Implementation]:
    """The implementations of a class of ops, or of its gradient, under a key."""
    known = kind, key, is_gradient
    if known not in _FOUND:
        storage = kind.storage if key not in (CUDA, SPARSE) else ()
        _FOUND[known] = [reduce(lambda inner, convert: convert(inner), reversed(storage), row)
                         for row in _declared(*known) or filter(None, [_of_methods(*known)])]
    return _FOUND[known]


def find(kind: type[Op], key: str, is_gradient: bool = False) -> Implementation | None:
    """The first of `rows`; None if there is none."""
    return next(iter(rows(kind, key, is_gradient)), None)


def _declared(kind: type[Op], key: str, is_gradient: bool) -> Sequence[Implementation]:
    for base in kind.__mro__:
        if issubclass(base, Op):
            _load(base, key)
            if rows := _ROWS.get((base, key, is_gradient)):
                return [*rows.values()]
            if _EXECUTION[is_gradient] & vars(base).keys():
                break   # it overrides the execution of the remaining bases
    return []


def is_declared(kind: type[Op], key: str, is_gradient: bool = False) -> bool:
    """Whether an implementation is declared elsewhere, not by the methods of the class."""
    return bool(_declared(kind, key, is_gradient))


def choose(op: Op, keys: Sequence[str], ins: Specs = (), outs: Specs = ()) -> Choice:
    """The choice among the implementations of an op, for these inputs and outputs.

    It is of the first key under which one applies, and costs least of these: the first of those
    whose costs are not known.  A `Backward` is the gradient of its forward op.
    """
    forward, chosen, candidates = _forward(op), None, list[Candidate]()
    for key in keys:
        group = [Candidate(row, row.estimate(forward, ins, outs)) for row in _rows_of(op, key)]
        candidates += group
        applying = [each for each in group if not each.estimate.why_not]
        if applying:
            chosen = min(applying, key=_cost)
            break
    return Choice(op, keys, ins, outs, candidates, chosen)


def _forward(op: Op) -> Op:
    return op.fwd if isinstance(op, Backward) else op


def _rows_of(op: Op, key: str) -> Sequence[Implementation]:
    forward = _forward(op)
    return rows(type(forward), key, forward is not op)


def _cost(candidate: Candidate) -> float:
    cost = candidate.estimate.cost
    return inf if cost is None else cost


def workspace(op: Op, keys: Sequence[str], ins: Specs, outs: Specs) -> list[Spec]:
    """The temporary arrays of the implementation of an op; a view has none."""
    row = _only(op, keys)
    return choose(op, keys, ins, outs).workspace if row is None else row.workspace(
        _forward(op), list(ins), list(outs))


def _only(op: Op, keys: Sequence[str]) -> Implementation | None:
    """The implementation that needs no choice, as in eager calls: one that always applies, alone
    under the first key that has any."""
    rows = next(filter(None, (_rows_of(op, key) for key in keys)), ())
    return rows[0] if len(rows) == 1 and rows[0].estimate is unknown else None


def prepare(op: Op, keys: Sequence[str], ins: Sequence[DeviceArray], outs: Sequence[DeviceArray],
            call: Call) -> Prepared:
    """Prepare an op for these arrays; MXNetError if it has no implementation."""
    row = _only(op, keys)
    return choose(op, keys, ins, outs).prepare(ins, outs, call) if row is None else row.prepare(
        _forward(op), ins, outs, call)


def at_once(op: Op, keys: Sequence[str], ins: Specs, outs: Sequence[Spec | None]) -> Computation:
    """A function that prepares an op of one form for arrays of these specs, and runs it."""
    prepare = choose(op, keys, ins, outs).row.prepare  # type: ignore[arg-type]  # no row reads what is not wanted
    return lambda op, ins, outs, call: prepare(_forward(op), ins, outs, call)()


def _load(kind: type[Op], key: str) -> None:
    """Import what declares rows of a class: the module of `ops.<key>` with the relative path of
    the class's own, its `numba_module` and its `gpu_module`."""
    if key == NUMBA and vars(kind).get("numba_module"):
        import_module(kind.numba_module)
    if key == REFERENCE:
        import_module(".numpy_forms", __package__).load(kind.__module__)
    if key == SPARSE:
        for module in ("forms", "row_gradients"):
            import_module(f".sparse.{module}", __package__).declare()
    if key == CUDA and vars(kind).get("gpu_module"):
        import_module(kind.gpu_module)
    if key != CUDA or not kind.__module__.startswith(f"{__package__}."):
        return
    package, _, _ = name = kind.__module__.replace(__package__, f"{__package__}.{key}", 1
                                                   ).rpartition(".")
    if find_spec(package) is not None and find_spec("".join(name)) is not None:
        import_module("".join(name))
