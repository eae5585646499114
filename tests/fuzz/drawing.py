"""Drawing programs: line after line, each of a kind that fits the values so far.

Programs are a function of the `random.Random` alone.  hypothesis passes one of its own, and so
shrinks programs.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Any

import numpy as np

from tests.fuzz.kinds import KINDS, LARGEST, Shape
from tests.fuzz.program import Line, Program, Scope

STYLES: dict[str, dict[str, int]] = {
    "dense": {"unary": 4, "chain": 2, "binary": 3, "power": 1, "broadcast": 2, "add_n": 1,
              "reshape": 4, "expand": 2, "flatten": 1, "transpose": 4, "concat": 6, "stack": 2,
              "slice": 4, "split": 4, "split_join": 3, "reduce": 2, "extreme": 1, "reverse": 1,
              "tile": 1, "repeat": 1, "widen": 1, "dense": 4, "partly_known": 1, "shared": 1,
              "residual": 2, "dot": 1, "attention": 1,
              "softmax": 1, "layer_norm": 1, "batch_norm": 2, "dropout": 1, "rough": 1,
              "embedding": 1, "softmax_output": 1, "regression": 1, "empty": 1},
    "recurrent": {"unroll": 5, "unroll_steps": 4, "each": 5, "stacked": 4, "fused_rnn": 1,
                  "split": 3, "concat": 3, "stack": 2, "unary": 2, "slice": 1, "dense": 1,
                  "transpose": 1, "expand": 1, "reshape": 1, "dropout": 1, "binary": 1,
                  "reverse": 1, "residual": 1},
    "images": {"convolution": 5, "block": 5, "stem": 3, "inverted": 3, "pooling": 3,
               "batch_norm": 3, "unary": 3, "chain": 1, "binary": 2, "join_images": 3,
               "concat": 1, "add_n": 1, "deconvolution": 1, "upsampling": 1, "slice": 1, "split": 1,
               "split_join": 1, "image": 1, "flatten": 1, "dense": 1, "softmax": 1, "transpose": 1,
               "reduce": 1, "dropout": 1, "broadcast": 1, "convolution_nd": 3, "pooling_nd": 2,
               "block_nd": 2, "volume": 3},
    "table": {"table": 6, "unary": 2, "binary": 1, "concat": 2, "reshape": 2, "slice": 1,
              "transpose": 1, "dense": 1},
    "loops": {"foreach": 3, "while": 1, "foreach_layer": 4, "while_layer": 2, "cond_layer": 2,
              "unary": 2, "concat": 1, "transpose": 2, "expand": 2,
              "slice": 1, "dense": 1, "stacked": 1, "reshape": 1},
    "cells": {"cell": 12, "decoder": 3, "split": 2, "concat": 2, "unary": 2, "slice": 1, "dense": 1,
              "stack": 1, "each": 1, "reverse": 1, "unroll": 1, "unroll_steps": 1},
    "heads": {"softmax_loss": 5, "regression_loss": 2, "svm_loss": 2, "make_loss": 2, "ctc_loss": 2,
              "multibox": 3, "proposal": 1, "regions": 3, "box_nms": 1, "dense": 2, "unary": 2,
              "convolution": 2, "concat": 1, "flatten": 1, "reshape": 2, "expand": 2,
              "transpose": 1},
    "weights": {"computed_dense": 4, "computed_convolution": 4, "generated": 2,
                "tied_embedding": 2, "typed": 3, "mixed_dense": 2, "indexed": 3, "sparse": 3,
                "unary": 2, "dense": 1, "concat": 1, "flatten": 1, "binary": 1, "reshape": 1,
                "transpose": 1, "convolution_nd": 2, "pooling_nd": 1},
    "large": {"block": 5, "stem": 3, "block_nd": 1, "inverted": 4, "convolution": 3, "pooling": 4,
              "batch_norm": 2, "unary": 3, "chain": 2, "binary": 2, "broadcast": 1,
              "join_images": 1, "dense": 2, "reduce": 1, "softmax": 1, "split_join": 1,
              "transpose": 1, "concat": 1},
}
"""Kinds of lines, and how often each is tried."""
STYLES["mixed"] = {name: 1 for name in KINDS}

SHARES = {"dense": 22, "recurrent": 12, "images": 18, "table": 7, "loops": 4, "mixed": 8,
          "cells": 12, "heads": 7, "weights": 9, "large": 3}
LARGE_SHAPES = ((6, 8, 14, 14), (8, 16, 12, 12), (9, 3, 17, 17), (12, 16, 16, 16), (64, 160),
                (16, 24, 32), (5, 3, 33, 20))
"""Few of them, so that kernels are those of other programs."""
HUGE_SHAPE = (16, 16, 36, 36)
"""Its convolutions are those that run in bands and tiles at their real sizes."""
MOST_LINES = {"large": 4, "cells": 3, "recurrent": 7, "loops": 5, "images": 10}
"""Programs of lines with many nodes are shorter."""
SIZES = (1, 1, 1, 2, 3, 4, 5, 6, 8)


def any_style(rng: Random) -> str:
    return rng.choices(list(SHARES), list(SHARES.values()))[0]


def program(rng: Random, style: str = "") -> Program:
    """A random program; `style` is one of `STYLES`, by default any."""
    style = style or any_style(rng)
    batch = rng.choice([1, 1, 1, 2, 2, 3, 3, 4, 4, 6, 9])
    inputs = tuple(_input(rng, style, batch) for _ in range(rng.choice([1, 1, 2, 3])))
    if style == "large":
        inputs = (HUGE_SHAPE,) if rng.random() < 0.04 else (rng.choice(LARGE_SHAPES),)
    most = max(LARGEST, *(2 * _size(shape) for shape in inputs))
    shapes, lines = list(inputs), []
    weights = STYLES[style]
    for _ in range(min(rng.randint(1, 4 + 4 * rng.randint(1, 3)), MOST_LINES.get(style, 16))):
        found = _line(rng, rng.choices(list(weights), list(weights.values()))[0], shapes, most)
        if found is not None:
            lines.append(found[0])
            shapes += found[1]
    return Program(inputs, tuple(lines), _outputs(rng, inputs, lines, shapes),
                   rng.choice(["write"] * 4 + ["add", "null", "null", "mixed"]),
                   mirror=rng.random() < 0.1, groups=rng.random() < 0.06)


def _input(rng: Random, style: str, batch: int) -> Shape:
    if style in ("heads", "weights") and rng.random() < 0.6:
        style = rng.choice(["images", "recurrent", "images"])
    if style == "images" and rng.random() < 0.15:   # sequences and volumes
        return rng.choice([(batch, 8, 7), (batch, 5, 16), (2, 3, 4, 3, 5), (1, 8, 2, 6, 3)])
    if style == "images":
        return (batch, rng.choice([1, 3, 4, 8, 16, 17]), rng.choice([1, 4, 5, 7, 8, 12]),
                rng.choice([1, 4, 6, 7, 8, 12]))
    if style == "cells":
        return (batch, rng.randint(2, 4), rng.choice([1, 3, 4, 8, 16]))
    if style == "recurrent":
        return (batch, rng.randint(1, 6), rng.choice([1, 3, 4, 8, 16]))
    if style == "loops":
        return (rng.randint(1, 5), batch, rng.choice([1, 3, 4]))
    return (batch, *(rng.choice(SIZES) for _ in range(rng.choice([0, 1, 1, 2, 3]))))


def _line(rng: Random, name: str, shapes: list[Shape], most: int
          ) -> tuple[Line, list[Shape]] | None:
    """A line of this kind, and the shapes of its results; None if it does not fit."""
    import nbmod as mx

    drawn = KINDS[name].draw(rng, shapes)
    if drawn is None or None in drawn[0]:
        return None
    args, params = drawn
    known = {f"v{i}": shapes[index] for i, index in enumerate(args)}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")     # lines with unknown shapes are not drawn
            for dtype in (np.float64, np.float32):
                given = [mx.sym.Variable(variable) for variable in known]
                made = KINDS[name].build(Scope(mx, "n", dtype.__name__), given, params)
                if not _keeps(mx.sym.Group(made), known, dtype):
                    return None  # a type of its own, which other lines do not accept
            found = mx.sym.Group(made).infer_shape(**known)[1]
            if len(made) > 1 and not all(_is_known(each, known) for each in made):
                return None  # a program may read it alone
    except (mx.base.NotImplementedForSymbol, AttributeError):
        raise
    except mx.MXNetError:
        return None
    if found is None or any(0 in shape or _size(shape) > most for shape in found):
        return None
    return Line(name, args, params, len(made)), [tuple(shape) for shape in found]


def _keeps(symbol: Any, names: Iterable[str], dtype: Any) -> bool:
    """Whether outputs have the type of the inputs, as far as it follows from theirs."""
    types = symbol.infer_type(**dict.fromkeys(names, dtype))[1]
    return not types or set(types) == {dtype}


def _is_known(symbol: Any, shapes: Mapping[str, Shape]) -> bool:
    """Whether the inputs that an output has tell the shapes of all others."""
    return symbol.infer_shape(**{name: shapes[name] for name in symbol.list_arguments()
                                 if name in shapes})[1] is not None


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
