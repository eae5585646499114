"""Programs over modules, run in nbmod and in MXNet."""

from __future__ import annotations

import pytest

import nbmod as mx
from tests.compare import assert_like
from tests.programs import module_answers


@pytest.mark.parametrize("program", module_answers.PROGRAMS)
def test_modules_answer_as_in_mxnet(oracle, program):
    theirs = oracle.call("mx_scripts.run", "module_answers", "answer", program)
    # float16 has 11 bits; float32 sums are in another order.
    assert_like(module_answers.answer(mx, program), theirs,
                1e-3 if program == "half_and_single" else 2e-5)
