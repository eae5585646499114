"""Every sample of `tests/cases`, computed by nbmod and by real MXNet 1.9.1.

Compared are the outputs with their types, the gradients, what the op left in its auxiliary states
and arguments, and the shapes inferred from the first input alone. The table printed at the end of
the run says for each op what was compared.
"""

from __future__ import annotations

from typing import Any

import pytest

import nbmod as mx
from tests import either
from tests.cases import Sample, all_samples
from tests.compare import assert_same
from tests.oracle.coverage import covered

SAMPLES = {name: s for name, s in all_samples().items() if s.oracle and not s.error}
RUNS = [(name, dtype) for name, s in SAMPLES.items() for dtype in s.mx_dtypes or s.dtypes]


@pytest.mark.parametrize("name, dtype", RUNS, ids=[f"{n}-{d}" for n, d in RUNS])
def test_same_as_mxnet(oracle, name, dtype):
    sample = SAMPLES[name]
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
    inputs, attrs = sample.arrays(dtype), either.attr_strings(sample.attrs)
    grad = {name: "write" for name in sample.differentiated(dtype)}
    symbol = either.compose(mx, sample.op, sample.attrs, list(inputs), sample.keyword)
    ours = either.run(mx, symbol, inputs, {}, None, sample.is_train)
    heads = None
    if grad:
        heads = None if sample.loss else sample.heads(ours["outputs"])
        ours = either.run(mx, symbol, inputs, grad, heads, sample.is_train)
    theirs = oracle.call(
        "mx_ops.run_op", sample.op, attrs, inputs, sample.keyword, grad, heads, sample.is_train
    )
    return ours, theirs


def compare_rest(sample: Sample, dtype: str, ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Gradients, and what the op did to its auxiliary states and arguments."""
    for kind, what in (("grads", "gradient"), ("aux", "aux"), ("args", "")):
        assert set(ours[kind]) == set(theirs[kind]), kind
        for name, want in theirs[kind].items():
            assert_same(ours[kind][name], want, sample.tolerance(dtype), f"{kind} {name}")
        if what and theirs[kind]:
            covered(sample.op, what, dtype)


@pytest.mark.parametrize("name", SAMPLES)
def test_first_input_tells_the_same_shapes(oracle, name):
    sample = SAMPLES[name]
    specs = sample.specs
    symbol = either.compose(mx, sample.op, sample.attrs, list(specs), sample.keyword)
    arguments = symbol.list_arguments()
    known = {arg: specs[arg].shape for arg in arguments[:1]}
    theirs = oracle.call("mx_ops.infer", symbol.tojson(), known, partial=True)
    assert (theirs["arguments"], theirs["aux"]) == (arguments, symbol.list_auxiliary_states())
    ours = symbol.infer_shape_partial(**known)
    kinds = ("arg_shapes", "out_shapes", "aux_shapes")
    for found, kind in zip(ours, kinds, strict=True):
        assert [tuple(shape or ()) for shape in found] == [tuple(s) for s in theirs[kind]], kind
    covered(sample.op, "shapes", "")
