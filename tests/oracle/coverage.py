"""The comparisons with MXNet in this run, op by op, for the table at its end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

COLUMNS = ("forward", "gradient", "aux", "inference", "random", "empty", "one", "broadcast",
           "negative", "large", "refused", "dies")
SHORT = {"float16": "f16", "float32": "f32", "float64": "f64", "int8": "i8", "int32": "i32",
         "int64": "i64", "uint8": "u8"}

_COVERED: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))


def covered(op: str, what: str, dtype: str) -> None:
    """Note that `what` (one of COLUMNS) of an op agreed with MXNet for an element type."""
    _COVERED[op][what].add(dtype)


def table() -> Iterator[str]:
    """One line per op: the element types compared in each column. Nothing when nothing was."""
    if not _COVERED:
        return
    rows = [("op", *COLUMNS)]
    rows += [(op, *(_cell(row[c]) for c in COLUMNS)) for op, row in sorted(_COVERED.items())]
    widths = [max(map(len, column)) + 2 for column in zip(*rows, strict=True)]
    for row in rows:
        yield "".join(map(str.ljust, row, widths)).rstrip()


def _cell(dtypes: set[str]) -> str:
    return "yes" if dtypes == {""} else " ".join(SHORT.get(d, d) for d in sorted(dtypes))
