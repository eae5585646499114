"""Image ops: resizing and decoding as in MXNet's OpenCV, and distributions of random ops.

Seeds are fixed; limits of the distribution tests are those of tests/ops/test_random.py.
"""

from __future__ import annotations

import colorsys
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nbmod as mx
from nbmod.ops.image import color, resample
from tests.compare import assert_same
from tests.programs import image_op_programs

COUNT = 1500
SIGMAS = 5
PIXELS = np.array([[[10, 100, 250], [200, 128, 30]]], np.float32)


def random_image(height: int, width: int, channels: int = 3, dtype: str = "uint8") -> np.ndarray:
    rng = np.random.default_rng(height * 1000 + width)
    return rng.integers(0, 256, (height, width, channels)).astype(dtype)


# -- sizes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(7, 9, 3), (33, 65, 1), (64, 48, 4), (2, 2, 3), (90, 120, 3)])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_sizes_are_those_of_opencv(oracle, shape, dtype):
    """Bytes agree to the bit in the nearest and the linear mode, except some ties of rounding."""
    image = random_image(*shape, dtype)
    sizes = [(5, 6), (20, 13), (31, 3), (64, 64), (24, 32), (1, 1)]
    ours = image_op_programs.resized(mx, image, sizes)
    theirs = oracle.call("mx_scripts.run", "image_op_programs", "resized", image, sizes)
    for number, (got, want) in enumerate(zip(ours, theirs, strict=True)):
        if dtype == "float32":
            assert_same(got, want, 1e-5, f"{sizes[number // 5]}, interp {number % 5}")
        elif number % 5 in (resample.NEAREST, resample.LINEAR):
            np.testing.assert_array_equal(got, want)
        else:
            wrong = np.abs(got.astype(int) - want)
            assert wrong.max() <= 1 and wrong.sum() <= max(1, 0.05 * wrong.size)


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 5), st.booleans())
def test_weights_are_shares_of_pixels_there_are(size, count, interp, shrinks):
    index, weight = resample.taps(size, count, interp, shrinks and count <= size)
    assert index.shape == weight.shape and len(index) == count
    assert index.min() >= 0 and index.max() < size
    np.testing.assert_allclose(weight.sum(axis=1), 1, atol=1e-6)
    if interp in (resample.NEAREST, resample.LINEAR, resample.AREA):
        assert weight.min() >= 0 and (np.diff((index * weight).sum(axis=1)) >= -1e-6).all()


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float16", "float32", "float64"])
def test_an_even_image_stays_even(dtype):
    image = np.full((9, 7, 3), 77, dtype)
    for interp in range(6):
        for shape in ((4, 3, 3), (20, 30, 3), (9, 3, 3)):
            out = np.zeros(shape, dtype)
            resample.resize(image, out, interp)
            np.testing.assert_allclose(out, 77, rtol=1e-6)


def test_images_that_cannot_be_resized():
    with pytest.raises(mx.MXNetError, match=r"interp is 7, expected one of 0 \(nearest\)"):
        resample.resize(random_image(3, 4), random_image(2, 2), 7)
    with pytest.raises(mx.MXNetError, match=r"\(0, 4, 3\) cannot become"):
        resample.resize(random_image(0, 4), random_image(2, 2))


# -- files --------------------------------------------------------------------------------------


def smooth(mode: str = "RGB"):
    image = pytest.importorskip("PIL.Image")
    rows, columns = np.mgrid[:24, :40]
    colours = np.stack([columns * 6, rows * 10, 100 + 0 * rows], 2).astype(np.uint8)
    return image.fromarray(colours).convert(mode)


def encoded(format: str, mode: str = "RGB", **options) -> bytes:
    stream = io.BytesIO()
    smooth(mode).save(stream, format, **options)
    return stream.getvalue()


@pytest.mark.parametrize("format, mode", [
    ("PNG", "RGB"), ("PNG", "L"), ("PNG", "RGBA"), ("BMP", "RGB"), ("JPEG", "RGB"), ("JPEG", "L"),
])
def test_files_are_decoded_as_by_mxnet(oracle, format, mode):
    """Decoders may differ by a level of grey or two."""
    data = encoded(format, mode)
    ours = image_op_programs.decoded(mx, data)
    theirs = oracle.call("mx_scripts.run", "image_op_programs", "decoded", data)
    for got, want in zip(ours, theirs, strict=True):
        assert got.shape == want.shape and got.dtype == np.uint8
        assert np.abs(got.astype(int) - want).max() <= 2


def test_files_are_read(oracle, tmp_path):
    path = tmp_path / "image.png"
    path.write_bytes(encoded("PNG"))
    ours = image_op_programs.read(mx, str(path))
    theirs = oracle.call("mx_scripts.run", "image_op_programs", "read", str(path))
    for got, want in zip(ours, theirs, strict=True):
        assert got.shape == want.shape and np.abs(got.astype(int) - want).max() <= 1
    out = mx.nd.zeros(ours[0].shape, dtype="uint8")
    assert mx.nd._internal._cvimread(str(path), out=out) is out
    np.testing.assert_array_equal(out.asnumpy(), ours[0])


def test_what_is_no_image(tmp_path):
    pytest.importorskip("PIL")
    decode, read = mx.nd._internal._cvimdecode, mx.nd._internal._cvimread
    with pytest.raises(mx.MXNetError, match="_cvimdecode: .*no image"):
        decode(mx.nd.array([1, 2, 3], dtype="uint8"))
    with pytest.raises(mx.MXNetError, match="buf has type float32, expected uint8"):
        decode(mx.nd.ones(3))
    with pytest.raises(mx.MXNetError, match="flag is -1"):
        decode(mx.nd.array([1], dtype="uint8"), flag=-1)
    with pytest.raises(mx.MXNetError, match="none.png: cannot be read: No such file"):
        read(str(tmp_path / "none.png"))


# -- gradients ----------------------------------------------------------------------------------


def test_an_image_on_its_way_to_a_network(oracle):
    image = random_image(5, 6, dtype="float32")
    head = np.random.default_rng(0).standard_normal((3, 4, 4)).astype(np.float32)
    ours = image_op_programs.as_in_training(mx, image, head)
    theirs = oracle.call("mx_scripts.run", "image_op_programs", "as_in_training", image, head)
    for got, want in zip(ours, theirs, strict=True):
        assert_same(got, want, 1e-6, "")


@pytest.mark.parametrize("axis, op", [(1, "left_right"), (0, "top_bottom")])
def test_a_random_flip_flips_its_gradient_back(axis, op):
    mx.random.seed(0)
    x = mx.nd.array(random_image(4, 5, dtype="float32"))
    symbol = getattr(mx.sym.image, f"random_flip_{op}")(mx.sym.Variable("x"))
    executor = symbol.bind(mx.cpu(), {"x": x}, args_grad={"x": mx.nd.zeros(x.shape)})
    flipped = []
    for _ in range(40):
        y = executor.forward(is_train=True)[0].asnumpy()
        flipped.append(bool((y != x.asnumpy()).any()))
        assert (y == (np.flip(x.asnumpy(), axis) if flipped[-1] else x.asnumpy())).all()
        executor.backward(mx.nd.array(y))
        np.testing.assert_array_equal(executor.grad_dict["x"].asnumpy(), x.asnumpy())
    assert 8 < sum(flipped) < 32


@pytest.mark.parametrize("op, attrs", [
    ("random_brightness", {"min_factor": 0.5, "max_factor": 0.6}), ("random_lighting", {}),
    ("adjust_lighting", {"alpha": (1, 2, 3)}),
    ("random_color_jitter", {"brightness": 1, "contrast": 1, "saturation": 1, "hue": 1}),
])
def test_gradients_pass_through_colours(op, attrs):
    symbol = getattr(mx.sym.image, op)(mx.sym.Variable("x"), **attrs)
    x, head = mx.nd.array(random_image(2, 3)), mx.nd.array(random_image(2, 3, dtype="float32"))
    executor = symbol.bind(mx.cpu(), {"x": x}, args_grad={"x": mx.nd.ones(x.shape)}, grad_req="add")
    executor.forward(is_train=True)
    executor.backward(head)
    np.testing.assert_array_equal(executor.grad_dict["x"].asnumpy(), head.asnumpy() + 1)


# -- distributions ------------------------------------------------------------------------------


def drawn(op: str, **attrs) -> np.ndarray:
    """The image after COUNT calls: (COUNT, 1, 2, 3), and its first pixel's hue."""
    mx.random.seed(1)
    data, function = mx.nd.array(PIXELS), getattr(mx.nd.image, op)
    return np.stack([function(data, **attrs).asnumpy() for _ in range(COUNT)])


def check_evenly(values: np.ndarray, low: float, high: float) -> None:
    assert low - 1e-3 <= values.min() and values.max() <= high + 1e-3
    deviation = (high - low) / 12**0.5
    assert abs(values.mean() - (low + high) / 2) < SIGMAS * deviation / COUNT**0.5
    assert abs(values.std() - deviation) < 0.06 * deviation


def factors(images: np.ndarray) -> np.ndarray:
    """The factor of the difference of two channels: both contrast and saturation scale it."""
    return (images[:, 0, 0, 2] - images[:, 0, 0, 0]) / (PIXELS[0, 0, 2] - PIXELS[0, 0, 0])


def turns(images: np.ndarray) -> np.ndarray:
    hue = [colorsys.rgb_to_hsv(*pixel / 255)[0] for pixel in (*images[:, 0, 0], PIXELS[0, 0])]
    return (np.array(hue[:-1]) - hue[-1] + 0.5) % 1 - 0.5


@pytest.mark.parametrize("op", ["brightness", "contrast", "saturation"])
def test_factors_are_drawn_evenly(op):
    images = drawn(f"random_{op}", min_factor=0.2, max_factor=0.5)
    check_evenly(factors(images), 0.2, 0.5)


def test_hues_are_turned_evenly():
    check_evenly(turns(drawn("random_hue", min_factor=0.05, max_factor=0.2)), 0.05, 0.2)


@pytest.mark.parametrize("op", ["brightness", "contrast", "saturation", "hue"])
def test_jitter_of_each_kind(op):
    nothing = dict.fromkeys(("brightness", "contrast", "saturation", "hue"), 0)
    images = drawn("random_color_jitter", **{**nothing, op: 0.3})
    if op == "hue":
        check_evenly(turns(images), -0.3, 0.3)
    else:
        check_evenly(factors(images), 0.7, 1.3)


def test_light_is_normal_along_the_components():
    shifts = (drawn("random_lighting", alpha_std=0.05) - PIXELS)[:, 0, 0].astype(np.float64)
    expected = color.LIGHT @ color.LIGHT.T * 0.05**2
    np.testing.assert_allclose(np.cov(shifts.T), expected, rtol=0.2)
    assert (np.abs(shifts.mean(axis=0)) < SIGMAS * np.sqrt(np.diag(expected) / COUNT)).all()


def test_a_seed_draws_the_same_again_and_ops_are_streams_of_their_own():
    jitter = {"brightness": 0.4, "contrast": 0.4, "saturation": 0.4, "hue": 0.1}
    data, runs = mx.nd.array(random_image(3, 4)), []
    for _ in range(2):
        mx.random.seed(5)
        runs.append([mx.nd.image.random_color_jitter(data, **jitter).asnumpy() for _ in range(2)])
    np.testing.assert_array_equal(runs[0], runs[1])
    assert (runs[0][0] != runs[0][1]).any()


def test_hues_of_bytes_are_within_a_level_of_mxnets(oracle):
    image, given = random_image(9, 11), [0.0, 0.1, 0.35, 0.5, 0.9, 1.0]
    ours = image_op_programs.hues(mx, image, given)
    theirs = oracle.call("mx_scripts.run", "image_op_programs", "hues", image, given)
    for got, want in zip(ours, theirs, strict=True):
        assert np.abs(got.astype(int) - want).max() <= 1
