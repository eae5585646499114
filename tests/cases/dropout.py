"""Dropout; what it does in training is in tests/ops/test_random.py."""

from __future__ import annotations

from tests.cases import Sample

D3 = {"data": (3, 4, 5)}
BIG = {"data": (70, 80)}  # large enough for the kernel instead of NumPy

SAMPLES = [
    Sample("Dropout", D3, random=True),
    Sample("Dropout", BIG, {"p": 0.2}, random=True),
    Sample("Dropout", D3, {"axes": (1,), "p": 0.3}, random=True),
    Sample("Dropout", D3, {"mode": "always"}, random=True, is_train=False),
    Sample("Dropout", D3, is_train=False),
    Sample("Dropout", BIG, {"p": 0.7}, is_train=False),
    Sample("Dropout", D3, {"axes": (0, 2)}, is_train=False),
    Sample("Dropout", D3, {"p": 0}),
    Sample("Dropout", D3, {"p": 2}, error="p is 2.0, expected a number from 0 to 1"),
    Sample("Dropout", D3, {"p": -1}, error="p is -1"),
    Sample("Dropout", D3, {"axes": (3,)}, error="axes is 3"),
    Sample("Dropout", D3, {"mode": "never"}, error="parameter mode"),
]
