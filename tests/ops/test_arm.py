"""Vector code for AArch64, which LLVM can generate on any host: valid, and made of vectors."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

VECTORS = ["strip2", "plane1", "lanewise", "outer2", "input_tile", "product"]


@pytest.fixture(scope="module")
def assembly():
    """Name of a micro-kernel -> its instructions."""
    ran = subprocess.run([sys.executable, "-m", "tests.programs.arm_assembly"], capture_output=True,
                         text=True, timeout=120, env=os.environ | {"NBMOD_SIMD_LANES": "4"})
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


@pytest.mark.parametrize("name", VECTORS)
def test_multiply_and_add_is_one_instruction_on_four_numbers(assembly, name):
    code = assembly[name]
    assert re.search(r"fmla\s+v\d+\.4s", code)
    assert not re.search(r"\tbl\t|\tfmadd\t", code), "calls, or numbers one at a time"


def test_tiles_are_transposed_in_registers(assembly):
    assert re.search(r"(zip|trn|uzp)[12]\s+v\d+\.[42][sd]", assembly["transpose"])


def test_denormals_are_a_bit_of_fpcr(assembly):
    """The control register is read, changed by bit 24 alone, and written."""
    code = assembly["denormals"]
    assert re.search(r"mrs\s+x\d+, FPCR", code) and re.search(r"msr\s+FPCR, x\d+", code)
    assert re.search(r"#0x1000000|#16777216", code)
