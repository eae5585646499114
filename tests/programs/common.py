"""Code that runs on either package: `mx` is nbmod in the tests and MXNet in the oracle's worker.

Code for both packages is written once, here; it imports neither of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tests.programs import control_programs, custom_ops, fused_programs

# An op is served under its registered name less this prefix, in this module of `mx.sym`.
_PREFIXES = (
    ("_contrib_", "contrib"),
    ("_linalg_", "linalg"),
    ("_sparse_", "sparse"),
    ("_image_", "image"),
    ("_random_", "random"),
    ("_sample_", "random"),
)


def op_function(namespace: Any, name: str) -> Callable[..., Any]:
    """The function of op `name` in `mx.sym` or `mx.nd`; AttributeError when there is none."""
    if name == "Custom":
        custom_ops.register(sys.modules[namespace.__name__.partition(".")[0]])
    if name in ("_foreach", "_while_loop", "_cond"):
        return control_programs.function(namespace)
    if name in fused_programs.LAYERS:
        return fused_programs.function(namespace, name)
    for prefix, module in _PREFIXES:
        found = getattr(getattr(namespace, module, None), name.removeprefix(prefix), None)
        if name.startswith(prefix) and found is not None:
            return found
    for place in (getattr(namespace, "op", None), getattr(namespace, "_internal", None), namespace):
        if hasattr(place, name):
            return getattr(place, name)
    raise AttributeError(f"{namespace.__name__} has no op {name}")


def attr_strings(attrs: Mapping[str, Any]) -> dict[str, str]:
    """Parameters as text, which is how MXNet keeps them."""
    return {key: str(value) for key, value in attrs.items()}


def compose(
    mx: Any, op: str, attrs: Mapping[str, Any], names: Sequence[str], keyword: bool
) -> Any:
    """Symbol `op` over variables `names`, passed by keyword or by position."""
    variables = [mx.sym.Variable(name) for name in names]
    # MXNet's functions turn the text "None" into a numpy type, which is float64.
    params = {k: v for k, v in attrs.items() if not (k == "dtype" and v == "None")}
    function = op_function(mx.sym, op)
    if keyword:
        return function(name="op", **dict(zip(names, variables, strict=True)), **params)
    return function(*variables, name="op", **params)


def run(
    mx: Any,
    symbol: Any,
    values: Mapping[str, np.ndarray],
    grad: Mapping[str, str],
    heads: Sequence[np.ndarray] | None = None,
    is_train: bool = True,
) -> dict[str, Any]:
    """Bind a symbol in the current context, run forward, and backward where `grad` asks for it.

    `grad` maps arguments to "write" or "add"; a gradient array that is added to starts as ones.
    `heads` are the head gradients, None when there are none to pass. Returns numpy arrays:
    `outputs` in order; by name `grads`, and `args` and `aux` as they are afterwards.
    """
    mx.random.seed(0)
    args = {name: nd(mx, values[name]) for name in symbol.list_arguments()}
    aux = {name: nd(mx, values[name]) for name in symbol.list_auxiliary_states()}
    grads = {name: _gradient(mx, args[name], request) for name, request in grad.items()}
    requests = {name: grad.get(name, "null") for name in args}
    executor = symbol.bind(mx.context.current_context(), args, args_grad=grads,
                           grad_req=requests, aux_states=aux)
    outputs = [array.asnumpy() for array in executor.forward(is_train=is_train)]
    if grads:
        executor.backward() if heads is None else executor.backward([nd(mx, h) for h in heads])
    return {
        "outputs": outputs,
        "grads": {name: array.asnumpy() for name, array in grads.items()},
        "args": {name: array.asnumpy() for name, array in args.items()},
        "aux": {name: array.asnumpy() for name, array in aux.items()},
    }


def call(
    mx: Any,
    op: str,
    attrs: Mapping[str, Any],
    inputs: Mapping[str, np.ndarray],
    keyword: bool,
    out: Sequence[str] = (),
) -> dict[str, Any]:
    """An op called eagerly: its `outputs`, and `args`, all inputs as they are afterwards.

    The arrays of the inputs named in `out` are those that are written to.
    """
    arrays = {name: nd(mx, array) for name, array in inputs.items()}
    given: dict[str, Any] = dict(attrs)
    if out:
        given["out"] = [arrays[name] for name in out]
    function = op_function(mx.nd, op)
    result = function(**arrays, **given) if keyword else function(*arrays.values(), **given)
    outputs = result if isinstance(result, (list, tuple)) else [result]
    return {"outputs": [array.asnumpy() for array in outputs],
            "args": {name: array.asnumpy() for name, array in arrays.items()}}


def taped(
    mx: Any,
    op: str,
    attrs: Mapping[str, Any],
    inputs: Mapping[str, np.ndarray],
    keyword: bool,
    grad: Mapping[str, str],
    heads: Sequence[np.ndarray] | None = None,
    is_train: bool = True,
) -> dict[str, Any]:
    """The same as `run` for an op that is called eagerly and differentiated by `autograd`."""
    mx.random.seed(0)
    arrays = {name: nd(mx, array) for name, array in inputs.items()}
    for name, request in grad.items():
        arrays[name].attach_grad(request)
        arrays[name].grad[:] = request == "add"
    function = op_function(mx.nd, op)
    with mx.autograd.record(train_mode=is_train):
        result = function(**arrays, **attrs) if keyword else function(*arrays.values(), **attrs)
    results = list(result) if isinstance(result, (list, tuple)) else [result]
    outputs = [array.asnumpy() for array in results]
    if grad:
        weights = None if heads is None else [nd(mx, head) for head in heads]
        mx.autograd.backward(results, weights, train_mode=True)
        mx.nd.waitall()
    return {"outputs": outputs,
            "grads": {name: arrays[name].grad.asnumpy() for name in grad},
            "args": {name: array.asnumpy() for name, array in arrays.items()}, "aux": {}}


def infer(
    symbol: Any,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    types: Mapping[str, str] | None = None,
    partial: bool = False,
) -> dict[str, Any]:
    """Names, shapes and types of all arguments, outputs and auxiliary states.

    `*_shapes` and `*_types` are there when `shapes` and `types` are; None when they cannot be
    inferred. With `partial` unknown dimensions are 0, unknown shapes (), unknown types None.
    """
    found: dict[str, Any] = {
        "arguments": symbol.list_arguments(),
        "outputs": symbol.list_outputs(),
        "aux": symbol.list_auxiliary_states(),
    }
    ending = "_partial" if partial else ""
    if shapes is not None:
        rows = getattr(symbol, "infer_shape" + ending)(**shapes)
        found.update(zip(("arg_shapes", "out_shapes", "aux_shapes"), rows, strict=True))
    if types is not None:
        rows = getattr(symbol, "infer_type" + ending)(
            **{name: np.dtype(kind) for name, kind in types.items()}
        )
        named = [None if row is None else [_type_name(kind) for kind in row] for row in rows]
        found.update(zip(("arg_types", "out_types", "aux_types"), named, strict=True))
    return found


def nd(mx: Any, array: np.ndarray) -> Any:
    """An NDArray of the same type (`nd.array` alone would make it float32)."""
    return mx.nd.array(array, dtype=array.dtype)


def _gradient(mx: Any, array: Any, request: str) -> Any:
    make = mx.nd.ones if request == "add" else mx.nd.zeros
    return make(array.shape, dtype=array.dtype)


def _type_name(kind: Any) -> str | None:
    return None if kind is None else np.dtype(kind).name
