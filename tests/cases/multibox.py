"""The ops of SSD. MXNet has them in float32 only."""

from __future__ import annotations

import numpy as np

from tests.cases import Sample, array, normal
from tests.cases.boxes import boxes

PRIOR, TARGET = "_contrib_MultiBoxPrior", "_contrib_MultiBoxTarget"
DETECT = "_contrib_MultiBoxDetection"
# Inputs that each op needs before it raises another error; so do the types that run at all.
FLOAT32 = {"grad": (), "mx_dtypes": ("float32",), "why": "MXNet has float32 only"}
MAP = (1, 3, 2, 3)


def labels(batch: int, count: int, most: int, seed: int = 0) -> np.ndarray:
    """(batch, most, 5): `count` boxes, one less in each further image, then padding."""
    rng = np.random.default_rng(seed)
    found = np.full((batch, most, 5), -1.0)
    for image in range(batch):
        some = max(count - image, 0)
        found[image, :some, 0] = rng.integers(0, 3, some)
        found[image, :some, 1:] = boxes(some, seed=seed + image)
    return found


def target(anchors, label, attrs, scores=None, **options) -> Sample:
    count, batch = anchors.shape[1], label.shape[0]
    return Sample(TARGET, {"anchor": array(anchors), "label": array(label),
                           "cls_pred": scores or normal((batch, 4, count))}, attrs,
                  **{**FLOAT32, **options})


def detect(batch: int, count: int, attrs, **options) -> Sample:
    chances = np.random.default_rng(0).dirichlet((0.5,) * 4, (batch, count)).transpose(0, 2, 1)
    offsets = np.random.default_rng(1).standard_normal((batch, 4 * count))
    return Sample(DETECT, {"cls_prob": array(chances), "loc_pred": array(offsets),
                           "anchor": array(boxes(1, count))}, attrs,
                  **{**FLOAT32, **options})


FEW = np.array([[[.1, .1, .2, .2], [.55, .2, .9, .5], [.5, .5, .7, .8], [0, 0, .3, .3],
                 [.4, .4, .75, .85]]])
TRUTH = np.array([[[1, .1, .1, .22, .25], [2, .5, .45, .72, .8], [-1] * 5], [[-1] * 5] * 3,
                  [[0, .05, .05, .25, .25], [3, .6, .3, .9, .6], [1, .1, .1, .2, .2]]])
HALVES = np.array([[[0, 0, 1, 1], [0, 0, .5, 1], [0, 0, .25, 1], [0, 0, .25, .5]]])
ONE = np.array([[[1, 0, 0, .5, 1]]])
MINING = {"negative_mining_ratio": 2}

SAMPLES = [
    *(Sample(PRIOR, {"data": MAP}, attrs, **FLOAT32) for attrs in (
        {}, {"sizes": (.5, .25)}, {"sizes": (.5, .25), "ratios": (1, 2, .5)},
        {"sizes": (.5,), "ratios": (2, 3)}, {"sizes": (.9,), "clip": True},
        {"sizes": (.5,), "steps": (.25, .1)}, {"sizes": (.5,), "offsets": (.2, .7)},
        {"sizes": (0, 1.5), "ratios": (.3, 7)})),
    Sample(PRIOR, {"data": (2, 1, 1, 1)}, {}, **FLOAT32),
    Sample(PRIOR, {"data": (1, 1, 19, 13)}, {"sizes": (.2, .272), "ratios": (1, 2, .5)}, **FLOAT32),
    Sample(PRIOR, {"data": MAP}, {"steps": (.25, -1)}, error="steps is"),
    Sample(PRIOR, {"data": MAP}, {"sizes": ()}, error="sizes is empty"),
    Sample(PRIOR, {"data": MAP}, {"offsets": (.5,)}, error="offsets is"),
    Sample(PRIOR, {"data": (1, 3, 4)}, error="expected 4 dimensions"),
    *(target(FEW, TRUTH, attrs) for attrs in (
        {}, {"overlap_threshold": .7}, {"overlap_threshold": .3}, {"variances": (1, 2, 3, 4)},
        {"overlap_threshold": -1}, {"overlap_threshold": 0}, {"negative_mining_ratio": 1},
        {"negative_mining_ratio": .5, "ignore_label": -5},
        {"negative_mining_ratio": .1, "minimum_negative_samples": 2})),
    *(target(boxes(1, 40), labels(3, 6, 8, seed=1), attrs) for attrs in (
        {}, {"overlap_threshold": .2}, MINING, {**MINING, "overlap_threshold": .2},
        {**MINING, "negative_mining_thresh": .3}, {**MINING, "negative_mining_thresh": .2},
        {"negative_mining_ratio": 100, "negative_mining_thresh": 1})),
    target(boxes(1, 3000), labels(2, 20, 30), {**MINING, "overlap_threshold": .4}, note="large"),
    target(boxes(1, 1), labels(1, 1, 1), {}),
    *(target(HALVES, ONE, {"overlap_threshold": .5, **attrs}, note="at the threshold")
      for attrs in ({}, {"negative_mining_ratio": 1, "negative_mining_thresh": .5})),
    target(HALVES, np.array([[[-1] * 5, [1, 0, 0, .5, 1]]]), {}, note="padding first"),
    target(HALVES, np.array([[[1, .8, .1, .9, .2], [1, 1.5, 1.5, 2, 2]]]), {}, note="apart"),
    target(HALVES, np.array([[[1, 0, 0, .5, 1, 9, 9], [2, 0, 0, .5, 1, 9, 9]]]), {}, note="equal"),
    target(FEW, TRUTH, {**MINING, "negative_mining_thresh": .1}, oracle=False,
           why="MXNet refuses to go on when there are fewer negatives"),
    target(FEW, labels(1, 2, 2)[:, :, :4], {}, error="at least 5 columns"),
    target(FEW, labels(2, 2, 2), {}, normal((1, 4, 5)), error="batches of label and cls_pred"),
    target(FEW, labels(1, 2, 2), {}, normal((1, 4, 6)), error="numbers of anchors"),
    *(detect(2, 12, attrs) for attrs in (
        {}, {"threshold": .6}, {"nms_threshold": .9}, {"nms_threshold": .1},
        {"nms_threshold": .1, "force_suppress": True}, {"nms_threshold": 0}, {"nms_threshold": 2},
        {"clip": False}, {"background_id": 1}, {"nms_topk": 3, "nms_threshold": .1},
        {"nms_topk": 0}, {"nms_topk": 99}, {"variances": (1, 2, .3, .4)})),
    detect(1, 1, {}),
    detect(2, 3000, {"nms_threshold": .45, "nms_topk": 400}, note="large"),
    Sample(DETECT, {"cls_prob": array([[[0, 0, 0], [.9, .8, .7]]]), "loc_pred": array([[0] * 12]),
                    "anchor": array([[[0, 0, 1, 1], [0, 0, .5, 1], [0, 0, .5, .5]]])}, {},
           note="at the threshold", **FLOAT32),
    detect(1, 3, {"variances": (1, 2)}, error="variances is"),
    Sample(DETECT, {"cls_prob": (1, 3, 4), "loc_pred": (1, 12), "anchor": (1, 4, 4)},
           error="loc_pred"),
]  # fmt: skip
