"""Generated files for `bench/io.py`: images like photographs, CSV and LibSVM texts."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from nbmod import recordio
from nbmod.imgproc import codecs

__all__ = ["RECORD_SIZES", "make"]

RECORD_SIZES = {"1 KB": 1024, "20 KB": 20_000, "110 KB": 110_000, "1 MB": 1_000_000}
_RECORD_BYTES = 64 << 20
_IMAGES, _DISTINCT, _DIGITS = 512, 64, 20_000


def make(folder: Path) -> None:
    """All of them."""
    rng = np.random.default_rng(0)
    for name, size in RECORD_SIZES.items():
        content = rng.bytes(size)
        _records(folder / name, [content] * (_RECORD_BYTES // size))
    images = [codecs.encode(photograph(256, 256, k), "jpg", 90) for k in range(_DISTINCT)]
    _records(folder / "images", [recordio.pack((0, float(k % 10), k, 0), images[k % _DISTINCT])
                                   for k in range(_IMAGES)])
    _photographs(folder / "photographs")
    _texts(folder, rng)
    for kind, dimensions in (("images", (_DIGITS, 28, 28)), ("labels", (_DIGITS,))):
        head = bytes((0, 0, 8, len(dimensions))) + np.array(dimensions, ">u4").tobytes()
        (folder / kind).write_bytes(head + rng.integers(0, 10, dimensions, np.uint8).tobytes())


def photograph(height: int, width: int, seed: int) -> np.ndarray:
    """Noise with the power spectrum of natural images."""
    rng = np.random.default_rng(seed)
    frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.fftfreq(width))
    frequency[0, 0] = 1
    shades = rng.standard_normal((height, width))
    planes = []
    for _ in range(3):
        noise = shades + 0.35 * rng.standard_normal((height, width))
        plane = np.fft.ifft2(np.fft.fft2(noise) / frequency ** 1.1).real
        planes.append(128 + 50 * (plane - plane.mean()) / plane.std())
    return np.clip(np.stack(planes, -1), 0, 255).astype(np.uint8)


def _records(path: Path, contents: list[bytes]) -> None:
    writer = recordio.MXIndexedRecordIO(f"{path}.idx", f"{path}.rec", "w")
    for key, content in enumerate(contents):
        writer.write_idx(key, content)
    writer.close()


def _photographs(folder: Path) -> None:
    """Files for im2rec, and their list."""
    folder.mkdir()
    encoded = codecs.encode(photograph(375, 500, 0), "jpg", 95)
    with open(f"{folder}.lst", "w", encoding="utf-8") as file:
        for k in range(_IMAGES):
            (folder / f"{k}.jpg").write_bytes(encoded)
            file.write(f"{k}\t{k % 10}\t{k}.jpg\n")


def _texts(folder: Path, rng: np.random.Generator) -> None:
    """Text files of about 20 MB, of a thousand different lines."""
    normal, pixels = rng.standard_normal((1000, 100)), rng.integers(0, 256, (1000, 784))
    pixels *= rng.random(pixels.shape) < 0.2
    pairs = [np.unique(rng.integers(0, 100_000, 40)) for _ in range(1000)]
    lines = {
        "short.csv": [",".join(f"{x:.6g}" for x in row) for row in normal],
        "long.csv": [",".join(f"{x:.18e}" for x in row) for row in normal],
        "whole.csv": [",".join(map(str, row)) for row in pixels.tolist()],
        "short.svm": ["1 " + " ".join(f"{k}:{x:.6g}" for k, x in zip(row, values, strict=False))
                      for row, values in zip(pairs, normal, strict=True)],
        "ones.svm": ["0 " + " ".join(f"{k}:1" for k in row) for row in pairs],
    }
    for name, rows in lines.items():
        text = "\n".join(rows) + "\n"
        with open(folder / name, "w", encoding="utf-8") as file:
            for _ in range((20 << 20) // len(text)):
                file.write(text)
