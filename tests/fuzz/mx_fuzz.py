"""Runs in the MXNet worker: programs, in MXNet."""

from __future__ import annotations

import os
from typing import Any

import mxnet as mx

from tests.fuzz.program import Program
from tests.fuzz.runs import bind, results
from tests.fuzz.training import Training
from tests.fuzz.training import fit as fitted


def run(text: str, dtype: str) -> dict[str, Any]:
    """Outputs, gradients and states of a program that is given as JSON."""
    program = Program.from_json(text)
    os.environ["MXNET_BACKWARD_DO_MIRROR"] = str(int(program.mirror))
    return results(mx, bind(mx, program, dtype), program)


def fit(text: str) -> dict[str, Any]:
    """Parameters and states after epochs of a Module of the program."""
    program = Program.from_json(text)
    os.environ["MXNET_BACKWARD_DO_MIRROR"] = "0"
    return fitted(mx, Training(mx, program))
