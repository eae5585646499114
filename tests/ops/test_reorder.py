"""Reorders between (N, C, H, W) and the blocked layout."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nbmod.ops.blocked.layout import LANES, BlockedLayout
from nbmod.ops.blocked.reorder import NARROW, from_blocks, into_blocks


def expected(layout: BlockedLayout, data: np.ndarray) -> np.ndarray:
    """The blocked array by NumPy: padding channels and the halo are 0."""
    batch, halo, lanes = len(data), layout.halo, layout.lanes
    padded = np.pad(data, ((0, 0), (0, layout.blocks * lanes - layout.channels), (halo, halo),
                           (halo, halo)))
    return np.moveaxis(padded.reshape(batch, layout.blocks, lanes, *padded.shape[2:]), 2, -1)


def check(batch: int, layout: BlockedLayout) -> None:
    count = batch * layout.channels * layout.height * layout.width
    data = np.arange(1, count + 1, dtype=np.float32).reshape(batch, layout.channels,
                                                             layout.height, layout.width)
    blocks = np.full(layout.shape(batch), np.nan, np.float32)
    into_blocks(layout, data, blocks)
    np.testing.assert_array_equal(blocks, expected(layout, data))
    back = np.full_like(data, np.nan)
    from_blocks(layout, blocks, back)
    np.testing.assert_array_equal(back, data)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 3), st.integers(1, 3 * LANES), st.integers(1, 20), st.integers(1, 40),
       st.integers(0, 3))
def test_blocks_hold_all_pixels(batch, channels, height, width, halo):
    check(batch, BlockedLayout(channels, height, width, halo))


@pytest.mark.parametrize("width", [1, LANES - 1, LANES, LANES + 1, NARROW - 1, NARROW, NARROW + 1])
@pytest.mark.parametrize("halo", [0, 1])
def test_rows_of_whole_and_of_broken_squares(width, halo):
    """Rows of few pixels are transposed across their ends, others one by one."""
    check(2, BlockedLayout(2 * LANES + 1, 5, width, halo))


def test_images_of_one_lane_are_only_padded():
    check(2, BlockedLayout(3, 4, 5, 2, lanes=1))
