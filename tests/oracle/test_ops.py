"""Every sample of `tests/cases`, computed by nbmod and by real MXNet 1.9.1.

Compared are the outputs with their types, the gradients, the auxiliary states and arguments after
the call, and the shapes inferred from the first input alone. Where MXNet cannot run float16 on the
CPU, its float32 results for the same values count. The table at the end of the run lists for each
op what was compared.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nbmod as mx
from nbmod.ops import OPS
from nbmod.ops.param import fields_of
from tests.cases import Sample, all_samples, array
from tests.cases.boxes import IOU, NMS
from tests.compare import assert_same
from tests.ops.detection_calls import CALLS
from tests.oracle.client import OracleError
from tests.oracle.coverage import covered
from tests.programs import common

SAMPLES = {name: s for name, s in all_samples().items() if s.oracle and not s.error}
RUNS = [(name, dtype) for name, s in SAMPLES.items() for dtype in s.mx_dtypes or s.dtypes]


@pytest.mark.parametrize("name, dtype", RUNS, ids=[f"{n}-{d}" for n, d in RUNS])
def test_same_as_mxnet(oracle, exact_products, name, dtype):
    sample = SAMPLES[name]
    with exact_products(sample.op.startswith(("_sg_mkldnn_", "_contrib_quantized_"))):
        require_same(oracle, sample, dtype)


@pytest.mark.parametrize("op", [IOU, NMS])
def test_random_calls_same_as_mxnet(oracle, op):
    for seed in range(100):
        attrs, values = CALLS[op](np.random.RandomState(seed))
        inputs = dict(zip(OPS[op].inputs, map(array, values), strict=True))
        try:
            require_same(oracle, Sample(op, inputs, attrs, ()), "float32")
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {attrs}") from error


def require_same(oracle: Any, sample: Sample, dtype: str) -> None:
    ours, theirs = run_both(oracle, sample, dtype)
    tolerance = sample.tolerance(dtype)
    assert len(ours["outputs"]) == len(theirs["outputs"])
    for index, want in enumerate(theirs["outputs"]):
        got = ours["outputs"][index]
        if sample.random or not sample.compares(index):
            assert (got.shape, got.dtype) == (want.shape, want.dtype), f"output {index}"
        else:
            assert_same(got, want, tolerance, f"output {index}")
    covered(sample.op, "random" if sample.random else "forward", dtype)
    if not sample.random:
        compare_rest(sample, dtype, ours, theirs)


def run_both(oracle: Any, sample: Sample, dtype: str) -> tuple[dict[str, Any], dict[str, Any]]:
    inputs, attrs = sample.arrays(dtype), common.attr_strings(sample.attrs)
    if sample.out is not None:
        call = (sample.op, sample.attrs, inputs, sample.keyword, sample.out)
        return ({"aux": {}, "grads": {}, **found} for found in
                (common.call(mx, *call), oracle.call("mx_ops.call_op", *call)))
    grad = {name: "write" for name in sample.differentiated(dtype)}
    if sample.eager:
        call = (sample.op, sample.attrs, inputs, sample.keyword)
        heads = sample.heads(common.taped(mx, *call, {}, None, sample.is_train)["outputs"])
        rest = (grad, heads, sample.is_train)
        return (common.taped(mx, *call, *rest),
                oracle.call("mx_scripts.run", "common", "taped", *call, *rest))
    symbol = common.compose(mx, sample.op, sample.attrs, list(inputs), sample.keyword)
    ours = common.run(mx, symbol, inputs, {}, None, sample.is_train)
    heads = None
    if grad:
        heads = None if sample.loss else sample.heads(ours["outputs"])
        ours = common.run(mx, symbol, inputs, grad, heads, sample.is_train)
    call = {"keyword": sample.keyword, "grad": grad, "is_train": sample.is_train}
    try:
        theirs = oracle.call("mx_ops.run_op", sample.op, attrs, inputs, heads=heads, **call)
    except OracleError:
        if dtype != "float16":
            raise
        theirs = run_in_single(oracle, sample.op, attrs, inputs, heads, call)
        theirs = in_types_of(theirs, ours)
    return ours, theirs


def run_in_single(
    oracle: Any,
    op: str,
    attrs: dict[str, str],
    inputs: dict[str, np.ndarray],
    heads: list[np.ndarray] | None,
    call: dict[str, Any],
) -> dict[str, Any]:
    """MXNet has no float16 kernel of many ops on the CPU: the same values in float32 then."""
    attrs = {key: "float32" if value == "float16" else value for key, value in attrs.items()}
    inputs = {name: single(array) for name, array in inputs.items()}
    heads = None if heads is None else [single(head) for head in heads]
    return oracle.call("mx_ops.run_op", op, attrs, inputs, heads=heads, **call)


def single(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float32) if array.dtype == np.float16 else array


def in_types_of(theirs: Any, ours: Any) -> Any:
    """`theirs`, with every float32 array that is float16 in `ours` converted to it."""
    if isinstance(theirs, dict):
        return {key: in_types_of(value, ours[key]) for key, value in theirs.items() if key in ours}
    if isinstance(theirs, list):
        return [in_types_of(*pair) for pair in zip(theirs, ours, strict=True)]
    narrowed = theirs.dtype == np.float32 and ours.dtype == np.float16
    return theirs.astype(np.float16) if narrowed else theirs


def compare_rest(sample: Sample, dtype: str, ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Gradients, and the changes of auxiliary states and arguments."""
    for kind, what in (("grads", "gradient"), ("aux", "aux"), ("args", "")):
        assert set(ours[kind]) == set(theirs[kind]), kind
        for name, want in theirs[kind].items():
            assert_same(ours[kind][name], want, sample.tolerance(dtype), f"{kind} {name}")
        if what and theirs[kind]:
            covered(sample.op, what, dtype)


@pytest.mark.parametrize("name", [name for name, s in SAMPLES.items()
                                  if s.inference and s.out is None])
def test_inference_from_the_first_input_knows_what_mxnet_knows(oracle, name):
    """Nothing contradicts MXNet and nothing is missing; nbmod may infer more."""
    sample = SAMPLES[name]
    symbol = common.compose(mx, sample.op, sample.attrs, list(sample.specs), sample.keyword)
    first = symbol.list_arguments()[:1]
    given = [{"shapes": {arg: sample.specs[arg].shape for arg in first}}]
    for dtype in sample.mx_dtypes or sample.dtypes:
        given.append({"types": {arg: sample.arrays(dtype)[arg].dtype.name for arg in first}})
    for known in given:
        try:
            theirs = oracle.call("mx_ops.infer", symbol.tojson(), **known, partial=True)
        except OracleError:
            continue  # some ops of MXNet refuse to infer before all inputs are known
        for fact, want in theirs.items():
            assert_knows(common.infer(symbol, **known, partial=True)[fact], want, fact)
    covered(sample.op, "inference", "")


def test_ops_know_the_parameters_that_mxnet_knows(oracle):
    """So none with a meaning there is rejected, or ignored in a file."""
    names = sorted({*OPS} & {*oracle.call("mx_ops.list_ops")} - {"Custom"})
    ours = {name: {field.name for field in fields_of(OPS[name])} for name in names}
    for name, theirs in oracle.call("mx_ops.parameters_of", names).items():
        assert {*(theirs or ())} <= ours[name], name
        # These read known parameters and ignore the rest; programs pass gather_nd an axis.
        assert (theirs is not None or not ours[name] or "RegressionOutput" in name
                or (name, ours[name]) == ("gather_nd", {"axis"}))


def assert_knows(got: Any, want: Any, what: str) -> None:
    """`got` is `want` wherever that is known: 0, () and None are not."""
    if isinstance(want, (list, tuple)) and isinstance(got, (list, tuple)) and want:
        assert len(got) == len(want), what
        for one, other in zip(got, want, strict=True):
            assert_knows(one, other, what)
    elif want:
        assert got == want, what
