"""Training programs have the losses that they have in MXNet."""

from __future__ import annotations

import numpy as np
import pytest

import nbmod as mx
from tests.programs import gluon_training


@pytest.mark.parametrize("active", [False, True], ids=["eager", "hybridized"])
def test_losses_of_training_programs_are_those_of_mxnet(oracle, active):
    """Sums of float32 in another order differ by 1e-7; some ten steps let that grow to 1e-5."""
    theirs = oracle.call("mx_scripts.run", "gluon_training", "curves", active)
    for name, losses in gluon_training.curves(mx, active).items():
        np.testing.assert_allclose(losses, theirs[name], rtol=2e-5, atol=2e-5, err_msg=name)
