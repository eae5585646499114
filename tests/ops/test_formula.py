"""Formulas: one source, evaluated by NumPy and by compiled kernels, with equal results."""

from __future__ import annotations

import functools
import inspect
import linecache
import math
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nbmod as mx
from nbmod.core.config import CONFIG
from nbmod.ops import OPS
from nbmod.ops.elementwise import kernel_cache
from nbmod.ops.elementwise.codegen import ROW, collapse
from nbmod.ops.elementwise.formula import (
    _select,
    evaluate,
    functions_of,
    integer_type,
    names_in,
    rename,
    scalar_text,
)
from nbmod.ops.elementwise.formula_op import FormulaOp
from nbmod.ops.elementwise.program import (
    Assign,
    Program,
    concatenate,
    prune,
    run,
    specialized,
    sum_to,
)
from nbmod.ops.jit import Kernel
from nbmod.ops.simd import nontemporal
from nbmod.ops.simd.host import lanes
from tests.programs import special_values

# Both round every operation, but not in the same order, and not with the same exp and log.
TOLERANCE = {"float16": 2e-3, "float32": 1e-5, "float64": 1e-12}
PARAMETERS = {
    "clip": {"a_min": -0.5, "a_max": 0.75},
    "Cast": {"dtype": "float32"},
    "amp_cast": {"dtype": "float32"},
    "_contrib_quadratic": {"a": 1.5, "b": -0.5, "c": 2.0},
    "Activation": {"act_type": "softrelu"},
    "multi_lars": {"eta": 0.001, "eps": 1e-6},
}
GROUP = 16


def same(got: np.ndarray, want: np.ndarray, what: str) -> None:
    tolerance = TOLERANCE[want.dtype.name]
    np.testing.assert_allclose(
        got.astype(float), want.astype(float), tolerance, tolerance, err_msg=what
    )


def compiled(program, ins, outs, scalars=(), add=()):
    step = kernel_cache.compiled(program, ins, outs, scalars, add)
    assert step is not None
    return step


def normal(*shape, dtype="float32"):
    return np.random.default_rng(math.prod(shape)).standard_normal(shape).astype(dtype)


# -- the language -------------------------------------------------------------------------------


def test_names_are_values_and_no_functions_or_numbers():
    assert names_in("where(x <= 1e-5, gy * 2.5e3, exp(-x)) + e2") == ("x", "gy", "e2")
    assert rename("exp(exp_of) + x * max_x", {"x": "t", "exp_of": "u"}) == "exp(u) + t * max_x"


def test_text_over_one_element_types_its_numbers():
    assert scalar_text("where(x <= 0, -0.5, exp(x))") == "-real(0.5) if x <= real(0) else exp(x)"


@pytest.mark.parametrize("formula", [
    "x if x else 1", "open(x)", "x.T", "exp(x, x)", "x[0]", "x // 2", "0 < x < 1", "x and 1",
    "(lambda: x)()",
])  # fmt: skip
def test_the_language_is_closed(formula):
    with pytest.raises(ValueError, match="is not in the language"):
        evaluate(formula, {"x": np.ones(2)})


def test_which_formulas_stay_among_the_integers():
    assert integer_type("where(a >= 2, maximum(a, b), -a * b)") is None
    for formula in ("a / b", "exp(a)", "a ** b", "a * 0.5", "hypot(a, b)"):
        assert integer_type(formula) == np.float64


def test_numpy_writes_its_last_operation_to_the_output():
    x, out = np.ones(3, np.float32), np.empty(3, np.float32)
    assert functions_of("x * 2", ("x",)).into(x, out) is out
    assert functions_of("where(x > 0, x, 1)", ("x",)).into is None


# -- programs -----------------------------------------------------------------------------------

GATE = Program("gate", (Assign("u", "a * b"), Assign("v", "maximum(u + s, 0)"),
                        Assign("w", "u - b")),
               ("a", "b"), ("v", "w"), ("s",))  # fmt: skip


def test_prune_keeps_what_the_wanted_outputs_need():
    part = prune(GATE, (False, True))
    assert part.steps == (GATE.steps[0], GATE.steps[2])
    assert (part.outputs, part.scalars) == (("w",), ())


def test_fuse_chains_programs_under_one_set_of_names():
    relu, gate = OPS["relu"]().program(), {"a": "p", "b": "q", "s": "t", "w": "r"}
    whole = concatenate("chain", [(GATE, gate), (relu, {"x": "r", "y": "out"})], ("p", "q"),
                        ("out",), ("t",))
    p, q, out = normal(50), normal(50)[::-1].copy(), np.empty(50, np.float32)
    run(whole, [p, q], [out], [1.0])
    same(out, np.maximum(p * q - q, 0), "chain")
    again = np.empty_like(out)
    compiled(whole, [p, q], [again], [1.0])()
    same(again, out, "kernel")


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("formulas, expected", [
    (("where(x > 0, 1, -1)", "tanh(s)"), np.tanh),
    (("where(x > 0, 1, -1)", "s * 100", "t * 100"), lambda sign: sign * 10000),
    (("x > 0", "s + s"), lambda sign: 1 + sign),
    (("1", "exp(s) * x"), lambda sign: np.e * sign)])
def test_numpy_computes_with_literals_as_kernels_do(formulas, expected, dtype):
    """In the type of the elements, whatever types NumPy has for literals and truth values."""
    names = ["s", "t", "u"][:len(formulas)]
    program = Program("chain", tuple(map(Assign, names, formulas)), ("x",), (names[-1],))
    x = np.array([1, -1], dtype)
    out = np.empty_like(x)
    run(program, [x], [out])
    exact = expected(x.astype("float64")).astype("float32" if dtype == "float16" else dtype)
    np.testing.assert_array_max_ulp(out, exact.astype(dtype), 1)


def test_sum_to_undoes_broadcasting():
    value = normal(2, 3, 4)
    assert sum_to(value, (3, 1)).shape == (3, 1)
    np.testing.assert_allclose(sum_to(value, (1,)), [value.sum()], rtol=1e-6)


@functools.cache
def every_program() -> list[tuple[str, Program, tuple[float, ...]]]:
    """(op, program, scalars) of every op that is a formula, each formula once."""
    programs = {}
    for name, op in sorted(OPS.items()):
        if issubclass(op, FormulaOp) and name == op.name:
            instance = op(**PARAMETERS.get(name, {}))
            for program in (instance.program(), instance.backward_program()):
                numbers = instance.scalar_values(program, np.ones((1, 4), np.float32))
                programs.setdefault((program.steps, tuple(numbers)), (name, program))
    return [(name, program, numbers) for (_, numbers), (name, program) in programs.items()]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32"])
def test_programs_specialized_for_shapes_compute_the_same_bits(dtype):
    large, small = (70, 130), (2, 3)
    numbers = np.concatenate([normal(9100) * 2, [0, -0.0, np.nan, np.inf, -np.inf]])
    direct = 0
    for name, program, scalars in every_program():
        for first, other, kind in ((large, large, dtype), (small, small, dtype),
                                   ((2, 1), (1, 3), dtype), (small, small, "float64")):
            shapes = [first, *[other] * (len(program.inputs) - 1)]
            with np.errstate(all="ignore"):
                ins = [np.resize(np.roll(numbers, 5 * i), shape).astype(kind if i else dtype)
                       for i, shape in enumerate(shapes)]
            outs = [np.zeros(np.broadcast_shapes(*shapes) if i else other, dtype)
                    for i in range(len(program.outputs))]
            found = [out.copy() for out in outs]
            compute = specialized(program, ins, outs)
            with np.errstate(all="ignore"):
                run(program, ins, outs, scalars)
                compute(ins, found, scalars)
            direct += not isinstance(compute, partial)
            for one, another in zip(found, outs, strict=True):
                np.testing.assert_array_equal(one, another, err_msg=name)
                assert np.array_equal(np.signbit(one), np.signbit(another)), name
    assert dtype in ("float16", "int32") or direct > 400


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_many_elements_are_selected_as_numpy_selects(dtype):
    x = np.resize([-1, 0, -0.0, np.nan, np.inf, -np.inf, 2.5], (100, 100)).astype(dtype)
    y, condition = x[::-1], x <= 0
    for a, b in ((0, x), (x, 0), (x, 0.0), (-0.0, x), (x, -2.5), (7, x), (x, y), (y.T, x)):
        found, expected = _select(condition, a, b), np.where(condition, a, b)
        assert found.dtype == dtype and found.tobytes() == expected.tobytes()
    for a, b in ((1, 0), (x.astype(np.float16), 0), (x, x[0]), (np.float64(2), x),
                 (x, np.ones(x.shape, np.int64))):
        assert _select(condition, a, b) is None


@pytest.mark.parametrize("dtype", ["float32", "int8", "uint8", "int32", "bool"])
def test_conditions_are_numbers(dtype):
    """True is what is not 0, of few elements and of many."""
    for size in (5, 20_000):
        values = {name: np.resize(np.arange(-3, 4), size).astype(kind)
                  for name, kind in (("c", dtype), ("a", "float32"))}
        found = evaluate("where(c, a, 7)", values)
        np.testing.assert_array_equal(found, np.where(values["c"] != 0, values["a"], 7))


def group(number: int) -> tuple[Program, list[float]]:
    """Some of the programs as one, over inputs they share."""
    parts, outputs, scalars, values = [], [], [], []
    inputs: dict[str, None] = {}
    for index, (_, program, numbers) in enumerate(every_program()[number::GROUPS]):
        names = {target: f"o{index}_{target}" for target in program.outputs}
        names.update({scalar: f"s{index}_{scalar}" for scalar in program.scalars})
        inputs.update(dict.fromkeys(program.inputs))
        outputs += [names[target] for target in program.outputs]
        scalars += [names[scalar] for scalar in program.scalars]
        values += numbers
        parts.append((program, names))
    return concatenate(f"group_{number}", parts, tuple(inputs), outputs, scalars), values


GROUPS = -(-len(every_program()) // GROUP)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("number", range(GROUPS))
def test_kernel_is_numpy(number, dtype):
    """The compiled kernel of every formula; a third of them in each type, all in float32."""
    if dtype != "float32" and number % 3 != ("float64", "float16").index(dtype):
        return
    program, scalars = group(number)
    ins = [
        np.random.default_rng(k).uniform(0.1, 2.0, 301).astype(dtype) * np.sign(normal(301))
        for k in range(len(program.inputs))
    ]
    ins = [array.astype(dtype) for array in ins]
    want = [np.empty(301, dtype) for _ in program.outputs]
    got = [np.empty(301, dtype) for _ in program.outputs]
    with np.errstate(all="ignore"):
        run(program, ins, want, scalars)
    # The first output reuses the memory of the first input, as the planner would have it.
    step = compiled(program, ins, [ins[0], *got[1:]], scalars)
    step()
    got[0] = ins[0]
    for step_, a, b in zip(program.outputs, got, want, strict=True):
        same(a, b, f"{step_} of {[name for name, _, _ in every_program()[number::GROUPS]]}")


# -- functions ----------------------------------------------------------------------------------


@np.errstate(all="ignore")
def test_special_functions_are_those_of_the_c_library():
    from nbmod.ops.elementwise import special

    x = np.concatenate([np.linspace(-6, 6, 999), [1e-300, 1e-9, 30.0, math.inf]])
    np.testing.assert_allclose(special.erf(x), [math.erf(v) for v in x], 2e-15)
    x = np.concatenate([np.linspace(0.01, 171.5, 999), -np.linspace(0.1, 19.9, 99)])
    np.testing.assert_allclose(special.gamma(x), [math.gamma(v) for v in x], 2e-14)
    np.testing.assert_allclose(special.gammaln(x), [math.lgamma(v) for v in x], 1e-14, 1e-14)
    np.testing.assert_array_equal(
        special.gamma(np.arange(1.0, 15)), [math.factorial(n) for n in range(14)]
    )


@np.errstate(all="ignore")
def test_special_functions_without_a_twin_obey_their_laws():
    from nbmod.ops.elementwise import special

    x = np.linspace(-0.999999, 0.999999, 1001)
    np.testing.assert_allclose(special.erf(special.erfinv(x)), x, 4e-16, 1e-300)
    x = np.concatenate([np.linspace(0.01, 40, 999), -np.linspace(0.1, 9.9, 99)])
    np.testing.assert_allclose(special.digamma(x + 1), special.digamma(x) + 1 / x, 1e-12, 1e-13)
    assert special.digamma(np.array([1.0]))[0] == pytest.approx(-0.5772156649015329, rel=1e-15)
    odd = np.array([0.0, -1.0, math.inf, math.nan])
    assert special.gammaln(odd)[:3].tolist() == [math.inf] * 3
    np.testing.assert_array_equal(special.gamma(odd[1:]), [math.nan, math.inf, math.nan])
    np.testing.assert_array_equal(
        special.erfinv(np.array([1.0, -1.0, 2.0, 0.0])), [math.inf, -math.inf, math.nan, 0]
    )


FAST = {  # function: (lowest, highest argument, units in the last place, its twin)
    "exp": (-87, 88.7, 1, np.exp), "log": (1e-6, 1e6, 1, np.log),
    "tanh": (-10, 10, 2, np.tanh), "expm1": (-10, 10, 4, np.expm1),
    "log1p": (-0.999, 99, 2, np.log1p), "sin": (-99, 99, 2, np.sin), "cos": (-99, 99, 2, np.cos),
    "erf": (-5, 5, 3, np.vectorize(math.erf)),
}  # fmt: skip


EDGES = {"mod": "mod(a, b)", "maximum": "maximum(a, b)", "minimum": "minimum(a, b)",
         "hypot": "hypot(a, b)", "power": "a ** b", "quotient": "a / b"}


@functools.cache
def fast_functions(ins: bytes) -> dict[str, np.ndarray]:
    """All of them on float32 values, in one kernel."""
    program = Program("fast", tuple(Assign(f"y_{f}", f"{f}(x)") for f in FAST), ("x",),
                      tuple(f"y_{f}" for f in FAST))  # fmt: skip
    x = np.frombuffer(ins, np.float32)
    outs = {f: np.empty_like(x) for f in FAST}
    compiled(program, [x], list(outs.values()))()
    return outs


@pytest.mark.parametrize("function", FAST)
def test_fast_functions_are_accurate(function):
    low, high, ulps, twin = FAST[function]
    x = np.linspace(low, high, 20001).astype(np.float32)
    want = twin(x.astype(np.float64))
    error = np.abs(fast_functions(x.tobytes())[function] - want) / np.spacing(
        np.maximum(np.abs(want), 1e-6).astype(np.float32)
    )
    assert error.max() <= ulps


@pytest.mark.slow
@pytest.mark.parametrize("sign", [1, -1])
def test_exp_is_within_a_unit_in_the_last_place(sign):
    """Every 61st float32 from 2^-25 (below, it is 1 and a rounding) to the ends of the range.

    All of them: 0.953 units. Half a unit is the last rounding, a quarter each that of the sum
    before it and of the reduced argument, as these are up to half as large as the result.
    """
    ends = np.array([2.0 ** -25, 88.72283 if sign > 0 else 87.33654], np.float32).view(np.int32)
    x = sign * np.arange(*ends, 61, dtype=np.int32).view(np.float32)
    got, want = fast_functions(x.tobytes())["exp"], np.exp(x.astype(np.float64))
    assert (np.abs(got - want) / np.spacing(want.astype(np.float32))).max() <= 1


@np.errstate(all="ignore")
def test_fast_functions_at_the_edges():
    odd = np.array([math.nan, math.inf, -math.inf, 0, -0.0, 200, -200, 1e-40, 1e9, -2e9, 1e15, 1e20,
                    -3e30, 3e38], np.float32)
    for function, got in fast_functions(odd.tobytes()).items():
        want = FAST[function][3](odd.astype(np.float64)).astype(np.float32)
        # 1e-6: the reduction of angles below 2^30 is off by up to 2e-7.
        np.testing.assert_allclose(got, want, 1e-6, 1e-37, err_msg=function)
        assert np.array_equal(np.signbit(got[want == 0]), np.signbit(want[want == 0])), function


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@np.errstate(all="ignore")
def test_kernels_are_numpy_at_the_edges(dtype):
    """Of two operands, with the sign of every zero."""
    a, b = special_values.pairs().T.astype(dtype)
    program = Program("edges", tuple(Assign(f"y_{f}", text) for f, text in EDGES.items()),
                      ("a", "b"), tuple(f"y_{f}" for f in EDGES))
    found, expected = ([np.empty_like(a) for _ in EDGES] for _ in range(2))
    compiled(program, [a, b], found)()
    run(program, [a, b], expected, ())
    for name, x, y in zip(EDGES, found, expected, strict=True):
        same(x, y, name)
        assert np.array_equal(np.signbit(x[y == 0]), np.signbit(y[y == 0])), name


@np.errstate(all="ignore")
def test_half_precision_is_converted_as_numpy_does():
    copy = Program("copy", (Assign("y", "x"),), ("x",), ("y",))
    halves = np.arange(65536, dtype=np.uint16).view(np.float16)
    wide, back = np.empty(65536, np.float32), np.empty(65536, np.float16)
    compiled(copy, [halves], [wide])()
    np.testing.assert_array_equal(wide, halves.astype(np.float32))
    between = np.concatenate([wide, np.nextafter(wide, np.float32(9)), wide * 0.99951171875,
                              (wide[1:] + wide[:-1]) / 2, normal(999) * 1e-7])  # fmt: skip
    back = np.empty(between.size, np.float16)
    compiled(copy, [between], [back])()
    np.testing.assert_array_equal(back, between.astype(np.float16))


# -- iteration spaces ---------------------------------------------------------------------------


@st.composite
def broadcastable(draw) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """A space and shapes that broadcast to it; together they need not fill it."""
    space = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=5)))
    shapes = []
    for _ in range(draw(st.integers(1, 3))):
        kept = space[draw(st.integers(0, len(space) - 1)) :]
        shapes.append(tuple(n if draw(st.booleans()) else 1 for n in kept))
    return space, shapes


@given(broadcastable())
def test_collapsed_dimensions_address_the_same_elements(case):
    space, shapes = case
    layout = collapse(space, shapes)
    assert math.prod(layout.dims) == math.prod(space)
    for shape, mask, held in zip(shapes, layout.masks, layout.shapes(), strict=True):
        numbers = np.arange(math.prod(shape))
        full = tuple(n if has else 1 for n, has in zip(layout.dims, mask, strict=True))
        ours = np.broadcast_to(numbers.reshape(held).reshape(full), layout.dims)
        theirs = np.broadcast_to(numbers.reshape(shape), space)
        np.testing.assert_array_equal(ours.ravel(), theirs.ravel())


@given(broadcastable())
def test_collapsing_is_complete(case):
    space, shapes = case
    layout = collapse(space, shapes)
    flags = list(zip(*layout.masks, strict=True))
    assert all(a != b for a, b in zip(flags, flags[1:], strict=False))


AFFINE = Program("affine", (Assign("y", "a * b + s"),), ("a", "b"), ("y",), ("s",))
PRODUCT_BACKWARD = OPS["broadcast_mul"]().backward_program()


@pytest.mark.parametrize("a_shape, b_shape, adds", [
    ((5, 7), (5, 7), 1), ((5, 7), (7,), 0), ((5, 1), (1, 7), 1), ((1,), (35,), 0),
    ((2, 3, 4), (3, 1), 1), ((2, 1, 3, 1), (4, 1, 5), 0), ((3, 2, 3, 2), (3, 1, 3, 1), 1),
    ((1, 1), (1,), 0),
])  # fmt: skip
def test_broadcasting_kernels(a_shape, b_shape, adds, monkeypatch):
    monkeypatch.setattr(kernel_cache, "PARALLEL_FROM", 36)
    a, b = normal(*a_shape), normal(*b_shape) + np.float32(3)
    gy = normal(*np.broadcast_shapes(a_shape, b_shape))
    check(AFFINE, [a, b], [gy], [0.5], [adds])
    check(PRODUCT_BACKWARD, [gy, a, b], [a, b], (), [adds, adds])


@pytest.mark.parametrize("b_shape, shape, adds", [
    ((70,), (300, 70), 0), ((70,), (300, 70), 1), ((4, 1, 5), (4, 90, 5), 0),
    ((600,), (3, 600), 1), ((3, 1, 300), (3, 2, 300), 0), ((5, 1, 7), (40, 5, 3, 7), 0),
])  # fmt: skip
def test_sums_by_chunks_and_by_tiles(b_shape, shape, adds, monkeypatch):
    monkeypatch.setattr(kernel_cache, "PARALLEL_FROM", 1900)
    a, b = normal(*shape), normal(*b_shape)
    check(PRODUCT_BACKWARD, [a, a, b], [None, b], (), [False, adds])


@pytest.mark.parametrize("join", ["add", "multiply", "maximum", "minimum"])
@pytest.mark.parametrize("shape, kept, adds", [
    ((40, 70), (40, 1), 0), ((3, 20000), (3, 1), 1), ((100, 70), (1, 70), 1),
    ((9, 70, 30), (1, 70, 1), 0),
])  # fmt: skip
def test_terms_are_joined_as_the_program_says(shape, kept, adds, join):
    program = Program("terms", (Assign("y", "x * s"),), ("x",), ("y",), ("s",), join)
    x = normal(*shape)
    if join == "multiply":  # exact in any order
        x = np.where(np.abs(x) > 2.5, np.sign(x) * np.float32(0.5), np.float32(1)) * 2
    elif join != "add":
        x.flat[::1003] = np.nan
    check(program, [x], [np.empty(kept, np.float32)], [0.5], [adds])


@pytest.mark.parametrize("axis", [0, 1])
def test_long_products_stay_in_range(axis):
    """Some products of the values are not representable in float32."""
    x, product = np.full((640, 640), np.float32(1e-5)), np.empty(640, np.float32)
    x[::2, ::2], x[1::2, 1::2] = 1e5, 1e5
    program = Program("terms", (Assign("y", "x"),), ("x",), ("y",), (), "multiply")
    compiled(program, [x], [np.expand_dims(product, axis)])()
    np.testing.assert_allclose(product, np.prod(x, axis, np.float64), rtol=1e-6)


@pytest.mark.parametrize("join", ["add", "multiply", "maximum"])
@pytest.mark.parametrize("shape, kept, adds", [
    ((40, 70), (40, 1), 1), ((100, 70), (1, 70), 1), ((3, 20000), (3, 1), 0),
    ((9, 700), (1, 700), 1),
])  # fmt: skip
def test_terms_of_halves_are_joined_in_single_precision(shape, kept, adds, join):
    """No more error than rounding the result, twice where it is accumulated."""
    program = Program("terms", (Assign("y", "x"),), ("x",), ("y",), (), join)
    x = (1 + normal(*shape) / 512).astype(np.float16)
    out = np.ones(kept, np.float16)
    compiled(program, [x], [out], (), [adds])()
    axis = tuple(d for d, n in enumerate(kept) if n == 1 and shape[d] > 1)
    expected = adds + getattr(np, join).reduce(x.astype(np.float64), axis, keepdims=True)
    np.testing.assert_allclose(out, expected, rtol=2 ** -10)


def test_long_sums_lose_no_digits():
    """Of a million equal elements, along rows and columns: exact to the last bit of the result."""
    for shape, kept in (((1000000,), (1,)), ((20, 50000), (20, 1)), ((50000, 20), (1, 20))):
        x, total = np.full(shape, np.float32(0.1)), np.empty(kept, np.float32)
        compiled(Program("terms", (Assign("y", "x"),), ("x",), ("y",)), [x], [total])()
        want = np.float32(float(np.float32(0.1)) * (x.size // total.size))
        np.testing.assert_array_equal(total, np.full(kept, want))


def check(program, ins, likes, scalars, add):
    """Kernel against NumPy; outputs are shaped as `likes` and start as ones."""
    want = [None if like is None else np.ones_like(like) for like in likes]
    got = [None if like is None else np.ones_like(like) for like in likes]
    run(program, ins, want, scalars, add)
    compiled(program, ins, got, scalars, add)()
    for a, b in zip(got, want, strict=True):
        if b is not None:
            same(a, b, f"{program} over {[x.shape for x in ins]}")


def test_a_sum_is_taken_before_its_operands_are_overwritten():
    gy, a, b = normal(40, 6), normal(40, 6), normal(6)
    want = [gy * b, (gy * a).sum(0)]
    got = [gy, np.empty_like(b)]
    compiled(PRODUCT_BACKWARD, [gy, a, b], got)()
    for x, y in zip(got, want, strict=True):
        same(x, y, "in place")


@pytest.mark.parametrize("adds", [(True, True), (False, True), (True, False), (False, False)])
@pytest.mark.parametrize("size", [8, 5000])
def test_outputs_that_are_one_array_are_written_in_turn(size, adds):
    """As gradients of two arguments that share an array; a third output overwrites an input."""
    program = Program("three", (Assign("p", "x * y"), Assign("q", "x + y"), Assign("r", "x - y")),
                      ("x", "y"), ("p", "q", "r"))
    x, y = np.arange(2 * size, dtype=np.float32).reshape(2, size) % 7
    shared, expected = np.full((2, size), 100, np.float32)
    for value, add in zip((x * y, x + y), adds, strict=True):
        expected[:] = value + expected * add
    difference = x - y
    kernel_cache.prepare(program, (x, y), (shared, shared, x), add=(*adds, False))()
    np.testing.assert_array_equal(shared, expected)
    np.testing.assert_array_equal(x, difference)


def test_an_input_that_is_a_result_survives_its_neighbour():
    swap = Program("swap", (Assign("u", "b"), Assign("v", "a")), ("a", "b"), ("u", "v"))
    for execute in (run, lambda *args: compiled(*args)()):
        a, b = np.float32([1, 2]), np.float32([3, 4])
        execute(swap, [a, b], [a, b])
        assert (a.tolist(), b.tolist()) == ([3, 4], [1, 2])


@pytest.mark.parametrize("shape", [(1, 30, 1), (1, 1, 1), (2, 1, 40)])
def test_a_zero_gradient_that_is_a_sum_has_no_axes_to_sum_over(shape):
    """Bind ended with StopIteration, for tensors large enough to be compiled."""
    program = Program("scaled", (Assign("ga", "gy * b"), Assign("gb", "0")), ("gy", "b"),
                      ("ga", "gb"))
    gy, b, ga, gb = normal(2, 30, 40), normal(*shape), normal(2, 30, 40), normal(*shape)
    compiled(program, [gy, b], [ga, gb])()
    same(ga, gy * b, "of data")
    assert not gb.any()


def test_a_gradient_that_is_zero_reads_nothing():
    where = mx.sym.where(*map(mx.sym.Variable, "cab"))
    shapes = dict.fromkeys("cab", (2, 3))
    executor = where.simple_bind(mx.cpu(), grad_req={"c": "add"}, **shapes)
    executor.grad_dict["c"][:] = 5
    executor.forward(is_train=True)
    executor.backward(mx.nd.ones((2, 3)))
    assert executor.grad_dict["c"].asnumpy().tolist() == [[5] * 3] * 2


SMALL, LONG = lanes("float32") * 5, ROW + lanes("float32")


@pytest.mark.parametrize("shape, b_shape, dtype, shared, streamed", [
    ((3,), (3,), "float32", 0, 2), ((2 * ROW + 77,), (2 * ROW + 77,), "float32", 0, 2),
    ((ROW,), (ROW,), "float64", 0, 2), ((ROW + 1,), (1,), "float32", 1, 1),
    ((3, 2, LONG), (3, 1, 1), "float32", 0, 2), ((5, LONG), (1, LONG), "float64", 0, 2),
    ((3, LONG + 1), (3, 1), "float32", 0, 0), ((300, SMALL), (300, 1), "float32", 0, 0),
    ((ROW,), (ROW,), "float16", 0, 0),
])  # fmt: skip
def test_streamed_results_are_the_same_bits(shape, b_shape, dtype, shared, streamed, monkeypatch):
    """Whole steps and remainders, flat and in rows, `shared` outputs with an input."""
    steps = (Assign("u", "a * b + s"), Assign("v", "u - exp(a)"))
    program = Program("both", steps, ("a", "b"), ("u", "v"), ("s",))
    b, found = normal(*b_shape, dtype=dtype), []
    for far in (np.inf, 0):
        monkeypatch.setattr(nontemporal, "NONTEMPORAL_BYTES", far)
        a, u, v = (at_a_vector(normal(*shape, dtype=dtype)) for _ in range(3))
        step = compiled(program, [a, b], [a if shared else u, v], [0.5])
        text = inspect.getsource(step.func.function)
        stores = streamed if far == 0 and lanes("float32") > 1 else 0
        assert text.count("store_nontemporal(") == stores
        step()
        found.append([a, u, v])
    for plain, past in zip(*found, strict=True):
        np.testing.assert_array_equal(plain, past)


def test_what_is_not_streamed(monkeypatch):
    """Accumulated outputs, reductions, or unaligned starts."""
    monkeypatch.setattr(nontemporal, "NONTEMPORAL_BYTES", 0)
    a, room = at_a_vector(normal(ROW)), at_a_vector(normal(ROW + 1))
    for out, add in ((room[:-1], True), (room[1:], False), (room[:1], False)):
        run = compiled(AFFINE, [a, a], [out], [0.5], [add])
        assert "store_nontemporal(" not in inspect.getsource(run.func.function)


def at_a_vector(array):
    """A copy that is vector-aligned."""
    room = np.empty(array.nbytes + 64, np.uint8)
    start = -room.ctypes.data % 64
    copy = room[start:start + array.nbytes].view(array.dtype).reshape(array.shape)
    np.copyto(copy, array)
    return copy


# -- choices, files ------------------------------------------------------------------------------


def test_what_runs_compiled():
    def runs_compiled(program, x, y):
        return isinstance(kernel_cache.prepare(program, [x], [y]).func, Kernel)

    relu, cast = OPS["relu"]().program(), OPS["Cast"](dtype="float16").program()
    large, small = normal(kernel_cache.COMPILED_FROM), normal(9)
    whole, half, double = (large.astype(t) for t in (np.int32, np.float16, np.float64))
    assert runs_compiled(relu, large, large.copy())
    assert runs_compiled(cast, whole, half)
    assert not runs_compiled(relu, small, small.copy())
    assert not runs_compiled(relu, whole, whole.copy())
    assert not runs_compiled(cast, double, half)  # it would be rounded twice
    assert kernel_cache.prepare(cast, [large], [large.view()]).__name__ == "_nothing"


def test_kernel_source_is_readable():
    x = normal(10)
    twice = Program("twice", (Assign("y", "x + x * 0.5"),), ("x",), ("y",))
    step = compiled(twice, [x], [x.copy()])
    path = step.func.function.__code__.co_filename
    text = "".join(linecache.getlines(path))
    assert text.startswith('"""y = x + x * 0.5\n')
    assert "        x = X[i0]\n        y = x + x * real(0.5)\n        Y[i0] = y\n" in text
    assert path.startswith("<twice_")


def test_float32_kernels_compute_in_float32(monkeypatch):
    monkeypatch.setattr(CONFIG, "cache", False)
    x = normal(10)
    formula = "where(x > 0.25, x * 1.5, exp(x) / 3) + mod(x, 2) - 4"
    step = compiled(Program("single", (Assign("y", formula),), ("x",), ("y",)), [x], [x.copy()])
    step()
    (code,) = step.func.compile().inspect_llvm().values()
    body = [line for line in code.splitlines() if " double" in line and "declare" not in line]
    assert not body, body[:3]


SECOND_PROCESS = """
import numpy as np
from nbmod.ops import OPS
from nbmod.ops.elementwise import kernel_cache as kernels
x = np.linspace(-2, 2, 9, dtype=np.float32)
y = np.empty_like(x)
step = kernels.compiled(OPS["sigmoid"]().program(), [x], [y])
step()
assert abs(y[0] - 0.11920292) < 1e-6
stats = step.func.compile().stats
print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))
"""


def test_a_second_process_finds_the_compiled_kernel(tmp_path, monkeypatch):
    monkeypatch.setenv("NBMOD_CACHE_DIR", str(tmp_path))
    runs = [
        subprocess.run([sys.executable, "-c", SECOND_PROCESS], capture_output=True, text=True)
        for _ in range(2)
    ]
    assert [r.stdout.split() for r in runs] == [["0", "1"], ["1", "0"]], runs[-1].stderr
    assert len(list(tmp_path.glob("kernels/*.kernel"))) >= 1


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_sums_of_many_terms_are_those_of_few(dtype):
    """A formula of 1,000 terms is deeper than Python's parser can read."""
    rng = np.random.default_rng(0)
    terms = rng.integers(-9, 9, (1000, 3, 5)).astype(dtype) / np.array(8, dtype)
    terms = terms.astype(dtype)
    names = [f"x{i}" for i in range(len(terms))]
    net = mx.sym.add_n(*map(mx.sym.Variable, names))
    executor = net.bind(mx.cpu(), {name: mx.nd.array(term, dtype=dtype)
                                   for name, term in zip(names, terms, strict=True)},
                        args_grad={"x0": mx.nd.zeros((3, 5), dtype=dtype)})
    got = executor.forward(is_train=True)[0].asnumpy()
    # Eighths below 2**11 are exact in float16, too.
    np.testing.assert_array_equal(got, terms.astype("float64").sum(axis=0))
    np.testing.assert_array_equal(mx.nd.add_n(*executor.arg_arrays).asnumpy(), got)
    executor.backward(mx.nd.ones((3, 5), dtype=dtype))
    np.testing.assert_array_equal(executor.grad_dict["x0"].asnumpy(), 1)
