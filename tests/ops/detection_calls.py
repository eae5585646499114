"""Random calls of operators of detectors: `CALLS`, from a generator to attributes and inputs.

They have what decides: equal scores, coordinates on a grid, whose overlaps are exactly a threshold,
boxes that are empty, inverted or NaN, regions beyond the border and of images that do not exist.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Rng = np.random.RandomState
Call = tuple[dict[str, object], list[np.ndarray]]
THRESHOLDS = (-1, 0, 0.2, 0.25, 1 / 3, 0.5, 0.75, 1)
UNUSUAL = (np.nan, np.nan, np.inf, -np.inf)


def _some(rng: Rng, values: np.ndarray, replacement: float, share: float) -> np.ndarray:
    return np.where(rng.rand(*values.shape) < share, replacement, values)


def _scores(rng: Rng, *shape: int) -> np.ndarray:
    """Probabilities: distinct ones or many equal ones, sometimes with NaN."""
    found = rng.rand(*shape) if rng.rand() < 0.5 else rng.randint(9, size=shape) / 8
    return _some(rng, found, np.nan, rng.choice([0, 0, 0.1]))


def _boxes(rng: Rng, *shape: int) -> np.ndarray:
    """Corners in [0, 2], anywhere or on a grid; some empty, inverted, infinite and NaN ones."""
    found = rng.rand(*shape, 4) if rng.rand() < 0.5 else rng.randint(9, size=(*shape, 4)) / 8
    if rng.rand() < 0.7:
        found[..., 2:] = found[..., :2] + np.maximum(found[..., 2:], 0.125)
    return _some(rng, found, rng.choice(UNUSUAL), rng.choice([0, 0, 0, 0.05, 0.15]))


def _anchors(rng: Rng, *shape: int) -> np.ndarray:
    """Boxes with a positive area."""
    low, size = (rng.randint(1, 9, size=(*shape, 2)) / 8 for _ in range(2))
    return np.concatenate([low, low + size], axis=-1) + rng.choice([0, 0.01]) * rng.rand(*shape, 4)


def _offsets(rng: Rng, *shape: int) -> np.ndarray:
    """None or any, sometimes with NaN and infinity."""
    found = rng.randn(*shape) * rng.choice([0, 1])
    return _some(rng, found, rng.choice(UNUSUAL), rng.choice([0, 0, 0, 0.05, 0.15]))


def box_nms(rng: Rng) -> Call:
    shape = [(6,), (2, 20), (1, 2, 9)][rng.randint(3)]
    kinds = rng.randint(-1, 3, size=(*shape, 1))
    data = np.concatenate([kinds, _scores(rng, *shape)[..., None], _boxes(rng, *shape),
                           rng.rand(*shape, 1)], axis=-1)
    return {"overlap_thresh": rng.choice(THRESHOLDS), "valid_thresh": rng.choice([0, -1, 0.5]),
            "topk": rng.choice([-1, 0, 1, 5, 99]), "id_index": rng.choice([-1, 0]),
            "background_id": rng.choice([-1, 1]), "force_suppress": rng.rand() < 0.3,
            "in_format": rng.choice(["corner", "center"]),
            "out_format": rng.choice(["corner", "center"])}, [data]


def box_iou(rng: Rng) -> Call:
    return {"format": rng.choice(["corner", "center"])}, [_boxes(rng, 2, 5), _boxes(rng, 7)]


def box_encode(rng: Rng) -> Call:
    matches = _some(rng, rng.randint(-1, 5, size=(2, 9)) + 0.25, np.nan, rng.choice([0, 0.1]))
    return {}, [rng.choice([-1, 0, 0.5, 1], size=(2, 9)), matches, _anchors(rng, 2, 9),
                _anchors(rng, 2, 4), rng.rand(4), 0.1 + rng.rand(4)]


def box_decode(rng: Rng) -> Call:
    stds = {f"std{i}": rng.choice([1, 0.1, -0.3]) for i in range(4)}
    return {**stds, "clip": rng.choice([-1, 0, 0.25]),
            "format": rng.choice(["corner", "center"])}, [rng.randn(2, 9, 4), _boxes(rng, 1, 9)]


def bipartite_matching(rng: Rng) -> Call:
    return {"threshold": rng.choice(THRESHOLDS), "is_ascend": rng.rand() < 0.5,
            "topk": rng.choice([-1, 0, 1, 3])}, [_scores(rng, 2, *rng.randint(1, 8, size=2))]


def multibox_target(rng: Rng) -> Call:
    count = rng.randint(1, 20)
    anchors = _anchors(rng, 1, count) if rng.rand() < 0.7 else _boxes(rng, 1, count)
    labels = np.concatenate([rng.randint(4, size=(3, 5, 1)), _anchors(rng, 3, 5),
                             rng.rand(3, 5, 1)], axis=-1)
    labels[..., 0] = _some(rng, labels[..., 0], -1, 0.2)
    scores = rng.randn(3, 4, count) if rng.rand() < 0.5 else rng.randint(3, size=(3, 4, count))
    scores = _some(rng, scores, np.nan, rng.choice([0, 0, 0.05]))
    return {"overlap_threshold": rng.choice(THRESHOLDS), "ignore_label": rng.choice([-1, -5]),
            "negative_mining_ratio": rng.choice([-1, 0.5, 2, 3, 1e6]),
            "negative_mining_thresh": rng.choice(THRESHOLDS)}, [anchors, labels, scores]


def multibox_detection(rng: Rng) -> Call:
    count, classes = rng.randint(1, 20), rng.randint(1, 5)
    offsets = _offsets(rng, 2, 4 * count)
    anchors = (_anchors if rng.rand() < 0.7 else _boxes)(rng, 1, count) / 2
    return {"clip": rng.rand() < 0.5, "threshold": rng.choice([-2, 0.01, 0.5]),
            "nms_threshold": rng.choice([*THRESHOLDS, 2]), "force_suppress": rng.rand() < 0.3,
            "nms_topk": rng.choice([-1, 0, 3, 99])}, [_scores(rng, 2, classes, count), offsets,
                                                      anchors]


def multi_proposal(rng: Rng, batch: int = 2) -> Call:
    height, width = rng.randint(1, 7, size=2)
    offsets = 0.3 * _offsets(rng, batch, 16, height, width)
    info = np.column_stack([rng.randint(1, 8, size=(batch, 2)) * 16, rng.choice([1, 2], batch)])
    return {"rpn_pre_nms_top_n": rng.choice([0, 3, 20, 999]), "rpn_min_size": rng.choice([4, 40]),
            "rpn_post_nms_top_n": rng.choice([1, 4, 30]), "scales": (2, 4), "ratios": (0.5, 1),
            "threshold": rng.choice([-1, 0, 0.3, 0.7]), "iou_loss": rng.rand() < 0.3,
            "output_score": rng.rand() < 0.5}, [_scores(rng, batch, 8, height, width), offsets,
                                                info]


def proposal(rng: Rng) -> Call:
    return multi_proposal(rng, 1)


def _regions(rng: Rng, count: int = 9) -> np.ndarray:
    """Rows of rois of two images, 6 rows by 8 columns, and of others."""
    image = rng.choice([0, 1, 1, 0.6, -0.5, -1, 2, np.nan], size=count)
    ends = rng.randint(-4, 24, size=(count, 4)) / 2 + rng.choice([0, 0.3]) * rng.rand(count, 4)
    ends[:, 2:] = np.where(rng.rand(count, 1) < 0.7, ends[:, :2] + abs(ends[:, 2:]), ends[:, 2:])
    ends = _some(rng, ends, rng.choice([np.nan, np.inf, -np.inf, 1e9]), rng.choice([0, 0, 0.1]))
    return np.column_stack([image, ends])


def _pooling(rng: Rng) -> dict[str, object]:
    return {"pooled_size": (rng.randint(1, 4), rng.randint(1, 8)),
            "spatial_scale": rng.choice([1, 0.5, 0.3])}


def roi_pooling(rng: Rng) -> Call:
    data = rng.randn(2, 3, 6, 8) if rng.rand() < 0.5 else rng.randint(3, size=(2, 3, 6, 8))
    data = _some(rng, data, rng.choice([np.nan, -np.inf]), rng.choice([0, 0, 0.3]))
    return _pooling(rng), [data, _regions(rng)]


def roi_align(rng: Rng) -> Call:
    attrs = {**_pooling(rng), "sample_ratio": rng.choice([-1, 0, 1, 3]),
             "aligned": rng.rand() < 0.5, "position_sensitive": rng.rand() < 0.3}
    bins = int(np.prod(attrs["pooled_size"])) if attrs["position_sensitive"] else 1
    return attrs, [rng.randn(2, 2 * bins, 6, 8), _regions(rng)]


def rotated_align(rng: Rng) -> Call:
    """Points that turn are not on a grid: rounding decides whether those are in the image."""
    regions = _regions(rng)
    regions[:, 1:] += 0.01 * rng.rand(len(regions), 4)
    angles = rng.uniform(-180, 180, len(regions)) * rng.choice([0, 1])
    return {**_pooling(rng), "sampling_ratio": rng.choice([-1, 2])}, [
        rng.randn(2, 3, 6, 8), np.column_stack([regions, angles])]


def psroi_pooling(rng: Rng) -> Call:
    size, group = rng.randint(1, 4), rng.randint(0, 4)
    return {"spatial_scale": rng.choice([1, 0.4]), "output_dim": 2, "pooled_size": size,
            "group_size": group}, [rng.randn(2, 2 * (group or size) ** 2, 6, 8), _regions(rng)]


def deformable_pooling(rng: Rng) -> Call:
    size, group, part, classes = rng.randint(1, 4), rng.randint(1, 4), rng.randint(0, 4), (
        rng.randint(1, 4))
    attrs = {"spatial_scale": rng.choice([1, 0.5]), "output_dim": 3, "pooled_size": size,
             "group_size": group, "part_size": part, "sample_per_part": rng.randint(0, 4),
             "trans_std": rng.choice([0, 0.1]), "no_trans": rng.rand() < 0.3}
    trans = [] if attrs["no_trans"] else [rng.randn(9, 2 * classes, *[part or size] * 2)]
    return attrs, [rng.randn(2, 3 * group ** 2, 6, 8), _regions(rng), *trans]


def hawkes(rng: Rng) -> Call:
    n, t, k = rng.randint(1, 4), rng.randint(1, 9), rng.randint(1, 4)
    marks = rng.randint(k, size=(n, t)).astype(np.int32)
    return {}, [0.5 + rng.rand(n, k), rng.rand(k), 0.5 + rng.rand(k), rng.rand(n, k),
                rng.rand(n, t), marks, rng.randint(-1, t + 2, size=n), 3 * rng.rand(n)]


# -- SimpleDet -------------------------------------------------------------------------------------


def focal_loss(rng: Rng) -> Call:
    labels = _some(rng, rng.randint(-1, 4, size=(2, 7)) + 0.0, rng.choice([np.nan, 1.5, -2]), 0.1)
    return {"alpha": rng.choice([0.25, 1]), "gamma": rng.choice([0, 1.5, 2]),
            "grad_scale": rng.choice([1, 0.3]), "out_grad": rng.rand() < 0.5,
            "normalization": rng.choice(["null", "batch", "valid"])}, [
        _logits(rng, 2, 7, 3), labels]


def _logits(rng: Rng, *shape: int) -> np.ndarray:
    """Some are so large that their probability is 0 or 1."""
    found = rng.randn(*shape) * rng.choice([1, 30])
    return _some(rng, found, rng.choice([np.nan, np.inf, -np.inf]), rng.choice([0, 0.1]))


def sigmoid_cross_entropy(rng: Rng) -> Call:
    labels = rng.randint(-1, 2, size=(3, 4, 2)) if rng.rand() < 0.5 else rng.rand(3, 4, 2)
    labels = np.where(rng.rand(3, 1, 1) < 0.2, -1, labels)      # none counts
    return {"grad_scale": rng.choice([1, 0.3]), "normalization": rng.choice(["null", "valid"])}, [
        _logits(rng, 3, 4, 2), labels]


def group_norm(rng: Rng) -> Call:
    groups, each = rng.randint(1, 4, size=2)
    data = rng.randn(2, groups * each, *rng.randint(1, 4, size=rng.randint(1, 3)))
    data = _some(rng, data, np.nan, rng.choice([0, 0, 0.05]))
    return {"num_group": groups, "eps": rng.choice([1e-5, 0.1])}, [
        data, rng.randn(groups * each), rng.randn(groups * each)]


def largest_align(rng: Rng) -> Call:
    """As many regions for each image; points where two pixels are equally large are not between
    them."""
    data = rng.randn(2, 3, 6, 8)
    data = _some(rng, data, rng.choice([np.nan, np.inf, -np.inf]), rng.choice([0, 0, 0.1]))
    return _pooling(rng), [data, _regions(rng, 10)[:, 1:].reshape(2, 5, 4)]


def ranked_proposals(rng: Rng) -> Call:
    """Corners are whole, so that overlaps are exactly a threshold."""
    attrs, inputs = multi_proposal(rng)
    inputs[1] = np.rint(3 * inputs[1])
    inputs[1] = _some(rng, inputs[1], np.nan, rng.choice([0, 0, 0.02]))
    return {**attrs, "iou_loss": rng.rand() < 0.7, "threshold": rng.choice(THRESHOLDS)}, inputs


def proposal_v2(rng: Rng) -> Call:
    attrs, inputs = ranked_proposals(rng)
    ranges = np.array([[0, 30], [rng.choice([0, 8]), 60]])
    return {**attrs, "filter_scales": rng.rand() < 0.5}, [*inputs, ranges]


def proposal_v3(rng: Rng) -> Call:
    attrs, inputs = ranked_proposals(rng)
    return {**attrs, "is_train": rng.rand() < 0.5}, inputs


CALLS: dict[str, Callable[[Rng], Call]] = {
    "ROIPooling": roi_pooling, "_contrib_DeformablePSROIPooling": deformable_pooling,
    "_contrib_MultiBoxDetection": multibox_detection, "_contrib_MultiBoxTarget": multibox_target,
    "_contrib_MultiProposal": multi_proposal, "_contrib_PSROIPooling": psroi_pooling,
    "_contrib_Proposal": proposal, "_contrib_ROIAlign": roi_align,
    "_contrib_RROIAlign": rotated_align, "_contrib_bipartite_matching": bipartite_matching,
    "_contrib_box_decode": box_decode, "_contrib_box_encode": box_encode,
    "_contrib_box_iou": box_iou, "_contrib_box_nms": box_nms, "_contrib_hawkesll": hawkes,
    "_contrib_FocalLoss": focal_loss, "_contrib_GroupNorm": group_norm,
    "_contrib_Proposal_v2": proposal_v2, "_contrib_Proposal_v3": proposal_v3,
    "_contrib_ROIAlign_v2": largest_align, "_contrib_SigmoidCrossEntropy": sigmoid_cross_entropy}
