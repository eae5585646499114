"""Image ops; random ones mostly with deterministic parameters (see ops/test_image_ops.py)."""

from __future__ import annotations

from tests.cases import FLOATS, Sample, uniform

TYPES = (*FLOATS, "uint8", "int32", "int8", "int64")
COLOURS = (*FLOATS, "uint8", "int32")
RESIZED = (*FLOATS, "uint8")
ONE_LEVEL = "MXNet's conversion to HLS and back loses a level of integers"
UNSET = "MXNet leaves the result unset"
ODD = "MXNet leaves the middle line unset"
STRAIGHT = "MXNet copies the gradient of the output as it lies in memory"
HALF = "MXNet's OpenCV has no float16, and ends the process; weights are float32"
SINGLE = {"float64": 1e-6}
CONSTANTS = "MXNet's constants and factors are float32"


def image(*shape: int) -> dict:
    return {"data": uniform(0, 255, shape)}


def source(*shape: int) -> dict:
    return {"src": uniform(0, 255, shape)}


def resized(*shape: int, **attrs) -> Sample:
    return Sample("_image_resize", image(*shape), attrs, (), dtypes=RESIZED,
                  mx_dtypes=("float32", "float64", "uint8"), tol=SINGLE, why=HALF)


def unlike(op: str, inputs: dict, why: str, **attrs) -> Sample:
    return Sample(op, inputs, attrs, dtypes=TYPES, oracle=False, why=why)


SAMPLES = [
    *(Sample("_image_to_tensor", image(*shape), {}, (), dtypes=TYPES, tol=SINGLE,
             why="the result is float32")
      for shape in ((4, 5, 3), (2, 3, 2, 4), (1, 1, 1))),
    unlike("_image_to_tensor", image(2, 4, 5, 3), STRAIGHT),
    Sample("_image_to_tensor", image(4, 5), error="expected 3 dimensions"),
    Sample("_image_to_tensor", image(4, 5, 3), dtypes=("bool",), error="type bool"),

    *(Sample("_image_normalize", image(*shape), {"mean": mean, "std": std},
             dtypes=(*FLOATS, "uint8"))
      for shape, mean, std in (((3, 4, 5), (1, 2, 3), (2, 3, 4)),
                               ((2, 3, 2, 2), (90,), (0.5, 1, 2)), ((1, 3, 2), (10,), (3,)),
                               ((3, 1, 1), (1, 2, 3), (2,)))),
    Sample("_image_normalize", image(4, 2, 2), {"mean": (1, 2, 3, 4)}, oracle=False,
           why="MXNet takes 1 or 3 channels, and its own defaults for neither"),
    Sample("_image_normalize", image(4, 5, 3), {"mean": (1,), "std": (1,)}, error="at the end"),
    Sample("_image_normalize", image(3, 4), {"mean": (1,), "std": (1,)}, error="channels, height"),
    Sample("_image_normalize", image(3, 4, 5), {"mean": (1, 2)}, error="mean is .*1 number or 3"),

    *(Sample("_image_crop", image(*shape), {"x": 1, "y": 2, "width": 3, "height": 1}, dtypes=TYPES)
      for shape in ((4, 5, 3), (2, 3, 4, 1))),
    Sample("_image_crop", image(4, 5, 3), {"x": 0, "y": 0, "width": 5, "height": 4}),
    Sample("_image_crop", image(4, 5, 2), {"x": 0, "y": 3, "width": 1, "height": 1}, oracle=False,
           why="MXNet takes the gradient of 1 or 3 channels only"),
    Sample("_image_crop", image(4, 5), {"x": 0, "y": 0, "width": 1, "height": 1},
           error="expected 3 dimensions.*batch"),
    Sample("_image_crop", image(4, 5, 3), {"x": 3, "y": 0, "width": 3, "height": 1},
           error="x = 3, 3 pixels.*within the 5"),
    Sample("_image_crop", image(4, 5, 3), {"x": 0, "y": -1, "width": 3, "height": 1},
           error="y = -1"),
    Sample("_image_crop", image(4, 5, 3), {"x": 0, "y": 0, "width": 0, "height": 1}, error="x = 0"),

    *(Sample(f"_image_flip_{way}", image(4, 6, channels), {}, (), dtypes=TYPES)
      for way in ("left_right", "top_bottom") for channels in (1, 3)),
    *(unlike(f"_image_flip_{way}", image(3, 5, 2), ODD) for way in ("left_right", "top_bottom")),
    Sample("_image_flip_left_right", image(2, 4, 5, 3), error="expected 3 dimensions"),
    *(Sample(f"_image_random_flip_{way}", image(4, 6, 3), {}, (), dtypes=TYPES, random=True)
      for way in ("left_right", "top_bottom")),

    *(resized(*shape, size=size) for shape in ((4, 6, 3), (7, 5, 1), (2, 5, 4, 2), (1, 1, 3))
      for size in ((3, 2), (9, 11), 4)),
    *(resized(*shape, size=5, keep_ratio=True) for shape in ((4, 6, 3), (9, 7, 3), (2, 3, 3, 1))),
    *(resized(12, 9, 3, size=size, interp=interp) for interp in range(5)
      for size in ((5, 7), (20, 15), (20, 5), (9, 12), (3, 3))),
    resized(8, 12, 3, size=(6, 4), interp=3),
    Sample("_image_resize", image(4, 6, 3), {}, error=r"size is \(\)"),
    Sample("_image_resize", image(4, 6, 3), {"size": (3, 0)}, error=r"size is \(3, 0\)"),
    Sample("_image_resize", image(4, 6, 3), {"size": 3, "interp": 9}, error="interp is 9"),
    Sample("_image_resize", image(4, 6), {"size": 3}, error="expected 3 dimensions"),

    *(Sample("_image_adjust_lighting", image(3, 4, 3), {"alpha": alpha}, (), dtypes=COLOURS,
             tol=SINGLE, why=CONSTANTS)
      for alpha in ((0.1, -0.2, 0.3), (2, 1, 1), (0, 0, 0))),
    Sample("_image_adjust_lighting", image(2, 2, 1), {"alpha": (1, 1, 1)}, dtypes=COLOURS,
           oracle=False, why=UNSET),
    Sample("_image_adjust_lighting", image(2, 2, 3), {"alpha": (1, 1)}, error="expected 3 numbers"),
    Sample("_image_adjust_lighting", image(2, 2, 2), {"alpha": (1, 1, 1)}, error="1 or 3 channels"),
    *(Sample(f"_image_random_{what}", image(3, 4, channels), {"min_factor": f, "max_factor": f}, (),
             dtypes=COLOURS, tol=SINGLE, why=CONSTANTS)
      for what in ("brightness", "contrast") for f in (0, 0.7, 1, 1.6) for channels in (3, 1)),
    Sample("_image_random_saturation", image(3, 4, 3), {"min_factor": 1, "max_factor": 1}, (),
           dtypes=COLOURS, tol=SINGLE, why=CONSTANTS),
    Sample("_image_random_saturation", image(3, 4, 1), {"min_factor": 0.5, "max_factor": 0.5}, (),
           dtypes=FLOATS, tol=SINGLE, why=CONSTANTS),
    Sample("_image_random_saturation", image(3, 4, 3), {"min_factor": 0.5, "max_factor": 0.5}, (),
           dtypes=COLOURS, oracle=False, why="MXNet takes a share of blue for the grey of a pixel"),
    *(Sample("_image_random_hue", image(3, 4, 3), {"min_factor": f, "max_factor": f}, (),
             dtypes=(*FLOATS, "uint8"), mx_dtypes=FLOATS, tol={"float32": 1e-5, "float64": 1e-5},
             why=f"{ONE_LEVEL}; it computes in float32")
      for f in (0, 0.1, 0.5, 0.77, 1)),
    Sample("_image_random_hue", image(3, 4, 1), {"min_factor": 0.5, "max_factor": 0.5}, (),
           oracle=False, why=UNSET),
    Sample("_image_random_lighting", image(3, 4, 3), {"alpha_std": 0}, (), dtypes=COLOURS,
           tol=SINGLE, why=CONSTANTS),
    Sample("_image_random_lighting", image(3, 4, 3), {}, (), dtypes=COLOURS, random=True),
    Sample("_image_random_color_jitter", image(3, 4, 3),
           {"brightness": 0.1, "contrast": 0.1, "saturation": 0.1, "hue": 0.1}, (),
           dtypes=COLOURS, random=True),
    Sample("_image_random_brightness", image(3, 4, 3), {"min_factor": 2, "max_factor": 1},
           error="0 <= min_factor <= max_factor"),
    Sample("_image_random_hue", image(3, 4, 3), {"min_factor": -0.1, "max_factor": 1},
           error="min_factor is -0.1"),

    *(Sample("_cvimresize", source(8, 6, channels), {"w": 5, "h": 9, "interp": interp}, (),
             dtypes=("float32", "uint8"), out=())
      for interp in range(5) for channels in (1, 3)),
    Sample("_cvimresize", source(8, 6, 3), {"w": 0, "h": 9}, error="w is 0"),
    Sample("_cvimresize", source(8, 6), {"w": 1, "h": 9}, error="src has shape"),
    *(Sample("_cvcopyMakeBorder", source(3, 4, 3),
             {"top": 2, "bot": 1, "left": 0, "right": 3, **attrs}, (),
             dtypes=("uint8", "float32"), out=())
      for attrs in ({}, {"type": 1}, {"type": 2}, {"type": 3}, {"type": 4}, {"value": 3.7},
                    {"value": 300}, {"values": (1, 2, 3)}, {"values": (4, 3, 2, 1), "value": 9},
                    {"value": -3})),
    Sample("_cvcopyMakeBorder", source(3, 4, 3),
           {"top": 2, "bot": 1, "left": 0, "right": 3, "values": (1, 2)}, (),
           dtypes=("uint8", "float32"), out=(), oracle=False, why="MXNet reads past two values"),
    *(Sample("_cvcopyMakeBorder", source(1, 2, 1), {"top": 5, "bot": 4, "left": 3, "right": 3,
                                                    "type": kind}, (), dtypes=("uint8",), out=())
      for kind in range(1, 5)),
    Sample("_cvcopyMakeBorder", source(3, 4, 3), {"top": 0, "bot": 0, "left": 0, "right": 0}, (),
           dtypes=("uint8", "float64"), out=()),
    Sample("_cvcopyMakeBorder", source(3, 4, 3), {"top": -1, "bot": 0, "left": 0, "right": 0},
           error="expected no negative"),
    Sample("_cvcopyMakeBorder", source(3, 4, 3), {"top": 0, "bot": 0, "left": 0, "right": 0,
                                                  "type": 5}, error="type is 5"),
]  # fmt: skip
