"""Aliasing of concatenations: operands are written straight into the output.

A step that concatenates (`PlanStep.concat_offsets`) skips inputs whose producers have written them
into its output, whose memory is therefore allocated when the first of them is computed.
The rows of an operand are as far apart there as those of the output.  That makes no difference
where there is one row: a concatenation along the first axis, or of single images.  Elsewhere the
producer and all readers of an operand have to declare that they can do it (`PlanStep.strided`); an
operand of which one cannot is copied.

An input that an operand was computed from in place, or is a view of, is aliased with it.  If that
is a concatenation itself, its own operands are overwritten in that step, so they can be there only
if nothing reads them, or a view or slice of them, from then on.

Assumes: an operand is read once by the step that concatenates it, and has no memory already;
checked in `_Aliases._fits`.  That strided rows can be read and written as declared; checked on the
arrays, in `verify.check_plan`.
"""

from __future__ import annotations

from collections.abc import Sequence

from .plan_step import NONE, AliasedRows, PlanStep

__all__ = ["alias_concat"]


def alias_concat(steps: Sequence[PlanStep], sizes: Sequence[int], external: set[int],
                 keep: set[int]) -> dict[int, tuple[int, AliasedRows]]:
    """Entry -> the entry that it is a piece of, and which piece."""
    if not any(step.concat_offsets for step in steps):
        return {}
    return _Aliases(steps, sizes, external, keep).find()


def _last_reads(steps: Sequence[PlanStep], keep: set[int]) -> dict[int, int]:
    """Entry -> the last step that reads it, or a view or slice of it; no step if one is kept."""
    last = dict.fromkeys(keep, len(steps))
    for index, step in reversed(list(enumerate(steps))):
        shared = step.outputs if step.view or step.split_offsets else ()
        read = max([index, *(last.get(eid, index) for eid in shared)])
        for eid in step.inputs:
            last[eid] = max(read, last.get(eid, index))
    return last


class _Aliases:
    def __init__(self, steps: Sequence[PlanStep], sizes: Sequence[int], external: set[int],
                 keep: set[int]):
        self.steps, self.sizes = steps, sizes
        self.external, self.own = external, external | keep
        """Entries that have memory already, and those that get memory of their own."""
        self.pieces: dict[int, tuple[int, AliasedRows]] = {}
        self.overwritten: dict[int, int] = {}
        """Entry -> the step that computes something else in place of it."""
        self.readers: dict[int, list[int]] = {}
        self.last_read = _last_reads(steps, keep)
        self.producer: dict[int, int] = {}
        for index, step in enumerate(steps):
            self.producer.update(dict.fromkeys(step.outputs, index))
            for eid in step.inputs:
                self.readers.setdefault(eid, []).append(index)

    def find(self) -> dict[int, tuple[int, AliasedRows]]:
        """From the last concatenation on: a whole is known to be a piece before its own pieces."""
        for step in reversed(self.steps):
            whole = step.outputs[0] if step.concat_offsets else NONE
            if whole == NONE or whole in self.external:
                continue
            row = self.sizes[whole] // step.rows
            for eid, offset in zip(step.inputs, step.concat_offsets, strict=True):
                piece = AliasedRows(offset, step.rows, row if step.rows > 1 else 0)
                if self._fits(eid, whole, piece, step.space):
                    self._assign(eid, whole, piece, self.overwritten.get(whole, len(self.steps)))
        return self.pieces

    def _fits(self, eid: int, whole: int, piece: AliasedRows, space: int) -> bool:
        if eid in self.own or eid in self.pieces or eid not in self.producer:
            return False
        steps = [self.steps[index] for index in (self.producer[eid], *self.readers[eid])]
        if len({*self.readers[eid]}) < len(self.readers[eid]) or any(
                step.space != space for step in steps):
            return False
        if self.last_read[eid] >= self.overwritten.get(whole, len(self.steps)):
            return False
        outer = self.pieces[whole][1].rows if whole in self.pieces else 1
        if outer > 1 and outer != piece.rows:
            return False
        return piece.rows == 1 or all(eid in step.strided for step in steps)

    def _assign(self, eid: int, whole: int, piece: AliasedRows, overwritten: int) -> None:
        """`eid` is this piece, and so is what it was computed from in place, and so on."""
        alias: int | None = eid
        while alias is not None:
            self.pieces[alias], self.overwritten[alias] = (whole, piece), overwritten
            index = self.producer[alias]
            alias = self._reused(alias, whole, piece)
            overwritten = overwritten if self.steps[index].view else index

    def _reused(self, eid: int, whole: int, piece: AliasedRows) -> int | None:
        """The only input whose memory the producer of `eid` can reuse as this piece."""
        step = self.steps[self.producer[eid]]
        for position, out in ((0, 0),) if step.view else step.inplace:
            source = step.inputs[position]
            if (step.outputs[out] == eid and piece.rows == 1
                    and self.sizes[source] == self.sizes[eid] and len(self.readers[source]) == 1
                    and self._fits(source, whole, piece, step.space)
                    and not self.steps[self.producer[source]].split_offsets):  # is read where it is
                return source
        return None
