"""Fingerprints of kernels: every edit that changes machine code, and no other one."""

from __future__ import annotations

import functools
import importlib.util
import json
import subprocess
import sys

import numpy as np
import pytest

from nbmod.ops.blocked import conv_driver
from nbmod.ops.build import fingerprint as module
from nbmod.ops.build.fingerprint import fingerprint
from nbmod.ops.jit import Kernel, inlined, kernel
from nbmod.ops.simd import conv_strip
from nbmod.ops.simd.ir import MicroKernel

KERNELS = '''
"""A kernel."""
from functools import partial
from typing import NamedTuple
import numpy as np
from nbmod.ops.jit import inlined, kernel, prange
from nbmod.ops.simd.ir import MicroKernel
import fingerprint_helpers
from fingerprint_helpers import Pair, outer

SCALE = 3
TABLE = np.array([1.0, 2.0], np.float32)

def emit(count, v):
    for i in range(count):
        v.store(v.load(v.args.x), v.args.x)

copy = MicroKernel(("x",), partial(emit, 2), None)

def unrelated():
    return 1

class Size(NamedTuple):
    """Named inside the kernel."""
    rows: int
    columns: int = 1

@inlined
def near(x):
    return x * SCALE + TABLE[0]

@kernel(parallel=True)
def computed(x, size):
    """Doubles."""
    size = Size(*size)
    for i in prange(len(x)):
        x[i] = near(x[i]) + outer(x[i], Pair(i, size.columns))
    copy(x)
'''
HELPERS = '''
from typing import NamedTuple
from nbmod.ops.jit import inlined

class Pair(NamedTuple):
    """Two numbers."""
    first: int
    second: int

LIMITS = {"most": 5}

class Rule:
    def most(self):
        return LIMITS["most"]

@inlined
def inner(x, factor=2):
    return x * factor

@inlined
def outer(x, pair):
    return inner(x) + pair.first

def computed():
    return Rule().most()
'''


@pytest.fixture
def digest(tmp_path, monkeypatch):
    """The fingerprint of the kernel, after edits of either file."""

    def load(name, text):
        path = tmp_path / f"{name}.py"
        path.write_text(text, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(name, path)
        loaded = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, loaded)
        exec(compile(text, path, "exec"), loaded.__dict__)     # not from an older .pyc
        return loaded

    def edited(text, edits):
        return functools.reduce(lambda text, edit: text.replace(*edit), edits, text)

    def found(*edits):
        assert all(old in KERNELS + HELPERS for old, _ in edits)
        load("fingerprint_helpers", edited(HELPERS, edits))
        loaded = load("fingerprint_kernels", edited(KERNELS, edits))
        return fingerprint(loaded.computed.function)

    return found


@pytest.mark.parametrize(("old", "new"), [
    ("near(x[i]) +", "near(x[i]) -"),
    ("x * SCALE +", "x * SCALE -"),
    ("SCALE = 3", "SCALE = 4"),
    ("SCALE = 3", "SCALE = 3.0"),
    ("[1.0, 2.0]", "[1.0, 2.5]"),
    ("np.float32)", "np.float64)"),
    ("v.store(", "v.store_nontemporal("),
    ("partial(emit, 2)", "partial(emit, 3)"),
    ("return inner(x)", "return inner(x) + 1"),
    ("x * factor", "x / factor"),
    ("factor=2", "factor=4"),
    ("    rows: int\n    columns: int = 1", "    columns: int\n    rows: int = 1"),
    ("columns: int = 1", "columns: int = 2"),
    ("    rows: int\n", "    rows: int\n    depth: int\n"),
    ("    first: int\n    second: int", "    second: int\n    first: int"),
    ("    second: int\n", "    second: int\n    third: int = 0\n"),
    ("Size(*size)", "Pair(*size)"),
])
def test_edits_of_what_a_kernel_uses_change_it(digest, old, new):
    assert digest() != digest((old, new))


@pytest.mark.parametrize(("old", "new"), [
    ("Doubles.", "Triples."),
    ("A kernel.", "Another kernel."),
    ("    return 1", "    return 2"),
    ("SCALE = 3\n", "SCALE = 3   # a comment\n\n\n"),
    ('"most": 5', '"most": 6'),
    ("Two numbers.", "Both numbers."),
])
def test_other_edits_do_not(digest, old, new):
    assert digest() == digest((old, new))


def test_code_that_emits_code_is_followed_into_classes_and_modules(digest):
    """A method, and what it uses in turn, through the name of a module."""
    used = ("range(count)", "range(fingerprint_helpers.computed())")
    assert digest(used) != digest(used, ('"most": 5', '"most": 6'))
    assert digest(used) != digest(used, ("return LIMITS", "return 1 + LIMITS"))


def test_options_of_helpers_count():
    def double(x):
        return x * 2

    digests = set()
    for helper in (inlined(double), inlined(double, fastmath=True), inlined(double, always=True)):
        digests.add(fingerprint(kernel(lambda x, helper=helper: helper(x)).function))
    assert len(digests) == 3


def test_compiling_a_helper_changes_nothing():
    """A module's helpers are replaced by compiled ones when its first kernel is compiled."""
    helper = inlined(lambda x: x * 2)
    micro = MicroKernel(("x",), lambda v: None, lambda x: None)
    for each in (helper, micro):
        before = fingerprint(lambda x, each=each: each(x))
        compiled = each.compile()
        module._units.clear()
        assert fingerprint(lambda x, each=compiled: each(x)) == before


def test_values_are_told_apart():
    writer = module._Describer()
    values = [None, 0, 0.0, -0.0, False, "0", b"0", (0,), [0], {0}, {0: 0}, np.float32(0),
              np.zeros(1), np.zeros((1, 1)), np.float32, np.dtype("f"), np.add, len, range(3),
              Kernel, slice(1, 2)]
    assert len({writer.value(value) for value in values}) == len(values)
    looped = [1]
    looped.append(looped)
    assert "itself" in writer.value(looped)


def test_the_emitted_code_of_convolutions_is_part_of_their_kernels(monkeypatch):
    before = fingerprint(conv_driver._strips.function)
    monkeypatch.setattr(conv_strip, "emit_add", lambda v, *rest: None)
    module._units.clear()
    assert fingerprint(conv_driver._strips.function) != before
    monkeypatch.undo()
    module._units.clear()
    assert fingerprint(conv_driver._strips.function) == before


DIGESTS = """
import importlib, json, pkgutil, sys
import nbmod.ops
from nbmod.ops.build.fingerprint import fingerprint
from nbmod.ops.build.inlining import link
from nbmod.ops.jit import Kernel
found = {}
names = [each.name for each in pkgutil.walk_packages(nbmod.ops.__path__, "nbmod.ops.")
         if ".cuda" not in each.name]
backwards = sys.argv[1] == "backwards"
for name in names[::-1] if backwards else names:
    members = vars(importlib.import_module(name))
    for key, value in list(members.items()):
        if isinstance(value, Kernel):
            if backwards:
                link(members)
            found[f"{value.function.__module__} {key}"] = fingerprint(value.function)
print(json.dumps(found))
"""


def test_all_processes_find_the_same_digests():
    """Whatever they import or compile first."""
    found = [json.loads(subprocess.run([sys.executable, "-c", DIGESTS, order], check=True,
                                       capture_output=True, text=True).stdout)
             for order in ("forwards", "backwards")]
    assert found[0] == found[1] and len(found[0]) > 100
    assert len(set(found[0].values())) > 0.9 * len(found[0])    # some have two names
