"""`mx.image.detection` against MXNet, which draws the same random values; invariants of crops and
borders for any image."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nbmod as mx
from tests.programs import detection_programs

EXPRESSIONS = [
    "I.DetHorizontalFlipAug(1.0)(im, objects)", "I.DetHorizontalFlipAug(0)(im, objects)",
    "I.DetBorrowAug(I.CastAug())(im, objects)",
    "I.DetRandomSelectAug([I.DetHorizontalFlipAug(1), I.DetRandomPadAug()], .2)(im, objects)",
    "I.DetRandomSelectAug(I.DetHorizontalFlipAug(1), .2)(im, objects)",
    "I.DetRandomSelectAug([])(im, objects)",
    "I.DetRandomCropAug()(im, objects)", "I.DetRandomCropAug(.9)(im, objects)",
    "I.DetRandomCropAug(.1, 1.0, (.2, .4))(im, objects)",
    "I.DetRandomCropAug(max_attempts=0)(im, objects)", "I.DetRandomPadAug()(im, objects)",
    "I.DetRandomPadAug(1.0, 2)(im, objects)", "I.DetRandomPadAug(max_attempts=0)(im, objects)",
    "I.DetRandomPadAug(pad_val=[1.5, 2.5, 300])(im, objects)",
    "I.DetRandomPadAug()(im.astype('float32'), objects)",
    "I.DetAugmenter(a=1, b=mx.nd.ones(2), c=np.ones(2)).dumps()",
    "I.DetBorrowAug(I.CastAug()).dumps()", "I.DetBorrowAug(I.ColorJitterAug(.1, .2, .3)).dumps()",
    "I.DetRandomSelectAug([I.DetHorizontalFlipAug(1.), I.DetBorrowAug(I.CastAug())], .2).dumps()",
    "I.DetRandomSelectAug([]).dumps()", "I.DetHorizontalFlipAug(.3).dumps()",
    "I.DetRandomCropAug(.1, .5, .2, .3, 7).dumps()", "I.DetRandomPadAug(.5, 3, 7, 9).dumps()",
    "I.CreateMultiRandCropAugmenter().dumps()",
    "I.CreateMultiRandCropAugmenter([.1, .5], (.5, 2), [(.1, 1.), (.2, .9)], .3, [7]).dumps()",
    *(f"[[a.dumps(), getattr(a, 'skip_prob', None)] for a in I.CreateDetAugmenter((3, 20, 30){k})]"
      for k in ("", ", 25, .5, .4, .3, True, True, True, .1, .2, .3, .4, .5, 1, .6, (.5, 2), "
                "(.1, 2.), .2, 20, (1, 2, 3)", ", rand_crop=-1, rand_pad=-1", ", rand_pad=.3",
                ", rand_crop=.3, min_object_covered=[.1, .2], area_range=[(.1, .9), (.2, .8)]",
                ", brightness=.2, hue=.1, pca_noise=.1, rand_gray=.2, rand_mirror=True",
                ", mean=np.array([1, 2, 3])")),
]


def same(one, other):
    """Equal, to the last bit of every element."""
    if isinstance(one, list):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            same(a, b)
    elif isinstance(one, np.ndarray):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    else:
        assert one == other


def test_augmenters_are_mxnets(oracle):
    theirs = oracle.call("mx_scripts.run", "detection_programs", "evaluate", EXPRESSIONS)
    for expression, ours, expected in zip(
            EXPRESSIONS, detection_programs.evaluate(mx, EXPRESSIONS), theirs, strict=True):
        try:
            same(ours, expected)
        except AssertionError as error:
            raise AssertionError(expression) from error


def test_channels_without_a_number_are_padded_by_0():
    """MXNet reads memory past the elements, usually those of an earlier call."""
    image = mx.nd.full((30, 40, 3), 5, dtype="uint8")
    random.seed(5)
    framed = mx.image.DetRandomPadAug(pad_val=(1, 2))(image, np.array([[1, .1, .2, .5, .6]]))[0]
    frame = framed.asnumpy()[(framed.asnumpy() != 5).any(2)]
    assert len(frame) and (frame == [1, 2, 0]).all()


def test_random_parts_and_frames_are_mxnets(oracle):
    theirs = oracle.call("mx_scripts.run", "detection_programs", "reframed", 200)
    same(detection_programs.reframed(mx, 200), theirs)


# -- invariants for any image --------------------------------------------------------------

BOXES = st.lists(st.tuples(*[st.integers(0, 20)] * 2, *[st.integers(1, 20)] * 2), min_size=1,
                 max_size=3)
SIZES = st.integers(4, 45)
RATIOS = st.tuples(st.floats(.3, 1), st.floats(1, 3))
SHARES = st.sampled_from([0, .2, .5, .8])
SEEDS = st.integers(0, 10**6)


def drawn(boxes, height, width):
    """An image in which the object of class k is bright in channel k, and its label."""
    image, label = np.full((height, width, 3), 10, np.uint8), []
    for number, (left, top, w, h) in enumerate(boxes):
        left, top = left % width, top % height
        right, bottom = min(left + w, width), min(top + h, height)
        image[top:bottom, left:right, number] = 255
        label.append([number, left / width, top / height, right / width, bottom / height])
    return image, np.array(label, np.float32)


def shining(image, number):
    """The number of pixels of an object in an image, and their bounding box."""
    rows, columns = np.nonzero(image[:, :, number] == 255)
    if not len(rows):
        return 0, None
    return len(rows), [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]


def changed(aug, image, label, seed):
    random.seed(seed)
    result, after = aug(mx.nd.array(image, dtype="uint8"), label)
    return result.asnumpy(), after


def check_boxes(image, label, slack=1e-3):
    """Every box frames the pixels of its object, to within `slack` pixels.

    At the border of a crop a sliver may remain, by rounding of float32 fractions, if no minimum
    coverage is set.
    """
    size = [image.shape[1], image.shape[0]] * 2
    for row in label:
        box, (pixels, frame) = row[1:5] * size, shining(image, int(row[0]))
        if pixels:
            np.testing.assert_allclose(box, frame, rtol=0, atol=slack)
        else:
            assert min(box[2] - box[0], box[3] - box[1]) < slack


@given(BOXES, SIZES, SIZES, RATIOS, st.tuples(st.floats(0, .5), st.floats(.5, 1.2)), SHARES, SHARES,
       SEEDS)
@settings(max_examples=150, deadline=None)
def test_parts_keep_their_promises(boxes, height, width, ratios, areas, covered, eject, seed):
    image, label = drawn(boxes, height, width)
    aug = mx.image.DetRandomCropAug(covered, ratios, areas, eject, 20)
    part, seen = changed(aug, image, label, seed)
    if part.shape == image.shape and len(seen) == len(label) and (seen == label).all():
        return
    h, w = part.shape[:2]
    assert areas[0] * height * width <= w * h <= areas[1] * height * width
    assert h * ratios[0] - .5 <= w <= h * ratios[1] + .5
    check_boxes(part, seen)
    for number in range(len(boxes)):
        whole = shining(image, number)[0]
        share = shining(part, number)[0] / whole
        assert share == 0 or whole <= 2 or share > covered - 1e-6
        if abs(share - eject) > 1e-6:
            assert (number in seen[:, 0]) == (share > eject)


@given(BOXES, SIZES, SIZES, RATIOS, st.tuples(st.floats(.5, 2), st.floats(2, 4)), SEEDS)
@settings(max_examples=100, deadline=None)
def test_frames_keep_their_promises(boxes, height, width, ratios, areas, seed):
    image, label = drawn(boxes, height, width)
    framed, seen = changed(mx.image.DetRandomPadAug(ratios, areas, 20, 77), image, label, seed)
    check_boxes(framed, seen)
    if framed.shape != image.shape:
        h, w = framed.shape[:2]
        assert h * ratios[0] - .5 <= w <= h * ratios[1] + .5
        assert w >= width + 2 and h >= height + 2
        assert (h - 1) ** 2 * ratios[0] <= areas[1] * height * width
        assert (framed == 77).all(2).sum() == h * w - height * width


@given(BOXES, SIZES, SIZES, SEEDS)
@settings(max_examples=60, deadline=None)
def test_boxes_follow_pixels_through_everything(boxes, height, width, seed):
    """To a pixel and a half: nearest-neighbor sampling, with edges between pixels."""
    image, label = drawn(boxes, height, width)
    random.seed(seed)
    pixels, seen = mx.nd.array(image, dtype="uint8"), label
    for aug in mx.image.CreateDetAugmenter((3, 60, 70), rand_crop=.5, rand_pad=.5, rand_mirror=True,
                                           inter_method=0):
        pixels, seen = aug(pixels, seen)
    assert pixels.shape == (60, 70, 3) and len(seen)
    check_boxes(pixels.asnumpy(), seen, slack=1.5)


def test_labels_and_images_are_left_as_they_are():
    """MXNet modifies the boxes in the given label."""
    drawn_image, label = drawn([(2, 3, 4, 5)], 20, 30)
    before = label.copy()
    for aug in (mx.image.DetHorizontalFlipAug(1), mx.image.DetRandomPadAug(area_range=(2, 3)),
                mx.image.DetRandomCropAug()):
        image = mx.nd.array(drawn_image, dtype="uint8")
        aug(image, label)
        assert (label == before).all() and (image.asnumpy() == drawn_image).all()


@pytest.mark.parametrize("make, words", [
    (lambda i: i.DetRandomCropAug(area_range=(.5, .1)), "DetRandomCropAug: area_range"),
    (lambda i: i.DetRandomCropAug(area_range=(-1, .5)), "area_range is .*0 or above"),
    (lambda i: i.DetRandomPadAug(area_range=(1, float("inf"))), "area_range"),
    (lambda i: i.DetRandomPadAug(max_attempts=[3, 4]), r"max_attempts is \[3, 4\]"),
    (lambda i: i.CreateDetAugmenter((3, 8, 8), rand_pad=1, area_range=[(.1, 1), (.2, .9)]),
     "DetRandomPadAug: area_range"),
    (lambda i: i.DetRandomCropAug(area_range=(0, 0)), "area_range is .*above 0"),
    (lambda i: i.DetRandomCropAug(area_range=(1, 2, 3)), "area_range"),
    (lambda i: i.DetRandomCropAug(area_range="x"), "area_range is 'x'"),
    (lambda i: i.DetRandomCropAug(area_range=(float("nan"), 1)), "area_range"),
    (lambda i: i.DetRandomCropAug(aspect_ratio_range=(2., 1.)), "aspect_ratio_range"),
    (lambda i: i.DetRandomCropAug(aspect_ratio_range=(0, 1)), "aspect_ratio_range"),
    (lambda i: i.DetRandomPadAug(area_range=(.5, .9)), "DetRandomPadAug: area_range"),
    (lambda i: i.DetRandomPadAug(area_range=1), "area_range"),
    (lambda i: i.DetRandomPadAug(pad_val="x"), "pad_val"),
    (lambda i: i.DetRandomSelectAug([i.CastAug()]), "DetRandomSelectAug.*DetAugmenters"),
    (lambda i: i.CreateMultiRandCropAugmenter([.1, .2], area_range=[(.1, 1)] * 3), "2 values")])
def test_wrong_parameters_are_named(make, words):
    with pytest.raises(ValueError, match=words):
        make(mx.image)


def test_only_augmenters_are_borrowed():
    with pytest.raises(TypeError, match="DetBorrowAug.*Augmenter"):
        mx.image.DetBorrowAug(mx.image.DetHorizontalFlipAug(1))
