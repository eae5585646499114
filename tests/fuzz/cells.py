"""Lines of cells written by hand, one of whose steps is odd, and of encoders with decoders.

What recognizes a cell must look at every link of every step: an odd step reads another state, input
or weight than its neighbours, exchanges its layers, or shows what is within.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from tests.fuzz.kinds import Shape, kind, pick
from tests.fuzz.program import Scope

GATES = {"rnn_tanh": 1, "rnn_relu": 1, "lstm": 4, "gru": 3}
HIDDEN = (1, 3, 4, 8)
STATES = ("zeros", "variable", "tanh", "first", "older", "other")
"""States that an odd step reads: zeros, a variable, tanh of the right one, that of the first step,
that of two steps before, or of lstm the other one."""
ODDITIES = {"blend": 4, "recurrent": 3, "weight": 2, "bias": 2, "no bias": 1, "input": 1,
            "roles": 2, "weights": 2, "gates": 1, "activation": 1, "shown": 1}
"""What may be odd in a step, and how often."""
BEGINS = ("zeros", "variable", "one variable", "value")


def _draw_cell(rng: Random, shapes: list[Shape]) -> Any:
    last = pick(rng, shapes, lambda shape: len(shape) in (2, 3) and 0 not in shape)
    if last is None:
        return None
    shape = shapes[last]
    if len(shape) == 3:
        args, count = (last,), shape[1]
    else:
        same = [i for i, other in enumerate(shapes) if other == shape]
        args = tuple(rng.choices(same, k=rng.randint(2, 4)))
        count = len(args)
    if not 2 <= count <= 4:
        return None
    hidden = rng.choice([*HIDDEN, shape[-1], shape[-1]])
    begin = rng.choice(BEGINS)
    if begin == "value":
        state = pick(rng, shapes, lambda other: len(other) == 2 and other[0] == shape[0]
                     and 0 < other[1] <= 16)
        if state is None:
            return None
        args, hidden = (*args, state), shapes[state][1]
    if hidden > 16:
        return None
    return args, {"mode": rng.choice(["gru", "gru", "gru", "lstm", "lstm", "rnn_tanh", "rnn_relu"]),
                  "hidden": hidden, "steps": count, "begin": begin, "odd": _draw_odd(rng, count),
                  "order": rng.randrange(1 << 16), "give": rng.choice(["all", "last", "joined"]),
                  "bias": rng.random() < 0.7}


def _draw_odd(rng: Random, count: int) -> tuple[Any, ...]:
    """(oddity, step, side, state) of none, one or two steps, often the first."""
    return tuple((rng.choices(list(ODDITIES), list(ODDITIES.values()))[0],
                  rng.choice([0, rng.randrange(count)]), rng.choice(["i2h", "h2h"]),
                  rng.choice(STATES)) for _ in range(rng.choice([0, 1, 1, 2])))


class _Cell:
    """A cell in construction: its variables, and states so far."""

    def __init__(self, scope: Scope, params: Mapping[str, Any], begin: list[Any]):
        self.scope, self.sym, self.params = scope, scope.mx.sym, params
        self.order = Random(params["order"])
        self.shown: list[Any] = []
        self.variables: dict[str, Any] = {}
        h, c = self._begin(begin)
        self.h, self.c = [h], [c]

    def _begin(self, given: list[Any]) -> tuple[Any, Any]:
        begin = self.params["begin"]
        if begin == "zeros":
            return self.zeros(), self.zeros()
        if begin == "value":
            return given[0], self.sym.tanh(given[0])
        return self.state("h0"), self.state("h0" if begin == "one variable" else "c0")

    def zeros(self) -> Any:
        return self.sym.zeros(shape=(0, self.params["hidden"]), dtype=self.scope.dtype)

    def state(self, name: str) -> Any:
        return self.variable(name, shape=(0, self.params["hidden"]))

    def variable(self, name: str, **attrs: Any) -> Any:
        if name not in self.variables:
            self.variables[name] = self.scope.variable(name, **attrs)
        return self.variables[name]

    def is_odd(self, name: str, t: int, side: str = "") -> str:
        """The state of an odd step, "" if step `t` is not odd in this way."""
        return next((state for oddity, step, where, state in self.params["odd"]
                     if (oddity, step) == (name, t) and side in ("", where)), "")

    def either(self, op: Any, a: Any, b: Any) -> Any:
        """`op` of both in any order."""
        return op(a, b) if self.order.random() < 0.5 else op(b, a)

    def add(self, a: Any, b: Any) -> Any:
        return self.either(lambda x, y: x + y, a, b)

    def mul(self, a: Any, b: Any) -> Any:
        return self.either(lambda x, y: x * y, a, b)

    def odd_state(self, name: str, states: list[Any], others: list[Any], t: int) -> Any:
        """The last of `states`, or what an odd step reads in place of it."""
        ways = {"": lambda: states[-1], "first": lambda: states[0], "zeros": self.zeros,
                "older": lambda: states[max(-2, -len(states))], "other": lambda: others[-1],
                "variable": lambda: self.state("another"),
                "tanh": lambda: self.sym.tanh(states[-1])}
        return ways[self.is_odd(name, t)]()

    def dense(self, side: str, data: Any, t: int) -> Any:
        turned = {"i2h": "h2h", "h2h": "i2h"}[side] if self.is_odd("weights", t) else side
        weight, bias = (f"{turned}_{part}" + f"_{t}" * bool(self.is_odd(part, t, side))
                        for part in ("weight", "bias"))
        has_bias = self.params["bias"] and not self.is_odd("no bias", t, side)
        given = {"bias": self.variable(bias)} if has_bias else {"no_bias": True}
        return self.sym.FullyConnected(
            data, weight=self.variable(weight), name=f"{self.scope.name}_t{t}_{side}",
            num_hidden=GATES[self.params["mode"]] * self.params["hidden"], **given)

    def step(self, x: Any, t: int) -> None:
        mode, sym = self.params["mode"], self.sym
        i2h = self.dense("i2h", x, t)
        h2h = self.dense("h2h", self.odd_state("recurrent", self.h, self.c, t), t)
        if self.is_odd("roles", t):
            i2h, h2h = h2h, i2h
        act = "relu" if self.is_odd("activation", t) or mode == "rnn_relu" else "tanh"
        before = self.odd_state("blend", *((self.h, self.c) if mode == "gru"
                                           else (self.c, self.h)), t)
        c = self.c[-1]
        if mode == "gru":
            h = self.gru(self.split(i2h, 3, t), self.split(h2h, 3, t), act, before)
        elif mode == "lstm":
            i, f, u, o = self.split(self.add(i2h, h2h), 4, t)
            c = self.add(self.mul(sym.sigmoid(f), before),
                         self.mul(sym.sigmoid(i), getattr(sym, act)(u)))
            h = self.mul(sym.sigmoid(o), sym.tanh(c))
        else:
            h = sym.Activation(self.add(i2h, h2h), act_type=act)
        if self.is_odd("shown", t):
            self.shown.append(i2h + c if mode == "lstm" and self.params["hidden"] == 1 else c * 2)
        self.h.append(h)
        self.c.append(c)

    def gru(self, i: list[Any], j: list[Any], act: str, before: Any) -> Any:
        sym = self.sym
        r, z = sym.sigmoid(self.add(i[0], j[0])), sym.sigmoid(self.add(i[1], j[1]))
        n = sym.Activation(self.add(i[2], self.mul(r, j[2])), act_type=act)
        return self.add(self.mul(1 - z, n), self.mul(z, before))

    def split(self, gates: Any, count: int, t: int) -> list[Any]:
        found = list(self.sym.SliceChannel(gates, num_outputs=count, axis=1))
        return found[1:] + found[:1] if self.is_odd("gates", t) else found


@kind("cell", _draw_cell)
def _(scope, args, params):
    """A cell by hand: steps, one of which may be odd, and what they give."""
    count = params["steps"]
    begin = args[-1:] if params["begin"] == "value" else []
    steps = args[:len(args) - len(begin)]
    if len(steps) == 1:
        steps = list(scope.mx.sym.SliceChannel(steps[0], axis=1, num_outputs=count,
                                               squeeze_axis=True))
    cell = _Cell(scope, params, list(begin))
    for t in range(count):
        cell.step(steps[t - 1 if cell.is_odd("input", t) else t], t)
    hs = cell.h[1:]
    made = {"all": hs, "last": [hs[-1]], "joined": [scope.mx.sym.Concat(*hs, dim=1)]}[
        params["give"]]
    return [*made, *cell.shown, *([cell.c[-1]] if params["mode"] == "lstm" else [])]


# -- decoders -------------------------------------------------------------------------------------

def _decoder_params(rng: Random, shapes: list[Shape]) -> Any:
    """An encoder reads a sequence (N, T, I); its states are where the decoder begins."""
    index = pick(rng, shapes, lambda shape: len(shape) == 3 and 0 not in shape
                 and shape[1] <= 4 and shape[2] <= 16)
    if index is None:
        return None
    return (index,), {"mode": rng.choice(["gru", "lstm", "tanh", "relu"]),
                      "steps": shapes[index][1], "size": shapes[index][2],
                      "shared": rng.random() < 0.5, "begin": rng.choice(["zeros", "variable"]),
                      "handed": rng.choice(["all", "all", "tanh", "turned", "one"]),
                      "feed": rng.choice(["steps", "outputs", "own"]),
                      "count": rng.randint(1, 3)}


def _made(scope: Scope, params: Mapping[str, Any], prefix: str) -> Any:
    rnn, prefix = scope.mx.rnn, f"{scope.name}_{prefix}_"
    if params["mode"] in ("tanh", "relu"):
        return rnn.RNNCell(params["size"], activation=params["mode"], prefix=prefix)
    return {"gru": rnn.GRUCell, "lstm": rnn.LSTMCell}[params["mode"]](params["size"], prefix=prefix)


@kind("decoder", _decoder_params)
def _(scope, args, params):
    """States are given to an encoder, and handed on to a decoder, which may be the same cell."""
    sym = scope.mx.sym
    steps = list(sym.SliceChannel(args[0], axis=1, num_outputs=params["steps"], squeeze_axis=True))
    encoder = _made(scope, params, "encoder")
    states = encoder.begin_state(dtype=scope.dtype)
    if params["begin"] == "variable":
        states = [scope.variable(f"state{i}", shape=(0, params["size"]))
                  for i in range(len(states))]
    outputs = []
    for x in steps:
        output, states = encoder(x, states)
        outputs.append(output)
    states = {"all": states, "tanh": [sym.tanh(state) for state in states],
              "turned": states[::-1], "one": [states[0]] * len(states)}[params["handed"]]
    decoder = encoder if params["shared"] else _made(scope, params, "decoder")
    x, found = steps[0], []
    for t in range(params["count"]):
        output, states = decoder(x, states)
        found.append(output)
        x = {"steps": steps, "outputs": outputs, "own": found}[params["feed"]][
            t % (t + 1 if params["feed"] == "own" else len(steps)) if t else 0]
    return [*found, sym.Concat(*outputs, dim=1)]
