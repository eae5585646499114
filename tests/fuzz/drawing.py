"""Drawing programs: line after line, each of a kind that fits the values so far.

Programs are a function of the `random.Random` alone.  hypothesis passes one of its own, and so
shrinks programs.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

import numpy as np

from tests.fuzz.kinds import KINDS, LARGEST, Shape
from tests.fuzz.program import Line, Program, Scope

STYLES: dict[str, dict[str, int]] = {
    "dense": {"unary": 4, "chain": 2, "binary": 3, "broadcast": 2, "add_n": 1, "reshape": 4,
              "expand": 2, "flatten": 1, "transpose": 4, "concat": 6, "stack": 2, "slice": 4,
              "split": 4, "split_join": 3, "reduce": 2, "extreme": 1, "reverse": 1, "tile": 1,
              "repeat": 1, "widen": 1,
              "dense": 4, "partly_known": 1, "shared": 1, "residual": 2, "dot": 1, "attention": 1,
              "softmax": 1, "layer_norm": 1, "batch_norm": 2, "dropout": 1, "rough": 1,
              "embedding": 1, "softmax_output": 1, "regression": 1, "empty": 1},
    "recurrent": {"unroll": 5, "unroll_steps": 4, "each": 5, "stacked": 4, "fused_rnn": 1,
                  "split": 3, "concat": 3, "stack": 2, "unary": 2, "slice": 1, "dense": 1,
                  "transpose": 1, "expand": 1, "reshape": 1, "dropout": 1, "binary": 1,
                  "reverse": 1, "residual": 1},
    "images": {"convolution": 5, "block": 5, "inverted": 3, "pooling": 3, "batch_norm": 3,
               "unary": 3, "chain": 1, "binary": 2, "join_images": 3, "concat": 1, "add_n": 1,
               "deconvolution": 1, "upsampling": 1, "slice": 1, "split": 1, "split_join": 1,
               "image": 1, "flatten": 1, "dense": 1, "softmax": 1, "transpose": 1, "reduce": 1,
               "dropout": 1, "broadcast": 1},
    "table": {"table": 6, "unary": 2, "binary": 1, "concat": 2, "reshape": 2, "slice": 1,
              "transpose": 1, "dense": 1},
    "loops": {"foreach": 4, "while": 1, "unary": 2, "concat": 1, "transpose": 2, "expand": 2,
              "slice": 1, "dense": 1, "stacked": 1, "reshape": 1},
}
"""Kinds of lines, and how often each is tried."""
STYLES["mixed"] = {name: 1 for name in KINDS}

SHARES = {"dense": 30, "recurrent": 25, "images": 25, "table": 8, "loops": 4, "mixed": 8}
SIZES = (1, 1, 1, 2, 3, 4, 5, 6, 8)


def program(rng: Random, style: str = "") -> Program:
    """A random program; `style` is one of `STYLES`, by default any."""
    style = style or rng.choices(list(SHARES), list(SHARES.values()))[0]
    batch = rng.choice([1, 1, 2, 3, 4])
    inputs = tuple(_input(rng, style, batch) for _ in range(rng.choice([1, 1, 2, 3])))
    shapes, lines = list(inputs), []
    weights = STYLES[style]
    for _ in range(rng.randint(1, 4 + 4 * rng.randint(1, 3))):
        found = _line(rng, rng.choices(list(weights), list(weights.values()))[0], shapes)
        if found is not None:
            lines.append(found[0])
            shapes += found[1]
    return Program(inputs, tuple(lines), _outputs(rng, inputs, lines, shapes),
                   rng.choice(["write"] * 4 + ["add", "null", "null", "mixed"]),
                   mirror=rng.random() < 0.1, groups=rng.random() < 0.06)


def _input(rng: Random, style: str, batch: int) -> Shape:
    if style == "images":
        return (batch, rng.choice([1, 3, 4, 8, 16, 17]), rng.choice([1, 4, 5, 7, 8]),
                rng.choice([1, 4, 6, 7, 8]))
    if style == "recurrent":
        return (batch, rng.randint(1, 6), rng.choice([1, 3, 4, 8, 16]))
    if style == "loops":
        return (rng.randint(1, 5), batch, rng.choice([1, 3, 4]))
    return (batch, *(rng.choice(SIZES) for _ in range(rng.choice([0, 1, 1, 2, 3]))))


def _line(rng: Random, name: str, shapes: list[Shape]) -> tuple[Line, list[Shape]] | None:
    """A line of this kind, and the shapes of its results; None if it does not fit."""
    import nbmod as mx

    drawn = KINDS[name].draw(rng, shapes)
    if drawn is None or None in drawn[0]:
        return None
    args, params = drawn
    scope, given = Scope(mx, "n", "float64"), [mx.sym.Variable(f"v{i}") for i in range(len(args))]
    known = {f"v{i}": shapes[index] for i, index in enumerate(args)}
    try:
        made = KINDS[name].build(scope, given, params)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")     # lines with unknown shapes are not drawn
            found = mx.sym.Group(made).infer_shape(**known)[1]
            kept = all(_keeps(mx.sym.Group(made), known, dtype)
                       for dtype in (np.float64, np.float32))
    except mx.MXNetError:
        return None
    if not kept:
        return None  # a type of its own, which other lines do not accept
    if found is None or any(0 in shape or _size(shape) > LARGEST for shape in found):
        return None
    return Line(name, args, params, len(made)), [tuple(shape) for shape in found]


def _keeps(symbol: Any, names: Iterable[str], dtype: Any) -> bool:
    """Whether outputs have the type of the inputs, as far as it follows from theirs."""
    types = symbol.infer_type(**dict.fromkeys(names, dtype))[1]
    return not types or set(types) == {dtype}


def _size(shape: Sequence[int]) -> int:
    size = 1
    for dim in shape:
        size *= dim
    return size


def _outputs(rng: Random, inputs: Any, lines: list[Line], shapes: list[Shape]) -> tuple[int, ...]:
    """The last value, or all unread values, and now and then others."""
    made = range(len(inputs), len(shapes))
    if not made:
        return (0,)
    read = {index for line in lines for index in line.args}
    ends = [i for i in made if i not in read]
    chosen = ends if rng.random() < 0.7 else ends[-1:]
    if rng.random() < 0.3:
        chosen = [*chosen, rng.choice(made)]
    return tuple(dict.fromkeys(chosen))
