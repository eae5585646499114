"""Parallel loops of kernels, which become functions that all threads call."""

from __future__ import annotations

import os
import threading
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nbmod.base import MXNetError
from nbmod.core.config import CONFIG
from nbmod.ops import jit
from nbmod.ops.jit import inlined, kernel, num_threads, prange, set_num_threads

pytestmark = pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1",
                                reason="nothing is compiled")


class Scaled(NamedTuple):
    """Arrays and a number that a kernel reads."""

    by: np.ndarray
    offset: int
    sizes: tuple[int, int]


@inlined
def scaled(x, i, scale):
    return x[i] * scale.by[i] + scale.offset * scale.sizes[1]


@kernel(parallel=True)
def count_visits(visits, count):
    for i in prange(count):
        visits[i] += 1


@kernel(parallel=True)
def run_loops(x, y, scale, double):
    for turn in range(3):
        for i in prange(len(x)):
            part = x[i] + turn
            if double:
                part *= 2
            x[i] = part
        if turn:
            for j in prange(len(y)):
                part = y[j]
                for i in prange(len(x)):
                    part += scaled(x, i, scale)
                y[j] = part


@kernel(parallel=True)
def index_backwards(x, y):
    for i in prange(len(x)):
        y[i] = x[np.int64(i) - 1]


@kernel(parallel=True)
def require(x, most):
    for i in prange(len(x)):
        if x[i] > most:
            raise ValueError("too large", i)
        x[i] += 1


@kernel(parallel=True)
def total(x, y):
    found = 0.0
    for i in prange(len(x)):
        found += x[i]
    y[0] = found


@kernel(parallel=True)
def last(x, y):
    at = 0
    for i in prange(len(x)):
        at = x[i]
    y[0] = at


@kernel(parallel=True)
def first_negative(x, y):
    for i in prange(len(x)):
        if x[i] < 0:
            y[0] = i
            break


@kernel(parallel=True)
def every_other(x):
    for i in prange(0, len(x), 2):
        x[i] = 0


@settings(deadline=None)     # the first example compiles
@given(st.integers(-3, 40), st.integers(1, 64))
def test_every_iteration_runs_once(count, threads):
    before = num_threads()
    visits = np.zeros(40, np.int64)
    set_num_threads(min(threads, before))
    try:
        count_visits(visits, count)
    finally:
        set_num_threads(before)
    assert visits.tolist() == [int(i < count) for i in range(40)]


def test_one_iteration_runs_in_the_calling_thread():
    """Even if another thread is inside of a parallel kernel, and of the same compiled code."""
    entered, done, visits = threading.Event(), threading.Event(), np.zeros(1, np.int64)
    count_visits(visits, 1)

    def hold_the_pool():
        with jit._gate:
            entered.set()
            done.wait(60)

    holder = threading.Thread(target=hold_the_pool)
    holder.start()
    entered.wait()
    count_visits.alone(visits, 1)
    done.set()
    holder.join()
    assert visits[0] == 2 and count_visits.alone.compile() is count_visits.compile()


def test_loops_compute_what_python_does():
    """Several, in other loops and branches, with local variables, and with tuples of arrays; one
    inside of another runs in the thread of that."""
    scale = Scaled(np.linspace(1, 2, 7), 3, (1, 2))
    for double in (False, True):
        found, expected = ((np.arange(7.0), np.ones(5)) for _ in range(2))
        run_loops(*found, scale, double)
        run_loops.function(*expected, scale, double)
        np.testing.assert_array_equal(found[0], expected[0])
        np.testing.assert_allclose(found[1], expected[1], rtol=1e-14)   # sums may be fused


def test_signed_arithmetic_with_the_index():
    x, y = np.arange(5.0), np.zeros(5)
    index_backwards(x, y)
    assert y.tolist() == [4, 0, 1, 2, 3]


def test_exceptions_of_threads_are_raised_by_the_kernel():
    x = np.zeros(1000)
    require(x, 0)
    x[7] = 5
    with pytest.raises(ValueError, match="too large") as info:
        require(x, 2)
    assert info.value.args == ("too large", 7)
    x[7] = 0
    require(x, 2)


@pytest.mark.parametrize("run, message", [
    (total, r"share \['found'"), (last, r"share \['at'"), (first_negative, "no break"),
    (every_other, "one argument")])
def test_loops_whose_iterations_depend_on_each_other_are_refused(run, message):
    """numba would add up in another order for every number of threads, and run loops that it cannot
    divide in one thread without a word."""
    with pytest.raises(MXNetError, match=message):
        run(*[np.ones(4)] * (1 if run is every_other else 2))


def test_a_loop_is_compiled_once(monkeypatch):
    """The types of a kernel, a loop's body and a helper are inferred once each."""
    from numba.core import event  # noqa: TID251

    monkeypatch.setattr(CONFIG, "cache", False)

    @kernel(parallel=True)
    def scale_all(x, y):
        for i in prange(len(x)):
            y[i] = scaled_once(x, i)

    recorder = event.RecordingListener()
    with event.install_listener("numba:run_pass", recorder):
        scale_all(np.ones(3), np.ones(3))
    inferred = [found.data["qualname"] for _, found in recorder.buffer if found.is_start
                and "type_inference" in found.data["name"]]
    assert len(inferred) == 3 and sum("scale_all" in name for name in inferred) == 2


@inlined
def scaled_once(x, i):
    return x[i] * 3
