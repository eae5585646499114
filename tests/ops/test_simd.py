"""Micro-kernels against their NumPy references, and convolutions built of them, at every width."""

from __future__ import annotations

import os
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy import random

from nbmod.ops.blocked import address_tables, conv_driver, winograd
from nbmod.ops.blocked.address_tables import Sliding
from nbmod.ops.blocked.blocked_batch_norm import _backward, _forward
from nbmod.ops.blocked.blocked_convolution import Kernels
from nbmod.ops.blocked.blocked_depthwise import kernels_of
from nbmod.ops.blocked.layout import LANES, BlockedLayout, zero_tail
from nbmod.ops.blocked.reorder import from_blocks, into_blocks
from nbmod.ops.blocked.winograd_convolution import WinogradConvolution
from nbmod.ops.jit import Kernel, num_threads, set_num_threads
from nbmod.ops.simd import batch_norm_planes as norm
from nbmod.ops.simd import int8_dot, nontemporal
from nbmod.ops.simd import layer_norm_rows as norm_rows
from nbmod.ops.simd.conv_strip import (
    ADD,
    BIAS,
    PIXELS,
    RELU,
    clip_flag,
    plane1,
    plane2,
    row3,
    row7,
    strip1,
    strip2,
    strip_of,
)
from nbmod.ops.simd.depthwise_rows import SIZES, STRIDES, RowTaps, row_of
from nbmod.ops.simd.depthwise_taps import TAPS, depthwise_strip, depthwise_weight_sums
from nbmod.ops.simd.gemm_microkernel import (
    DOT_MR,
    DOT_NR,
    NR_VECTORS,
    OUTER_MR,
    TILE_ROWS,
    copy_to_panels,
    copy_to_strips,
    dot_row,
    dot_tile,
    large_tile,
    medium_tile,
    outer_tile,
    packed_mr,
    small_tile,
)
from nbmod.ops.simd.halo import zero_halo
from nbmod.ops.simd.host import l2_cache_bytes, lanes
from nbmod.ops.simd.image_lanes import ROWS as LANE_ROWS
from nbmod.ops.simd.image_lanes import lane_sums1, lane_sums2, lane_sums3
from nbmod.ops.simd.int8_dot import ROUND_MAGIC
from nbmod.ops.simd.ir import MicroKernel, width_of
from nbmod.ops.simd.outer_product import ROWS, flat1, flat2, outer1, outer2
from nbmod.ops.simd.pixel_rows import MIN_COUNT, add_row, copy_row, deinterleave, interleave
from nbmod.ops.simd.pooling_window import max_window, max_window_grad, mean_window, mean_window_grad
from nbmod.ops.simd.raw_arrays import STEP
from nbmod.ops.simd.softmax_rows import LOG, softmax_row
from nbmod.ops.simd.transpose import (
    transpose,
    transpose_gather,
    transpose_nontemporal,
    transpose_scatter,
)
from nbmod.ops.simd.vector_math import EXPONENTIALS, exp
from nbmod.ops.simd.winograd_transforms import FOUR, TWO
from nbmod.ops.simd.work_queue import COUNTER_STRIDE, job_counters, next_job, take_job
from tests.nested import run_pytest
from tests.programs import convolution_sums

pytestmark = pytest.mark.skipif(LANES == 1, reason="NBMOD_SIMD_LANES=1 is without vectors")


def numbers(*shape):
    return random.randn(*shape).astype(np.float32)


@cache
def called(micro):
    """A kernel that does nothing but call a micro-kernel."""
    names = ", ".join(micro.arguments)
    space = {"micro": micro}
    exec(f"def call({names}):\n    micro({names})", space)
    return Kernel(space["call"])


STRIPS = {"pair": (strip2, 2, LANES), "single": (strip1, 1, LANES), "flat pair": (plane2, 2, 1),
          "flat single": (plane1, 1, 1), "flat rows": (row3, 2, 3), "wide rows": (row7, 2, 7),
          "lanes": (depthwise_strip, 1, 1)}


@pytest.mark.parametrize("flags", [0, BIAS, ADD, RELU, BIAS | ADD | RELU, RELU | clip_flag(1.5)])
@pytest.mark.parametrize("name", STRIPS)
def test_strips_are_their_twins(name, flags):
    """Sums of about 100 products of size 1: 1e-5 is 100 roundings."""
    micro, vectors, depth = STRIPS[name]
    taps, step = np.array([3, 40, 0, 77, 11]), PIXELS * LANES
    places = np.concatenate([random.randint(0, 50, PIXELS), random.permutation(PIXELS) * LANES])
    given = (numbers(200), numbers(7 + 5 * depth * 2 * LANES), numbers(3 + 2 * LANES),
             numbers(5 + 2 * step), numbers(5 + 2 * step))
    at, steps = (1, 7, 3, 5, 0, 0), (len(taps), step, flags, 3)
    expected = given[-1].copy()
    micro.function(*given[:-1], expected, taps, places, at, steps)
    called(micro)(*given, taps, places, at, steps)
    np.testing.assert_allclose(given[-1], expected, atol=1e-4)


@pytest.mark.parametrize("setting", [
    {}, {"FILTERS_STREAM": 0}, {"FILTERS_STREAM": 0, "L2_PIXELS": 64}, {"L2_PIXELS": 64},
    {"L2_FILTERS": 1}, {"JOBS": 1}, {"JOBS": 50}], ids=str)
def test_strips_in_any_order_give_the_same(monkeypatch, setting):
    monkeypatch.setattr(conv_driver, "FILTERS_STREAM", 2 ** 30)
    x, y = BlockedLayout(3 * LANES, 13, 9), BlockedLayout(5 * LANES, 13, 9)
    kernels = Kernels(Sliding((1, 1)), x, y, 5)
    data, filters = numbers(*x.shape(5)), numbers(*kernels.packed.shape)
    found = [np.full(y.shape(5), np.nan, "f") for _ in range(2)]
    kernels.forward(data, filters, None, found[0])()
    for name, value in setting.items():
        monkeypatch.setattr(conv_driver, name, value)
    kernels.forward(data, filters, None, found[1])()
    assert np.isfinite(found[0]).all()
    np.testing.assert_array_equal(*found)


def test_jobs_are_taken_once():
    space = {"next_job": next_job}
    exec("def call(queue, at, found):\n    found[0] = next_job(queue, at)", space)
    (queue, other), found = (job_counters(2), job_counters(2)), np.zeros(1, np.int64)
    for count in range(5):
        Kernel(space["call"])(queue, COUNTER_STRIDE, found)
        assert found[0] == next_job.function(other, COUNTER_STRIDE) == count
    np.testing.assert_array_equal(queue, other)


def test_own_jobs_come_first():
    space = {"take_job": take_job}
    exec("def call(queue, order):\n"
         "    (job, turn), taken = take_job(queue, 1, 0, len(order)), 0\n"
         "    while job >= 0:\n"
         "        order[taken] = job\n"
         "        job, turn = take_job(queue, 1, turn, len(order))\n"
         "        taken += 1", space)
    order = np.full(7, -1)
    Kernel(space["call"])(job_counters(3), order)
    assert order.tolist() == [2, 3, 4, 5, 6, 0, 1]


@pytest.mark.parametrize("found, size", [({"level": "2", "size": "2048K"}, 2 ** 21), ({}, 2 ** 20),
                                         ({"level": "1", "size": "48K"}, 2 ** 20),
                                         ({"level": "2", "size": "much"}, 2 ** 20)])
def test_the_second_cache_is_found(found, size, tmp_path):
    (tmp_path / "index1").mkdir()
    for name, text in found.items():
        (tmp_path / "index1" / name).write_text(text + "\n")
    assert l2_cache_bytes(str(tmp_path)) == size


def check_words(micro, deep, dtype):
    """Sums of words of four bytes, and bytes of sums: the shift of 128 makes -128 the byte 0."""
    taps, step = np.array([3, 40, 0, 77, 11]), PIXELS * LANES
    places = np.concatenate([random.randint(0, 50, PIXELS), random.permutation(PIXELS) * LANES])
    x, w, bias = (random.randint(-2 ** 31, 2 ** 31, size).astype(np.int32)
                  for size in (200, 7 + 5 * deep * 2 * LANES, 3 + 2 * LANES))
    numbers = np.array([0.5 ** 10, -127, 120, ROUND_MAGIC + 128], np.float32)
    y = random.randint(0, 100, 5 + 2 * step).astype(dtype)
    expected, at, steps = y.copy(), (1, 7, 3, 5, 0, 0), (len(taps), step, BIAS, 3)
    bias >>= 16
    micro.function(x, w, bias, numbers, expected, taps, places, at, steps)
    called(micro)(x, w, bias, numbers, y, taps, places, at, steps)
    np.testing.assert_array_equal(y, expected)
    assert len(np.unique(y)) > PIXELS


@pytest.mark.parametrize("dtype", ["int32", "uint8"])
@pytest.mark.parametrize("name", [name for name in STRIPS if name != "lanes"])
def test_strips_of_words_are_their_twins(name, dtype):
    micro, _, deep = STRIPS[name]
    check_words(micro, deep, dtype)


@pytest.mark.parametrize("features", [(), ("sse2", "avx2", "avx512bw")])
def test_products_of_bytes_without_their_instruction(monkeypatch, features):
    known = int8_dot.has_features
    monkeypatch.setattr(int8_dot, "has_features",
                        lambda *names: set(names) <= {*features} and known(*names))
    check_words(strip_of(2, 0), LANES, "int32")


def test_halves_become_even():
    sums = np.array([1, 3, 5, -1, -3, 300, -300, 0] * 2, np.int32)
    numbers = np.array([0.5, -128, 127, ROUND_MAGIC + 128], np.float32)
    np.testing.assert_array_equal(int8_dot.requantize(sums, numbers)[:8].astype(int) - 128,
                                  [0, 2, 2, 0, -2, 127, -128, 0])


def behind_vectors(shape, offset):
    """An array of zeros that begins `offset` elements after a multiple of a vector."""
    workspace = np.zeros(np.prod(shape) + 2 * LANES, np.float32)
    return workspace[-workspace.ctypes.data // 4 % LANES + offset:][:np.prod(shape)].reshape(shape)


@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize("offset", [0, 1])
def test_results_past_the_caches_are_the_same(monkeypatch, offset, adds):
    """Also where y is not vector-aligned, so that non-temporal stores are impossible."""
    x, y = BlockedLayout(LANES, 9, 9), BlockedLayout(3 * LANES, 9, 9)
    kernels = Kernels(Sliding((1, 1)), x, y, 2)
    data, filters, add = (numbers(*shape) for shape in (x.shape(2), kernels.packed.shape,
                                                        y.shape(2)))
    results = [behind_vectors(add.shape, offset) for _ in range(2)]
    for result, far in zip(results, [np.inf, 0], strict=True):
        monkeypatch.setattr(nontemporal, "NONTEMPORAL_BYTES", far)
        flags = conv_driver.stream_flag(add, result, ADD * adds)
        assert bool(flags) == (far == 0 and not offset)
        kernels.forward(data, filters, None, result, add if adds else None)()
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_step_past_the_caches_is_its_twin(dtype):
    workspace, outs = numbers(STEP).astype(dtype), np.zeros((2, 3 * STEP), dtype)
    at = -outs.ctypes.data % 64 // outs.itemsize + STEP
    nontemporal.store_nontemporal.function(workspace, outs[0], at)
    called(nontemporal.store_nontemporal)(workspace, outs[1], at)
    called(nontemporal.store_fence)(outs[1])
    np.testing.assert_array_equal(*outs)
    assert outs[0].any()


@pytest.mark.parametrize("adds", [0, 1])
@pytest.mark.parametrize("micro, vectors", [(outer1, 1), (outer2, 2), (flat1, 1), (flat2, 2)])
def test_outer_products_are_their_twins(micro, vectors, adds):
    places = random.randint(0, 90, (17, 2))
    x, g, d = numbers(400), numbers(400), numbers(4 + ROWS * vectors * LANES)
    rows, at, steps = np.arange(ROWS) * 3, (2, 1, 4, 0, 0, 10 ** 7), (17, 33, adds, adds)
    expected = d.copy()
    micro.function(x, g, expected, rows, places.ravel(), at, steps)
    called(micro)(x, g, d, rows, places.ravel(), at, steps)
    np.testing.assert_allclose(d, expected, atol=1e-5)


def test_sums_of_lanes_are_their_twin():
    places = random.randint(0, 90, (17, 2))
    x, g, d = numbers(400), numbers(400), numbers(4 + TAPS * LANES)
    rows, at = np.arange(TAPS) * 3, (2, 1, 4, 0, 2)
    expected = d.copy()
    depthwise_weight_sums.function(x, g, expected, rows, places.ravel(), at, 16)
    called(depthwise_weight_sums)(x, g, d, rows, places.ravel(), at, 16)
    np.testing.assert_allclose(d, expected, atol=1e-5)


@pytest.mark.parametrize("flags", [0, BIAS, BIAS | ADD | RELU, RELU | clip_flag(1.5)])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("stride", STRIDES)
@pytest.mark.parametrize("kind", [RowTaps.forward, RowTaps.backward])
def test_rows_of_lanes_are_their_twins(kind, stride, size, flags):
    """17 pixels are two groups and a remainder; nothing else of y changes."""
    row = row_of(kind(size, stride))
    x, w, y = numbers(600 * LANES), numbers(5 + 3 * size * LANES), numbers(3 + 50 * LANES)
    bias, at, steps = numbers(2 + LANES), (9 * LANES, 5, 2, 3), (17, 3, 70 * LANES, size * LANES,
                                                                flags)
    expected = y.copy()
    row.function(x, w, bias, expected, expected, at, steps)
    called(row)(x, w, bias, y, y, at, steps)
    np.testing.assert_allclose(y, expected, atol=1e-5)


def normal(count):
    """`count` elements per channel in rows of 2 LANES: a row each, from 3 on; limits last."""
    norm = numbers(3 + count * 2 * LANES)
    norm[3 + 6 * LANES:][:LANES], norm[3 + 8 * LANES:][:LANES] = -0.5, 0.7
    return norm


def at_vectors(count):
    """`count` elements aligned to a vector, as non-temporal stores require."""
    memory = numbers(count + LANES)
    return memory[-memory.ctypes.data % (4 * LANES) // 4:][:count]


@pytest.mark.parametrize("rows, columns", [(1, 1), (2, 3), (2, 9)])
@pytest.mark.parametrize("flags", [0, norm.ADD, norm.PASSED, norm.WITHIN, norm.GX, norm.GADD,
                                   norm.ADD | norm.STREAM, norm.GX | norm.STREAM | norm.WITHIN,
                                   norm.GX | norm.GADD | norm.PASSED | norm.STREAM_GADD])
def test_planes_of_norms_are_their_twins(flags, rows, columns):
    x, g, y, gx, gadd = (at_vectors(27 * LANES) for _ in range(5))
    shared, sums = normal(norm.FORWARD + norm.BACKWARD), random.randn(1 + 2 * LANES)
    at = (2 * LANES, LANES, 3, 1, 10 ** 6, -7)
    steps = (rows, columns, 11 * LANES, 10 * LANES, 2 * LANES, flags)
    for micro, arrays in ((norm.norm_sums, (x, shared, sums)),
                          (norm.norm_plane, (x, g, y, shared)),
                          (norm.grad_sums, (x, g, y, shared, sums)),
                          (norm.grad_plane, (x, g, y, gx, gadd, shared)),
                          (norm.grad_plane, (x, g, y, x, g, shared))):
        expected = [each.copy() for each in arrays]
        if arrays[-2] is g:  # in place
            expected[3:5] = expected[:2]
        micro.function(*expected, at, steps)
        called(micro)(*arrays, at, steps)
        for mine, other in zip(arrays, expected, strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("size", [(1, 1), (3, 2)])
@pytest.mark.parametrize("halo", [0, 1, 2])
def test_edges_are_their_twins(size, halo):
    planes = numbers((size[0] + 2 * halo) * (size[1] + 2 * halo) * LANES + 9)
    expected = planes.copy()
    zero_halo.function(expected, 3, *size, halo)
    called(zero_halo)(planes, 3, *size, halo)
    np.testing.assert_array_equal(planes, expected)


def test_norms_are_the_same_by_blocks_and_by_planes():
    form, images = BlockedLayout(2 * LANES, 3, 5, 1), 3
    x, add, g = (numbers(images * form.image) for _ in range(3))
    numbers_of = (form.blocks, 3, 5, form.plane, form.plane, form.at(0, 0), form.at(0, 0),
                  form.row, form.row, 1)
    found = []
    for by_block in (True, False):
        y, gx, gadd = (np.ones_like(x) for _ in range(3))
        sums = np.zeros((images, form.blocks, 2, LANES))
        shared = np.zeros((norm.FORWARD + norm.BACKWARD, form.blocks, LANES), np.float32)
        shared[4], channels = np.inf, np.ones((6, form.channels), np.float32)
        _forward(x, add, y, sums, shared, channels[:4], numbers_of,
                 (by_block, norm.ADD, True, 1e-5))
        _backward(g, x, y, gx, gadd, sums, shared, channels, numbers_of,
                  (by_block, norm.PASSED | norm.GX | norm.GADD, 1 / 45, 1))
        found.append([y, gx, gadd, channels])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("rows, columns", [(9, 6), (4, 1)])
@pytest.mark.parametrize("kind", ["input_tile", "filter_tile", "gradient_tile", "weight_tile"])
@pytest.mark.parametrize("way", [TWO, FOUR])
def test_tiles_are_their_twins(way, kind, rows, columns):
    """Sums of 36 products with factors up to 13, in all some 50: 1e-4 is 20 roundings."""
    micro = getattr(way, kind)
    source, target = numbers(7 + way.tile * 8 * LANES), numbers(3 + way.tile ** 2 * 2 * LANES)
    expected = target.copy()
    arguments = ((7, 3), (7 * LANES, LANES, 2 * LANES, rows, columns))
    micro.function(source, expected, *arguments)
    called(micro)(source, target, *arguments)
    np.testing.assert_allclose(target, expected, atol=1e-4)


@pytest.mark.parametrize("flags", [0, BIAS, ADD, RELU, BIAS | ADD | RELU, RELU | clip_flag(1.5)])
@pytest.mark.parametrize("rows, columns", [(5, 4), (3, 1), (1, 2)])
@pytest.mark.parametrize("way", [TWO, FOUR])
def test_results_of_tiles_are_their_twins(way, rows, columns, flags):
    """Sums of 36 products with factors up to 12; nothing is stored beyond the edges."""
    m, bias, r = numbers(5 + way.tile ** 2 * 3 * LANES), numbers(2 + LANES), numbers(4 + 30 * LANES)
    y = numbers(*r.shape)
    expected = y.copy()
    arguments = ((5, 2, 4), (3 * LANES, (way.out + 2) * LANES, rows, columns, flags))
    way.output_tile.function(m, bias, r, expected, *arguments)
    called(way.output_tile)(m, bias, r, y, *arguments)
    np.testing.assert_allclose(y, expected, atol=1e-4)


@pytest.mark.parametrize("way", [TWO, FOUR])
def test_filtering_is_a_convolution(way):
    """The three matrices, in float64, on one tile."""
    x, w = random.randn(way.tile, way.tile), random.randn(3, 3)
    product = (way.filters @ w @ way.filters.T) * (way.inputs @ x @ way.inputs.T)
    expected = [[(x[i:i + 3, j:j + 3] * w).sum() for j in range(way.out)] for i in range(way.out)]
    np.testing.assert_allclose(way.outputs @ product @ way.outputs.T, expected, atol=1e-13)


@pytest.mark.parametrize("flags", [0, BIAS, ADD, BIAS | ADD | RELU])
@pytest.mark.parametrize("less", [0, 1])
@pytest.mark.parametrize("micro, rows", list(zip(
    (large_tile, medium_tile, small_tile), TILE_ROWS, strict=True)))
def test_tiles_of_products_are_their_twins(micro, rows, less, flags):
    """Sums of 30 products up to 60, each rounded to 4e-6; nothing is stored to missing rows."""
    panel, pitch, depth = NR_VECTORS * LANES, packed_mr(LANES) + 3, 30
    given = (numbers(2 + depth * pitch), numbers(1 + depth * (panel + 7)), numbers(2),
             numbers(3 + panel), numbers(4 + rows * (panel + 5)))
    at, steps = (2, 1, 1, 3, 4), (depth, panel + 5, rows - less, flags, pitch, panel + 7)
    expected = given[-1].copy()
    micro.function(*given[:-1], expected, at, steps)
    called(micro)(*given, at, steps)
    np.testing.assert_allclose(given[-1], expected, atol=1e-4)


@pytest.mark.parametrize("micro, vectors", [(lane_sums1, 1), (lane_sums2, 2), (lane_sums3, 3)])
@pytest.mark.parametrize("rows", [1, LANE_ROWS])
@pytest.mark.parametrize("channels, entries", [(0, 0), (3, 1), (2, 5)])
def test_sums_of_image_lanes_are_their_twin(micro, vectors, rows, channels, entries):
    size, taps = vectors * LANES, random.randint(0, 20, 3 + 2 * 5)
    given = (numbers(2 + 2 * 40 + 20 + size), numbers(1 + 7 * 30 + 2 * 50 + 20), numbers(3 + rows),
             numbers(1 + rows * (size + 3)))
    steps = channels, entries, 40, 50, 30, size + 3, rows
    expected = given[-1].copy()
    micro.function(*given[:-1], expected, taps, (2, 1, 3, 1, 3), steps)
    called(micro)(*given, taps, (2, 1, 3, 1, 3), steps)
    np.testing.assert_allclose(given[-1], expected, atol=1e-4)


@pytest.mark.parametrize("flags", [0, BIAS, ADD, BIAS | ADD | RELU])
@pytest.mark.parametrize("micro, rows, columns", [
    (dot_tile, DOT_MR, DOT_NR), (dot_tile, 1, DOT_NR), (dot_tile, 2, 3), (dot_row, 1, DOT_NR),
    (dot_row, 1, 3)])
@pytest.mark.parametrize("depth", [1, 3 * LANES, 9 * LANES + 3])
def test_dot_products_are_their_twin(micro, depth, rows, columns, flags):
    """Sums of up to 150 products; nothing is read past the last element of either factor."""
    given = (numbers(1 + 200 * (rows - 1) + depth), numbers(2 + 210 * (columns - 1) + depth),
             numbers(2), numbers(3 + DOT_NR), numbers(4 + rows * (DOT_NR + 5)))
    at, steps = (1, 2, 1, 3, 4), (depth, DOT_NR + 5, rows, flags, 200, 210, columns)
    expected = given[-1].copy()
    micro.function(*given[:-1], expected, at, steps)
    called(micro)(*given, at, steps)
    np.testing.assert_allclose(given[-1], expected, atol=1e-4)


@pytest.mark.parametrize("depth", [1, 3, 30])
@pytest.mark.parametrize("rows, columns", [(OUTER_MR, LANES), (1, LANES), (OUTER_MR, 1),
                                           (OUTER_MR - 1, LANES - 1)])
def test_outer_products_are_their_twin(rows, columns, depth):
    """Nothing is read past the last row of either factor."""
    a = numbers(1 + 50 * (rows - 1) + depth)
    b = numbers(2 + 20 * (depth - 1) + columns)
    tile, expected = numbers(OUTER_MR * LANES), numbers(OUTER_MR * LANES)
    at, steps = (1, 2), (depth, rows, columns, 50, 1, 20)
    outer_tile.function(a, b, expected, at, steps)
    called(outer_tile)(a, b, tile, at, steps)
    np.testing.assert_allclose(tile, expected, atol=1e-5)


@pytest.mark.parametrize("micro", [copy_to_strips, copy_to_panels])
def test_lifted_pieces_are_their_twin(micro):
    source, target = numbers(300), numbers(600)
    expected = target.copy()
    arguments = ((1, 2), (3, 40, 90, 20))
    micro.function(source, expected, *arguments)
    called(micro)(source, target, *arguments)
    np.testing.assert_array_equal(target, expected)


@pytest.mark.parametrize("rows", [1, LANES - 1])
def test_squares_with_fewer_rows(rows):
    """Missing rows repeat the last one; nothing is read past it."""
    source, target = numbers(5 + (rows - 1) * 40 + LANES), numbers(LANES * 50)
    expected = target.copy()
    arguments = ((5, 2), (40, 50, rows))
    transpose.function(source, expected, *arguments)
    called(transpose)(source, target, *arguments)
    np.testing.assert_array_equal(target, expected)


def values(*shape):
    """Few distinct values, so that maxima are tied; -inf and NaN, too."""
    return random.choice(np.array([-np.inf, np.nan, -2, 0.1, 3], np.float32), shape)


WINDOWS = {"largest": (max_window, (values, numbers), (3, 1)),
           "mean": (mean_window, (numbers, numbers, numbers), (3, 1, 2)),
           "to largest": (max_window_grad, (values, numbers, numbers), (3, 1, 2)),
           "to all": (mean_window_grad, (numbers, numbers, numbers), (1, 3, 2))}


@pytest.mark.parametrize("steps", [
    (1, 1, 0, 1, 0), (1, 2, 40, 3, LANES), (3, 2, 4 * LANES, 1, 0),
    (3, 3, 24 * LANES, 9, 2 * LANES), (2, 7, 8 * LANES, 1, 0)])
@pytest.mark.parametrize("name", WINDOWS)
def test_windows_are_their_twins(name, steps):
    micro, makes, at = WINDOWS[name]
    for _ in range(5):
        given = [make(80 * LANES + 9) for make in makes]
        expected = [each.copy() for each in given]
        micro.function(*expected, at, steps)
        called(micro)(*given, at, steps)
        for mine, other in zip(given, expected, strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("more", [0, 1, MIN_COUNT, MIN_COUNT + 3])
@pytest.mark.parametrize("micro, at", [(deinterleave, (3, 7, 80)), (interleave, (3, 80, 9))])
def test_pixels_are_split_and_joined(micro, at, more, dtype):
    x, y = (numbers(200).astype(dtype) for _ in range(2))
    expected = y.copy()
    micro.function(x, expected, at, MIN_COUNT + more)
    called(micro)(x, y, at, MIN_COUNT + more)
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("count", [0, 1, MIN_COUNT - 1, MIN_COUNT, 2 * MIN_COUNT + 3])
@pytest.mark.parametrize("micro", [copy_row, add_row])
def test_rows_of_any_length_are_copied_and_added(micro, count, dtype):
    x, y = (numbers(80).astype(dtype) for _ in range(2))
    expected = y.copy()
    micro.function(x, expected, (3, 7), count)
    called(micro)(x, y, (3, 7), count)
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8"])
def test_squares_are_transposed(dtype):
    source, target = (random.randint(0, 256, LANES * size + 5).astype(dtype) for size in (40, 50))
    expected = target.copy()
    arguments = ((5, 2), (40, 50))
    transpose.function(source, expected, *arguments)
    called(transpose)(source, target, *arguments)
    np.testing.assert_array_equal(target, expected)


@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8"])
def test_squares_are_transposed_past_the_caches(dtype):
    width = width_of(dtype)
    source, workspace = (random.randint(0, 256, width * 50 + 64).astype(dtype) for _ in range(2))
    target = workspace[-workspace.ctypes.data % 64 // workspace.itemsize:]
    expected = target.copy()
    arguments = ((5, 2 * width), (40, 3 * width))
    transpose_nontemporal.function(source, expected, *arguments)
    called(transpose_nontemporal)(source, target, *arguments)
    np.testing.assert_array_equal(target, expected)


@pytest.mark.parametrize("micro", [transpose_scatter, transpose_gather])
def test_squares_with_places_are_their_twins(micro):
    """Rows at any distance, also several in one place."""
    places = np.array([9, *random.permutation(np.arange(LANES) // 2)])
    source, target = numbers(LANES * 50), numbers(LANES * 50)
    expected = target.copy()
    arguments = (places, (5, 2, 1), (40, 45))
    micro.function(source, expected, *arguments)
    called(micro)(source, target, *arguments)
    np.testing.assert_array_equal(target, expected)


@pytest.mark.parametrize("kernel, stride, groups, more", [
    (1, 1, 1, 0), (1, 1, 1, 3), (3, 1, 1, 0), (3, 1, 1, 3), (3, 2, 1, 3), (1, 2, 1, 0),
    (3, 1, 2, 0),
])  # fmt: skip
def test_filters_are_packed_as_the_plan_says(kernel, stride, groups, more):
    """Whole blocks, which are transposed in registers, like others; and their unpacking."""
    slide = Sliding((kernel, kernel), (stride, stride), (kernel // 2,) * 2, groups=groups)
    channels, filters = groups * (2 * LANES + more), groups * (3 * LANES + more)
    w = numbers(filters, channels // groups, kernel, kernel)
    for plan in (address_tables.forward_pack(slide, filters, channels, LANES),
                 address_tables.data_pack(slide, filters, channels)):
        packed, expected = np.zeros(plan.size, "f"), np.zeros(plan.size, "f")
        conv_driver.pack(plan, w, packed)
        for base, outs, ins, width, target, first, count in plan.rows:
            outer, inner = plan.strides
            for i, k, o in np.ndindex(ins, count, outs):
                place = (i // LANES * count + k) * LANES + i % LANES
                expected[target + place * width + o] = w.reshape(-1)[
                    base + o * outer + i * inner + plan.positions[first + k]]
        np.testing.assert_array_equal(packed, expected)
    plan, back = address_tables.forward_pack(slide, filters, channels, LANES), np.zeros_like(w)
    conv_driver.pack(plan, w, packed)
    for adds in (False, True):
        conv_driver.unpack(plan, packed, back, adds)
        np.testing.assert_array_equal(back, w * (1 + adds))


@given(st.integers(1, 3), st.integers(1, 40), st.integers(1, 20), st.integers(1, 20),
       st.integers(0, 2), st.booleans())
@settings(deadline=None, max_examples=40)
def test_reorders(batch, channels, height, width, halo, flat):
    """A round trip; halo and padding lanes are 0."""
    form = BlockedLayout(channels, height, width, halo, 1 if flat else LANES)
    data, blocks = numbers(batch, channels, height, width), np.full(form.shape(batch), np.nan, "f")
    into_blocks(form, data, blocks)
    back = np.empty_like(data)
    from_blocks(form, blocks, back)
    np.testing.assert_array_equal(back, data)
    inside = form.inside(blocks).copy()
    form.inside(blocks)[...] = 0
    assert not blocks.any()
    blocks[...] = 1
    zero_tail(blocks, channels)
    if not flat:
        assert inside[:, -1, ..., form.tail or LANES:].sum() == 0
        assert blocks[:, -1, ..., form.tail or LANES:].sum() == 0


@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("halo, width", [(0, LANES), (1, LANES), (1, LANES + 1)])
def test_reorders_past_the_caches_are_the_same(monkeypatch, halo, width, offset):
    form = BlockedLayout(2 * LANES + 3, 3, width, halo)
    data = numbers(2, form.channels, form.height, form.width)
    blocks = [behind_vectors(form.shape(2), offset) for _ in range(2)]
    back = behind_vectors(data.shape, offset)
    for array, far in zip(blocks, [np.inf, 0], strict=True):
        monkeypatch.setattr(nontemporal, "NONTEMPORAL_BYTES", far)
        assert nontemporal.bypasses_cache(array, data) == (far == 0 and not offset)
        into_blocks(form, data, array)
    from_blocks(form, blocks[1], back)
    np.testing.assert_array_equal(*blocks)
    np.testing.assert_array_equal(back, data)


CASES = {
    "same": (2, 2 * LANES, (7, 9), 2 * LANES, Sliding((3, 3), pad=(1, 1))),
    "tails, stride": (3, 40, (8, 8), 24, Sliding((3, 3), (2, 2), (1, 1))),
    "pixelwise": (2, 16, (5, 5), 48, Sliding((1, 1))),
    "pixelwise, stride": (2, 16, (9, 9), 48, Sliding((1, 1), (2, 2))),
    "dilated": (2, 64, (11, 11), 33, Sliding((3, 3), pad=(2, 2), dilate=(2, 2))),
    "groups": (2, 4 * LANES, (6, 6), 6 * LANES, Sliding((3, 3), pad=(1, 1), groups=2)),
    "image": (2, 3, (17, 17), 24, Sliding((7, 7), (2, 2), (3, 3))),
    "image, rows of three": (2, 3, (9, 16), 3 * LANES, Sliding((3, 3), (2, 1), (1, 1))),
    "one channel": (1, 1, (28, 28), 20, Sliding((5, 5))),
    "few pixels": (5, 20, (3, 3), 50, Sliding((3, 3))),
    "groups of images": (30, 20, (5, 5), 50, Sliding((3, 3))),
    "one pixel": (7, 32, (1, 1), 64, Sliding((1, 1))),
    "depthwise": (3, 40, (9, 8), 40, Sliding((3, 3), pad=(1, 1), groups=40)),
    "depthwise, stride": (2, 24, (8, 8), 24, Sliding((3, 3), (2, 2), (1, 1), groups=24)),
    "depthwise, gaps": (9, 6, (7, 5), 6, Sliding((1, 2), (2, 3), (0, 1), (1, 2), groups=6)),
    "depthwise, wide": (2, 17, (11, 9), 17, Sliding((5, 5), (1, 2), (2, 2), (2, 1), groups=17)),
    "rows": (2, 2 * LANES + 3, (9, 20), 2 * LANES + 3,
             Sliding((5, 5), pad=(2, 2), groups=2 * LANES + 3)),
    "rows, stride": (1, 2 * LANES, (9, 16), 2 * LANES,
                     Sliding((5, 5), (2, 2), (2, 2), groups=2 * LANES)),
    "rows, stride, odd": (5, 9, (8, 15), 9, Sliding((3, 3), (2, 2), (1, 1), groups=9)),
    "uneven": (2, 24, (10, 7), 24, Sliding((5, 3), (3, 2), (2, 0))),
}


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_convolutions(name, flat):
    """All three directions against sums in float64: 1e-5 of the largest element."""
    batch, channels, image, filters, slide = CASES[name]
    x, w = numbers(batch, channels, *image), numbers(
        filters, channels // slide.groups, *slide.kernel)
    y = convolution_sums.forward(slide, x, w)
    g = numbers(*y.shape)
    gx, gw = convolution_sums.backward(slide, x, w, g)
    halo = 0 if flat else slide.data_halo(image, y.shape[2:])
    forms = (BlockedLayout(channels, *image, max(slide.pad) + 1, 1 if flat else LANES),
             BlockedLayout(filters, *y.shape[2:], halo))
    if flat and slide.groups > 1:
        pytest.skip("images have no groups")
    k = kernels_of(slide, *forms, batch)
    xb, yb, gb, gxb = (np.full(forms[i].shape(batch), np.nan, "f") for i in (0, 1, 1, 0))
    into_blocks(forms[0], x, xb)
    into_blocks(forms[1], g, gb)
    packed, out = np.full(k.packed.shape, np.nan, "f"), np.empty(y.shape, "f")
    sums = np.full(k.summed.shape, np.nan, "f")
    k.pack(w, packed)
    k.forward(xb, packed, None, yb)()
    from_blocks(forms[1], yb, out)
    close(out, y)
    gradient = np.zeros_like(w)
    k.weight(xb, gb, sums, gradient)()
    close(gradient, gw)
    k.weight(xb, gb, sums, gradient, adds=True)()
    close(gradient, 2 * gw)
    if not flat:
        back = np.full(k.packed_data.shape, np.nan, "f")
        k.data(gb, w, back, gxb)()
        from_blocks(forms[0], gxb, found := np.empty_like(x))
        close(found, gx)
        k.data(gb, w, back, gxb, adds=True)()
        from_blocks(forms[0], gxb, found)
        close(found, 2 * gx)


TILED = {
    "same": (2, 2 * LANES, (8, 9), 2 * LANES, (1, 1)),
    "tails": (3, 24, (7, 11), 20, (1, 0)),
    "one vector, padding": (1, 5, (18, 2), 3 * LANES, (2, 2)),
    "many tiles": (9, LANES, (13, 21), LANES, (0, 0)),
}
WORKSPACES = {"tiles": {}, "filters": {"L2_ELEMENTS": 0},
              "parts": {"L2_ELEMENTS": 0, "SHARED_ELEMENTS": 0}}
"""How much is taken at a time."""


def tiled(slide, forms, batch, out, fresh, monkeypatch, split):
    for name, size in WORKSPACES[split].items():
        monkeypatch.setattr(winograd, name, size)
    found = WinogradConvolution(slide, *forms, batch, out, fresh)
    assert found.tiling.splits_tiles == (split == "tiles")
    return found


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("split", WORKSPACES)
@pytest.mark.parametrize("out", [2, 4])
@pytest.mark.parametrize("name", TILED)
def test_convolutions_by_tiles(name, out, split, fresh, monkeypatch):
    """The forward pass and the data gradient, with every epilogue, and into a halo."""
    batch, channels, image, filters, pad = TILED[name]
    slide, size = Sliding((3, 3), pad=pad), tuple(np.add(image, pad) + pad - 2)
    x, w, g = numbers(batch, channels, *image), numbers(filters, channels, 3, 3), numbers(
        batch, filters, *size)
    y, gx = convolution_sums.forward(slide, x, w), convolution_sums.backward(slide, x, w, g)[0]
    forms = (BlockedLayout(channels, *image, max(pad)),
             BlockedLayout(filters, *size, slide.data_halo(image, size)))
    k = tiled(slide, forms, batch, out, fresh, monkeypatch, split)
    xb, yb, gb, gxb = (np.full(forms[i].shape(batch), np.nan, "f") for i in (0, 1, 1, 0))
    into_blocks(forms[0], x, xb)
    into_blocks(forms[1], g, gb)
    bias = np.zeros(forms[1].blocks * LANES, "f")
    bias[:filters] = numbers(filters)
    made, workspace = (np.full(spec.shape, np.nan, "f") for spec in (k.filters, k.workspace(False)))
    k.pack(w, made, workspace)
    k.forward(xb, made, bias, yb, gb, RELU, workspace)()
    from_blocks(forms[1], yb, found := np.empty_like(g))
    close(found, np.maximum(y + bias[:filters, None, None] + g, 0))
    made, workspace = (np.full(spec.shape, np.nan, "f")
                       for spec in (k.data_filters, k.workspace(True)))
    for adds in (False, True):
        k.data(gb, w, made, gxb, adds=adds, workspace=workspace)()
        from_blocks(forms[0], gxb, found := np.empty_like(x))
        close(found, (1 + adds) * gx)
    assert np.isfinite(yb).all() and np.isfinite(gxb).all()


@pytest.mark.parametrize("out, most", [(2, 2e-6), (4, 6e-6)])
def test_digits_that_tiles_keep(out, most):
    """At most twice the error that the documentation states for 256 channels."""
    slide = Sliding((3, 3), pad=(1, 1))
    forms = BlockedLayout(256, 20, 20, 1), BlockedLayout(8, 20, 20)
    x, w = numbers(1, 256, 20, 20), numbers(8, 256, 3, 3)
    k = WinogradConvolution(slide, *forms, 1, out)
    blocks, y = np.empty(forms[0].shape(1), "f"), np.empty(forms[1].shape(1), "f")
    made, workspace = (np.empty(spec.shape, "f") for spec in (k.filters, k.workspace(False)))
    into_blocks(forms[0], x, blocks)
    k.pack(w, made, workspace)
    k.forward(blocks, made, None, y, workspace=workspace)()
    from_blocks(forms[1], y, found := np.empty((1, 8, 20, 20), "f"))
    expected = convolution_sums.forward(slide, x.astype("d"), w.astype("d"))
    assert abs(found - expected).max() <= most * abs(expected).max()


@pytest.mark.parametrize("split", WORKSPACES)
def test_any_number_of_threads_gives_the_same_tiles(split, monkeypatch):
    """Also where the workspace was made for fewer threads than run later, and the other way."""
    slide = Sliding((3, 3), pad=(1, 1))
    forms = BlockedLayout(24, 23, 21, 1), BlockedLayout(40, 23, 21)
    data, weight, many = numbers(*forms[0].shape(3)), numbers(40, 24, 3, 3), num_threads()
    found = []
    try:
        for before, later in ((1, 1), (many, many), (1, many), (many, 1)):
            set_num_threads(before)
            k = tiled(slide, forms, 3, 4, False, monkeypatch, split)
            made, workspace = (np.empty(spec.shape, "f")
                               for spec in (k.filters, k.workspace(False)))
            set_num_threads(later)
            k.pack(weight, made, workspace)
            found.append(np.empty(forms[1].shape(3), "f"))
            k.forward(data, made, None, found[-1], workspace=workspace)()
    finally:
        set_num_threads(many)
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)


def close(found, expected):
    np.testing.assert_allclose(found, expected, atol=1e-5 * abs(expected).max())


powers = MicroKernel(("x", "y", "at"), lambda v: v.store(
    exp(v, v.load(v.at(v.args.x, v.args.at))), v.at(v.args.y, v.args.at)), lambda x, y, at: None)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_digits_of_exp(dtype):
    """A unit in the last place, from the least normal result to the largest.

    Half a unit is the last rounding, a quarter that of the sum before it, which is up to half as
    large as the result; rounding the reduced argument and the series' coefficients adds a tenth.
    """
    kind, info = EXPONENTIALS[8 * np.dtype(dtype).itemsize], np.finfo(dtype)
    ends = [np.log(8 * info.tiny), np.log(info.max) - 4 * info.eps * abs(kind.most)]
    x = np.concatenate([np.linspace(*ends, 1 << 17)[:-8], [
        -np.inf, kind.least - 1, -0.0, 1e-30, kind.most + 1, np.inf, np.nan, 1]]).astype(dtype)
    y = np.empty_like(x)
    for at in range(0, x.size, lanes(dtype)):
        called(powers)(x, y, at)
    with np.errstate(over="ignore"):
        exact = np.exp(x.astype(np.longdouble))
        expected = exact.astype(dtype)
    expected[np.abs(expected) < info.tiny] = 0
    np.testing.assert_allclose(y, expected, rtol=2 * info.eps)
    finite = np.isfinite(expected) & (expected > 0)
    if np.finfo(np.longdouble).eps < info.eps:  # a more accurate type exists
        error = np.abs(y[finite] - exact[finite]) / np.spacing(expected[finite])
        assert error.max() <= 1


@pytest.mark.parametrize("flags", [0, LOG])
@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("dtype, most", [("float32", 2e-6), ("float64", 1e-14)])
@pytest.mark.parametrize("size", [1, LANES - 1, LANES, 9 * LANES + 3])
def test_rows_of_probabilities_are_their_twin(size, dtype, most, inplace, flags):
    """Errors of logarithms are those of values up to 10."""
    x = (3 * numbers(size + 5)).astype(dtype)
    y = x if inplace else numbers(size + 5).astype(dtype)
    arguments = np.full(1, -0.5, dtype), (2, 2), (size, flags)
    expected = y.copy()
    softmax_row.function(x, expected, *arguments)
    called(softmax_row)(x, y, *arguments)
    np.testing.assert_allclose(y, expected, rtol=0, atol=most)
    np.testing.assert_array_equal(y[[0, 1, -3, -2, -1]], expected[[0, 1, -3, -2, -1]])


@pytest.mark.parametrize("dtype, most", [("float32", 2e-6), ("float64", 1e-14)])
@pytest.mark.parametrize("begin", [LANES, LANES + 3])
@pytest.mark.parametrize("size", [1, LANES - 1, LANES, 6 * LANES + 3, norm_rows.PART * LANES + 5])
@pytest.mark.parametrize("flags", [0, norm_rows.STREAM, norm_rows.SCALAR_AFFINE,
                                   norm_rows.STREAM | norm_rows.SCALAR_AFFINE])
def test_rows_of_norms_are_their_twins(flags, size, begin, dtype, most):
    """Sums of n terms have sqrt(n) times the error of one, here in relative terms."""
    x, g, y, *along = (at_vectors(2 * (begin + size + 5)).view(dtype) if dtype == "float64" else
                       at_vectors(begin + size + 5) for _ in range(7))
    for array in (x, g, y, *along):
        array[...] = numbers(array.size)
    gamma, beta, slopes, shifts = along
    mean, deviation = np.array([9, 0.5], dtype), np.array([9, 9, 0.7], dtype)
    sums, shares = np.zeros(2), np.array([0.3, -0.2], dtype)
    at, steps = (begin, 1, 2, 4), (size, flags)
    known = (x, gamma, mean, deviation)
    for micro, arrays, where in (
            (norm_rows.row_sums, (x, mean, sums), ((begin, 1), size)),
            (norm_rows.row_normalize, (x, gamma, beta, mean, deviation, y), (at, steps)),
            (norm_rows.row_grad_sums, (g, *known, slopes, shifts, sums), (at, steps)),
            (norm_rows.row_grad, (g, *known, shares, y), (at, steps)),
            (norm_rows.row_normalize, (x, gamma, beta, mean, deviation, x), (at, steps))):
        expected = [each.copy() for each in arrays]
        if arrays[-1] is x:  # in place
            expected[-1] = expected[0]
        micro.function(*expected, *where)
        called(micro)(*arrays, *where)
        for mine, other in zip(arrays, expected, strict=True):
            np.testing.assert_allclose(mine, other, rtol=most, atol=most * max(4, size ** 0.5))


@pytest.mark.skipif("NBMOD_SIMD_LANES" in os.environ, reason="this is one of the widths already")
@pytest.mark.parametrize("width", [w for w in (16, 8, 4) if w != LANES])
def test_other_widths(width, tmp_path):
    """This file again, for vectors of another width than the host's."""
    ran = run_pytest(tmp_path, "-x", __file__, NBMOD_SIMD_LANES=str(width))
    assert ran.returncode == 0, ran.stdout[-3000:]
