"""Twenty steps of training in every mode of modules, in nbmod and in MXNet."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import nbmod as mx
from tests.programs import module_training

pytestmark = pytest.mark.oracle


@pytest.mark.parametrize("name", module_training.RUNS)
def test_twenty_steps_agree(oracle, name):
    theirs = oracle.call("mx_scripts.run", "module_training", "run", name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # FeedForward is deprecated
        ours = module_training.run(mx, name)
    assert ours.keys() == theirs.keys()
    for key, want in theirs.items():
        # An element near 0 is as accurate as the largest of its array.
        np.testing.assert_allclose(ours[key], want, 1e-4, 1e-4 * np.abs(want).max(), err_msg=key)
