"""Samples (`tests/cases`) run by nbmod, through its public interface."""

from __future__ import annotations

from typing import Any

import numpy as np

import nbmod as mx
from tests.cases import Sample
from tests.programs import common


def compose(sample: Sample) -> mx.sym.Symbol:
    """The op over variables."""
    return common.compose(mx, sample.op, sample.attrs, list(sample.specs), sample.keyword)


def run(sample: Sample, dtype: str, grad: dict[str, str]) -> dict[str, Any]:
    """What `common.run` finds in the current context; `grad` are requests for gradients."""
    symbol, inputs = compose(sample), sample.arrays(dtype)
    heads = None
    if grad and not sample.loss:
        shapes, types = inferred(symbol, inputs)
        heads = sample.heads([np.zeros(s, t) for s, t in zip(shapes, types, strict=True)])
    return common.run(mx, symbol, inputs, grad, heads, sample.is_train)


def inferred(symbol: mx.sym.Symbol, inputs: dict[str, np.ndarray]) -> tuple[list, list]:
    """Shapes and types of the outputs when those of all arguments are given."""
    arguments = symbol.list_arguments()
    _, shapes, _ = symbol.infer_shape(**{name: inputs[name].shape for name in arguments})
    _, types, _ = symbol.infer_type(**{name: inputs[name].dtype for name in arguments})
    assert shapes is not None and types is not None
    return shapes, types
