"""Record files of images, made in either package, and the batches of its record iterators."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from tests.programs.iterator_programs import UNDYING, array, described


def ramps(height: int, width: int, number: int, channels: int = 3) -> np.ndarray:
    """Ramps of different slopes, which jump from 255 to 0 in places."""
    y, x = np.mgrid[:height, :width]
    planes = [x * 7 + number * 13, y * 11 + number * 5, x * 3 + y * 5 + number * 40, x * y]
    return (np.stack(planes[:channels], -1) % 256).astype(np.uint8)


def smooth(height: int, width: int, number: int) -> np.ndarray:
    """Waves, which JPEG preserves well."""
    y, x = np.mgrid[:height, :width]
    planes = [127 + 120 * np.sin(x / 9 + number + k) * np.cos(y / 7 - k) for k in range(3)]
    return np.stack(planes, -1).astype(np.uint8)


def write(mx: Any, folder: str, sizes: list[tuple[int, int]], labels: list[Any],
          encoded: list[bytes] | None = None, listed: list[Any] | None = None) -> None:
    """a.rec, a.idx and a.lst: an image of each size with a label or several, as PNG; or those that
    are `encoded`.  The list has other labels: those that are `listed`."""
    writer = mx.recordio.MXIndexedRecordIO(os.path.join(folder, "a.idx"),
                                           os.path.join(folder, "a.rec"), "w")
    for number, (size, label) in enumerate(zip(sizes, labels, strict=True)):
        header = mx.recordio.IRHeader(0, label, number, 0)
        writer.write_idx(number, mx.recordio.pack(header, encoded[number]) if encoded else
                         mx.recordio.pack_img(header, ramps(*size, number), 3, ".png"))
    writer.close()
    with open(os.path.join(folder, "a.lst"), "w") as file:
        for number in range(len(sizes)):
            others = listed[number] if listed else [number * 2, number * 3]
            file.write("\t".join(map(str, [number, *others, "none.png"])) + "\n")


def written(mx: Any, sizes: list[tuple[int, int]], labels: list[Any],
            encoded: list[bytes] | None = None) -> dict[str, bytes]:
    """The files of `write`."""
    with tempfile.TemporaryDirectory() as folder:
        write(mx, folder, sizes, labels, encoded)
        return {name: Path(folder, name).read_bytes() for name in ("a.rec", "a.idx", "a.lst")}


def batches(mx: Any, sizes: list[tuple[int, int]], labels: list[Any], name: str,
            options: dict[str, Any], epochs: int = 2, encoded: list[bytes] | None = None,
            listed: list[Any] | None = None) -> list[Any]:
    """Descriptions, then data, labels and pad of each batch."""
    with tempfile.TemporaryDirectory() as folder:
        write(mx, folder, sizes, labels, encoded, listed)
        paths = {key: os.path.join(folder, value) if str(value).startswith("a.") else value
                 for key, value in options.items()}
        iterator = getattr(mx.io, name)(path_imgrec=os.path.join(folder, "a.rec"),
                                        preprocess_threads=2, verbose=False, **paths)
        if mx.__name__ == "mxnet":
            UNDYING.append(iterator)
        answers: list[Any] = [described(iterator.provide_data), described(iterator.provide_label)]
        for _ in range(epochs):
            answers += [[*(array(a)[1] for a in batch.data + batch.label), batch.pad]
                        for batch in iterator]
            iterator.reset()
        return answers


def outcomes(mx: Any, encoded: bytes, label: list[float], count: int, options: dict[str, Any]
             ) -> list[np.ndarray]:
    """Results for `count` copies of one image in an ImageDetRecordIter: labels, and the upper left
    pixels."""
    found = batches(mx, [(1, 1)] * count, [label] * count, "ImageDetRecordIter",
                    options | {"batch_size": count}, 1, [encoded] * count)[2]
    return [found[1], found[0][:, :, 0, 0]]
