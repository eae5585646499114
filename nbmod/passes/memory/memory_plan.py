"""The memory plan: which storage every entry is in, and where the storages are.

Assumes: nothing; `plan` makes plans, and `verify.check_plan` checks them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...core.reprs import safe_repr
from .plan_step import NONE, AliasedRows

__all__ = ["MemoryPlan", "Storage"]


@dataclass
class Storage:
    """One piece of memory: `size` bytes at `offset` of its space, used in steps first..last."""

    size: int
    space: int
    first: int
    last: int
    offset: int = NONE
    held: bool = False


@dataclass(repr=False)
class MemoryPlan:
    """`storage[eid]` indexes `storages`; `NONE` is external memory or no memory at all."""

    storage: list[int]
    storages: list[Storage] = field(default_factory=list)
    scratch: list[tuple[int, ...]] = field(default_factory=list)
    """Per step, the storages of its scratch."""
    view_of: dict[int, int] = field(default_factory=dict)
    """Views of external entries: eid -> eid of the input."""
    views: set[int] = field(default_factory=set)
    """Steps that need not run because their output is their input's memory."""
    add: set[int] = field(default_factory=set)
    """Entries whose producer must add to what is there."""
    inplace: dict[int, int] = field(default_factory=dict)
    """Entry -> the input whose memory it reuses."""
    pieces: dict[int, AliasedRows] = field(default_factory=dict)
    """Entries that are part of their storage, or of what they are a view of."""
    arena: dict[int, int] = field(default_factory=dict)
    """Bytes of the shared arena, per space."""

    @safe_repr
    def __repr__(self) -> str:
        arenas = f" and {len(self.arena)} arenas" if len(self.arena) > 1 else ""
        return (f"<MemoryPlan: {len(self.storages)} storages{arenas}, {self.total_bytes:,} bytes, "
                f"{self.held_bytes:,} of them for outputs>")

    @property
    def held_bytes(self) -> int:
        return sum(s.size for s in self.storages if s.held)

    @property
    def total_bytes(self) -> int:
        """Everything the executor allocates by itself: arenas and held outputs."""
        return sum(self.arena.values()) + self.held_bytes
