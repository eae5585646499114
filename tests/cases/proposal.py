"""Region proposals. MXNet has them in float32 only."""

from __future__ import annotations

import numpy as np

from tests.cases import Sample, array, distinct

ONE, MANY = "_contrib_Proposal", "_contrib_MultiProposal"
# Boxes on the border overlap by rounded amounts: no two types agree on all of them.
ALONE = {"grad": (), "dtypes": ("float32",)}


def proposal(op: str, attrs, batch: int = 1, anchors: int = 12, size=(4, 5), info=(64, 80, 1),
             **options) -> Sample:
    rng = np.random.default_rng(0)
    offsets = 0.2 * rng.standard_normal((batch, 4 * anchors, *size))
    return Sample(op, {"cls_prob": distinct((batch, 2 * anchors, *size)),
                       "bbox_pred": array(offsets), "im_info": array([info] * batch)}, attrs,
                  **{**ALONE, **options})


FEW = {"rpn_pre_nms_top_n": 20, "rpn_post_nms_top_n": 6, "rpn_min_size": 4}
SMALL = {**FEW, "scales": (2, 4), "threshold": .5}

SAMPLES = [
    *(proposal(op, {**FEW, **attrs}, anchors=12) for op in (ONE, MANY) for attrs in (
        {}, {"output_score": True}, {"iou_loss": True}, {"rpn_pre_nms_top_n": -1},
        {"rpn_pre_nms_top_n": 0}, {"threshold": .3, "rpn_post_nms_top_n": 12},
        {"rpn_min_size": 400, "output_score": True}, {"rpn_pre_nms_top_n": 3})),
    *(proposal(op, SMALL, 1, 6, (9, 7), info, note="sizes") for op in (ONE, MANY)
      for info in ((130, 110, 1), (100, 60.5, 1), (140, 112, 3))),
    proposal(ONE, {**SMALL, "scales": (8,), "ratios": (.5, 2, .3), "feature_stride": 8}, 1, 3,
             (8, 10)),
    proposal(MANY, {**SMALL, "output_score": True}, 3, 6, (9, 7), (140, 112, 1)),
    proposal(ONE, {"rpn_pre_nms_top_n": 2000, "rpn_post_nms_top_n": 100}, 1, 12, (20, 30),
             (320, 480, 1), note="large"),
    proposal(MANY, SMALL, 2, 6, (5, 4), (80, 64, 1), dtypes=("float64", "float16"), oracle=False,
             why="MXNet has float32 only"),
    proposal(ONE, FEW, 2, error="use MultiProposal"),
    proposal(ONE, FEW, 1, 9, error="cls_prob has shape"),
    proposal(MANY, {"rpn_post_nms_top_n": 0}, error="rpn_post_nms_top_n is 0"),
]  # fmt: skip
