"""Box operators on a GPU, with more strips, tiles and rounds than in the samples."""

from __future__ import annotations

import numpy as np
import pytest

import nbmod as mx
from nbmod.ops.cuda.runtime import simulator
from nbmod.ops.cuda.runtime.simulator import SCHEDULES
from tests.cases.boxes import boxes, rows
from tests.cases.multibox import labels

pytestmark = pytest.mark.gpu


@pytest.fixture(params=SCHEDULES, autouse=True)
def every_schedule(request, monkeypatch):
    monkeypatch.setattr(simulator, "schedule", request.param)


def both(call, *arrays: np.ndarray) -> list[list[np.ndarray]]:
    """Results of an operator on the GPU, and on the CPU."""
    found = []
    for context in (mx.gpu(0), mx.cpu()):
        outputs = call(*[mx.nd.array(array, ctx=context, dtype=array.dtype) for array in arrays])
        found.append([y.asnumpy() for y in (outputs if isinstance(outputs, list) else [outputs])])
    return found


def assert_equal(found: list[list[np.ndarray]], rounding: float = 0) -> None:
    for mine, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=rounding, atol=rounding)


def strips_of_rows(dtype: str) -> np.ndarray:
    """Rows that fill three strips and begin a fourth; equal scores, some of which are NaN, and
    boxes with NaN and infinity."""
    from nbmod.ops.cuda.detection import nms

    found = rows(2, 3 * nms.STRIP + 5, seed=5)
    found[..., 1] = np.round(found[..., 1], 1)
    found[1, ::6, 1] = np.nan
    found[0, 7, 2:6], found[0, 8::50, 3], found[1, ::50, 4] = np.nan, np.nan, np.inf
    return found.astype(dtype)


@pytest.mark.parametrize("attrs", [
    {"overlap_thresh": 0.7}, {"overlap_thresh": 0.3, "id_index": 0, "background_id": 1},
    {"overlap_thresh": 0.5, "topk": 150, "valid_thresh": 0.1, "in_format": "center"},
    {"overlap_thresh": -1},
], ids=str)  # fmt: skip
def test_boxes_of_several_strips_stay_or_go_as_on_the_cpu(attrs):
    assert_equal(both(lambda x: mx.nd.contrib.box_nms(x, **attrs), strips_of_rows("float32")))


@pytest.mark.parametrize("attrs", [
    {"threshold": 0.5}, {"threshold": 0.5, "topk": 3}, {"threshold": 2.5, "is_ascend": True},
], ids=str)  # fmt: skip
def test_pairs_are_matched_in_order_among_many_equal_ones(attrs):
    scores = np.random.default_rng(1).integers(0, 5, (2, 9, 11)).astype(np.float32)
    scores[1, ::2, ::3] = np.nan
    assert_equal(both(lambda x: mx.nd.contrib.bipartite_matching(x, **attrs), scores))


def test_labels_that_want_the_same_anchors():
    """Anchors are repeated, so overlaps are equal; logarithms may be rounded differently."""
    anchors = np.repeat(boxes(1, 15).round(1), 2, axis=1).astype(np.float32)
    label = labels(3, 9, 10, seed=4).astype(np.float32)
    label[:, :, 1:] = label[:, :, 1:].round(1)
    label[0, 4:8] = label[0, 3]
    assert_equal(both(
        lambda *arrays: mx.nd.contrib.MultiBoxTarget(*arrays, negative_mining_ratio=1.5),
        anchors, label, np.zeros((3, 3, 30), np.float32)), 1e-6)


def test_detections_of_several_strips():
    """Probabilities are repeated; exponentials may be rounded differently."""
    from nbmod.ops.cuda.detection import nms

    count, rng = 3 * nms.STRIP + 5, np.random.default_rng(6)
    chances = rng.integers(0, 9, (2, 3, count)).astype(np.float32) / 16
    assert_equal(both(
        lambda *arrays: mx.nd.contrib.MultiBoxDetection(*arrays, threshold=0.2, nms_topk=300),
        chances, np.zeros((2, 4 * count), np.float32), boxes(1, count).astype(np.float32)), 1e-6)
