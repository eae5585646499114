"""Image ops at the sizes of ImageNet, nbmod and MXNet interleaved in one run.

    python -m bench.images [name ...]         a table: milliseconds, ratio
    python -m pytest bench/images.py          the same by the fixture `kernel_benchmark`

Names are prefixes of rows' names.  Figures are medians of eager calls, with each package's default
threads: one in nbmod, whose iterators process an image per thread.
"""

from __future__ import annotations

import os
import platform
import sys
from datetime import date
from typing import Any

import numpy as np
import pytest

import nbmod as mx

from .peers import arms_of, interval, mxnet_worker, timed
from .programs import steps

PHOTO, CROP = (480, 640, 3), (224, 224, 3)
FACTORS = {"min_factor": 0.8, "max_factor": 1.2}

# Name -> op, parameters, shape and type of the image.
CASES: dict[str, tuple[str, dict[str, Any], tuple[int, ...], str]] = {
    **{f"resize to {w}x{h}, {mode}": ("_cvimresize", {"w": w, "h": h, "interp": number}, PHOTO,
                                      "uint8")
       for number, mode in enumerate(("nearest", "linear", "cubic", "area", "Lanczos"))
       for w, h in ((341, 256), (1280, 960))},
    "to_tensor": ("_image_to_tensor", {}, CROP, "uint8"),
    "to_tensor, batch of 32": ("_image_to_tensor", {}, (32, *CROP), "uint8"),
    "normalize": ("_image_normalize", {"mean": (123, 117, 104), "std": (58, 57, 57)},
                  (3, 224, 224), "float32"),
    "crop": ("_image_crop", {"x": 58, "y": 16, "width": 224, "height": 224}, (256, 341, 3),
             "uint8"),
    "flip": ("_image_flip_left_right", {}, CROP, "uint8"),
    **{f"random {what}": (f"_image_random_{what}", FACTORS, CROP, "uint8")
       for what in ("brightness", "contrast", "saturation", "hue")},
    "random_color_jitter": ("_image_random_color_jitter", {
        "brightness": 0.4, "contrast": 0.4, "saturation": 0.4, "hue": 0.1}, CROP, "uint8"),
    "random_lighting": ("_image_random_lighting", {}, CROP, "uint8"),
}


def call_of(name: str) -> tuple[str, dict[str, Any], np.ndarray]:
    """The arguments of `steps.image_op`."""
    op, attrs, shape, dtype = CASES[name]
    return op, attrs, np.random.default_rng(0).integers(0, 256, shape).astype(dtype)


def main(names: list[str]) -> None:
    worker = mxnet_worker()
    version = worker.call("in_mxnet.version") if worker else "absent"
    print(f"{date.today()}, nbmod {mx.__version__}, MXNet {version}, "
          f"{os.cpu_count()} threads, {platform.machine()}: `python -m bench.images`\n\n"
          "| op | nbmod ms | MXNet ms | ratio | 99% interval |\n|---|--:|--:|--:|--:|")
    for name in CASES:
        if not names or name.startswith(tuple(names)):
            times = timed(arms_of(worker, steps.image_op, *call_of(name)))
            mine, peer = times["nbmod"], times["MXNet"]
            print(f"| {name} | {mine.seconds * 1e3:.2f} | {peer.seconds * 1e3:.2f} | "
                  f"{peer.ratio.median:.2f} | {interval(peer.ratio)} |",
                  flush=True)


@pytest.mark.parametrize("name", CASES)
def test_op(beside: Any, name: str) -> None:
    """One row per op."""
    beside(steps.image_op, *call_of(name))


if __name__ == "__main__":
    main(sys.argv[1:])
