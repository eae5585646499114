"""The sample table itself: unique names, reproducible arrays with the declared properties."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from tests.cases import Sample, all_samples, distinct, integers, nonzero
from tests.cases.sample import draw

DIGEST = """
import zlib
from tests.cases import all_samples
digest = 0
for name, sample in sorted(all_samples().items()):
    for array in sample.arrays(sample.dtypes[0]).values():
        digest = zlib.crc32(array.tobytes(), digest)
print(digest)
"""


def test_arrays_are_the_same_in_every_process():
    command = [sys.executable, "-c", DIGEST]
    digests = {subprocess.check_output(command, text=True) for _ in range(2)}
    assert len(digests) == 1


def test_inputs_of_one_sample_differ():
    arrays = Sample("elemwise_add", {"lhs": (8,), "rhs": (8,)}).arrays()
    assert not np.any(arrays["lhs"] == arrays["rhs"])


@pytest.mark.parametrize("dtype", ["float64", "float16", "int32", "uint8"])
def test_kinds_keep_their_promise_in_every_type(dtype):
    values = draw(distinct((10, 10)), dtype, 0)
    assert np.unique(values).size == 100 and values.dtype == dtype
    assert np.all(draw(nonzero((100,)), dtype, 0) != 0)
    whole = draw(integers(0, 3, (100,)), dtype, 0)
    assert set(whole.tolist()) == {0, 1, 2}


def test_a_special_treatment_has_a_reason():
    with pytest.raises(ValueError, match="say why"):
        Sample("relu", {"data": (1,)}, oracle=False)
    assert all(sample.why or not sample.tol for sample in all_samples().values())
