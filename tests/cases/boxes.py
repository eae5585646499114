"""Ops over boxes. Boxes come from `boxes`: overlaps are large and small, all areas positive."""

from __future__ import annotations

import numpy as np

from tests.cases import Sample, array, distinct, integers, normal, positive

NMS, IOU = "_contrib_box_nms", "_contrib_box_iou"
ENCODE, DECODE = "_contrib_box_encode", "_contrib_box_decode"
MATCH = "_contrib_bipartite_matching"
# Whether boxes of float16 overlap enough may depend on how they were rounded.
EXACT = ("float32", "float64")


def boxes(*shape: int, seed: int = 0) -> np.ndarray:
    """Corners of random boxes, (*shape, 4)."""
    rng = np.random.default_rng(seed)
    found = rng.random((*shape, 4))
    found[..., 2:] = found[..., :2] + 0.1 + 0.4 * found[..., 2:]
    return found


def rows(*shape: int, width: int = 6, seed: int = 0) -> np.ndarray:
    """(class, score, left, top, right, bottom, ...) with distinct scores above 0."""
    rng = np.random.default_rng(seed)
    found = rng.random((*shape, width))
    found[..., 0] = rng.integers(-1, 3, shape)
    count = np.prod(shape)
    found[..., 1] = (rng.permutation(count).reshape(shape) + 1) / count
    found[..., 2:6] = boxes(*shape, seed=seed)
    return found


SIX = array([[0, .5, .1, .1, .2, .2], [1, .4, .1, .1, .2, .2], [0, .3, .1, .1, .14, .14],
             [2, .6, .5, .5, .7, .8], [0, .9, .11, .1, .2, .2], [-1, .8, .1, .1, .2, .2]])
BEYOND = array([[0, .9, -1, 1, 2, 3], [0, .8, 10, -5, 12, 7], [0, .7, -.5, -.5, -2, -1],
                [0, .6, 0, 30, 32, 35]])
MANY = array(rows(2, 3, 20))
DATA = ("data",)
CLASSES = {"id_index": 0, "overlap_thresh": 0.2}


def nms(data, attrs, grad=DATA, **options) -> Sample:
    """In float64, where gradients are compared with differences, only if no column is a class and
    no format changes: through those the gradient passes unchanged."""
    plain = "id_index" not in attrs and attrs.get("in_format") == attrs.get("out_format")
    options = {"dtypes": EXACT if plain else ("float32",), **options}
    return Sample(NMS, {"data": data}, attrs, grad, **options)


ENCODED = {"samples": array([[1, -1, 0, .4, .6, 1]] * 2),
           "matches": array([[0, 1, 2, 0, 1.9, 2], [2, 2, 1, 1, 0, 1]]),
           "anchors": array(boxes(2, 6)), "refs": array(boxes(2, 3, seed=1)),
           "means": array([0, .1, .2, .3]), "stds": array([.1, .1, .2, .2])}
OUTSIDE = {**ENCODED, "matches": array([[0, 3, 2, -1, 1, 99], [2, 2, 1, 1, 7, 1]])}
MOVED = {"data": normal((2, 6, 4)), "anchors": array(boxes(1, 6))}
LOST = [[np.nan, 0, 2, 2], [0, np.nan, 2, 2], [0, 0, np.nan, 2], [0, 0, 2, np.nan]]
UNUSUAL = [[1, 1, 2, 2], [1, 1, -2, 2], [1, 1, -2, -2], [.5, .5, np.inf, 1], [-np.inf, 0, 1, 1],
           *LOST, [np.nan, 0, -2, 2], [np.nan, np.nan, -1, -1], [1, 1, np.nan, -1], [np.nan] * 4]
LIMITLESS = array(np.column_stack([np.zeros(26), np.linspace(.9, .1, 26), UNUSUAL + UNUSUAL[::-1]]))
SCORES = {"data": distinct((2, 3, 4))}
SQUARE = {"data": array([[.9, .8, .7], [.95, .85, .5], [.3, .2, .99], [.1, .97, .2]])}

SAMPLES = [
    *(nms(SIX, attrs) for attrs in (
        {}, {"id_index": 0}, {"id_index": 0, "force_suppress": True}, {"overlap_thresh": .1},
        {"valid_thresh": .4}, {"valid_thresh": .95}, {"topk": 2}, {"topk": 0}, {"topk": 100},
        {"id_index": 0, "background_id": 0}, {"background_id": 0}, {"overlap_thresh": 0},
        {"overlap_thresh": 1}, {"overlap_thresh": -1})),
    *(nms(MANY, attrs) for attrs in (
        {}, CLASSES, {**CLASSES, "topk": 7}, {**CLASSES, "background_id": 1},
        {**CLASSES, "force_suppress": True}, {"overlap_thresh": .3, "valid_thresh": .52})),
    *(nms(MANY, {"in_format": one, "out_format": other, "overlap_thresh": .2, **attrs})
      for one in ("corner", "center") for other in ("corner", "center")
      for attrs in ({}, {"topk": 0})),
    nms(SIX, {"overlap_thresh": .3}, dtypes=("float16",)),
    nms(array([[.5, .1, .1, .2, .2]]), {"coord_start": 1, "score_index": 0}),
    nms(array(rows(5, width=8)), {"coord_start": 2, "score_index": 6, "id_index": 7}),
    nms(array(rows(3, 700)), {"overlap_thresh": .6}, note="large"),
    nms(array(rows(1, 5000)), {"overlap_thresh": .45, "topk": 200, "id_index": 0}, note="large"),
    nms(array([[0, float("nan"), 0, 0, 1, 1], [0, .5, 0, 0, 1, 1], [0, .5, 0, 0, 1, 1]]), {}, (),
        note="NaN and equal scores"),
    *(nms(BEYOND, {"in_format": one, "out_format": other}, note="negative coordinates")
      for one, other in (("corner", "center"), ("center", "corner"))),
    *(nms(LIMITLESS, {"in_format": one, "out_format": other, "overlap_thresh": limit}, (),
          note="nan and infinity")
      for one, other in (("corner", "center"), ("center", "corner")) for limit in (-1, .25)),
    nms((6,), {}, error="at least 2 dimensions"),
    nms((3, 5), {}, error="coord_start is 2"),
    nms((3, 6), {"score_index": 3}, error="score_index is 3"),
    nms((3, 6), {"id_index": 6}, error="id_index is 6"),
    *(Sample(IOU, {"lhs": array(boxes(3)), "rhs": array(boxes(4, seed=1))}, {"format": form}, ())
      for form in ("corner", "center")),
    Sample(IOU, {"lhs": array([[0, 0, 2, 2], *LOST]), "rhs": array([[1, 1, 3, 3], *LOST])}, {}, (),
           note="nan"),
    Sample(IOU, {"lhs": array(boxes(2, 3)), "rhs": array(boxes(4, 1, 2, seed=1))}, {}, ()),
    Sample(IOU, {"lhs": array(boxes(1)), "rhs": array(boxes(1))}, {}, ()),
    *(Sample(IOU, {"lhs": array([[0, 0, -1, -1], [0, 0, 0, 0], [3, 3, 1, 1], [0, 0, 2, 2]]),
                   "rhs": array([[0, 0, -1, -1], [-5, -5, 5, 5], [0, 0, 0, 0], [3, 3, 1, 1]])},
             {"format": form}, (), note="without area") for form in ("corner", "center")),
    *(Sample(IOU, {"lhs": array(UNUSUAL), "rhs": array(UNUSUAL)}, {"format": form}, (),
             note="nan and infinity") for form in ("corner", "center")),
    Sample(IOU, {"lhs": (2, 5), "rhs": (2, 4)}, error="lhs has shape"),
    Sample(ENCODE, ENCODED, {}, ()),
    Sample(ENCODE, OUTSIDE, {}, (), oracle=False, why="MXNet reads boxes outside of refs"),
    Sample(ENCODE, {**ENCODED, "anchors": (1, 6, 4)}, error="anchors"),
    *(Sample(DECODE, MOVED, {"format": form, **attrs}, ()) for form in ("corner", "center")
      for attrs in ({}, {"clip": .3}, {"clip": 0}, {"std0": .1, "std1": .2, "std2": .3, "std3": .4},
                    {"clip": .1, "std2": -.3, "std3": -.4})),
    Sample(DECODE, {"data": (1, 1, 4), "anchors": array(boxes(1, 1))}, {}, ()),
    Sample(DECODE, {"data": (2, 6, 4), "anchors": (2, 6, 4)}, error="anchors"),
    *(Sample(MATCH, SCORES, {"threshold": limit, "is_ascend": ascend}, ())
      for limit in (-3, 0, .5, 3) for ascend in (False, True)),
    *(Sample(MATCH, SQUARE, {"threshold": .05, "topk": k}, ()) for k in (-1, 0, 1, 2, 3)),
    *(Sample(MATCH, {"data": array([[.5, .25], [.125, .75]])},
             {"threshold": limit, "is_ascend": ascend}, (), note="at the threshold")
      for limit in (.125, .5, .75) for ascend in (False, True)),
    Sample(MATCH, {"data": positive((1, 1))}, {"threshold": 0}, ()),
    Sample(MATCH, {"data": distinct((2, 70, 80))}, {"threshold": 0}, (), note="large",
           dtypes=EXACT),
    Sample(MATCH, {"data": integers(0, 3, (6, 9))}, {"threshold": 0}, (), oracle=False,
           why="equal scores have no order in MXNet"),
    Sample(MATCH, {"data": array([[float("nan"), .5], [.2, .3]])}, {"threshold": .1}, (),
           oracle=False, why="a NaN ends matching in MXNet"),
    Sample(MATCH, {"data": (3,)}, {"threshold": .1}, error="at least 2 dimensions"),
]  # fmt: skip
