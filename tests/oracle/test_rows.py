"""Every op of the first two tiers has a full row in the coverage table.

What the samples leave open is tested by variants of them (`variants.py`): both packages give the
same results, or MXNet refuses, and then nbmod may do anything but crash.  Arrays without elements
have a test of their own: a dimension of 0 is an unknown one to both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from reprlib import Repr
from typing import Any

import pytest

import nbmod as mx
from nbmod.ops import OPS
from tests.cases import Sample, all_samples
from tests.compare import assert_same
from tests.oracle.client import OracleCrash, OracleError
from tests.oracle.coverage import covered
from tests.oracle.test_ops import run_both
from tests.oracle.tiers import TIER_1, TIER_2
from tests.oracle.variants import FLOATS, INTEGERS, SHAPES, applies, tags, variants, with_rows
from tests.programs import common

MOST = 6
"""Samples of an op that are tried for a cell."""

SHORT = Repr()
SHORT.maxother = 200
"""How the inputs of a call are shown: the values of large ones would fill books."""

KNOWN = {
    ("norm", "int32"), ("norm", "int64"), ("norm", "int8"), ("norm", "uint8"),
    ("Convolution", "int8"),
}  # fmt: skip
"""Cells where nbmod differs on purpose (docs/deviations.md)."""

every_op = pytest.mark.parametrize("op", TIER_1 + TIER_2)


def samples_of(op: str) -> list[Sample]:
    """Its own samples, or those of the op that it is an alias of."""
    good = [s for s in all_samples().values() if s.oracle and not s.error and s.op in OPS]
    return [s for s in good if s.op == op] or [
        replace(s, op=op) for s in good if OPS[s.op] is OPS[op]]  # fmt: skip


def open_cells(op: str, samples: list[Sample]) -> list[str]:
    """The cells that `test_ops.py` leaves open and that the op can have."""
    types, gradients, shapes = set(), set(), set()
    for sample in samples:
        run = sample.mx_dtypes or sample.dtypes
        types |= set(run)
        gradients |= {t for t in run if sample.differentiated(t) or sample.random}
        shapes |= tags(sample)
    if not any(sample.specs for sample in samples):
        gradients = types
    wanted = [t for t in FLOATS if t not in types & gradients]
    wanted += [t for t in INTEGERS if t not in types]
    return wanted + [s for s in SHAPES if s not in shapes and applies(op, s)]


@every_op
def test_row_is_full(oracle, op):
    samples = samples_of(op)
    assert samples, f"{op} has no sample"
    wrong = []
    for cell in open_cells(op, samples):
        if (op, cell) not in KNOWN:
            answer, problem = fill(oracle, samples, cell)
            note(op, cell, answer)
            wrong += problem
    assert not wrong, "\n".join(wrong)


def fill(oracle: Any, samples: list[Sample], cell: str) -> tuple[str, list[str]]:
    """Try until something agrees: the result, and the error."""
    for sample in samples[:MOST]:
        for variant, dtype in variants(sample, cell):
            try:
                answer = judge(oracle, variant, dtype)
            except OracleCrash:
                return "dies", []
            except AssertionError as error:
                return "wrong", [f"{cell} {SHORT.repr(variant.inputs)} {variant.attrs}: {error}"]
            if answer:
                return answer, []
    return "refused", []


def note(op: str, cell: str, answer: str) -> None:
    """Enter a result into the table."""
    if cell in SHAPES:
        covered(op, cell, "" if answer in ("forward", "gradient", "random") else answer)
    elif answer in ("forward", "gradient", "random"):
        covered(op, "random" if answer == "random" else "forward", cell)
        if answer == "gradient":
            covered(op, "gradient", cell)
    else:
        covered(op, answer, cell)


def judge(oracle: Any, sample: Sample, dtype: str) -> str:
    """The extent of agreement: "gradient", "forward", "random"; "" where MXNet raises."""
    if sample.differentiated(dtype):
        grads: list[Any] = [sample.grad, ()]
    else:
        grads = [()] if sample.out is not None or sample.grad is None else [None, ()]
    for grad in grads:
        asked = replace(sample, grad=grad)
        if agrees(oracle, asked, dtype):
            if sample.random:
                return "random"
            return "gradient" if asked.differentiated(dtype) else "forward"
    return ""


def agrees(oracle: Any, sample: Sample, dtype: str) -> bool:
    """Both give the same; False where MXNet raises; AssertionError otherwise."""
    try:
        ours, theirs = run_both(oracle, sample, dtype)
    except OracleError:
        return False
    except mx.MXNetError as error:
        assert refused(oracle.call, *forward_call(sample, dtype)), error
        return False
    assert len(ours["outputs"]) == len(theirs["outputs"])
    for index, want in enumerate(theirs["outputs"]):
        got = ours["outputs"][index]
        if sample.random or not sample.compares(index):
            assert (got.shape, got.dtype) == (want.shape, want.dtype), f"output {index}"
        else:
            assert_same(got, want, tolerance(sample, dtype), f"output {index}")
    for name, want in {} if sample.random else theirs["grads"].items():
        assert_same(ours["grads"][name], want, tolerance(sample, dtype), f"gradient of {name}")
    return True


def tolerance(sample: Sample, dtype: str) -> float:
    """The sample's; integers may give float32, and long sums are less accurate."""
    single = sample.tolerance("float32") if dtype in INTEGERS else 0
    return (10 if "large" in tags(sample) else 1) * max(sample.tolerance(dtype), single)


def forward_call(sample: Sample, dtype: str) -> tuple[Any, ...]:
    """The request to the oracle for the forward pass alone."""
    inputs = sample.arrays(dtype)
    if sample.out is not None:
        return "mx_ops.call_op", sample.op, sample.attrs, inputs, sample.keyword, sample.out
    return ("mx_ops.run_op", sample.op, common.attr_strings(sample.attrs), inputs, sample.keyword,
            None, None, sample.is_train)  # fmt: skip


def refused(function: Callable[..., Any], *args: Any) -> bool:
    """Whether MXNet answers with an error."""
    try:
        function(*args)
    except OracleError:
        return True
    return False


@every_op
@pytest.mark.filterwarnings("ignore:Cannot decide shape")
def test_arrays_without_elements_are_refused_as_unknown(oracle, op):
    """Inference treats them as unknown, and nothing runs.

    MXNet itself runs a few ops all the same; some of them read out of bounds.
    """
    sample = with_rows(samples_of(op)[0], 0, False)
    symbol = common.compose(mx, op, sample.attrs, list(sample.specs), sample.keyword)
    shapes = {name: sample.specs[name].shape for name in symbol.list_arguments()}
    try:
        ours = common.infer(symbol, shapes)["out_shapes"]
    except mx.MXNetError:
        ours = None
    try:
        theirs = oracle.call("mx_ops.infer", symbol.tojson(), shapes)["out_shapes"]
    except OracleError:
        theirs = None
    assert theirs is None or ours == theirs
    if sample.specs:
        with pytest.raises(mx.MXNetError):
            common.run(mx, symbol, sample.arrays("float32"), {})
    covered(op, "empty", "refused" if theirs is None else "")
