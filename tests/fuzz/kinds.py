"""The kinds of lines of programs: how each is drawn, and how it is built.

`draw(rng, shapes)` chooses the values to read, by their shapes, and parameters; None where no value
fits.  `build(scope, args, params)` makes the symbols, in either library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from random import Random
from typing import Any, NamedTuple

from tests.fuzz.program import Scope, Shape

Drawn = tuple[tuple[int, ...], dict[str, Any]] | None
Draw = Callable[[Random, list[Shape]], Drawn]
Build = Callable[[Scope, list[Any], Mapping[str, Any]], list[Any]]

LARGEST = 1 << 13
"""Elements of a value, where no input is larger: programs are many and small."""


class Kind(NamedTuple):
    """One kind of lines.

    smooth  its gradient is that of its forward pass
    stable  what it gives in float32 is near what it gives in float64
    """

    draw: Draw
    build: Build
    smooth: bool = True
    stable: bool = True


KINDS: dict[str, Kind] = {}


def kind(name: str, draw: Draw, smooth: bool = True, stable: bool = True
         ) -> Callable[[Build], Build]:
    def enter(build: Build) -> Build:
        KINDS[name] = Kind(draw, build, smooth, stable)
        return build

    return enter


# -- choosing values --------------------------------------------------------------------------

def pick(rng: Random, shapes: Sequence[Shape], fits: Callable[[Shape], Any] = lambda shape: True
         ) -> int | None:
    """A value that fits; most often one of the last, so that lines follow one another."""
    found = [i for i, shape in enumerate(shapes) if fits(shape)]
    if not found:
        return None
    recent = found[-3:] if rng.random() < 0.7 else found
    return rng.choice(recent)


def one(params: Callable[[Random, Shape], dict[str, Any] | None],
        fits: Callable[[Shape], Any] = lambda shape: True) -> Draw:
    """A kind of one argument."""
    def draw(rng: Random, shapes: list[Shape]) -> Drawn:
        index = pick(rng, shapes, fits)
        found = None if index is None else params(rng, shapes[index])
        return None if found is None else ((index,), found)  # type: ignore[return-value]

    return draw


def roomy(shape: Shape, size: int) -> bool:
    """Whether a result of `size` elements is not too large beside a value of this shape."""
    return size <= max(LARGEST, 2 * prod(shape))


def rank(*ranks: int) -> Callable[[Shape], bool]:
    return lambda shape: len(shape) in ranks and 0 not in shape


def _none(rng: Random, shape: Shape) -> dict[str, Any]:
    return {}


# -- elementwise ------------------------------------------------------------------------------

UNARY: dict[str, Callable[[Any, Any], Any]] = {
    "relu": lambda mx, x: mx.sym.relu(x), "tanh": lambda mx, x: mx.sym.tanh(x),
    "sigmoid": lambda mx, x: mx.sym.sigmoid(x), "negative": lambda mx, x: -x,
    "square": lambda mx, x: mx.sym.square(x), "double": lambda mx, x: x * 2,
    "shift": lambda mx, x: x + 0.5, "rminus": lambda mx, x: 1 - x,
    "softrelu": lambda mx, x: mx.sym.Activation(x, act_type="softrelu"),
    "act_relu": lambda mx, x: mx.sym.Activation(x, act_type="relu"),
    "act_tanh": lambda mx, x: mx.sym.Activation(x, act_type="tanh"),
    "leaky": lambda mx, x: mx.sym.LeakyReLU(x, slope=0.1),
    "elu": lambda mx, x: mx.sym.LeakyReLU(x, act_type="elu", slope=0.3),
    "clip": lambda mx, x: mx.sym.clip(x, a_min=-0.7, a_max=0.9),
    "clip6": lambda mx, x: mx.sym.clip(x, a_min=0, a_max=6),
    "identity": lambda mx, x: mx.sym.identity(x), "abs": lambda mx, x: mx.sym.abs(x),
    "exp": lambda mx, x: mx.sym.exp(mx.sym.tanh(x)), "sin": lambda mx, x: mx.sym.sin(x),
    "arctan": lambda mx, x: mx.sym.arctan(x), "softsign": lambda mx, x: mx.sym.softsign(x),
    "twice": lambda mx, x: x + x, "itself": lambda mx, x: x * x,
}
ROUGH: dict[str, Callable[[Any, Any], Any]] = {
    "block": lambda mx, x: mx.sym.BlockGrad(x), "round": lambda mx, x: mx.sym.round(x * 3),
    "loss": lambda mx, x: mx.sym.make_loss(x), "zeros": lambda mx, x: mx.sym.zeros_like(x),
    "ones": lambda mx, x: mx.sym.ones_like(x) * 3,
}
BINARY = ("elemwise_add", "elemwise_sub", "elemwise_mul", "maximum", "minimum")
BROADCAST = ("broadcast_add", "broadcast_sub", "broadcast_mul", "broadcast_maximum")


@kind("unary", one(lambda rng, shape: {"op": rng.choice(list(UNARY))}))
def _(scope, args, params):
    return [UNARY[params["op"]](scope.mx, args[0])]


@kind("rough", one(lambda rng, shape: {"op": rng.choice(list(ROUGH))}), smooth=False)
def _(scope, args, params):
    return [ROUGH[params["op"]](scope.mx, args[0])]


def _draw_binary(rng, shapes):
    first = pick(rng, shapes)
    second = pick(rng, shapes, lambda shape: shape == shapes[first])
    return (first, second), {"op": rng.choice(BINARY)}


@kind("binary", _draw_binary)
def _(scope, args, params):
    return [getattr(scope.mx.sym, params["op"])(*args)]


POWERS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "hypot": lambda mx, x, y: mx.sym.broadcast_hypot(x, y + 3),
    "hypot of one": lambda mx, x, y: mx.sym.broadcast_hypot(x, x) + y,
    "power": lambda mx, x, y: mx.sym.broadcast_power(mx.sym.exp(mx.sym.tanh(x)), y),
    "power of one": lambda mx, x, y: mx.sym.broadcast_power(z := mx.sym.exp(mx.sym.tanh(x)), z) - y,
    "product of one": lambda mx, x, y: mx.sym.broadcast_mul(x, x) * y,
    "quotient": lambda mx, x, y: mx.sym.broadcast_div(x, mx.sym.square(y) + 0.5),
}


@kind("power", lambda rng, shapes: (_draw_binary(rng, shapes)[0], {"op": rng.choice(list(POWERS))}))
def _(scope, args, params):
    """Functions of two values, which may be one."""
    return [POWERS[params["op"]](scope.mx, *args)]


def _broadcasts(a: Shape, b: Shape) -> bool:
    return len(a) == len(b) and all(x == y or 1 in (x, y) for x, y in zip(a, b, strict=True))


def _draw_broadcast(rng, shapes):
    first = pick(rng, shapes)
    second = pick(rng, shapes, lambda shape: _broadcasts(shape, shapes[first]))
    return (first, second), {"op": rng.choice(BROADCAST)}


@kind("broadcast", _draw_broadcast)
def _(scope, args, params):
    return [getattr(scope.mx.sym, params["op"])(*args)]


def _draw_several(rng, shapes):
    first = pick(rng, shapes)
    more = [pick(rng, shapes, lambda shape: shape == shapes[first])
            for _ in range(rng.randint(1, 3))]
    return (first, *more), {}


@kind("add_n", _draw_several)
def _(scope, args, params):
    return [scope.mx.sym.add_n(*args)]


@kind("chain", one(lambda rng, shape: {
    "ops": tuple(rng.choices(list(UNARY), k=rng.randint(2, 4)))}))
def _(scope, args, params):
    x = args[0]
    for op in params["ops"]:
        x = UNARY[op](scope.mx, x)
    return [x]


@kind("dropout", one(lambda rng, shape: {"p": 0.0}))
def _(scope, args, params):
    return [scope.mx.sym.Dropout(args[0], p=params["p"])]


# -- shapes -----------------------------------------------------------------------------------

def _factors(rng: Random, size: int) -> Shape:
    """A shape of `size` elements."""
    shape, rest = [], size
    while rest > 1 and len(shape) < 3:
        divisors = [d for d in range(1, rest + 1) if rest % d == 0]
        shape.append(rng.choice(divisors))
        rest //= shape[-1]
    return (*shape, rest)


def _reshape_params(rng: Random, shape: Shape) -> dict[str, Any] | None:
    if 0 in shape:
        return None
    way = rng.choice(["any", "any", "keep", "flat", "one", "copy", "join", "split", "last"])
    if way == "any":
        return {"shape": _factors(rng, prod(shape))}
    first = rng.choice([d for d in range(1, shape[0] + 1) if shape[0] % d == 0])
    return {"shape": {"keep": (0, -1), "flat": (-1,), "one": (1, -1), "copy": (0, -2),
                      "join": (-3, -2), "last": (-1, 0),
                      "split": (-4, first, -1, -2)}[way], "reverse": way == "last"}


@kind("reshape", one(_reshape_params, lambda shape: len(shape) > 1))
def _(scope, args, params):
    return [scope.mx.sym.reshape(args[0], **params)]


@kind("expand", one(lambda rng, shape: {"axis": rng.randint(0, len(shape))},
                    lambda shape: len(shape) < 4))
def _(scope, args, params):
    return [scope.mx.sym.expand_dims(args[0], axis=params["axis"])]


@kind("flatten", one(_none, lambda shape: len(shape) > 1 and 0 not in shape))
def _(scope, args, params):
    return [scope.mx.sym.Flatten(args[0])]


@kind("transpose", one(lambda rng, shape: {
    "axes": tuple(rng.sample(range(len(shape)), len(shape)))}, lambda shape: len(shape) > 1))
def _(scope, args, params):
    return [scope.mx.sym.transpose(args[0], axes=params["axes"])]


def _draw_concat(rng, shapes):
    first = pick(rng, shapes, lambda shape: len(shape) > 0)
    if first is None:
        return None
    axis = rng.randrange(len(shapes[first]))

    def fits(shape):
        return len(shape) == len(shapes[first]) and all(
            k == axis or a == b for k, (a, b) in enumerate(zip(shape, shapes[first], strict=True)))

    args = [first, *(pick(rng, shapes, fits) for _ in range(rng.randint(0, 3)))]
    rng.shuffle(args)
    return tuple(args), {"axis": rng.choice([axis, axis - len(shapes[first])])}


@kind("concat", _draw_concat)
def _(scope, args, params):
    return [scope.mx.sym.Concat(*args, dim=params["axis"])]


@kind("stack", lambda rng, shapes: (found := _draw_several(rng, shapes)) and (
    found[0], {"axis": rng.randint(0, len(shapes[found[0][0]]))}))
def _(scope, args, params):
    return [scope.mx.sym.stack(*args, axis=params["axis"])]


def _slice_params(rng: Random, shape: Shape) -> dict[str, Any] | None:
    axis = rng.randrange(len(shape))
    if shape[axis] < 2:
        return None
    begin = rng.randrange(shape[axis])
    return {"axis": axis, "begin": begin, "end": rng.randint(begin + 1, shape[axis])}


@kind("slice", one(_slice_params, lambda shape: len(shape) > 0))
def _(scope, args, params):
    return [scope.mx.sym.slice_axis(args[0], **params)]


def _split_params(rng: Random, shape: Shape) -> dict[str, Any] | None:
    axis = rng.randrange(len(shape))
    parts = [k for k in (2, 3, 4, 5, 6) if shape[axis] and shape[axis] % k == 0]
    if not parts:
        return None
    count = rng.choice(parts)
    return {"axis": axis, "num_outputs": count,
            "squeeze_axis": shape[axis] == count and len(shape) > 1 and rng.random() < 0.5}


@kind("split", one(_split_params, lambda shape: len(shape) > 0))
def _(scope, args, params):
    return list(scope.mx.sym.SliceChannel(args[0], **params))


@kind("split_join", one(
    lambda rng, shape: (found := _split_params(rng, shape)) and {
        **found, "squeeze_axis": False,
        "order": tuple(rng.sample(range(n := found["num_outputs"]), n)),
        "ops": tuple(rng.choices([None, *UNARY], k=n))}, lambda shape: len(shape) > 0))
def _(scope, args, params):
    """Sliced, computed slice by slice, and concatenated again."""
    pieces = list(scope.mx.sym.SliceChannel(args[0], axis=params["axis"],
                                            num_outputs=params["num_outputs"]))
    pieces = [UNARY[op](scope.mx, x) if op else x
              for op, x in zip(params["ops"], pieces, strict=True)]
    return [scope.mx.sym.Concat(*(pieces[i] for i in params["order"]), dim=params["axis"])]


@kind("reduce", one(lambda rng, shape: {
    "op": rng.choice(["sum", "sum", "mean", "mean", "prod", "norm"]),
    "axis": rng.randrange(len(shape)), "keepdims": rng.random() < 0.6},
    lambda shape: len(shape) > 1 and 0 not in shape))
def _(scope, args, params):
    return [getattr(scope.mx.sym, params["op"])(args[0], axis=params["axis"],
                                                keepdims=params["keepdims"])]


@kind("extreme", one(lambda rng, shape: {
    "op": rng.choice(["max", "min"]), "axis": rng.randrange(len(shape))},
    lambda shape: len(shape) > 1 and 0 not in shape), smooth=False)
def _(scope, args, params):
    """Where the maximum is tied, gradients are not derivatives."""
    return [getattr(scope.mx.sym, params["op"])(args[0], axis=params["axis"])]


@kind("reverse", one(lambda rng, shape: {"axis": rng.randrange(len(shape))},
                     lambda shape: len(shape) > 0))
def _(scope, args, params):
    return [scope.mx.sym.reverse(args[0], axis=params["axis"])]


@kind("tile", one(lambda rng, shape: {"reps": tuple(rng.choice([1, 1, 2]) for _ in shape)},
                  lambda shape: len(shape) > 0 and prod(shape) < LARGEST // 4))
def _(scope, args, params):
    return [scope.mx.sym.tile(args[0], reps=params["reps"])]


@kind("repeat", one(lambda rng, shape: {"axis": rng.randrange(len(shape))},
                    lambda shape: len(shape) > 0 and prod(shape) < LARGEST // 4))
def _(scope, args, params):
    return [scope.mx.sym.repeat(args[0], repeats=2, axis=params["axis"])]


@kind("widen", one(lambda rng, shape: {"axis": shape.index(1), "size": rng.randint(1, 4)},
                   lambda shape: 1 in shape))
def _(scope, args, params):
    return [scope.mx.sym.broadcast_axis(args[0], axis=params["axis"], size=params["size"])]


@kind("empty", one(lambda rng, shape: {"axis": rng.randrange(len(shape))},
                   lambda shape: len(shape) > 0 and 0 not in shape), smooth=False)
def _(scope, args, params):
    """A concatenation with something of size 1 that is sliced off again."""
    edge = scope.mx.sym.slice_axis(args[0], axis=params["axis"], begin=0, end=1)
    whole = scope.mx.sym.Concat(args[0], edge, dim=params["axis"])
    return [scope.mx.sym.slice_axis(whole, axis=params["axis"], begin=1, end=None)]


# -- layers -----------------------------------------------------------------------------------

@kind("dense", one(lambda rng, shape: {
    "num_hidden": rng.choice([1, 2, 3, 5, 8, 16, 17, 32]), "no_bias": rng.random() < 0.3,
    "flatten": rng.random() < 0.7 or len(shape) == 1,
    "act": rng.choice([None, None, "relu", "tanh"])},
    lambda shape: len(shape) > 1 and 0 not in shape))
def _(scope, args, params):
    options = {key: params[key] for key in ("num_hidden", "no_bias", "flatten")}
    y = scope.mx.sym.FullyConnected(args[0], name=scope.name, **options)
    return [y if params["act"] is None else UNARY[params["act"]](scope.mx, y)]


def _partly_known(rng: Random, shape: Shape) -> dict[str, Any]:
    hidden = rng.choice([1, 3, 8, 17])
    return {"num_hidden": hidden, "known": rng.choice([(hidden, 0), (0, shape[1]), (0, 0)])}


@kind("partly_known", one(_partly_known, rank(2)))
def _(scope, args, params):
    """A dense layer whose weight shape has to be inferred."""
    weight = scope.variable("weight", shape=params["known"])
    return [scope.mx.sym.FullyConnected(args[0], weight=weight, num_hidden=params["num_hidden"],
                                        no_bias=True, name=scope.name)]


@kind("shared", one(lambda rng, shape: {"num_hidden": shape[-1], "times": rng.randint(2, 3)},
                    lambda shape: len(shape) == 2 and 0 not in shape and shape[-1] < 40))
def _(scope, args, params):
    """A layer applied twice: one weight, several consumers."""
    x, weight = args[0], scope.variable("weight")
    for step in range(params["times"]):
        x = scope.mx.sym.tanh(scope.mx.sym.FullyConnected(
            x, weight=weight, num_hidden=params["num_hidden"], no_bias=True,
            name=f"{scope.name}_{step}"))
    return [x]


@kind("residual", one(lambda rng, shape: {"num_hidden": shape[-1], "op": rng.choice(list(UNARY))},
                      lambda shape: len(shape) == 2 and 0 not in shape and shape[-1] < 40))
def _(scope, args, params):
    y = scope.mx.sym.FullyConnected(args[0], num_hidden=params["num_hidden"], name=scope.name)
    return [args[0] + UNARY[params["op"]](scope.mx, y)]


def _draw_dot(rng, shapes):
    first = pick(rng, shapes, rank(2))
    if first is None:
        return None
    second = pick(rng, shapes, lambda shape: len(shape) == 2 and shape[0] == shapes[first][1])
    return None if second is None else ((first, second), {})


@kind("dot", _draw_dot)
def _(scope, args, params):
    return [scope.mx.sym.dot(*args)]


@kind("attention", one(_none, lambda shape: len(shape) == 3 and 0 not in shape))
def _(scope, args, params):
    weights = scope.mx.sym.softmax(scope.mx.sym.batch_dot(args[0], args[0], transpose_b=True))
    return [scope.mx.sym.batch_dot(weights, args[0])]


@kind("softmax", one(lambda rng, shape: {"axis": rng.randrange(len(shape)),
                                         "op": rng.choice(["softmax", "log_softmax"])},
                     lambda shape: len(shape) > 0 and 0 not in shape))
def _(scope, args, params):
    return [getattr(scope.mx.sym, params["op"])(args[0], axis=params["axis"])]


@kind("layer_norm", one(_none, lambda shape: len(shape) > 1 and 0 not in shape and shape[-1] > 2))
def _(scope, args, params):
    return [scope.mx.sym.LayerNorm(args[0], name=scope.name)]


@kind("batch_norm", one(lambda rng, shape: {
    "fix_gamma": rng.random() < 0.5, "use_global_stats": rng.random() < 0.3,
    "axis": rng.choice([1, 1, 1, len(shape) - 1]), "eps": 0.1,
    "op": rng.choice([None, None, "act_relu", "clip6"])},
    lambda shape: len(shape) > 1 and 0 not in shape and prod(shape) > 3 * shape[1]))
def _(scope, args, params):
    options = {key: value for key, value in params.items() if key != "op"}
    y = scope.mx.sym.BatchNorm(args[0], name=scope.name, **options)
    return [y if params["op"] is None else UNARY[params["op"]](scope.mx, y)]


@kind("embedding", one(lambda rng, shape: {"output_dim": rng.randint(1, 5)},
                       lambda shape: 0 < prod(shape) < 200), smooth=False)
def _(scope, args, params):
    rows = scope.mx.sym.clip(scope.mx.sym.round(scope.mx.sym.abs(args[0]) * 2), a_min=0, a_max=6)
    return [scope.mx.sym.Embedding(rows, input_dim=7, name=scope.name, dtype=scope.dtype,
                                   **params)]


@kind("softmax_output", one(_none, lambda shape: len(shape) == 2 and 0 not in shape), smooth=False)
def _(scope, args, params):
    # fewer than the classes, all of which may be above
    above = scope.mx.sym.BlockGrad(args[0]) > 9
    label = scope.mx.sym.sum(above, axis=1) - scope.mx.sym.min(above, axis=1)
    return [scope.mx.sym.SoftmaxOutput(args[0], label, name=scope.name)]


@kind("regression", _draw_binary, smooth=False)
def _(scope, args, params):
    return [scope.mx.sym.LinearRegressionOutput(args[0], scope.mx.sym.BlockGrad(args[1]),
                                                name=scope.name)]


from tests.fuzz import (  # noqa: E402, F401  # they enter theirs
    cells,
    heads,
    images,
    layouts,
    loops,
    parameters,
    recurrence,
    table,
)
