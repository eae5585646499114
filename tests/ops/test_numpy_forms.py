"""The NumPy forms of ops: the same results as their kernels, of which they call none."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from contextlib import suppress
from random import Random

import numpy as np
import pytest

import nbmod as mx
from nbmod.execution.first_answers import has_numpy_forms
from nbmod.executor import Executor
from nbmod.imgproc import kernels as imgproc
from nbmod.io import mnist, text_kernels
from nbmod.ndarray import eager
from nbmod.ops import OPS
from nbmod.ops.device import CPU
from nbmod.ops.dispatch import REFERENCE, is_declared
from nbmod.ops.jit import Kernel, dry_run
from nbmod.ops.numpy_forms import SHARED, prepare_numpy_form
from nbmod.ops.op import Backward, Call, Mode, Spec, resolve_needs
from nbmod.ops.sparse import products
from tests.cases import all_samples
from tests.grouped import Case, over_groups
from tests.ops.detection_calls import CALLS
from tests.ops.random_layers import MAKERS, random_sample
from tests.programs import common
from tests.sample_runs import compose

SAMPLES = all_samples()
GOOD = {name: sample for name, sample in SAMPLES.items()
        if not (sample.error or sample.eager or sample.random)}
COMPILED = ("Custom",)
"""Ops of which nothing is known."""


def declared(op, is_gradient=False):
    """Whether the op of a sample, or its gradient, has a form in `ops.numpy_forms`."""
    return is_declared(OPS.find(op), REFERENCE, is_gradient)


RUNS = [Case(f"{name}-{dtype}", (name, dtype)) for name, sample in GOOD.items()
        for dtype in sample.dtypes[:None if declared(sample.op) else 1]]
GRADIENT_RUNS = [Case(f"{name}-{dtype}", (name, dtype)) for name, sample in SAMPLES.items()
                 if not sample.error and declared(sample.op, True) for dtype in sample.dtypes]
THRESHOLDS = ("COMPILED_FROM", "PARALLEL_FROM", "ROWS_FROM", "SHORT")
"""Elements from which ops call kernels, in several modules."""
TOLERANCES = {"float64": 1e-9, "float16": 2e-3}
CALL_TRIALS = {"float32": 40, "float64": 15, "float16": 10}
"""Random calls of an operator in each type."""
TRIALS = 12
"""Random samples of each op, whose types and requests for gradients take turns."""
BODIES = ("_cond", "_foreach", "_while_loop")
"""Ops that run subgraphs, each in an executor of its own."""


def thresholds():
    """(module, name) of each of them."""
    assert all(map(OPS.find, OPS))      # modules of ops are imported when their ops are looked up
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


def bound_sample(sample, dtype, trains=False, requests: Mapping[str, str] | None = None):
    """A sample bound for inference, or for training by all floating-point arguments, which may be
    requested otherwise than by "write"."""
    symbol, arrays = compose(sample), sample.arrays(dtype)
    given = {key: mx.nd.array(value, dtype=value.dtype) for key, value in arrays.items()}
    args, states = ({key: given[key] for key in names if key in given} for names in
                    (symbol.list_arguments(), symbol.list_auxiliary_states()))
    grads = {key: mx.nd.zeros(value.shape, dtype=value.dtype) for key, value in args.items()
             if trains and np.dtype(value.dtype).kind == "f"}
    wanted = {key: (requests or {}).get(key, "write") if key in grads else "null" for key in args}
    return symbol.bind(mx.cpu(), args, grads, wanted, states)


def states_of(executor):
    """Values of the auxiliary states."""
    return {key: value.asnumpy() for key, value in executor.aux_dict.items()}


def answers(executor, states):
    """Outputs and auxiliary states after inference from `states`."""
    for name, values in states.items():
        executor.aux_dict[name][:] = values
    return [array.asnumpy() for array in (*executor.forward(), *executor.aux_arrays)]


def trained(executor, states):
    """Outputs, gradients and auxiliary states after a step of training from `states`; gradients
    that are added to are 1 before, and random numbers are always the same."""
    for name, values in states.items():
        executor.aux_dict[name][:] = values
    grads = [g for g in executor.grad_arrays if g is not None]
    for grad in grads:
        grad[:] = 1
    mx.random.seed(1)
    rng = np.random.RandomState(1)
    outputs = executor.forward(is_train=True)
    executor.backward([mx.nd.array(rng.rand(*out.shape), dtype=out.dtype) for out in outputs])
    return [array.asnumpy() for array in (*outputs, *grads, *executor.aux_arrays)]


def require_close(mine, expected):
    """Equal to rounding, where the largest element of a tensor is at least 1."""
    assert mine.dtype == expected.dtype
    want = expected.astype(np.float64)
    tolerance = TOLERANCES.get(mine.dtype.name, 2e-5)
    largest = np.abs(want[np.isfinite(want)]).max(initial=1)
    np.testing.assert_allclose(mine.astype(np.float64), want, tolerance, tolerance * largest)


def op_of(case):
    return SAMPLES[case.values[0]].op


def in_numpy(executor):
    """An executor of the same arrays that runs NumPy forms."""
    return Executor(executor._binding, executor, key="reference")


def require_agreement(compute, executor):
    """The NumPy forms of an executor compute what its kernels do."""
    states = states_of(executor)
    found, expected = compute(in_numpy(executor), states), compute(executor, states)
    for mine, other in zip(found, expected, strict=True):
        require_close(mine, other)


@over_groups("name, dtype", RUNS, op_of)
def test_form_computes_what_the_kernels_do(name, dtype):
    executor = bound(name, dtype)
    if declared(GOOD[name].op) or has_numpy_forms(executor._binding):
        require_agreement(answers, executor)


@over_groups("name, dtype", GRADIENT_RUNS, op_of)
def test_gradient_is_that_of_the_kernels(name, dtype):
    executor = bound_sample(SAMPLES[name], dtype, trains=True)
    assert has_numpy_forms(executor._binding, trains=True)
    require_agreement(trained, executor)


def random_call(name, dtype, seed):
    """An op, its inputs, and the specs of its outputs."""
    attrs, inputs = CALLS[name](np.random.RandomState(seed))
    op = OPS[name](**{key: value.item() if isinstance(value, np.generic) else value
                      for key, value in attrs.items()})
    with np.errstate(over="ignore"):        # regions beyond float16
        ins = [array if array.dtype == np.int32 else array.astype(dtype) for array in inputs]
    count = len(op.list_outputs())
    _, shapes = op.infer_shape([array.shape for array in ins], [None] * count)
    _, types = op.infer_type([array.dtype for array in ins], [None] * count)
    return op, ins, [Spec(shape, kind) for shape, kind in zip(shapes, types, strict=True)]


def computed(op, ins, specs, reads, in_numpy=False):
    """Outputs of an op by kernels or by its NumPy form; None for one that nothing reads."""
    outs = [np.full(spec.shape, 7, spec.dtype) if read else None
            for spec, read in zip(specs, reads, strict=True)]
    choice = CPU.choose(op, [Spec(array.shape, array.dtype) for array in ins], specs)
    call = Call(Mode(True), [np.full(spec.shape, 7, spec.dtype) for spec in choice.workspace],
                [False] * len(outs), specs)
    with np.errstate(all="ignore"):
        if in_numpy:
            prepare_numpy_form(op, ins, outs, call)()
        else:
            choice.prepare(ins, outs, call)()
    return outs


def require_form(op, ins, specs, reads):
    """The form of an op, or of a gradient, computes what kernels do."""
    before = [array.copy() for array in ins]
    found, expected = (computed(op, ins, specs, reads, in_numpy) for in_numpy in (True, False))
    for mine, other in zip([*found, *ins], [*expected, *before], strict=True):
        if other is not None:
            require_close(mine, other)


@pytest.mark.parametrize("dtype", CALL_TRIALS)
@pytest.mark.parametrize("name", sorted(CALLS))
def test_forms_of_random_calls(name, dtype):
    for seed in range(CALL_TRIALS[dtype]):
        op, ins, specs = random_call(name, dtype, seed)
        try:
            require_form(op, ins, specs, [True, *(seed % 2 for _ in specs[1:])])
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {op}") from error


@pytest.mark.parametrize("dtype", CALL_TRIALS)
@pytest.mark.parametrize("name", sorted(name for name in CALLS if declared(name, True)))
def test_gradients_of_random_calls(name, dtype):
    for seed in range(CALL_TRIALS[dtype]):
        op, ins, specs = random_call(name, dtype, seed)
        rng, outs = np.random.RandomState(seed), computed(op, ins, specs, [True] * len(specs))
        heads = [rng.randn(*spec.shape).astype(spec.dtype) for spec in specs[:op.num_visible]]
        needs = list(resolve_needs(op))
        given = [{"ograd": heads, "in": ins, "out": outs}[kind][index] for _, kind, index in needs]
        gradient = Backward(op, len(ins), [need for need, _, _ in needs])
        try:
            require_form(gradient, given, [Spec(array.shape, array.dtype) for array in ins],
                         [i == seed % len(ins) or seed % 2 for i in range(len(ins))])
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {op}") from error


@pytest.mark.parametrize("op", sorted(MAKERS))
def test_random_layers_compute_what_the_kernels_do(op, none_is_small):
    for trial in range(TRIALS):
        rng = Random(f"{op} {trial}")
        sample = random_sample(op, rng)
        dtype = sample.dtypes[trial % len(sample.dtypes)]
        try:
            require_agreement(answers, bound_sample(sample, dtype))
            if sample.grad != ():
                requests = {key: rng.choice(("write", "write", "add", "null"))
                            for key in sample.specs}
                require_agreement(trained, bound_sample(sample, dtype, True, requests))
        except AssertionError as error:
            raise AssertionError(f"trial {trial}: {sample}, {dtype}: {error}") from None


def test_ops_with_kernels_only_are_few():
    known = {OPS.find(name).name for name in OPS}
    assert {*COMPILED, *BODIES} <= known


@pytest.mark.parametrize("op", sorted(
    {sample.op for sample in SAMPLES.values()} - {*COMPILED, *BODIES}))
def test_ops_call_no_kernels(op, none_is_small):
    """Every op in inference and in training, if it has a gradient."""
    given = [sample for sample in SAMPLES.values()
             if sample.op == op and not (sample.error or sample.eager)]
    with dry_run() as called:
        for sample in given:
            answers(in_numpy(bound_sample(sample, sample.dtypes[0])), {})
            if sample.grad != () and sample.is_train:
                trained(in_numpy(bound_sample(sample, sample.dtypes[0], trains=True)), {})
    assert not called


@pytest.mark.parametrize("op", sorted({sample.op for sample in GOOD.values()} & {*COMPILED}))
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


def test_forms_are_of_modules_of_ops():
    modules = {OPS[name].__module__.rpartition(".")[2] for name in OPS}
    assert modules >= SHARED.keys()
    assert all(importlib.util.find_spec(f"nbmod.ops.numpy_forms.{name}")
               for name in SHARED.values())


def test_ops_whose_gradient_is_zero_need_no_form_of_it():
    boxes = mx.sym.contrib.box_iou(mx.sym.Variable("lhs"), mx.sym.Variable("rhs"))
    executor = boxes.simple_bind(mx.cpu(), lhs=(3, 4), rhs=(2, 4))
    assert has_numpy_forms(executor._binding, trains=True)


def test_ops_from_elsewhere_and_those_with_effects_have_none():
    data = mx.sym.Variable("data")
    for symbol in (mx.sym.Dropout(data, mode="always"), mx.sym.random.uniform(shape=(4,)),
                   mx.sym.sgd_mom_update(data, mx.sym.zeros((4,)), mx.sym.Variable("mom"), lr=1)):
        shapes = {"data": (4,)} if "data" in symbol.list_arguments() else {}
        executor = symbol.simple_bind(mx.cpu(), grad_req="null", **shapes)
        assert not has_numpy_forms(executor._binding)
    assert has_numpy_forms(mx.sym.Dropout(data).simple_bind(mx.cpu(), data=(4,))._binding)


def twins():
    """Kernels that have a twin in NumPy, and arguments of each but the last, which is the result's
    shape and type."""
    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, (9, 11, 3), dtype=np.uint8)
    image[:3] = image[:3, :, :1]    # gray
    means, scale = np.float32([[[30]], [[90]], [[200]]]), np.float32([1, 2, 0.5])
    planes = (3, 9, 11), np.float32
    line = np.empty(11, np.uint8)
    yield imgproc.normalize, (image, False, means, scale, np.float32(0.3), line, planes)
    yield imgproc.normalize, (image, True, rng.random((3, 9, 11), np.float32), scale,
                              np.float32(0), line, planes)
    yield imgproc.hwc_to_chw, (image, True, ((3, 9, 11), np.uint8))
    yield imgproc.subtract_mean, (image, True, np.array([30, 90, 250]), -128, 127,
                                  ((3, 9, 11), np.int8))
    yield imgproc.warp_affine, (image, np.array([[0.8, 0.3, -1], [-0.2, 1.1, 0.4]]), 200,
                                ((12, 13, 3), np.uint8))
    for shift in ((10.0, 3.0, 5.0), (-100.0, -20.0, 60.0), (55.5, 100.0, -100.0)):
        yield imgproc.shift_hls, (image, *shift, ((9, 11, 3), np.uint8))
    starts, data = np.array([0, 2, 2, 5, 6]), rng.random(6)
    which, dense = np.array([1, -1, 0, 4, 1, 2]), rng.random((5, 3))
    for kernel in (products._weighted_sums, products._few_weighted_sums):
        yield kernel, (starts, which, data, dense, ((4, 3), np.float64))
    yield products._scatter_few, (starts, which, data, dense, ((3, 3), np.float64))
    yield products._scatter, (2, starts, which, data, dense, ((3, 3), np.float64))
    yield mnist._scale, (image.ravel(), ((image.size,), np.float32))


def test_kernels_and_their_twins_in_numpy_agree():
    compared = {text_kernels.parse_csv, text_kernels.parse_libsvm}  # in tests/io/test_io.py
    for kernel, (*args, (shape, dtype)) in twins():
        results = [np.empty(shape, dtype) for _ in range(2)]
        kernel(*args, results[0])
        kernel.plain(*args, results[1])
        # Rounding: sums are fused with products in one of the two, and pixels are truncated.
        tolerance = 1 if np.dtype(dtype) == np.uint8 else 1e-5
        np.testing.assert_allclose(*[each.astype(float) for each in results], rtol=1e-6,
                                   atol=tolerance, err_msg=kernel.__name__)
        compared.add(kernel)
    with_twin = {value for name, module in list(sys.modules.items()) if name.startswith("nbmod.")
                 for value in vars(module).values() if isinstance(value, Kernel) and value.plain}
    assert with_twin == compared
