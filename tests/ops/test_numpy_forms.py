"""The NumPy forms of ops: the same results as their kernels, of which they call none."""

from __future__ import annotations

import sys
from contextlib import suppress

import numpy as np
import pytest

import nbmod as mx
from nbmod.execution.first_answers import has_numpy_forms
from nbmod.ndarray import eager
from nbmod.ops import OPS
from nbmod.ops.jit import dry_run
from nbmod.ops.numpy_forms import COMPILED, FORMS, GRADIENTS
from tests.cases import all_samples
from tests.programs import common
from tests.sample_runs import compose

SAMPLES = all_samples()
GOOD = {name: sample for name, sample in SAMPLES.items()
        if not (sample.error or sample.eager or sample.random)}
RUNS = [(name, dtype) for name, sample in GOOD.items()
        for dtype in sample.dtypes[:None if sample.op in FORMS else 1]]
THRESHOLDS = ("COMPILED_FROM", "PARALLEL_FROM", "ROWS_FROM", "SHORT")
"""Elements from which ops call kernels, in several modules."""
TOLERANCES = {"float64": 1e-9, "float16": 2e-3}


def thresholds():
    """(module, name) of each of them."""
    modules = [module for name, module in sys.modules.items() if name.startswith("nbmod.ops.")]
    return [(module, constant) for module in modules for constant in THRESHOLDS
            if isinstance(getattr(module, constant, None), int)]


@pytest.fixture
def none_is_small(monkeypatch):
    """Kernels are called whatever the number of elements; plans of eager calls know that number."""
    for module, constant in thresholds():
        monkeypatch.setattr(module, constant, 0)
    eager.clear_caches()
    yield
    eager.clear_caches()


def bound(name, dtype, trains=False):
    """A sample of the table, `bound_sample`."""
    return bound_sample(GOOD[name], dtype, trains)


def bound_sample(sample, dtype, trains=False):
    """A sample bound for inference, or for training by all floating-point arguments."""
    symbol, arrays = compose(sample), sample.arrays(dtype)
    given = {key: mx.nd.array(value, dtype=value.dtype) for key, value in arrays.items()}
    args, states = ({key: given[key] for key in names if key in given} for names in
                    (symbol.list_arguments(), symbol.list_auxiliary_states()))
    grads = {key: mx.nd.zeros(value.shape, dtype=value.dtype) for key, value in args.items()
             if trains and np.dtype(value.dtype).kind == "f"}
    requests = {key: "write" if key in grads else "null" for key in args}
    return symbol.bind(mx.cpu(), args, grads, requests, states)


def trained(executor, states):
    """Outputs, gradients and auxiliary states after a step of training from `states`."""
    for name, values in states.items():
        executor.aux_dict[name][:] = values
    rng = np.random.RandomState(1)
    outputs = executor.forward(is_train=True)
    executor.backward([mx.nd.array(rng.rand(*out.shape), dtype=out.dtype) for out in outputs])
    kept = [*outputs, *(g for g in executor.grad_arrays if g is not None), *executor.aux_arrays]
    return [array.asnumpy() for array in kept]


def require_close(mine, expected):
    """Equal to rounding, where the largest element of a tensor is at least 1."""
    assert mine.dtype == expected.dtype
    want = expected.astype(np.float64)
    tolerance = TOLERANCES.get(mine.dtype.name, 2e-5)
    largest = np.abs(want[np.isfinite(want)]).max(initial=1)
    np.testing.assert_allclose(mine.astype(np.float64), want, tolerance, tolerance * largest)


@pytest.mark.parametrize("name, dtype", RUNS, ids=[f"{name}-{dtype}" for name, dtype in RUNS])
def test_form_computes_what_the_kernels_do(name, dtype):
    executor = bound(name, dtype)
    if not has_numpy_forms(executor._given):
        assert GOOD[name].op not in FORMS
        return
    found = executor.in_numpy.forward()
    for mine, expected in zip(found, executor.forward(), strict=True):
        require_close(mine.asnumpy(), expected.asnumpy())


@pytest.mark.parametrize("name, dtype", [(name, dtype) for name, dtype in RUNS
                                         if GOOD[name].op in GRADIENTS])
def test_gradient_is_that_of_the_kernels(name, dtype):
    executor = bound(name, dtype, trains=True)
    assert has_numpy_forms(executor._given, trains=True)
    states = {key: value.asnumpy() for key, value in executor.aux_dict.items()}
    found, expected = trained(executor.in_numpy, states), trained(executor, states)
    for mine, other in zip(found, expected, strict=True):
        require_close(mine, other)


@pytest.mark.parametrize("op", sorted({sample.op for sample in GOOD.values()}))
def test_forms_call_no_kernels(op, none_is_small):
    executors = [bound(name, sample.dtypes[0]) for name, sample in GOOD.items() if sample.op == op]
    with dry_run() as called:
        for executor in executors:
            if has_numpy_forms(executor._given):
                executor.in_numpy.forward()
    assert not called


@pytest.mark.parametrize("op", sorted({sample.op for sample in GOOD.values()}))
def test_forms_of_training_call_no_kernels(op, none_is_small):
    executors = [bound(name, sample.dtypes[0], trains=True) for name, sample in GOOD.items()
                 if sample.op == op and sample.grad != () and sample.is_train]
    with dry_run() as called:
        for executor in executors:
            if has_numpy_forms(executor._given, trains=True):
                trained(executor.in_numpy, {})
    assert not called


@pytest.mark.parametrize("op", sorted({sample.op for sample in GOOD.values()} & COMPILED))
def test_ops_listed_without_a_form_call_kernels(op, none_is_small):
    function = common.op_function(mx.nd, op)
    with dry_run() as called:
        for sample in GOOD.values():
            if sample.op == op and not called:
                inputs = {name: common.nd(mx, value)
                          for name, value in sample.arrays(sample.dtypes[0]).items()}
                arguments = ((), inputs) if sample.keyword else (inputs.values(), {})
                with suppress(IndexError):      # kernels that do not run give no indices
                    function(*arguments[0], **arguments[1], **sample.attrs)
    assert called


def test_names_are_those_of_ops():
    assert all(OPS[name].name == name for name in (*FORMS, *COMPILED))


def test_ops_from_elsewhere_and_those_with_effects_have_none():
    data = mx.sym.Variable("data")
    for symbol in (mx.sym.Dropout(data, mode="always"), mx.sym.random.uniform(shape=(4,)),
                   mx.sym.sgd_mom_update(data, mx.sym.zeros((4,)), mx.sym.Variable("mom"), lr=1)):
        shapes = {"data": (4,)} if "data" in symbol.list_arguments() else {}
        executor = symbol.simple_bind(mx.cpu(), grad_req="null", **shapes)
        assert not has_numpy_forms(executor._given)
    assert has_numpy_forms(mx.sym.Dropout(data).simple_bind(mx.cpu(), data=(4,))._given)
