"""Regions of interest. rois get no gradient, though MXNet gives zeros."""

from __future__ import annotations

from tests.cases import FLOATS, Sample, array, distinct, normal

POOL, ALIGN, MEAN = "ROIPooling", "_contrib_ROIAlign", "_contrib_PSROIPooling"
DATA = ("data",)
INF, NAN = float("inf"), float("nan")
ROIS = array([[0, 1, 1, 4, 4], [1, 0, 0, 7, 5], [0, 2.5, 2.5, 3.5, 3.5], [0, -3, -3, 2, 2],
              [1, 6, 4, 12, 9], [0, 4, 4, 1, 1], [0, 20, 20, 30, 30], [0.6, 1.2, 1.7, 4.3, 4.1]])
# Regions that float16 represents exactly, none of them inverted.
REAL = array([[0, 1, 1, 4, 4], [1, 0, 0, 7, 5], [0, 2.5, 2.5, 3, 3.25], [0, -3, -3, 2, 2],
              [1, 6, 4, 12, 9], [1, .5, 1.25, 6.75, 5]])
INSIDE = array([[0, 1, .5, 4, 4]])
NOWHERE = array([[-1, 0, 0, 4, 4], [2, 0, 0, 4, 4], [NAN, 0, 0, 4, 4],
                 [0, NAN, 0, 4, 4], [0, 4, 4, 1, 1]])
BEYOND = array([[0, -1e30, -1e30, 1e30, 1e30], [1, 0, 0, 1e30, 4], [0, 1, 1, 4, INF],
                [1, -INF, 0, 4, 4], [0, -INF, -INF, INF, INF], [0, 1e30, 0, 2e30, 4]])
BEYOND_TURNED = array([[0, 3, 3, 1e30, 4, 30], [1, 3, 3, INF, INF, 0], [0, INF, 3, 4, 4, 10],
                       [1, 3, 3, 4, 4, INF]])
EXACT = ("float32", "float64")  # MXNet computes coordinates in float16, where bins change
TURNED, MOVED = "_contrib_RROIAlign", "_contrib_DeformablePSROIPooling"
TURNS = array([[0, 3, 3, 4, 4, 0], [0, 3, 3, 4, 2, 30], [1, 3, 3, 4, 2, 90], [0, 3, 3, .5, .5, 7],
               [0, 0, 0, 4, 4, 45], [0, 7, 5, 6, 6, 10], [1, 4, 3, -2, -2, -200]])
ANGLES = {"float32": 1e-4, "float64": 1e-4}
BINS = {"spatial_scale": 1, "output_dim": 2, "group_size": 2, "pooled_size": 2, "trans_std": .1}
REFUSED = {"oracle": False, "why": "MXNet reads other memory, or crashes"}
ENDLESS = {"oracle": False, "dtypes": EXACT, "note": "beyond all bounds",
           "why": "MXNet counts the pixels of a region, however many it has"}
IMAGES = distinct((2, 3, 6, 8))
TWO = {"pooled_size": (2, 2), "spatial_scale": 1}

SAMPLES = [
    *(Sample(POOL, {"data": IMAGES, "rois": ROIS}, {"pooled_size": size, "spatial_scale": scale},
             DATA) for size in ((2, 2), (3, 1), (7, 7)) for scale in (1, .5, .3)),
    Sample(POOL, {"data": distinct((1, 1, 1, 1)), "rois": array([[0, 0, 0, 0, 0]])}, TWO, DATA),
    Sample(POOL, {"data": IMAGES, "rois": NOWHERE}, TWO, DATA, **REFUSED),
    *(Sample(POOL, {"data": array([[values]]), "rois": array([[0, 0, 0, 3, 3]])}, TWO, (),
             dtypes=EXACT, note="no maxima") for values in (
          [[NAN, 1, NAN, NAN], [0, NAN, NAN, NAN], [-INF, -INF, NAN, 2], [-INF, -INF, 3, 4]],
          [[NAN] * 4] * 2 + [[-INF] * 4] * 2)),
    Sample(POOL, {"data": IMAGES, "rois": (4, 4)}, TWO, error="rois"),
    Sample(POOL, {"data": (3, 6, 8), "rois": ROIS}, TWO, error="expected 4 dimensions"),
    Sample(POOL, {"data": IMAGES, "rois": ROIS}, {"pooled_size": 2, "spatial_scale": 1},
           error="pooled_size"),
    *(Sample(ALIGN, {"data": IMAGES, "rois": REAL},
             {"pooled_size": size, "spatial_scale": scale, "sample_ratio": ratio,
              "aligned": aligned}, DATA) for size in ((2, 2), (3, 1)) for scale in (1, .5)
      for ratio in (-1, 2) for aligned in (False, True)),
    Sample(ALIGN, {"data": IMAGES, "rois": ROIS}, {**TWO, "sample_ratio": 0}, DATA, dtypes=EXACT),
    *(Sample(ALIGN, {"data": normal((2, 12, 6, 8)), "rois": REAL},
             {"pooled_size": (2, 3), "spatial_scale": 1, "position_sensitive": True,
              "sample_ratio": ratio}, DATA) for ratio in (-1, 3)),
    Sample(ALIGN, {"data": normal((1, 1, 1, 1)), "rois": array([[0, 0, 0, 0, 0]])}, TWO, DATA,
           dtypes=EXACT),
    Sample(ALIGN, {"data": IMAGES, "rois": NOWHERE}, {**TWO, "aligned": True}, DATA, **REFUSED),
    *(Sample(op, {"data": IMAGES, "rois": rois}, {**TWO, name: ratio}, DATA, **ENDLESS)
      for op, rois, name in ((ALIGN, BEYOND, "sample_ratio"),
                             (TURNED, BEYOND_TURNED, "sampling_ratio")) for ratio in (-1, 2)),
    Sample(POOL, {"data": IMAGES, "rois": BEYOND}, TWO, DATA, **ENDLESS),
    *(Sample(op, {"data": distinct(shape), "rois": REAL}, TWO, DATA, dtypes=EXACT, note=note)
      for op in (POOL, ALIGN) for shape, note in (((2, 70, 6, 8), "blocks of channels"),
                                                  ((2, 2, 40, 41), "few regions"))),
    Sample(ALIGN, {"data": (2, 3, 6, 8), "rois": ROIS}, {**TWO, "position_sensitive": True},
           error="data has 3 channels"),
    *(Sample(MEAN, {"data": normal((2, 2 * group * group, 6, 8)), "rois": ROIS},
             {"spatial_scale": scale, "output_dim": 2, "pooled_size": size, "group_size": given},
             DATA, dtypes=EXACT if scale < 1 else FLOATS) for scale in (1, .4)
      for size, given, group in ((2, 0, 2), (2, 3, 3), (3, 2, 2), (1, 0, 1))),
    Sample(MEAN, {"data": normal((1, 8, 6, 8)), "rois": INSIDE},
           {"spatial_scale": 1, "output_dim": 2, "pooled_size": 2}, DATA),
    Sample(MEAN, {"data": (2, 8, 6, 8), "rois": NOWHERE},
           {"spatial_scale": 1, "output_dim": 2, "pooled_size": 2}, DATA, **REFUSED),
    Sample(MEAN, {"data": (2, 7, 6, 8), "rois": ROIS},
           {"spatial_scale": 1, "output_dim": 2, "pooled_size": 2}, error="data has 7 channels"),
    *(Sample(TURNED, {"data": normal((2, 3, 6, 8)), "rois": TURNS},
             {"pooled_size": size, "spatial_scale": scale, "sampling_ratio": ratio}, (),
             dtypes=EXACT, tol=ANGLES, why="MXNet computes coordinates in float32")
      for size in ((2, 2), (3, 1)) for scale in (1, .5) for ratio in (-1, 2)),
    Sample(TURNED, {"data": normal((2, 3, 6, 8)), "rois": TURNS}, TWO, DATA, oracle=False,
           why="MXNet has no gradient"),
    Sample(TURNED, {"data": normal((2, 3, 6, 8)), "rois": ROIS}, TWO, error="rois"),
    *(Sample(MOVED, {"data": normal((2, 2 * attrs["group_size"] ** 2, 6, 8)), "rois": ROIS,
                     "trans": normal((8, 2 * classes, part, part))}, attrs, ("data", "trans"),
             dtypes=EXACT, tol={"float64": 1e-6}, why="MXNet keeps parameters in float32")
      for attrs, classes, part in (
          (BINS, 1, 2), ({**BINS, "sample_per_part": 4}, 2, 2),
          ({**BINS, "spatial_scale": .5, "sample_per_part": 2, "part_size": 4}, 1, 4),
          ({**BINS, "pooled_size": 3, "sample_per_part": 2}, 2, 3),
          ({**BINS, "trans_std": 0}, 1, 2), ({**BINS, "group_size": 1}, 1, 2))),
    Sample(MOVED, {"data": normal((2, 8, 6, 8)), "rois": ROIS},
           {**BINS, "no_trans": True, "sample_per_part": 2}, DATA, dtypes=EXACT),
    Sample(MOVED, {"data": normal((1, 8, 6, 8)), "rois": INSIDE, "trans": normal((1, 2, 2, 2))},
           BINS, ("data", "trans"), dtypes=EXACT, tol={"float64": 1e-6},
           why="MXNet keeps parameters in float32"),
    Sample(MOVED, {"data": normal((2, 8, 6, 8)), "rois": REAL,
                   "trans": normal((6, 2, 2, 2))}, BINS, (), dtypes=("float16",), oracle=False,
           why="MXNet computes coordinates in float16"),
    Sample(MOVED, {"data": (2, 8, 6, 8), "rois": ROIS, "trans": (8, 3, 2, 2)}, BINS,
           error="trans has 3 channels"),
]  # fmt: skip
