"""Gather and scatter by index."""

from __future__ import annotations

import math

from tests.cases import FLOAT, FLOATS, Input, Sample, array, integers

ALL = (*FLOATS, "int32", "int64", "uint8")
NO_SYMBOL = "in MXNet a function of NDArrays only"
# MXNet infers an index without the axis of size 1, which is allowed too.
KEPT = {"inference": False, "why": "data alone suggests the other form of index"}


def ids(values: list, dtype: str = "float32") -> Input:
    """Indices, which get no gradient."""
    return array(values, dtype)


def take(indices: Input, attrs: dict | None = None, shape: tuple[int, ...] = (3, 4, 2),
         **more) -> Sample:
    return Sample("take", {"a": shape, "indices": indices}, attrs or {}, **more)


def pick(index: Input, attrs: dict | None = None, shape: tuple[int, ...] = (2, 3),
         **more) -> Sample:
    return Sample("pick", {"data": shape, "index": index}, attrs or {}, **more)


def embedding(data: Input, weight: tuple[int, int] = (5, 2), **more) -> Sample:
    attrs = {"input_dim": 5, "output_dim": 2} | more.pop("attrs", {})
    return Sample("Embedding", {"data": data, "weight": weight}, attrs, **more)


OUTSIDE = ids([0, -1, 5, -4, 1.9, -0.5])

SAMPLES = [
    take(ids([0, 2])),
    take(ids([[0, 1], [1, 1]], "int32"), {"axis": 1}, dtypes=ALL),
    take(ids([[0, 1, 1]], "uint8"), {"axis": -1}),
    take(ids([2, 0], "int64"), {"axis": -2}, shape=(1, 3, 2)),
    take(ids([1, 1, 1]), shape=(4,)),
    take(OUTSIDE),
    take(OUTSIDE, {"mode": "wrap", "axis": 1}),
    take(ids([0, 1, 2]), {"mode": "raise"}),
    take(integers(0, 3, (50,), "int32"), note="many of each"),
    take(integers(0, 30, (10, 8), "int32"), shape=(31, 40), dtypes=("float32", "float64", "int32"),
         note="compiled scatter"),
    Sample("take", {"a": (3, 4), "indices": ids([0, 1])}, grad=("a", "indices"),
           dtypes=("float32",)),
    take(ids([0, 3]), {"mode": "raise"}, error="indices contain 3, expected values in .0, 3."),
    take(ids([0, -1]), {"mode": "raise"}, error="indices contain -1"),
    take(ids([0]), {"axis": 3}, error="axis is 3"),
    embedding(ids([[0, 2], [4, 1]])),
    embedding(ids([0, 1, 1, 1], "int32")),
    embedding(ids([-1, 7, 1.9, 1])),
    embedding(ids([3, math.nan])),
    embedding(integers(0, 5, (90, 100), "int32"), dtypes=("float32", "float64", "float16"),
              tol={"float16": 0.2}, why="MXNet adds up halves in half precision"),
    embedding(ids([0, 1]), attrs={"dtype": "float64", "sparse_grad": False}, dtypes=("float64",)),
    Sample("_contrib_SparseEmbedding", {"data": ids([0, 2, 9]), "weight": (5, 2)},
           {"input_dim": 5, "output_dim": 2}, grad=()),
    Sample("_contrib_SparseEmbedding", {"data": ids([0, 2, 2]), "weight": (5, 2)},
           {"input_dim": 5, "output_dim": 2}, oracle=False, why="MXNet's gradient is sparse"),
    embedding(ids([0, 1]), dtypes=("int32", "uint8"), oracle=False,
              why="MXNet refuses integer gradients"),
    embedding(ids([0, 1]), weight=(5, 3), error=r"weight has shape \(5, 3\), expected \(5, 2\)"),
    Sample("one_hot", {"indices": ids([0, 2, -1, 3, 1.7])}, {"depth": 3}, dtypes=("float32",)),
    Sample("one_hot", {"indices": ids([math.nan, 0, math.inf, -math.inf], FLOAT)},
           {"depth": 2, "off_value": -1}, dtypes=FLOATS, note="no numbers"),
    Sample("one_hot", {"indices": integers(0, 4, (2, 3), FLOAT)}, {"depth": 4}, dtypes=ALL),
    Sample("one_hot", {"indices": ids([[0, 2]])}, {"depth": 3, "on_value": 5, "off_value": -1,
                                                   "dtype": "int32"}, dtypes=("float32",)),
    Sample("one_hot", {"indices": ids([0, 2], "uint8")}, {"depth": 3, "on_value": 1.5,
                                                          "dtype": "uint8"}, dtypes=("float32",)),
    Sample("one_hot", {"indices": ids([0, 2])}, {"depth": 3, "dtype": "float16"},
           dtypes=("float32",)),
    Sample("one_hot", {"indices": (3,)}, {"depth": 3}, grad=("indices",), dtypes=("float32",)),
    Sample("one_hot", {"indices": (3,)}, {"depth": 0}, error="depth is 0"),
    Sample("one_hot", {"indices": (2 ** 20,)}, {"depth": 2 ** 60}, error="more elements"),
    Sample("one_hot", {"indices": (3,)}, {"depth": 3, "dtype": "bfloat16"},
           error="does not support"),
    pick(ids([0, 2])),
    pick(ids([0, 2], "int32"), {"keepdims": True}, dtypes=ALL),
    pick(ids([[0], [2]], "int32"), **KEPT),
    pick(ids([[0], [2]]), {"keepdims": True}, **KEPT),
    pick(ids([0, 1, 0]), {"axis": 0}),
    pick(ids([[0, 1, 0]]), {"axis": 0}, **KEPT),
    pick(ids([-1, 5])),
    pick(ids([-1, 5]), {"mode": "wrap"}),
    pick(ids([-4, -5]), {"mode": "wrap"}),
    pick(ids([1.7, -0.5])),
    pick(integers(0, 3, (2, 4)), {"axis": 1}, shape=(2, 3, 4)),
    pick(integers(0, 2, (3, 4)), {"axis": -3}, shape=(2, 3, 4)),
    pick(ids([1]), shape=(3,)),
    Sample("choose_element_0index", {"data": (2, 3), "index": ids([0, 2])}),
    Sample("pick", {"data": (2, 3), "index": ids([0, 2])}, grad=("data", "index"),
           dtypes=("float32",)),
    pick(ids([0, 2, 1]), error=r"index has shape \(3,\), expected \(2,\)"),
    pick(ids([0, 2]), {"axis": None}, error="axis is None"),
    pick(ids([0, 2]), {"axis": 2}, error="axis is 2"),
    Sample("gather_nd", {"data": (3, 4), "indices": ids([[0, 1], [1, 3]])}),
    Sample("gather_nd", {"data": (3, 4), "indices": ids([[0, 1], [1, 3]])}, {"axis": 1}),
    Sample("gather_nd", {"data": (1, 4), "indices": ids([[0, 0], [1, 3]])}),
    Sample("gather_nd", {"data": (3, 4, 2), "indices": ids([[0, 0, 2]], "int32")}, dtypes=ALL),
    Sample("gather_nd", {"data": (3, 4), "indices": ids([[[0, 0], [1, 2]], [[1, 1], [2, 0]]])}),
    Sample("gather_nd", {"data": (3, 4), "indices": ids([[0, -3], [1, -4]], "int8")}, oracle=False,
           why="MXNet writes gradients of negative indices outside the array"),
    Sample("gather_nd", {"data": (3, 4), "indices": ids([[-1.5, 1.5], [1, -2]])}, grad=()),
    Sample("gather_nd", {"data": (3, 4), "indices": ids([[0, 1], [1, 3]])},
           grad=("data", "indices"), dtypes=("float32",)),
    Sample("gather_nd", {"data": (3, 4), "indices": ids([[0, 5], [1, 1]])},
           error="indices contain 5, expected values in .0, 3."),
    Sample("gather_nd", {"data": (3, 4), "indices": ids([[0, 1], [-5, 1]])},
           error="indices contain -1"),
    Sample("gather_nd", {"data": (3,), "indices": ids([[0], [1]])}, error="M at most 1"),
    Sample("gather_nd", {"data": (3,), "indices": ids([0])}, error="expected .M, ..."),
    Sample("scatter_nd", {"data": (3,), "indices": ids([[0, 1, 1], [1, 0, 2]])}, {"shape": (2, 3)},
           dtypes=ALL),
    Sample("scatter_nd", {"data": (2, 3), "indices": ids([[3, 0]], "int32")}, {"shape": (4, 3)}),
    Sample("scatter_nd", {"data": (3,), "indices": ids([[0, 0, 1], [1, 1, 2]])}, {"shape": (2, 3)},
           grad=(), note="the last one counts"),
    Sample("scatter_nd", {"data": (3,), "indices": ids([[-0.5, 1.9, 0.5], [1, -0.9, 2.5]])},
           {"shape": (2, 3)}, grad=(), note="without fractions"),
    Sample("scatter_nd", {"data": (3,), "indices": ids([[0, 1], [1, 0]])}, {"shape": (2, 3)},
           error="data"),
    Sample("scatter_nd", {"data": (2,), "indices": ids([[0, 2], [1, 0]])}, {"shape": (2, 3)},
           error="indices contain 2"),
    Sample("_scatter_set_nd", {"lhs": (2, 3), "rhs": (2,), "indices": ids([[0, 1], [1, 2]])},
           {"shape": (2, 3)}, grad=(), oracle=False, why="MXNet's works in place only"),
    Sample("batch_take", {"a": (3, 2), "indices": ids([0, 1, 0], "int32")}, grad=()),
    Sample("batch_take", {"a": (3, 2), "indices": ids([-1, 1, 4], "int32")}, grad=(), dtypes=ALL),
    Sample("batch_take", {"a": (3, 2), "indices": ids([0, 1, 0], "int32")}, oracle=False,
           why="MXNet has no gradient here"),
    Sample("batch_take", {"a": (3, 2), "indices": ids([0, 1], "int32")}, error="indices"),
    Sample("batch_take", {"a": (3,), "indices": ids([0], "int32")}, error="at least 2 dimensions"),
    Sample("_onehot_encode", {"lhs": ids([0, 2, 5]), "rhs": (3, 3)}, grad=(), oracle=False,
           why=NO_SYMBOL),
    Sample("_onehot_encode", {"lhs": ids([0, 2]), "rhs": (3, 3)}, error="do not agree"),
    Sample("fill_element_0index", {"lhs": (3, 3), "mhs": (3,), "rhs": ids([2, 7, math.nan])},
           grad=(), oracle=False, why=NO_SYMBOL),
    Sample("_ravel_multi_index", {"data": ids([[1, 2, 0], [3, 0, 2]])}, {"shape": (3, 4)},
           dtypes=("float32",)),
    Sample("ravel_multi_index", {"data": ids([[1, 2], [5, -1]], "int32")}, {"shape": (-1, 4)},
           dtypes=("int32",)),
    Sample("_ravel_multi_index", {"data": (3, 5)}, {"shape": (3, 4)}, error="data"),
    Sample("_unravel_index", {"data": ids([7, 8, 0, 11])}, {"shape": (3, 4)}, dtypes=("float32",)),
    Sample("unravel_index", {"data": ids([7, 13, -1], "int32")}, {"shape": (-1, 4)},
           dtypes=("int32",)),
    Sample("unravel_index", {"data": ids([59, 25], "int64")}, {"shape": (3, 4, 5)},
           dtypes=("int64",)),
]  # fmt: skip
