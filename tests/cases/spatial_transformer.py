"""Spatial transformers: grid generators and bilinear samplers; and correlation."""

from __future__ import annotations

from tests.cases import Sample, array, normal, uniform

GRID, LOOK, TURN = "GridGenerator", "BilinearSampler", "SpatialTransformer"
COMPARE = "Correlation"
EXACT = ("float32", "float64")
AFFINE = {"transform_type": "affine", "target_shape": (3, 4)}
MOVED = {**AFFINE, "sampler_type": "bilinear"}
# MXNet's grids are float32; float16 ones shift pixels by a tenth of a pixel.
ONE = {"mx_dtypes": ("float32",), "why": "MXNet has float32 only"}
HALF = {"mx_dtypes": EXACT, "why": "MXNet places pixels in float16"}
NO_HALF = {"mx_dtypes": EXACT, "why": "MXNet has no float16"}
IMAGES = normal((2, 3, 4, 5))
# Positions in the image and outside it, none of them on a pixel, where the gradient jumps.
PLACES = uniform(-1.6, 1.6, (2, 2, 3, 4))
SINGLE = {"oracle": False, "why": "MXNet divides by 0"}
FAR = array([[[[-1e30, 0.1, 3, 0.1]], [[0.1, 1e30, 0.1, 0.1]]]])
NOWHERE = array([[[[float("nan"), float("inf"), 0.1]], [[0.1, 0.1, -float("inf")]]]])


def compare(shape=(2, 3, 7, 6), **attrs):
    return Sample(COMPARE, {"data1": normal(shape), "data2": normal(shape)}, attrs)


SAMPLES = [
    Sample(GRID, {"data": normal((2, 6))}, AFFINE, **ONE),
    Sample(GRID, {"data": normal((1, 6))}, {**AFFINE, "target_shape": (2, 7)}, **ONE),
    Sample(GRID, {"data": normal((2, 6))}, {**AFFINE, "target_shape": (1, 3)}, **SINGLE),
    Sample(GRID, {"data": normal((2, 2, 3, 4))}, {"transform_type": "warp"}, **ONE),
    Sample(GRID, {"data": normal((1, 2, 2, 2))}, {**AFFINE, "transform_type": "warp"}, **ONE),
    Sample(GRID, {"data": normal((2, 2, 1, 4))}, {"transform_type": "warp"}, **SINGLE),
    Sample(GRID, {"data": (2, 5)}, AFFINE, error=r"data has shape \(2, 5\), expected \(N, 6\)"),
    Sample(GRID, {"data": (2, 6)}, {"transform_type": "affine"}, error="target_shape"),
    Sample(GRID, {"data": (2, 3, 4, 4)}, {"transform_type": "warp"}, error=r"\(N, 2, H, W\)"),
    Sample(GRID, {"data": (2, 6)}, {**AFFINE, "target_shape": (3,)}, error="two positive numbers"),
    Sample(LOOK, {"data": IMAGES, "grid": PLACES}, **HALF),
    Sample(LOOK, {"data": IMAGES, "grid": uniform(-.9, .9, (2, 2, 7, 6))}, dtypes=EXACT),
    Sample(LOOK, {"data": normal((1, 2, 1, 5)), "grid": uniform(-1.6, 1.6, (1, 2, 2, 2))},
           dtypes=EXACT),
    Sample(LOOK, {"data": normal((1, 1, 1, 1)), "grid": uniform(-.9, .9, (1, 2, 1, 1))},
           dtypes=EXACT),
    Sample(LOOK, {"data": normal((1, 1, 3, 3)),
                  "grid": array([[[[-1, 0, 1]], [[-1, 1, 0]]]])}, note="on pixels", dtypes=EXACT),
    Sample(LOOK, {"data": normal((1, 1, 3, 3)), "grid": FAR}, grad=("data", "grid"), dtypes=EXACT),
    Sample(LOOK, {"data": normal((1, 1, 3, 3)), "grid": NOWHERE}, grad=(), dtypes=EXACT),
    Sample(LOOK, {"data": (2, 3, 4, 5), "grid": (1, 2, 3, 4)}, error="batch of data and grid"),
    Sample(LOOK, {"data": (2, 3, 4, 5), "grid": (2, 3, 3, 4)}, error=r"\(N, 2, OH, OW\)"),
    Sample(LOOK, {"data": (2, 3, 4), "grid": (2, 2, 3, 4)}, error="expected 4 dimensions"),
    Sample(LOOK, {"data": (2, 3, 4, 5), "grid": (2, 2, 3, 4)}, dtypes=("int32",),
           error="data has type int32"),
    Sample(TURN, {"data": IMAGES, "loc": normal((2, 6))}, MOVED, **NO_HALF),
    Sample(TURN, {"data": IMAGES, "loc": array([[1.13, .12, .21, -.17, .94, .31]] * 2)},
           {**MOVED, "target_shape": (8, 9)}, grad=("data", "loc"), **NO_HALF),
    Sample(TURN, {"data": IMAGES, "loc": normal((2, 6))}, {**MOVED, "target_shape": (1, 3)},
           **SINGLE),
    Sample(TURN, {"data": IMAGES, "loc": (2, 5)}, MOVED, error=r"expected \(N, 6\)"),
    Sample(TURN, {"data": IMAGES, "loc": (3, 6)}, MOVED, error="batch of data and loc"),
    Sample(TURN, {"data": IMAGES, "loc": (2, 6)}, {**MOVED, "target_shape": (0, 0)},
           error="target_shape"),
    compare(),
    compare(kernel_size=3, max_displacement=2, pad_size=2),
    compare(kernel_size=3, max_displacement=2, stride1=2, stride2=2, pad_size=3),
    compare(kernel_size=3, max_displacement=3, stride1=2, stride2=2, pad_size=3,
            is_multiply=False),
    compare(kernel_size=5, max_displacement=3, stride2=2, pad_size=3),
    compare((1, 20, 5, 6), max_displacement=4, stride2=3, pad_size=4, is_multiply=False),
    compare((1, 1, 1, 1), max_displacement=0),
    compare((1, 2, 5, 5), stride2=2),
    Sample(COMPARE, {"data1": (1, 2, 5, 5), "data2": (1, 2, 5, 5)}, {"kernel_size": 2},
           error="kernel_size is 2, expected an odd number"),
    Sample(COMPARE, {"data1": (1, 2, 5, 5), "data2": (1, 2, 5, 5)}, {"stride2": 0},
           error="stride2 is 0"),
    Sample(COMPARE, {"data1": (1, 2, 5, 5), "data2": (1, 2, 5, 5)}, {"max_displacement": 3},
           error="enlarge pad_size"),
    Sample(COMPARE, {"data1": (1, 2, 5, 5), "data2": (1, 2, 4, 5)}, error="data1 and data2"),
]  # fmt: skip
