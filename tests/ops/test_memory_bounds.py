"""Kernels of sliding windows read and write their arrays and workspaces only.

Random poolings, convolutions and small image networks run between guard pages
(`tests.programs.guarded_memory`), in a process of their own, which a wrong access kills.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nbmod as mx
from tests.oracle.client import Oracle, OracleError

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs mprotect")
THREADS = 4
CHANNELS = st.sampled_from([1, 2, 3, 4, 7, 8, 16, 17, 32, 65])


@pytest.fixture(scope="module")
def worker() -> Iterator[Oracle]:
    """A process of nbmod."""
    with closing(Oracle(Path(sys.executable), timeout=600, threads=THREADS,
                        package="tests.programs")) as process:
        yield process


@st.composite
def axes(draw: Any, most: dict[int, int]) -> dict[str, tuple[int, ...]]:
    """Image, kernel, stride, pad and dilation of one to three axes; windows may exceed images."""
    rank = draw(st.integers(1, 3))
    found = []
    for _ in range(rank):
        image, dilate = draw(st.integers(1, most[rank])), draw(st.sampled_from([1, 1, 1, 2, 3]))
        kernel = draw(st.integers(1, 4) | st.integers(1, image + 3))
        pad = draw(st.sampled_from([0, 0, kernel // 2, kernel - 1, kernel + 1]))
        least = -(-max(dilate * (kernel - 1) + 1 - image, 0) // 2)
        found.append((image, kernel, draw(st.integers(1, 3) | st.integers(1, kernel + 2)),
                      max(pad, least), dilate))
    names = ("image", "kernel", "stride", "pad", "dilate")
    return dict(zip(names, zip(*found, strict=True), strict=True))


def layouts(rank: int) -> Any:
    return st.sampled_from([None, "N" + "DHW"[-rank:] + "C"])


@st.composite
def poolings(draw: Any) -> tuple[Any, dict[str, tuple[int, ...]]]:
    """A pooling and the shape of its data."""
    window = draw(axes({1: 200, 2: 24, 3: 9}))
    image, rank = window["image"], len(window["image"])
    attrs = {name: window[name] for name in ("kernel", "stride", "pad")}
    attrs["pool_type"] = draw(st.sampled_from(["max", "max", "avg", "sum", "lp"]))
    attrs["p_value"] = draw(st.integers(1, 3))
    attrs["pooling_convention"] = draw(st.sampled_from(["valid", "full"]))
    attrs["count_include_pad"] = draw(st.booleans())
    attrs["layout"] = draw(layouts(rank))
    if draw(st.integers(0, 9)) == 0:
        attrs["global_pool"] = True
    elif rank == 1 and not any(window["pad"]) and draw(st.booleans()):
        attrs["pooling_convention"] = "same"
    shape = shape_of(draw(st.integers(1, 9)), draw(CHANNELS), image, attrs["layout"])
    return mx.sym.Pooling(mx.sym.Variable("data"), **attrs), {"data": shape}


def shape_of(batch: int, channels: int, image: tuple[int, ...], layout: str | None
             ) -> tuple[int, ...]:
    return (batch, *image, channels) if layout else (batch, channels, *image)


@st.composite
def convolutions(draw: Any) -> tuple[Any, dict[str, tuple[int, ...]]]:
    """A convolution or its transpose, and the shape of its data."""
    window = draw(axes({1: 60, 2: 14, 3: 6}))
    image = window.pop("image")
    groups = draw(st.sampled_from([1, 1, 2, 5, 16]))
    name = draw(st.sampled_from(["Convolution", "Convolution", "Deconvolution"]))
    filters = groups * draw(st.sampled_from([1, 1, 3, 8, 16, 17]))
    channels = groups * draw(st.sampled_from([1, 1, 3, 8, 16, 17]))
    symbol = getattr(mx.sym, name)(mx.sym.Variable("data"), num_filter=filters, num_group=groups,
                                   no_bias=draw(st.booleans()), **window)
    return symbol, {"data": (draw(st.integers(1, 5)), channels, *image)}


@st.composite
def networks(draw: Any) -> tuple[Any, dict[str, tuple[int, ...]]]:
    """Layers that are laid out in blocks of channels."""
    side, x = draw(st.tuples(st.integers(5, 20), st.integers(5, 20))), mx.sym.Variable("data")
    for _ in range(draw(st.integers(1, 4))):
        kernel, stride = draw(st.integers(1, 4)), draw(st.integers(1, 3))
        window = {"kernel": (kernel, kernel), "stride": (stride, stride),
                  "pad": (draw(st.integers(kernel - 1, kernel)),) * 2}
        kind, filters = draw(st.sampled_from(["conv", "depthwise", "pool"])), draw(CHANNELS)
        if kind == "pool":
            x = mx.sym.Pooling(x, pool_type=draw(st.sampled_from(["max", "avg"])), **{
                **window, "pad": (kernel - 1,) * 2})
        else:
            x = mx.sym.Convolution(x, num_filter=filters, **window)
            if kind == "depthwise":
                x = mx.sym.Convolution(x, num_filter=filters, num_group=filters, kernel=(3, 3),
                                       pad=(draw(st.integers(1, 4)),) * 2)
            if draw(st.booleans()):
                x = mx.sym.BatchNorm(x, fix_gamma=False)
            x = mx.sym.Activation(x, act_type="relu") if draw(st.booleans()) else x
    return x, {"data": (draw(st.integers(1, 3)), draw(CHANNELS), *side)}


OPTIONS = {"dtype": st.just("float32"),  # others run the same kernels, or have these within
           "request": st.sampled_from(["write", "add"]), "threads": st.integers(1, THREADS)}


@given(st.one_of(poolings(), convolutions(), networks()), st.fixed_dictionaries(OPTIONS))
@settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))
def test_kernels_stay_within_their_arrays(worker, program, options):
    symbol, shapes = program
    try:
        symbol.infer_shape(**shapes)
    except mx.MXNetError:
        return
    try:
        worker.call("guarded_memory.run", symbol.tojson(), shapes, **options)
    except OracleError as error:
        raise AssertionError(f"{shapes} {options} {error.traceback}") from None
