"""Helpers of kernels: linked into them, without machine code of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import numba  # noqa: TID251
import numpy as np
import pytest

from nbmod.core.config import CONFIG
from nbmod.ops.build.levels import restrict_numba
from nbmod.ops.jit import inlined, kernel, prange

pytestmark = pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1",
                                reason="nothing is compiled")

restrict_numba()    # to NBMOD_CPU_LEVEL, before the first function that is numba's own
TABLE = np.array([1.0, 10.0, 100.0])


@inlined
def checked(x, i):
    if x[i] > 500:
        raise ValueError("too large", i)
    return x[i]


@inlined
def scaled(x, i):
    return checked(x, i) * TABLE[i]


@inlined
def second_half(x):
    return x[len(x) // 2:]


@inlined
def add_to(x, i, by):
    x[i] += by


@inlined
def add_twice(x, i):
    add_to(x, i, 1)
    add_to(x, i, 1)


@numba.njit
def compiled_by_a_user(x):
    return x + 1


@kernel
def scale(x):
    for i in range(len(x)):
        x[i] = compiled_by_a_user(scaled(x, i))


@kernel(parallel=True)
def scale_in_parallel(x):
    for i in prange(len(x)):
        x[i] = compiled_by_a_user(scaled(x, i))


@pytest.mark.parametrize("run", [scale, scale_in_parallel], ids=["serial", "parallel"])
def test_python_code_may_call_helpers_of_compiled_kernels(run):
    """As kernels do, which replace helpers in their modules by what numba knows."""
    x = np.ones(3)
    run(x)
    assert x.tolist() == [2, 11, 101]
    assert scaled(x, 1) == 110 and checked(x, 2) == 101
    assert compiled_by_a_user(1) == 2
    with pytest.raises(ValueError, match="too large"):
        scaled(np.full(3, 501.0), 0)


@pytest.fixture
def add_twice_alone():
    """A helper, compiled, which calls another."""
    scale.compile()     # numba's functions take the places of helpers in this module
    add_twice.compile((numba.float64[::1], numba.int64))
    [result] = add_twice.overloads.values()
    return result


def test_helpers_have_neither_entry_points_nor_machine_code(add_twice_alone):
    library = add_twice_alone.library
    defined = [function.name for function in library.get_defined_functions()]
    assert not [name for name in defined if name.startswith(("_ZN7cpython", "cfunc."))]
    assert not library.get_pointer_to_function(add_twice_alone.fndesc.llvm_func_name)


def test_helpers_are_not_optimized_before_they_are_in_a_kernel(add_twice_alone):
    """There they become a part of it; before, they still call each other."""
    assert re.search("call [^(]*add_to", add_twice_alone.library.get_llvm_str())


OBJECTS = """
import numpy as np
from nbmod.ops.jit import inlined, kernel

@inlined
def checked(x, i):
    if x[i] > 5:
        raise ValueError("too large", i, x[i])
    return x[i]

@inlined
def shown(x, i):
    print("element", i)
    return checked(x, i)

@kernel
def double(x):
    for i in range(len(x)):
        x[i] = shown(x, i) * 2

x = np.array([1.0, 3.0])
double(x)
print(x.tolist(), sum(double.compile().stats.cache_hits.values()))
try:
    double(x)
except ValueError as error:
    print(error.args)
"""


def test_helpers_find_their_python_objects(tmp_path):
    """In the process that compiles them, and in one that loads the kernel: to print, and for the
    arguments of exceptions."""
    (tmp_path / "script.py").write_text(OBJECTS)
    for loaded in (0, 1):
        done = subprocess.run([sys.executable, tmp_path / "script.py"], text=True, timeout=300,
                              env=os.environ | {"NBMOD_CACHE_DIR": str(tmp_path / "kept")},
                              stdout=subprocess.PIPE, check=True)
        assert done.stdout.splitlines() == [
            "element 0", "element 1", f"[2.0, 6.0] {loaded}", "element 0", "element 1",
            "('too large', 1, 6.0)"]


@kernel
def swap_ends(x):
    y = np.empty(2)
    y[0], y[1] = x[-1], x[0]
    half = second_half(y)
    add_to(half, 0, 1)
    x[:] = y


def test_helpers_are_compiled_without_reference_counts_and_once(monkeypatch):
    """They may return parts of their arrays; constants need no helper of their own."""
    monkeypatch.setattr(CONFIG, "cache", False)

    @kernel
    def raise_elements(x):
        half = second_half(x)
        add_to(half, 0, 1)
        add_to(half, len(half) - 1, 2)
        for i in range(2):
            add_to(x, i, i)

    x = np.zeros(6)
    raise_elements(x)
    assert x.tolist() == [0, 1, 0, 1, 0, 2]
    assert list(add_to.overloads) == [(numba.float64[::1], numba.int64, numba.int64)]
    for helper in (second_half, add_to):
        [result] = helper.overloads.values()
        assert "NRT" not in result.library.get_llvm_str()


def test_kernels_may_make_arrays():
    """Then references are counted, also by helpers, even if other kernels have them without."""
    x = np.array([3.0, 1.0])
    for _ in range(100):
        swap_ends(x)
    assert x.tolist() == [53, 51]
