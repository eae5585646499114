"""Programs of the memory planner: for every rule one that it stops, and one that it does not."""

from __future__ import annotations

from collections.abc import Callable

from nbmod.passes.memory.plan import plan_memory
from nbmod.passes.memory.plan_step import PlanStep
from nbmod.passes.remarks import Remark, recording

Row = Callable[[bool], list[Remark]]

STEP = PlanStep
IT = 9
"""The entry whose remarks are looked at."""


def planned(*steps, external=(0,), keep=(), sizes=None) -> list[Remark]:
    """The remarks of planning memory for steps: of 64 bytes an entry, unless `sizes` say more."""
    sizes = [(sizes or {}).get(eid, 64) for eid in range(30)]
    with recording() as remarks:
        plan_memory(steps, sizes, external, keep)
    return remarks


FIRST, LAST = STEP((0,), (1,)), STEP((9,), (10,))
VIEW, INPLACE = STEP((1,), (9,), view=True), STEP((1,), (9,), ((0, 0),))
PART, HALVES = {"rows": 2, "split_offsets": (0, 32)}, {1: 128, 2: 64, 9: 64}


def of_slice(step, ok) -> list[Remark]:
    """Rows of a slice are apart, or are not."""
    rows = {"rows": 1 if ok else 2, "split_offsets": (0, 64 if ok else 32)}
    return planned(FIRST, STEP((1,), (2, -1), **rows), step._replace(inputs=(2,), strided=(2, 9)),
                   LAST._replace(strided=(9,)), sizes=HALVES)


VIEWS: dict[str, Row] = {
    "its memory is planned": lambda ok: planned(FIRST, VIEW, external=(0,) if ok else (0, 9)),
    "it is not written where it is joined": lambda ok: planned(
        FIRST, VIEW, STEP((1, 0), (2,)), STEP((9, 2), (10,), **({} if ok else JOINED)),
        STEP((10,), (11,)), sizes={10: 128}),
    "no output is memory of the user": lambda ok: planned(
        FIRST, VIEW if ok else VIEW._replace(inputs=(0,)), keep=(9,)),
    "outputs are arrays of their own": lambda ok: planned(FIRST, VIEW, keep=(9,) if ok else (1, 9)),
    "rows of the input are adjacent": lambda ok: of_slice(VIEW, ok),
    "input and output are on one device": lambda ok: planned(
        FIRST, VIEW._replace(space=0 if ok else 1), LAST),
}

OVERWRITTEN: dict[str, Row] = {
    "its memory is planned": lambda ok: planned(FIRST, INPLACE, external=(0,) if ok else (0, 9)),
    "memory of the input is planned": lambda ok: planned(
        FIRST, INPLACE, LAST, external=(0,) if ok else (0, 1)),
    "no other output overwrites the input": lambda ok: planned(
        FIRST, STEP((1,), (8, 9), ((0, 1),) if ok else ((0, 0), (0, 1)))),
    "nothing else reads it": lambda ok: planned(
        FIRST, INPLACE, STEP((9,) if ok else (9, 1), (10,))),
    "input and output have one size": lambda ok: planned(
        FIRST, INPLACE, LAST, sizes={} if ok else {9: 32}),
    "rows of the input are adjacent": lambda ok: of_slice(INPLACE, ok),
    "input and output are on one device": lambda ok: planned(
        FIRST, INPLACE._replace(space=0 if ok else 1), LAST),
}

JOINED = {"rows": 1, "concat_offsets": (0, 64)}
ADDS, SUM = STEP((0,), (9,), accumulates=True), STEP((1, 9), (10,), sums=True)
END = STEP((10,), (11,))


def cut(ok) -> PlanStep:
    """A step of which the other operand is an output, or a slice."""
    return STEP((3,), (1, -1)) if ok else STEP((3,), (1, -1), rows=1, split_offsets=(0, 64))


ADDED: dict[str, Row] = {
    "its op can add to what is there": lambda ok: planned(
        FIRST, ADDS._replace(accumulates=ok), SUM, END),
    "only one sum reads it": lambda ok: planned(
        FIRST, ADDS, SUM, STEP((10,) if ok else (10, 9), (11,))),
    "it is no output": lambda ok: planned(FIRST, ADDS, SUM, END, keep=() if ok else (9,)),
    "memory of the sum is planned": lambda ok: planned(
        FIRST, ADDS, SUM, END, external=(0,) if ok else (0, 10)),
    "the sum is not written where it is joined": lambda ok: planned(
        FIRST, ADDS, SUM, STEP((0,), (2,)), STEP((10, 2), (11,), **({} if ok else JOINED)),
        STEP((11,), (12,)), sizes={11: 128}),
    "the sum is on its device": lambda ok: planned(
        FIRST, ADDS, SUM._replace(space=0 if ok else 1), END),
    "another step computes the other operand": lambda ok: planned(
        FIRST if ok else STEP((0,), (2,)),
        ADDS if ok else ADDS._replace(outputs=(1, 9)), SUM, END),
    "the other operand is no piece of a tensor": lambda ok: planned(
        STEP((0,), (3,)), cut(ok), ADDS, SUM, END, sizes={3: 128}),
    "memory of the other operand is planned": lambda ok: planned(
        *([FIRST] if ok else []), ADDS, SUM, END, external=(0,) if ok else (0, 1)),
    "operands have one size": lambda ok: planned(
        FIRST, ADDS, SUM, END, sizes={} if ok else {1: 32}),
    "nothing else reads it": lambda ok: planned(
        FIRST, ADDS, SUM, STEP((10,) if ok else (10, 1), (11,))),
    "input and output are on one device": lambda ok: planned(
        FIRST._replace(space=0 if ok else 1), ADDS, SUM, END),
}

SPLIT = STEP((1,), (9, 2), rows=1, split_offsets=(0, 64))
WHOLE = {1: 128}
SLICES: dict[str, Row] = {
    "slices have planned memory": lambda ok: planned(
        FIRST, SPLIT, LAST, external=(0,) if ok else (0, 9), sizes=WHOLE),
    "no slice is an output": lambda ok: planned(
        FIRST, SPLIT, LAST, keep=() if ok else (9,), sizes=WHOLE),
    "no slice is written where it is joined": lambda ok: planned(
        FIRST, SPLIT, STEP((0,), (3,)), STEP((9, 3), (10,), **({} if ok else JOINED)), END,
        sizes={1: 128, 10: 128}),
    "slices are read on one device": lambda ok: planned(
        FIRST, SPLIT, LAST._replace(space=0 if ok else 1), sizes=WHOLE),
    "readers take rows that are apart": lambda ok: planned(
        FIRST, SPLIT._replace(**PART), LAST._replace(strided=(9,) if ok else ()), sizes=WHOLE),
    "rows of the input are adjacent": lambda ok: planned(
        STEP((0,), (4,)), STEP((4,), (1, -1), strided=(1,), **(
            {} if ok else {"rows": 2, "split_offsets": (0, 64)})),
        SPLIT._replace(strided=(1, 9, 2)), LAST, sizes={1: 128, 4: 256}),
    "input and output are on one device": lambda ok: planned(
        FIRST._replace(space=0 if ok else 1), SPLIT, LAST, sizes=WHOLE),
}

ONE, TWO, JOIN = STEP((0,), (9,)), STEP((0,), (2,)), STEP((9, 2), (10,), **JOINED)
BOTH = {10: 128}


def nested(rows, late=(), strided=()) -> list[Remark]:
    """A concatenation that is overwritten by an operand of another one."""
    again = {"strided": (9, 2, 3, 10, 12, 20, *strided)}
    return planned(
        ONE._replace(**again), TWO._replace(**again), STEP((9, 2), (10,), rows=rows, **{
            "concat_offsets": (0, 64 // rows)}, **again), STEP((10,), (12,), ((0, 0),), **again),
        STEP((0,), (3,), **again), *late,
        STEP((12, 3), (20,), rows=1, concat_offsets=(0, 128), **again),
        STEP((20,), (21,), **again), sizes={10: 128, 12: 128, 20: 192})


def peak(size) -> list[Remark]:
    """Something of this size is needed before the second operand."""
    return planned(ONE, STEP((0,), (5,)), STEP((5,), (6,)), STEP((6,), (2,)), JOIN, END,
                   sizes={10: 128, 5: size})


PIECES: dict[str, Row] = {
    "its memory is planned": lambda ok: planned(
        *([ONE] if ok else []), TWO, JOIN, END, external=(0,) if ok else (0, 9), sizes=BOTH),
    "it is no output": lambda ok: planned(
        ONE, TWO, JOIN, END, keep=() if ok else (9,), sizes=BOTH),
    "it is joined once": lambda ok: planned(
        ONE, TWO, JOIN, STEP((0,), (3,)), STEP((3 if ok else 9, 3), (12,), **JOINED),
        STEP((10, 12), (13,)), sizes={10: 128, 12: 128}),
    "no step reads it twice": lambda ok: planned(
        ONE, TWO, JOIN if ok else JOIN._replace(inputs=(9, 9)), END, sizes=BOTH),
    "its steps are on one device": lambda ok: planned(
        ONE._replace(space=0 if ok else 1), TWO, JOIN, END, sizes=BOTH),
    "nothing reads it when the whole is overwritten": lambda ok: nested(
        1, () if ok else (STEP((9,), (4,)),)),
    "it has as many rows as what its whole is a piece of": lambda ok: in_rows(2 if ok else 4),
    "its steps write and read rows that are apart": lambda ok: planned(*[
        step._replace(strided=(9, 2) if ok else ()) for step in (
            ONE, TWO, JOIN._replace(rows=2, concat_offsets=(0, 32)), END)], sizes=BOTH),
    "it takes no more memory": lambda ok: peak(64 if ok else 1000),
}


def in_rows(rows) -> list[Remark]:
    """Operands of so many rows of an operand of two."""
    again = {"strided": (9, 2, 3, 10, 20)}
    return planned(*[step._replace(**again) for step in (
        ONE, TWO, JOIN._replace(rows=rows, concat_offsets=(0, 64 // rows)), STEP((0,), (3,)),
        STEP((10, 3), (20,), rows=2, concat_offsets=(0, 64)), STEP((20,), (21,)))],
        sizes={10: 128, 20: 192})


MEMORY_ROWS: dict[str, dict[str, Row]] = {
    "view": VIEWS, "inplace": OVERWRITTEN, "accumulate": ADDED, "alias_slice": SLICES,
    "alias_concat": PIECES}
"""Pass -> for each rule a program: with the obstacle, or without."""
