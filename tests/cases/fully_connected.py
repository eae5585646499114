"""FullyConnected, beyond the samples of `basic`."""

from __future__ import annotations

from tests.cases import Sample

WIDE = {"data": (5, 37), "weight": (11, 37), "bias": (11,)}

SAMPLES = [
    Sample("FullyConnected", WIDE, {"num_hidden": 11}, note="odd sizes"),
    Sample("FullyConnected", {"data": (1, 1), "weight": (1, 1), "bias": (1,)}, {"num_hidden": 1}),
    Sample("FullyConnected", {"data": (6,), "weight": (5, 1)}, {"num_hidden": 5, "no_bias": True}),
    Sample("FullyConnected", {"data": (6,), "weight": (5, 6), "bias": (5,)},
           {"num_hidden": 5, "flatten": False}),
    Sample("FullyConnected", {"data": (2, 3, 2, 4), "weight": (5, 4), "bias": (5,)},
           {"num_hidden": 5, "flatten": False}),
    Sample("FullyConnected", {"data": (2, 3, 2, 4), "weight": (5, 24), "bias": (5,)},
           {"num_hidden": 5}),
    Sample("_sparse_FullyConnected", WIDE, {"num_hidden": 11}),
    Sample("FullyConnected", {**WIDE, "bias": (12,)}, {"num_hidden": 11},
           error=r"bias has shape \(12,\), expected \(11,\) from data \(5, 37\)"),
    Sample("FullyConnected", WIDE, {"num_hidden": 0}, error="num_hidden is 0"),
    Sample("FullyConnected", WIDE, {"num_hidden": 11}, dtypes=("int32",), error="has type int32"),
]  # fmt: skip
