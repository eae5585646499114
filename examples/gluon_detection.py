"""A single-shot detector (SSD) with Gluon: boxes and classes of drawn shapes from one network.

Feature maps of two sizes have anchors (`MultiBoxPrior`), boxes of some sizes around every cell.
For each anchor the network predicts a class and how the box differs from the anchor.
`MultiBoxTarget` assigns objects to anchors, and picks those without an object that are hardest to
train on; `MultiBoxDetection` decodes predictions and drops boxes that overlap better ones.

Images and the mean average precision are those of `detection_module.py`.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from detection_module import CLASSES, average_precision, draw

import nbmod as mx
from nbmod import autograd, gluon, nd
from nbmod.gluon import nn

SIDE = 48
SCALES = ((0.2, 0.28), (0.36, 0.44))
"""Sides of the anchors of each feature map, relative to the image."""


class Detector(gluon.HybridBlock):
    """Images (N, 1, SIDE, SIDE) to A anchors (1, A, 4), scores of K classes and the background
    (N, K + 1, A), and offsets (N, 4 A)."""

    def __init__(self, channels: int):
        super().__init__(prefix="ssd_")
        with self.name_scope():
            self.stages, self.scores, self.offsets = (nn.HybridSequential() for _ in range(3))
            for number, sizes in enumerate(SCALES):
                self.stages.add(self._stage(channels << number, 1 if number else 3))
                self.scores.add(nn.Conv2D(len(sizes) * len(CLASSES), 3, padding=1))
                self.offsets.add(nn.Conv2D(len(sizes) * 4, 3, padding=1))

    def _stage(self, channels: int, halvings: int) -> nn.HybridSequential:
        stage = nn.HybridSequential()
        with stage.name_scope():
            for _ in range(halvings):
                stage.add(nn.Conv2D(channels, 3, padding=1, use_bias=False), nn.BatchNorm(),
                          nn.Activation("relu"), nn.MaxPool2D())
        return stage

    def hybrid_forward(self, F: Any, x: Any) -> tuple[Any, Any, Any]:
        anchors, scores, offsets = [], [], []
        for number, sizes in enumerate(SCALES):
            x = self.stages[number](x)
            anchors.append(F.contrib.MultiBoxPrior(x, sizes=sizes, ratios=(1,)))
            # Channels last: all numbers of an anchor stand together, as its corners do.
            score, offset = (heads[number](x).transpose((0, 2, 3, 1))
                             for heads in (self.scores, self.offsets))
            scores.append(score.reshape((0, -1, len(CLASSES))))
            offsets.append(offset.reshape((0, -1)))
        return (F.concat(*anchors, dim=1), F.concat(*scores, dim=1).transpose((0, 2, 1)),
                F.concat(*offsets, dim=1))


class Loss(gluon.HybridBlock):
    """The loss of each image: cross entropy of classes, and distance of offsets."""

    def __init__(self) -> None:
        super().__init__()
        self.classes = gluon.loss.SoftmaxCrossEntropyLoss(axis=1, weight=10)
        self.boxes = gluon.loss.HuberLoss(weight=10)

    def hybrid_forward(self, F: Any, scores: Any, offsets: Any, anchors: Any, label: Any) -> Any:
        target, mask, kind = F.contrib.MultiBoxTarget(
            F.BlockGrad(anchors), label, F.BlockGrad(scores), negative_mining_ratio=3)
        # Anchors of class -1 are left out.
        return (self.classes(scores, F.relu(kind), F.expand_dims(kind >= 0, 1))
                + self.boxes(offsets * mask, target))


def images(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Images, and as many rows of a class and four corners for each; -1 where there is no object.

    Classes count from 0, without the background; corners are relative to the image.
    """
    rng = np.random.default_rng(seed)
    drawn, boxes = (np.array(each, np.float32) for each in zip(
        *(draw(rng, (SIDE, SIDE)) for _ in range(count)), strict=True))
    corners = (boxes[..., :4] + (0, 0, 1, 1)) / SIDE      # the last pixel is within the box
    labels = np.concatenate([boxes[..., 4:] - 1, corners], axis=2)
    return drawn[:, None], np.where(boxes[..., 4:] > 0, labels, -1).astype(np.float32)


def train(net: Detector, args: argparse.Namespace) -> None:
    batches = gluon.data.DataLoader(gluon.data.ArrayDataset(*images(args.images, seed=0)),
                                    args.batch_size, shuffle=True, last_batch="discard")
    loss_of = Loss()
    for block in (net, loss_of):
        block.initialize(mx.init.Xavier())
        block.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": args.lr})
    for epoch in range(args.epochs):
        total = 0.0
        for data, label in batches:
            with autograd.record():
                anchors, scores, offsets = net(data)
                loss = loss_of(scores, offsets, anchors, label)
            loss.backward()
            trainer.step(len(data))
            total += float(loss.mean().asscalar())
        print(f"epoch {epoch}: loss {total / len(batches):.3f}")


def mean_average_precision(net: Detector, count: int) -> float:
    """That of new images, over the classes."""
    data, labels = images(count, seed=1)
    anchors, scores, offsets = net(nd.array(data))
    found = nd.contrib.MultiBoxDetection(nd.softmax(scores, axis=1), offsets, anchors,
                                         nms_threshold=0.4, threshold=0.05).asnumpy()
    for rows in (found[..., 2:], labels[..., 1:]):
        rows *= SIDE
        rows[..., 2:] -= 1
    return float(np.mean([average_precision(
        [rows[rows[:, 0] == kind] for rows in found],
        [rows[rows[:, 0] == kind, 1:] for rows in labels]) for kind in range(len(CLASSES) - 1)]))


def main(argv: list[str] | None = None) -> float:
    """Train, and return the mean average precision."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--images", type=int, default=600)
    parser.add_argument("--batch-size", type=int, default=30)
    parser.add_argument("--channels", type=int, default=16, help="of the first convolutions")
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--test-images", type=int, default=100)
    args = parser.parse_args(argv)

    mx.random.seed(0)
    net = Detector(args.channels)
    train(net, args)
    return mean_average_precision(net, args.test_images)


if __name__ == "__main__":
    print(f"mean average precision: {main():.2f}")
