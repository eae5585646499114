"""The samples of every op: one file per family, each with a list `SAMPLES`.

    from tests.cases import Sample, label

    SAMPLES = [
        Sample("FullyConnected", {"data": (2, 3), "weight": (4, 3), "bias": (4,)},
               {"num_hidden": 4}),
        Sample("FullyConnected", {"data": (2, 3), "weight": (4, 5)}, {"num_hidden": 4},
               error="weight"),
    ]

Adding a sample is all it takes to test an op: `tests/ops/test_ops.py` runs its generic checks over
it, `tests/oracle/test_ops.py` compares it with real MXNet.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections import Counter

from tests.cases.sample import (
    AT_LEAST_32,
    FLOAT,
    FLOATS,
    Input,
    Sample,
    array,
    distinct,
    integers,
    label,
    nonzero,
    normal,
    positive,
    uniform,
)

__all__ = [
    "AT_LEAST_32", "FLOAT", "FLOATS", "Input", "Sample", "all_samples", "array", "distinct",
    "integers", "label", "nonzero", "normal", "positive", "uniform",
]  # fmt: skip


@functools.cache
def all_samples() -> dict[str, Sample]:
    """Every sample of every family, by a name made of its op, its number and its note."""
    samples, counts = {}, Counter[str]()
    for module in pkgutil.iter_modules(__path__):
        family = importlib.import_module(f"{__name__}.{module.name}")
        for sample in getattr(family, "SAMPLES", ()):
            name = f"{sample.op}-{counts[sample.op]}"
            counts[sample.op] += 1
            samples[f"{name}-{sample.note}" if sample.note else name] = sample
    return samples
