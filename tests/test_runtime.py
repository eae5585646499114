"""`mx.engine` and `mx.runtime`: MXNet's results where they do not depend on the machine."""

from __future__ import annotations

import pytest

import nbmod as mx
from tests.programs import tools


@pytest.mark.parametrize("program", ["bulk_sizes", "features"])
def test_answers_are_mxnets(oracle, program):
    theirs = oracle.call("mx_scripts.run", "tools", program)
    assert getattr(tools, program)(mx) == theirs


def test_features_say_what_is_here():
    found = mx.runtime.Features()
    assert found.is_enabled("PROFILER") and repr(found["OPENMP"]) == "✔ OPENMP"
    assert found.is_enabled("CUDA") == (mx.num_gpus() > 0)
    with pytest.raises(RuntimeError, match="Feature 'SPEED' is unknown, known features are"):
        found.is_enabled("speed")
