"""Faster R-CNN, small: trained by `DetModule` on drawn shapes, judged by mean average precision.

A region proposal network scores anchors, boxes of fixed sizes around every cell of a feature map,
and moves them towards objects.  The second stage pools the features of sampled proposals,
classifies them and moves them once more.  The operators in between are SimpleDet's
(`nbmod.contrib.simpledet`): `Proposal_v3`, `ProposalTarget`, `ROIAlign_v2`, `DecodeBBox`.

Image sizes vary, so a training step is a list with one batch for each context.
"""

from __future__ import annotations

import argparse
import logging

import numpy as np

import nbmod as mx

CLASSES = ("background", "square", "frame", "cross")
STRIDE, SCALES = 4, (3, 5)  # anchors are squares of 12 and 20 pixels
ANCHORS = {"scales": SCALES, "ratios": (1,), "feature_stride": STRIDE}
SIZES = ((48, 64), (64, 48), (56, 56), (40, 72))
MAX_OBJECTS, ROIS = 2, 16
DATA, LABELS = ["data", "im_info"], ["gt_bbox", "rpn_label", "rpn_target", "rpn_weight"]


# -- network --------------------------------------------------------------------------------------


def conv(x: mx.sym.Symbol, name: str, filters: int, kernel: int = 1, stride: int = 1
         ) -> mx.sym.Symbol:
    return mx.sym.Convolution(x, kernel=(kernel, kernel), stride=(stride, stride),
                              pad=(kernel // 2, kernel // 2), num_filter=filters, name=name)


def relu(x: mx.sym.Symbol) -> mx.sym.Symbol:
    return mx.sym.Activation(x, act_type="relu")


def first_stage() -> tuple[mx.sym.Symbol, ...]:
    """Features, and for the A anchors of every cell scores (N, 2 A, H, W) and offsets (N, 4 A, H,
    W)."""
    x = mx.sym.Variable("data")
    for number, stride in enumerate((2, 2, 1)):
        x = relu(conv(x, f"backbone{number}", 24, 3, stride))
    rpn = relu(conv(x, "rpn_conv", 32, 5))
    return (x, conv(rpn, "rpn_score", 2 * len(SCALES)), conv(rpn, "rpn_move", 4 * len(SCALES)))


def proposals(score: mx.sym.Symbol, move: mx.sym.Symbol, info: mx.sym.Symbol, is_train: bool
              ) -> mx.sym.Symbol:
    """The best of the moved anchors that do not overlap much: (N, 2 ROIS, 4)."""
    prob = mx.sym.softmax(mx.sym.Reshape(score, shape=(0, 2, -1)), axis=1)
    return mx.sym.contrib.Proposal_v3(
        mx.sym.reshape_like(prob, score), move, info, **ANCHORS, rpn_pre_nms_top_n=200,
        rpn_post_nms_top_n=2 * ROIS, threshold=0.7, rpn_min_size=4, is_train=is_train)


def second_stage(features: mx.sym.Symbol, rois: mx.sym.Symbol) -> tuple[mx.sym.Symbol, ...]:
    """Class scores (N R, K) and offsets (N R, 4 K) of every region."""
    pooled = mx.sym.contrib.ROIAlign_v2(features, rois, pooled_size=(5, 5),
                                        spatial_scale=1 / STRIDE)
    x = mx.sym.FullyConnected(mx.sym.Reshape(pooled, shape=(-3, -2)), num_hidden=64, name="box_fc")
    return (mx.sym.FullyConnected(relu(x), num_hidden=len(CLASSES), name="box_class"),
            mx.sym.FullyConnected(relu(x), num_hidden=4 * len(CLASSES), name="box_move"))


def distance(x: mx.sym.Symbol, target: mx.sym.Symbol, weight: mx.sym.Symbol, scale: float,
             name: str) -> mx.sym.Symbol:
    error = mx.sym.broadcast_mul(mx.sym.smooth_l1(x - target, scalar=3.0), weight)
    return mx.sym.MakeLoss(error, normalization="batch", grad_scale=scale, name=name)


def training_network() -> mx.sym.Symbol:
    features, score, move = first_stage()
    rois, label, target, weight = mx.sym.contrib.ProposalTarget(
        proposals(score, move, mx.sym.Variable("im_info"), True), mx.sym.Variable("gt_bbox"),
        num_classes=len(CLASSES), batch_images=1, image_rois=ROIS, fg_fraction=0.5, fg_thresh=0.5,
        bg_thresh_hi=0.5, bg_thresh_lo=0, proposal_without_gt=False)
    label, target, weight = (mx.sym.Reshape(x, shape=(-3, -2)) for x in (label, target, weight))
    box_score, box_move = second_stage(features, rois)
    return mx.sym.Group([
        mx.sym.SoftmaxOutput(mx.sym.Reshape(score, shape=(0, 2, -1)), mx.sym.Variable("rpn_label"),
                             multi_output=True, use_ignore=True, ignore_label=-1,
                             normalization="valid", name="rpn"),
        distance(move, mx.sym.Variable("rpn_target"), mx.sym.Variable("rpn_weight"), 0.2,
                 "rpn_distance"),
        mx.sym.SoftmaxOutput(box_score, label, normalization="batch", name="box"),
        distance(box_move, target, weight, 1.0, "box_distance"),
        mx.sym.BlockGrad(label, name="sampled")])


def detection_network() -> mx.sym.Symbol:
    """Class probabilities (N R, K) and boxes (N, R, 4 K)."""
    (features, score, move), info = first_stage(), mx.sym.Variable("im_info")
    rois = proposals(score, move, info, False)
    box_score, box_move = second_stage(features, rois)
    boxes = mx.sym.contrib.DecodeBBox(
        rois, mx.sym.Reshape(box_move, shape=(-4, -1, 2 * ROIS, 0)), info, class_agnostic=False)
    return mx.sym.Group([mx.sym.softmax(box_score), boxes])


# -- images and targets ---------------------------------------------------------------------------


def draw(rng: np.random.Generator, size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """An image with one or two shapes, and rows (left, top, right, bottom, class), -1 in rows
    that are left over."""
    image = 0.3 * rng.standard_normal(size)
    objects = np.full((MAX_OBJECTS, 5), -1.0)
    across = int(size[1] > size[0])  # the longer axis is divided between the objects
    for number in range(rng.integers(1, MAX_OBJECTS + 1)):
        side, kind = rng.integers(10, 22), rng.integers(1, len(CLASSES))
        start, end = np.zeros(2, int), np.array(size)
        start[across] = number * size[across] // MAX_OBJECTS
        end[across] = (number + 1) * size[across] // MAX_OBJECTS
        y, x = rng.integers(start, end - side + 1)
        image[y:y + side, x:x + side] += shape(CLASSES[kind], side) * rng.uniform(1, 2)
        objects[number] = x, y, x + side - 1, y + side - 1, kind
    return image, objects


def shape(kind: str, side: int) -> np.ndarray:
    patch = np.ones((side, side))
    if kind == "frame":
        patch[3:-3, 3:-3] = 0
    elif kind == "cross":
        patch[:] = 0
        patch[side // 2 - 2:side // 2 + 2] = patch[:, side // 2 - 2:side // 2 + 2] = 1
    return patch


def overlap(boxes: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Intersection over union of every pair of boxes."""
    low = np.maximum(boxes[:, None, :2], others[:, :2])
    high = np.minimum(boxes[:, None, 2:4], others[:, 2:4])
    shared = np.clip(high - low + 1, 0, None).prod(axis=2)
    area, other = ((each[:, 2:4] - each[:, :2] + 1).prod(axis=1) for each in (boxes, others))
    return shared / (area[:, None] + other - shared)


def offsets(boxes: np.ndarray, others: np.ndarray) -> np.ndarray:
    """(dx, dy, dw, dh) that move and scale each box to the other one."""
    size, wanted = (each[:, 2:4] - each[:, :2] + 1 for each in (boxes, others))
    shift = (others[:, :2] + wanted / 2 - boxes[:, :2] - size / 2) / size
    return np.concatenate([shift, np.log(wanted / size)], axis=1)


def anchor_targets(rng: np.random.Generator, size: tuple[int, int], objects: np.ndarray
                   ) -> tuple[np.ndarray, ...]:
    """Labels (A H W,): 1 object, 0 background, -1 ignored; offsets and weights (4 A, H, W)."""
    rows, columns = (-(-extent // STRIDE) for extent in size)
    boxes = mx.nd.contrib.GenAnchor(mx.nd.zeros((1, 1, rows, columns)), **ANCHORS).asnumpy()
    objects = objects[objects[:, 4] > 0]
    near = overlap(boxes, objects)
    label = np.where(near.max(axis=1) > 0.5, 1, np.where(near.max(axis=1) < 0.3, 0, -1))
    label[near.argmax(axis=0)] = 1
    background = np.flatnonzero(label == 0)
    label[rng.permutation(background)[3 * (label == 1).sum():]] = -1

    def planes(values: np.ndarray) -> np.ndarray:
        """(H W A, n) as (A n, H, W)."""
        return values.reshape(rows, columns, -1).transpose(2, 0, 1)

    target = planes(offsets(boxes, objects[near.argmax(axis=1)]))
    weight = planes(np.repeat((label == 1)[:, None], 4, axis=1))
    return planes(label[:, None]).ravel(), target, weight


def batch(rng: np.random.Generator, size: tuple[int, int], count: int) -> mx.io.DataBatch:
    """`count` images of one size."""
    rows = []
    for _ in range(count):
        image, objects = draw(rng, size)
        rows.append((image[None], (*size, 1), objects, *anchor_targets(rng, size, objects)))
    arrays = [mx.nd.array(np.stack(column)) for column in zip(*rows, strict=True)]
    return mx.io.DataBatch(arrays[:2], arrays[2:], pad=0)


class Loader(mx.io.DataIter):
    """Steps of one batch for each context, every batch with an image size of its own."""

    def __init__(self, steps: int, contexts: int, per_context: int):
        super().__init__(contexts * per_context)
        self.steps, self.contexts, self.per_context = steps, contexts, per_context
        self.rng, self.left = np.random.default_rng(0), steps
        first = batch(np.random.default_rng(0), SIZES[0], self.batch_size)
        self.provide_data, self.provide_label = (
            [mx.io.DataDesc(name, array.shape) for name, array in zip(names, arrays, strict=True)]
            for names, arrays in ((DATA, first.data), (LABELS, first.label)))

    def reset(self) -> None:
        self.left = self.steps

    def next(self) -> list[mx.io.DataBatch]:
        if not self.left:
            raise StopIteration
        self.left -= 1
        sizes = self.rng.permutation(len(SIZES))[:self.contexts]
        return [batch(self.rng, SIZES[size], self.per_context) for size in sizes]


# -- evaluation -----------------------------------------------------------------------------------


def detect(module: mx.mod.Module, image: np.ndarray) -> np.ndarray:
    """Rows (class, score, left, top, right, bottom) of an image, without duplicates."""
    module.forward(mx.io.DataBatch([mx.nd.array(image[None, None]),
                                    mx.nd.array([(*image.shape, 1)])]))
    score, boxes = (output.asnumpy() for output in module.get_outputs())
    boxes, kind = boxes.reshape(len(score), -1, 4), np.arange(1, len(CLASSES))
    rows = np.concatenate([np.broadcast_to(kind[:, None], (len(score), len(kind), 1)),
                           score[:, 1:, None], boxes[:, 1:]], axis=2)
    kept = mx.nd.contrib.box_nms(mx.nd.array(rows.reshape(-1, 6)), overlap_thresh=0.4,
                                 valid_thresh=0.05, id_index=0, coord_start=2, score_index=1)
    kept = kept.asnumpy()
    return kept[kept[:, 1] > 0]


def average_precision(found: list[np.ndarray], objects: list[np.ndarray]) -> float:
    """The area under precision over recall of one class; a detection is right if it overlaps an
    object, which no better one has, by more than a half."""
    outcomes = []
    for boxes, truth in zip(found, objects, strict=True):
        free = np.ones(len(truth), bool)
        for row in boxes:  # in the order of scores
            near = overlap(row[None, 2:], truth)[0] * free if len(truth) else np.zeros(1)
            right = near.max() > 0.5
            if right:
                free[near.argmax()] = False
            outcomes.append((row[1], right))
    right = np.array([right for _, right in sorted(outcomes, key=lambda pair: -pair[0])], bool)
    precision = np.cumsum(right) / np.arange(1, len(right) + 1)
    best = np.maximum.accumulate(precision[::-1])[::-1]  # at this recall or a larger one
    return float(best[right].sum() / sum(map(len, objects)))


def mean_average_precision(params: tuple[dict, dict], count: int) -> float:
    """That of new images, over the classes."""
    module = mx.mod.Module(detection_network(), DATA, label_names=None)
    module.bind([("data", (1, 1, *SIZES[0])), ("im_info", (1, 3))], for_training=False)
    module.set_params(*params)
    rng, found, objects = np.random.default_rng(1), [], []
    for number in range(count):
        image, boxes = draw(rng, SIZES[number % len(SIZES)])
        found.append(detect(module, image))
        objects.append(boxes)
    return float(np.mean([average_precision(
        [rows[rows[:, 0] == kind] for rows in found],
        [rows[rows[:, 4] == kind] for rows in objects]) for kind in range(1, len(CLASSES))]))


# -- training -------------------------------------------------------------------------------------


def rpn_accuracy(labels: np.ndarray, scores: np.ndarray) -> float:
    """Over the anchors that are not ignored."""
    return float((scores.argmax(axis=1) == labels)[labels >= 0].mean())


class BoxAccuracy(mx.metric.EvalMetric):
    """Accuracy of the second stage, whose labels are an output."""

    def __init__(self) -> None:
        super().__init__("box accuracy", output_names=["box_output", "sampled_output"],
                         label_names=[])

    def update(self, labels: list, preds: list) -> None:
        scores, sampled = (each.asnumpy() for each in preds)
        self.sum_metric += float((scores.argmax(axis=1) == sampled).sum())
        self.num_inst += len(sampled)


def metrics() -> mx.metric.CompositeEvalMetric:
    return mx.metric.create([BoxAccuracy(), mx.metric.CustomMetric(
        rpn_accuracy, "rpn accuracy", output_names=["rpn_output"], label_names=["rpn_label"])])


def main(argv: list[str] | None = None) -> float:
    """Train, and return the mean average precision of the last epoch."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--contexts", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--steps", type=int, default=40, help="per epoch")
    parser.add_argument("--images", type=int, default=4, help="per context and step")
    parser.add_argument("--test-images", type=int, default=60)
    args = parser.parse_args(argv)

    mx.random.seed(0)
    train = Loader(args.steps, args.contexts, args.images)
    module = mx.mod.DetModule(training_network(), DATA, LABELS,
                              context=[mx.cpu(i) for i in range(args.contexts)])
    precision = []

    def evaluate(epoch: int, symbol: mx.sym.Symbol, *params: dict) -> None:
        precision.append(mean_average_precision(params, args.test_images))
        logging.info("Epoch[%d] Mean average precision=%.3f", epoch, precision[-1])

    module.fit(train, eval_metric=metrics(), num_epoch=args.epochs, initializer=mx.init.Xavier(),
               optimizer="adam", optimizer_params={"learning_rate": 0.003, "rescale_grad": 1.0},
               epoch_end_callback=evaluate)
    return precision[-1]


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    print(f"mean average precision: {main():.2f}")
