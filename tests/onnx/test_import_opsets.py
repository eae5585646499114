"""Forms that operators had in older opsets, against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from nbmod.graph import Graph

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from onnx import helper  # noqa: E402

from nbmod.onnx.importing import import_model  # noqa: E402
from nbmod.onnx.reference_run import run_graph  # noqa: E402

IMAGE, MATRIX, VECTOR = "float[2, 4, 6, 6] x", "float[3, 4] x", "float[6] x"
FORMS = {
    "softmax over the rest": (IMAGE, "y = Softmax<axis=2>(x)", [7, 11]),
    "softmax along an axis": (IMAGE, "y = Softmax<axis=2>(x)", [13, 17]),
    "log softmax by default": (IMAGE, "y = LogSoftmax(x)", [7, 12, 13]),
    "hardmax": (MATRIX, "y = Hardmax<axis=0>(x)", [7, 11, 13]),
    "flatten": (IMAGE, "y = Flatten<axis=2>(x)", [7, 9, 11, 13]),
    "clip by attributes": (MATRIX, "y = Clip<min=-0.5, max=0.25>(x)", [7, 10]),
    "clip by inputs": (MATRIX, "a = Constant<value=float {-0.5}>() y = Clip(x, a)", [11, 13]),
    "squeeze by attribute": ("float[1, 3, 1] x", "y = Squeeze<axes=[0, 2]>(x)", [7, 11]),
    "squeeze by input": ("float[1, 3, 1] x", "a = Constant<value=int64[1] {-1}>() "
                         "y = Squeeze(x, a)", [13, 21]),
    "unsqueeze by attribute": (MATRIX, "y = Unsqueeze<axes=[0, 3]>(x)", [7, 11]),
    "unsqueeze by input": (MATRIX, "a = Constant<value=int64[2] {0, -1}>() y = Unsqueeze(x, a)",
                           [13, 21]),
    "slice by attributes": (MATRIX, "y = Slice<starts=[1, -3], ends=[9, -1]>(x)", [7, 9]),
    "slice by inputs": (MATRIX, "a = Constant<value=int64[1] {-1}>() "
                        "b = Constant<value=int64[1] {-9}>() c = Constant<value=int64[1] {1}>() "
                        "y = Slice(x, a, b, c, a)", [10, 13]),
    "split by attribute": (MATRIX, "y, z = Split<axis=1, split=[1, 3]>(x)", [7, 11]),
    "split by input": (MATRIX, "a = Constant<value=int64[2] {1, 3}>() y, z = Split<axis=1>(x, a)",
                       [13]),
    "split in uneven parts": (MATRIX, "y, z = Split<axis=0, num_outputs=2>(x)", [18]),
    "sum over attributes": (IMAGE, "y = ReduceSum<axes=[1, -1], keepdims=0>(x)", [7, 11]),
    "sum over an input": (IMAGE, "a = Constant<value=int64[2] {1, 3}>() "
                          "y = ReduceSum<keepdims=0>(x, a)", [13, 18]),
    "mean over attributes": (IMAGE, "y = ReduceMean<axes=[2, 3]>(x)", [7, 13, 17]),
    "mean over an input": (IMAGE, "a = Constant<value=int64[1] {1}>() y = ReduceMean(x, a)", [18]),
    "pad by attributes": (MATRIX, "y = Pad<pads=[1, 0, 0, 2], value=1.5>(x)", [7, 10]),
    "pad by inputs": (MATRIX, "a = Constant<value=int64[4] {1, 0, -1, 2}>() "
                      "v = Constant<value=float {1.5}>() y = Pad(x, a, v)", [11, 13]),
    "top k by attribute": (MATRIX, "y, z = TopK<k=2>(x)", [7, 9]),
    "top k by input": (MATRIX, "k = Constant<value=int64[1] {2}>() "
                       "y, z = TopK<axis=0, largest=0>(x, k)", [11]),
    "upsample by attribute": (IMAGE, 'y = Upsample<mode="nearest", scales=[1.0, 1.0, 2.0, 2.0]>(x)',
                              [7, 8]),
    "upsample by input": (IMAGE, "s = Constant<value=float[4] {1, 1, 2, 3}>() "
                          'y = Upsample<mode="linear">(x, s)', [9]),
    "the first resize": (IMAGE, "s = Constant<value=float[4] {1, 1, 2, 0.5}>() y = Resize(x, s)",
                         [10]),
    "resize by factors": (IMAGE, "s = Constant<value=float[4] {1, 1, 2, 1.5}>() "
                          "r = Constant<value=float[0] {}>() y = Resize<mode=\"cubic\">(x, r, s)",
                          [11, 13]),
    "resize to sizes": (IMAGE, "s = Constant<value=int64[4] {2, 4, 9, 3}>() "
                        'y = Resize<mode="linear", '
                        'coordinate_transformation_mode="align_corners">(x, , , s)', [13, 18, 19]),
    "dropout": (MATRIX, "y = Dropout<ratio=0.5>(x)", [7, 10]),
    "dropout by input": (MATRIX, "r = Constant<value=float {0.5}>() y = Dropout(x, r)", [12, 13]),
    "cast": (MATRIX, "y = Cast<to=6>(x)", [7, 9, 13, 19]),
    "batch norm": (IMAGE, "s = Constant<value=float[4] {1, 2, 3, 4}>() "
                   "y = BatchNormalization<epsilon=0.1>(x, s, s, s, s)", [7, 9, 14, 15]),
    "prelu": (IMAGE, "s = Constant<value=float[4, 1, 1] {0.1, 0.2, 0.3, 0.4}>() y = PRelu(x, s)",
              [7, 9, 16]),
    "gemm": (MATRIX, "w = Constant<value=float[4, 2] {1, 2, 3, 4, 5, 6, 7, 8}>() "
             "b = Constant<value=float[1, 2] {1, 2}>() y = Gemm<alpha=0.5>(x, w, b)",
             [7, 9, 11, 13]),
    "gemm without a bias": (MATRIX, "w = Constant<value=float[2, 3] {1, 2, 3, 4, 5, 6}>() "
                            "y = Gemm<transA=1, transB=1>(x, w)", [11, 13]),
    "max pooling": (IMAGE, "y = MaxPool<kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1]>(x)",
                    [7, 8, 10, 12]),
    "average pooling": (IMAGE, "y = AveragePool<kernel_shape=[3, 3], strides=[2, 2], "
                        "pads=[1, 1, 1, 1]>(x)", [7, 10, 11, 19]),
    "pooling that is padded alike": (IMAGE, "y = AveragePool<kernel_shape=[3, 3], strides=[2, 2], "
                                     'auto_pad="SAME_UPPER">(x)', [7, 10]),
    "one hot": ("int64[3] x", "d = Constant<value=int64 {4}>() "
                "v = Constant<value=float[2] {-1, 2}>() y = OneHot<axis=0>(x, d, v)", [9, 11]),
    "cumulative sum": (MATRIX, "a = Constant<value=int64 {1}>() y = CumSum<reverse=1>(x, a)",
                       [11, 14]),
    "gather": (MATRIX, "i = Constant<value=int64[2] {0, 2}>() y = Gather(x, i)", [7, 11, 13]),
    "negative gather": (MATRIX, "i = Constant<value=int64[2] {0, -1}>() y = Gather<axis=1>(x, i)",
                        [11, 13]),
    "scatter": (MATRIX, "i = Constant<value=int64[1, 2] {2, 0}>() "
                "u = Constant<value=float[1, 2] {7, 8}>() y = ScatterElements(x, i, u)",
                [11, 13, 16]),
    "mean of three": (MATRIX, "y = Mean(x, x, x)", [8, 13]),
    "gru": ("float[3, 2, 4] x", "a = Constant<value=int64[3] {1, 9, 4}>() "
            "w = ConstantOfShape<value=float[1] {0.2}>(a) c = Constant<value=int64[3] {1, 9, 3}>() "
            "r = ConstantOfShape<value=float[1] {-0.1}>(c) y, z = GRU<hidden_size=3>(x, w, r)",
            [9, 14]),
    "expanded": (VECTOR, "s = Constant<value=int64[2] {2, 6}>() y = Expand(x, s)", [8, 13]),
    "equal": (MATRIX, "y = Equal(x, x)", [11, 13, 19]),
}
"""Name -> input, nodes, and the opsets that the form is tried in."""


def model(text: str, body: str, opset: int) -> onnx.ModelProto:
    outputs = "float[N] y" + (", float[M] z" if "y, z =" in body else "")
    graph = onnx.parser.parse_graph(f"g ({text}) => ({outputs}) {{{body}}}")
    for value in graph.output:
        value.ClearField("type")
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return onnx.shape_inference.infer_shapes(made)


@pytest.mark.parametrize("name, opset", [(name, opset) for name, (_, _, opsets) in FORMS.items()
                                         for opset in opsets])
def test_a_form(name, opset):
    text, body, _ = FORMS[name]
    proto = model(text, body, opset)
    onnx.checker.check_model(proto)
    given = proto.graph.input[0].type.tensor_type
    shape = tuple(dim.dim_value for dim in given.shape.dim)
    rng = np.random.default_rng(0)
    x = (rng.standard_normal(shape).astype(np.float32) if given.elem_type == 1
         else rng.integers(0, 4, shape))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    expected = onnxruntime.InferenceSession(proto.SerializeToString(), options).run(None, {"x": x})
    symbol, arguments, states = import_model(proto)
    values = {key: each.asnumpy() for key, each in {**arguments, **states}.items()}
    found = run_graph(Graph(symbol.entries), {**values, "x": x})
    for entry, want in zip(symbol.entries, expected, strict=True):
        # Truth values are carried by numbers, and sums are rounded in another order.
        np.testing.assert_allclose(found[entry], want, rtol=1e-5, atol=1e-5)
