"""Fourier transforms and count sketches."""

from __future__ import annotations

from typing import Any

from tests.cases import Input, Sample, array, integers

GPU: dict[str, Any] = {"oracle": False, "why": "MXNet has it on GPUs only"}


def sketch(data: tuple[int, ...], h: Input, out_dim: int = 3, **options: Any) -> Sample:
    inputs = {"data": data, "h": h, "s": array([[1, -1, 1, -1, -1]])}
    return Sample("_contrib_count_sketch", inputs, {"out_dim": out_dim}, grad=("data",), **options)


SAMPLES = [
    *(Sample(f"_contrib_{op}", {"data": shape}, {"compute_size": 64}, **GPU)
      for op in ("fft", "ifft") for shape in ((2, 6), (1, 2), (2, 3, 2, 4), (1, 34), (2, 250))),
    Sample("_contrib_fft", {"data": (2, 5)}, **GPU),
    Sample("_contrib_ifft", {"data": (2, 5)}, error="pairs of real and imaginary parts"),
    sketch((2, 5), array([[0, 2, 2, 1, 0]]), **GPU),
    sketch((1, 5), integers(0, 1, (1, 5)), 1, **GPU),
    sketch((2, 5), array([[0, 2, 3, 1, 0]]), error="h holds 3"),
    sketch((2, 4), array([[0, 2, 2, 1, 0]]), error="h and columns of data"),
    sketch((2, 5), array([[0, 2, 2, 1, 0]]), 0, error="out_dim is 0"),
]  # fmt: skip
