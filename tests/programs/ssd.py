"""A detector with one scale, fed by the record iterator for detection, on either package."""

from __future__ import annotations

import os
import tempfile
from typing import Any

import numpy as np

from tests.programs.iterator_programs import UNDYING

CLASSES, SIDE = 2, 32
SIZES, RATIOS = (.3, .5), (1., 2., .5)
ANCHORS = len(SIZES) + len(RATIOS) - 1


def write(mx: Any, folder: str, count: int) -> str:
    """A record file of images of red and blue rectangles, one or two on each."""
    rng, path = np.random.RandomState(3), os.path.join(folder, "a.rec")
    writer = mx.recordio.MXRecordIO(path, "w")
    for number in range(count):
        image, label = np.full((40, 48, 3), 128, np.uint8), [2, 5]
        for start in range(0, 24 * (1 + number % 2), 24):
            kind = rng.randint(CLASSES)
            left, top = start + rng.randint(8), rng.randint(16)
            right, bottom = left + rng.randint(10, 17), top + rng.randint(10, 24)
            image[top:bottom, left:right] = (0, 0, 255) if kind else (255, 0, 0)
            label += [kind, left / 48, top / 40, right / 48, bottom / 40]
        header = mx.recordio.IRHeader(0, label, number, 0)
        writer.write(mx.recordio.pack_img(header, image, 3, ".png"))
    writer.close()
    return path


def objects(mx: Any, **options: Any) -> Any:
    """The record iterator with its labels as MultiBoxTarget takes them: (batch, objects, 5).

    The first four values of a batch's row are followed by the lengths of header and object.
    """
    inner = mx.io.ImageDetRecordIter(verbose=False, **options)
    UNDYING.append(inner)
    first = inner.next().label[0].asnumpy()
    inner.reset()
    start, width = 4 + int(first[0, 4]), int(first[0, 5])
    count = (first.shape[1] - start) // width

    class Objects(mx.io.DataIter):
        provide_data = inner.provide_data
        provide_label = [mx.io.DataDesc("label", (len(first), count, width))]

        def next(self) -> Any:
            batch = inner.next()
            label = mx.nd.slice_axis(batch.label[0], axis=1, begin=start,
                                     end=start + count * width)
            return mx.io.DataBatch(batch.data, [label.reshape((-1, count, width))], batch.pad)

        def reset(self) -> None:
            inner.reset()

    return Objects(len(first))


def targets(mx: Any, options: dict[str, Any]) -> list[np.ndarray]:
    """The targets of MultiBoxTarget for a grid of 4 times 4 for every batch of an epoch.

    Batches must divide the 10 records: MXNet, reset before the end of an epoch, begins after what
    would have filled the last batch, if its threads have read so far.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = write(mx, folder, 10)
        grid = mx.nd.zeros((1, 1, 4, 4))
        anchors = mx.nd.contrib.MultiBoxPrior(grid, sizes=SIZES, ratios=RATIOS)
        found = []
        for batch in objects(mx, path_imgrec=path, data_shape=(3, SIDE, SIDE), **options):
            scores = mx.nd.zeros((batch.data[0].shape[0], CLASSES + 1, anchors.shape[1]))
            found += [target.asnumpy() for target in
                      mx.nd.contrib.MultiBoxTarget(anchors, batch.label[0], scores)]
        return found


def network(mx: Any) -> Any:
    """Class probabilities, the box loss, and the class targets."""
    sym = mx.sym
    x = sym.Variable("data") / 128 - 1
    for number, filters in enumerate((8, 16, 16)):
        x = sym.Convolution(x, kernel=(3, 3), stride=(2, 2), pad=(1, 1), num_filter=filters,
                            name=f"conv{number}")
        x = sym.Activation(x, act_type="relu")
    anchors = sym.contrib.MultiBoxPrior(x, sizes=SIZES, ratios=RATIOS, clip=True)
    kinds, places = (sym.transpose(sym.Convolution(
        x, kernel=(3, 3), pad=(1, 1), num_filter=ANCHORS * numbers, name=name), (0, 2, 3, 1))
        for name, numbers in (("kinds", CLASSES + 1), ("places", 4)))
    kinds = sym.transpose(sym.reshape(kinds, (0, -1, CLASSES + 1)), (0, 2, 1))
    wanted, mask, kind = sym.contrib.MultiBoxTarget(
        anchors, sym.Variable("label"), kinds, negative_mining_ratio=3,
        negative_mining_thresh=.5, minimum_negative_samples=1)
    chance = sym.SoftmaxOutput(kinds, kind, multi_output=True, use_ignore=True, ignore_label=-1,
                               normalization="valid", name="chance")
    off = sym.smooth_l1(mask * (sym.flatten(places) - wanted), scalar=1.)
    loss = sym.MakeLoss(off, normalization="valid", name="off")
    return sym.Group([chance, loss, sym.BlockGrad(kind), sym.BlockGrad(
        sym.contrib.MultiBoxDetection(chance, sym.flatten(places), anchors, nms_threshold=.4))])


def metric(mx: Any) -> Any:
    """The cross entropy of classes, where there is a target."""
    class Entropy(mx.metric.EvalMetric):
        def update(self, labels: Any, preds: Any) -> None:
            chance, kind = preds[0].asnumpy(), preds[2].asnumpy().astype(int)
            right = np.take_along_axis(chance, kind.clip(0)[:, None], 1)[:, 0][kind >= 0]
            self.sum_metric -= float(np.log(right + 1e-9).sum())
            self.num_inst += right.size

    return Entropy("entropy")
