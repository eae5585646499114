"""Runs in the MXNet worker: single ops, shape and type inference, whole graphs, `.params` files."""

from __future__ import annotations

import ctypes
import os
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import mxnet as mx
import numpy as np
from mxnet import base

Arrays = dict[str, np.ndarray]

# MXNet serves an op under its registered name less this prefix, in this module of `mx.sym`.
_PREFIXES = (
    ("_contrib_", "contrib"),
    ("_linalg_", "linalg"),
    ("_sparse_", "sparse"),
    ("_image_", "image"),
    ("_random_", "random"),
    ("_sample_", "random"),
)


def version() -> str:
    """MXNet's version."""
    return mx.__version__


def list_ops() -> list[str]:
    """Every registered op name, aliases included."""
    size, names = ctypes.c_uint(), ctypes.POINTER(ctypes.c_char_p)()
    base.check_call(base._LIB.MXListAllOpNames(ctypes.byref(size), ctypes.byref(names)))
    return sorted(base.py_str(names[i]) for i in range(size.value))


def op_function(name: str) -> Callable[..., mx.sym.Symbol]:
    """The `mx.sym` function of an op, wherever MXNet put it."""
    for prefix, module in _PREFIXES:
        place = getattr(mx.sym, module)
        if name.startswith(prefix) and hasattr(place, name[len(prefix) :]):
            return getattr(place, name[len(prefix) :])
    for place in (mx.sym.op, mx.sym._internal):
        if hasattr(place, name):
            return getattr(place, name)
    raise ValueError(f"MXNet has no op {name}")


def compose(op: str, attrs: dict[str, str], names: Sequence[str], keyword: bool) -> mx.sym.Symbol:
    """The op over variables `names`, given by keyword or by position; its node is called `op`."""
    variables = [mx.sym.Variable(name) for name in names]
    # MXNet's wrappers turn the text "None" into a numpy type, which is float64.
    params = {k: v for k, v in attrs.items() if not (k == "dtype" and v == "None")}
    if keyword:
        return op_function(op)(name="op", **dict(zip(names, variables, strict=False)), **params)
    return op_function(op)(*variables, name="op", **params)


def run_op(
    op: str,
    attrs: dict[str, str],
    inputs: Arrays,
    keyword: bool = False,
    grad: Sequence[str] = (),
    heads: Sequence[np.ndarray] | None = None,
    is_train: bool = True,
) -> dict[str, Any]:
    """One op over its inputs (auxiliary states among them, in MXNet's order).

    Returns `outputs` (list), `grads` (by name; backward runs when `grad` names any, with the head
    gradients `heads`, or without any for None), `aux` and `args` as they are afterwards, and
    `aux_names`, all in the types that MXNet gave them.
    """
    symbol = compose(op, attrs, list(inputs), keyword)
    return _run(symbol, inputs, grad, heads, is_train)


def infer(
    json: str,
    shapes: dict[str, tuple[int, ...]] | None = None,
    types: dict[str, str] | None = None,
    partial: bool = False,
) -> dict[str, Any]:
    """Names, shapes and types of all arguments, outputs and auxiliary states of a graph.

    `*_shapes` / `*_types` are None when MXNet could not tell; with `partial` unknown dimensions
    are 0 and unknown shapes ().
    """
    symbol = mx.sym.load_json(json)
    result: dict[str, Any] = _names(symbol)
    if shapes is not None:
        method = symbol.infer_shape_partial if partial else symbol.infer_shape
        found = method(**{name: tuple(shape) for name, shape in shapes.items()})
        result.update(zip(("arg_shapes", "out_shapes", "aux_shapes"), found, strict=False))
    if types is not None:
        method = symbol.infer_type_partial if partial else symbol.infer_type
        found = method(**{name: np.dtype(kind) for name, kind in types.items()})
        texts = [None if row is None else [_type_name(kind) for kind in row] for row in found]
        result.update(zip(("arg_types", "out_types", "aux_types"), texts, strict=False))
    return result


def run_graph(
    json: str,
    params: bytes | Arrays,
    inputs: Arrays,
    grad: Sequence[str] = (),
    heads: Sequence[np.ndarray] | None = None,
    is_train: bool = False,
) -> dict[str, Any]:
    """A whole graph with the contents of a `.params` file (or arrays by `arg:` / `aux:` name).

    Arguments that neither names (labels, say) are zeros of the inferred shape. Result as `run_op`,
    with `output_names`.
    """
    symbol = mx.sym.load_json(json)
    arrays = load_arrays(params) if isinstance(params, bytes) else params
    values = {name.split(":", 1)[-1]: array for name, array in arrays.items()}
    values.update(inputs)
    _fill(symbol, values)
    return dict(_run(symbol, values, grad, heads, is_train), output_names=symbol.list_outputs())


def rewrite_json(json: str) -> str:
    """The graph as MXNet writes it after reading it (upgraded when it is an old one)."""
    return mx.sym.load_json(json).tojson()


def save_arrays(arrays: Arrays | list[np.ndarray]) -> bytes:
    """The bytes of `mx.nd.save` for a dictionary or a list."""
    if isinstance(arrays, dict):
        return _through_file(lambda f: mx.nd.save(f, {k: _nd(v) for k, v in arrays.items()}))
    return _through_file(lambda f: mx.nd.save(f, [_nd(v) for v in arrays]))


def load_arrays(data: bytes) -> Any:
    """What `mx.nd.load` reads from these bytes: a dictionary or a list of arrays."""
    loaded = mx.nd.load_frombuffer(data)
    if isinstance(loaded, dict):
        return {name: array.asnumpy() for name, array in loaded.items()}
    return [array.asnumpy() for array in loaded]


def _run(
    symbol: mx.sym.Symbol,
    values: Arrays,
    grad: Sequence[str],
    heads: Sequence[np.ndarray] | None,
    is_train: bool,
) -> dict[str, Any]:
    mx.random.seed(0)
    args = {name: _nd(values[name]) for name in symbol.list_arguments()}
    aux = {name: _nd(values[name]) for name in symbol.list_auxiliary_states()}
    grads = {name: mx.nd.zeros(args[name].shape, dtype=args[name].dtype) for name in grad}
    request = {name: "write" if name in grads else "null" for name in args}
    executor = symbol.bind(mx.cpu(), args, args_grad=grads, grad_req=request, aux_states=aux)
    outputs = [array.asnumpy() for array in executor.forward(is_train=is_train)]
    if grads:
        executor.backward() if heads is None else executor.backward([_nd(h) for h in heads])
    return {
        "outputs": outputs,
        "grads": {name: array.asnumpy() for name, array in grads.items()},
        "args": {name: array.asnumpy() for name, array in args.items()},
        "aux": {name: array.asnumpy() for name, array in aux.items()},
        "aux_names": symbol.list_auxiliary_states(),
    }


def _fill(symbol: mx.sym.Symbol, values: Arrays) -> None:
    known = {n: v.shape for n, v in values.items() if n in symbol.list_inputs()}
    arg_shapes, _, _ = symbol.infer_shape(**known)
    for name, shape in zip(symbol.list_arguments(), arg_shapes, strict=False):
        values.setdefault(name, np.zeros(shape, np.float32))


def _names(symbol: mx.sym.Symbol) -> dict[str, list[str]]:
    return {
        "arguments": symbol.list_arguments(),
        "outputs": symbol.list_outputs(),
        "aux": symbol.list_auxiliary_states(),
    }


def _nd(array: np.ndarray) -> mx.nd.NDArray:
    return mx.nd.array(array, dtype=array.dtype)


def _type_name(kind: Any) -> str | None:
    return None if kind is None else np.dtype(kind).name


def _through_file(write: Callable[[str], None]) -> bytes:
    folder = tempfile.mkdtemp()
    path = os.path.join(folder, "file")
    try:
        write(path)
        with open(path, "rb") as stream:
            return stream.read()
    finally:
        if os.path.exists(path):
            os.remove(path)
        os.rmdir(folder)
