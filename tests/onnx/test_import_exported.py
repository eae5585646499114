"""Exported samples of operators, imported from their nodes alone: the same results as before."""

from __future__ import annotations

import pytest

from nbmod.graph import Graph

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from nbmod.onnx.exporting.converter import OPSETS  # noqa: E402
from nbmod.onnx.exporting.export_graph import UnsupportedNodes  # noqa: E402
from nbmod.onnx.importing import UnsupportedModel, import_model  # noqa: E402
from nbmod.onnx.reference_run import run_graph  # noqa: E402
from nbmod.onnx.verification import compare  # noqa: E402
from tests.onnx.test_export_ops import OTHERWISE, exported, samples  # noqa: E402

NOT_IMPORTED = {
    "_contrib_box_nms": "NonMaxSuppression", "_contrib_MultiBoxDetection": "NonMaxSuppression",
    "_contrib_Proposal": "NonMaxSuppression", "_contrib_MultiProposal": "NonMaxSuppression",
    "_while_loop": "stacked outputs of a loop that may end early",
    "BilinearSampler": "images of one row or column"}
"""Operators of which samples become nodes that are not imported, and which."""
FIRST = 3
"""Samples of each operator."""


def chosen(op: str) -> list[str]:
    names = [name for name in samples()[op] if name not in OTHERWISE and "cut off" not in name]
    return names[:FIRST]


@pytest.mark.parametrize("op", sorted(op for op in samples() if chosen(op)))
def test_an_exported_operator(op):
    for name in chosen(op):
        sample = samples()[op][name]
        dtype = "float32" if "float32" in sample.dtypes else sample.dtypes[0]
        try:
            model, arrays = exported(op, sample, dtype, max(17, OPSETS.get(op, 17)))
        except UnsupportedNodes:
            continue
        plain = model.model()
        del plain.metadata_props[:]  # says which operators they were
        try:
            symbol, arguments, states = import_model(plain)
        except UnsupportedModel as error:
            assert NOT_IMPORTED.get(op, "no reason") in str(error)
            continue
        values = {key: array.reshape(array.shape or (1,)) for key, array in arrays.items()}
        values.update({key: array.asnumpy() for key, array in {**arguments, **states}.items()})
        before, after = Graph(model.symbol.entries), Graph(symbol.entries)
        expected = run_graph(before, {key: array.copy() for key, array in arrays.items()})
        found = run_graph(after, values)
        for old, new in zip(before.outputs, after.outputs, strict=True):
            assert found[new].dtype == expected[old].dtype, name
            assert found[new].shape == expected[old].shape, name
            comparison = compare("sample", name, expected[old], found[new])
            # Quantised values are rounded after factors that ONNX applies in another order.
            rounded = "quantize" in op and comparison.absolute <= 1
            assert comparison.passed or rounded, f"{name}: {comparison}"
