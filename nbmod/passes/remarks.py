"""Remarks: what a pass did to a node or would not do, and the rule that decided, as data.

    with recording() as remarks:
        executor = symbol.simple_bind(mx.cpu(), data=(1, 3))

Compilers call them optimization remarks.  A pass that meets its pattern and leaves it says why
(`refused`), with the facts that the rule looked at: which nodes read a result, which shapes
differ.  One that changes a node says that (`done`).  A node that has no remark of a pass is not of
the kind that the pass looks for.

Nothing is recorded outside of a `recording` block: then both functions return at once.  Where the
evidence takes work, ask `is_recording` first.

Assumes: nothing; remarks change no decision.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import PurePath
from typing import Literal, NamedTuple, TypeAlias

from ..graph import Entry, Node

__all__ = ["Evidence", "Remark", "done", "is_recording", "recording", "refused"]

Evidence: TypeAlias = "str | int | float | bool | Node | Entry | Sequence[Evidence] | None"
"""A fact that a rule looked at; nodes and entries are shown by their names."""


PACKAGE = PurePath(__file__).parents[1]


class Remark(NamedTuple):
    """A decision of a pass about a node or an entry."""

    pass_name: str
    """A key of `switches.PASSES`, or a part of bind, such as "mirror"."""
    subject: Node | int
    """A node of the graph before the pass; for the memory planner an entry of the final graph."""
    verdict: Literal["done", "refused"]
    rule: str
    """The change, or the condition that does not hold, in a few words that do not depend on the
    network: "one reader"."""
    evidence: Mapping[str, Evidence]
    """The facts, by name: {"readers": [Node, Node]}."""
    where: str
    """File, in the package, and line of the rule: "passes/optimize/fuse_epilogue.py:57"."""


_recorded: ContextVar[list[Remark] | None] = ContextVar("recorded", default=None)


@contextmanager
def recording() -> Iterator[list[Remark]]:
    """A block in which passes record their remarks in the list that it gives."""
    remarks: list[Remark] = []
    token = _recorded.set(remarks)
    try:
        yield remarks
    finally:
        _recorded.reset(token)


def is_recording() -> bool:
    """Whether remarks are recorded now."""
    return _recorded.get() is not None


def refused(pass_name: str, subject: Node | int, rule: str, **evidence: Evidence) -> None:
    """Record that a pass met its pattern at `subject` and left it, because `rule` does not hold.

    Parameters
    ----------
    pass_name : str
        A key of `switches.PASSES`.
    subject : Node or int
        The node, or the entry, that would have changed: the one a user asks about.
    rule : str
        The condition that does not hold.
    **evidence
        The facts that show it.
    """
    _record(pass_name, subject, "refused", rule, evidence)


def done(pass_name: str, subject: Node | int, rule: str, **evidence: Evidence) -> None:
    """Record that a pass changed `subject`: as `refused`, but `rule` says what was done."""
    _record(pass_name, subject, "done", rule, evidence)


def _record(pass_name: str, subject: Node | int, verdict: Literal["done", "refused"], rule: str,
            evidence: Mapping[str, Evidence]) -> None:
    remarks = _recorded.get()
    if remarks is not None:
        caller = sys._getframe(2)
        where = PurePath(caller.f_code.co_filename).relative_to(PACKAGE).as_posix()
        remarks.append(Remark(pass_name, subject, verdict, rule, evidence,
                              f"{where}:{caller.f_lineno}"))
