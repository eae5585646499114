"""Steps of a program, as the memory planner sees them.

Assumes: an entry has one producer, as every graph numbers its entries (`graph.Graph`).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

__all__ = ["GUARD", "NONE", "PLANNER_PASSES", "AliasedRows", "PlanStep"]

NONE = -1
GUARD = 256
"""Bytes that follow each workspace with NBMOD_CHECK=2, and that no step writes: some vectors."""


class PlanStep(NamedTuple):
    """One step, in entry ids.  An output that nothing reads is `NONE`."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    inplace: tuple[tuple[int, int], ...] = ()
    """(input position, output position) pairs that may share memory."""
    scratch: tuple[int, ...] = ()
    """Bytes of temporary memory during this step."""
    view: bool = False
    """Output 0 is input 0 under another shape."""
    accumulates: bool = False
    """The step can add to its outputs instead of overwriting them."""
    sums: bool = False
    """The step is output = input 0 + input 1, both gradients."""
    space: int = 0
    """Memory space (device) of outputs and workspaces."""
    rows: int = 0
    """Rows of concatenated or split tensors; offsets are in bytes from the beginning of a row."""
    concat_offsets: tuple[int, ...] = ()
    """Output 0 is the concatenation of the inputs."""
    split_offsets: tuple[int, ...] = ()
    """The outputs are slices of input 0."""
    strided: tuple[int, ...] = ()
    """Entries that the step can read or write although their rows are not adjacent."""

    def without(self, passes: Collection[str]) -> PlanStep:
        """The step as the planner sees it when these of its passes are switched off."""
        less = [fields for name, fields in SHARING.items() if name in passes]
        return self._replace(**{key: value for fields in less for key, value in fields.items()})


SHARING: dict[str, dict[str, Any]] = {  # type: ignore[explicit-any]
    "view": {"view": False}, "inplace": {"inplace": ()}, "accumulate": {"accumulates": False},
    "alias_concat": {"concat_offsets": ()}, "alias_slice": {"split_offsets": ()}}
"""Passes of the memory planner, and the steps that it sees when they are switched off.
Any: fields of several types."""

PLANNER_PASSES = (*SHARING, "reuse_memory")
"""Passes that decide about memory alone: without one of them, the same nodes run."""


class AliasedRows(NamedTuple):
    """Where an entry is in memory that it shares with others: its row k begins `offset + k step`
    bytes into the storage, or into the external entry that it is a view of."""

    offset: int
    rows: int = 1
    step: int = 0
