"""Kernels of detectors: results do not depend on the partition of the work."""

from __future__ import annotations

import numpy as np
import pytest

import nbmod as mx
from nbmod.ops import jit
from nbmod.ops.detection import deformable
from tests.compare import assert_same
from tests.programs import common

RNG = np.random.default_rng(0)


def given(**shapes: tuple[int, ...]) -> dict[str, np.ndarray]:
    return {name: RNG.standard_normal(shape).astype("f") for name, shape in shapes.items()}


ROIS = np.array([[n % 2, x, y, x + 9, y + 7] for n, (x, y) in enumerate(
    RNG.uniform(-4, 18, (40, 2)))], "f")  # fmt: skip
TURNED = np.column_stack([ROIS, 3 * ROIS[:, 1]]).astype("f")
FEATURES = given(data=(2, 72, 17, 19))
TWO = {"pooled_size": (3, 3), "spatial_scale": 1}
MOVING = given(data=(2, 20, 17, 19), offset=(2, 36, 17, 19), mask=(2, 18, 17, 19),
               weight=(8, 10, 3, 3), bias=(8,))
FILTERS = {"kernel": (3, 3), "pad": (1, 1), "num_filter": 8, "num_group": 2,
           "num_deformable_group": 2}
CASES = {
    "_contrib_ModulatedDeformableConvolution": (MOVING, FILTERS),
    "ROIPooling": ({**FEATURES, "rois": ROIS}, TWO),
    "_contrib_ROIAlign": ({**FEATURES, "rois": ROIS}, TWO),
    "_contrib_RROIAlign": ({**FEATURES, "rois": TURNED}, TWO),
    "_contrib_PSROIPooling": ({**FEATURES, "rois": ROIS},
                              {"spatial_scale": 1, "output_dim": 8, "pooled_size": 3}),
    "_contrib_DeformablePSROIPooling": (
        {**FEATURES, "rois": ROIS, **given(trans=(40, 4, 3, 3))},
        {"spatial_scale": 1, "output_dim": 8, "group_size": 3, "pooled_size": 3,
         "sample_per_part": 2, "trans_std": 0.1}),
}  # fmt: skip


def ran(op: str) -> list[np.ndarray]:
    """Output and gradients of an op of CASES."""
    inputs, attrs = CASES[op]
    symbol = common.compose(mx, op, attrs, list(inputs), True)
    _, (shape,), _ = symbol.infer_shape(**{name: array.shape for name, array in inputs.items()})
    head = np.linspace(-1, 1, int(np.prod(shape)), dtype="f").reshape(shape)
    wanted = {name: "write" for name in inputs if name != "rois"}
    found = common.run(mx, symbol, inputs, wanted, [head])
    return [*found["outputs"], *found["grads"].values()]


@pytest.mark.parametrize("op", CASES)
def test_the_same_bits_on_any_number_of_threads(op):
    results, before = [], jit.num_threads()
    try:
        for threads in (1, before):
            jit.set_num_threads(threads)
            results.append(ran(op))
    finally:
        jit.set_num_threads(before)
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


def test_columns_in_many_chunks(monkeypatch):
    """Sums over positions, those of the weights' gradient and of pixels', change their order."""
    whole = ran("_contrib_ModulatedDeformableConvolution")
    monkeypatch.setattr(deformable, "COLUMNS", 1)
    pieces = ran("_contrib_ModulatedDeformableConvolution")
    for index, (got, want) in enumerate(zip(pieces, whole, strict=True)):
        assert_same(got, want, 1e-5, f"array {index}")
