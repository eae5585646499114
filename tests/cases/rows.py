"""Operators over rows and columns: index_copy, index_array, boolean_mask, khatri_rao, im2col."""

from __future__ import annotations

from tests.cases import FLOATS, Sample, array, distinct

ANY = (*FLOATS, "int32", "int64", "uint8")


def copy(old: tuple[int, ...], index, new: tuple[int, ...], **options) -> Sample:
    return Sample("_contrib_index_copy", {"old_tensor": old, "index_vector": index,
                                          "new_tensor": new}, **options)  # fmt: skip


def positions(shape: tuple[int, ...], attrs: dict | None = None, **options) -> Sample:
    return Sample("_contrib_index_array", {"data": shape}, attrs or {}, grad=(), **options)


def products(*shapes: tuple[int, ...], **options) -> Sample:
    return Sample("khatri_rao", shapes, **options)


def selected(data: tuple[int, ...], index, kind: str = "float32", **options) -> Sample:
    return Sample("_contrib_boolean_mask", {"data": data, "index": array(index, kind)},
                  options.pop("attrs", {}), grad=("data",), eager=True, **options)


TWO = "MXNet's CPU has two spatial axes only"
NO_GRADIENT = "MXNet has no gradient of khatri_rao"
SAMPLES = [
    *(selected((4, 2), [0, 1, 0, 2], kind, dtypes=ANY) for kind in ("int32", "int64", "float32")),
    selected((3,), [-1, 0.5, 0]),
    selected((1, 2, 3), [1], "uint8"),
    selected((2, 3), [1, 1], attrs={"axis": 0}),
    selected((2, 3), [1, 0], attrs={"axis": 1}, error="axis is 1"),
    selected((2, 3), [1, 0], error=r"op \(_contrib_boolean_mask\).*depends on the values of data"),
    *(copy((4, 2), array([3, 1], kind), (2, 2), dtypes=ANY)
      for kind in ("int32", "int64", "float32")),
    copy((3,), array([2], "int32"), (1,)),
    copy((1, 2, 3), array([0], "int32"), (1, 2, 3)),
    copy((4, 2), array([4], "int32"), (1, 2), error="index_vector holds 4"),
    copy((4, 2), array([-1], "int32"), (1, 2), error="index_vector holds -1"),
    copy((4, 2), array([1, 2], "int32"), (1, 2), error="index_vector and rows"),
    copy((4, 2), array([1], "int32"), (1, 3), error="new_tensor and rows"),
    *(positions((2, 3, 2), attrs, dtypes=("float32", "int32"))
      for attrs in ({}, {"axes": (1, 0)}, {"axes": (-1,)}, {"axes": (1, 1)})),
    positions((1,)),
    positions((2, 3), {"axes": (2,)}, error="axes is 2"),
    *(products(*shapes, grad=(), dtypes=(*FLOATS, "int32"), mx_dtypes=FLOATS,
               why="MXNet multiplies floats only")
      for shapes in (((2, 3), (4, 3)), ((2, 3),), ((1, 1), (1, 1)), ((2, 3), (1, 3), (3, 3)))),
    products((2, 3), (4, 3), oracle=False, why=NO_GRADIENT),
    products((2, 3), (1, 3), (3, 3), oracle=False, why=NO_GRADIENT),
    products((2, 3), (4, 2), error="arg1 and columns"),
    products((2, 3), (4, 2, 3), error="expected a matrix"),
    Sample("im2col", {"data": (2, 3, 5, 6)}, {"kernel": (3, 2)}, dtypes=("float32", "float64")),
    Sample("im2col", {"data": distinct((1, 2, 4, 4))}, {"kernel": (2, 2), "pad": (1, 1)}),
    *(Sample(op, {"data": shape}, {"kernel": (3, 2), "stride": (2, 1), "dilate": (1, 2),
                                   "pad": (1, 0), **attrs})
      for op, shape, attrs in (("im2col", (2, 3, 5, 6), {}),
                               ("col2im", (2, 18, 12), {"output_size": (5, 6)}))),
    Sample("im2col", {"data": (2, 3, 7)}, {"kernel": (3,)}, oracle=False, why=TWO),
    Sample("im2col", {"data": (1, 2, 3, 4, 3)}, {"kernel": (2, 3, 2)}, oracle=False,
           why=TWO),
    Sample("im2col", {"data": (1, 1, 1, 1)}, {"kernel": (1, 1)}),
    Sample("col2im", {"data": (2, 9, 5)}, {"kernel": (3,), "output_size": (7,)}, oracle=False,
           why=TWO),
    Sample("col2im", {"data": (2, 18, 15)}, {"kernel": (3, 2), "output_size": (5, 6)}),
    Sample("col2im", {"data": (2, 18, 15)}, {"kernel": (3, 2), "output_size": (5, 5)},
           error="data and its 12 positions"),
    Sample("col2im", {"data": (2, 17, 15)}, {"kernel": (3, 2), "output_size": (5, 6)},
           error="a multiple of 6 rows"),
    Sample("col2im", {"data": (2, 18, 15)}, {"kernel": (3, 2), "output_size": (5,)},
           error="output_size is"),
    Sample("im2col", {"data": (2, 3, 5, 6)}, {"kernel": (7, 2)}, error="window spans"),
    Sample("im2col", {"data": (2, 3, 5)}, {"kernel": (3, 2)}, error="expected 4 dimensions"),
    Sample("im2col", {"data": (2, 3, 5, 6)}, {"kernel": (3, 2)}, dtypes=("int32",),
           error="has type int32"),
]  # fmt: skip
