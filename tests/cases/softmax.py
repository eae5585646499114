"""softmax and related operators."""

from __future__ import annotations

from tests.cases import Sample, array, integers, label, normal

D3 = {"data": (2, 3, 4)}
EXTREME = array([[1000, 0, -1000], [-1e4, -1e4, 3], [5, 5, 5]])
SINGLE = {"mx_dtypes": ("float32",), "why": "MXNet's is float32 only"}


def all_three(*args, **options) -> list[Sample]:
    return [Sample(op, *args, **options) for op in ("softmax", "log_softmax", "softmin")]


def with_length(shape: tuple[int, ...], axis: int, dtype: str = "int32", **attrs) -> Sample:
    rest = shape[:axis] + shape[axis + 1 :]
    inputs = {"data": shape, "length": integers(1, shape[axis] + 1, rest, dtype)}
    return Sample("softmax", inputs, {"axis": axis, "use_length": True, **attrs})


def cross_entropy(shape: tuple[int, ...], labels, **options) -> Sample:
    inputs = {"data": normal(shape), "label": labels}
    # MXNet infers no label from data, and reads past the row for a label out of range
    return Sample("softmax_cross_entropy", inputs, grad=("data",), **options)


SAMPLES = [
    *all_three({"data": (5, 7)}),
    *all_three({"data": (3,)}),
    *all_three({"data": (2, 3, 70)}, {"axis": 1}),
    *all_three(D3, {"axis": 0}),
    *all_three(D3, {"axis": -3, "temperature": 0.5}),
    *all_three({"data": (4, 19)}, {"temperature": 2.0}),
    *all_three(D3, {"temperature": -1.5}),
    *all_three({"data": EXTREME}, grad=("data",), dtypes=("float32", "float64")),
    *all_three({"data": (2, 1, 3)}, {"axis": 1}),
    *all_three(D3, {"dtype": "float64"}, dtypes=("float32",)),
    *all_three(D3, {"dtype": "float32", "axis": 1}, dtypes=("float16", "float64"),
               tol={"float64": 1e-6}, why="the result is float32"),
    *all_three(D3, {"dtype": "float16"}, dtypes=("float32",), tol={"float32": 1e-2},
               why="the result is float16"),
    *all_three(D3, {"axis": 3}, error="axis is 3"),
    *all_three(D3, dtypes=("int32",), error="data has type int32"),
    *all_three(D3, {"dtype": "int32"}, error="parameter dtype"),
    with_length((3, 5), 1),
    with_length((2, 3, 4), 1),
    with_length((2, 3, 4), 2, "int64", temperature=2.0),
    Sample("softmax", {"data": (2, 3), "length": (2,)}, {"use_length": True},
           error="length has type float32"),
    Sample("SoftmaxActivation", {"data": (4, 6)}, **SINGLE),
    # its backward pass is not the derivative of its forward pass, in MXNet either
    Sample("SoftmaxActivation", D3, dtypes=("float32", "float16"), **SINGLE),
    Sample("SoftmaxActivation", D3, is_train=False, **SINGLE),
    Sample("SoftmaxActivation", {"data": (2, 3, 4, 5)}, {"mode": "channel"}, **SINGLE),
    Sample("SoftmaxActivation", D3, {"mode": "channel"}, **SINGLE),
    Sample("SoftmaxActivation", {"data": (3, 4)}, {"mode": "channel"}, error="at least 3"),
    Sample("SoftmaxActivation", {"data": (3,)}, error="at least 2"),
    cross_entropy((4, 6), label(6, (4,))),
    cross_entropy((1, 2), label(2, (1,))),
    # such labels add nothing to y, but p to the gradient
    cross_entropy((3, 4), array([0, -1, 4]), oracle=False, why="MXNet reads other rows",
                  dtypes=("float32",)),
    cross_entropy((3, 4, 5), label(4, (3,)), error="expected \\(N, K\\)"),
    cross_entropy((3, 4), label(4, (4,)), error="label"),
]  # fmt: skip
