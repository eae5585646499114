"""Runs in the MXNet worker: single ops, shape and type inference, whole graphs, `.params` files."""

from __future__ import annotations

import ctypes
import os
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import mxnet as mx
import numpy as np
from mxnet import base

from tests.programs import common

Arrays = dict[str, np.ndarray]


def version() -> str:
    """MXNet's version."""
    return mx.__version__


def list_ops() -> list[str]:
    """Every registered op name, aliases included."""
    size, names = ctypes.c_uint(), ctypes.POINTER(ctypes.c_char_p)()
    base.check_call(base._LIB.MXListAllOpNames(ctypes.byref(size), ctypes.byref(names)))
    return sorted(base.py_str(names[i]) for i in range(size.value))


def parameters_of(names: Sequence[str]) -> dict[str, list[str] | None]:
    """The parameters of ops, as MXNet's error for an unknown one lists them; None: no error."""
    found: dict[str, list[str] | None] = {}
    for name in names:
        handle, symbol = ctypes.c_void_p(), ctypes.c_void_p()
        base.check_call(base._LIB.NNGetOpHandle(base.c_str(name), ctypes.byref(handle)))
        keys, values = base.c_str_array(["senseless"]), base.c_str_array(["1"])
        try:
            base.check_call(base._LIB.MXSymbolCreateAtomicSymbol(handle, 1, keys, values,
                                                                 ctypes.byref(symbol)))  # fmt: skip
            found[name] = None
        except mx.MXNetError as error:
            found[name] = re.findall(r"^(\w+) : ", str(error), re.MULTILINE)
    return found


def run_op(
    op: str,
    attrs: dict[str, str],
    inputs: Arrays,
    keyword: bool = False,
    grad: Mapping[str, str] | None = None,
    heads: Sequence[np.ndarray] | None = None,
    is_train: bool = True,
) -> dict[str, Any]:
    """One op over its inputs (auxiliary states among them, in MXNet's order); see `common.run`."""
    symbol = common.compose(mx, op, attrs, list(inputs), keyword)
    return common.run(mx, symbol, inputs, grad or {}, heads, is_train)


def call_op(op: str, attrs: dict[str, Any], inputs: Arrays, keyword: bool, out: list[str]
            ) -> dict[str, Any]:
    """One op called eagerly; see `common.call`."""
    return common.call(mx, op, attrs, inputs, keyword, out)


def infer(
    json: str,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    types: Mapping[str, str] | None = None,
    partial: bool = False,
) -> dict[str, Any]:
    """What MXNet infers for a graph from these shapes and types; see `common.infer`."""
    return common.infer(mx.sym.load_json(json), shapes, types, partial)


def run_graph(
    json: str,
    params: bytes | Arrays,
    inputs: Arrays,
    grad: Mapping[str, str] | None = None,
    heads: Sequence[np.ndarray] | None = None,
    is_train: bool = False,
) -> dict[str, Any]:
    """A whole graph with the contents of a `.params` file (or arrays by `arg:` / `aux:` name).

    Arguments that neither names (labels, say) are zeros of the inferred shape. Result as `run_op`,
    and `output_names`.
    """
    symbol = mx.sym.load_json(json)
    arrays = load_arrays(params) if isinstance(params, bytes) else params
    values = {name.split(":", 1)[-1]: array for name, array in arrays.items()}
    values.update(inputs)
    _fill(symbol, values)
    ran = common.run(mx, symbol, values, grad or {}, heads, is_train)
    return dict(ran, output_names=symbol.list_outputs())


def rewrite_json(json: str) -> str:
    """The graph as MXNet writes it after reading it (upgraded if its version is old)."""
    return mx.sym.load_json(json).tojson()


def save_arrays(arrays: Arrays | list[np.ndarray]) -> bytes:
    """The bytes of `mx.nd.save` for a dictionary or a list."""
    if isinstance(arrays, dict):
        named = {name: common.nd(mx, array) for name, array in arrays.items()}
        return _through_file(lambda path: mx.nd.save(path, named))
    return _through_file(lambda path: mx.nd.save(path, [common.nd(mx, a) for a in arrays]))


def load_arrays(data: bytes) -> Any:
    """What `mx.nd.load` reads from these bytes: a dictionary or a list of arrays."""
    loaded = mx.nd.load_frombuffer(data)
    if isinstance(loaded, dict):
        return {name: array.asnumpy() for name, array in loaded.items()}
    return [array.asnumpy() for array in loaded]


def _fill(symbol: mx.sym.Symbol, values: Arrays) -> None:
    known = {n: v.shape for n, v in values.items() if n in symbol.list_inputs()}
    arg_shapes, _, _ = symbol.infer_shape(**known)
    for name, shape in zip(symbol.list_arguments(), arg_shapes, strict=True):
        values.setdefault(name, np.zeros(shape, np.float32))


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
