"""UpSampling."""

from __future__ import annotations

from tests.cases import Sample

RESIZE, ADAPTIVE = "_contrib_BilinearResize2D", "_contrib_AdaptiveAvgPooling2D"
# MXNet computes positions of float16 images in float16, and those of float64 images in float32.
FLOAT32_POSITIONS = {"float64": 3e-6}
POSITIONS = "MXNet computes where to interpolate in float32, whatever the type"

SAMPLES = [
    Sample("UpSampling", ((2, 3, 4, 2),), {"scale": 2, "sample_type": "nearest"}),
    Sample("UpSampling", ((2, 1, 1, 2),), {"scale": 3, "sample_type": "nearest"}),
    Sample("UpSampling", ((1, 2, 3, 3),), {"scale": 1, "sample_type": "nearest"}),
    Sample("UpSampling", ((2, 3, 2, 3), (2, 2, 4, 6)), {"scale": 4, "sample_type": "nearest"}),
    Sample("UpSampling", ((2, 3, 2, 3), (2, 3, 4, 6), (2, 3, 2, 3)),
           {"scale": 2, "sample_type": "nearest", "multi_input_mode": "sum"}),
    *(Sample("UpSampling", {"data": (2, 3, 4, 3), "weight": (3, 1, size, size)},
             {"scale": scale, "sample_type": "bilinear", "num_filter": 3, "num_args": 2})
      for scale, size in ((1, 1), (2, 4), (3, 5))),
    Sample("UpSampling", ((1, 2, 3),), {"scale": 2, "sample_type": "nearest"},
           error="expected 4 dimensions"),
    Sample("UpSampling", ((1, 2, 3, 3),), {"scale": 0, "sample_type": "nearest"},
           error="scale is 0"),
    Sample("UpSampling", ((1, 2, 3, 3), (1, 2, 4, 3)), {"scale": 4, "sample_type": "nearest"},
           error="arg1 has shape .*whole fraction"),
    Sample("UpSampling", ((1, 2, 2, 2), (1, 3, 4, 4)),
           {"scale": 4, "sample_type": "nearest", "multi_input_mode": "sum"},
           error="arg1 has 3 channels"),
    Sample("UpSampling", {"data": (1, 3, 4, 4), "weight": (3, 1, 5, 5)},
           {"scale": 2, "sample_type": "bilinear", "num_filter": 3}, error="weight has shape"),
    *(Sample(RESIZE, {"data": (2, 3, 5, 7)}, {"height": h, "width": w, "align_corners": aligned},
             tol=FLOAT32_POSITIONS, why=POSITIONS)
      for h, w in ((5, 7), (1, 1), (3, 4), (10, 14), (1, 9), (6, 1)) for aligned in (True, False)),
    Sample(RESIZE, {"data": (1, 2, 1, 1)}, {"height": 3, "width": 2}),
    Sample(RESIZE, {"data": (1, 2, 4, 3)}),
    Sample(RESIZE, {"data": (1, 2, 3, 3)}, {"width": 2, "scale_width": 3.0}),
    *(Sample(RESIZE, {"data": (1, 2, h, w)}, {"mode": mode, **scales, "align_corners": False},
             tol=FLOAT32_POSITIONS, why=POSITIONS)
      for mode in ("size", "odd_scale") for h, w in ((5, 7), (4, 6), (2, 1))
      for scales in ({"scale_height": 2, "scale_width": 3},
                     {"scale_height": 1.6, "scale_width": 1.5})),
    *(Sample(RESIZE, {"data": (2, 1, h, w)}, {"mode": mode},
             tol=FLOAT32_POSITIONS, why=POSITIONS)
      for mode in ("to_even_down", "to_even_up", "to_odd_down", "to_odd_up")
      for h, w in ((4, 7), (3, 2))),
    Sample(RESIZE, {"data": (2, 3, 5, 7), "like": (1, 9, 3, 4)}, {"mode": "like"}, (),
           tol=FLOAT32_POSITIONS, why=POSITIONS),
    Sample(RESIZE, {"data": (1, 2, 2, 7), "like": (3, 5, 4, 4)},
           {"mode": "like", "align_corners": False}, oracle=False,
           why="MXNet's backward writes outside of the gradient of `like`, and crashes"),
    Sample(RESIZE, {"data": (3, 5, 7)}, {"height": 2, "width": 2}, error="expected 4 dimensions"),
    Sample(RESIZE, {"data": (1, 1, 5, 7)}, {"scale_height": 2}, error="scale_width is None"),
    Sample(RESIZE, {"data": (1, 1, 5, 7)}, {"height": 0}, error="height is 0"),
    Sample(RESIZE, {"data": (1, 1, 1, 7)}, {"mode": "to_even_down"}, error="positive numbers"),
    *(Sample(ADAPTIVE, {"data": (2, 3, 5, 7)}, {"output_size": size})
      for size in ((), 1, 2, (2,), (2, 3), (7, 9), (5, 7), (1, 4))),
    Sample(ADAPTIVE, {"data": (1, 1, 1, 1)}, {"output_size": (3, 2)}),
    Sample(ADAPTIVE, {"data": (2, 2, 40, 33)}, {"output_size": (6, 7)}, note="large"),
    Sample(ADAPTIVE, {"data": (3, 5, 7)}, error="expected 4 dimensions"),
    Sample(ADAPTIVE, {"data": (1, 1, 5, 7)}, {"output_size": (0, 2)}, error="output_size"),
]  # fmt: skip
