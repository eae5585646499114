"""Algorithms of convolution: cost estimates count all work, and no wasteful one is chosen."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import nbmod as mx
from nbmod.ops import jit
from nbmod.ops.blocked import address_tables, choose_algorithm, direct
from nbmod.ops.blocked.address_tables import (
    PIXELS,
    data_strips,
    data_work,
    forward_strips,
    forward_work,
)
from nbmod.ops.blocked.blocked_convolution import sliding_of
from nbmod.ops.blocked.layout import LANES
from nbmod.ops.nn import (
    conv_exchanged,
    conv_gemm,
    conv_im2col,
    conv_interleaved,
    conv_lowered,
    conv_shifted,
    convolution,
    pointwise,
)
from nbmod.ops.nn.sliding_window import Geometry, Window, sliding_size, span_of
from nbmod.ops.simd.host import lanes
from tests.programs import convolution_sums

FLOAT = np.dtype(np.float32)
DIRECTIONS = ("forward", "data", "weight")
ALGORITHMS = (conv_shifted, conv_im2col, conv_lowered, conv_interleaved, conv_exchanged)
MODULES = {module.__name__.rpartition(".")[2]: module for module in (
    conv_gemm, pointwise, direct, *ALGORITHMS)}
needs_vectors = pytest.mark.skipif(LANES == 1, reason="NBMOD_SIMD_LANES=1 is without vectors")


def geometry(batch, channels, image, filters, kernel, **how):
    """Of a convolution; `how`: stride, pad, dilate and groups."""
    ones = (1,) * len(image)
    stride, dilate = how.get("stride", ones), how.get("dilate", ones)
    pad = how.get("pad", (0,) * len(image))
    out = sliding_size(image, span_of(kernel, dilate), stride, pad)
    window = Window.over(image, out, kernel, stride, pad, dilate)
    return Geometry(window, batch, channels, filters, how.get("groups", 1))


def chosen(geo, direction):
    """The algorithm of a direction, and the geometry that it gets: that, or the squeezed one."""
    choice = convolution.fastest(geo, direction, FLOAT)
    if choice.name == "conv_squeezed":
        (choice,) = choice.parts
    return MODULES[choice.name], choice.op.geo


def results(algorithm, geo, direction, random, dtype):
    """Results of an algorithm in one direction, with a workspace of NaN, twice."""
    x = random.standard_normal((geo.images, geo.channels, *geo.window.image)).astype(dtype)
    w = random.standard_normal((geo.filters, geo.group_channels, *geo.window.kernel)).astype(dtype)
    g = random.standard_normal((geo.images, geo.filters, *geo.window.out)).astype(dtype)
    bias = random.standard_normal(geo.channels if direction == "data" else geo.filters)
    room = [np.full(*spec) for spec in (
        (spec.shape, np.nan, spec.dtype)
        for spec in algorithm.workspace(geo, direction, np.dtype(dtype)))]
    out = {"forward": g, "data": x, "weight": w}[direction]
    bias = None if direction == "weight" else bias.astype(dtype)
    run = algorithm.prepare(geo, direction, x, w, g, bias, room)
    out[...] = np.nan
    with np.errstate(all="ignore"):     # as in a bound network: workspaces hold arbitrary values
        run()
        first = out.copy()
        run()
    np.testing.assert_array_equal(out, first)
    return out


@st.composite
def geometries(draw, most=40, rank=(1, 3)):
    """Kernels from a pixel to the whole image, within any stride, padding and dilation."""
    image = draw(st.lists(st.integers(1, most), min_size=rank[0], max_size=rank[1]))
    kernel = [draw(st.one_of(st.integers(1, min(size, 3)), st.integers(1, size), st.just(size)))
              for size in image]
    dilate = [draw(st.sampled_from((1, 1, 2, 3))) for _ in image]
    spans = span_of(kernel, dilate)
    pad = [max(draw(st.integers(0, min(span - 1, 8))), -(-(span - size) // 2))
           for span, size in zip(spans, image, strict=True)]
    stride = [draw(st.one_of(st.just(1), st.integers(1, max(size, 2)))) for size in image]
    groups = draw(st.sampled_from((1, 1, 2, 5)))
    return geometry(draw(st.integers(1, 20)), groups * draw(st.integers(1, 20)), image,
                    groups * draw(st.integers(1, 20)), kernel, stride=stride, pad=pad,
                    dilate=dilate, groups=groups)


def seen(geo):
    """(positions, terms of a group's sums): the index of the pixel that each term reads in the
    image of one group, -1 for padding."""
    axes = [np.arange(axis.out)[:, None] * axis.stride - axis.pad
            + np.arange(axis.kernel) * axis.dilate for axis in geo.window.axes]
    inside = [(index >= 0) & (index < size)
              for index, size in zip(axes, geo.window.image, strict=True)]
    place, there = np.zeros((1, 1), int), np.ones((1, 1), bool)
    for index, ok, size in zip(axes, inside, geo.window.image, strict=True):
        place = (place[:, None, :, None] * size + index[:, None]).reshape(
            len(place) * len(index), -1)
        there = (there[:, None, :, None] & ok[:, None]).reshape(len(place), -1)
    channel = np.arange(geo.group_channels)[:, None] * math.prod(geo.window.image)
    return np.where(there[:, None], channel + place[:, None], -1).reshape(len(place), -1)


@given(geometries(most=9))
@settings(max_examples=150, deadline=None)
def test_a_squeezed_window_sees_the_same_pixels(geo):
    np.testing.assert_array_equal(seen(geo.squeezed), seen(geo))


@pytest.mark.parametrize("image, kernel, how, window", [
    ((56, 300), (3, 300), {}, ((1, 1, 16800), (1, 1, 900), (1, 1, 300))),
    ((300, 56), (300, 3), {}, ((1, 1, 56), (1, 1, 3), (1, 1, 1))),
    ((9, 7, 5), (9, 7, 5), {}, ((1, 1, 1), (1, 1, 1), (1, 1, 1))),
    ((9, 7, 5), (1, 1, 1), {}, ((1, 1, 315), (1, 1, 1), (1, 1, 1))),
    ((9, 7, 5), (1, 3, 3), {}, ((9, 7, 5), (1, 3, 3), (1, 1, 1))),
    ((20, 6), (5, 1), {"pad": (2, 0)}, ((1, 1, 120), (1, 1, 5), (1, 1, 1))),
    ((20, 6), (20, 6), {"pad": (1, 1)}, ((1, 20, 6), (1, 20, 6), (1, 1, 1))),
])  # fmt: skip
def test_squeezed_windows(image, kernel, how, window):
    found = geometry(2, 4, image, 8, kernel, **how).squeezed.window
    assert (found.image, found.kernel, found.stride) == window


ODD = [
    geometry(3, 4, (7, 7, 7), 6, (5, 5, 5), pad=(1, 1, 1), dilate=(2, 2, 2), groups=2),
    geometry(5, 1, (9, 20, 2), 5, (7, 8, 2), stride=(1, 2, 2), pad=(6, 0, 1), dilate=(2, 1, 2)),
    geometry(2, 3, (140,), 4, (140,), stride=(2,), pad=(139,), dilate=(3,)),
    geometry(7, 6, (4, 5, 6), 6, (3, 3, 3), groups=6), geometry(2, 2, (40, 30), 9, (1, 1)),
    geometry(2, 3, (40, 30), 7, (3, 1)), geometry(9, 4, (4, 4), 10, (3, 3), stride=(2, 2)),
    geometry(2, 10, (11, 70), 15, (1, 1), groups=5), geometry(3, 2, (2,), 3, (1,), pad=(3,)),
    geometry(3, 4, (5, 3), 8, (2, 2), stride=(7, 1), pad=(1, 1)),
    geometry(2, 4, (9, 9), 12, (3, 3), pad=(4, 0), stride=(3, 1), groups=2),
    geometry(2, 12, (5, 9), 3, (2, 3), pad=(0, 2), dilate=(3, 2), groups=3),
    geometry(3, 10, (4, 5, 6), 2, (4, 1, 3), pad=(0, 0, 1), stride=(2, 1, 1)),
]
"""Taps in the padding alone, pixels that no window sees, rows of a position, images in place."""


LARGE = [
    geometry(2, 40, (33, 31), 70, (3, 3), pad=(1, 1)), geometry(40, 70, (5, 5), 65, (3, 3)),
    geometry(1, 600, (24, 24), 3, (2, 2), stride=(2, 2)), geometry(3, 300, (3, 3), 30, (2, 2)),
]
"""Images of several tiles and tiles of several images; more rows and terms than those of a tile."""


def sums(geo, direction, random, dtype):
    """`results` by products of matrices that hold the pixels under all taps."""
    x = random.standard_normal((geo.images, geo.channels, *geo.window.image)).astype(dtype)
    w = random.standard_normal((geo.filters, geo.group_channels, *geo.window.kernel)).astype(dtype)
    g = random.standard_normal((geo.images, geo.filters, *geo.window.out)).astype(dtype)
    bias = random.standard_normal(geo.channels if direction == "data" else geo.filters)
    bias = bias.astype(dtype).astype("d").reshape(1, -1, 1)
    place, groups = seen(geo), geo.groups
    pixels = np.concatenate([x.reshape(geo.images * groups, -1), np.zeros(
        (geo.images * groups, 1), dtype)], 1).astype("d")
    rows = pixels[:, place].reshape(geo.images, groups, len(place), -1)
    weight = w.reshape(groups, geo.group_filters, -1).astype("d")
    grads = g.reshape(geo.images, groups, geo.group_filters, -1).astype("d")
    if direction == "forward":
        return (np.einsum("gfk,ngpk->ngfp", weight, rows).reshape(
            geo.images, geo.filters, -1) + bias).reshape(g.shape)
    if direction == "weight":
        return np.einsum("ngfp,ngpk->gfk", grads, rows).reshape(w.shape)
    found = np.zeros_like(pixels).reshape(geo.images, groups, -1)
    terms = np.einsum("gfk,ngfp->ngpk", weight, grads)
    np.add.at(found, (slice(None), slice(None), place), terms)
    return (found[:, :, :-1].reshape(geo.images, geo.channels, -1) + bias).reshape(x.shape)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("geo", ODD + LARGE, ids=str)
def test_products_of_gathered_columns(geo, direction, dtype):
    """Sums of n terms, in any order, differ by n roundings at most, and by far less mostly."""
    found = results(conv_gemm, geo, direction, np.random.default_rng(0), dtype)
    expected = sums(geo, direction, np.random.default_rng(0), dtype)
    close = 1e-5 if dtype == "float32" else 1e-13
    np.testing.assert_allclose(found, expected, rtol=close, atol=close * abs(expected).max())


def applies(algorithm, geo, direction, dtype):
    """All apply to all of ODD, but conv_lowered and conv_exchanged; and conv_interleaved to any
    images, though it is not chosen for few."""
    if algorithm is conv_interleaved:
        return direction != "weight"
    finite = algorithm.cost(geo, direction, np.dtype(dtype)) < math.inf
    assert finite or algorithm in (conv_lowered, conv_exchanged)
    return finite


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("geo", ODD, ids=str)
def test_algorithms_compute_the_same(geo, algorithm, direction, dtype):
    if not applies(algorithm, geo, direction, dtype):
        pytest.skip("does not apply")
    found, expected = (results(each, geo, direction, np.random.default_rng(0), dtype)
                       for each in (algorithm, conv_gemm))
    close = 1e-4 if dtype == "float32" else 1e-11
    np.testing.assert_allclose(found, expected, rtol=close, atol=close * abs(expected).max())


@given(geometries(most=9), st.sampled_from(DIRECTIONS), st.sampled_from(ALGORITHMS))
@settings(max_examples=150, deadline=None)
def test_algorithms_compute_the_same_for_any_geometry(geo, direction, algorithm):
    if algorithm is not conv_interleaved:
        assume(algorithm.cost(geo, direction, FLOAT) < math.inf)
    assume(algorithm is not conv_interleaved or direction != "weight")
    found, expected = (results(each, geo, direction, np.random.default_rng(0), "float32")
                       for each in (algorithm, conv_gemm))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * max(abs(expected).max(), 1))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("direction", ["forward", "data"])
@pytest.mark.parametrize("most", [1 << 18, 600])
@pytest.mark.parametrize("geo", [
    geometry(18, 4, (3, 15), 11, (3, 13), pad=(9, 6), stride=(2, 1), dilate=(6, 1)),
    geometry(33, 6, (5, 2), 9, (3, 2), pad=(1, 1), groups=3), geometry(48, 3, (2, 2), 8, (2, 2)),
    geometry(46, 3, (2, 5, 3), 17, (2, 3, 3), pad=(1, 1, 1), stride=(2, 1, 2)),
    geometry(5, 2, (6, 6, 6), 5, (4, 4, 4), pad=(6, 6, 6), dilate=(4, 4, 4)),
], ids=str)  # fmt: skip
def test_interleaved_images(geo, most, direction, dtype, monkeypatch):
    """Lanes that images do not fill, whole vectors, runs of pixels; in one tile or in several."""
    monkeypatch.setattr(conv_interleaved, "MOST", most)
    monkeypatch.setattr(conv_interleaved, "_layout", conv_interleaved.InterleavedLayout)
    tiles = conv_interleaved.InterleavedLayout(geo, direction, lanes(dtype)).tiles
    assert (tiles > 1) == (most == 600)
    found, expected = (results(each, geo, direction, np.random.default_rng(0), dtype)
                       for each in (conv_interleaved, conv_gemm))
    close = 1e-4 if dtype == "float32" else 1e-11
    np.testing.assert_allclose(found, expected, rtol=close, atol=close * abs(expected).max())


def test_adjacent_results_form_runs():
    """Rows of 12 pixels, of which taps that are 4 apart see the image from two or four at once."""
    window = geometry(1, 1, (3, 12), 1, (1, 4), pad=(0, 6), dilate=(1, 4)).window
    for direction in ("forward", "data"):
        table = conv_interleaved._runs(window, direction).table
        assert table[:4, 1].tolist() == [2, 4, 4, 2] and len(table) == 12
        assert table[:4, 3].tolist() == [2, 3, 3, 2]
    wide = geometry(1, 1, (9, 7), 1, (1, 1)).window
    assert conv_interleaved._runs(wide, "forward").table.tolist() == [[0, 63, 0, 1]]


@needs_vectors
@pytest.mark.parametrize("direction, geo", [
    ("forward", geometry(5, 12, (12, 12, 12), 16, (4, 4, 4), pad=(6, 6, 6), dilate=(4, 4, 4))),
    ("forward", geometry(46, 9, (2, 12, 3), 256, (2, 3, 3), stride=(2, 1, 2), pad=(1, 1, 1))),
    ("forward", geometry(18, 12, (3, 15), 64, (3, 13), stride=(2, 1), pad=(9, 6), dilate=(6, 1))),
    ("data", geometry(33, 168, (26, 2), 84, (8, 2), pad=(2, 1), dilate=(4, 1), groups=7)),
    ("data", geometry(29, 416, (17,), 416, (4,), stride=(2,), groups=26)),
], ids=str)  # fmt: skip
def test_rows_of_a_few_pixels_are_interleaved(direction, geo):
    """Copying such rows, and taps in the padding, took three to six times MXNet's time."""
    choice = convolution.fastest(geo, direction, FLOAT)
    assert "conv_interleaved" in (choice.name, *(part.name for part in choice.parts))


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_rejected_algorithms_are_known_with_their_costs(direction):
    for geo in ODD:
        choice = convolution.fastest(geo, direction, FLOAT)
        rejected = [(row.name, estimate) for row, estimate in choice.rejected]
        assert {choice.name, *dict(rejected)} == {*MODULES, "conv_squeezed"}
        assert re.fullmatch(r"\w+ \([\d,]+ ns\)( of .+)?", str(choice.chosen))
        for name, (cost, why_not, _) in rejected:
            assert why_not.startswith("takes ") if cost is None else choice.cost <= cost
            if name != "conv_squeezed":
                expected = MODULES[name].cost(geo, direction, FLOAT)
                assert expected == (np.inf if cost is None else cost)


@pytest.mark.parametrize("algorithm", [conv_gemm, *ALGORITHMS])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_any_number_of_threads_sums_alike(algorithm, direction):
    """Bit by bit: parts of a group's filters, and of its channels."""
    before = jit.num_threads()
    for geo in (ODD[0], ODD[1], ODD[5], *(LARGE if algorithm is conv_gemm else [])):
        if not applies(algorithm, geo, direction, "float32"):
            continue
        found = []
        try:
            for count in {1, before}:
                jit.set_num_threads(count)
                random = np.random.default_rng(0)
                found.append(results(algorithm, geo, direction, random, "float32"))
        finally:
            jit.set_num_threads(before)
        np.testing.assert_array_equal(found[0], found[-1])


def test_the_largest_part_limits_what_is_lowered():
    """All taps at all positions are 8,799,660 pixels, more than MOST, but no part has as many; by
    other algorithms the data gradient takes 3.4 times MXNet's time."""
    geo = geometry(2, 15, (86, 155), 420, (86, 111), stride=(2, 103), pad=(43, 0), groups=15)
    assert convolution.fastest(geo, "data", FLOAT).name == "conv_lowered"
    largest = max(part.sizes[0] for part in conv_lowered._parts(geo, False))
    assert largest < conv_lowered.MOST < 15 * 155 * 86 * 44


def test_few_filters_slide_over_many_channels():
    """Padding 2,432 channels or copying them under the taps took 4.8 times MXNet's time."""
    geo = geometry(6, 64, (38, 2, 10), 8, (38, 1, 3), pad=(0, 0, 2))
    algorithm, squeezed = chosen(geo, "weight")
    assert algorithm is conv_exchanged
    assert squeezed.channels == 64 * 38
    found, expected = (results(each, squeezed, "weight", np.random.default_rng(0), "float32")
                       for each in (conv_exchanged, conv_gemm))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * abs(expected).max())


@pytest.mark.parametrize("geo", [
    geometry(2, 9, (9,), 5, (3,)), geometry(2, 9, (9,), 2, (3,), stride=(2,)),
    geometry(2, 9, (9,), 2, (1,)), geometry(2, 9, (9,), 2, (3,), pad=(3,)),
], ids=["many filters", "strides", "a single tap", "positions in the padding"])  # fmt: skip
def test_roles_that_are_not_exchanged(geo):
    assert conv_exchanged.cost(geo, "weight", FLOAT) == math.inf
    for direction in ("forward", "data"):
        assert conv_exchanged.cost(geo, direction, FLOAT) == math.inf


@given(geometries(most=9))
@settings(max_examples=150, deadline=None)
def test_adjacent_taps_are_contiguous(geo):
    weight = np.arange(geo.filters * geo.depth).reshape(-1, *geo.window.kernel)
    for part in conv_lowered._parts(geo, True):
        taps = weight[(slice(None), *part.taps)].ravel()
        ends = np.flatnonzero(np.diff(taps) != 1) + 1
        assert all(end % part.adjacent(geo.window.kernel) == 0 for end in ends)


@given(geometries(most=9))
@settings(max_examples=150, deadline=None)
def test_trimmed_windows_see_all_that_is_seen(geo):
    """The rest of a window reads the same pixels, and the dead taps read none."""
    all_taps, live = seen(geo), geo.window.live
    trimmed = seen(replace(geo, window=geo.window.trimmed))
    kept = np.zeros(geo.window.kernel, bool)
    kept[tuple(slice(taps.start, taps.stop) for taps in live)] = True
    kept = np.tile(kept.ravel(), geo.group_channels)
    np.testing.assert_array_equal(all_taps[:, kept], trimmed)
    assert (all_taps[:, ~kept] == -1).all()


def products(geo, direction):
    """Products of a pixel and a tap in the tables of the strip kernels."""
    k = direct._kernels(geo, direction == "data")
    task = (data_strips(k.slide, k.y, k.x, k.batch) if direction == "data"
            else forward_strips(k.slide, k.x, k.y, k.batch))
    blocks = task.spans[task.spans[:, 2] == 0]  # one span of output channels
    deep = -(-geo.filters // LANES) if direction == "data" else k.x.blocks
    return sum(((task.steps[0] - 1) * b[7] + b[9]) * PIXELS * b[5] for b in blocks) // deep


@needs_vectors
@given(geometries(most=24, rank=(1, 2)), st.sampled_from(("forward", "data")))
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
def test_estimates_count_what_tables_hold(geo, direction):
    assume(geo.groups == 1 and geo.channels >= LANES)
    slide, win = sliding_of(geo), geo.window
    found = (data_work(slide, win.image[1:], geo.images) if direction == "data"
             else forward_work(slide, win.out[1:], geo.images))
    expected = products(geo, direction)
    if direction == "forward" or all(map(slide.seen, slide.classes)):
        assert found == expected
    else:  # pixels that no tap reads get one of zeros
        assert found <= expected


SPANNING = {
    "text": geometry(50, 1, (56, 300), 100, (3, 300)),
    "wider text": geometry(50, 1, (56, 300), 100, (5, 300)),
    "in a stack": geometry(8, 4, (56, 300), 64, (3, 300), pad=(1, 0)),
    "whole image": geometry(8, 64, (28, 28), 128, (28, 28)),
    "whole padded image": geometry(5, 64, (4, 227), 64, (4, 227), pad=(2, 0)),
    "one channel": geometry(1, 1, (64, 64), 16, (64, 64)),
    "strided": geometry(4, 3, (32, 70), 16, (1, 70), stride=(2, 1)),
    "long": geometry(1, 4, (1678,), 11, (1678,), stride=(2,), pad=(1677,), dilate=(2,)),
    "image": geometry(4, 64, (56, 56), 64, (3, 3), pad=(1, 1)),
}
WASTE = 40
"""Products that may be computed for each of the definition: a lane of sixteen with a channel, in
strips of which a third are pixels."""


def waste(geo, direction):
    """Products of the chosen algorithm relative to those of the definition."""
    algorithm, found = chosen(geo, direction)
    if algorithm is not direct or direction == "weight":
        return 1
    blocks = -(-found.group_filters // LANES) * -(-found.group_channels // LANES) * LANES ** 2
    return products(found, direction) * blocks * found.groups / geo.products


@needs_vectors
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("name", SPANNING)
def test_no_algorithm_wastes_much(name, direction):
    geo = SPANNING[name]
    assert waste(geo, direction) <= WASTE


@needs_vectors
@given(geometries(), st.sampled_from(DIRECTIONS))
@settings(max_examples=200, deadline=None)
def test_the_least_estimate_decides(geo, direction):
    algorithm, used = chosen(geo, direction)
    others = [module.cost(each, direction, FLOAT) for each in (geo, geo.squeezed)
              for module in MODULES.values()]
    cost = convolution.fastest(geo, direction, FLOAT).cost
    assert cost == algorithm.cost(used, direction, FLOAT) == min(others) < math.inf


def is_blocked(geo, directions, last=False) -> bool:
    """Whether a layer of plain images takes less time in blocks."""
    costs = choose_algorithm.costs_in_blocks(geo, directions, False, last)
    return costs is not None and costs.blocks <= costs.plain


@needs_vectors
@pytest.mark.parametrize("name", SPANNING)
def test_layers_that_blocks_waste_work_on_stay_plain(name):
    """A layer in a network with all gradients requested."""
    geo = SPANNING[name]
    assert is_blocked(geo, DIRECTIONS) == (name == "image")


@needs_vectors
def test_a_thin_layer_that_nobody_reads_stays_plain():
    """Reordering its output would cost more than computing it; its consumer reads blocks."""
    thin, wide = geometry(2, 3, (252, 252), 24, (1, 1)), SPANNING["image"]
    assert not is_blocked(thin, ("forward",), last=True)
    assert is_blocked(wide, ("forward",), last=True)


@needs_vectors
def test_a_text_network_has_no_blocks():
    net = mx.sym.Convolution(mx.sym.Variable("data"), kernel=(3, 300), num_filter=100)
    executor = net.simple_bind(mx.cpu(), data=(50, 1, 56, 300))
    assert {step.node.op_name for step in executor.steps} <= {
        "Convolution", "_backward_Convolution"}


@pytest.mark.parametrize("batch, channels, image, filters, kernel, how", [
    (3, 1, (9, 30), 10, (3, 30), {}), (3, 2, (30, 9), 10, (30, 3), {}),
    (2, 5, (7, 6), 17, (7, 6), {}), (2, 6, (7, 6), 9, (7, 6), {"groups": 3}),
    (2, 4, (8, 8), 8, (8, 8), {"groups": 4}), (2, 3, (9, 11), 8, (4, 11), {"stride": (2, 1)}),
    (2, 3, (5, 12), 8, (5, 12), {"pad": (2, 0)}), (2, 3, (5, 12), 8, (5, 12), {"pad": (4, 11)}),
    (2, 3, (9, 12), 2, (3, 12), {"pad": (1, 0), "stride": (3, 1)}),
    (2, 8, (9, 12), 16, (5, 1), {"pad": (2, 0), "dilate": (2, 1)}),
    (2, 3, (9, 12), 12, (1, 1), {}), (5, 20, (3, 3), 6, (1, 1), {"groups": 2}),
    (2, 3, (9, 12), 3, (9, 12), {"groups": 3}), (1, 1, (9, 40), 16, (3, 40), {"dilate": (2, 1)}),
])  # fmt: skip
def test_filters_as_wide_as_the_image(batch, channels, image, filters, kernel, how):
    """Output and gradients against sums in float64."""
    geo = geometry(batch, channels, image, filters, kernel, **how)
    given_groups = {"num_group" if key == "groups" else key: value for key, value in how.items()}
    net = mx.sym.Convolution(mx.sym.Variable("x"), kernel=kernel, num_filter=filters, no_bias=True,
                             name="c", **given_groups)
    executor = net.simple_bind(mx.cpu(), x=(batch, channels, *image))
    random = np.random.default_rng(0)
    x, w = (random.standard_normal(array.shape).astype("f") for array in executor.arg_arrays)
    executor.arg_arrays[0][:], executor.arg_arrays[1][:] = x, w
    y = executor.forward(is_train=True)[0].asnumpy()
    g = random.standard_normal(y.shape).astype("f")
    executor.backward([mx.nd.array(g)])
    expected = (convolution_sums.forward(sliding_of(geo), x, w),
                *convolution_sums.backward(sliding_of(geo), x, w, g))
    for one, other in zip((y, *(array.asnumpy() for array in executor.grad_arrays)), expected,
                          strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5 * abs(other).max())


@pytest.mark.parametrize("algorithm", [conv_shifted, conv_lowered, conv_interleaved])
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("geo", [
    geometry(3, 4, (9, 12), 8, (5, 4), pad=(2, 1), groups=4),
    geometry(2, 3, (23, 21), 6, (23, 19), stride=(7, 5), pad=(20, 18), groups=3),
    geometry(2, 2, (7, 7, 6), 2, (5, 6, 7), stride=(2, 3, 2), pad=(9, 13, 11), dilate=(4, 5, 3),
             groups=2),
    geometry(4, 5, (30,), 15, (28,), stride=(3,), groups=5),
], ids=str)  # fmt: skip
def test_depthwise_windows_that_mostly_see_padding(geo, direction, algorithm):
    if not applies(algorithm, geo, direction, "float64"):
        pytest.skip("does not apply")
    found, expected = (results(each, geo, direction, np.random.default_rng(0), "float64")
                       for each in (algorithm, conv_gemm))
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11 * abs(expected).max())


@pytest.mark.parametrize("pixels, strip, expected", [
    (49, 14, (2, 8, 2)), (49, 6, (4, 4, 4)), (36, 14, (3, 6, 1)), (196, 6, (1, 16, 1)),
    (1, 6, (16, 1, 16))])
def test_images_are_grouped_so_that_strips_are_full(pixels, strip, expected, monkeypatch):
    """(images of a group, groups, images of the last one) of 16 images."""
    monkeypatch.setattr(address_tables, "PIXELS", strip)
    assert address_tables.grouped(16, pixels) == expected
    whole = math.ceil(16 * pixels / strip)
    each, groups, last = expected
    strips = (groups - 1) * math.ceil(each * pixels / strip) + math.ceil(last * pixels / strip)
    assert strips <= 1.03 * whole
