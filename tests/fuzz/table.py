"""Lines of the whole op table: its samples (`tests/cases`), one of whose inputs is a value."""

from __future__ import annotations

from functools import cache
from math import prod
from random import Random
from typing import Any

from tests.cases import all_samples
from tests.cases.sample import CONTINUOUS, FLOAT, Sample, draw
from tests.fuzz.kinds import Shape, kind, pick
from tests.programs.common import op_function

APART = ("Custom", "_foreach", "_while_loop", "_cond", "_contrib_quantize",
         "_contrib_SyncBatchNorm")
"""Ops that take more than parameters, or belong to other lines."""
STEPPED = ("ROI", "roi", "Proposal", "box", "MultiBox", "Deformable", "bipartite")
"""Words in names of ops that round coordinates: the last digit of an input may change all."""


def _is_usable(sample: Sample) -> bool:
    random = sample.random or (sample.op == "RNN" and sample.attrs.get("p"))    # in training
    quiet = not (random or sample.writes or sample.eager or sample.error or sample.loss)
    small = all(prod(spec.shape) <= 4096 for spec in sample.specs.values())
    finite = all(all(v == v and abs(v) < 1e4 for v in spec.values)
                 for spec in sample.specs.values())
    return (quiet and small and finite and sample.out is None and "float32" in sample.dtypes
            and "float64" in sample.dtypes and sample.keyword and bool(sample.specs)
            and not sample.op.startswith((*APART, "_contrib_quantized", "_sg_", "Dropout"))
            and sample.outputs is None and not any(word in sample.op for word in STEPPED))


@cache
def samples() -> dict[str, Sample]:
    """The samples that programs are made of."""
    return {name: sample for name, sample in all_samples().items() if _is_usable(sample)}


def is_smooth(name: str) -> bool:
    """Whether the gradient of every input is that of the forward pass."""
    sample = samples()[name]
    return set(sample.differentiated("float64")) == set(sample.specs)


def _draw_table(rng: Random, shapes: list[Shape]) -> Any:
    name = rng.choice(list(samples()))
    specs = samples()[name].specs
    open_inputs = [key for key, spec in specs.items()
                   if spec.dtype == FLOAT and spec.kind in CONTINUOUS and prod(spec.shape)]
    index = pick(rng, shapes, lambda shape: 0 not in shape)
    if index is None or not open_inputs:
        return None
    return (index,), {"sample": name, "into": rng.choice(open_inputs)}


@kind("table", _draw_table)
def _(scope, args, params):
    """The sample's op; one input is moved a little by a value, brought into its shape."""
    mx, sample = scope.mx, samples()[params["sample"]]
    inputs = {}
    for name, spec in sample.specs.items():
        def values(dtype, name=name, spec=spec):
            return draw(spec, dtype, sample._seed(name))

        inputs[name] = scope.variable(name, values, shape=spec.shape)
    shape = sample.specs[params["into"]].shape
    flat = mx.sym.reshape(args[0], shape=(-1,))
    near = mx.sym.mean(flat, axis=0, keepdims=True) if not shape else flat
    tiled = mx.sym.slice_axis(mx.sym.tile(near, reps=(prod(shape),)), axis=0, begin=0,
                              end=prod(shape))
    moved = mx.sym.reshape(mx.sym.tanh(tiled) * 1e-3, shape=shape)
    inputs[params["into"]] = inputs[params["into"]] + moved
    made = op_function(mx.sym, sample.op)(**inputs, **dict(sample.attrs), name=scope.name)
    return list(made)

