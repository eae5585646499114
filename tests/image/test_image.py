"""`mx.image` against MXNet: functions and augmenters, with the same seeds, and `ImageIter`."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

import nbmod as mx
from nbmod.base import MXNetError
from nbmod.imgproc import codecs
from nbmod.module import json_codec
from nbmod.ndarray.buffer_pool import PooledBuffer
from tests.programs import image_programs, image_record_programs

EXPRESSIONS = [
    "I.scale_down((640, 480), (720, 120))", "I.scale_down((30, 40), (50, 60))",
    "I.scale_down((360, 1000), (480, 500))", "I.resize_short(im, 10)", "I.resize_short(im, 17)",
    "I.resize_short(im, 45)", "I.resize_short(im, 20, 1)", "I.imresize(im, 13, 17)",
    "[I.image._get_interp_method(interp, sizes) for interp in (0, 4, 9) for sizes in ((),"
    " (10, 20, 30, 40), (30, 40, 10, 20), (10, 40, 30, 20), (10, 20, 10, 40))]",
    "I.imresize(im, 13, 17, 3)", "I.imresize(im, 50, 60, 2)",
    "I.center_crop(im, (20, 10))", "I.center_crop(im, (21, 11))",
    "I.center_crop(im, (50, 60))", "I.fixed_crop(im, 3, 4, 10, 12)",
    "I.fixed_crop(im, 3, 4, 10, 12, (5, 6))", "I.fixed_crop(im, 3, 4, 10, 12, (20, 16), 1)",
    "I.random_crop(im, (20, 10))", "I.random_crop(im, (50, 20))",
    "I.random_size_crop(im, (20, 10), (0.2, 0.8), (0.75, 1.33))",
    "I.random_size_crop(im, (20, 10), 0.3, (0.75, 1.33))",
    "I.random_size_crop(im, (20, 10), (0.9, 1.0), (3.0, 4.0))",
    "I.color_normalize(f, mx.nd.array([1, 2, 3]), mx.nd.array([2, 4, 8]))",
    "I.color_normalize(f, mx.nd.array([1, 2, 3]))", "I.copyMakeBorder(im, 1, 2, 3, 4, 0, 7)",
    "I.ResizeAug(12)(im)", "I.ForceResizeAug((12, 14))(im)", "I.RandomCropAug((12, 14))(im)",
    "I.CenterCropAug((12, 14), 1)(im)", "I.CastAug()(im)", "I.CastAug('float16')(im)",
    "I.RandomSizedCropAug((12, 14), (0.1, 0.9), (0.5, 2))(im)",
    "I.BrightnessJitterAug(0.5)(f)", "I.ContrastJitterAug(0.5)(f)", "I.SaturationJitterAug(.5)(f)",
    "I.HueJitterAug(0.5)(f)", "I.ColorJitterAug(0.1, 0.2, 0.3)(f)", "I.RandomGrayAug(0.5)(f)",
    "I.HorizontalFlipAug(0.5)(f)", "I.LightingAug(0.1, np.array([55., 4., 1.]), np.eye(3) - .2)(f)",
    "I.ColorNormalizeAug(np.array([1., 2, 3]), np.array([2., 4, 8]))(f)",
    "I.SequentialAug([I.ResizeAug(12), I.CastAug()])(im)",
    "I.RandomOrderAug([I.HorizontalFlipAug(1), I.CastAug()])(im)",
    "[a.dumps() for a in I.CreateAugmenter((3, 20, 20), 24, True, False, True, True, True, .1, .2,"
    " .3, .1, .1, .05)]",
    "[a.dumps() for a in I.CreateAugmenter((3, 20, 21), rand_crop=True, rand_resize=True)]",
    "[a.dumps() for a in I.CreateAugmenter((3, 20, 20), mean=np.array([1., 2., 3.]))]",
    "I.SequentialAug([I.ResizeAug(12), I.CastAug()]).dumps()",
    "I.SequentialAug(I.CreateAugmenter((3, 20, 20), 24, True, True, True, True, True, .1, .2, .3,"
    " .1, .1, .05))(im)",
    *(f"I.imrotate(c, {angle}{zoom})" for angle in (0, 30, -45, 90, 200)
      for zoom in ("", ", True", ", False, True")),
    "I.imrotate(mx.nd.stack(c, c), mx.nd.array([10, 50]))", "I.random_rotate(c, (-30, 40))",
    "I.random_rotate(mx.nd.stack(c, c), (-30, 40))",
]


def close(one, other):
    """uint8 may be 1 off where resampling rounds; float32 sums differ in their last bits, and
    by 255 times what MXNet's hue matrices lose after their third digit."""
    if isinstance(one, list):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            close(a, b)
    elif isinstance(one, np.ndarray):
        assert one.dtype == other.dtype
        limit = 1 if one.dtype == np.uint8 else 5e-3
        np.testing.assert_allclose(one.astype(float), other.astype(float), rtol=1e-4, atol=limit)
    else:
        assert one == other


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expressions_are_mxnets(oracle, expression):
    ours, = image_programs.evaluate(mx, [expression])
    theirs, = oracle.call("mx_scripts.run", "image_programs", "evaluate", [expression])
    close(ours, theirs)


ITERATORS = [
    {"path_imgrec": "a.rec"}, {"path_imgrec": "a.rec", "path_imgidx": "a.idx"},
    *({"path_imgrec": "a.rec", "path_imgidx": "a.idx", "last_batch_handle": handle}
      for handle in ("discard", "roll_over")),
    {"path_imgrec": "a.rec", "path_imgidx": "a.idx", "shuffle": True, "rand_crop": True,
     "rand_mirror": True, "brightness": 0.1},
    {"path_imgrec": "a.rec", "path_imgidx": "a.idx", "num_parts": 3, "part_index": 1},
    {"path_imgrec": "a.rec", "path_imgidx": "a.idx", "path_imglist": "a.lst", "label_width": 2},
    {"path_imgrec": "a.rec", "batch_size": 10, "data_name": "x", "label_name": "y"},
    {"path_imglist": "files.lst", "path_root": ""},
    {"imglist": [[1.0, "0.png"], [2.0, "1.png"]], "path_root": "", "batch_size": 1, "resize": 9},
    {"imglist": [[[1.0, 4.0], "3.png"], [[2.0, 3.0], "1.png"]], "path_root": "", "batch_size": 2,
     "label_width": 2},
    {"imglist": [[1.0, 4.0, "3.png"], [2.0, 3.0, "1.png"]], "path_root": "", "batch_size": 2,
     "label_width": 2},
]


@pytest.mark.parametrize("options", ITERATORS)
def test_batches_are_mxnets(oracle, options):
    ours = image_programs.batches(mx, options)
    close(ours, oracle.call("mx_scripts.run", "image_programs", "batches", options))


def test_images_that_checks_refuse_are_passed_over(oracle):
    ours = image_programs.with_refusals(mx)
    close(ours, oracle.call("mx_scripts.run", "image_programs", "with_refusals"))


@pytest.mark.parametrize("size, interp", [((50, 60), 2), ((13, 17), 3), ((50, 17), 1)])
def test_interpolation_by_the_size(size, interp):
    image = mx.nd.array(np.random.RandomState(0).randint(0, 256, (30, 40, 3)), dtype="uint8")
    np.testing.assert_equal(mx.image.imresize(image, *size, 9).asnumpy(),
                            mx.image.imresize(image, *size, interp).asnumpy())


def test_images_are_left_as_they_are():
    """MXNet's color augmenters overwrite their input."""
    image = mx.nd.array(np.full((4, 5, 3), 100), dtype="float32")
    for aug in mx.image.CreateAugmenter((3, 4, 5), brightness=.5, contrast=.5, saturation=.5,
                                        hue=.5, pca_noise=.5, rand_gray=.5, mean=True, std=True):
        aug(image)
    assert (image.asnumpy() == 100).all()


def test_a_border_is_0_in_channels_without_a_value():
    image = mx.nd.ones((1, 1, 3), dtype="uint8")
    bordered = mx.image.copyMakeBorder(image, 1, 0, 0, 0, values=(4, 5))
    assert bordered.asnumpy().tolist() == [[[4, 5, 0]], [[1, 1, 1]]]


def test_files(tmp_path):
    path = str(tmp_path / "a.png")
    image = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)
    (tmp_path / "a.png").write_bytes(codecs.encode(image, "png"))
    np.testing.assert_equal(mx.image.imread(path).asnumpy(), image)
    np.testing.assert_equal(mx.image.imread(path, to_rgb=False).asnumpy(), image[..., ::-1])
    data = (tmp_path / "a.png").read_bytes()
    for buffer in (data, bytearray(data), np.frombuffer(data, np.uint8),
                   mx.nd.array(np.frombuffer(data, np.uint8), dtype="uint8")):
        np.testing.assert_equal(mx.img.imdecode(buffer).asnumpy(), image)
    assert mx.image.imdecode(data, flag=0).shape == (4, 5, 1)


@pytest.fixture
def seven(tmp_path):
    """Options of an iterator over seven different images, augmented at random."""
    image_record_programs.write(mx, str(tmp_path), [(16, 20)] * 7, list(range(7)))
    return {"batch_size": 3, "data_shape": (3, 8, 8), "path_imgrec": str(tmp_path / "a.rec"),
            "shuffle": True, "rand_crop": True, "brightness": 0.3, "pca_noise": 0.1}


def taken(iterator, count):
    """A given number of batches, across the ends of epochs."""
    found = []
    while len(found) < count:
        try:
            batch = iterator.next()
            found.append([*(a.asnumpy().tolist() for a in batch.data + batch.label), batch.pad])
        except StopIteration:
            iterator.reset()
    return found


@pytest.mark.parametrize("handle", ["pad", "discard", "roll_over"])
@pytest.mark.parametrize("before", [0, 1, 2, 5])
def test_an_iterator_goes_on_where_another_was(seven, handle, before):
    one = mx.image.ImageIter(last_batch_handle=handle, **seven)
    taken(one, before)
    other = mx.image.ImageIter(last_batch_handle=handle, **seven)
    state = json_codec.decode(json.loads(json.dumps(json_codec.encode(one.state_dict()))))
    common = random.getstate(), np.random.get_state()
    whole = taken(one, 7)
    other.load_state_dict(state)
    random.setstate(common[0])
    np.random.set_state(common[1])
    assert taken(other, 7) == whole


def test_a_state_costs_no_walk_through_the_images(seven):
    """States of an epoch share one list, which later ones do not change."""
    one = mx.image.ImageIter(**seven)
    first, order = one.state_dict(), list(one.seq)
    one.next()
    assert one.state_dict()["order"] is first["order"]
    one.reset()
    assert first["order"] == order and one.state_dict()["order"] == one.seq
    one.seq = one.seq[::-1]
    assert one.state_dict()["order"] == one.seq


def test_batches_come_from_a_pool(seven):
    iterator = mx.image.ImageIter(**seven)
    batch = iterator.next()
    assert all(isinstance(array._data.base, PooledBuffer)
               for array in batch.data + batch.label)
    pixels = batch.data[0].asnumpy().copy()
    iterator.next()
    np.testing.assert_array_equal(batch.data[0].asnumpy(), pixels)


def test_an_iterator_goes_on_only_over_its_own_images(seven):
    halves = [mx.image.ImageIter(num_parts=2, part_index=part, **seven) for part in (0, 1)]
    with pytest.raises(MXNetError, match="over 3 other images"):
        halves[0].load_state_dict(halves[1].state_dict())
    with pytest.raises(MXNetError, match="batch_size=2, this one has 3"):
        mx.image.ImageIter(**seven).load_state_dict(
            mx.image.ImageIter(**seven | {"batch_size": 2}).state_dict())


@pytest.mark.filterwarnings("ignore:Parameters already initialized")
@pytest.mark.parametrize("batch", [None, 0, 1])
@pytest.mark.parametrize("handle", ["pad", "discard", "roll_over"])
@pytest.mark.parametrize("wrap", [iter, mx.io.PrefetchingIter])
def test_training_goes_on_exactly(seven, tmp_path, batch, handle, wrap):
    """Stopped after the first epoch, or within the second; also where a thread draws ahead."""
    seven["last_batch_handle"] = handle
    prefix, options = str(tmp_path / "net"), {"num_epoch": 3, "initializer": mx.init.Xavier()}
    net = mx.sym.FullyConnected(mx.sym.Flatten(mx.sym.Variable("data")), num_hidden=7)
    module = mx.mod.Module(mx.sym.SoftmaxOutput(net, name="softmax"))

    def save(epoch, nbatch=None):
        if (epoch, nbatch) == ((0, None) if batch is None else (1, batch)):
            module.save_checkpoint(prefix, 1, save_optimizer_states=True)

    first = wrap(mx.image.ImageIter(**seven))
    module.fit(first, **options,
               epoch_end_callback=lambda epoch, *_: save(epoch),
               batch_end_callback=lambda at: save(at.epoch, at.nbatch))
    if wrap is not iter:
        first.close()  # or its prefetching would draw from the generators of the other one
    resumed = mx.mod.Module.load(prefix, 1, load_optimizer_states=True)
    random.seed(8)
    second = wrap(mx.image.ImageIter(**seven))
    resumed.fit(second, begin_epoch=1, **options)
    if wrap is not iter:
        second.close()
    for one, other in zip(module.get_params()[0].values(), resumed.get_params()[0].values(),
                          strict=True):
        np.testing.assert_array_equal(one.asnumpy(), other.asnumpy())


@pytest.mark.parametrize("call, kind, words", [
    (lambda i: i.imdecode(b""), MXNetError, "0 bytes"),
    (lambda i: i.imdecode(b"no image"), MXNetError, "no image"),
    (lambda i: i.imread("none.png"), MXNetError, "none.png"),
    (lambda i: i.imresize(mx.nd.zeros((4, 4, 3)), 2, 2, 7), ValueError, "interp method 7"),
    (lambda i: i.imresize(mx.nd.zeros((4, 4, 3)), 2, 2, -1), MXNetError, "interp method -1"),
    (lambda i: i.imrotate(mx.nd.zeros((3, 4, 4)), 5, True, True), ValueError, "both"),
    (lambda i: i.imrotate(mx.nd.zeros((4, 4)), 5), ValueError, "3 or 4 dimensions"),
    (lambda i: i.CreateAugmenter((3, 4, 4), rand_resize=True), AssertionError,
     "rand_crop"),
    (lambda i: i.ImageIter(1, (3, 8), imglist=[[1, "a"]]), ValueError, "length 3"),
    (lambda i: i.ImageIter(1, (3, 8, 8)), MXNetError, "path_imgrec"),
    (lambda i: i.ImageIter(1, (3, 8, 8), imglist=[]), MXNetError, "no images"),
    (lambda i: i.ImageIter(1, (3, 8, 8), imglist=[[1, "none.png"]]).next(), MXNetError, "none.png"),
    (lambda i: i.ImageIter(1, (1, 8, 8), imglist=[[1, "a"]]), ValueError, "3 channels"),
    (lambda i: i.ImageIter(1, (3, 8, 8), imglist=[[1, "a"]], last_batch_handle="x"), MXNetError,
     "last_batch_handle")])
def test_errors(call, kind, words):
    with pytest.raises(kind, match=words):
        call(mx.image)


def test_nd_imdecode_returns_planes():
    image = (np.arange(5 * 7 * 3) * 2).astype(np.uint8).reshape(5, 7, 3)
    data = codecs.encode(image, "png")
    planes = image[..., ::-1].transpose(2, 0, 1)
    np.testing.assert_equal(mx.nd.imdecode(data).asnumpy(), planes.astype(np.float32))
    assert mx.nd.imdecode(data, channels=1).shape == (1, 5, 7)
    part = mx.nd.imdecode(data, (1, 2, 4, 5), mean=mx.nd.ones((3, 3, 3)))
    np.testing.assert_equal(part.asnumpy(), planes[:, 2:5, 1:4] - np.float32(1))
    images = mx.nd.zeros((2, 3, 5, 7))
    assert mx.nd.imdecode(data, out=images, index=1) is images
    np.testing.assert_equal(images.asnumpy(), np.stack([np.zeros_like(planes), planes]))


@pytest.mark.parametrize(("options", "message"), [
    ({"clip_rect": (0, 0, 8, 5)}, "clip_rect is .* the image has 7 x 5 pixels"),
    ({"mean": mx.nd.ones((1,))}, r"mean has shape \(1,\), expected \(3, 5, 7\)"),
    ({"out": mx.nd.ones((3, 7, 5))}, "out has shape"),
])  # fmt: skip
def test_nd_imdecode_refuses_what_does_not_fit(options, message):
    data = codecs.encode(np.zeros((5, 7, 3), np.uint8), "png")
    with pytest.raises(mx.MXNetError, match=f"imdecode: {message}"):
        mx.nd.imdecode(data, **options)
