"""SimpleDet's operators compute what their names say: values against plain loops in float64."""

from __future__ import annotations

import itertools
import subprocess
import sys

import numpy as np
import pytest

import nbmod as mx
from tests.cases import all_samples
from tests.cases.simpledet import SAMPLES

C = mx.nd.contrib
INFO = np.array([[64, 80, 1], [50, 60, 2]], np.float32)


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def nd(values):
    return mx.nd.array(np.asarray(values, np.float32))


def iou(a, b):
    """Intersection over union of two boxes of pixels."""
    width = max(min(a[2], b[2]) - max(a[0], b[0]) + 1, 0)
    height = max(min(a[3], b[3]) - max(a[1], b[1]) + 1, 0)
    areas = [(box[2] - box[0] + 1) * (box[3] - box[1] + 1) for box in (a, b)]
    return width * height / (sum(areas) - width * height)


def suppressed(candidates, threshold, count):
    """The best (score, box) pairs that overlap no better one by `threshold` or more."""
    kept = []
    for score, box in sorted(candidates, key=lambda pair: -pair[0]):
        if len(kept) < count and all(iou(box, other) < threshold for _, other in kept):
            kept.append((score, box))
    return kept


# -- names ------------------------------------------------------------------------------------


def test_names_need_no_import():
    code = """
import nbmod as mx
assert "GenProposalRetina" in mx.sym.contrib.__all__
net = mx.sym.contrib.ROIAlign_v2(mx.sym.var("data"), mx.sym.var("rois"), pooled_size=(2, 2),
                                 spatial_scale=0.5)
print(net.tojson())"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    code = f"import nbmod as mx; print(mx.sym.load_json({ran.stdout!r}).list_arguments())"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.stdout.strip() == "['data', 'rois']", ran.stderr


def test_every_operator_is_sampled():
    from nbmod.ops import OPS

    own = {op for op in OPS.values() if op.__module__.startswith("nbmod.contrib.simpledet")}
    assert {op for op in own if not {op.name, *op.aliases} & {s.op for s in SAMPLES}} == set()
    assert len(own) == 15 and {s.op for s in SAMPLES} <= {s.op for s in all_samples().values()}


# -- anchors and proposals ----------------------------------------------------------------------


def test_anchors_are_those_of_faster_rcnn():
    anchors = C.GenAnchor(mx.nd.zeros((1, 2, 2, 3)), scales=(8,), ratios=(0.5, 1, 2),
                          feature_stride=16).asnumpy().reshape(2, 3, 3, 4)
    # The anchors of stride 16 and scale 8 that the paper's code lists, less one pixel.
    expected = [[-84, -40, 99, 55], [-56, -56, 71, 71], [-36, -80, 51, 95]]
    np.testing.assert_array_equal(anchors[0, 0], expected)
    np.testing.assert_array_equal(anchors[1, 2] - anchors[0, 0], np.tile([32, 16], (3, 2)))


def test_the_second_version_pads_with_zeros_what_the_first_repeats(rng):
    prob, offsets = rng.random((2, 12, 4, 5)), 0.2 * rng.standard_normal((2, 24, 4, 5))
    settings = {"scales": (2, 4), "rpn_post_nms_top_n": 40, "threshold": 0.3, "rpn_min_size": 4,
                "output_score": True}
    ranges = nd([[0, 1000]] * 2)
    rois, score = C.Proposal_v2(nd(prob), nd(offsets), nd(INFO), ranges, **settings)
    other, other_score = C.MultiProposal(nd(prob), nd(offsets), nd(INFO), **settings)
    rois, score = rois.asnumpy(), score.asnumpy()
    other, other_score = other.asnumpy().reshape(2, 40, 5), other_score.asnumpy().reshape(2, 40, 1)
    for n in range(2):
        count = int((score[n, :, 0] != 0).sum())
        assert 0 < count < 40 and not rois[n, count:].any()
        np.testing.assert_allclose(rois[n, :count], other[n, :count, 1:], rtol=1e-6)
        np.testing.assert_array_equal(score[n, :count], other_score[n, :count])


def test_scales_outside_of_the_range_are_no_proposals(rng):
    prob, offsets = rng.random((2, 12, 4, 5)), np.zeros((2, 24, 4, 5))
    rois, score = C.Proposal_v2(nd(prob), nd(offsets), nd(INFO), nd([[0, 30], [40, 90]]),
                                scales=(2, 4), rpn_post_nms_top_n=60, threshold=1, rpn_min_size=1,
                                filter_scales=True, output_score=True)
    sides = rois.asnumpy()[..., 2:] - rois.asnumpy()[..., :2] + 1
    area, valid = sides.prod(axis=2), score.asnumpy()[..., 0] > 0
    assert valid[0].any() and (area[0][valid[0]] <= 30 ** 2).all()
    assert valid[1].any() and (area[1][valid[1]] >= 40 ** 2).all()


def test_the_third_version_is_detectrons_and_drops_boxes_after_sorting(rng):
    prob, offsets = rng.random((2, 6, 3, 4)), rng.standard_normal((2, 12, 3, 4))
    offsets[:, 2::4] *= 3  # some beyond the limit of a scale
    rois, score = C.Proposal_v3(nd(prob), nd(offsets), nd(INFO), scales=(2,), feature_stride=16,
                                rpn_pre_nms_top_n=20, rpn_post_nms_top_n=8, threshold=0.4,
                                rpn_min_size=6, output_score=True)
    base = C.GenAnchor(nd(prob), scales=(2,), feature_stride=16).asnumpy().reshape(3, 4, 3, 4)
    for n in range(2):
        candidates, dropped, (height, width, scale) = [], set(), INFO[n].tolist()
        for y, x, a in itertools.product(range(3), range(4), range(3)):
            left, top, right, bottom = base[y, x, a].tolist()
            dx, dy, dw, dh = (float(offsets[n, 4 * a + k, y, x]) for k in range(4))
            across, down = right - left + 1, bottom - top + 1
            center = left + across / 2 + dx * across, top + down / 2 + dy * down
            across, down = (size * np.exp(min(d, np.log(1000 / 16)))
                            for size, d in ((across, dw), (down, dh)))
            box = [center[0] - across / 2, center[1] - down / 2,
                   center[0] + across / 2 - 1, center[1] + down / 2 - 1]
            box = [min(max(v, 0), last - 1)
                   for v, last in zip(box, (width, height) * 2, strict=True)]
            sides = box[2] - box[0], box[3] - box[1]
            inside = (box[0] + (sides[0] + 1) / 2 < width and box[1] + (sides[1] + 1) / 2 < height)
            candidates.append((float(prob[n, 3 + a, y, x]), box))
            if min(sides) / scale + 1 < 6 or not inside:
                dropped.add(candidates[-1][0])
                box[:] = [box[0] - 3, box[1] - 3, box[2] + 3, box[3] + 3]
        kept = suppressed(sorted(candidates, key=lambda pair: -pair[0])[:20], 0.4, 8)
        count, scores = len(kept), [-1 if s in dropped else s for s, _ in kept]
        assert -1 in scores and max(scores) > 0
        np.testing.assert_allclose(score.asnumpy()[n, :count, 0], scores, rtol=1e-6)
        np.testing.assert_allclose(rois.asnumpy()[n, :count], [b for _, b in kept], atol=1e-3)


def test_anchors_beside_the_image_come_last_with_offsets_of_corners():
    prob = mx.nd.array(np.linspace(0.1, 0.9, 2 * 3 * 12).reshape(1, 6, 3, 4))
    info = nd([[40, 40, 1]])  # two of three rows, two of four columns
    ranges = nd([[0, 1000]])
    for op, extra in ((C.Proposal_v2, (ranges,)), (C.Proposal_v3, ())):
        _, score = op(prob, mx.nd.zeros((1, 12, 3, 4)), info, *extra, scales=(1,),
                      feature_stride=16, rpn_pre_nms_top_n=12, rpn_post_nms_top_n=12, threshold=1,
                      rpn_min_size=1, iou_loss=True, output_score=True)
        inside = prob.asnumpy()[0, 3:, :2, :2]
        np.testing.assert_allclose(score.asnumpy()[0, :, 0], np.sort(inside.ravel())[::-1],
                                   rtol=1e-6)


def test_retina_boxes_are_sorted_by_class_scores():
    rng = np.random.default_rng(1)
    prob, offsets = rng.random((1, 6, 2, 3)), 0.3 * rng.standard_normal((1, 8, 2, 3))
    corner = rng.uniform(0, 30, (12, 2))
    anchors = np.concatenate([corner, corner + rng.uniform(5, 30, (12, 2))], axis=1)
    std = (0.1, 0.1, 0.2, 0.2)
    boxes, scores = C.GenProposalRetina(nd(prob), nd(offsets), nd(INFO[:1]), nd(anchors),
                                        num_anchors=2, rpn_pre_nms_top_n=40, thresh=0.3,
                                        rpn_min_size=1, anchor_std=std)
    rows = []
    for y, x, a, k in itertools.product(range(2), range(3), range(2), range(3)):
        score = float(prob[0, 3 * a + k, y, x])
        if score > 0.3:
            rows.append((score, k, (y * 3 + x) * 2 + a))
    decoded = C.DecodeBBox(nd(anchors[None]), nd(np.tile(
        offsets[0].reshape(2, 4, 2, 3).transpose(2, 3, 0, 1).reshape(1, 12, 4), 2)), nd(INFO[:1]),
        bbox_std=std).asnumpy()[0]
    rows.sort(key=lambda row: -row[0])
    expected = np.zeros((40, 4))
    for i, (score, k, anchor) in enumerate(rows):
        assert expected[i].sum() == 0
        expected[i] = score * np.eye(4)[k + 1]
        np.testing.assert_allclose(boxes.asnumpy()[0, i], decoded[anchor], atol=1e-4)
    np.testing.assert_allclose(scores.asnumpy()[0], expected, rtol=1e-6)
    assert 0 < len(rows) < 40 and not boxes.asnumpy()[0, len(rows):].any()


# -- targets --------------------------------------------------------------------------------------


OBJECTS = np.array([[[4, 4, 30, 40, 2], [10, 20, 50, 60, 1], [0, 0, 0, 0, -1]]], np.float32)
SETTINGS = {"num_classes": 3, "batch_images": 1, "image_rois": 16, "fg_thresh": 0.5,
            "bg_thresh_hi": 0.5, "bg_thresh_lo": 0.0, "proposal_without_gt": False}


def regions(rng: np.random.Generator, count: int) -> np.ndarray:
    corner = rng.integers(0, 30, (1, count, 2))
    return np.concatenate([corner, corner + rng.integers(5, 30, (1, count, 2))], axis=2)


def test_offsets_lead_from_the_sampled_regions_to_their_boxes(rng):
    near = OBJECTS[0, :2, :4] + rng.integers(-2, 3, (6, 2, 4))
    rois = np.concatenate([near.reshape(1, 12, 4), regions(rng, 20)], axis=1)
    outs = mx.nd.ProposalTarget(nd(rois), nd(OBJECTS), **SETTINGS, fg_fraction=0.5, output_iou=True)
    picked, label, target, weight, overlap = (out.asnumpy()[0] for out in outs)
    assert 1 <= (label > 0).sum() <= 8 and (label[8:] == 0).all()
    for roi, kind, shift, share, ratio in zip(picked, label, target, weight, overlap, strict=True):
        ratios = [iou(roi, box) for box in OBJECTS[0, :2]]
        assert ratio == pytest.approx(max(ratios), abs=1e-5)
        assert (ratio >= 0.5) == (kind > 0)
        expected = np.repeat(np.arange(3) == kind, 4) if kind else np.zeros(12)
        np.testing.assert_array_equal(share, expected)
        if kind:
            box = OBJECTS[0, np.argmax(ratios)]
            assert kind == box[4]
            moved = C.DecodeBBox(nd(roi[None, None]), nd(shift[None, None]), nd([[99, 99, 1]]),
                                 class_agnostic=False).asnumpy().reshape(3, 4)[int(kind)]
            np.testing.assert_allclose(moved, box[:4], atol=1e-3)


def test_sampling_follows_the_seed_and_takes_padding_for_nothing(rng):
    rois = np.concatenate([regions(rng, 30), np.zeros((1, 10, 4))], axis=1)
    drawn = []
    for seed in (1, 1, 2):
        mx.random.seed(seed)
        drawn.append(mx.nd.ProposalTarget(nd(rois), nd(OBJECTS), **SETTINGS)[0].asnumpy())
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert not np.array_equal(drawn[0], drawn[2]) and (drawn[0][..., 3] > 0).all()


def test_images_without_objects_give_background(rng):
    empty = np.full((1, 2, 5), -1, np.float32)
    for name, extra in (("ProposalTarget", ()), ("ProposalTarget_v2", (nd([[0, 99]]),))):
        outs = getattr(mx.nd, name)(nd(regions(rng, 20)), nd(empty), *extra, **SETTINGS)
        assert not any(out.asnumpy().any() for out in outs[1:])


def test_a_class_out_of_range_is_named(rng):
    with pytest.raises(mx.MXNetError, match="gt_boxes of image 0 has class 2, expected 0 to 1"):
        mx.nd.ProposalTarget(nd(regions(rng, 4)), nd(OBJECTS), **{**SETTINGS, "num_classes": 2},
                             fg_fraction=1.0)


def test_masks_are_the_objects_inside_of_the_regions():
    square = [[10, 10, 29, 29, 1]]
    polygon = np.zeros((1, 1, 11), np.float32)
    polygon[0, 0] = [1, 1, 8, 10, 10, 20, 10, 20, 30, 10, 30]  # the left half of the square
    settings = {**SETTINGS, "num_classes": 2, "image_rois": 4, "fg_fraction": 0.5}
    outs = mx.nd.ProposalMaskTarget(nd([[[10, 10, 30, 30]]]), nd([square]), nd(polygon),
                                    mask_size=20, output_iou=True, output_ratio=True,
                                    **{**settings, "proposal_without_gt": True})
    mask, ratio = outs[5].asnumpy()[0], outs[6].asnumpy()[0]
    expected = np.zeros((20, 20))
    expected[:, :10] = 1
    np.testing.assert_array_equal(mask[0], expected)
    assert (mask[1] == -1).all() and ratio[1] == 0
    assert ratio[0] == pytest.approx(1, abs=1e-3)


# -- losses and layers ----------------------------------------------------------------------------


def central_difference(function, x, step=1e-6):
    gradient = np.zeros_like(x)
    for index in np.ndindex(*x.shape):
        for sign in (1, -1):
            moved = x.copy()
            moved[index] += sign * step
            gradient[index] += sign * function(moved) / (2 * step)
    return gradient


def gradient_of(op, x, label, **settings):
    data = mx.nd.array(x, dtype="float64")
    data.attach_grad()
    with mx.autograd.record():
        y = op(data, mx.nd.array(label, dtype="float64"), **settings)
    y.backward()
    return data.grad.asnumpy()


def test_focal_loss_is_differentiated(rng):
    x, label = rng.standard_normal((2, 4, 3)), np.array([[0, 1, 3, -1], [2, 0, 0, 1]])

    def loss(x):
        p, right = 1 / (1 + np.exp(-x)), label[..., None] == np.arange(1, 4)
        terms = np.where(right, -0.3 * (1 - p) ** 1.5 * np.log(p),
                         -0.7 * p ** 1.5 * np.log(1 - p))
        return terms[label >= 0].sum()

    expected = central_difference(loss, x)
    for how, divisor in (("null", 1), ("batch", 2), ("valid", 1 + (label >= 1).sum())):
        found = gradient_of(C.FocalLoss, x, label, alpha=0.3, gamma=1.5, normalization=how)
        # alpha and gamma are float32 parameters.
        np.testing.assert_allclose(found, expected / divisor, rtol=1e-6, atol=1e-8)


def test_sigmoid_cross_entropy_is_a_mean_of_what_is_not_ignored(rng):
    x, label = 3 * rng.standard_normal((2, 3, 4)), rng.integers(-1, 2, (2, 3, 4)).astype(float)

    def loss(x):
        p, valid = 1 / (1 + np.exp(-x)), label >= 0
        terms = -np.where(valid, label * np.log(p) + (1 - label) * np.log(1 - p), 0)
        return terms.sum(axis=(1, 2)) / (valid.sum(axis=(1, 2)) + 1e-5)

    found = C.SigmoidCrossEntropy(mx.nd.array(x, dtype="float64"),
                                  mx.nd.array(label, dtype="float64"))
    np.testing.assert_allclose(found.asnumpy(), loss(x), rtol=1e-6)
    gradient = gradient_of(C.SigmoidCrossEntropy, x, label, grad_scale=2)
    np.testing.assert_allclose(gradient, 2 * central_difference(lambda x: loss(x).sum(), x),
                               rtol=1e-5, atol=1e-8)
    extreme = C.SigmoidCrossEntropy(nd([[1000, -1000]]), nd([[0, 1]])).asnumpy()
    np.testing.assert_allclose(extreme, 1000, rtol=1e-4)


def test_bbox_norm_divides_the_gradient_by_the_objects():
    data, label = mx.nd.ones((1, 4, 3)), nd([[0, 2, 1]])
    data.attach_grad()
    with mx.autograd.record():
        y = C.BBoxNorm(data, label)
    y.backward(mx.nd.ones((1, 4, 3)) * 6)
    np.testing.assert_allclose(data.grad.asnumpy(), 2)


def test_group_norm_scales_channels(rng):
    x, gamma, beta = (rng.standard_normal(shape) for shape in ((2, 6, 3, 2), (6,), (6,)))
    y = C.GroupNorm(nd(x), nd(gamma), nd(beta), num_group=2).asnumpy()
    groups = x.reshape(2, 2, -1)
    normal = (groups - groups.mean(2, keepdims=True)) / np.sqrt(groups.var(2, keepdims=True) + 1e-5)
    expected = normal.reshape(x.shape) * gamma[:, None, None] + beta[:, None, None]
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


def quantizer(**settings):
    net = C_SYM.Quantization_int8(mx.sym.var("data"), name="q", **settings)
    executor = net.simple_bind(mx.cpu(), data=(2, 2))
    executor.aux_dict["q_minmax"][:] = 0
    return executor


C_SYM = mx.sym.contrib


def test_quantized_weights_have_levels_of_their_largest():
    executor = quantizer()
    y, = executor.forward(is_train=True, data=nd([[1.27, -0.5], [0.004, 0.006]]))
    np.testing.assert_allclose(y.asnumpy(), [[1.27, -0.5], [0, 0.01]], atol=1e-6)
    assert executor.aux_dict["q_minmax"].asnumpy() == pytest.approx(1.27)
    y, = executor.forward(is_train=False, data=nd([[2.0, 0.0], [0, 0]]))
    assert y.asnumpy()[0, 0] == pytest.approx(2.0)  # weights are not clipped


def test_quantized_activations_follow_an_average_and_are_clipped():
    executor = quantizer(is_weight=False, ema_decay=0.5, delay_quant=1, grad_mode="clip")
    first, = executor.forward(is_train=True, data=nd([[8, 1], [1, 1]]))
    np.testing.assert_array_equal(first.asnumpy(), [[8, 1], [1, 1]])  # delayed
    for largest, average in ((4, 4), (2, 3), (5, 4)):
        executor.forward(is_train=True, data=nd([[largest, 0], [0, 0]]))
        assert executor.aux_dict["q_minmax"].asnumpy() == pytest.approx(average)
    y, = executor.forward(is_train=False, data=nd([[9, -9], [4, 0]]))
    np.testing.assert_allclose(y.asnumpy(), [[4, -4], [4, 0]])
    executor.forward(is_train=True, data=nd([[3, -9], [1, 0]]))
    executor.backward(nd([[1, 2], [3, 4]]))
    np.testing.assert_array_equal(executor.grad_dict["data"].asnumpy(), [[1, 0], [3, 4]])
