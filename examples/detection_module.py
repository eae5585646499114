"""A two-stage detector in the shape of Faster R-CNN, trained by `DetModule` on drawn shapes.

The first stage scores anchors, boxes of fixed sizes around every cell of the feature map, and
regresses them to the object; the second classifies a box from the features inside it.  Image sizes
vary, so a training step is a list with one batch for each context.

Pooling over a box is a matrix product: its mask over the cells, of sum 1, times the features.
"""

from __future__ import annotations

import argparse
import logging

import numpy as np

import nbmod as mx

CLASSES = ("background", "square", "frame", "cross")
STRIDE, ANCHORS = 4, (12, 20)
SIZES = ((48, 64), (64, 48), (56, 56), (40, 72))


def heads() -> tuple[mx.sym.Symbol, ...]:
    """Score and offsets of every anchor, and class scores of every box in `masks`."""
    x = mx.sym.Variable("data")
    for number, stride in enumerate((2, 2, 1)):
        x = mx.sym.Convolution(x, kernel=(3, 3), stride=(stride, stride), pad=(1, 1),
                               num_filter=24, name=f"backbone{number}")
        x = mx.sym.Activation(x, act_type="relu")
    rpn = mx.sym.Convolution(x, kernel=(5, 5), pad=(2, 2), num_filter=32, name="rpn_conv")
    rpn = mx.sym.Activation(rpn, act_type="relu")
    score = mx.sym.Convolution(rpn, kernel=(1, 1), num_filter=2 * len(ANCHORS), name="rpn_score")
    move = mx.sym.Convolution(rpn, kernel=(1, 1), num_filter=4 * len(ANCHORS), name="rpn_move")
    pooled = mx.sym.batch_dot(mx.sym.Variable("masks"), mx.sym.Reshape(x, shape=(0, 0, -1)),
                              transpose_b=True)
    box = mx.sym.FullyConnected(pooled, num_hidden=32, flatten=False, name="box_fc")
    box = mx.sym.FullyConnected(mx.sym.Activation(box, act_type="relu"), flatten=False,
                                num_hidden=len(CLASSES), name="box_class")
    return (mx.sym.Reshape(score, shape=(0, 2, -1)), mx.sym.Reshape(move, shape=(0, 4, -1)),
            mx.sym.Reshape(box, shape=(-1, len(CLASSES))))


def training_network() -> mx.sym.Symbol:
    score, move, box = heads()
    error = mx.sym.smooth_l1(mx.sym.broadcast_mul(
        move - mx.sym.Variable("rpn_target"), mx.sym.Variable("rpn_weight")), scalar=3.0)
    return mx.sym.Group([
        mx.sym.SoftmaxOutput(score, mx.sym.Variable("rpn_label"), multi_output=True,
                             use_ignore=True, ignore_label=-1, normalization="valid", name="rpn"),
        mx.sym.MakeLoss(error, normalization="batch", grad_scale=0.2, name="rpn_error"),
        mx.sym.SoftmaxOutput(box, mx.sym.Reshape(mx.sym.Variable("box_label"), shape=(-1,)),
                             normalization="valid", name="box")])


# -- images, boxes and targets ------------------------------------------------------------------


def draw(rng: np.random.Generator, size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray, int]:
    """An image with one shape in it, the box around the shape, and its class."""
    image = 0.3 * rng.standard_normal(size)
    side, kind = rng.integers(10, 22), rng.integers(1, len(CLASSES))
    y, x = (rng.integers(0, extent - side) for extent in size)
    patch = np.zeros((side, side))
    if CLASSES[kind] == "cross":
        patch[side // 2 - 2:side // 2 + 2] = patch[:, side // 2 - 2:side // 2 + 2] = 1
    else:
        patch[:] = 1
        if CLASSES[kind] == "frame":
            patch[3:-3, 3:-3] = 0
    image[y:y + side, x:x + side] += patch * rng.uniform(1, 2)
    return image, np.array([x, y, x + side, y + side], np.float32), int(kind)


def cells(size: tuple[int, int]) -> tuple[int, int]:
    return -(-size[0] // STRIDE), -(-size[1] // STRIDE)


def anchors(size: tuple[int, int]) -> np.ndarray:
    """(anchors of a cell * cells, 4) boxes, in the order of the network's outputs."""
    rows, columns = cells(size)
    y, x = np.mgrid[:rows, :columns] * STRIDE + STRIDE / 2
    return np.concatenate([np.stack([x - side / 2, y - side / 2, x + side / 2, y + side / 2], -1)
                           .reshape(-1, 4) for side in ANCHORS])


def overlap(boxes: np.ndarray, box: np.ndarray) -> np.ndarray:
    """Intersection over union of every box with one."""
    low, high = np.maximum(boxes[:, :2], box[:2]), np.minimum(boxes[:, 2:], box[2:])
    shared = np.clip(high - low, 0, None).prod(axis=1)
    area = (boxes[:, 2:] - boxes[:, :2]).prod(axis=1) + (box[2:] - box[:2]).prod()
    return shared / (area - shared)


def moved(boxes: np.ndarray, moves: np.ndarray) -> np.ndarray:
    """Boxes shifted and scaled; the inverse of `moves_to`."""
    extent = boxes[:, 2:] - boxes[:, :2]
    centre = (boxes[:, 2:] + boxes[:, :2]) / 2 + moves[:, :2] * extent
    half = extent * np.exp(moves[:, 2:]) / 2
    return np.concatenate([centre - half, centre + half], axis=1)


def moves_to(boxes: np.ndarray, box: np.ndarray) -> np.ndarray:
    extent, wanted = boxes[:, 2:] - boxes[:, :2], box[2:] - box[:2]
    shift = (box[2:] + box[:2] - boxes[:, 2:] - boxes[:, :2]) / 2 / extent
    return np.concatenate([shift, np.log(wanted / extent)], axis=1)


def mask(box: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """The weight of each cell in the average of features over a box."""
    rows, columns = cells(size)
    x1, y1, x2, y2 = box / STRIDE
    inside = np.outer(np.clip(np.minimum(np.arange(rows) + 1, y2) - np.maximum(
        np.arange(rows), y1), 0, 1), np.clip(np.minimum(np.arange(columns) + 1, x2) - np.maximum(
            np.arange(columns), x1), 0, 1))
    return inside.ravel() / max(inside.sum(), 1e-6)


def anchor_targets(rng: np.random.Generator, size: tuple[int, int], box: np.ndarray
                   ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labels (1 object, 0 background, -1 ignored), offsets and their weights."""
    boxes = anchors(size)
    near = overlap(boxes, box)
    label = np.where(near > 0.5, 1, np.where(near < 0.3, 0, -1))
    label[near.argmax()] = 1
    background = np.flatnonzero(label == 0)
    label[rng.permutation(background)[3 * (label == 1).sum():]] = -1
    return label, moves_to(boxes, box).T, (label == 1)[None]


def batch(rng: np.random.Generator, size: tuple[int, int], count: int) -> mx.io.DataBatch:
    """`count` images of one size; for the second stage two boxes at the object and two
    elsewhere."""
    rows = []
    for _ in range(count):
        image, box, kind = draw(rng, size)
        away = anchors(size)
        away = away[overlap(away, box) < 0.1]
        rois = [*(box + rng.uniform(-2, 2, (2, 4))), *rng.permutation(away)[:2]]
        rows.append((image[None], np.stack([mask(roi, size) for roi in rois]),
                     *anchor_targets(rng, size, box), np.array([kind, kind, 0, 0])))
    arrays = [mx.nd.array(np.stack(column)) for column in zip(*rows, strict=True)]
    return mx.io.DataBatch(arrays[:2], arrays[2:], pad=0)


DATA, LABELS = ["data", "masks"], ["rpn_label", "rpn_target", "rpn_weight", "box_label"]


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


# -- training and detecting ---------------------------------------------------------------------


def objects_found(labels: np.ndarray, scores: np.ndarray) -> float:
    """Accuracy of the first stage over the anchors that are not ignored."""
    return float((scores.argmax(axis=1) == labels)[labels >= 0].mean())


def objects_named(labels: np.ndarray, scores: np.ndarray) -> float:
    return float((scores.argmax(axis=1) == labels.ravel()).mean())


def metrics() -> mx.metric.CompositeEvalMetric:
    names = (("rpn", objects_found), ("box", objects_named))
    return mx.metric.create([mx.metric.CustomMetric(
        function, f"{name} accuracy", output_names=[f"{name}_output"],
        label_names=[f"{name}_label"]) for name, function in names])


def detect(module: mx.mod.Module, image: np.ndarray) -> tuple[np.ndarray, int]:
    """The best box of an image, and its class."""
    def run(masks: np.ndarray) -> list[np.ndarray]:
        module.forward(mx.io.DataBatch([mx.nd.array(image[None, None]), mx.nd.array(masks[None])]))
        return [output.asnumpy() for output in module.get_outputs()]

    score, moves, _ = run(np.zeros((1, np.prod(cells(image.shape)))))
    boxes = moved(anchors(image.shape), moves[0].T)
    best = boxes[(score[0, 1] - score[0, 0]).argmax()]
    return best, int(run(mask(best, image.shape)[None])[2][0].argmax())


def detector(params: tuple[dict, dict]) -> mx.mod.Module:
    """The network without its losses, for a batch of one image."""
    module = mx.mod.Module(mx.sym.Group(heads()), DATA, label_names=None)
    one = batch(np.random.default_rng(0), SIZES[0], 1)
    module.bind([("data", one.data[0].shape), ("masks", (1, 1, one.data[1].shape[2]))],
                for_training=False)
    module.set_params(*params)
    return module


def main(argv: list[str] | None = None) -> float:
    """Train, and return the share of new images whose object is found (IoU > 0.5) and classified
    correctly."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--contexts", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--steps", type=int, default=40, help="per epoch")
    parser.add_argument("--images", type=int, default=4, help="per context and step")
    args = parser.parse_args(argv)

    mx.random.seed(0)
    train = Loader(args.steps, args.contexts, args.images)
    module = mx.mod.DetModule(training_network(), DATA, LABELS,
                              context=[mx.cpu(i) for i in range(args.contexts)],
                              fixed_param=["backbone0"], excluded_param=["bias"])
    module.fit(train, eval_metric=metrics(), num_epoch=args.epochs, initializer=mx.init.Xavier(),
               optimizer="adam", optimizer_params={"learning_rate": 0.003, "rescale_grad": 1.0},
               batch_end_callback=mx.callback.Speedometer(train.batch_size, frequent=20))

    trained, rng, right = detector(module.get_params()), np.random.default_rng(1), []
    for number in range(50):
        image, box, kind = draw(rng, SIZES[number % len(SIZES)])
        found, named = detect(trained, image)
        right.append(overlap(found[None], box)[0] > 0.5 and named == kind)
    return float(np.mean(right))


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    print(f"found and named: {main():.2f}")
