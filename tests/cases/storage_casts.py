"""Ops of `ops.sparse` on dense arrays; `tests/ndarray/test_sparse.py` has those on sparse ones."""

from __future__ import annotations

from typing import Any

from tests.cases import FLOATS, Sample, array

ANY = (*FLOATS, "int32", "int64", "uint8")


def kept(data: tuple[int, ...], rows: list[int], **options: Any) -> Sample:
    return Sample("_sparse_retain", {"data": data, "indices": array(rows, "int64")},
                  **options)


DENSE = {"oracle": False, "why": "MXNet retains rows of row_sparse arrays only"}
SAMPLES = [
    *(Sample("cast_storage", {"data": (2, 3)}, {"stype": stype}, dtypes=ANY)
      for stype in ("default", "row_sparse", "csr")),
    kept((4, 2), [0, 2], dtypes=ANY, **DENSE),
    kept((3,), [1], **DENSE),
    kept((2, 3, 2), [1, 0], **DENSE),
    kept((4, 2), [4], error="indices contain 4"),
    Sample("_sparse_retain", {"data": (4, 2), "indices": (2, 1)}, error="expected one axis"),
    *(Sample("_contrib_getnnz", {"data": (3, 4)}, {} if axis is None else {"axis": axis},
             oracle=False, why="MXNet counts elements of csr arrays only")
      for axis in (None, 0, 1)),
    Sample("_contrib_getnnz", {"data": (3, 4)}, {"axis": 2}, error="expected None, 0 or 1"),
    Sample("_contrib_getnnz", {"data": (3, 4, 2)}, error="expected two axes"),
]
