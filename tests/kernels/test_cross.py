"""Kernels for ARM, compiled on another machine: object files with ARM's vector instructions."""

from __future__ import annotations

import os
import pickle
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kernels.cross import TRIPLES
from nbmod.ops.build.store import read_kernel

ROOT = Path(__file__).parents[2]
COMPILE = """
import platform
from kernels.cross import imitate
from nbmod.ops.build.levels import chosen
imitate(chosen())
from nbmod import cpu, sym
from nbmod.execution.compile_ahead import recorded
from nbmod.ops.jit import compile_ahead
layer = sym.FullyConnected(sym.Variable("data"), num_hidden=64)
for kernel, types in recorded(layer.simple_bind(cpu(), "null", data=(1, 512)).planned):
    compile_ahead(kernel, types)
"""
HEADS = {"armv8.2": b"\x7fELF\x02\x01\x01", "apple-m1": b"\xcf\xfa\xed\xfe\x0c\x00\x00\x01"}
"""The first bytes of ELF files of 64 bits, and of Mach-O files for ARM of 64 bits."""

pytestmark = [
    pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled"),
    pytest.mark.skipif(platform.machine().lower() in ("aarch64", "arm64"), reason="not another"),
]


@pytest.mark.parametrize("level", TRIPLES)
def test_kernels_for_another_architecture(level, tmp_path):
    settings = {"NBMOD_CPU_LEVEL": level, "NBMOD_CACHE_DIR": str(tmp_path), "NBMOD_SHIPPED": "0"}
    done = subprocess.run([sys.executable, "-c", COMPILE], cwd=ROOT, env=os.environ | settings,
                          check=False, timeout=300, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    files = list((tmp_path / "kernels").glob("*.kernel"))
    codes = {file.name.split("-")[0]: code_of(file) for file in files}
    assert len(codes) >= 3
    assert all(code.startswith(HEADS[level]) for code in codes.values())
    assert level != "armv8.2" or all(code[18] == 0xB7 for code in codes.values()), "AArch64"
    assert max(map(multiply_adds, codes.values())) > 10


def code_of(file: Path) -> bytes:
    """The object file in a kernel's file."""
    content = read_kernel(file)
    assert content is not None
    (_, _, (code, _)), *_ = pickle.loads(content)
    return bytes(code)


def multiply_adds(code: bytes) -> int:
    """How often the instruction FMLA of four float32 occurs, of vectors or with one element (Arm
    Architecture Reference Manual, C7.2)."""
    words = np.frombuffer(code[:len(code) // 4 * 4], np.uint32)
    vectors = (words & 0xFFE0FC00) == 0x4E20CC00
    elements = (words & 0xFFC0F400) == 0x4F801000
    return int((vectors | elements).sum())
