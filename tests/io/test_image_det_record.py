"""ImageDetRecordIter against MXNet; transformation of boxes; distributions; damage; an SSD."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nbmod as mx
from nbmod.base import MXNetError
from nbmod.imgproc import codecs
from nbmod.imgproc.record_det_augmenter import DetAugmentation, parse_label
from nbmod.io.record_table import label_lengths
from nbmod.recordio.frames import MAGIC
from tests.io.test_image_record import both
from tests.io.test_native_iterators import many
from tests.programs import image_record_programs, ssd

SIZES = [(16, 20), (18, 20), (20, 20), (22, 20), (12, 14)]
BOXES = [(0, .05, .1, .5, .8), (1, .15, .1, .6, .85), (2, .25, .3, .7, .9)]
LABELS = [[4, 5, 9., 8., *(number for box in BOXES[:1 + k % 3] for number in box)]
          for k in range(5)]
WIDE = [[2, 7, *(number for box in BOXES[:1 + k % 2] for number in (*box, k, .5))]
        for k in range(5)]
EMPTY = [[2, 5, 0, .3, .2, .3, .8, 1, .1, .1, .2, .2, 2, .6, .1, .5, .3], [2, 5, 1, .1, .4, .2, .4],
         [2, 5, -1, -.1, .2, 1.5, .8], *LABELS[:2]]
PLAIN = {"data_shape": (3, 12, 14), "batch_size": 5}
NUMBERS = {"mean_r": 10, "mean_g": 20, "mean_b": 30.5, "std_r": 2, "std_g": 4, "scale": 0.5}
CASES = {  # labels, options
    "plain": (LABELS, {"data_shape": "(3,12,14)", "batch_size": "2"}),
    "batches larger than the file": (LABELS, PLAIN | {"batch_size": 7}),
    "filled up": (LABELS, PLAIN | {"label_pad_width": 30, "label_pad_value": -2.5}),
    "filled up to the longest": (LABELS, PLAIN | {"label_pad_width": -1}),
    "labels of one width": ([LABELS[1]] * 5, PLAIN | {"label_width": 14}),
    "labels of a list": (LABELS, PLAIN | {"path_imglist": "a.lst"}),
    "labels of a list, cut": (LABELS, PLAIN | {"path_imglist": "a.lst", "label_width": 9}),
    "wide objects": (WIDE, PLAIN | {"rand_mirror_prob": 1.}),
    "empty boxes": (EMPTY, PLAIN),
    "empty boxes mirrored": (EMPTY, PLAIN | {"rand_mirror_prob": 1.}),
    "other names": (LABELS, PLAIN | {"data_name": "x", "label_name": "y"}),
    "normalized": (LABELS, PLAIN | NUMBERS),
    "normalized part": (LABELS, PLAIN | NUMBERS | {"resize_mode": "fit"}),
    "mean image": (LABELS, PLAIN | {"mean_img": "a.mean"}),
    "mean image of parts": (LABELS, PLAIN | {"mean_img": "a.mean", "resize_mode": "fit"}),
    "gray": (LABELS, PLAIN | {"data_shape": (1, 12, 14)}),
    **{f"part {k} of {n}": (LABELS, PLAIN | {"batch_size": 1, "num_parts": n, "part_index": k})
       for n in (2, 3) for k in range(n)},
    **{f"{mode} to {shape}{', mirrored' * mirror}": (LABELS, PLAIN | {
        "resize_mode": mode, "data_shape": shape, "rand_mirror_prob": float(mirror)})
       for mode in ("shrink", "fit") for shape in ((3, 12, 14), (3, 30, 40), (3, 40, 20))
       for mirror in (False, True)},
    **{f"inter_method {method}{', mirrored' * mirror}": (LABELS, PLAIN | {
        "inter_method": method, "rand_mirror_prob": float(mirror)})
       for method in (0, 1, 2, 3, 4, 9) for mirror in (False, True)},
    **{f"resize {size}": (LABELS, PLAIN | {"resize": size, "resize_mode": "shrink"})
       for size in (8, 25)},
}


@pytest.mark.parametrize("name", CASES)
def test_batches_are_mxnets(oracle, name):
    """Labels are equal.  Images are PNG, so that decoders cannot differ.

    Resampling may round differently: by 1 level, for 1 pixel of 50.  The mean image is a float32
    sum.
    """
    labels, options = CASES[name]
    listed = [label[:5] + [3] + label[6:] for label in reversed(LABELS)]
    ours, theirs = both(oracle, SIZES, labels, "ImageDetRecordIter", options, 2, None, listed)
    assert ours[:2] == theirs[:2] and len(ours) == len(theirs)
    for one, other in zip(ours[2:], theirs[2:], strict=True):
        np.testing.assert_equal(one[1:], other[1:])
        differences = np.abs(one[0] - other[0])
        assert differences.max() <= 1
        assert (differences > 2e-5).mean() <= 0.02


@pytest.mark.parametrize("mode", ["shrink", "fit"])
def test_sizes_are_mxnets(oracle, mode):
    """Of images of any size, to the pixel that arithmetic in float32 may lose."""
    sizes = [tuple(size) for size in np.random.RandomState(0).randint(20, 120, (80, 2)).tolist()]
    options = {"data_shape": (3, 12, 14), "batch_size": 80, "resize_mode": mode}
    ours, theirs = both(oracle, sizes, LABELS[:1] * 80, "ImageDetRecordIter", options, 1)
    np.testing.assert_equal(ours[2][1], theirs[2][1])
    short = (ours[2][1][:, 1:3] < [12, 14]).all(1)
    assert short.any() and not short.all()


def test_jpeg_is_mxnets(oracle):
    """Decoders may differ by 2 levels, which resampling mixes."""
    sizes = [(48, 64), (64, 48), (40, 40), (33, 90), (24, 24)]
    files = [codecs.encode(image_record_programs.smooth(*size, 1), "jpg") for size in sizes]
    options = {"data_shape": (3, 24, 24), "batch_size": 5}
    ours, theirs = both(oracle, sizes, LABELS, "ImageDetRecordIter", options, 1, files)
    np.testing.assert_equal(ours[2][1:], theirs[2][1:])
    assert np.abs(ours[2][0] - theirs[2][0]).max() <= 3
    assert np.abs(ours[2][0] - theirs[2][0]).mean() <= 0.1


# --------------------------------------------------------------------------------- distributions

COLORS = [(250, 10, 10), (10, 250, 10), (10, 10, 250)]
PLACES = np.array([[3, 4, 20, 19], [30, 8, 53, 41], [8, 31, 27, 46]])
"""In pixels; no center is on the edge of a pixel, so that it is inside a window or outside."""
HEIGHT, WIDTH = 48, 60


def colored():
    """An image with three rectangles of a color each on gray, and its label: their boxes."""
    image = np.full((HEIGHT, WIDTH, 3), 120, np.uint8)
    for (left, top, right, bottom), color in zip(PLACES, COLORS, strict=True):
        image[top:bottom, left:right] = color
    objects = np.column_stack([[0, 1, 2], PLACES / [WIDTH, HEIGHT, WIDTH, HEIGHT], [7, 8, 9]])
    return image, parse_label(np.concatenate([[3, 6, 5], objects.ravel()]).astype(np.float32))


def changed(count, mode="shrink", **options):
    """Results of `count` random draws: images and labels."""
    options = DetAugmentation(data_shape=(3, 200, 200), resize_mode=mode, **options)
    image, label = colored()
    draws = np.random.Generator(np.random.Philox(5)).random((count, options.draws))
    return [options.augment(image, label, row) for row in draws]


CROP = dict(rand_crop_prob=1., min_crop_scales=(.3,), min_crop_aspect_ratios=(.5,),
            max_crop_aspect_ratios=(2.,))
SAMPLERS = dict(rand_crop_prob=.8, num_crop_sampler=3, min_crop_scales=(.2, .4, .6),
                max_crop_scales=(.3, .5, 1.), max_crop_trials=(20, 30, 10))
MOVES = {"mirror": {"rand_mirror_prob": .5}, "pad": {"rand_pad_prob": .7, "max_pad_scale": 3.},
         "crop": CROP, "overlap": CROP | {"crop_emit_mode": "overlap", "emit_overlap_thresh": .4},
         "samplers": SAMPLERS,
         "all": SAMPLERS | {"rand_mirror_prob": .5, "rand_pad_prob": .5, "max_pad_scale": 2.}}


@pytest.mark.parametrize("name", MOVES)
def test_boxes_frame_their_colors(name):
    """To the pixel, for any augmentation; further values of an object stay with its box."""
    for image, label in changed(300, **MOVES[name]):
        height, width = image.shape[:2]
        assert label.header.tolist() == [3, 6, 5] and len(label.objects)
        for row in label.objects:
            kind = int(row[0])
            ys, xs = np.nonzero((image == COLORS[kind]).all(-1))
            framed = [xs.min(), ys.min(), xs.max() + 1, ys.max() + 1]
            np.testing.assert_allclose(row[1:5] * [width, height, width, height], framed,
                                       atol=1e-4)
            assert row[5] == kind + 7


def windows(count, **options):
    """Crop windows of `count` draws, in pixels (left, top, right, bottom), and their labels."""
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    image, label = np.stack([x, y, x], -1).astype(np.uint8), colored()[1]
    options = DetAugmentation(data_shape=(3, 200, 200), resize_mode="shrink", **options)
    draws = np.random.Generator(np.random.Philox(5)).random((count, options.draws))
    results = [options.augment(image, label, row) for row in draws]
    corners = np.array([cut[0, 0, :2] for cut, _ in results]).astype(int)
    sides = np.array([cut.shape[1::-1] for cut, _ in results])
    return np.concatenate([corners, corners + sides], 1), [label for _, label in results]


def measures(window):
    """Of each of the three objects: overlap with a window, and coverages of window and object."""
    sides = np.minimum(PLACES[:, 2:], window[2:]) - np.maximum(PLACES[:, :2], window[:2])
    common, window = sides.clip(0).prod(1), (window[2:] - window[:2]).prod()
    boxes = (PLACES[:, 2:] - PLACES[:, :2]).prod(1)
    return {"overlaps": common / (boxes + window - common), "sample_coverages": common / window,
            "object_coverages": common / boxes}


def test_an_object_beside_its_image():
    """Pixels around the crop are filled with other colors."""
    options = DetAugmentation(
        data_shape=(3, 400, 400), resize_mode="shrink", rand_pad_prob=1., max_pad_scale=4.,
        rand_crop_prob=1., max_crop_scales=(.3,), max_crop_trials=(500,), random_hue_prob=1.,
        max_random_hue=9, random_contrast_prob=1., max_random_contrast=.9)
    label = parse_label(np.array([2, 5, 0, -.9, -.9, -.1, -.1], np.float32))
    draws = np.random.Generator(np.random.Philox(5)).random((100, options.draws))
    cuts = [options.augment(colored()[0], label, row)[0] for row in draws]
    assert any((cut == 127).all() for cut in cuts) and not all((cut == 127).all() for cut in cuts)


def is_whole(cuts):
    return (cuts == [0, 0, WIDTH, HEIGHT]).all(1)


LIMITS = [{"min_crop_overlaps": .3}, {"max_crop_overlaps": .1}, {"min_crop_sample_coverages": .6},
          {"max_crop_sample_coverages": .1, "min_crop_object_coverages": .2},
          {"min_crop_object_coverages": .9}, {"max_crop_object_coverages": .5},
          {"min_crop_overlaps": .2, "min_crop_object_coverages": .8}]


@pytest.mark.parametrize("limits", LIMITS, ids=lambda limits: ", ".join(limits))
@pytest.mark.parametrize("mode", ["center", "overlap"])
def test_crops_keep_their_limits(limits, mode):
    """An object within all of them, and only objects that remain count in the label."""
    given = {name: (value,) for name, value in limits.items()}
    cuts, labels = windows(200, **CROP | given, crop_emit_mode=mode, emit_overlap_thresh=.501)
    cropped = ~is_whole(cuts)
    assert cropped.sum() > 100
    for number in np.flatnonzero(cropped):
        window, objects = cuts[number], labels[number].objects
        found = measures(window)
        good = [found[name[9:]] >= value - 1e-6 if name.startswith("min") else
                found[name[9:]] <= value + 1e-6 for name, value in limits.items()]
        assert np.all(good, 0).any()
        centers = (PLACES[:, :2] + PLACES[:, 2:]) / 2
        stay = (((window[:2] < centers) & (centers < window[2:])).all(1) if mode == "center" else
                found["object_coverages"] > .501)
        assert objects[:, 0].tolist() == np.flatnonzero(stay).tolist()
        assert (objects[:, 1:5] >= 0).all() and (objects[:, 1:5] <= 1).all()


def test_scales_and_shapes_of_crops():
    """Sides are truncated to whole pixels, which is 1 of 20 here at most."""
    cuts, _ = windows(500, rand_crop_prob=1., min_crop_scales=(.4,), max_crop_scales=(.6,),
                      min_crop_aspect_ratios=(.8,), max_crop_aspect_ratios=(1.6,),
                      max_crop_trials=(100,))
    width, height = (cuts[:, 2:] - cuts[:, :2])[~is_whole(cuts)].T
    scale, ratio = np.sqrt(width * height / (WIDTH * HEIGHT)), width / height
    assert .37 < scale.min() < .43 and .57 < scale.max() <= .6
    assert .75 < ratio.min() < .9 and 1.5 < ratio.max() < 1.7


def test_crops_are_anywhere():
    """Mean corner within 4 standard errors of a uniform distribution; both extremes occur."""
    cuts, _ = windows(2000, rand_crop_prob=1., min_crop_scales=(.5,), max_crop_scales=(.5,),
                      crop_emit_mode="overlap", emit_overlap_thresh=0.)
    cuts = cuts[~is_whole(cuts)]
    room = np.array([WIDTH, HEIGHT]) - (cuts[0, 2:] - cuts[0, :2])
    corners = cuts[:, :2]
    assert corners.min(0).tolist() == [0, 0] and corners.max(0).tolist() == room.tolist()
    assert len(np.unique(corners, axis=0)) > 500


@pytest.mark.parametrize("options, share", [
    ({"rand_mirror_prob": .3}, .3), ({"rand_mirror_prob": 1.}, 1),
    ({"rand_pad_prob": .3, "max_pad_scale": 3.}, .3),
    ({"rand_crop_prob": .3, "min_crop_scales": (.5,), "max_crop_scales": (.9,),
      "max_crop_trials": (200,)}, .3),
    ({"random_hue_prob": .3, "max_random_hue": 20}, .3),
    ({"random_saturation_prob": .3, "max_random_saturation": 40}, .3),
    ({"random_illumination_prob": .3, "max_random_illumination": 40}, .3),
    ({"random_contrast_prob": .3, "max_random_contrast": .5}, .3)])
def test_shares_of_images_that_are_changed(options, share):
    """Within 4 standard errors; a change by less than half a level is not visible."""
    image, _ = colored()
    results = changed(1000, **options)
    count = sum(cut.shape != image.shape or (cut != image).any() for cut, _ in results)
    assert abs(count - 1000 * share) <= 4 * np.sqrt(1000 * share * (1 - share)) + 20


def test_every_sampler_has_its_turn():
    """Of two that always succeed each is the first with probability 1/2 (4 standard errors)."""
    both = dict(rand_crop_prob=1., num_crop_sampler=2, min_crop_scales=(.8, .95),
                max_crop_scales=(.85, 1.), crop_emit_mode="overlap", emit_overlap_thresh=0.)
    cuts, _ = windows(1000, **both)
    small = ((cuts[:, 2:] - cuts[:, :2]).prod(1) < .8 * WIDTH * HEIGHT).sum()
    assert abs(small - 500) < 4 * np.sqrt(250)
    for least, most, only_small in [((2., 0.), (3., 1.), False), ((0., 2.), (1., 3.), True)]:
        cuts, _ = windows(200, **both, min_crop_overlaps=least, max_crop_overlaps=most)
        small = (cuts[:, 2:] - cuts[:, :2]).prod(1) < .8 * WIDTH * HEIGHT
        assert small.all() if only_small else not small.any()
    cuts, _ = windows(50, **both, min_crop_overlaps=(2.,), max_crop_overlaps=(3.,))
    assert is_whole(cuts).all()
    assert is_whole(windows(50, **both | {"max_crop_trials": (0,)})[0]).all()


STATISTICS = {
    "pad": {"rand_pad_prob": .8, "max_pad_scale": 2.},
    "crop": {"rand_crop_prob": .8, "min_crop_scales": .2},
    "shape of crops": {"rand_crop_prob": 1., "min_crop_scales": .5, "max_crop_scales": .9,
                       "min_crop_aspect_ratios": .3, "max_crop_aspect_ratios": 3.},
    "shape that does not fit": {"rand_crop_prob": 1., "min_crop_scales": .8,
                                "max_crop_scales": .81, "min_crop_aspect_ratios": 3.,
                                "max_crop_aspect_ratios": 4.},
    "limits": {"rand_crop_prob": 1., "min_crop_scales": .2, "min_crop_object_coverages": .5,
               "min_crop_overlaps": .1, "max_crop_overlaps": .6},
    "overlap": {"rand_crop_prob": 1., "min_crop_scales": .2, "crop_emit_mode": "overlap",
                "emit_overlap_thresh": .5},
    "samplers": {"rand_crop_prob": 1., "num_crop_sampler": 2, "min_crop_scales": (.1, .5),
                 "max_crop_scales": (.3, .9), "max_crop_trials": (3, 50)},
    "all": {"rand_crop_prob": .7, "min_crop_scales": .2, "rand_pad_prob": .5,
            "max_pad_scale": 2., "rand_mirror_prob": .4},
    "hue": {"random_hue_prob": .7, "max_random_hue": 20},
    "saturation": {"random_saturation_prob": .7, "max_random_saturation": 40},
    "light": {"random_illumination_prob": .7, "max_random_illumination": 40},
    "contrast": {"random_contrast_prob": .7, "max_random_contrast": .4},
}


@pytest.mark.parametrize("name", STATISTICS)
def test_what_is_random_is_distributed_as_in_mxnet(oracle, name):
    """Means and mean squares of boxes and colors over 400 images, all from 0 to 1: within 5
    standard errors and 0.01, which is half a pixel, or a level where MXNet truncates fractions."""
    label = [2, 5, 0, .1, .1, .4, .5, 1, .5, .3, .9, .8]
    encoded = codecs.encode(np.full((60, 90, 3), (100, 60, 150), np.uint8), "png")
    options = {"data_shape": (3, 2, 2), "inter_method": 0, "fill_value": 0, **STATISTICS[name]}
    arguments = encoded, label, 400, options
    ours = image_record_programs.outcomes(mx, *arguments)
    theirs = oracle.call("mx_scripts.run", "image_record_programs", "outcomes", *arguments)
    for one, other in zip(ours, theirs, strict=True):
        most = np.abs([one, other]).max((0, 1)).clip(1e-9)
        for power in (1, 2):
            samples = [(numbers / most) ** power for numbers in (one, other)]
            error = np.sqrt(sum(numbers.var(0) for numbers in samples) / 400)
            assert (np.abs(samples[0].mean(0) - samples[1].mean(0)) <= 5 * error + 0.01).all()


# ----------------------------------------------------------------------------------------- order

@pytest.fixture
def records(tmp_path):
    """Makes a file of images; the function gives options for an iterator over it."""
    def make(labels=LABELS, **options):
        sizes = [(16 + k, 20) for k in range(len(labels))]
        image_record_programs.write(mx, str(tmp_path), sizes, labels)
        return {"path_imgrec": str(tmp_path / "a.rec"), "data_shape": (3, 8, 8), "batch_size": 3,
                "verbose": False, **options}

    return make


RANDOM = dict(SAMPLERS, rand_mirror_prob=.5, rand_pad_prob=.5, max_pad_scale=2., random_hue_prob=.5,
              max_random_hue=10, random_contrast_prob=.5, max_random_contrast=.5, inter_method=10)


@pytest.mark.parametrize("shuffle", [False, True])
def test_threads_change_nothing(records, shuffle):
    made = [many(mx.io.ImageDetRecordIter(**records(
        shuffle=shuffle, preprocess_threads=threads, prefetch_buffer=ahead, seed=3, **RANDOM)), 8)
        for threads, ahead in ((1, 1), (4, 3))]
    assert made[0] == made[1]
    others = many(mx.io.ImageDetRecordIter(**records(shuffle=shuffle, seed=4, **RANDOM)), 8)
    assert others != made[0]


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("round_batch", [False, True])
@pytest.mark.parametrize("before", [0, 1, 2, 5])
def test_resume(records, shuffle, round_batch, before):
    options = records(shuffle=shuffle, round_batch=round_batch, **RANDOM)
    one, other = mx.io.ImageDetRecordIter(**options), mx.io.ImageDetRecordIter(**options)
    many(one, before)
    other.load_state_dict(one.state_dict())
    assert many(other, 7) == many(one, 7)
    with pytest.raises(MXNetError, match="with rand_pad_prob=0.5, this one has 0.4"):
        mx.io.ImageDetRecordIter(**options | {"rand_pad_prob": .4}
                                 ).load_state_dict(one.state_dict())


def test_a_mean_image_is_made(records, tmp_path):
    """It includes the zeros around smaller images, as the data do."""
    options = records(resize_mode="fit", batch_size=5)
    data = mx.io.ImageDetRecordIter(**options).next().data[0].asnumpy()
    path = str(tmp_path / "mean.params")
    less = mx.io.ImageDetRecordIter(**options, mean_img=path).next().data[0].asnumpy()
    mean = mx.nd.load(path)["mean_img"].asnumpy()
    np.testing.assert_allclose(mean, data.mean(0), rtol=1e-6)
    np.testing.assert_allclose(less, data - mean, rtol=1e-6)


def test_images_with_transparency(records, tmp_path):
    """Padding is transparent, and colors change, not transparency."""
    image = np.full((8, 8, 4), (40, 80, 120, 200), np.uint8)
    options = DetAugmentation(data_shape=(4, 40, 40), resize_mode="shrink", rand_pad_prob=1.,
                              max_pad_scale=3., random_contrast_prob=1., max_random_contrast=.5)
    part, _ = options.augment(image, parse_label(np.array(LABELS[0], np.float32)),
                          np.full(options.draws, .3))
    assert set(map(tuple, part.reshape(-1, 4).tolist())) == {(32, 64, 96, 200),
                                                            (127, 127, 127, 0)}


# ---------------------------------------------------------------------------------------- errors

@pytest.mark.parametrize("label, words", [
    ([2.], "has 1 numbers and starts with 2"), ([1, 5, 0, .1, .1, .2, .2], "starts with 1,"),
    ([9, 5, 0, .1, .1, .2, .2], "has 7 numbers and starts with 9"),
    ([2.5, 5, 0, .1, .1, .2, .2], "starts with 2.5"), ([2, 4, 0, .1, .1, .2], "have 4 numbers"),
    ([2, 5.5, 0, .1, .1, .2, .2], "have 5.5 numbers"), ([2, 1e30], r"have 1e\+30 numbers"),
    ([2, 5, 0, .1, .1, .2, .2, 1], "6 numbers after its header of 2, expected a multiple of 5"),
    ([2, 5, 0, .1, np.nan, .2, .2], "nan at index 4"), ([np.inf, 5, 0, .1, .1], "inf at index 0")])
def test_damaged_labels(records, label, words):
    options = records([LABELS[0], LABELS[1], label, LABELS[2]], batch_size=2)
    iterator = mx.io.ImageDetRecordIter(**options)
    iterator.next()
    with pytest.raises(MXNetError, match=f"a.rec, record 2 at offset .*{words}"):
        iterator.next()


@given(st.lists(st.floats(width=32) | st.integers(0, 9).map(float), min_size=1, max_size=20))
def test_any_numbers_are_a_label_or_an_error(numbers):
    """A label is reproduced by its own values, without objects that have no area."""
    try:
        label = parse_label(np.array(numbers, np.float32))
    except MXNetError:
        return
    told = np.concatenate([label.header, label.objects.ravel()])
    assert len(label.header) == told[0] and label.objects.shape[1] == told[1]
    assert len(numbers) - len(told) in range(0, 20, int(told[1]))
    np.testing.assert_equal(parse_label(told), label)


def test_an_image_without_objects(records):
    """MXNet rejects it."""
    batch = mx.io.ImageDetRecordIter(**records([LABELS[0], [2, 5]], batch_size=2, **CROP)).next()
    assert batch.label[0].asnumpy()[1].tolist() == [3, 8, 8, 2, 2, 5] + [-1] * 7


@pytest.mark.parametrize("options, words", [
    ({"label_pad_width": 18}, "label_pad_width is 18, expected at least 19"),
    ({"label_width": 9}, "record 1 .* has 14 labels, expected label_width=9"),
    ({"data_shape": (2, 8, 8)}, "data_shape"), ({"inter_method": 5}, "inter_method is 5"),
    ({"dtype": "uint8"}, "dtype is 'uint8', expected 'float32'"),
    ({"resize_mode": "none"}, "resize_mode"), ({"crop_emit_mode": "none"}, "crop_emit_mode"),
    ({"num_crop_sampler": 2, "min_crop_scales": (.1, .2, .3)}, "min_crop_scales is .* is 2"),
    ({"max_crop_trials": (1, 2)}, "max_crop_trials is"),
    ({"min_crop_overlaps": .5, "max_crop_overlaps": .4}, "min_crop_overlaps is .*0.5.*0.4"),
    ({"max_crop_scales": 1.5}, "crop scales are"), ({"min_crop_scales": -1}, "crop scales are"),
    ({"min_crop_aspect_ratios": 0}, "min_crop_aspect_ratios is"),
    ({"num_crop_sampler": -1}, "num_crop_sampler is -1")])
def test_wrong_options(records, options, words):
    with pytest.raises(MXNetError, match=words):
        mx.io.ImageDetRecordIter(**records() | options).next()


def test_a_file_of_other_labels(records):
    with pytest.raises(MXNetError, match="longest label in .*a.rec has 1 numbers"):
        mx.io.ImageDetRecordIter(**records([1., 2.]))


def test_lengths_of_labels_are_read_from_heads(tmp_path):
    """Also where the magic number in a header splits the record into parts."""
    path, rng = str(tmp_path / "a.rec"), np.random.RandomState(0)
    lengths = [1, 7, 12, 300, 2]
    with mx.recordio.MXRecordIO(path, "w") as writer:
        for number, length in enumerate(lengths):
            header = mx.recordio.IRHeader(0, rng.rand(length), MAGIC if number % 2 else 0, MAGIC)
            writer.write(mx.recordio.pack(header, bytes(number)))
    with mx.recordio.MXRecordIO(path, "r") as reader:
        offsets = np.array(list(reader.offsets()))
        assert label_lengths(reader, offsets).tolist() == lengths
        for offset in offsets.tolist():
            assert reader.first_bytes(offset, 30) == reader.read_at(offset)[:30]


# ---------------------------------------------------------------------------------- a detector

@pytest.mark.parametrize("options", [{"batch_size": 2, "rand_mirror_prob": 1.},
                                     {"batch_size": 5, "resize_mode": "fit"}])
def test_targets_of_a_detector_are_mxnets(oracle, options):
    """Coordinates are logarithms of float32, 1e-5 apart at most."""
    ours = ssd.targets(mx, options)
    theirs = oracle.call("mx_scripts.run", "ssd", "targets", options)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_a_detector_learns(tmp_path):
    """Its class loss falls from the first epoch to the eighth."""
    data = ssd.objects(mx, path_imgrec=ssd.write(mx, str(tmp_path), 32), batch_size=8,
                       data_shape=(3, ssd.SIDE, ssd.SIDE), shuffle=True, rand_mirror_prob=.5,
                       rand_crop_prob=.5, min_crop_scales=.6, min_crop_object_coverages=.7,
                       rand_pad_prob=.5, max_pad_scale=1.5)
    module = mx.mod.Module(ssd.network(mx), label_names=["label"])
    mx.random.seed(1)
    doubts = []
    module.fit(data, num_epoch=8, eval_metric=ssd.metric(mx), initializer=mx.init.Xavier(),
               optimizer="adam", optimizer_params={"learning_rate": 0.01},
               epoch_end_callback=lambda *_: doubts.append(
                   module.score(data, ssd.metric(mx))[0][1]))
    assert doubts[-1] < 0.8 * doubts[0] < np.log(3)
