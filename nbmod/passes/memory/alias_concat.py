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
checked in `_Aliases._misfit`.  That strided rows can be read and written as declared; checked on
the arrays, in `verify.check_plan`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..remarks import EntryId, Obstacle, StepNumber, obstacle, refused
from .plan_step import NONE, AliasedRows, PlanStep

__all__ = ["alias_concat", "outermost"]


def alias_concat(steps: Sequence[PlanStep], sizes: Sequence[int], external: set[int],
                 keep: set[int]) -> dict[int, tuple[int, AliasedRows]]:
    """Entry -> the entry that it is a piece of, and which piece."""
    if not any(step.concat_offsets for step in steps):
        return {}
    return _Aliases(steps, sizes, external, keep).find()


def outermost(aliases: Mapping[int, tuple[int, AliasedRows]]
              ) -> dict[int, tuple[int, AliasedRows]]:
    """The outermost whole of each piece, and the place of the piece in it.

    A whole comes before its pieces.
    """
    roots: dict[int, tuple[int, AliasedRows]] = {}
    for eid, (whole, piece) in aliases.items():
        root, outer = roots.get(whole, (whole, AliasedRows(0)))
        roots[eid] = root, AliasedRows(outer.offset + piece.offset, max(piece.rows, outer.rows),
                                       outer.step or piece.step)
    return roots


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
                why = self._misfit(eid, whole, piece, step.space)
                if why is not None:
                    refused("alias_concat", EntryId(eid), why._replace(
                        evidence={"whole": EntryId(whole), **why.evidence}))
                else:
                    self._assign(eid, whole, piece, self.overwritten.get(whole, len(self.steps)))
        return self.pieces

    def _misfit(self, eid: int, whole: int, piece: AliasedRows, space: int) -> Obstacle | None:
        """The reason why an entry cannot be this piece of another one."""
        if eid in self.external or eid not in self.producer:
            return obstacle("its memory is planned")
        if eid in self.own:
            return obstacle("it is no output")
        if eid in self.pieces:
            return obstacle("it is joined once", other=EntryId(self.pieces[eid][0]))
        indices = [self.producer[eid], *self.readers[eid]]
        twice = [index for index in indices if indices.count(index) > 1]
        if twice:
            return obstacle("no step reads it twice", step=StepNumber(twice[0]))
        elsewhere = [index for index in indices if self.steps[index].space != space]
        if elsewhere:
            return obstacle("its steps are on one device", step=StepNumber(elsewhere[0]))
        overwritten = self.overwritten.get(whole, len(self.steps))
        if self.last_read[eid] >= overwritten:
            return obstacle("nothing reads it when the whole is overwritten",
                            step=StepNumber(overwritten))
        return self._uneven(eid, whole, piece, indices)

    def _uneven(self, eid: int, whole: int, piece: AliasedRows, indices: Sequence[int]
                ) -> Obstacle | None:
        """The reason why rows of a piece cannot be as far apart as those of the whole."""
        outer = self.pieces[whole][1].rows if whole in self.pieces else 1
        if outer > 1 and outer != piece.rows:
            return obstacle("it has as many rows as what its whole is a piece of", rows=piece.rows,
                            outer=outer)
        for index in indices if piece.rows > 1 else ():
            if eid not in self.steps[index].strided:
                return obstacle("its steps write and read rows that are apart",
                                step=StepNumber(index))
        return None

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
                    and self._misfit(source, whole, piece, step.space) is None
                    and not self.steps[self.producer[source]].split_offsets):  # is read where it is
                return source
        return None
