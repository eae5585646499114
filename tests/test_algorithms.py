"""Which algorithm computes a convolution."""

from __future__ import annotations

import pytest

from nbmod.base import CONFIG
from nbmod.ops.blocked import algorithms
from nbmod.ops.blocked.form import LANES
from nbmod.ops.blocked.tables import Sliding

pytestmark = pytest.mark.skipif(LANES == 1, reason="NBMOD_SIMD_LANES=1 is without vectors")
SAME = Sliding((3, 3), pad=(1, 1))


def layer(batch, channels, size, fresh=False, slide=SAME):
    return algorithms.Layer(slide, batch, channels, (size, size), channels, (size, size), fresh)


@pytest.mark.parametrize("slide", [
    Sliding((1, 1)), Sliding((3, 3), (2, 2), (1, 1)), Sliding((3, 3), pad=(2, 2), dilate=(2, 2)),
    Sliding((3, 3), pad=(1, 1), groups=2), Sliding((3, 3), pad=(3, 3)), Sliding((5, 5))])
def test_other_geometries_are_computed_directly(slide):
    given = layer(2, 64, 28, slide=slide)
    assert algorithms.candidates(given) == [algorithms.DIRECT]
    assert algorithms.chosen(given) == (algorithms.DIRECT, "")


@pytest.mark.parametrize("most, expected", [(0, [0]), (2, [0, 2]), (4, [0, 2, 4])])
def test_what_the_environment_allows(most, expected, monkeypatch):
    monkeypatch.setattr(CONFIG, "winograd", most)
    assert algorithms.candidates(layer(2, 64, 28)) == expected
    assert algorithms.estimated(layer(16, 64, 56)).algorithm == expected[-1]


@pytest.mark.skipif(LANES != 16, reason="the sizes are those of 16 lanes")
@pytest.mark.parametrize("batch, channels, size, fresh, expected", [
    (16, 64, 56, False, 4), (16, 64, 56, True, 4), (16, 512, 7, False, 4), (16, 512, 7, True, 4),
    (1, 64, 224, False, 4), (1, 512, 28, False, 4), (1, 512, 14, False, 2), (1, 512, 7, False, 0),
    (1, 512, 7, True, 0), (1, 16, 3, False, 0)])
def test_tiles_pay_where_images_are_large_beside_filters(batch, channels, size, fresh, expected):
    """The choices that are the fastest where the constants were measured."""
    assert algorithms.estimated(layer(batch, channels, size, fresh)).algorithm == expected
