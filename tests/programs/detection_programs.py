"""Programs over the detection part of `mx.image` of either package; random values start from the
same seeds.
"""

from __future__ import annotations

import os
import random
import tempfile
from typing import Any

import numpy as np

from tests.programs import image_record_programs


def evaluate(mx: Any, expressions: list[str]) -> list[Any]:
    """The value of each expression over I, which is mx.image, a uint8 image `im` and the label
    `objects` of three of its objects: pixels as values, then everything else."""
    answers = []
    for expression in expressions:
        random.seed(5)
        im = mx.nd.array(image_record_programs.ramps(30, 40, 1), dtype="uint8")
        objects = np.array([[1, .1, .2, .5, .6], [0, .4, .3, .9, .8], [2, 0, 0, .05, .05]], "f")
        value = eval(expression, {"mx": mx, "I": mx.image, "np": np, "im": im, "objects": objects})
        answers.append([value[0].asnumpy(), value[1]] if isinstance(value, tuple) else value)
    return answers


def reframed(mx: Any, count: int) -> list[Any]:
    """Crops and borders by random parameters of random images with random labels, some of them
    partly outside or without area: augmenter, pixels, label, and the next random number."""
    answers = []
    for number in range(count):
        rng = np.random.RandomState(number)
        height, width = rng.randint(1, 60, 2)
        im = mx.nd.array(rng.randint(0, 256, (height, width, 3)), dtype="uint8")
        low = rng.uniform(-.1, 1.1, (rng.randint(0, 6), 2))
        high = low + np.abs(rng.normal(0, rng.choice([.05, .3, .8]), low.shape))
        objects = np.concatenate([rng.randint(-1, 4, (len(low), 1)), low, high, low[:, :1]], 1)
        if number % 4:
            objects[:, 1:5] = objects[:, 1:5].clip(0, 1)
        ratios = tuple(np.sort(rng.uniform(.05, 4, 2)).tolist())
        attempts = int(rng.choice([1, 3, 50]))
        random.seed(number)
        if number % 2:
            areas = tuple(np.sort(rng.uniform(0, 1.3, 2)).round(rng.randint(1, 4)).tolist())
            aug = mx.image.DetRandomCropAug(float(rng.choice([0, .1, .5, .9])), ratios,
                                            (areas[0], areas[1] + .1),
                                            float(rng.choice([0, .3, .7, 1])), attempts)
        else:
            areas = rng.uniform(.5, 2), rng.uniform(2, 5)
            aug = mx.image.DetRandomPadAug(ratios, areas, attempts, (1, 2, 3))
        pixels, label = aug(im, objects.astype("f"))
        answers.append([aug.dumps(), pixels.asnumpy(), label, random.random()])
    return answers


def label_of(boxes: list[list[float]], more: int = 0, width: int = 5) -> list[float]:
    """The label of a record: `more` elements, then objects of `width` elements each."""
    objects = [[*box, *range(width - 5)] for box in boxes]
    return [2 + more, width, *range(more), *(number for row in objects for number in row)]


BOXES = [[[3, .1, .2, .5, .6]],
         [[0, .4, .3, .9, .8], [1, 0, 0, .5, .5], [2, .25, .5, .75, 1]],
         [[1, .2, .2, .2, .9], [2, .1, .1, .4, .9]],  # the first has no area
         [[-1, .1, .1, .9, .9]],  # no class: ignored
         [[4, .5, .5, 1, 1], [5, 0, .1, .9, .2]]]


def written(mx: Any, folder: str, more: int = 0, width: int = 5) -> list[Any]:
    """Five images with objects: a.rec, a.idx, a.lst, and 0.png ...; the list for `imglist`."""
    writer = mx.recordio.MXIndexedRecordIO(os.path.join(folder, "a.idx"),
                                           os.path.join(folder, "a.rec"), "w")
    listed = []
    with open(os.path.join(folder, "a.lst"), "w") as lines:
        for number, boxes in enumerate(BOXES):
            label = label_of(boxes, more, width)
            header = mx.recordio.IRHeader(0, np.array(label, np.float32), number, 0)
            record = mx.recordio.pack_img(header, image_record_programs.ramps(30, 40, number), 3,
                                          ".png")
            writer.write_idx(number, record)
            with open(os.path.join(folder, f"{number}.png"), "wb") as file:
                file.write(mx.recordio.unpack(record)[1])
            lines.write("\t".join(map(str, [number, *label, f"{number}.png"])) + "\n")
            listed.append([label, f"{number}.png"])
    writer.close()
    return listed


def iterator(mx: Any, folder: str, options: dict[str, Any]) -> Any:
    """An ImageDetIter over them; file names are replaced by paths, `imglist` by the list."""
    options = {"batch_size": 2, "data_shape": (3, 20, 25), **options}
    listed = written(mx, folder, options.pop("more", 0), options.pop("width", 5))
    paths = {key: os.path.join(folder, value) if key.startswith("path_") else value
             for key, value in options.items()}
    if "imglist" in options:
        paths["imglist"] = listed
    random.seed(3)
    np.random.seed(3)
    return mx.image.ImageDetIter(**paths)


def batches(mx: Any, options: dict[str, Any], epochs: int = 3) -> list[Any]:
    """Descriptions, then the contents of each batch of an ImageDetIter."""
    with tempfile.TemporaryDirectory() as folder:
        made = iterator(mx, folder, options)
        answers: list[Any] = [[tuple(desc) for desc in made.provide_data],
                              [tuple(desc) for desc in made.provide_label], made.label_shape]
        for _ in range(epochs):
            answers += [[*(a.asnumpy() for a in batch.data + batch.label), batch.pad]
                        for batch in made]
            made.reset()
        return [*answers, random.random()]


def shapes(mx: Any) -> list[Any]:
    """Labels made larger by `reshape` and `sync_label_shape`."""
    with tempfile.TemporaryDirectory() as folder:
        one, other = (iterator(mx, folder, {"imglist": True, "num_parts": 5, "part_index": k,
                                            "path_root": ""}) for k in (0, 1))
        answers = [one.label_shape, other.label_shape]
        assert one.sync_label_shape(other) is other
        answers += [one.label_shape, other.label_shape, tuple(one.provide_label[0])]
        other.reshape(label_shape=(4, 5))
        assert one.sync_label_shape(other, verbose=True) is other
        answers += [one.label_shape, one.provide_label[0][1], one.next().label[0].asnumpy()]
        one.check_label_shape((6, 5))
        return answers


def parsed(mx: Any, labels: list[Any]) -> list[Any]:
    """Results of `_parse_label` for labels, and of `_check_valid_label` for those; "refused" for
    errors of either."""
    with tempfile.TemporaryDirectory() as folder:
        made = iterator(mx, folder, {"path_imgrec": "a.rec"})
        answers = []
        for label in labels:
            try:
                answers.append(made._parse_label(np.array(label, np.float32)))
                made._check_valid_label(answers[-1])
            except RuntimeError:
                answers.append("refused")
        return answers


def drawn_images(mx: Any, options: dict[str, Any], drawing: dict[str, Any]) -> list[np.ndarray]:
    """The results of `draw_next`."""
    with tempfile.TemporaryDirectory() as folder:
        made = iterator(mx, folder, {"path_imgrec": "a.rec", "data_shape": (3, 60, 80), **options})
        return list(made.draw_next(**drawing))
