"""ONNX's own node tests as a judge of the importer: `python -m bench.onnx_import [-k PART]`.

Every test of `onnx.backend.test` is imported and run, and its outputs are compared with the
tolerances that the test states.  Inputs whose values must be known at import (shapes, axes) are
given as constants; all others stay inputs.  The table goes to `bench/results/onnx-import.md`.
"""

from __future__ import annotations

import argparse
import importlib
import re
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nbmod.base import FLAG_OF_DTYPE, MXNetError
from nbmod.graph import Graph
from nbmod.onnx.importing import ShapeNeeded, import_model
from nbmod.onnx.reference_run import run_graph

TABLE = Path(__file__).parent / "results" / "onnx-import.md"
NO_COUNTERPART = {
    "strings": ["StringConcat", "StringNormalizer", "StringSplit", "RegexFullMatch",
                "TfIdfVectorizer", "LabelEncoder"],
    "sequences and optional values": [
        "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert",
        "SequenceLength", "SequenceMap", "SplitToSequence", "ConcatFromSequence", "Optional",
        "OptionalGetElement", "OptionalHasElement"],
    "the shape of the output depends on values": ["NonZero", "Unique", "NonMaxSuppression"],
    "no operator on bits": ["BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor",
                            "BitCast"],
    "no operator of MXNet, nor a composition of some": [
        "CumProd", "MaxUnpool", "ImageDecoder", "MelWeightMatrix", "STFT", "DFT", "FlexAttention",
        "TensorScatter", "ArrayFeatureExtractor", "Binarizer", "TreeEnsemble"],
    "steps of optimizers, which MXNet has outside of graphs": ["Adagrad", "Adam", "Momentum",
                                                              "Gradient"],
    "random numbers that differ from run to run": ["Bernoulli", "RandomUniformLike", "Multinomial"],
}
"""Reason -> operators of ONNX that MXNet has no counterpart for."""
UNMATCHED = {operator: reason for reason, operators in NO_COUNTERPART.items()
             for operator in operators}


class Verdict(NamedTuple):
    """What became of a test."""

    name: str
    operator: str
    passed: bool
    comparable: bool
    reason: str


class NodeTest(NamedTuple):
    """A test of ONNX: pairs of inputs and outputs of a model, and how close they must be."""

    name: str
    model: Any
    data_sets: Sequence[Any]
    rtol: float
    atol: float


def node_tests(modules: Sequence[str] = ()) -> list[NodeTest]:
    """The node tests of some modules of onnx.backend.test.case.node, all of them by default.

    They are made when the modules are imported, which takes a while for all.
    """
    import onnx.backend.test.case.node as cases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for module in modules:
            importlib.import_module(f"{cases.__name__}.{module}")
        found = cases._NodeTestCases if modules else cases.collect_testcases(None)
    return [NodeTest(t.name, t.model, t.data_sets, t.rtol, t.atol) for t in found]


def operator_of(name: str, model: Any) -> str:
    """The operator that a test is of: its node, or for an expanded function that of its name."""
    if "_expanded" not in name:
        return model.graph.node[-1].op_type if model.graph.node else "?"
    return f"{name.removeprefix('test_').split('_')[0]} (expanded)"


def judge(test: NodeTest) -> Verdict:
    """Import a test, run it and compare."""
    passed, reason, lacking = True, "", without_counterpart(test)
    try:
        check(test)
    except (MXNetError, AssertionError, ValueError, TypeError, KeyError, IndexError) as error:
        passed, reason = False, lacking or clean(error)
    return Verdict(test.name, operator_of(test.name, test.model), passed, passed or not lacking,
                   reason)


def without_counterpart(test: NodeTest) -> str:
    """Why MXNet has no counterpart of an operator or type of a test; empty if it has."""
    for node in test.model.graph.node:
        if node.op_type in UNMATCHED:
            return UNMATCHED[node.op_type]
    types = [*foreign_types(test.model)]
    return f"types {types}" if types else ""


def check(test: NodeTest) -> None:
    """AssertionError unless the outputs of an imported test are as expected."""
    for inputs, outputs in test.data_sets:
        compare(test.model, inputs, outputs, test.rtol, max(test.atol, 1e-6))


def clean(error: Exception) -> str:
    text = f"{type(error).__name__}: {error}".replace("|", "/")
    return re.sub(r"\s+", " ", text)[:200]


def foreign_types(model: Any) -> Iterable[str]:
    """Types of inputs and outputs that MXNet lacks, and outputs without elements."""
    import onnx

    for value in (*model.graph.input, *model.graph.output):
        tensor = value.type.tensor_type
        if not value.type.HasField("tensor_type"):
            yield str(value.type.WhichOneof("value"))
        elif onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type) not in FLAG_OF_DTYPE:
            yield onnx.TensorProto.DataType.Name(tensor.elem_type)
    if any(d.HasField("dim_value") and not d.dim_value
           for value in model.graph.output for d in value.type.tensor_type.shape.dim):
        yield "no elements"


def compare(model: Any, inputs: Sequence[Any], outputs: Sequence[Any], rtol: float, atol: float
            ) -> None:
    """AssertionError unless the outputs are as expected."""
    names = [value.name for value in model.graph.input]
    given = dict(zip(names, map(as_array, inputs), strict=False))
    found = run(model, given)
    assert len(found) == len(outputs)
    for each, expected in zip(found, outputs, strict=True):
        want = as_array(expected)
        assert each.dtype == want.dtype, f"type {each.dtype}, expected {want.dtype}"
        assert each.shape == (want.shape or (1,)), f"shape {each.shape}, expected {want.shape}"
        # Sums of halves are rounded in another order: two units in the last place of values near 1.
        least = 2e-3 if want.dtype == np.float16 else atol
        np.testing.assert_allclose(each.reshape(want.shape), want, rtol=rtol, atol=least)


def as_array(value: Any) -> Any:
    import onnx

    return (onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto)
            else np.asarray(value))


def run(model: Any, given: dict[str, Any]) -> list[Any]:
    """Outputs of an imported model; inputs that must be constants become so."""
    shapes = {name: array.shape for name, array in given.items() if array.shape and array.size}
    symbol, arguments, states = imported(model, given, shapes)
    values = {name: array.asnumpy() for name, array in {**arguments, **states}.items()}
    values.update({name: array.reshape(array.shape or (1,)) for name, array in given.items()})
    results = run_graph(Graph(symbol.entries), values)
    return [results[entry] for entry in symbol.entries]


def imported(model: Any, given: dict[str, Any], shapes: dict[str, Any]) -> Any:
    known: dict[str, Any] = {}
    while True:
        try:
            return import_model(model, {k: v for k, v in shapes.items() if k not in known}, known)
        except ShapeNeeded as error:
            needed = [name for name in error.inputs if name not in known]
            if not needed or any(given[n].dtype.kind == "f" and given[n].ndim > 1 for n in needed):
                raise  # only shapes, axes, bounds and the like are made constants
            known.update({name: given[name] for name in needed})


def table(verdicts: Sequence[Verdict]) -> str:
    """The results as a page of Markdown."""
    passed = sum(v.passed for v in verdicts)
    comparable = [v for v in verdicts if v.comparable]
    share = sum(v.passed for v in comparable)
    rows: dict[str, list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        rows[verdict.operator].append(verdict)
    lines = ["# Import of ONNX's node tests", "", "`python -m bench.onnx_import`; onnx "
             f"{onnx_version()}, outputs compared with the tolerances of each test.", "",
             f"- of all: {passed} of {len(verdicts)} ({passed / len(verdicts):.1%})",
             f"- of those whose operators and types have a counterpart: {share} of "
             f"{len(comparable)} ({share / len(comparable):.1%})", "",
             "| operator | passed | tests | first reason of those that do not |",
             "|---|--:|--:|---|"]
    for operator, each in sorted(rows.items()):
        reason = next((v.reason for v in each if not v.passed), "")
        lines.append(f"| {operator} | {sum(v.passed for v in each)} | {len(each)} | {reason} |")
    return "\n".join(lines) + "\n"


def onnx_version() -> str:
    import onnx

    return str(onnx.__version__)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-k", default="", help="only tests whose names contain this")
    parser.add_argument("-v", action="store_true", help="print every test that does not pass")
    options = parser.parse_args()
    tests = [test for test in node_tests() if options.k in test.name]
    warnings.simplefilter("ignore")
    verdicts = [judge(test) for test in tests]
    text = table(verdicts)
    if not options.k:
        TABLE.write_text(text, encoding="utf-8")
    print(text.split("| operator")[0])
    failed = [v for v in verdicts if not v.passed and v.comparable]
    for verdict in failed if options.v else []:
        print(verdict.name, "|", verdict.reason)
    print(Counter(v.operator for v in failed).most_common(40))


if __name__ == "__main__":
    main()
