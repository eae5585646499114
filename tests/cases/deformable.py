"""Deformable convolutions, with offsets within the image and beyond it."""

from __future__ import annotations

from tests.cases import Input, Sample, array, normal, uniform

PLAIN, MASKED = "_contrib_DeformableConvolution", "_contrib_ModulatedDeformableConvolution"
Shape = tuple[int, ...]


def inputs(data: Shape, filters: int, kernel: Shape, out: Shape, groups: int = 1, moved: int = 1,
           reach: float = 2) -> dict[str, Input]:
    """Inputs of both ops, in the order of the one with a mask."""
    taps = kernel[0] * kernel[1]
    return {"data": normal(data),
            "offset": uniform(-reach, reach, (data[0], 2 * moved * taps, *out)),
            "mask": uniform(0, 1, (data[0], moved * taps, *out)),
            "weight": normal((filters, data[1] // groups, *kernel)), "bias": normal((filters,))}


def attrs(filters: int, kernel: Shape, groups: int = 1, moved: int = 1, **more: object
          ) -> dict[str, object]:
    return {"num_filter": filters, "kernel": kernel, "num_group": groups,
            "num_deformable_group": moved, **more}


def without(given: dict[str, Input], *names: str) -> dict[str, Input]:
    return {name: value for name, value in given.items() if name not in names}


CASES = [
    (inputs((2, 4, 5, 6), 3, (3, 3), (5, 6)), attrs(3, (3, 3), pad=(1, 1))),
    (inputs((1, 4, 7, 8), 4, (3, 2), (4, 4), 2, 2, 4),
     attrs(4, (3, 2), 2, 2, stride=(2, 2), pad=(1, 0), dilate=(1, 1))),
    (inputs((2, 6, 6, 7), 6, (2, 3), (6, 5), 2, 3),
     attrs(6, (2, 3), 2, 3, dilate=(2, 1), pad=(1, 0))),
    (inputs((1, 40, 9, 9), 2, (1, 1), (9, 9), 1, 2, .5), attrs(2, (1, 1), 1, 2)),
    (inputs((1, 1, 1, 1), 1, (1, 1), (1, 1), reach=.5), attrs(1, (1, 1))),
]
# Points on pixels, where a derivative has two sides, on the border, and outside.
CORNERS = array([[[[0, 0, -1, -1, 3], [1, -.25, -1.5, 0, 9e9]],
                  [[0, -1, -1, -2, .75], [4, .5, 0, -5, 0]]]])
ONE = {"data": normal((1, 1, 2, 5)), "offset": CORNERS, "mask": uniform(0, 1, (1, 1, 2, 5)),
       "weight": normal((2, 1, 1, 1))}

SAMPLES = [
    *(Sample(PLAIN, without(given, "mask"), params) for given, params in CASES),
    Sample(PLAIN, without(ONE, "mask"), {**attrs(2, (1, 1)), "no_bias": True},
           ("data", "offset", "weight"), dtypes=("float32",)),
    Sample(PLAIN, without(inputs((1, 2, 30, 31), 8, (3, 3), (30, 31)), "mask"),
           attrs(8, (3, 3), pad=(1, 1)), dtypes=("float32",)),
    *(Sample(MASKED, given, params, ()) for given, params in CASES),
    *(Sample(MASKED, given, params, oracle=False, why="MXNet has no gradient on the CPU")
      for given, params in CASES[:3]),
    Sample(MASKED, ONE, {**attrs(2, (1, 1)), "no_bias": True}, (), dtypes=("float32",)),
]  # fmt: skip

WRONG = without(inputs((2, 4, 5, 6), 4, (3, 3), (5, 6)), "mask")
FINE = attrs(4, (3, 3), pad=(1, 1))
SAMPLES += [
    Sample(PLAIN, {**WRONG, "offset": normal((2, 17, 5, 6))}, FINE, error="offset has shape"),
    Sample(PLAIN, {**WRONG, "weight": normal((4, 4, 3, 2))}, FINE, error="weight has shape"),
    Sample(PLAIN, WRONG, {**FINE, "num_deformable_group": 3}, error="num_deformable_group is 3"),
    Sample(PLAIN, WRONG, {**FINE, "num_group": 3}, error="num_group is 3"),
    Sample(PLAIN, WRONG, {**FINE, "kernel": (3,), "pad": (1,)}, error="expected two entries"),
    Sample(PLAIN, WRONG, {**FINE, "layout": "NHWC"}, error="layout"),
    Sample(MASKED, {**inputs((2, 4, 5, 6), 4, (3, 3), (5, 6)), "mask": normal((2, 18, 5, 6))},
           FINE, error="mask has shape"),
]
