"""Every pass that is an optimization can be switched off by name.

A network computes the same without them, more slowly or in more memory.  So when two results
disagree, binding once without each pass names the one that is at fault:

    NBMOD_DISABLE_PASSES=cse,fuse_elementwise python script.py
    with mx.without_passes("inplace"): executor = symbol.simple_bind(...)

`run_pass` runs one that rewrites graphs, unless it is switched off; the memory planner is asked
for less by leaving out what a step allows (`memory.plan_step.SHARING`).  Observers see the graphs
that each pass got and made (`PassChange`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Concatenate, NamedTuple, ParamSpec, TypeAlias, cast

from ..base import ArgumentError, did_you_mean
from ..core.config import CONFIG
from ..core.scope import scoped
from ..graph import Node
from ..ops.op import Spec
from .infer import Inferred, specs_of
from .remarks import in_pass
from .rewrite import Rewritten

__all__ = ["PASSES", "PassChange", "PassObserver", "disabled_passes", "is_enabled", "observed",
           "observers", "run_pass", "unobserved", "without_passes"]

PASSES: dict[str, str] = {
    "skip_identities": "read what a node passes on unchanged instead of its output",
    "cse": "common subexpression elimination",
    "fold_shape_reads": "what reads shapes alone becomes a constant",
    "fuse_int8": "quantized layers with their requantization as one step",
    "fold_batch_norm": "batch norm becomes part of the weights of the layer before it",
    "reroll_rnn": "unrolled recurrent cells become layers",
    "blocked_layout": "convolutions and their neighbours work on blocks of channels",
    "fuse_epilogue": "layers add and apply ReLU themselves",
    "fuse_depthwise": "depthwise convolutions run together with their neighbours",
    "tile_batch": "convolution and pooling run on some images at a time",
    "hoist_constants": "compute what follows from constants or parameters once",
    "write_gradients": "gradients are computed in the user's arrays",
    "fuse_elementwise": "chains of elementwise nodes become one kernel",
    "view": "reshaped tensors share memory with their source",
    "inplace": "an output overwrites an input that nothing else reads",
    "accumulate": "a gradient is added to another one where it is computed",
    "alias_concat": "tensors are written where they are joined",
    "alias_slice": "slices are read where they are",
    "reuse_memory": "memory of a tensor that is no longer needed is used again",
    "dense_regions": "dense parts of networks with sparse arrays are planned and fused",
}
"""Names of the functions that are passes, and what they do, in the order in which they run."""

P = ParamSpec("P")


class PassChange(NamedTuple):
    """The graphs before and after a pass, which has changed something."""

    name: str
    before: Inferred
    after: Inferred
    hoisted: Sequence[Sequence[Node]] | None = None
    """In a graph without gradients, groups of nodes that need not run every time."""
    facts: Callable[[list[Spec]], list[Spec]] | None = None
    """The specs of the second graph from those of the first, where they do not follow from those
    of variables."""

    @classmethod
    def of_forward(cls, name: str, before: Rewritten, after: Rewritten) -> PassChange:
        """The change of a graph without gradients; the specs of new entries may be None."""
        first, second = (Inferred(each.graph, cast("list[Spec]", specs_of(each.graph, each.specs)))
                         for each in (before, after))
        return cls(name, first, second, after.groups)


PassObserver: TypeAlias = Callable[[PassChange], None]

_disabled: ContextVar[frozenset[str]] = ContextVar("disabled", default=frozenset())
_observers: ContextVar[tuple[PassObserver, ...]] = ContextVar("observers", default=())


@contextmanager
def without_passes(*names: str) -> Iterator[None]:
    """A block in which networks are bound without the passes of these names.

    Parameters
    ----------
    *names : str
        Keys of `PASSES`.

    Raises
    ------
    ArgumentError
        For a name that is not one of them.

    Examples
    --------
    >>> with mx.without_passes("fuse_elementwise", "cse"):
    ...     executor = mx.sym.relu(mx.sym.Variable("x")).simple_bind(mx.cpu(), x=(2, 3))
    """
    _require_known(names, "without_passes")
    with scoped(_disabled, _disabled.get() | frozenset(names)):
        yield


def is_enabled(name: str) -> bool:
    """Whether networks that are bound now go through the pass of this name."""
    _require_known(CONFIG.disabled_passes, "NBMOD_DISABLE_PASSES")
    if name == "fuse_elementwise" and not CONFIG.fusion:
        return False
    return name not in CONFIG.disabled_passes and name not in _disabled.get()


def disabled_passes() -> frozenset[str]:
    """The passes that networks which are bound now do not go through."""
    return frozenset(name for name in PASSES if not is_enabled(name))


def run_pass(function: Callable[Concatenate[Rewritten, P], Rewritten], before: Rewritten,
             *args: P.args, **kwargs: P.kwargs) -> Rewritten:
    """`function(before, ...)`, or `before` where the pass of its name is switched off."""
    name = function.__name__
    if not is_enabled(name):
        return before
    with in_pass(name):
        after = function(before, *args, **kwargs)
    if observers() and after is not before:
        change = PassChange.of_forward(name, before, after)
        for observer in observers():
            observer(change)
    return after


def observed(*new: PassObserver) -> AbstractContextManager[None]:
    """A block in which these observers see every pass, after those of the blocks around it."""
    return scoped(_observers, (*observers(), *new))


def unobserved() -> AbstractContextManager[None]:
    """A block whose passes no observer sees: they are only tried."""
    return scoped(_observers, ())


def observers() -> tuple[PassObserver, ...]:
    """The observers of the passes that run now."""
    return _observers.get()


def _require_known(names: Iterable[str], where: str) -> None:
    for name in names:
        if name not in PASSES:
            raise ArgumentError(f"{where}: there is no pass {name!r}{did_you_mean(name, PASSES)}; "
                                f"the passes are {', '.join(PASSES)}")
