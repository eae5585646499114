"""Pooling: types, windows, and errors."""

from __future__ import annotations

from itertools import product

from tests.cases import Sample, array, distinct, nonzero, normal

INF, NAN = float("inf"), float("nan")
SINGLE = {"dtypes": ("float32",)}
AS_64 = ("float64", "float16")


def pool(data: tuple[int, ...], op: str = "Pooling", **attrs) -> Sample:
    """A Pooling of distinct values; the attributes may include arguments of `Sample` itself."""
    options = {key: attrs.pop(key) for key in tuple(attrs)
               if key in ("note", "error", "why", "mx_dtypes", "dtypes", "oracle", "grad")}
    make = distinct if attrs.get("pool_type", "max") == "max" else normal
    return Sample(op, {"data": make(data)}, attrs, **options)


WIDE = {"kernel": (3, 2), "stride": (2, 3), "pad": (1, 1)}
KINDS = ("max", "avg", "sum")

SAMPLES = [
    *(pool((2, 3, 7, 6), kernel=(3, 2), pool_type=kind) for kind in KINDS),
    *(pool((2, 3, 7, 6), **WIDE, pool_type=kind) for kind in KINDS),
    *(pool((2, 3, 8, 6), kernel=(3, 2), stride=(2, 2), pooling_convention="full", pool_type=kind)
      for kind in KINDS),
    *(pool((1, 2, 5, 37), kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type=kind)
      for kind in KINDS),
    *(pool((2, 2, 9), kernel=(3,), stride=(2,), pad=(1,), pool_type=kind) for kind in KINDS),
    *(pool((1, 2, 5, 4, 6), kernel=(3, 2, 2), stride=(2, 1, 3), pad=(1, 0, 1), pool_type=kind)
      for kind in KINDS),
    *(pool((2, 3, 4, 5), global_pool=True, pool_type=kind) for kind in KINDS),
    *(pool((2, 3, 5, 4), kernel=(5, 4), pool_type=kind, note="the whole image") for kind in KINDS),
    *(pool((2, 3, 7), global_pool=True, pool_type=kind) for kind in KINDS),
    *(pool((3, 30, 7, 11), global_pool=True, pool_type=kind, note="by kernels") for kind in KINDS),
    Sample("Pooling", {"data": array([[[NAN, 1], [2, NAN], [-INF, 3], [4, 3]]])},
           {"global_pool": True}, grad=("data",), note="NaN is never the largest"),
    Sample("Pooling", {"data": array([[[NAN, NAN], [-INF, -INF], [NAN, -INF], [-INF, NAN]]])},
           {"global_pool": True}, grad=("data",), note="nothing is above the lowest number",
           **SINGLE),
    *(pool((2, 5, 4, 3), kernel=(2, 2), stride=(2, 1), layout="NHWC", pool_type=kind)
      for kind in KINDS),
    *(Sample("Pooling", {"data": nonzero((2, 2, 6, 5))},
             {**WIDE, "pool_type": "lp", "p_value": p}) for p in (1, 2)),
    # the cube root of a sum that passes zero has no bounded slope
    Sample("Pooling", {"data": array([[[[1, 2, 3, 1], [2, 1, 1, 2], [3, 1, 2, 1]]]])},
           {"kernel": (2, 2), "stride": (1, 2), "pool_type": "lp", "p_value": 3}, grad=("data",)),
    *(Sample("Pooling", {"data": array([[[1, 2, INF, 3, 1, -INF, NAN], [3, 3, NAN, 2, 1, 0, 1]]])},
             {"kernel": (2,), "stride": (3,), "pool_type": "lp", "p_value": p},
             grad=("data",), note="no window sees what is not finite") for p in (1, 2, 3)),
    Sample("Pooling", {"data": nonzero((2, 3, 4, 3))},
           {"global_pool": True, "pool_type": "lp", "p_value": 2}),
    pool((1, 1, 4, 2, 3), global_pool=True, pool_type="avg", kernel=(2, 2, 2), pad=(1, 1, 1),
         note="kernel and pad do not count"),
    pool((2, 4, 5), kernel=(2,), stride=(2,), layout="NWC"),
    pool((1, 3, 4, 5, 2), kernel=(2, 2, 2), layout="NDHWC", pool_type="avg"),
    pool((2, 5, 4, 3), global_pool=True, layout="NHWC", pool_type="avg"),
    pool((2, 2, 5, 6), **WIDE, pool_type="avg", count_include_pad=False),
    pool((2, 2, 5, 6), **WIDE, pool_type="avg", count_include_pad=True, cudnn_off=True),
    pool((1, 2, 6, 6), kernel=(3, 3), stride=(2, 2), pad=(1, 1), pooling_convention="full",
         pool_type="avg", count_include_pad=False),
    pool((1, 2, 6, 6), kernel=(3, 3), stride=(2, 2), pad=(1, 1), pooling_convention="full",
         pool_type="avg", mx_dtypes=AS_64,
         why="real MXNet's float32 gradient divides clipped windows by the whole kernel"),
    pool((1, 2, 5, 5), kernel=(2, 2), stride=(3, 3), pooling_convention="full", note="corner"),
    *(pool((1, 2, 9, 40), kernel=(2, 1), stride=(5, 2), pad=(1, 0), pool_type=kind,
           note="windows far apart") for kind in KINDS),
    pool((2, 2, 4, 3, 11), kernel=(1, 2, 2), stride=(3, 1, 4), pad=(0, 1, 1), pool_type="avg",
         note="windows far apart"),
    pool((1, 2, 5, 4), kernel=(1, 1), stride=(3, 2), pooling_convention="full", pool_type="avg",
         note="windows without a pixel"),
    pool((1, 2, 5, 4), kernel=(1, 1), stride=(3, 2), pooling_convention="full",
         dtypes=("float32", "float64"), grad=(), note="windows without a pixel"),
    pool((1, 1, 4, 4), kernel=(2, 2), stride=(2, 2), pad=(2, 2), pool_type="avg",
         mx_dtypes=AS_64, why="real MXNet's oneDNN refuses a pad as wide as the kernel"),
    *(pool((2, 2, 8), kernel=(3,), stride=(2,), pooling_convention="same", pool_type=kind,
           pad=(0, 0, 0), mx_dtypes=AS_64, why="real MXNet's oneDNN refuses 'same'")
      for kind in ("max", "avg")),
    Sample("Pooling", {"data": distinct((3, 70, 2, 2))}, {"kernel": (2, 2)}, **SINGLE),
    *(pool((2, 2, 6, 5), "Pooling_v1", **WIDE, pooling_convention=rule, pool_type=kind)
      for rule, kind in product(("valid", "full"), KINDS)),
    pool((2, 2, 3, 3), "Pooling_v1", global_pool=True, pool_type="avg"),
    pool((2, 2, 5, 5), "Pooling_v1", kernel=(2, 2)),
    # errors
    pool((1, 2, 4, 6), kernel=(5, 5), error=r"window spans \(5, 5\).*image \(4, 6\)"),
    pool((1, 2, 4, 6), error="kernel is not given"),
    pool((4, 6), kernel=(2,), error="expected 3 to 5 dimensions"),
    pool((1, 2, 4, 6), kernel=(2,), error="expected 3 dimensions"),
    pool((1, 2, 4, 6), kernel=(2, 2), stride=(2,), error="stride is .*expected 2 entries"),
    pool((1, 2, 4, 6), kernel=(2, 2), layout="NCW", error="layout is NCW"),
    pool((1, 2, 4, 6), kernel=(2, 2), pool_type="lp", error="p_value is None"),
    pool((1, 2, 4, 6), kernel=(2, 2), pooling_convention="same", error="data of 3 dimensions"),
    pool((1, 2, 4, 6), kernel=(2, 2), dtypes=("int32",), error="has type int32"),
    pool((1, 2, 4), "Pooling_v1", kernel=(2,), error="expected 4 dimensions"),
    # More positions than pixels, for many planes: their maxima need room of their own.
    pool((8, 8, 16), kernel=(2,), stride=(1,), pad=(1,), note="padded"),
]  # fmt: skip
