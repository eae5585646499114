"""SequenceMask, SequenceLast, SequenceReverse."""

from __future__ import annotations

from tests.cases import Input, Sample, array

OPS = ("SequenceMask", "SequenceLast", "SequenceReverse")
ALL = ("float32", "float64", "float16", "int32", "int64", "int8", "uint8")
LENGTHS = {"use_sequence_length": True}


def sequences(op: str, shape: tuple[int, ...], lengths: Input, **attrs) -> Sample:
    return Sample(op, {"data": shape, "sequence_length": lengths}, {**LENGTHS, **attrs},
                  grad=("data",), dtypes=ALL)  # fmt: skip


def wrong(op: str, shape: tuple[int, ...], attrs: dict, error: str) -> Sample:
    return Sample(op, {"data": shape, "sequence_length": array([1, 2])}, {**LENGTHS, **attrs},
                  error=error)  # fmt: skip


SAMPLES = [
    *(Sample(op, {"data": shape}, dtypes=ALL) for op in OPS for shape in ((3, 2), (4, 1, 2, 3))),
    *(sequences(op, (4, 3, 2), array([1, 4, 2], dtype))
      for op in OPS for dtype in ("float32", "float64", "float16", "int32", "int64", "uint8")),
    *(sequences(op, shape, array(lengths))
      for op in OPS
      for shape, lengths in (((4, 3), [2.9, 1.1, 4]), ((1, 1), [1]), ((5, 1, 2, 3), [3]))),
    *(sequences(op, (3, 2, 2), array([1, 2, 2], "float32"), axis=1) for op in OPS[:2]),
    *(sequences(op, (3, 2, 2), array([0, 2]))
      for op in ("SequenceMask", "SequenceReverse")),
    sequences("SequenceMask", (3, 2, 2), array([5, 2])),
    *(sequences("SequenceMask", (3, 2, 2), array([1, 2]), value=value)
      for value in (0.1, -1.7, 1)),
    Sample("SequenceMask", {"data": (3, 2), "sequence_length": array([1, 2])},
           {**LENGTHS, "value": -1e10}, grad=("data",), note="infinite in half precision"),
    Sample("SequenceMask", {"data": (3, 2)}, {"value": 7}),
    Sample("SequenceLast", {"data": (3, 2, 2), "sequence_length": array([0, 2])}, LENGTHS,
           grad=("data",), oracle=False, why="MXNet reads before the data"),
    Sample("SequenceReverse", {"data": (3, 2), "sequence_length": array([-1, 9])}, LENGTHS,
           grad=("data",), oracle=False, why="MXNet reads beside the data"),
    *(wrong(op, (3, 2), {"axis": axis}, f"axis is {axis}, expected 0")
      for op in OPS for axis in (2, -1)),
    wrong("SequenceReverse", (2, 3), {"axis": 1}, "axis is 1, expected 0 \\["),
    *(wrong(op, (3,), {}, "expected \\(T, N, \\.\\.\\.\\)") for op in OPS),
    *(wrong(op, (3, 4), {}, "sequence_length and batch .* do not agree") for op in OPS),
]  # fmt: skip
