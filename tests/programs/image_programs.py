"""Programs over `mx.image` of either package; random values start from the same seeds."""

from __future__ import annotations

import os
import random
import tempfile
from typing import Any

import numpy as np

from tests.programs import image_record_programs


def evaluate(mx: Any, expressions: list[str]) -> list[Any]:
    """The value of each expression over I, which is mx.image, a uint8 image `im`, the same as
    float32 `f`, and as float32 (channels, height, width) `c`; three times, for random functions."""
    answers = []
    for expression in expressions:
        random.seed(5)
        np.random.seed(5)
        values = []
        for _ in range(3):
            im = mx.nd.array(image_record_programs.ramps(30, 40, 1), dtype="uint8")
            names = {"mx": mx, "I": mx.image, "np": np, "im": im, "f": im.astype("float32"),
                     "c": im.astype("float32").transpose((2, 0, 1))}
            values.append(plain(eval(expression, names)))
        answers.append(values)
    return answers


def plain(value: Any) -> Any:
    if hasattr(value, "asnumpy"):
        return value.asnumpy()
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def batches(mx: Any, options: dict[str, Any], epochs: int = 2) -> list[Any]:
    """What an ImageIter over seven images yields; file names are replaced by paths."""
    with tempfile.TemporaryDirectory() as folder:
        image_record_programs.write(mx, folder, [(16, 20)] * 7, list(range(7)))
        for number in range(4):
            record = mx.recordio.pack_img((0, 0.0, 0, 0),
                                          image_record_programs.ramps(10, 12, number), 3, ".png")
            with open(os.path.join(folder, f"{number}.png"), "wb") as file:
                file.write(mx.recordio.unpack(record)[1])
        with open(os.path.join(folder, "files.lst"), "w") as listed:
            listed.writelines(f"{k}\t{k + 5}\t{k}.png\n" for k in range(4))
        paths = {key: os.path.join(folder, value) if key.startswith("path_") else value
                 for key, value in options.items()}
        random.seed(3)
        np.random.seed(3)
        iterator = mx.image.ImageIter(**{"batch_size": 3, "data_shape": (3, 8, 8), **paths})
        label, encoded = iterator.next_sample()
        iterator.reset()
        answers: list[Any] = [[tuple(desc) for desc in iterator.provide_data],
                              [tuple(desc) for desc in iterator.provide_label],
                              [type(label).__name__, plain(label), type(encoded).__name__]]
        for _ in range(epochs):
            answers += [[*(a.asnumpy() for a in batch.data + batch.label), batch.pad, batch.index]
                        for batch in iterator]
            iterator.reset()
        return answers


def with_refusals(mx: Any) -> list[Any]:
    """Batches of an ImageIter whose check rejects every second image."""
    class Picky(mx.image.ImageIter):  # type: ignore[misc, name-defined]
        count = 0

        def check_valid_image(self, data: Any) -> None:
            """Odd values only."""
            self.count += 1
            if self.count % 2 == 0:
                raise RuntimeError("even")

    with tempfile.TemporaryDirectory() as folder:
        image_record_programs.write(mx, folder, [(16, 20)] * 7, list(range(7)))
        iterator = Picky(3, (3, 8, 8), path_imgrec=os.path.join(folder, "a.rec"))
        return [[batch.label[0].asnumpy(), batch.pad] for batch in iterator]
