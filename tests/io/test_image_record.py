"""ImageRecordIter against MXNet; distributions; order, threads, resume and damage."""

from __future__ import annotations

import colorsys
import json
import os
import shutil

import numpy as np
import pytest

import nbmod as mx
from nbmod.base import MXNetError
from nbmod.imgproc import codecs
from nbmod.imgproc.record_augmenter import DRAWS, Augmentation, shifted_hls
from nbmod.io.sampler import Sampler
from nbmod.recordio.frames import MAGIC_WORD as MAGIC
from tests.io.test_native_iterators import many
from tests.oracle.client import OracleError
from tests.programs import image_record_programs, iterator_programs, recordio_programs

SEVEN = [(16, 20)] * 7
UPRIGHT = [(20, 16), (31, 9), (16, 16), (17, 23), (40, 12)]
ONE = list(range(7))
CASES = {  # sizes, labels, options
    "plain": (SEVEN, ONE, {"data_shape": (3, 16, 20), "batch_size": 3}),
    "one batch": (SEVEN, ONE, {"data_shape": (3, 16, 20), "batch_size": 7}),
    "with an index": (SEVEN, ONE, {"data_shape": (3, 16, 20), "batch_size": 4,
                                   "path_imgidx": "a.idx"}),
    "cut": (SEVEN, ONE, {"data_shape": "(3,11,13)", "batch_size": "7"}),
    "mirror": (SEVEN, ONE, {"data_shape": (3, 10, 12), "batch_size": 7, "mirror": True}),
    "gray": (SEVEN, ONE, {"data_shape": (1, 10, 12), "batch_size": 7}),
    "normalized": (SEVEN, ONE, {"data_shape": (3, 16, 20), "batch_size": 7, "mean_r": 10,
                                "mean_g": 20, "mean_b": 30.5, "std_r": 2, "std_g": 4, "std_b": 8,
                                "scale": 0.5}),
    "mean image": (SEVEN, ONE, {"data_shape": (3, 16, 20), "batch_size": 7,
                                  "mean_img": "a.mean"}),
    "other names": (SEVEN, ONE, {"data_shape": (3, 16, 20), "batch_size": 7, "data_name": "x",
                                 "label_name": "y", "unheard": 1}),
    "three labels": (SEVEN, [[k, k * 10., -1.5] for k in ONE],
                     {"data_shape": (3, 8, 8), "batch_size": 3, "label_width": 3}),
    "labels of a list": (SEVEN, ONE, {"data_shape": (3, 8, 8), "batch_size": 3,
                                      "path_imglist": "a.lst"}),
    "two labels of a list": (SEVEN, ONE, {"data_shape": (3, 8, 8), "batch_size": 3,
                                          "label_width": 2, "path_imglist": "a.lst"}),
    "larger": (UPRIGHT, ONE[:5], {"data_shape": (3, 33, 41), "batch_size": 5}),
    "wider": (UPRIGHT, ONE[:5], {"data_shape": (3, 12, 40), "batch_size": 5}),
    "higher": (UPRIGHT, ONE[:5], {"data_shape": (3, 50, 7), "batch_size": 5}),
    "padded": (UPRIGHT, ONE[:5], {"data_shape": (3, 20, 20), "batch_size": 5, "pad": 3,
                                  "fill_value": 7}),
    "crop of one size": (SEVEN, ONE, {"data_shape": (3, 8, 8), "batch_size": 7,
                                      "max_crop_size": 12, "min_crop_size": 12}),
    **{f"part {k} of {n}": (SEVEN, ONE, {"data_shape": (3, 8, 8), "batch_size": 1, "num_parts": n,
                                         "part_index": k, **index})
       for n in (2, 3) for k in range(n) for index in ({}, {"path_imgidx": "a.idx"})[k % 2:]},
    **{f"resize {size} by {method}": (UPRIGHT, ONE[:5], {
        "data_shape": (3, 8, 8), "batch_size": 5, "resize": size, "inter_method": method})
       for size, method in [(8, 1), (11, 1), (21, 1), (9, 2), (9, 3), (9, 4), (11, 9), (21, 9)]},
    **{f"turned by {angle}": (SEVEN, ONE, {"data_shape": (3, 16, 20), "batch_size": 7,
                                           "rotate": angle, "fill_value": 9})
       for angle in (30, 90, 180, 271)},
    **{f"scaled by {scale}": (SEVEN, ONE, {
        "data_shape": (3, 8, 10), "batch_size": 7, "min_random_scale": scale,
        "max_random_scale": scale}) for scale in (0.5, 1.5)},
    "least size": (SEVEN, ONE, {"data_shape": (3, 24, 24), "batch_size": 7, "min_img_size": 32}),
}


LATE = "number of input must be bigger than batch size"
"""What MXNet says of a file of fewer images than a batch, but only where the thread that reads it
from its beginning again comes late: in 2 of 60 runs on a quiet machine."""


def both(oracle, *arguments):
    """Results of nbmod and MXNet; after a timeout MXNet is called again."""
    for patience in reversed(range(10)):
        try:
            theirs = oracle.call("mx_scripts.run", "image_record_programs", "batches", *arguments)
            break
        except OracleError as error:
            if LATE not in str(error) or not patience:
                raise
    return image_record_programs.batches(mx, *arguments), theirs


@pytest.mark.parametrize("name", CASES)
def test_batches_are_mxnets(oracle, name):
    """Images as PNG, so that decoders cannot differ.

    Resampling may round differently: by 1 level, for 1 pixel of 50.  Rotation uses a grid of 1/32
    pixel, where an edge of 255 levels makes 8 of them.  The mean image is a float32 sum.
    """
    limits = {"resize": 1, "turned": 8, "mean": 2e-5}
    sizes, labels, options = CASES[name]
    ours, theirs = both(oracle, sizes, labels, "ImageRecordIter", options)
    assert ours[:2] == theirs[:2] and len(ours) == len(theirs)
    for one, other in zip(ours[2:], theirs[2:], strict=True):
        differences = np.abs(one[0] - other[0])
        assert differences.max() <= limits.get(name.split()[0], 0)
        assert (differences > 2e-5).mean() <= 0.02
        np.testing.assert_equal(one[1:], other[1:])


@pytest.mark.parametrize("name, options", [
    ("ImageRecordUInt8Iter", {}),
    ("ImageRecordUInt8Iter", {"mean_r": 10, "scale": 0.5, "mirror": 1}),
    ("ImageRecordInt8Iter", {}),
    ("ImageRecordInt8Iter", {"mean_r": 128, "mean_g": 100, "scale": 2}),
    ("ImageRecordIter", {"dtype": "uint8"})])
def test_whole_numbers_are_mxnets(oracle, name, options):
    options = {"data_shape": (3, 10, 12), "batch_size": 3, **options}
    np.testing.assert_equal(*both(oracle, SEVEN, ONE, name, options))


def test_jpeg_is_mxnets(oracle):
    """Decoders may differ by 2 levels, also after resampling."""
    options = {"data_shape": (3, 24, 24), "batch_size": 4, "resize": 32, "mean_r": 100, "std_r": 2}
    sizes = [(48, 64), (64, 48), (40, 40), (33, 90)]
    files = [codecs.encode(image_record_programs.smooth(*size, 1), "jpg") for size in sizes]
    ours, theirs = both(oracle, sizes, [1, 2, 3, 4], "ImageRecordIter", options, 1, files)
    assert np.abs(ours[2][0] - theirs[2][0]).max() <= 3
    assert np.abs(ours[2][0] - theirs[2][0]).mean() <= 0.1


@pytest.mark.parametrize("labels", [ONE, [[k, k * 10., -1.5] for k in ONE]])
@pytest.mark.parametrize("inner", [b"", MAGIC + b"between" + MAGIC * 3])
def test_files_of_either_are_read_by_both(oracle, labels, inner):
    """Images followed by the magic number, so that their records have several parts."""
    files = [codecs.encode(image_record_programs.ramps(16, 20, k), "png") for k in ONE]
    files = [data + bytes(-len(data) % 4) + inner for data in files]
    ours = image_record_programs.written(mx, SEVEN, labels, files)
    assert ours == oracle.call("mx_scripts.run", "image_record_programs", "written", SEVEN, labels,
                               files)
    options = {"path_imgrec": "a.rec", "path_imgidx": "a.idx", "data_shape": (3, 16, 20),
               "batch_size": 3, "label_width": np.size(labels[0]), "verbose": False}
    read = iterator_programs.batches(mx, ours, "ImageRecordIter", options, 2)
    theirs = oracle.call("mx_scripts.run", "iterator_programs", "batches", ours, "ImageRecordIter",
                         options, 2)
    assert len(read) == len(theirs) > 5
    for one, other in zip(read[2:], theirs[2:], strict=True):
        np.testing.assert_equal(one[:4], other[:4])


def test_mxnet_packs_and_we_read(oracle):
    """Images that MXNet has encoded, as JPEG by OpenCV: decoders may differ by 2 levels."""
    images = [image_record_programs.smooth(24, 24, k) for k in range(3)]
    records = oracle.call("mx_scripts.run", "recordio_programs", "pack_images", images, ".jpg",
                          95)
    files = recordio_programs.write(mx, records, [0, 1, 2])
    options = {"path_imgrec": "a.rec", "data_shape": (3, 24, 24), "batch_size": 3,
               "verbose": False}
    arguments = ({"a.rec": files[0]}, "ImageRecordIter", options, 1)
    ours = iterator_programs.batches(mx, *arguments)
    theirs = oracle.call("mx_scripts.run", "iterator_programs", "batches", *arguments)
    assert np.abs(ours[2][1][1] - theirs[2][1][1]).max() <= 2
    np.testing.assert_equal(ours[2][2:4], theirs[2][2:4])


# --------------------------------------------------------------------------------- distributions

@pytest.fixture
def records(tmp_path):
    """Makes a file of images; the function gives options for an iterator over it."""
    def make(sizes=SEVEN, labels=None, **options):
        image_record_programs.write(mx, str(tmp_path), sizes, labels or list(range(len(sizes))))
        return {"path_imgrec": str(tmp_path / "a.rec"), "data_shape": (3, 8, 8), "batch_size": 3,
                "verbose": False, **options}

    return make


RANDOM = dict(rand_crop=True, rand_mirror=True, max_rotate_angle=20, max_shear_ratio=0.1,
              max_aspect_ratio=0.2, min_random_scale=0.8, max_random_scale=1.2, brightness=0.1,
              contrast=0.1, saturation=0.1, pca_noise=0.1, random_h=10, random_s=10, random_l=10,
              max_random_contrast=0.1, max_random_illumination=5)


@pytest.mark.parametrize("options", [
    RANDOM, {"random_resized_crop": True, "min_random_area": 0.1, "max_aspect_ratio": 1.3,
             "min_aspect_ratio": 0.7}, {"min_crop_size": 4, "max_crop_size": 15}])
@pytest.mark.parametrize("shuffle", [False, True])
def test_threads_change_nothing(records, options, shuffle):
    made = [many(mx.io.ImageRecordIter(**records(
        shuffle=shuffle, preprocess_threads=threads, prefetch_buffer=ahead, seed=3, **options)), 8)
        for threads, ahead in ((1, 1), (4, 3))]
    assert made[0] == made[1]
    others = many(mx.io.ImageRecordIter(**records(shuffle=shuffle, seed=4, **options)), 8)
    assert others != made[0]


def cuts(count, size=(30, 40), **options):
    """Results of `count` draws on one image whose pixels encode their positions."""
    options = Augmentation(data_shape=(3, 10, 10), **options)
    y, x = np.mgrid[:size[0], :size[1]]
    image = np.stack([y, x, np.full_like(x, 100)], -1).astype(np.uint8)
    draws = np.random.Generator(np.random.Philox(5)).random((count, DRAWS))
    return options, image, draws, [options.augment(image, row) for row in draws]


def test_crops_are_anywhere():
    """Each of 21 x 31 positions; mean within 4 standard errors of a uniform distribution."""
    _, _, _, found = cuts(4000, rand_crop=True)
    corners = np.array([cut[0, 0, :2] for cut in found])
    assert corners.min(0).tolist() == [0, 0] and corners.max(0).tolist() == [20, 30]
    error = np.abs(corners.mean(0) - [10, 15]) / (np.array([21, 31]) / np.sqrt(12 * 4000))
    assert error.max() < 4


def test_half_is_mirrored():
    """Within 4 standard errors."""
    options, image, draws, _ = cuts(2000, rand_mirror=True)
    out = np.empty((3, 10, 10), np.float32)
    mirrored = 0
    for row in draws:
        options.normalize(image[:10, :10], row, options.means(), out)
        mirrored += out[1, 0, 0] > out[1, 0, 1]
    assert abs(mirrored - 1000) < 4 * np.sqrt(500)


def test_parts_of_random_area():
    """Rows and columns of a crop span the requested area and aspect ratio."""
    _, _, _, found = cuts(500, random_resized_crop=True, min_random_area=0.2, max_random_area=0.6,
                          min_aspect_ratio=0.5, max_aspect_ratio=2.0, inter_method=1)
    spans = np.array([cut[..., :2].reshape(-1, 2).max(0).astype(float)
                      - cut[..., :2].reshape(-1, 2).min(0) + 2 for cut in found])
    area, ratio = spans.prod(1) / 1200, spans[:, 1] / spans[:, 0]
    assert 0.12 < area.min() < 0.25 and 0.5 < area.max() < 0.75
    assert ratio.min() < 0.7 and ratio.max() > 1.6 and len(np.unique(spans, axis=0)) > 50


@pytest.mark.parametrize("options, moves", [
    ({"brightness": 0.5}, True), ({"contrast": 0.5}, True), ({"saturation": 0.5}, True),
    ({"pca_noise": 0.5}, True), ({"random_h": 40}, True), ({"random_s": 40}, True),
    ({"random_l": 40}, True), ({}, False)])
def test_colors(options, moves):
    """Some draws decrease and some increase them, and gray stays gray under saturation."""
    _, image, _, found = cuts(200, **options)
    window = image[10:20, 15:25].astype(float)
    changes = np.array([(cut - window).mean((0, 1)) for cut in found])
    assert (np.abs(changes).max() > 1) == moves
    if moves:
        assert (changes.min(0) < 0).any() and (changes.max(0) > 0).any()
        assert np.abs(changes.mean(0)).max() < np.abs(changes).max() / 2


def test_turns_stay_within_their_angle():
    """The gradient of the image rotates with it."""
    _, _, _, found = cuts(300, size=(60, 60), max_rotate_angle=30, rand_crop=False)
    angles = [np.degrees(np.arctan2(np.diff(cut[..., 1].astype(float), axis=0).mean(),
                                    np.diff(cut[..., 1].astype(float), axis=1).mean()))
              for cut in found]
    assert -33 < min(angles) < -25 and 25 < max(angles) < 33


@pytest.mark.parametrize("turns", [(0, 0, 0), (50, 0, 0), (-120, 0, 0), (0, 60, 0), (0, 0, -90),
                                   (7, -200, 30)])
def test_hue_lightness_and_saturation_are_those_of_the_standard_library(turns):
    """To half a level."""
    rng = np.random.RandomState(0)
    colors = np.concatenate([rng.randint(0, 256, (200, 3)), np.eye(3) * 255, 1 - np.eye(3),
                             np.full((1, 3), 120)]).astype(np.uint8)
    found = shifted_hls(colors[None], *map(float, turns))[0]
    for color, one in zip(colors, found, strict=True):
        hue, light, saturation = colorsys.rgb_to_hls(*(color / 255))
        changed = (hue + turns[0] / 180, *np.clip([light + turns[1] / 255,
                                                   saturation + turns[2] / 255], 0, 1))
        assert np.abs(np.array(colorsys.hls_to_rgb(*changed)) * 255 - one).max() <= 0.5 + 1e-6


# ----------------------------------------------------------------------------------------- order

@pytest.mark.parametrize("count, size", [(7, 3), (7, 7), (3, 5), (10, 1), (2, 9)])
def test_a_turn_has_every_sample_once(count, size):
    sampler, position, seen = Sampler(count, size, True, 5, True), 0, []
    for _ in range(6):
        for chosen in sampler.batches(position):
            seen += chosen.samples.tolist()
            position = chosen.start + size
            assert chosen.pad == max(position - sampler.end, 0)
        sampler.next_epoch(position)
        position = sampler.start
    turns = [seen[at:at + count] for at in range(0, len(seen) - count + 1, count)]
    assert all(sorted(turn) == list(range(count)) for turn in turns)
    assert count < 4 or len(set(map(tuple, turns))) > 1


def test_without_rounding_the_last_batch_keeps_the_one_before(records):
    """MXNet returns uninitialized memory there, and a pad of 0."""
    iterator = mx.io.ImageRecordIter(**records(round_batch=False))
    for _ in range(2):
        labels = [(batch.label[0].asnumpy().tolist(), batch.pad) for batch in iterator]
        assert labels == [([0, 1, 2], 0), ([3, 4, 5], 0), ([6, 4, 5], 2)]
        iterator.reset()


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("round_batch", [False, True])
@pytest.mark.parametrize("before", [0, 1, 2, 3, 4, 6, 9])
def test_resume(records, shuffle, round_batch, before):
    options = records(shuffle=shuffle, round_batch=round_batch, **RANDOM)
    one, other = mx.io.ImageRecordIter(**options), mx.io.ImageRecordIter(**options)
    many(one, before)
    other.load_state_dict(one.state_dict())
    assert many(other, 7) == many(one, 7)
    with pytest.raises(MXNetError, match="with seed=0, this one has 9"):
        mx.io.ImageRecordIter(**options | {"seed": 9}).load_state_dict(one.state_dict())


def test_positions_are_the_same_elsewhere(records, tmp_path):
    """Files may have moved, and other threads may read them; states may come from JSON."""
    options = records(shuffle=True, **RANDOM)
    one = mx.io.ImageRecordIter(**options)
    many(one, 4)
    shutil.copy(tmp_path / "a.rec", tmp_path / "b.rec")
    other = mx.io.ImageRecordIter(**options | {
        "path_imgrec": str(tmp_path / "b.rec"), "preprocess_threads": 1, "prefetch_buffer": 2})
    other.load_state_dict(json.loads(json.dumps(one.state_dict())))
    assert many(other, 7) == many(one, 7)


def test_a_batch_that_is_kept_keeps_its_images(records):
    iterator = mx.io.ImageRecordIter(**records(prefetch_buffer=1))
    first = iterator.next()
    before = first.data[0].asnumpy()
    view = first.data[0][1:]
    many(iterator, 10)
    np.testing.assert_equal(first.data[0].asnumpy(), before)
    del first
    many(iterator, 10)
    np.testing.assert_equal(view.asnumpy(), before[1:])


def test_a_module_trains_on_images(records):
    """Dark and bright images."""
    data = mx.io.ImageRecordIter(**records(
        [(8, 8 + k % 5) for k in range(24)], [float(k % 2) for k in range(24)], batch_size=8,
        mean_r=100, mean_g=100, mean_b=100, scale=1 / 100))
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2)
    module = mx.mod.Module(mx.sym.SoftmaxOutput(net, name="softmax"),
                           context=[mx.cpu(0), mx.cpu(1)])
    module.fit(data, num_epoch=2, eval_metric="ce")
    assert np.isfinite(module.score(data, "ce")[0][1])


# ---------------------------------------------------------------------------------------- errors

def test_damage_is_told_with_file_record_and_offset(records, tmp_path):
    options = records()
    with mx.recordio.MXRecordIO(tmp_path / "a.rec", "r") as reader:
        offsets = list(reader.offsets())
    content = bytearray((tmp_path / "a.rec").read_bytes())
    content[offsets[4] + 32:offsets[4] + 40] = b"no image"
    (tmp_path / "a.rec").write_bytes(content)
    iterator = mx.io.ImageRecordIter(**options)
    iterator.next()
    with pytest.raises(MXNetError, match=f"a.rec, record 4 at offset {offsets[4]}: decode: "
                       "no image.*rec repair --decode"):
        iterator.next()
    iterator.reset()
    assert iterator.next().label[0].asnumpy().tolist() == [0, 1, 2]


@pytest.mark.parametrize("options, words", [
    ({"data_shape": (2, 8, 8)}, "data_shape"), ({"data_shape": (8, 8)}, "data_shape"),
    ({"inter_method": 0}, "inter_method is 0"), ({"dtype": "float64"}, "dtype"),
    ({"label_width": 2}, "record 0 .* has 1 labels, expected label_width=2"),
    ({"data_shape": (4, 8, 8)}, "has 3 channels, data_shape has 4"),
    ({"max_crop_size": 30, "min_crop_size": 30}, "max_crop_size is 30"),
    ({"min_crop_size": 30}, "max_crop_size is -1"),
    ({"random_resized_crop": True, "rand_crop": True, "max_random_scale": 2.0},
     "expected without rand_crop, max_random_scale"),
    ({"random_resized_crop": True, "min_aspect_ratio": 0.7}, "max_aspect_ratio, which is 0"),
    ({"num_parts": 0}, "num_parts"),
    ({"num_parts": 9, "part_index": 8}, "part 8 of 9 .* has no records"),
    ({"path_imgrec": "none.rec"}, "none.rec"), ({"preprocess_threads": 0}, "threads is 0")])
def test_wrong_options(records, options, words):
    with pytest.raises(MXNetError, match=words):
        mx.io.ImageRecordIter(**records() | options).next()


def test_a_list_must_know_every_image(records, tmp_path):
    (tmp_path / "short.lst").write_text("0\t5\tx.png\n2\t7\ty\n")
    options = records(path_imglist=str(tmp_path / "short.lst"))
    with pytest.raises(MXNetError, match="short.lst has no label for id 1"):
        mx.io.ImageRecordIter(**options).next()


def test_a_mean_image_of_another_shape(records, tmp_path):
    path = str(tmp_path / "mean.params")
    mx.nd.save(path, {"mean_img": mx.nd.zeros((3, 9, 9))})
    with pytest.raises(MXNetError, match="mean_img of shape"):
        mx.io.ImageRecordIter(**records(mean_img=path))
    assert os.path.exists(path)
