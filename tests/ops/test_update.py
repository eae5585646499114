"""Update ops beyond their samples: kernels and NumPy, float32 masters, many weights, formulas."""

from __future__ import annotations

import ast
from dataclasses import replace

import numpy as np
import pytest

import nbmod as mx
from nbmod.ops import OPS
from nbmod.ops.device import CPU
from nbmod.ops.op import Call
from nbmod.ops.optimizer import multi_tensor
from nbmod.ops.optimizer import sgd_update as update
from nbmod.ops.optimizer.adaptive_update import GroupAdaGradUpdate
from nbmod.ops.optimizer.lamb_update import LambUpdate
from tests.compare import assert_same
from tests.programs import training

SIZE = 3000
RATES = {"lr": 0.1, "wd": 0.01, "rescale_grad": 0.5, "clip_gradient": 0.3}
ALL = {**RATES, "momentum": 0.9, "beta1": 0.8, "gamma1": 0.7, "epsilon": 1e-3, "t": 3, "eta": 0.5,
       "rho": 0.9, "share": 0.3, "ahead": 0.4}


def rules():
    """Every rule for one weight, with the op table's and without."""
    list(OPS)
    waiting, found = [update.Update], []
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        if kind.name and kind is not GroupAdaGradUpdate:
            found.append(kind)
    return sorted(found, key=lambda kind: kind.name)


def made(kind):
    fields = kind.__dataclass_fields__
    return kind(**{name: value for name, value in ALL.items() if name in fields})


def drawn(op, size=SIZE, dtype="float32"):
    """Inputs of an op: states are positive, and a weight is its master, rounded."""
    rng = np.random.default_rng(0)
    arrays = {}
    for name in op.inputs:
        count = 1 if name in op.scalars else size
        kind = "float32" if name in op.singles else dtype
        array = rng.standard_normal(count)
        arrays[name] = (array if name in ("weight", "grad") else np.abs(array) + 1).astype(kind)
    if "weight32" in arrays:
        arrays["weight"] = arrays["weight32"].astype(dtype)
    return list(arrays.values())


def stepped(op, arrays):
    """The output, and the inputs as they are afterwards."""
    arrays = [array.copy() for array in arrays]
    _, [kind] = op.infer_type([array.dtype for array in arrays], [None])
    out = np.empty(arrays[0].shape, kind)
    CPU.run(op, arrays, [out], Call())
    return [out, *arrays]


@pytest.mark.parametrize("kind", rules(), ids=lambda kind: kind.name)
def test_kernels_and_numpy_agree_bitwise(kind, monkeypatch):
    """So results do not depend on which of them runs."""
    op = made(kind)
    arrays = drawn(op, dtype="float16" if "weight32" in op.inputs else "float32")
    compiled = stepped(op, arrays)
    monkeypatch.setattr(update, "COMPILED_FROM", SIZE + 1)
    monkeypatch.setattr(update, "_kernels", {})
    for got, want in zip(compiled, stepped(op, arrays), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("kind", rules(), ids=lambda kind: kind.name)
def test_extreme_parameters_are_computed_or_refused(kind):
    """A schedule may begin with a rate of 0, and betas be 1: never a bare Python error."""
    op = made(kind)
    for name in ALL.keys() & kind.__dataclass_fields__.keys():
        for value in (0, 1, -1):
            try:
                stepped(replace(op, **{name: value}), drawn(op, size=4))
            except mx.MXNetError as error:
                assert name in str(error)


@pytest.mark.parametrize("kind", rules(), ids=lambda kind: kind.name)
def test_formulas_have_no_arithmetic_of_numbers_alone(kind):
    """NumPy would compute it in float32 and a float64 kernel in float64."""
    programs = kind.stages() if issubclass(kind, LambUpdate) else [kind.program()]
    for program in programs:
        for step in program.steps:
            for node in ast.walk(ast.parse(step.formula)):
                if isinstance(node, ast.BinOp):
                    words = {word.id for word in ast.walk(node) if isinstance(word, ast.Name)}
                    assert words - {*program.scalars, "sqrt"}, (step.target, ast.unparse(node))


@pytest.mark.parametrize("size", [1 << 10, 1 << 16, (1 << 16) + 7])
def test_every_size_and_shape_is_stepped_whole(size):
    """One kernel up to `PARALLEL_FROM`, several threads from there."""
    op = update.SGDMomUpdate(**RATES, momentum=0.9)
    weight, grad, mom = drawn(op, size)
    want = 0.9 * mom - 0.1 * (np.clip(0.5 * grad, -0.3, 0.3) + 0.01 * weight)
    out, _, _, new = stepped(op, [array.reshape(1, -1) for array in (weight, grad, mom)])
    np.testing.assert_allclose(new, want[None], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(out, weight + new)


MASTERS = [kind for kind in rules() if "weight32" in kind.inputs and "phase1" not in kind.name]


@pytest.mark.parametrize("kind", MASTERS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("size", [7, SIZE])
def test_masters_are_stepped_like_weights(kind, size):
    """The plain rule on the master with a widened gradient gives master and states bitwise."""
    op = made(kind)
    plain = made(kind.__mro__[1])
    named = dict(zip(op.inputs, drawn(op, size, "float16"), strict=True))
    out, *after = stepped(op, list(named.values()))
    named["weight"] = named.pop("weight32")
    single = [named[name].astype(np.float32) for name in plain.inputs]
    want, *states = stepped(plain, single)
    given = dict(zip(op.inputs, after, strict=True))
    np.testing.assert_array_equal(given["weight32"], want)
    np.testing.assert_array_equal(out, want.astype(np.float16))
    for name, state in zip(plain.inputs[2:], states[2:], strict=True):
        np.testing.assert_array_equal(given[name], state, err_msg=name)


def test_lamb_is_both_phases_with_the_lengths_between():
    """For sizes that NumPy, one chunk and many chunks of the kernel reduce."""
    for size in (10, SIZE, 3 * multi_tensor.CHUNK + 5):
        whole = LambUpdate(0.1, 0.01, 3, lower_bound=0.5, upper_bound=10.0)
        weight, grad, mean, var = drawn(whole, size)
        got = stepped(whole, [weight, grad, mean, var])
        arrays = [mx.nd.array(array) for array in (weight, grad, mean, var)]
        step = mx.nd.lamb_update_phase1(*arrays, t=3, wd=0.01)
        want = mx.nd.lamb_update_phase2(arrays[0], step, arrays[0].norm(), step.norm(), lr=0.1,
                                        lower_bound=0.5, upper_bound=10.0)
        np.testing.assert_allclose(got[0], want.asnumpy(), rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(got[3], arrays[2].asnumpy())


def test_sums_of_squares_are_exact_to_float32():
    """MXNet accumulates a million equal elements in float32: 1.3 percent too little."""
    for size in (100, 1_000_000):
        array = mx.nd.full((size,), 0.1)
        [total] = mx.nd.multi_sum_sq(array, num_arrays=1).asnumpy()
        assert total == pytest.approx(size * float(np.float32(0.1)) ** 2, rel=1e-7)


@pytest.mark.parametrize("size", [5, 50_000])
def test_a_weight_that_is_listed_twice_is_stepped_twice(size):
    """As in MXNet, in the order of the list; numpy and a kernel compute the two sizes."""
    weight, *grads = np.random.default_rng(0).standard_normal((3, size)).astype(np.float32)
    once = mx.nd.array(weight)
    for grad, lr in zip(grads, (0.1, 0.2), strict=True):
        mx.nd.sgd_update(once, mx.nd.array(grad), lr=lr, wd=0.01, out=once)
    for name, more in (("multi_sgd_update", {"lrs": (0.1, 0.2), "wds": (0.01, 0.01)}),
                       ("preloaded_multi_sgd_update", {})):
        both = mx.nd.array(weight)
        loaded = [] if more else [mx.nd.array([0.1, 0.2]), mx.nd.array([0.01, 0.01])]
        getattr(mx.nd, name)(both, mx.nd.array(grads[0]), both, mx.nd.array(grads[1]), *loaded,
                             num_weights=2, out=[both, both], **more)
        np.testing.assert_allclose(both.asnumpy(), once.asnumpy(), rtol=1e-6, atol=1e-7)


def test_group_adagrad():
    weight, grad = np.ones((3, 4), np.float32), np.arange(12, dtype=np.float32).reshape(3, 4)
    arrays = [mx.nd.array(array) for array in (weight, grad, np.ones((3, 1), np.float32))]
    out = mx.nd.contrib.group_adagrad_update(*arrays, lr=0.1, clip_gradient=6)
    history = 1 + (np.minimum(grad, 6) ** 2).mean(axis=1, keepdims=True)
    np.testing.assert_allclose(arrays[2].asnumpy(), history, rtol=1e-6)
    want = 1 - 0.1 * np.minimum(grad, 6) / np.sqrt(history + 1e-5)
    np.testing.assert_allclose(out.asnumpy(), want, rtol=1e-6)


def test_many_weights_are_stepped_like_one():
    """Bitwise, whether rates are scalars or tensors, and without an explicit `num_weights`."""
    pairs = [[mx.nd.array(array) for array in drawn(update.SGDUpdate(0.1), size)]
             for size in (5, SIZE)]
    flat = [array for pair in pairs for array in pair]
    lrs, wds = (0.1, 0.3), (0.01, 0.02)
    want = [mx.nd.sgd_update(*pair, lr=lr, wd=wd).asnumpy()
            for pair, lr, wd in zip(pairs, lrs, wds, strict=True)]
    loaded = [mx.nd.array(lrs), mx.nd.array(wds)]
    for got in (mx.nd.multi_sgd_update(*flat, lrs=lrs, wds=wds),
                mx.nd.preloaded_multi_sgd_update(*flat, *loaded)):
        for one, other in zip(got, want, strict=True):
            np.testing.assert_array_equal(one.asnumpy(), other)


def test_finite_with_what_was_known_before():
    out = mx.nd.zeros((1,))
    mx.nd.all_finite(mx.nd.ones((3,)), init_output=False, out=out)
    assert out.asscalar() == 0
    mx.nd.multi_all_finite(mx.nd.ones((3,)), mx.nd.ones((2,)), out=out)
    assert out.asscalar() == 1
    mx.nd.multi_all_finite(mx.nd.ones((3,)), mx.nd.array([np.inf]), init_output=False, out=out)
    assert out.asscalar() == 0


def test_arrays_are_reset():
    arrays = [mx.nd.ones((3,)), mx.nd.ones((2, 2), dtype="float16")]
    mx.nd.reset_arrays(*arrays, num_arrays=2)
    assert [array.asnumpy().any() for array in arrays] == [False, False]


def test_contrib_functions(oracle):
    theirs = oracle.call("mx_scripts.run", "training", "contrib_updates")
    for got, want in zip(training.contrib_updates(mx), theirs, strict=True):
        assert_same(got, want, 2e-3 if got.dtype == np.float16 else 1e-4, "contrib")


def test_lists_that_do_not_fit():
    one, two = [mx.nd.ones((2,))], [mx.nd.ones((2,))] * 2
    with pytest.raises(mx.MXNetError, match="lists of 1, 2, 1, 1 arrays"):
        mx.nd.contrib.multi_lamb_update(one, two, one, one, [1], [0.1], [0.1])
    with pytest.raises(mx.MXNetError, match="rescale_grad is None, expected a number"):
        mx.nd.contrib.adamw_update(*one, *one, *one, *one, None, 0.1, 1.0)
