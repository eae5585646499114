"""Lines of loss layers with all of their options, and of detection heads.

What they decide by comparing numbers, such as the order of boxes, follows from values that are
rounded first, so that the last digit of an input changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from random import Random
from typing import Any

import numpy as np

from tests.fuzz.kinds import Shape, kind, one, rank
from tests.fuzz.program import Scope

REGRESSIONS = ("LinearRegressionOutput", "LogisticRegressionOutput", "MAERegressionOutput")


def fixed(scope: Scope, name: str, values: np.ndarray) -> Any:
    """A variable with these values."""
    return scope.variable(name, lambda dtype: values.astype(dtype), shape=values.shape)


def classes(shape: Shape, count: int, seed: int, ignored: int | None = None) -> np.ndarray:
    """Labels, some of which are `ignored`."""
    rng = np.random.default_rng(seed)
    found = rng.integers(0, count, shape)
    return np.where(rng.random(shape) < 0.3, ignored, found) if ignored is not None else found


# -- losses ---------------------------------------------------------------------------------------

def _softmax_params(rng: Random, shape: Shape) -> dict[str, Any]:
    multi = len(shape) > 2 and rng.random() < 0.7
    preserve = not multi and len(shape) > 2
    count = shape[1] if multi else shape[-1]
    labels = (shape[0], *shape[2:]) if multi else shape[:-1]
    if multi and rng.random() < 0.5:
        labels = (shape[0], prod(shape[2:]))
    options = {"multi_output": multi, "preserve_shape": preserve,
               "normalization": rng.choice(["null", "batch", "valid"]),
               "use_ignore": rng.random() < 0.5, "ignore_label": rng.choice([-1, 0, 1]),
               "out_grad": rng.random() < 0.3, "grad_scale": rng.choice([1, 1, 0.3, 2]),
               "smooth_alpha": rng.choice([0, 0, 0.2])}
    ignored = options["ignore_label"] if options["use_ignore"] else None
    if ignored is not None and ignored >= count:
        ignored = None
    return {"labels": labels, "classes": count, "ignored": ignored, "seed": rng.randrange(99),
            "given": rng.choice(["variable", "value", "probabilities"]), "options": options}


@kind("softmax_loss", one(_softmax_params, lambda shape: len(shape) > 1 and 0 not in shape),
      smooth=False)
def _(scope, args, params):
    data, sym, options = args[0], scope.mx.sym, params["options"]
    if params["given"] == "probabilities":
        label = sym.softmax(sym.BlockGrad(data * 0.5), axis=1 if options["multi_output"] else -1)
        options = {**options, "use_ignore": False}
    else:
        label = fixed(scope, "label", classes(params["labels"], params["classes"], params["seed"],
                                              params["ignored"]))
        if params["given"] == "value":
            label = sym.BlockGrad(sym.identity(label))
    return [sym.SoftmaxOutput(data, label, name=scope.name, **options)]


@kind("regression_loss", one(lambda rng, shape: {
    "op": rng.choice(REGRESSIONS), "grad_scale": rng.choice([1, 0.3, 2]),
    "shape": rng.choice([shape, shape, (shape[0], prod(shape[1:]))])},
    lambda shape: len(shape) > 1 and 0 not in shape), smooth=False)
def _(scope, args, params):
    label = scope.variable("label", shape=params["shape"])
    return [getattr(scope.mx.sym, params["op"])(args[0], label, name=scope.name,
                                                grad_scale=params["grad_scale"])]


@kind("svm_loss", one(lambda rng, shape: {
    "seed": rng.randrange(99), "shape": shape, "options": {
        "margin": rng.choice([1, 0.5]), "use_linear": rng.random() < 0.5,
        "regularization_coefficient": rng.choice([1, 0.3])}}, rank(2)), smooth=False)
def _(scope, args, params):
    rows, count = params["shape"]
    label = fixed(scope, "label", classes((rows,), count, params["seed"]))
    return [scope.mx.sym.SVMOutput(args[0], label, name=scope.name, **params["options"])]


@kind("make_loss", one(lambda rng, shape: {"options": {
    "grad_scale": rng.choice([1, 0.3]), "normalization": rng.choice(["null", "batch", "valid"]),
    "valid_thresh": rng.choice([0, 0.7])}}, lambda shape: len(shape) > 0 and 0 not in shape),
    smooth=False)
def _(scope, args, params):
    return [scope.mx.sym.MakeLoss(args[0], name=scope.name, **params["options"])]


def _ctc_params(rng: Random, shape: Shape) -> dict[str, Any] | None:
    steps = shape[0]
    return {"shape": shape, "seed": rng.randrange(99), "most": rng.randint(1, max(1, steps // 2)),
            "lengths": rng.random() < 0.4, "blank": rng.choice(["first", "last"])}


@kind("ctc_loss", one(_ctc_params, lambda shape: len(shape) == 3 and shape[0] > 1 and shape[1] > 0
                      and shape[2] > 2))
def _(scope, args, params):
    """Labels without repetitions next to each other, so that a path exists."""
    (steps, batch, count), rng = params["shape"], np.random.default_rng(params["seed"])
    first = params["blank"] == "first"
    labels = np.array([[int(first) + (start + i) % (count - 1) for i in range(params["most"])]
                       for start in rng.integers(0, count - 1, batch)])
    lengths = {}
    if params["lengths"]:
        short = np.maximum(params["most"], steps - rng.integers(0, 2, batch))
        lengths = {"data_lengths": fixed(scope, "data_lengths", short),
                   "label_lengths": fixed(scope, "label_lengths",
                                          rng.integers(1, params["most"] + 1, batch)),
                   "use_data_lengths": True, "use_label_lengths": True}
    return [scope.mx.sym.CTCLoss(args[0], fixed(scope, "label", labels), name=scope.name,
                                 blank_label=params["blank"], **lengths)]


# -- detection ------------------------------------------------------------------------------------

def _image(shape: Shape) -> bool:
    return len(shape) == 4 and 0 not in shape and 4 <= shape[2] * shape[3] <= 144


def apart(scope: Scope, x: Any, shape: Shape, seed: int, name: str = "apart") -> Any:
    """Numbers of this shape between 0 and 1, all different by 1e-3 or more, the order of which
    follows from rounded values of `x`."""
    sym, size = scope.mx.sym, prod(shape)
    order = np.random.default_rng(seed).permutation(size).reshape(shape)
    flat = sym.reshape(sym.tile(sym.reshape(x, shape=(-1,)), reps=(size,)), shape=(-1,))
    near = sym.slice_axis(flat, axis=0, begin=0, end=size)
    coarse = sym.round(sym.sigmoid(sym.BlockGrad(near)) * 3) / 4
    spread = fixed(scope, name, (order + 1) / (8 * size + 8))
    return sym.reshape(coarse, shape=shape) + spread


def boxes(count: int, seed: int) -> np.ndarray:
    """Boxes (count, 4): x0, y0, x1, y1 in sixteenths, within the unit square."""
    rng = np.random.default_rng(seed)
    low = rng.integers(0, 10, (count, 2))
    return np.concatenate([low, low + rng.integers(2, 7, (count, 2))], axis=1) / 16


def _ground_truth(batch: int, seed: int) -> np.ndarray:
    """Labels (batch, 3, 5) of one or two objects each, then padding."""
    found = np.full((batch, 3, 5), -1.0)
    for i in range(batch):
        some = 1 + (seed + i) % 2
        found[i, :some, 0] = np.arange(some) % 2
        found[i, :some, 1:] = boxes(some, seed + i) + 0.004 * np.arange(1, 5)
    return found


@kind("multibox", one(lambda rng, shape: {
    "shape": shape, "seed": rng.randrange(99), "sizes": rng.choice([(.5,), (.4, .2)]),
    "ratios": rng.choice([(1,), (1, 2)]), "clip": rng.random() < 0.5,
    "part": rng.choice(["target", "target", "detection", "prior"]),
    "overlap": rng.choice([0.3, 0.5]), "mining": rng.random() < 0.3,
    "nms_topk": rng.choice([-1, 5])}, _image), smooth=False, stable=False)
def _(scope, args, params):
    """The heads of SSD: priors of an image, with targets or detections."""
    (batch, _, height, width), sym = params["shape"], scope.mx.sym
    anchors = sym.contrib.MultiBoxPrior(args[0], sizes=params["sizes"], ratios=params["ratios"],
                                        clip=params["clip"])
    count = height * width * (len(params["sizes"]) + len(params["ratios"]) - 1)
    if params["part"] == "prior":
        return [anchors]
    scores = apart(scope, args[0], (batch, 3, count), params["seed"])
    if params["part"] == "target":
        label = fixed(scope, "truth", _ground_truth(batch, params["seed"]))
        mining = {"negative_mining_ratio": 2} if params["mining"] else {}
        return list(sym.contrib.MultiBoxTarget(anchors, label, scores, name=scope.name,
                                               overlap_threshold=params["overlap"], **mining))
    offsets = sym.reshape(apart(scope, args[0], (batch, 4 * count), params["seed"] + 1, "offsets"),
                          shape=(batch, 4 * count))
    return [sym.contrib.MultiBoxDetection(scores, offsets, anchors, name=scope.name,
                                          nms_threshold=params["overlap"],
                                          nms_topk=params["nms_topk"])]


@kind("proposal", one(lambda rng, shape: {
    "shape": shape, "seed": rng.randrange(99), "scales": rng.choice([(2,), (2, 4)]),
    "ratios": (0.5, 1), "many": shape[0] > 1 or rng.random() < 0.5,
    "options": {"rpn_pre_nms_top_n": 12, "rpn_post_nms_top_n": 4, "rpn_min_size": 4,
                "threshold": rng.choice([0.5, 0.7]), "output_score": rng.random() < 0.4}},
    lambda shape: _image(shape) and shape[0] <= 4), smooth=False, stable=False)
def _(scope, args, params):
    (batch, _, height, width), sym = params["shape"], scope.mx.sym
    count = len(params["scales"]) * len(params["ratios"])
    scores = apart(scope, args[0], (batch, 2 * count, height, width), params["seed"])
    offsets = apart(scope, args[0], (batch, 4 * count, height, width), params["seed"] + 1,
                    "offsets") * 0.2
    info = fixed(scope, "info", np.array([[16 * height, 16 * width, 1]] * batch))
    op = sym.contrib.MultiProposal if params["many"] else sym.contrib.Proposal
    found = op(scores, offsets, info, name=scope.name, scales=params["scales"],
               ratios=params["ratios"], **params["options"])
    return list(found)


@kind("regions", one(lambda rng, shape: {
    "shape": shape, "seed": rng.randrange(99), "count": rng.randint(1, 4),
    "op": rng.choice(["ROIPooling", "ROIAlign"]), "size": rng.choice([(2, 2), (3, 1)]),
    "scale": rng.choice([1, 0.5])}, _image), smooth=False)
def _(scope, args, params):
    """Pooling of regions whose coordinates are those of pixels."""
    (batch, _, height, width), rng = params["shape"], np.random.default_rng(params["seed"])
    rows = params["count"]
    low = rng.integers(0, (width, height), (rows, 2))
    high = low + rng.integers(0, 4, (rows, 2))
    rois = fixed(scope, "rois", np.concatenate(
        [rng.integers(0, batch, (rows, 1)), low, high], axis=1))
    sym, options = scope.mx.sym, {"pooled_size": params["size"], "spatial_scale": params["scale"]}
    if params["op"] == "ROIPooling":
        return [sym.ROIPooling(args[0], rois, name=scope.name, **options)]
    return [sym.contrib.ROIAlign(args[0], rois, name=scope.name, sample_ratio=2, **options)]


@kind("box_nms", one(lambda rng, shape: {
    "shape": shape, "seed": rng.randrange(99), "count": rng.randint(2, 8),
    "options": {"overlap_thresh": rng.choice([0.3, 0.55]), "valid_thresh": 0.05,
                "topk": rng.choice([-1, 3]), "force_suppress": rng.random() < 0.5}},
    lambda shape: len(shape) > 0 and 0 not in shape), smooth=False)
def _(scope, args, params):
    """Rows (class, score, box), sorted by score and thinned out."""
    sym, count = scope.mx.sym, params["count"]
    scores = apart(scope, args[0], (1, count, 1), params["seed"])
    rows = np.concatenate([np.arange(count)[:, None] % 2, boxes(count, params["seed"])], axis=1)
    table = fixed(scope, "rows", rows[None])
    found = sym.Concat(sym.slice_axis(table, axis=2, begin=0, end=1), scores,
                       sym.slice_axis(table, axis=2, begin=1, end=None), dim=2)
    return [sym.contrib.box_nms(found, name=scope.name, id_index=0, coord_start=2, score_index=1,
                                **params["options"])]


def options_of(params: Mapping[str, Any]) -> set[str]:
    """The options of a loss layer that are not its defaults."""
    return {name for name, value in params.get("options", {}).items()
            if value not in (False, "null", 0, 1)}
