"""Variants of samples: other element types and odd shapes, for any op.

A row of the coverage table has cells for element types, gradients and shapes. `tags` finds the
shapes that a sample has already, by its shapes and parameters or, where they do not show it, by a
word in its note; `variants` makes, for a cell that no sample fills, calls that would fill it. They
may be invalid (a batch of other size against a `shape` parameter): the caller tries them in both
packages, until one succeeds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, fields, replace
from typing import Any

import numpy as np

from nbmod.ops import OPS
from tests.cases import Input, Sample

FLOATS = ("float16", "float32", "float64")
INTEGERS = ("int32", "int64", "int8", "uint8")
SHAPES = ("one", "broadcast", "negative", "large")

LARGE = 100_000
"""Elements of the first input that count as large."""

AXES = ("axis", "axes", "dim", "dim1", "dim2", "begin")


def applies(op: str, cell: str) -> bool:
    """Whether an op can have this shape at all."""
    names = {field.name for field in fields(OPS[op])}
    if cell == "broadcast":
        return op.startswith("broadcast_")
    if cell == "negative":
        return bool(names & set(AXES))
    return True


def tags(sample: Sample) -> set[str]:
    """Which of `SHAPES` a sample is."""
    shapes = [spec.shape for spec in sample.specs.values()] or [_shape_of(sample.attrs)]
    found = set(SHAPES) & set(sample.note.split())
    if shapes[0][:1] == (1,):
        found.add("one")
    if np.prod(shapes[0]) >= LARGE:
        found.add("large")
    if any(_is_negative(sample.attrs.get(name)) for name in AXES):
        found.add("negative")
    if sample.op.startswith("broadcast_") and (len(shapes) == 1 or shapes[0] != shapes[1]):
        found.add("broadcast")
    return found


def variants(sample: Sample, cell: str) -> Iterator[tuple[Sample, str]]:
    """Samples that would fill a cell, each with the element type to run it in."""
    if cell in FLOATS + INTEGERS:
        yield of_type(sample, cell), cell
    elif cell == "negative":
        yield from ((made, "float32") for made in from_the_end(sample))
    elif cell == "broadcast":
        yield from ((made, "float32") for made in broadcasting(sample))
    elif "float32" in (sample.mx_dtypes or FLOATS):
        shape = next((s.shape for s in sample.specs.values()), _shape_of(sample.attrs))
        rows = {"one": 1, "large": _many(shape)}[cell]
        for alone in (False, True):
            yield with_rows(sample, rows, alone), "float32"


def of_type(sample: Sample, dtype: str) -> Sample:
    """The sample for another element type; where there is no input, a parameter sets it."""
    if sample.specs:
        return sample if dtype in FLOATS else _small(sample)
    if "dtype" not in {field.name for field in fields(OPS[sample.op])}:
        return sample
    return replace(sample, attrs={**sample.attrs, "dtype": dtype})


def _small(sample: Sample) -> Sample:
    """Given values that every integer type can hold."""
    specs = {name: replace(spec, values=tuple(v if abs(v) < 100 else 0 for v in spec.values))
             for name, spec in sample.specs.items()}  # fmt: skip
    return replace(sample, inputs=specs if sample.keyword else tuple(specs.values()))


def with_rows(sample: Sample, rows: int, alone: bool) -> Sample:
    """Axis 0 of other size: of the first input alone, or of all that have the same."""
    specs = sample.specs
    if not specs:
        if "shape" not in sample.attrs:
            return sample
        shape = _shape_of(sample.attrs)
        return replace(sample, attrs={**sample.attrs, "shape": (rows, *shape[1:])})
    first = next(iter(specs.values())).shape[:1]
    changed = {name: _resized(spec, rows) if spec.shape[:1] == first and (i == 0 or not alone)
               else spec for i, (name, spec) in enumerate(specs.items())}  # fmt: skip
    return replace(sample, inputs=changed if sample.keyword else tuple(changed.values()))


def from_the_end(sample: Sample) -> Iterator[Sample]:
    """The same axes counted from the end."""
    ndim = len(next((spec.shape for spec in sample.specs.values()), ()))
    declared = {field.name: field.default for field in fields(OPS[sample.op])}
    for name in AXES:
        axes = sample.attrs.get(name, declared.get(name, MISSING))
        if isinstance(axes, int) and not isinstance(axes, bool) and axes >= 0:
            yield replace(sample, attrs={**sample.attrs, name: axes - ndim})
        elif isinstance(axes, tuple) and axes and all(isinstance(axis, int) for axis in axes):
            yield replace(sample, attrs={**sample.attrs, name: tuple(a - ndim for a in axes)})


def broadcasting(sample: Sample) -> Iterator[Sample]:
    """Two inputs that broadcast in both directions, also with different numbers of axes."""
    if len(sample.specs) != 2:
        return
    for shapes in (((2, 1, 3), (1, 4, 1)), ((1,), (2, 3)), ((2, 3, 4), (1,)), ((2, 3), (3,))):
        specs = {name: replace(spec, shape=shape)
                 for (name, spec), shape in zip(sample.specs.items(), shapes, strict=True)
                 if spec.kind != "array"}  # fmt: skip
        if len(specs) == 2:
            yield replace(sample, inputs=specs if sample.keyword else tuple(specs.values()))


def _resized(spec: Input, rows: int) -> Input:
    shape = (rows, *spec.shape[1:])
    values = spec.values
    if spec.kind == "array":
        values = tuple(np.resize(values, shape).ravel().tolist()) if rows else ()
    return replace(spec, shape=shape, values=values)


def _many(shape: tuple[int, ...]) -> int:
    return -(-LARGE // max(int(np.prod(shape[1:])), 1))


def _shape_of(attrs: Any) -> tuple[int, ...]:
    shape = attrs.get("shape", ())
    return (shape,) if isinstance(shape, int) else tuple(shape)


def _is_negative(value: Any) -> bool:
    values = value if isinstance(value, (tuple, list)) else (value,)
    return any(isinstance(v, int) and v < 0 for v in values)
