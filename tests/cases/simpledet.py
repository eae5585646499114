"""Operators of SimpleDet's fork, which no released MXNet has."""

from __future__ import annotations

import numpy as np

from tests.cases import Sample, array, distinct, integers, label, normal, positive, uniform

FORK = {"oracle": False, "why": "MXNet has no such operator"}
DECLARED = {**FORK, "dtypes": ("float32", "float16")}
"""The gradient is declared, times that of the output: it is no derivative."""
# Off the pixels: on them two points may be equally large, where there is no derivative.
ROIS = array([[[.1, .3, 9.7, 11.8], [3.3, 2.2, 8.4, 9.1], [5, 5, 5, 5]],
              [[1.2, 1.1, 15.9, 16.3], [.4, 3.2, 4.1, 12.7], [-4.2, 2.3, 29.7, 31.1]]])
IMAGES = distinct((2, 3, 8, 9))
INFO = array([[64, 80, 1], [50, 60, 2]])
OBJECTS = array([[[4, 4, 30, 40, 2], [10, 20, 50, 60, 1], [0, 0, 0, 0, -1]],
                 [[8, 8, 20, 20, 3], [0, 0, 0, 0, -1], [0, 0, 0, 0, -1]]])
REGIONS = np.random.default_rng(0).integers(0, 40, (2, 9, 4)).astype(float)
REGIONS[..., 2:] += REGIONS[..., :2]
REGIONS[:, -1] = 0
POLYGONS = np.zeros((2, 3, 12))
POLYGONS[..., :] = [2, 1, 8, 4, 4, 30, 4, 30, 40, 4, 40, 0]
RANGES = array([[0, 30], [0, 100]])
TARGETS = {"num_classes": 4, "batch_images": 2, "image_rois": 8, "fg_thresh": 0.5,
           "bg_thresh_hi": 0.5, "bg_thresh_lo": 0.0, "proposal_without_gt": False}
DRAWN = {"random": True, "grad": (), "dtypes": ("float32",)}


def proposal(op: str, attrs, **options) -> Sample:
    rng = np.random.default_rng(0)
    inputs = {"cls_prob": distinct((2, 12, 5, 4)),
              "bbox_pred": array(0.2 * rng.standard_normal((2, 24, 5, 4))), "im_info": INFO}
    if op.endswith("v2"):
        inputs["valid_ranges"] = RANGES
    few = {"scales": (2, 4), "rpn_pre_nms_top_n": 20, "rpn_post_nms_top_n": 6, "rpn_min_size": 4}
    return Sample(op, inputs, {**few, **attrs}, (), dtypes=("float32",), **{**FORK, **options})


def retina(attrs, **options) -> Sample:
    rng = np.random.default_rng(1)
    corner = rng.uniform(0, 40, (20 * 2, 2))
    anchors = np.concatenate([corner, corner + rng.uniform(5, 30, (40, 2))], axis=1)
    batch = attrs.get("batch_wise_anchor", False)
    return Sample("_contrib_GenProposalRetina",
                  {"cls_prob": distinct((2, 6, 5, 4)), "im_info": INFO,
                   "bbox_pred": array(0.2 * rng.standard_normal((2, 8, 5, 4))),
                   "anchors": array(np.stack([anchors, anchors + 1]) if batch else anchors)},
                  {"num_anchors": 2, "rpn_pre_nms_top_n": 12, "rpn_min_size": 1, **attrs}, (),
                  dtypes=("float32",), **{**FORK, **options})


def targets(op: str, attrs, **options) -> Sample:
    inputs = {"rois": array(REGIONS), "gt_boxes": OBJECTS}
    if "Mask" in op:
        inputs["gt_polys"] = array(POLYGONS)
    if op.endswith("v2") or attrs.get("filter_scales"):
        inputs["valid_ranges"] = RANGES
    return Sample(op, inputs, {**TARGETS, **attrs}, **{**FORK, **DRAWN, **options})


SAMPLES = [
    *(Sample("_contrib_ROIAlign_v2", {"data": IMAGES, "rois": ROIS},
             {"pooled_size": size, "spatial_scale": scale}, ("data",),
             dtypes=("float32", "float64"), **FORK)
      for size in ((2, 3), (1, 1), (7, 7)) for scale in (1, 0.5)),
    Sample("_contrib_ROIAlign_v2", {"data": IMAGES, "rois": (6, 5)},
           {"pooled_size": (2, 2), "spatial_scale": 1}, error=r"expected \(N, C, H, W\)"),
    *(Sample("_contrib_FocalLoss", {"data": normal((2, 5, 3)), "label": integers(-1, 4, (2, 5))},
             {"normalization": how}, ("data",), loss=True, **FORK)
      for how in ("null", "batch", "valid")),
    Sample("_contrib_FocalLoss", {"data": normal((2, 5, 3)), "label": integers(-1, 4, (2, 5))},
           {"out_grad": True}, ("data",), **DECLARED),
    Sample("_contrib_FocalLoss", {"data": (2, 5), "label": (2,)}, error=r"expected \(N, A, K\)"),
    *(Sample("_contrib_SigmoidCrossEntropy",
             {"data": normal((3, 4, 2)), "label": integers(-1, 2, (3, 4, 2))},
             {"normalization": how, "grad_scale": 0.5}, ("data",), loss=True, **FORK)
      for how in ("null", "valid")),
    Sample("_contrib_SigmoidCrossEntropy", {"data": (3,), "label": (3,)},
           error=r"expected at least \(N, K\)"),
    *(Sample("_contrib_BBoxNorm", {"data": normal((2, 8, 3)), "label": label(3, (2, 6))},
             {"normalization": how}, ("data",), **DECLARED)
      for how in ("null", "batch", "valid")),
    Sample("_contrib_BBoxNorm", {"data": (2, 6, 3), "label": (2, 6)}, error=r"\(N, 4 A, P\)"),
    *(Sample("_contrib_GroupNorm",
             {"data": normal(shape), "gamma": positive(shape[1:2]), "beta": normal(shape[1:2])},
             {"num_group": groups}, outputs=(0,), **FORK)
      for shape, groups in (((2, 6, 4, 3), 3), ((1, 4, 5), 4), ((3, 4, 2, 2), 1))),
    Sample("_contrib_GroupNorm", {"data": (2, 6, 4), "gamma": (6,), "beta": (6,)},
           {"num_group": 4}, error="a multiple of num_group = 4"),
    *(Sample("_contrib_BroadcastScale", {"data": normal((2, 3, 4, 2)), "scaler": positive(shape)},
             {}, ("data",), **FORK) for shape in ((1, 3, 1, 1), (2, 1, 4, 1), (2, 3, 4, 2))),
    Sample("_contrib_BroadcastScale", {"data": (2, 1, 4, 2), "scaler": (1, 3, 1, 1)},
           error="each of scaler 1 or as large"),
    *(Sample("_contrib_Quantization_int8", {"data": uniform(-2, 2, (3, 4)), "minmax": array([1.5])},
             attrs, ("data",), writes=("minmax",), **DECLARED)
      for attrs in ({}, {"is_weight": False}, {"is_weight": False, "grad_mode": "clip"},
                    {"delay_quant": 2}, {"is_weight": False, "fix_act_scale": True})),
    Sample("_contrib_Quantization_int8", {"data": (3, 4), "minmax": (1,)},
           {"is_weight_perchannel": True}, error="is_weight_perchannel"),
    *(Sample("_contrib_GenAnchor", {"cls_prob": (1, 6, 3, 4)}, attrs, (), dtypes=("float32",),
             **FORK)
      for attrs in ({}, {"scales": (8,), "ratios": (0.5, 1, 3), "feature_stride": 7})),
    Sample("_contrib_GenAnchor", {"cls_prob": (1, 6)}, error=r"expected \(N, C, H, W\)"),
    *(proposal(op, attrs) for op in ("_contrib_Proposal_v2", "_contrib_Proposal_v3")
      for attrs in ({}, {"output_score": True}, {"iou_loss": True}, {"rpn_pre_nms_top_n": -1},
                    {"threshold": 0.2, "rpn_post_nms_top_n": 15, "output_score": True})),
    proposal("_contrib_Proposal_v2", {"filter_scales": True, "output_score": True}),
    proposal("_contrib_Proposal_v3", {"is_train": True, "rpn_post_nms_top_n": 30}),
    proposal("_contrib_Proposal_v2", {"scales": (1,)}, error="cls_prob has shape"),
    *(retina(attrs) for attrs in ({}, {"thresh": 0.5}, {"output_one_hot": False},
                                  {"batch_wise_anchor": True}, {"iou_loss": True},
                                  {"anchor_std": (0.1, 0.1, 0.2, 0.2), "rpn_min_size": 8})),
    retina({"num_anchors": 4}, error="num_anchors is 4"),
    *(Sample("_contrib_DecodeBBox", {"rois": array(REGIONS), "im_info": INFO,
                                     "bbox_pred": uniform(-1, 1, (2, 9, 8))},
             {"class_agnostic": agnostic, "bbox_decode_type": how}, (), dtypes=("float32",), **FORK)
      for agnostic in (False, True) for how in ("xywh", "xyxy")),
    Sample("_contrib_DecodeBBox", {"rois": (2, 9, 4), "bbox_pred": (2, 9, 4), "im_info": (2, 3)},
           error="with 8 columns or more"),
    *(targets(op, attrs) for op in ("ProposalTarget", "ProposalTarget_v2", "ProposalMaskTarget")
      for attrs in ({"output_iou": True}, {"class_agnostic": True}, {"fg_fraction": 1.0})
      for attrs in ({**attrs, "mask_size": 14} if "Mask" in op else attrs,)),
    targets("ProposalTarget_v2", {"image_rois": -1, "filter_scales": True}),
    targets("ProposalMaskTarget", {"mask_size": 7, "output_ratio": True, "filter_scales": True,
                                   "num_args": 4, "output_iou": True}),
    targets("ProposalTarget", {"image_rois": 0}, error="image_rois is 0"),
    targets("ProposalTarget_v2", {"ohem": True}, error="ohem is True"),
]  # fmt: skip
