"""Operators take any values: each call ends, with results or an MXNetError."""

from __future__ import annotations

import faulthandler
import os
from random import Random
from typing import Any

import numpy as np
import pytest

import nbmod as mx
from tests.ops.test_numpy_forms import GOOD, bound, none_is_small  # noqa: F401  # a fixture

VALUES = (np.nan, np.inf, -np.inf, 1e30, -1e30, 3e9, -3e9, 1e6, -1e6, 1e18, -1, -2, 0, 2.5)
"""Beside NaN and infinity what is no index, and what overflows integers and float32."""
SAMPLES, TRIALS = 200, 3
ENDS = 60
"""Seconds; each takes some milliseconds."""
TRAINED = {name: sample for name, sample in GOOD.items() if not sample.op.startswith("_sg_")}


def spoiled(values: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
    """Some, half or all elements replaced by one of VALUES or by several."""
    count = values.shape if rng.rand() < 0.5 else ()
    bad = np.array(VALUES)[rng.randint(len(VALUES), size=count)]
    if values.dtype.kind in "iu":
        info = np.iinfo(values.dtype)
        bad = np.clip(np.nan_to_num(bad), float(info.min), float(info.max) * (1 - 1e-9))
    chosen = rng.rand(*values.shape) < rng.choice([0.1, 0.5, 1])
    with np.errstate(all="ignore"):
        return np.where(chosen, bad, values).astype(values.dtype)


def run(executor: Any, rng: np.random.RandomState) -> None:
    """Training and inference on spoiled inputs and states, with spoiled head gradients."""
    given = {**executor.arg_dict, **executor.aux_dict}
    before = {name: array.asnumpy() for name, array in given.items()}
    for _ in range(TRIALS):
        for name, array in given.items():
            array[:] = spoiled(before[name], rng) if rng.rand() < 0.6 else before[name]
        try:
            outputs = executor.forward(is_train=True)
            if any(gradient is not None for gradient in executor.grad_arrays):
                executor.backward([mx.nd.array(spoiled(out.asnumpy(), rng), dtype=out.dtype)
                                   for out in outputs])
            executor.forward(is_train=False)
        except mx.MXNetError:
            pass


@pytest.mark.parametrize("part", range(4))
def test_operators_end_on_any_values(part, none_is_small):  # noqa: F811
    """Others in every run; a kernel that does not end ends the process, after a traceback."""
    seed = int.from_bytes(os.urandom(4), "little")
    for name in Random(seed).sample(sorted(TRAINED), SAMPLES // 4):
        faulthandler.dump_traceback_later(ENDS, exit=True)
        try:
            run(bound(name, TRAINED[name].dtypes[0], trains=True), np.random.RandomState(seed))
        except Exception as error:
            raise AssertionError(f"seed {seed}: {name}") from error
        finally:
            faulthandler.cancel_dump_traceback_later()
