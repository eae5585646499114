"""Lines whose weights are computed, read by several layers, sparse, or of another type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.fuzz.heads import apart
from tests.fuzz.kinds import UNARY, Shape, kind, one, pick, rank
from tests.fuzz.program import Scope

Weight = Callable[[Scope, Shape], Any]


def _normalized(scope: Scope, shape: Shape) -> Any:
    """g v / |v|, as in weight normalization."""
    sym, v = scope.mx.sym, scope.variable("v", shape=shape)
    rest = tuple(range(1, len(shape)))
    norm = sym.sqrt(sym.sum(sym.square(v), axis=rest, keepdims=True) + 0.1)
    gain = scope.variable("g_gamma", shape=(shape[0], *[1] * len(rest)))
    return sym.broadcast_mul(sym.broadcast_div(v, norm), gain)


def _transposed(scope: Scope, shape: Shape) -> Any:
    axes = tuple(range(len(shape)))[::-1]
    return scope.mx.sym.transpose(scope.variable("v", shape=shape[::-1]), axes=axes)


def _sliced(scope: Scope, shape: Shape) -> Any:
    whole = scope.variable("v", shape=(shape[0] + 2, *shape[1:]))
    return scope.mx.sym.slice_axis(whole, axis=0, begin=1, end=shape[0] + 1)


def _joined(scope: Scope, shape: Shape) -> Any:
    first = (shape[0] + 1) // 2
    parts = [scope.variable(name, shape=(rows, *shape[1:]))
             for name, rows in (("v", first), ("u", shape[0] - first)) if rows]
    return scope.mx.sym.Concat(*parts, dim=0)


def _cast(dtype: str) -> Weight:
    return lambda scope, shape: scope.mx.sym.Cast(
        scope.mx.sym.Cast(scope.variable("v", shape=shape), dtype=dtype), dtype=scope.dtype)


COMPUTED: dict[str, Weight] = {
    "variable": lambda scope, shape: scope.variable("v", shape=shape),
    "tanh": lambda scope, shape: scope.mx.sym.tanh(scope.variable("v", shape=shape)),
    "scaled": lambda scope, shape: scope.variable("v", shape=shape) * 0.5,
    "sum": lambda scope, shape: scope.variable("v", shape=shape) + scope.variable("u", shape=shape),
    "blocked": lambda scope, shape: scope.mx.sym.BlockGrad(scope.variable("v", shape=shape)),
    "reversed": lambda scope, shape: scope.mx.sym.reverse(scope.variable("v", shape=shape), axis=0),
    "normalized": _normalized, "transposed": _transposed, "sliced": _sliced, "joined": _joined,
    "wide": _cast("float64"),
}
"""Weights as functions of variables."""


@kind("computed_dense", one(lambda rng, shape: {
    "weight": rng.choice(list(COMPUTED)), "shape": (rng.choice([1, 3, 8]), shape[1]),
    "layers": rng.randint(1, 2), "op": rng.choice(["tanh", "relu", "double"])}, rank(2)),
    smooth=False)
def _(scope, args, params):
    """One or two dense layers of one weight."""
    sym, weight = scope.mx.sym, COMPUTED[params["weight"]](scope, params["shape"])
    datas = [args[0], UNARY[params["op"]](scope.mx, args[0])][:params["layers"]]
    return [sym.FullyConnected(data, weight=weight, num_hidden=params["shape"][0],
                               name=f"{scope.name}_{i}", no_bias=bool(i))
            for i, data in enumerate(datas)]


@kind("computed_convolution", one(lambda rng, shape: {
    "weight": rng.choice(list(COMPUTED)), "kernel": (k := rng.choice([1, 3])),
    "shape": (rng.choice([3, 8]), shape[1], k, k), "layers": rng.randint(1, 2),
    "norm": rng.choice(["none", "one", "each", "shared"]), "stride": rng.choice([1, 2])},
    lambda shape: len(shape) == 4 and 0 not in shape and shape[1] <= 17
    and shape[0] * shape[2] * shape[3] > 3 and shape[0] * shape[2] * shape[3] <= 1024),
    smooth=False)
def _(scope, args, params):
    """One or two convolutions of one weight, perhaps with batch norm after one or both."""
    sym, weight = scope.mx.sym, COMPUTED[params["weight"]](scope, params["shape"])
    k, filters, found = params["kernel"], params["shape"][0], []
    norm = {name: scope.variable(f"norm_{name}") for name in ("gamma", "beta")}
    for i in range(params["layers"]):
        x = sym.Convolution(args[0] if i == 0 else sym.tanh(args[0]), weight=weight, no_bias=True,
                            num_filter=filters, kernel=(k, k), pad=(k // 2, k // 2),
                            stride=(params["stride"] if i else 1,) * 2, name=f"{scope.name}_{i}")
        if params["norm"] in ("each", "shared") or (params["norm"] == "one" and i == 0):
            given = norm if params["norm"] == "shared" else {}
            x = sym.BatchNorm(x, fix_gamma=False, eps=0.1, name=f"{scope.name}_{i}_norm", **given)
        found.append(x)
    return found


@kind("generated", lambda rng, shapes: (
    lambda data, weight: None if None in (data, weight) else (
        (data, weight), {"hidden": shapes[weight][0]}))(
            data := pick(rng, shapes, rank(2)),
            None if data is None else pick(
                rng, shapes, lambda shape: len(shape) == 2 and 0 not in shape
                and shape[1] == shapes[data][1])), smooth=False)
def _(scope, args, params):
    """A weight that is a value: a network that makes weights."""
    return [scope.mx.sym.FullyConnected(args[0], weight=args[1] * 0.5, no_bias=True,
                                        num_hidden=params["hidden"], name=scope.name)]


@kind("tied_embedding", one(lambda rng, shape: {"shape": (7, shape[1])}, rank(2)), smooth=False)
def _(scope, args, params):
    """One weight of an embedding and of the layer of its logits."""
    sym, (rows, width) = scope.mx.sym, params["shape"]
    weight = scope.variable("weight", shape=(rows, width))
    ids = sym.clip(sym.round(sym.abs(sym.BlockGrad(args[0])) * 2), a_min=0, a_max=rows - 1)
    found = sym.mean(sym.Embedding(ids, weight=weight, input_dim=rows, output_dim=width,
                                   dtype=scope.dtype, name=f"{scope.name}_in"), axis=1)
    return [sym.FullyConnected(found + args[0], weight=weight, num_hidden=rows, no_bias=True,
                               name=f"{scope.name}_out")]


# -- types ----------------------------------------------------------------------------------------

NARROW = ("float16",)
TYPES = ("float16", "float32", "float64", "int32", "int8")


@kind("typed", one(lambda rng, shape: {
    "dtypes": tuple(rng.choices(TYPES, k=rng.randint(1, 2))), "scale": rng.choice([1, 3]),
    "op": rng.choice(["double", "relu", "twice", "itself", "negative", "square"])},
    lambda shape: 0 not in shape), smooth=False)
def _(scope, args, params):
    """Computed in other types, and cast back."""
    sym, x = scope.mx.sym, scope.mx.sym.clip(args[0] * params["scale"], a_min=-5, a_max=5)
    for dtype in params["dtypes"]:
        x = UNARY[params["op"]](scope.mx, sym.Cast(x, dtype=dtype))
    return [sym.Cast(x, dtype=scope.dtype)]


@kind("mixed_dense", one(lambda rng, shape: {
    "dtype": rng.choice(["float16", "float64"]), "hidden": rng.choice([3, 8])}, rank(2)),
    smooth=False)
def _(scope, args, params):
    """A layer in another type, as in mixed precision."""
    sym, dtype = scope.mx.sym, params["dtype"]
    parts = {name: sym.Cast(scope.variable(name), dtype=dtype) for name in ("weight", "bias")}
    y = sym.FullyConnected(sym.Cast(args[0], dtype=dtype), num_hidden=params["hidden"],
                           name=scope.name, **parts)
    return [sym.Cast(y, dtype=scope.dtype)]


@kind("indexed", one(lambda rng, shape: {
    "dtype": rng.choice(["int32", "int64", "uint8", "float32", "float64"]),
    "op": rng.choice(["take", "Embedding", "one_hot", "pick", "gather_nd", "SequenceMask"]),
    "shape": shape}, lambda shape: len(shape) in (2, 3) and 0 not in shape and shape[0] <= 8),
    smooth=False)
def _(scope, args, params):
    """Reads of rows by indices of any type, which follow from values."""
    sym, (rows, *rest) = scope.mx.sym, params["shape"]
    most = {"pick": rest[-1], "SequenceMask": rows + 1}.get(params["op"], rows)
    size = rest[0] if params["op"] == "SequenceMask" else rows
    near = apart(scope, args[0], (size,), 5)
    ids = sym.Cast(sym.floor(near * 0.999 * most), dtype=params["dtype"])
    if params["op"] == "take":
        return [sym.take(args[0], ids, axis=0)]
    if params["op"] == "Embedding":
        return [sym.Embedding(ids, input_dim=rows, output_dim=3, name=scope.name,
                              dtype=scope.dtype)]
    if params["op"] == "one_hot":
        return [sym.one_hot(ids, depth=rows, dtype=scope.dtype)]
    if params["op"] == "pick":
        flat = sym.reshape(args[0], shape=(rows, -1, rest[-1]))
        return [sym.pick(sym.mean(flat, axis=1), ids, axis=1)]
    if params["op"] == "gather_nd":
        return [sym.gather_nd(args[0], sym.reshape(ids, shape=(1, -1)))]
    ids = sym.Cast(ids, dtype=scope.dtype)
    return [sym.SequenceMask(args[0], ids, use_sequence_length=True, value=0.5)]


# -- sparse ---------------------------------------------------------------------------------------

@kind("sparse", one(lambda rng, shape: {
    "shape": shape, "way": rng.choice(["dot", "dot of rows", "embedding", "rows", "squares"]),
    "hidden": rng.choice([1, 3, 8])}, rank(2)), smooth=False)
def _(scope, args, params):
    """Sparse arrays between dense ones."""
    sym, hidden, way = scope.mx.sym, params["hidden"], params["way"]
    width = params["shape"][1]
    if way == "embedding":
        ids = sym.clip(sym.round(sym.abs(sym.BlockGrad(args[0])) * 2), a_min=0, a_max=6)
        weight = scope.variable("weight", shape=(7, hidden))
        return [sym.mean(sym.Embedding(ids, weight=weight, input_dim=7, output_dim=hidden,
                                       sparse_grad=True, dtype=scope.dtype,
                                       name=scope.name), axis=1)]
    if way in ("dot", "dot of rows"):
        data = sym.cast_storage(sym.relu(args[0]), stype="csr")
        weight = scope.variable("weight", shape=(width, hidden))
        if way == "dot of rows":
            weight = sym.cast_storage(weight, stype="row_sparse")
        return [sym.dot(data, weight)]
    rows = sym.cast_storage(sym.relu(args[0]), stype="row_sparse")
    if way == "squares":
        return [sym._internal._square_sum(rows, axis=1, keepdims=True)]
    return [sym.cast_storage(rows * 2, stype="default") + args[0]]
