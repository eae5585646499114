"""Lines of recurrent networks: unrolled cells of every kind, with other ops between the steps."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from tests.fuzz.kinds import UNARY, Shape, kind, one, pick
from tests.fuzz.program import Scope

SIMPLE = ("lstm", "gru", "tanh", "relu")
HIDDEN = (1, 3, 4, 8, 16)


def _cell(rng: Random, depth: int = 0, size: int | None = None) -> Any:
    """A cell as nested tuples; with `size` one whose output has the size of its input."""
    hidden = size or rng.choice(HIDDEN)
    choice = rng.random()
    if depth > 1 or choice < 0.55:
        return (rng.choice(SIMPLE), hidden)
    if choice < 0.7:
        return ("sequence", *(_cell(rng, depth + 1, size) for _ in range(rng.randint(1, 3))))
    if choice < 0.8 and size is None:
        return ("two", _cell(rng, 2), _cell(rng, 2))
    if choice < 0.87 and size:
        return ("residual", _cell(rng, 2, size))
    if choice < 0.93:
        return ("sequence", _cell(rng, 2, size), ("dropout", 0.0), _cell(rng, 2, size))
    if size is None:
        return ("unfused", rng.choice(("lstm", "gru", "rnn_tanh")), hidden, rng.randint(1, 2),
                rng.random() < 0.4)
    return (rng.choice(SIMPLE), hidden)


def _make(mx: Any, cell: Any, prefix: str) -> Any:
    name, *rest = cell
    if name in SIMPLE:
        made = {"lstm": mx.rnn.LSTMCell, "gru": mx.rnn.GRUCell}.get(name)
        return made(rest[0], prefix=prefix) if made else mx.rnn.RNNCell(
            rest[0], activation=name, prefix=prefix)
    if name == "sequence":
        whole = mx.rnn.SequentialRNNCell()
        for i, part in enumerate(rest):
            whole.add(_make(mx, part, f"{prefix}{i}_"))
        return whole
    if name == "two":
        return mx.rnn.BidirectionalCell(_make(mx, rest[0], f"{prefix}l_"),
                                        _make(mx, rest[1], f"{prefix}r_"), output_prefix=prefix)
    if name == "residual":
        return mx.rnn.ResidualCell(_make(mx, rest[0], prefix))
    if name == "dropout":
        return mx.rnn.DropoutCell(rest[0], prefix=prefix)
    mode, hidden, layers, both = rest
    return mx.rnn.FusedRNNCell(hidden, num_layers=layers, mode=mode, bidirectional=both,
                               prefix=prefix).unfuse()


def _unrolled(scope: Scope, inputs: Any, params: Mapping[str, Any]) -> list[Any]:
    cell = _make(scope.mx, params["cell"], f"{scope.name}_")
    outputs, states = cell.unroll(params["steps"], inputs, layout=params["layout"],
                                  begin_state=cell.begin_state(dtype=scope.dtype),
                                  merge_outputs=params["merge"])
    return [*([outputs] if params["merge"] else outputs), *(
        _flat(states) if params["states"] else ())]


def _flat(states: Any) -> list[Any]:
    return [one for state in states for one in (
        _flat(state) if isinstance(state, (list, tuple)) else [state])]


def _unroll_params(rng: Random, shape: Shape) -> dict[str, Any]:
    layout = rng.choice(["NTC", "TNC"])
    return {"cell": _cell(rng, size=shape[2] if rng.random() < 0.3 else None), "layout": layout,
            "steps": shape[layout.index("T")], "merge": rng.random() < 0.5,
            "states": rng.random() < 0.3}


@kind("unroll", one(_unroll_params, lambda shape: len(shape) == 3 and 0 not in shape
                    and max(shape[:2]) <= 8))
def _(scope, args, params):
    return _unrolled(scope, args[0], params)


def _draw_steps(rng: Random, shapes: list[Shape]) -> Any:
    """The last values of one shape are steps."""
    last = pick(rng, shapes, lambda shape: len(shape) == 2 and 0 not in shape)
    if last is None:
        return None
    same = [i for i, shape in enumerate(shapes) if shape == shapes[last]][-rng.randint(1, 6):]
    if rng.random() < 0.2:
        rng.shuffle(same)
    return tuple(same), {
        "cell": _cell(rng, size=shapes[last][1] if rng.random() < 0.3 else None), "layout": "NTC",
        "steps": len(same), "merge": rng.random() < 0.5, "states": rng.random() < 0.3}


@kind("unroll_steps", _draw_steps)
def _(scope, args, params):
    return _unrolled(scope, list(args), params)


def _draw_each(rng: Random, shapes: list[Shape]) -> Any:
    last = pick(rng, shapes, lambda shape: len(shape) == 2)
    if last is None:
        return None
    same = [i for i, shape in enumerate(shapes) if shape == shapes[last]][-rng.randint(2, 6):]
    return tuple(same), {"op": rng.choice(list(UNARY))}


@kind("each", _draw_each)
def _(scope, args, params):
    """The same function of every step."""
    return [UNARY[params["op"]](scope.mx, x) for x in args]


@kind("stacked", one(lambda rng, shape: {
    "cells": tuple(_cell(rng, 2) for _ in range(rng.randint(2, 3))), "steps": shape[1],
    "between": tuple(rng.choices(list(UNARY), k=2)), "merge": rng.random() < 0.5},
    lambda shape: len(shape) == 3 and 0 not in shape and max(shape[:2]) <= 8))
def _(scope, args, params):
    """Stacked cells with functions of every step between them."""
    steps = args[0]
    for i, cell in enumerate(params["cells"]):
        last = i == len(params["cells"]) - 1
        cell = _make(scope.mx, cell, f"{scope.name}_{i}_")
        steps, _ = cell.unroll(params["steps"], steps, layout="NTC",
                               begin_state=cell.begin_state(dtype=scope.dtype),
                               merge_outputs=last and params["merge"])
        if not last:
            steps = [UNARY[params["between"][i % 2]](scope.mx, x) for x in steps]
    return [steps] if params["merge"] else list(steps)


@kind("fused_rnn", one(lambda rng, shape: {
    "mode": rng.choice(["lstm", "gru", "rnn_tanh", "rnn_relu"]), "state_size": rng.choice(HIDDEN),
    "num_layers": rng.randint(1, 2), "bidirectional": rng.random() < 0.3},
    lambda shape: len(shape) == 3 and 0 not in shape and max(shape[:2]) <= 8))
def _(scope, args, params):
    cell = scope.mx.rnn.FusedRNNCell(params["state_size"], num_layers=params["num_layers"],
                                     mode=params["mode"], bidirectional=params["bidirectional"],
                                     prefix=f"{scope.name}_")
    outputs, _ = cell.unroll(1, args[0], layout="TNC", merge_outputs=True,
                             begin_state=cell.begin_state(dtype=scope.dtype))
    return [outputs]
