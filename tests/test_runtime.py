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


def test_implementations_are_the_rows_of_the_table():
    rows = mx.runtime.implementations("Convolution")
    assert [row.key for row in rows] == ["reference", "numba", "cuda"]
    assert rows[1].gradient == "nbmod.ops.nn.convolution.FilterOp.prepare_backward"
    assert repr(rows).startswith("reference  nbmod.ops.numpy_forms.sliding_window.convolution, ")
    assert {"conv_gemm", "direct", "conv_squeezed"} <= {*rows[1].algorithms}
    assert "FilterOp.prepare_backward by conv_gemm, " in repr(rows)
    assert mx.runtime.implementations("identity") == mx.runtime.implementations("_copy")
    assert mx.runtime.implementations("Reshape") == ()      # a view: nothing runs
    with pytest.raises(mx.MXNetError, match="unknown operator 'Convolutions'"):
        mx.runtime.implementations("Convolutions")
