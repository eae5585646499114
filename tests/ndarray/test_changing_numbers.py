"""Numbers and positions that change in every step: nothing is planned anew, and no bit differs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import numpy as np
import pytest

import nbmod as mx
from nbmod import autograd, nd
from nbmod.ndarray import eager, tape_programs
from nbmod.ndarray.tape_programs import PROGRAMS
from nbmod.ops import OPS
from tests.cases import Sample, all_samples
from tests.grouped import Case, over_groups
from tests.programs import common

Draw = Callable[..., Any]
"""Of no argument: a number; of `n`: an integer from 0 to n."""
STEPS = 4
NUMBERS = [0.0, -0.0, 1.0, -1.5, 0.7, 2.0, 3.0, 1e-8, 300.7, -7.9, 1e30, 2.0 ** 53 + 2, np.inf,
           -np.inf, np.nan]
SPELLED: list[Callable[[Any, Draw], Any]] = [
    lambda x, draw: x * draw(), lambda x, draw: x + draw(), lambda x, draw: draw() - x,
    lambda x, draw: x / draw(), lambda x, draw: draw() / x,
]
"""With second derivatives."""
OTHERS: list[Callable[[Any, Draw], Any]] = [
    lambda x, draw: x % draw(), lambda x, draw: draw() % x, lambda x, draw: nd.maximum(x, draw()),
    lambda x, draw: nd.clip(x, draw(), draw()), lambda x, draw: (x > draw()) * x,
    lambda x, draw: nd.smooth_l1(x, scalar=draw()),
    lambda x, draw: nd.contrib.gradientmultiplier(x, scalar=draw()),
    lambda x, draw: nd.contrib.quadratic(x, a=draw(), b=draw(), c=draw()),
    lambda x, draw: nd.concat(x[(i := draw(2)):i + 2], x[draw(3)].reshape((1, 6)), x[:1], dim=0),
    lambda x, draw: nd.concat(nd.slice_axis(x, axis=1, begin=(i := draw(3)), end=i + 3),
                              x[:, 1::2], dim=1),
    lambda x, draw: nd.Pad(x.reshape((1, 1, 4, 6)), mode="constant", constant_value=draw(),
                           pad_width=(0, 0, 0, 0, (i := draw(2)), 2 - i, (j := draw(1)), 1 - j)
                           )[0, 0, 1:5, 0:6],
]
FLOATING: list[Callable[[Any, Draw], Any]] = [
    lambda x, draw: nd.softmax(x, temperature=draw()), lambda x, draw: nd.Dropout(x, p=draw(9) / 9),
    lambda x, draw: nd.hard_sigmoid(x, alpha=draw(), beta=draw()),
]
Answers = list[bytes]


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    forget()
    yield
    forget()


@pytest.fixture
def made(monkeypatch) -> list[Any]:
    """The tapes whose backward passes were planned."""
    calls: list[Any] = []
    original = tape_programs.gradient
    monkeypatch.setattr(tape_programs, "gradient",
                        lambda *args: calls.append(args) or original(*args))
    return calls


def forget() -> None:
    PROGRAMS.clear()
    eager.clear_caches()


def answers(seed: int, dtype: str, how: str, between: Callable[[], None]) -> list[Answers]:
    """Results and gradients of steps that have the operators of a seed, and other numbers each."""
    numbers = Random(seed)
    operators = SPELLED if how == "twice" else SPELLED + OTHERS + FLOATING * (dtype[0] == "f")

    def draw(most: int | None = None) -> float:
        return numbers.choice(NUMBERS) if most is None else numbers.randint(0, most)

    mx.random.seed(seed)
    return [step(Random(seed).choices(operators, k=5), draw, dtype, how)
            for _ in range(STEPS) if between() is None]


def step(operators: list[Any], draw: Draw, dtype: str, how: str) -> Answers:
    x = nd.arange(-12, 12).reshape((4, 6)).astype(dtype)
    x.attach_grad()
    with autograd.record():
        y, middle = x, None
        for operator in operators:
            middle, y = y, operator(y, draw)
        z = y + middle
        if how == "twice":
            z, = autograd.grad(z, [x], create_graph=True)
    z.backward(retain_graph=how == "retained")
    found = [z, x.grad.copy()]
    if how == "retained":
        z.backward(z)
        found.append(x.grad)
    return [array.asnumpy().tobytes() for array in found]


@pytest.mark.parametrize("dtype, how", [
    *((dtype, "once") for dtype in ("float32", "float64", "float16", "int32", "int64", "uint8")),
    ("float32", "retained"), ("float32", "twice"), ("int64", "twice")])
def test_random_tapes_compute_the_same_bits_as_if_planned_afresh(dtype, how, made, monkeypatch):
    seeds = range(8)
    kept = [answers(seed, dtype, how, lambda: None) for seed in seeds]
    planned = 0 if how == "twice" else len(seeds)   # gradients on the tape are interpreted
    assert len(made) == planned
    assert kept == [answers(seed, dtype, how, forget) for seed in seeds]
    assert len(made) == planned + STEPS * planned
    monkeypatch.setattr(PROGRAMS, "most", 0)
    assert kept == [answers(seed, dtype, how, forget) for seed in seeds]


def numbered() -> Iterator[Case]:
    for name, sample in all_samples().items():
        if OPS.find(sample.op).numbers and not sample.error and sample.out is None:
            yield Case(name, (name,))


def changed(sample: Sample) -> dict[str, Any]:
    """Other numbers in the parameters of a sample: valid rates stay valid."""
    given, attrs = OPS.find(sample.op).from_attrs(dict(sample.attrs)), dict(sample.attrs)
    for name in given.numbers or ("scalar",):   # of a power that is spelled out
        attrs[name] = (getattr(given, name) or 0.25) * 0.75
    return attrs


def recorded(sample: Sample, attrs: dict[str, Any]) -> Answers:
    """Results of an operator, and gradients of the inputs that have them."""
    mx.random.seed(5)
    arrays = {name: common.nd(mx, each) for name, each in sample.arrays(sample.dtypes[0]).items()}
    marked = [arrays[name] for name in sample.differentiated(sample.dtypes[0])]
    for array in marked:
        array.attach_grad()
    function = common.op_function(mx.nd, sample.op)
    with autograd.record():
        result = function(*() if sample.keyword else arrays.values(),
                          **arrays if sample.keyword else {}, **attrs)
    results = result if isinstance(result, list) else [result]
    if marked:
        autograd.backward(results)
    return [each.asnumpy().tobytes() for each in (*results, *[array.grad for array in marked])]


@over_groups("name", list(numbered()), lambda case: all_samples()[case.values[0]].op)
def test_operators_of_one_form_have_one_plan(name, made):
    sample, cls = all_samples()[name], OPS.find(all_samples()[name].op)
    forms = [cls.from_attrs(dict(attrs)).form for attrs in (sample.attrs, changed(sample))]
    assert (forms[0] == forms[1]) is bool(cls.from_attrs(dict(sample.attrs)).numbers)
    recorded(sample, dict(sample.attrs))
    plans, programs = eager._plan.cache_info().misses, len(made)
    kept = recorded(sample, changed(sample))
    if forms[0] == forms[1]:
        assert (eager._plan.cache_info().misses, len(made)) == (plans, programs)
    forget()
    assert kept == recorded(sample, changed(sample))


def test_a_loop_with_other_numbers_plans_once(made):
    numbers = iter(range(300))
    for count in range(50):
        step(SPELLED, lambda: next(numbers) + 0.5, "float32", "once")
        if not count:
            plans = eager._plan.cache_info().misses
    assert len(made) == 1 and eager._plan.cache_info().misses == plans


def test_powers_that_are_spelled_out_have_plans_of_their_own(made):
    powers = [-1, 0.5, 1, 2, 3, 0.0, 2.5, -2, np.nan, np.inf]
    kept = [step([lambda x, draw: x ** draw()], lambda p=p: p, "float32", "once") for p in powers]
    assert len(made) == 6
    for p, answer in zip(powers, kept, strict=True):
        forget()
        assert answer == step([lambda x, draw: x ** draw()], lambda p=p: p, "float32", "once")


def test_threads_with_numbers_of_their_own_share_plans():
    wrong: list[float] = []

    def work(number: float) -> None:
        x = nd.ones(3)
        x.attach_grad()
        for count in range(200):
            with autograd.record():
                y = x * (number + count)
            y.backward()
            wrong.extend({*y.asnumpy().tolist(), *x.grad.asnumpy().tolist()} - {number + count})

    threads = [threading.Thread(target=work, args=(1000.0 * (i + 1),)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
