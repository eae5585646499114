"""Remarks: what a pass did to a node or would not do, and the rule that decided, as data.

    with recording() as remarks:
        executor = symbol.simple_bind(mx.cpu(), data=(1, 3))

Compilers call them optimization remarks.  A pass that meets its pattern and leaves it says why
(`refused`), with the facts that the rule looked at: which nodes read a result, which shapes
differ.  One that changes a node says that (`done`).  A node that has no remark of a pass is not of
the kind that the pass looks for.

What decides in a pass returns an `obstacle` where a condition does not hold, so that the decision
and its reason are one statement; `rewrite` records the obstacles that its rules return.

Nothing is recorded outside of a `recording` block: then all functions return at once.

Assumes: nothing; remarks change no decision.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from pathlib import PurePath
from typing import Literal, NamedTuple, TypeAlias

from ..core.scope import scoped
from ..graph import Entry, Node

__all__ = ["EntryId", "Evidence", "Obstacle", "Remark", "StepNumber", "current_pass", "done",
           "in_pass", "is_recording", "obstacle", "record", "recording", "refused", "where_is",
           "withheld"]


class EntryId(int):
    """An entry of the final graph, in remarks of the memory planner."""


class StepNumber(int):
    """A step of the final graph, in remarks of the memory planner."""


Evidence: TypeAlias = "str | int | float | bool | Node | Entry | Sequence[Evidence] | None"
"""A fact that a rule looked at; nodes and entries are shown by their names."""


PACKAGE = PurePath(__file__).parents[1]


class Remark(NamedTuple):
    """A decision of a pass about a node or an entry."""

    pass_name: str
    """A key of `switches.PASSES`, or a part of bind, such as "mirror"."""
    subject: Node | int
    """A node of the graph before the pass, or of the first graph; for the memory planner an entry
    of the final graph."""
    verdict: Literal["done", "refused"]
    rule: str
    """The change, or the condition that does not hold, in a few words that do not depend on the
    network: "one reader"."""
    evidence: Mapping[str, Evidence]
    """The facts, by name: {"readers": [Node, Node]}."""
    where: str
    """File, in the package, and line of the rule: "passes/optimize/fuse_epilogue.py:57"."""


class Obstacle(NamedTuple):
    """A condition of a pass that does not hold, as a remark says it: why a node stays as it is."""

    rule: str
    evidence: Mapping[str, Evidence]
    where: str


_UNRECORDED = Obstacle("", {}, "")

_recorded: ContextVar[list[Remark] | None] = ContextVar("recorded", default=None)
_pass_name: ContextVar[str] = ContextVar("pass_name", default="")


@contextmanager
def recording() -> Iterator[list[Remark]]:
    """A block in which passes record their remarks in the list that it gives."""
    remarks: list[Remark] = []
    with scoped(_recorded, remarks):
        yield remarks


@contextmanager
def withheld() -> Iterator[list[Remark]]:
    """A block whose remarks are those of a trial: they are in the list that it gives, and are
    recorded by `record` where the trial counts."""
    if is_recording():
        with recording() as remarks:
            yield remarks
    else:
        yield []


def is_recording() -> bool:
    """Whether remarks are recorded now."""
    return _recorded.get() is not None


def in_pass(name: str) -> AbstractContextManager[None]:
    """A block in which `rewrite` records remarks of this pass."""
    return scoped(_pass_name, name)


def current_pass() -> str:
    """The name of the pass that runs."""
    return _pass_name.get()


def obstacle(rule: str, **evidence: Evidence | Callable[[], Evidence]) -> Obstacle:
    """The reason why a pass leaves what matches its pattern.

    Parameters
    ----------
    rule : str
        The condition that does not hold.
    **evidence
        The facts that show it; one that takes work is a function, which is called only while
        remarks are recorded.
    """
    if _recorded.get() is None:
        return _UNRECORDED
    facts = {name: fact() if callable(fact) else fact for name, fact in evidence.items()}
    return Obstacle(rule, facts, _caller())


def refused(pass_name: str, subject: Node | int, why: Obstacle) -> None:
    """Record that a pass met its pattern at `subject` and left it.

    Parameters
    ----------
    pass_name : str
        A key of `switches.PASSES`.
    subject : Node or int
        The node, or the entry, that would have changed: the one a user asks about.
    why : Obstacle
        The condition that does not hold.
    """
    if is_recording():
        record(Remark(pass_name, subject, "refused", *why))


def done(pass_name: str, subject: Node | int, rule: str, **evidence: Evidence) -> None:
    """Record that a pass changed `subject`, as `rule` says; `into` is the node that stands for it
    now, and `joined` are others that are part of that."""
    if is_recording():
        record(Remark(pass_name, subject, "done", rule, evidence, _caller()))


def record(*remarks: Remark) -> None:
    """Add remarks to those that are recorded, if any are."""
    recorded = _recorded.get()
    if recorded is not None:
        recorded += remarks


def _caller() -> str:
    """The line that called the caller of this."""
    frame = sys._getframe(2)
    return where_is(frame.f_code.co_filename, frame.f_lineno)


def where_is(file: str, line: int) -> str:
    """A line of the package, as remarks say it; of other files the name."""
    path = PurePath(file)
    shown = path.relative_to(PACKAGE) if path.is_relative_to(PACKAGE) else PurePath(path.name)
    return f"{shown.as_posix()}:{line}"
