"""The gradient of a 3 x 3 weight by Winograd's tiles."""

from __future__ import annotations

import numpy as np
import pytest

from nbmod.ops.blocked import winograd_weight_grad
from nbmod.ops.blocked.address_tables import Sliding
from nbmod.ops.blocked.layout import LANES, BlockedLayout
from nbmod.ops.blocked.reorder import into_blocks
from nbmod.ops.blocked.winograd_convolution import WinogradConvolution
from nbmod.ops.jit import num_threads, set_num_threads
from nbmod.ops.simd.winograd_transforms import FOUR, TWO
from tests.programs import convolution_sums

pytestmark = pytest.mark.skipif(LANES == 1, reason="NBMOD_SIMD_LANES=1 is without vectors")

CASES = {
    "same": (2, 2 * LANES, (8, 9), 2 * LANES, (1, 1)),
    "tails": (3, 24, (7, 11), 20, (1, 0)),
    "odd vectors, padding": (1, 5, (18, 2), 3 * LANES, (2, 2)),
    "many tiles": (9, LANES, (13, 21), LANES, (0, 0)),
    "few jobs": (1, 5 * LANES, (6, 6), 5 * LANES, (1, 1)),
    "hardly any": (1, LANES, (3, 3), LANES, (1, 1)),
}
CACHES = {"large U": {"WORKER_U_ELEMENTS": 0, "L2_U_ELEMENTS": 0},
          "small U": {"WORKER_U_ELEMENTS": 0},
          "in parts": {"WORKER_U_ELEMENTS": 0, "NEAR_ELEMENTS": 0, "FAR_ELEMENTS": 0},
          "split tiles": {"PARTS": 2, "PART_TILES": 2},
          "split tiles, parts in parts": {"PARTS": 3, "PART_TILES": 7}}
"""How work is divided, and how much is processed at a time."""


def numbers(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("f")


def blocked(form, images):
    blocks = np.full(form.shape(len(images)), np.nan, "f")
    into_blocks(form, images, blocks)
    return blocks


def convolution(batch, channels, image, filters, pad, out):
    """Its tiling, blocked data and output's gradient, and the weight's gradient."""
    slide, size = Sliding((3, 3), pad=pad), tuple(np.add(image, pad) + pad - 2)
    x, g = numbers(batch, channels, *image), numbers(batch, filters, *size)
    w = np.zeros((filters, channels, 3, 3), "f")
    k = WinogradConvolution(slide, BlockedLayout(channels, *image, max(pad)),
                            BlockedLayout(filters, *size), batch, out, True)
    expected = convolution_sums.backward(slide, x, w, g)[1]
    return k, blocked(k.x, x), blocked(k.y, g), expected


def computed(k, x, g, like, adds=False, workspace=None):
    """The gradient by tiles, `like` another array or added to it."""
    gw, packed = like.astype("f"), np.full(k.summed.shape, np.nan, "f")
    workspace = np.full(k.weight_workspace.shape, np.nan, "f") if workspace is None else workspace
    k.weight(x, g, packed, gw, adds, workspace)()
    return gw


@pytest.mark.parametrize("caches", CACHES)
@pytest.mark.parametrize("out", [2, 4])
@pytest.mark.parametrize("name", CASES)
def test_gradients(name, out, caches, monkeypatch):
    """Against sums in float64, 1e-5 of the largest number; images end within tiles."""
    for limit, size in CACHES[caches].items():
        monkeypatch.setattr(winograd_weight_grad, limit, size)
    k, x, g, expected = convolution(*CASES[name], out)
    for adds in (False, True):
        found = computed(k, x, g, expected, adds)
        np.testing.assert_allclose(found, (1 + adds) * expected, atol=1e-5 * abs(expected).max())


@pytest.mark.parametrize("caches", CACHES)
def test_any_number_of_threads_gives_the_same_bits(caches, monkeypatch):
    """Also where the workspace was made for fewer threads than run later, and the other way."""
    for limit, size in CACHES[caches].items():
        monkeypatch.setattr(winograd_weight_grad, limit, size)
    k, x, g, expected = convolution(5, 3 * LANES, (23, 21), 5 * LANES, (1, 1), 4)
    many, found = num_threads(), []
    try:
        for before, later in ((1, 1), (many, many), (1, many), (many, 1)):
            set_num_threads(before)
            workspace = np.empty(k.weight_workspace.shape, "f")
            set_num_threads(later)
            found.append(computed(k, x, g, expected, workspace=workspace))
    finally:
        set_num_threads(many)
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)


@pytest.mark.parametrize("way", [TWO, FOUR])
def test_the_matrices_give_the_gradient(way):
    """All three, in float64, on one tile."""
    rng = np.random.default_rng(0)
    x, g = rng.standard_normal((way.tile, way.tile)), rng.standard_normal((way.out, way.out))
    product = (way.outputs.T @ g @ way.outputs) * (way.inputs @ x @ way.inputs.T)
    expected = [[(x[i:i + way.out, j:j + way.out] * g).sum() for j in range(3)] for i in range(3)]
    np.testing.assert_allclose(way.filters.T @ product @ way.filters, expected, atol=1e-13)


@pytest.mark.parametrize("out, most", [(2, 8e-6), (4, 1.2e-5)])
def test_digits_that_tiles_keep(out, most):
    """At most one and a half times the error that the documentation states for 50,000 terms."""
    k, x, g, expected = convolution(16, LANES, (56, 56), LANES, (1, 1), out)
    assert abs(computed(k, x, g, expected) - expected).max() <= most * abs(expected).max()
