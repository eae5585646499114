"""Helpers of kernels: linked into them, without machine code of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import numba  # noqa: TID251
import numpy as np
import pytest

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


def test_helpers_have_neither_entry_points_nor_machine_code():
    scale(np.ones(3))
    for result in scaled.overloads.values():
        defined = [function.name for function in result.library.get_defined_functions()]
        assert not [name for name in defined if name.startswith(("_ZN7cpython", "cfunc."))]
        assert not result.library.get_pointer_to_function(result.fndesc.llvm_func_name)


def test_helpers_are_not_optimized_before_they_are_in_a_kernel():
    """There they become a part of it; before, they still call each other."""
    scale.compile()
    scaled.compile((numba.float64[::1], numba.int64))
    for helper in scaled.overloads.values():
        assert re.search("call [^(]*checked", helper.library.get_llvm_str())


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
