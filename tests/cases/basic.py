"""Three ops to read first: what a family's file looks like."""

from __future__ import annotations

from tests.cases import FLOATS, Sample, nonzero

DENSE = {"data": (2, 3), "weight": (4, 3), "bias": (4,)}

SAMPLES = [
    Sample("elemwise_add", {"lhs": (2, 3), "rhs": (2, 3)}, dtypes=(*FLOATS, "int32", "uint8")),
    Sample("elemwise_add", {"lhs": (1,), "rhs": (1,)}),
    Sample("elemwise_add", {"lhs": (2, 3), "rhs": (3,)}, error="different numbers of dimensions"),
    # relu has a kink at 0, where finite differences see half of it
    Sample("relu", {"data": nonzero((2, 3, 4))}),
    Sample("FullyConnected", DENSE, {"num_hidden": 4}),
    Sample("FullyConnected", {"data": (2, 3), "weight": (4, 3)}, {"num_hidden": 4, "no_bias": 1}),
    Sample("FullyConnected", {**DENSE, "data": (2, 5, 3)}, {"num_hidden": 4, "flatten": False}),
    Sample("FullyConnected", {**DENSE, "weight": (4, 15), "data": (2, 5, 3)}, {"num_hidden": 4}),
    Sample("FullyConnected", {**DENSE, "weight": (4, 5)}, {"num_hidden": 4}, error="weight"),
    Sample("FullyConnected", DENSE, {"num_hiden": 4}, error="did you mean 'num_hidden'"),
]  # fmt: skip
