"""Boxes on a GPU, in more strips, tiles and rounds than the samples reach: the same ones stay."""

from __future__ import annotations

import numpy as np
import pytest

import nbmod as mx
from nbmod.ops.cuda import simulator
from nbmod.ops.cuda.simulator import SCHEDULES
from tests.cases.boxes import rows

pytestmark = pytest.mark.gpu


@pytest.fixture(params=SCHEDULES, autouse=True)
def every_schedule(request, monkeypatch):
    monkeypatch.setattr(simulator, "schedule", request.param)


def both(call, *arrays: np.ndarray) -> list[list[np.ndarray]]:
    """What an operator makes of arrays on the GPU, and on the CPU."""
    found = []
    for context in (mx.gpu(0), mx.cpu()):
        outputs = call(*[mx.nd.array(array, ctx=context, dtype=array.dtype) for array in arrays])
        found.append([y.asnumpy() for y in (outputs if isinstance(outputs, list) else [outputs])])
    return found


def assert_equal(found: list[list[np.ndarray]]) -> None:
    for mine, theirs in zip(*found, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def strips_of_rows(dtype: str) -> np.ndarray:
    """Rows that fill three strips and begin a fourth; equal scores, some of which are NaN, and a
    box of NaN."""
    from nbmod.ops.cuda import suppression

    found = rows(2, 3 * suppression.STRIP + 5, seed=5)
    found[..., 1] = np.round(found[..., 1], 1)
    found[1, ::6, 1] = np.nan
    found[0, 7, 2:6] = np.nan
    return found.astype(dtype)


@pytest.mark.parametrize("attrs", [
    {"overlap_thresh": 0.7}, {"overlap_thresh": 0.3, "id_index": 0, "background_id": 1},
    {"overlap_thresh": 0.5, "topk": 150, "valid_thresh": 0.1, "in_format": "center"},
], ids=str)  # fmt: skip
def test_boxes_of_several_strips_stay_or_go_as_on_the_cpu(attrs):
    assert_equal(both(lambda x: mx.nd.contrib.box_nms(x, **attrs), strips_of_rows("float32")))
