"""Parameters of extreme values: an operator computes, or an MXNetError names what is wrong."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

import pytest

import nbmod as mx
from tests import sample_runs
from tests.cases import Sample, all_samples

FAMILIES = (".ops.detection.", ".ops.random.", ".contrib.simpledet.", ".ops.tensor.repetition",
            ".ops.image.")
INTEGERS = 0, -1, 2 ** 31 - 1
NUMBERS = 0.0, -1.0, math.nan, math.inf, 1e30


def extremes(value: object) -> list[object]:
    """Values of the kind of a parameter's; tuples, which often count something, of its length."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return []
    if isinstance(value, tuple):
        return [(), *({one: (one,) * len(value) for one in extremes(value[0])}.values() if value
                      else ())]
    return [*(INTEGERS if isinstance(value, int) else NUMBERS)]


def operators() -> Iterator[tuple[str, Sample, object]]:
    """One sample of each operator for every number of inputs, and the operator as it is called."""
    seen = set()
    for name, sample in all_samples().items():
        if sample.error or sample.eager or sample.out is not None:
            continue
        if (kind := (sample.op, len(sample.inputs))) not in seen:
            seen.add(kind)
            op = sample_runs.compose(sample).entries[0].node.op
            if any(family in f"{type(op).__module__}." for family in FAMILIES):
                yield name, sample, op


@pytest.mark.parametrize("sample, op", [pytest.param(sample, op, id=name)
                                        for name, sample, op in operators()])
def test_extreme_parameters_are_computed_or_refused(sample, op):
    for field in dataclasses.fields(op):
        for value in extremes(getattr(op, field.name)):
            changed = dataclasses.replace(sample, attrs={**sample.attrs, field.name: value})
            try:
                symbol, inputs = sample_runs.compose(changed), changed.arrays()
                arrays = {name: mx.nd.array(value, dtype=value.dtype)
                          for name, value in inputs.items()}
                states = symbol.list_auxiliary_states()
                executor = symbol.bind(
                    mx.cpu(), {name: array for name, array in arrays.items() if name not in states},
                    aux_states={name: arrays[name] for name in states})
                executor.forward(is_train=False)
            except mx.MXNetError as error:
                assert str(error)


@pytest.mark.parametrize("name, params", [
    ("clip", {"a_min": -1e308, "a_max": 1e308}), ("hard_sigmoid", {"alpha": 1e308}),
    ("smooth_l1", {"scalar": 1e308})])
def test_numbers_beyond_float32_are_infinite_without_a_warning(name, params):
    x = mx.nd.ones(3)
    single = mx.nd.invoke(mx.ops.OPS[name].from_attrs(params), [x])
    exe = getattr(mx.sym, name)(mx.sym.var("x"), **params).bind(mx.cpu(), {"x": x})
    assert exe.forward()[0].asnumpy().tolist() == single.asnumpy().tolist()
