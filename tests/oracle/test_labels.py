"""Labels that are no class, which SoftmaxOutput accepts with NBMOD_CHECK_LABELS=0."""

from __future__ import annotations

import pytest

from nbmod.core.config import CONFIG
from tests.cases.loss import NO_CLASS
from tests.oracle.test_ops import require_same


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("sample", [one for one in NO_CLASS if one.oracle],
                         ids=lambda sample: str(sample.attrs))
def test_gradients_are_mxnets(oracle, monkeypatch, sample, dtype):
    monkeypatch.setattr(CONFIG, "check_labels", False)
    require_same(oracle, sample, dtype)
