"""CTCLoss."""

from __future__ import annotations

from typing import Any

from tests.cases import Input, Sample, array, integers

DATA = (5, 3, 4)
SINGLE: dict[str, Any] = {"mx_dtypes": ("float32",), "why": "MXNet's CPU has float32 only"}
LONG: dict[str, Any] = {
    "dtypes": ("float32", "float64"), "tol": {"float32": 2e-4},
    "why": "MXNet's CPU has float32 only, in which it adds up logarithms of 1e-80",
}  # fmt: skip
UNSET = "MXNet leaves the gradient unset where no path exists"
LABEL = array([[1, 2, 2], [3, 0, 0], [1, 2, 0]])
FROM_LAST = array([[0, 1, 1], [2, -1, -1], [0, 1, -1]])


def ctc(label: Input, data: Any = DATA, attrs: dict | None = None, op: str = "CTCLoss",
        **options: Any) -> Sample:  # fmt: skip
    lengths = {name: options.pop(name) for name in ("data_lengths", "label_lengths")
               if name in options}  # fmt: skip
    attrs = {**(attrs or {}), **{f"use_{name}": True for name in lengths}}
    return Sample(op, {"data": data, "label": label, **lengths}, attrs,
                  **{"grad": ("data",), **SINGLE, **options})  # fmt: skip


def lengths(*values: float) -> Input:
    return array(values)


LAST = {"blank_label": "last"}
SAMPLES = [
    ctc(LABEL),
    *(ctc(LABEL, op=name) for name in ("ctc_loss", "_contrib_CTCLoss", "_contrib_ctc_loss")),
    ctc(LABEL, attrs={"blank_label": "first"}),
    ctc(FROM_LAST, attrs=LAST),
    ctc(array([[2, 0, 1], [0, 1, 2], [1, 0, 2]]), note="labels end at the first padding"),
    ctc(array([[0, -1, 1], [-1, 1, 2], [1, 0, -1]]), attrs=LAST),
    ctc(LABEL, data_lengths=lengths(5, 3, 2)),
    ctc(LABEL, label_lengths=lengths(3, 1, 0)),
    ctc(LABEL, data_lengths=lengths(5, 3, 1), label_lengths=lengths(2, 1, 1)),
    ctc(LABEL, data_lengths=lengths(5, 0, 1), grad=(), note="no step"),
    ctc(LABEL, data_lengths=lengths(5, 0, 1), oracle=False, why=UNSET),
    ctc(FROM_LAST, attrs=LAST, data_lengths=lengths(4, 3, 3), label_lengths=lengths(2, 1, 2)),
    ctc(array([[1, 1, 1], [2, 2, 0], [3, 1, 3]]), (4, 3, 4), grad=(), note="no path, and one"),
    ctc(array([[1, 1, 1], [2, 2, 0], [3, 1, 3]]), (4, 3, 4), oracle=False, why=UNSET),
    ctc(array([[1]]), (1, 1, 2)),
    ctc(integers(1, 100, (50, 4)), (20, 50, 100)),
    ctc(array([[1, 2, 2], [3, 0, 0], [1, 2, 0]], "int32"), oracle=False,
        why="MXNet's symbols take labels of data's type only"),
    ctc(array([[0, 0], [0, 0]]), (4, 2, 3), oracle=False, why="MXNet reads other memory if all "
        "samples have no labels", mx_dtypes=None),
    ctc(integers(0, 9, (6, 20)), (40, 6, 25), note="by kernels", **LONG),
    ctc(integers(1, 29, (5, 12)), (50, 5, 30), data_lengths=lengths(50, 20, 12, 35, 49),
        label_lengths=lengths(12, 7, 0, 12, 1), **LONG),
    ctc(integers(-1, 29, (5, 12)), (50, 5, 30), LAST, **LONG),
    ctc(array([[1, 7]]), (4, 1, 3), error="label\\[0, 1\\] is 7"),
    ctc(array([[1, -1]]), (4, 1, 3), error="labels end at 0"),
    ctc(LABEL, (5, 2, 4), error="label and \\(N, L\\)"),
    ctc(LABEL, (2, 3, 4), error="as many labels as the 2 steps"),
    ctc(LABEL, (5, 3), error="expected \\(T, N, C\\)"),
    ctc(LABEL, data_lengths=lengths(5, 3), error="lengths and batch"),
    ctc(LABEL, dtypes=("int32",), mx_dtypes=None, why="", error="data has type int32"),
]  # fmt: skip
