"""Every converter on the samples of its operator: onnxruntime's results against nbmod's."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import pytest

import nbmod as mx
from nbmod.graph import Graph
from nbmod.ops import OPS
from tests.cases import Sample, all_samples
from tests.sample_runs import compose

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
Failed = (onnxruntime.capi.onnxruntime_pybind11_state.Fail,
          onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument)

from nbmod.onnx.exporting.converter import CONVERTERS, OPSETS, load_converters  # noqa: E402
from nbmod.onnx.exporting.export_graph import UnsupportedNodes  # noqa: E402
from nbmod.onnx.exporting.export_model import build_model  # noqa: E402
from nbmod.onnx.exporting.exported_model import Export  # noqa: E402
from nbmod.onnx.exporting.inference_form import IDENTITIES, REPLACED, inference_form  # noqa: E402
from nbmod.onnx.exporting.operator_support import exported_opsets  # noqa: E402
from nbmod.onnx.reference_run import run_graph  # noqa: E402
from nbmod.onnx.verification import compare  # noqa: E402

load_converters()
LATEST = min(27, onnx.defs.onnx_opset_version())
KERNELS_UNTIL = {"ROIPooling": 21, "_contrib_ROIAlign": 21}
"""Operators whose later versions onnxruntime 1.32 has no kernels for."""
NAN = "MXNet orders NaN, ONNX does not"
OTHERWISE = {
    "_contrib_quadratic-2-cut off": "what does not fit into an integer is not defined",
    "sign-3-not finite": "the sign of NaN is NaN in ONNX",
    "gather_nd-6": "MXNet adds the size to negative indices before it truncates",
    "topk-45": NAN, "sort-14": NAN, "max-4": NAN, "argmax-4": NAN, "argmin-1": NAN,
    "mean-7-wraps": "sums of small integers do not wrap around in ONNX",
    "norm-13-no overflow": "squares overflow in ONNX",
    "_contrib_ROIAlign-20": "positions that are NaN",
    **dict.fromkeys([f"{name}-beyond all bounds" for name in (
        "ROIPooling-16", "_contrib_ROIAlign-21", "_contrib_ROIAlign-22")],
        "positions that are not finite"),
    "ROIPooling-11-no maxima": NAN, "ROIPooling-12-no maxima": NAN, "_contrib_box_iou-2-nan": NAN,
    "_contrib_box_iou-7-nan and infinity": NAN, "_contrib_box_iou-8-nan and infinity": NAN,
    **dict.fromkeys([f"_contrib_box_nms-{index}-nan and infinity" for index in (37, 39)],
                    "boxes that are not finite"),
    "BilinearSampler-5": "positions of 1e30", "BilinearSampler-6": "positions that are not finite",
}
"""Samples whose results differ, and why."""
REFUSED = {
    "_contrib_div_sqrt_dim": "integers", "_image_normalize": "integers", "LRN": "even windows",
    "Pooling": "windows beyond the image", "RNN": "projections and clipped cells",
    "_contrib_quantized_elemwise_add": "two types", "GridGenerator": "flows of one pixel",
    "_contrib_box_nms": "thresholds out of range, float16",
    "_contrib_MultiProposal": "float64", "_contrib_ROIAlign": "position-sensitive channels",
    "_contrib_quantize_v2": "integers without a range",
    "_contrib_quantized_elemwise_mul": "truncated products",
    "_sg_mkldnn_conv": "int32 outputs", "_sg_mkldnn_fully_connected": "int32 outputs",
}
"""Operators of which some samples are refused, and which."""


@functools.cache
def samples() -> dict[str, dict[str, Sample]]:
    """Samples by operator, of operators that can be exported."""
    found: dict[str, dict[str, Sample]] = {}
    for name, sample in all_samples().items():
        cls = OPS.get(sample.op)
        op = cls.name if cls is not None else ""
        if (op in CONVERTERS or op in REPLACED) and not (sample.error or sample.random):
            found.setdefault(op, {})[name] = sample
    return found


RANDOM = {"_random_normal", "_random_normal_like", "_random_uniform", "_random_uniform_like",
          "_sample_multinomial"}
"""Operators that test_export_networks.py tests by their distributions."""


def fixed_inputs(op: str, names: list[str]) -> set[str]:
    """Inputs that are parameters of the model."""
    if op == "RNN":
        return {"parameters"}
    if "quantize" in op or op.startswith("_sg"):
        return set(names) - {"data", "sum", "lhs", "rhs"}
    return set()


def exported(op: str, sample: Sample, dtype: str, opset: int, dynamic: bool = False
             ) -> tuple[Export, dict]:
    """The model of a sample, and its arrays."""
    symbol, arrays = compose(sample), sample.arrays(dtype)
    fixed = fixed_inputs(op, symbol.list_inputs()) | set(symbol.list_auxiliary_states())
    fixed &= set(symbol.list_inputs())
    params = {name: mx.nd.array(arrays[name], dtype=arrays[name].dtype) for name in fixed}
    inputs = [node.name for node in inference_form(Graph(symbol.entries)).variables
              if node.name not in fixed]
    shapes = {name: arrays[name].shape for name in inputs}
    return build_model(symbol, params, shapes, [arrays[name].dtype for name in inputs],
                       opset=opset, dynamic=dynamic), arrays


def errors(op: str, sample: Sample, opset: int) -> Iterator[str]:
    """Outputs that differ."""
    dtype = "float32" if "float32" in sample.dtypes else sample.dtypes[0]
    model, arrays = exported(op, sample, dtype, opset)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.model().SerializeToString(), options)
    found = session.run(None, {given.name: arrays[given.name] for given in session.get_inputs()})
    graph = Graph(model.symbol.entries)
    expected = run_graph(graph, {name: array.copy() for name, array in arrays.items()})
    for entry, result in zip(graph.outputs, found, strict=True):
        comparison = compare("sample", str(entry.index), expected[entry], result)
        # Quantised values and sums are rounded after factors that ONNX applies in another order.
        near = op.startswith("_contrib_quantized") and (
            comparison.absolute <= 1 or comparison.relative < 1e-6
        )
        if not (comparison.passed or near):
            yield str(comparison)


@pytest.mark.parametrize("op", sorted(samples()))
def test_samples(op):
    wrong, right, refused = {}, [], {}
    for name, sample in samples()[op].items():
        if name in OTHERWISE:
            continue
        try:
            found = list(errors(op, sample, max(17, OPSETS.get(op, 17))))
        except UnsupportedNodes as error:
            refused[name] = error.nodes
            continue
        wrong.update({name: found} if found else {})
        right.append(name)
    assert not wrong
    assert right, "no sample exercises the converter"
    assert not refused or op in REFUSED, refused


@pytest.mark.parametrize("op", sorted(samples()))
def test_latest_opset(op):
    """One sample of each operator in the latest opset."""
    name = next(name for name in samples()[op] if name not in OTHERWISE)
    try:
        assert not list(errors(op, samples()[op][name], KERNELS_UNTIL.get(op, LATEST)))
    except UnsupportedNodes:
        assert op in REFUSED


@pytest.mark.parametrize("op", sorted(samples()))
def test_every_opset(op):
    """The file of one sample is valid in all opsets of the matrix."""
    name = next(name for name in samples()[op] if name not in OTHERWISE)
    sample = samples()[op][name]
    dtype = "float32" if "float32" in sample.dtypes else sample.dtypes[0]
    for opset in exported_opsets()[op]:
        if opset <= LATEST:
            try:
                model = exported(op, sample, dtype, opset)[0].model()
            except UnsupportedNodes:
                assert op in REFUSED
            else:
                onnx.checker.check_model(model, full_check=True)
                assert model.opset_import[0].version == opset


def test_exceptions_are_needed():
    """Samples listed as different do differ."""
    for name in OTHERWISE:
        sample = all_samples()[name]
        try:
            assert list(errors(OPS[sample.op].name, sample, 17)), name
        except Failed:  # the runtime refuses these inputs
            pass


def test_every_converter_has_samples():
    names = {op.name for op in OPS.values()}
    assert set(CONVERTERS) <= names
    assert set(CONVERTERS) - samples().keys() == RANDOM
    assert names >= REPLACED and names >= IDENTITIES


@pytest.mark.parametrize("limit, symbol, shapes", [
    ("convolution.MAX_MATRIX", mx.sym.contrib.AdaptiveAvgPooling2D(
        mx.sym.Variable("x"), output_size=(2, 3)), {"x": (1, 1, 5, 7)}),
    ("detection.MAX_ANCHORS", mx.sym.contrib.Proposal(
        *map(mx.sym.Variable, "xyz"), scales=(8,), ratios=(1,), rpn_post_nms_top_n=4),
     {"x": (1, 2, 5, 5), "y": (1, 4, 5, 5), "z": (1, 3)})])
def test_constants_are_limited(monkeypatch, limit, symbol, shapes):
    """An operator over an absurd image would become a file of gigabytes."""
    build_model(symbol, {}, shapes)
    monkeypatch.setattr(f"nbmod.onnx.exporting.converters.{limit}", 20)
    with pytest.raises(UnsupportedNodes, match="too large|more than"):
        build_model(symbol, {}, shapes)
