"""Attention over interleaved projections."""

from __future__ import annotations

from typing import Any

from tests.cases import Sample

PREFIX = "_contrib_interleaved_matmul_"
SINGLE: dict[str, Any] = {"mx_dtypes": ("float32",), "why": "MXNet's CPU has float32 only"}
# Time, queries' time, batch, heads, columns of a head
SIZES = [(3, 5, 2, 2, 4), (1, 1, 1, 1, 1), (4, 1, 1, 3, 2), (2, 7, 3, 1, 5)]


def attention(size: tuple[int, ...], **options: Any) -> list[Sample]:
    time, rows, batch, heads, width = size
    both, three = (time, batch, heads * 2 * width), (time, batch, heads * 3 * width)
    inputs: dict[str, dict[str, Any]] = {
        "selfatt_qk": {"queries_keys_values": three},
        "selfatt_valatt": {"queries_keys_values": three, "attention": (batch * heads, time, time)},
        "encdec_qk": {"queries": (rows, batch, heads * width), "keys_values": both},
        "encdec_valatt": {"keys_values": both, "attention": (batch * heads, rows, time)},
    }
    return [Sample(PREFIX + op, given, {"heads": heads}, **options) for op, given in inputs.items()]


def wrong(op: str, inputs: dict[str, Any], error: str, heads: int = 2) -> Sample:
    return Sample(PREFIX + op, inputs, {"heads": heads}, error=error)


SAMPLES = [
    *(sample for size in SIZES for sample in attention(size, **SINGLE)),
    *attention((3, 3, 2, 2, 4), dtypes=("int32",), error="has type int32, expected float32"),
    wrong("selfatt_qk", {"queries_keys_values": (3, 2, 25)}, "a multiple of 6 columns"),
    wrong("selfatt_qk", {"queries_keys_values": (3, 24)}, "expected \\(T, N, heads 3 E\\)"),
    wrong("selfatt_qk", {"queries_keys_values": (3, 2, 24)}, "heads is 0", 0),
    wrong("selfatt_valatt", {"queries_keys_values": (3, 2, 24), "attention": (4, 3, 4)},
          "attention and its size"),
    wrong("encdec_qk", {"queries": (3, 2, 8), "keys_values": (3, 2, 12)}, "do not agree"),
    wrong("encdec_qk", {"queries": (3, 2, 8), "keys_values": (3, 1, 16)}, "do not agree"),
    wrong("encdec_valatt", {"keys_values": (3, 2, 16), "attention": (2, 3, 4)}, "do not agree"),
]  # fmt: skip
