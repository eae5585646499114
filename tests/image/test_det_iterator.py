"""`mx.image.ImageDetIter` against MXNet: batches, labels, shapes, drawings; and its errors."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest

import nbmod as mx
from nbmod.base import MXNetError
from nbmod.image import drawing
from tests.image.test_image_detection import same
from tests.programs import detection_programs
from tests.programs.detection_programs import label_of

RECORDS = {"path_imgrec": "a.rec", "path_imgidx": "a.idx"}
OPTIONS = [
    {"path_imgrec": "a.rec"}, RECORDS, {**RECORDS, "path_imglist": "a.lst"},
    {"path_imglist": "a.lst", "path_root": ""}, {"imglist": True, "path_root": ""},
    *({**RECORDS, "last_batch_handle": handle, "batch_size": 3}
      for handle in ("pad", "discard", "roll_over")),
    {**RECORDS, "num_parts": 2, "part_index": 1, "batch_size": 1}, {**RECORDS, "batch_size": 7},
    {**RECORDS, "more": 2, "width": 6, "data_name": "x", "label_name": "y"},
    {**RECORDS, "mean": True, "std": True, "resize": 22},
    {**RECORDS, "shuffle": True, "rand_crop": .5, "rand_pad": .5, "rand_mirror": True,
     "rand_gray": .2, "brightness": .1, "hue": .1, "min_object_covered": .3},
]


def close(one, other):
    """Labels are equal; pixels of resized images are at most 1 of 255 off, where both round (2
    of 255 as deviations from the mean, by 57), except the last digits of float32 color sums."""
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        if isinstance(a, list) and isinstance(a[0], np.ndarray):
            assert a[0].dtype == b[0].dtype
            np.testing.assert_allclose(a[0], b[0], rtol=0, atol=1.01)
            same(a[1:], b[1:])
        else:
            same(a, b)


@pytest.mark.parametrize("options", OPTIONS)
def test_batches_are_mxnets(oracle, options):
    ours = detection_programs.batches(mx, options)
    close(ours, oracle.call("mx_scripts.run", "detection_programs", "batches", options))


def test_shapes_are_mxnets(oracle):
    same(detection_programs.shapes(mx), oracle.call("mx_scripts.run", "detection_programs",
                                                    "shapes"))


LABELS = [
    label_of([[1, .1, .1, .3, .2]]), label_of([[1, .1, .1, .3, .2]] * 2, more=2, width=6),
    label_of([[1, .1, .1, .3, .2]], more=1), [2.7, 5.5, 1, .1, .1, .3, .2],
    [[2, 5, 1, .1, .1, .3, .2]], label_of([[1, .1, .1, .1, .2], [1, .1, .1, .4, .4]]),
    label_of([[-1, .1, .1, .3, .2]]), label_of([[1, -.1, .1, 1.3, .2]]),
    label_of([[1, .1, .1, .1, .2]]), label_of([[1, .5, .1, .1, .2]]),
    label_of([[1, np.nan, .1, .3, .2]]), label_of([[np.nan, .1, .1, .3, .2]]),
    [1, 5, 0, .1, .1, .2, .2], [2, 5, 0], [2, 4, 0, .1, .1, .2], [2, 5, 0, .1, .1, .2, .2, 9],
    [9, 5, 8, 1, .1, .1, .3, .2], [2, 5], [2, 5, 1, .1, .1, .2], [],
]


def test_labels_are_mxnets(oracle):
    ours = detection_programs.parsed(mx, LABELS)
    assert sum(isinstance(answer, str) for answer in ours) == 13
    same(ours, oracle.call("mx_scripts.run", "detection_programs", "parsed", LABELS))


DRAWINGS = [
    ({}, {"color": (0, 255, 0), "thickness": 1}), ({}, {"thickness": 1}),
    (RECORDS | {"num_parts": 5}, {"color": [1, 2, 255], "thickness": -1}),
    ({"mean": True, "std": True}, {"mean": True, "std": True, "thickness": 1}),
    ({}, {"mean": np.array([1., 2, 3]), "clip": False, "thickness": 1}),
]


@pytest.mark.parametrize("options, how", DRAWINGS)
def test_drawings_are_mxnets(oracle, options, how):
    ours = detection_programs.drawn_images(mx, options, how)
    theirs = oracle.call("mx_scripts.run", "detection_programs", "drawn_images", options, how)
    assert len(ours) == len(theirs) == (1 if options.get("num_parts") else 5)
    for one, other in zip(ours, theirs, strict=True):
        assert one.dtype == other.dtype == np.uint8
        # resizing rounds differently by 1, adding the mean again truncates
        np.testing.assert_allclose(one.astype(int), other.astype(int), rtol=0, atol=2)


def test_thick_lines_have_edges_where_opencvs_are_round(oracle):
    how = {"color": (0, 255, 0), "thickness": 2}
    options = {"num_parts": 5, "part_index": 0, **RECORDS}
    ours, = detection_programs.drawn_images(mx, options, how)
    theirs, = oracle.call("mx_scripts.run", "detection_programs", "drawn_images", options, how)
    rows, columns = np.nonzero(np.abs(ours.astype(int) - theirs).max(2) > 1)
    assert set(zip(columns, rows, strict=True)) == {(x, y) for x in (7, 41) for y in (11, 37)}


def test_names_are_written():
    plain, = detection_programs.drawn_images(mx, RECORDS | {"num_parts": 5}, {"color": (0, 0, 0)})
    for names in ({3: "cat"}, "abcd", ["a", "b", "c", "dog"]):
        named, = detection_programs.drawn_images(mx, RECORDS | {"num_parts": 5},
                                             {"color": (0, 0, 0), "id2labels": names})
        rows, columns = np.nonzero((named != plain).any(2))
        assert (named[rows, columns] > plain[rows, columns]).all()  # white
        assert rows.min() >= 12 and columns.min() >= 8 and len(rows) > 10
    none, = detection_programs.drawn_images(mx, RECORDS | {"num_parts": 5},
                                        {"color": (0, 0, 0), "id2labels": {5: "cat"}})
    assert (none == plain).all()


def test_windows_are_opencvs():
    told = []
    opencv = SimpleNamespace(imshow=lambda *a: told.append(a), waitKey=told.append)
    image = np.zeros((4, 5, 3), np.uint8)
    with mock.patch.dict(sys.modules, cv2=opencv):
        drawing.show(image, "w", 7)
    (window, shown), wait = told
    assert window == "w" and wait == 7 and (shown == image).all()


@pytest.mark.parametrize("module, how, words", [
    ("cv2", {"waitKey": 1}, "opencv"), ("PIL.Image", {"id2labels": {3: "cat"}}, r"nbmod\[image\]")])
def test_a_library_that_lacks_is_named(module, how, words):
    with mock.patch.dict(sys.modules, {module: None}), pytest.raises(MXNetError, match=words):
        drawing_of_one(how)


def drawing_of_one(how):
    image = np.zeros((30, 40, 3), np.uint8)
    drawing.draw(image, np.array([3, .1, .2, .5, .6]), names=how.get("id2labels"))
    if "waitKey" in how:
        drawing.show(image, "w", how["waitKey"])


# -- differences from MXNet ------------------------------------------------------------------

def test_lines_of_all_images_have_one_color():
    """MXNet swaps blue and red in every other one."""
    for image in detection_programs.drawn_images(mx, {}, {"color": [1, 2, 255], "thickness": -1}):
        assert (image == [255, 2, 1]).all(2).any() and not (image == [1, 2, 255]).all(2).any()


def test_reshape_makes_augmenters_for_the_new_shape(tmp_path):
    """MXNet's continues with images of the old shape, which do not fit."""
    made = detection_programs.iterator(mx, str(tmp_path), {**RECORDS, "last_batch_handle":
                                                           "roll_over", "batch_size": 3})
    assert len(list(made)) == 1
    made.reshape((3, 16, 18), [5, 5])
    made.reset()
    batch = made.next()
    assert batch.pad == 0
    assert batch.data[0].shape == (3, 3, 16, 18) and batch.label[0].shape == (3, 5, 5)
    assert made.provide_data == [("data", (3, 3, 16, 18))]
    assert (batch.label[0].asnumpy()[:, 3:] == -1).all()


class Several(mx.image.DetAugmenter):
    """Repeats an object `times` times, with `width` more elements."""

    def __init__(self, times, width=0):
        super().__init__(times=times)
        self.times, self.width = times, width

    def __call__(self, src, label):
        return src, np.pad(np.concatenate([label] * self.times or [label[:0]]),
                           ((0, 0), (0, self.width)))


def listed(labels, **options):
    """An iterator over existing images, with other labels."""
    return lambda folder: mx.image.ImageDetIter(**{
        "batch_size": 1, "data_shape": (3, 8, 8), "path_root": folder,
        "imglist": [[label, f"{number}.png"] for number, label in enumerate(labels)], **options})


GOOD = label_of([[1, .1, .1, .3, .2]])


@pytest.mark.parametrize("make, kind, words", [
    (listed([GOOD, [2, 5, 3]]), MXNetError, "1.png: a label of 3 numbers"),
    (listed([GOOD, [2, 4, 0, .1, .1, .2, .2]]), MXNetError, "1.png.*4 are one"),
    (listed([label_of([[1, .1, .1, .1, .1]])]), MXNetError, "0.png.*no object has area"),
    (listed([GOOD, label_of([[1, .1, .1, .3, .2]], width=6)]), MXNetError, r"\[5, 6\] numbers"),
    (listed([3.0]), MXNetError, "0.png: a label of 1 numbers"),
    *((listed([GOOD, [*start, 0, .1, .1, .2, .2]]), MXNetError, "1.png: a label of 7 numbers")
      for start in ([np.nan, 5], [2, np.inf], [2, -5], [-9e9, 5], [1e38, 5])),
    (listed([]), MXNetError, "ImageDetIter: there are no images"),
    (listed([GOOD], data_shape=(3, 8)), ValueError, "length 3"),
    (listed([GOOD], data_shape=(1, 8, 8)), ValueError, "3 channels"),
    (listed([GOOD], foo=3), TypeError, "foo"),
    (listed([GOOD] * 9), MXNetError, "5.png.*No such file"),
    (lambda folder: listed([GOOD])(folder).check_label_shape((0, 5)), ValueError, "no place"),
    (lambda folder: listed([GOOD])(folder).check_label_shape((3, 6)), ValueError, "or more, 5"),
    (lambda folder: listed([GOOD])(folder).reshape(None, (3,)), ValueError, "or more, 5"),
    (lambda folder: listed([GOOD])(folder).reshape((1, 8, 8)), ValueError, "3 channels"),
    (lambda folder: listed([GOOD])(folder).sync_label_shape(3), TypeError, "an ImageDetIter"),
    (lambda folder: listed([GOOD], aug_list=[])(folder).next(), MXNetError, "(3, 30, 40)"),
    (lambda folder: listed([GOOD], aug_list=[Several(2)], data_shape=(3, 30, 40))(folder).next(),
     MXNetError, "0.png: a label of shape .2, 5"),
    (lambda folder: listed([GOOD], aug_list=[Several(1, 1)], data_shape=(3, 30, 40))(folder).next(),
     MXNetError, "0.png: a label of shape .1, 6"),
])
def test_errors(tmp_path, make, kind, words):
    detection_programs.written(mx, str(tmp_path))
    with pytest.raises(kind, match=words):
        make(str(tmp_path))


def test_an_image_that_is_none_is_named(tmp_path):
    detection_programs.written(mx, str(tmp_path))
    (tmp_path / "1.png").write_bytes(b"no image")
    made = listed([GOOD, GOOD])(str(tmp_path))
    made.next()
    with pytest.raises(MXNetError, match=r"ImageDetIter: 1\.png: .*no image"):
        made.next()


def test_what_shows_no_object_is_passed_over(tmp_path):
    detection_programs.written(mx, str(tmp_path))
    made = listed([GOOD] * 4, aug_list=[Several(0)], data_shape=(3, 30, 40))(str(tmp_path))
    assert list(made) == []


def test_an_epoch_without_fitting_images_ends(tmp_path):
    """MXNet would search for padding images forever."""
    detection_programs.written(mx, str(tmp_path))
    class Once(Several):
        def __call__(self, src, label):
            self.times -= 1
            return src, label if self.times >= 0 else label[:0]

    made = listed([GOOD] * 3, aug_list=[Once(2)], data_shape=(3, 30, 40), batch_size=3)(
        str(tmp_path))
    with pytest.raises(MXNetError, match="reject every image"):
        made.next()
