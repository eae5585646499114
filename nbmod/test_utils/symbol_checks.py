"""Checks of the outputs and gradients of a symbol, against expected values or finite differences.

`location` has a value for every argument of the symbol, `aux_states` for every auxiliary state:
NumPy arrays, NDArrays or scalars, in a list or by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..context import Context
from ..ndarray import NDArray, array
from ..ndarray.host_array import host_array
from .compare import assert_almost_equal
from .tolerance import Tolerance, default_context, default_numeric_eps

__all__ = ["check_numeric_gradient", "check_symbolic_backward", "check_symbolic_forward",
           "numeric_grad", "simple_forward"]


def simple_forward(sym: Any, ctx: Context | None = None, is_train: bool = False, **inputs: Any
                   ) -> Any:
    """The output of a symbol as a NumPy array, or a list of several.

    Parameters
    ----------
    sym : Symbol
        The symbol.
    ctx : Context, optional
        The device; the current context unless given.
    is_train : bool, default False
        Whether to run in training mode.
    **inputs : numpy.ndarray
        Values of the arguments, by name.

    Examples
    --------
    >>> import numpy as np
    >>> x = mx.sym.Variable("x")
    >>> mx.test_utils.simple_forward(2 * x, x=np.array([1.0, 2.0])).tolist()
    [2.0, 4.0]
    """
    ctx = default_context() if ctx is None else ctx
    arrays = {name: array(value, ctx=ctx) for name, value in inputs.items()}
    outputs = [output.asnumpy() for output in sym.bind(ctx, args=arrays).forward(is_train=is_train)]
    return outputs[0] if len(outputs) == 1 else outputs


def _by_name(names: Sequence[str], values: Any, what: str) -> dict[str, Any]:
    """A list in the order of `names`, or a dict with just these keys, as a dict."""
    return dict(zip(names, _in_order(names, values, what), strict=True))


def _in_order(names: Sequence[str], values: Any, what: str) -> list[Any]:
    """A list in the order of `names`, which may repeat, or a dict with these keys, as a list."""
    if isinstance(values, Mapping):
        if set(values) != set(names):
            raise ValueError(f"{what}: the symbol has {sorted(names)}, given are {sorted(values)}")
        return [values[name] for name in names]
    values = [values] if isinstance(values, (NDArray, np.ndarray)) else list(values or ())
    if len(values) != len(names):
        raise ValueError(f"{what}: the symbol has {len(names)} ({', '.join(names)}), "
                         f"{len(values)} are given")
    return list(values)


def _arrays(names: Sequence[str], values: Any, ctx: Context, dtype: Any, what: str
            ) -> dict[str, NDArray]:
    """New NDArrays on `ctx`; NumPy arrays become `dtype`, NDArrays keep their types."""
    return {name: _copied(value, ctx, value.dtype if isinstance(value, NDArray) else dtype)
            for name, value in _by_name(names, values, what).items()}


def _copied(value: Any, ctx: Context, dtype: Any) -> NDArray:
    """A new NDArray with the elements and the storage type of an array."""
    stype = value.stype if isinstance(value, NDArray) else "default"
    return array(host_array(value), ctx=ctx, dtype=dtype).tostype(stype)


def _bound(sym: Any, location: Any, aux_states: Any, ctx: Context | None, dtype: Any,
           grads: Mapping[str, NDArray] | None = None, grad_req: Any = "null") -> Any:
    """The symbol bound to arrays of its own."""
    ctx = default_context() if ctx is None else ctx
    args = _arrays(sym.list_arguments(), location, ctx, dtype, "location")
    aux = _arrays(sym.list_auxiliary_states(), aux_states, ctx, dtype, "aux_states")
    return sym.bind(ctx, args=args, args_grad=grads, grad_req=grad_req, aux_states=aux)


def check_symbolic_forward(sym: Any, location: Any, expected: Any, rtol: Tolerance = None,
                           atol: Tolerance = None, aux_states: Any = None,
                           ctx: Context | None = None, equal_nan: bool = False,
                           dtype: Any = np.float32) -> list[NDArray]:
    """AssertionError unless the outputs of a symbol are as expected.

    Parameters
    ----------
    sym, ctx
        As for `simple_forward`.
    location : list of array or dict of str to array
        Values of the arguments, in the order of `list_arguments()` or by name.
    expected : list of array or dict of str to array
        The outputs, in the order of `list_outputs()` or by name.
    rtol, atol : float or dict of dtype to float, optional
        Relative and absolute tolerance; those of the element types unless given.
    aux_states : list of array or dict of str to array, optional
        Values of the auxiliary states.
    dtype : dtype, default numpy.float32
        Element type of arguments that are given as NumPy arrays.
    equal_nan : bool, default False
        Whether NaN equals NaN.
    """
    names = sym.list_outputs()
    in_order = _in_order(names, expected, "expected")
    executor = _bound(sym, location, aux_states, ctx, dtype)
    outputs = executor.forward(is_train=False)
    for name, want, got in zip(names, in_order, outputs, strict=True):
        assert_almost_equal(want, got, rtol, atol, (f"EXPECTED_{name}", f"FORWARD_{name}"),
                            equal_nan)
    return outputs


def _requests(names: Sequence[str], grad_req: Any) -> dict[str, str]:
    """`grad_req` as one word, a list or by name; arguments it does not name are "null"."""
    if isinstance(grad_req, str):
        return dict.fromkeys(names, grad_req)
    if isinstance(grad_req, Mapping):
        return {name: grad_req.get(name, "null") for name in names}
    return dict(zip(names, grad_req, strict=True))


def _bound_for_gradients(sym: Any, location: Any, aux_states: Any, ctx: Context, dtype: Any,
                         names: Sequence[str], requests: Mapping[str, str],
                         stypes: Mapping[str, str | None] | None = None
                         ) -> tuple[Any, dict[str, np.ndarray]]:
    """The bound symbol, and the random initial gradients, which reveal what is not written."""
    args = _by_name(sym.list_arguments(), location, "location")
    before = {name: np.random.standard_normal(host_array(args[name]).shape).astype(
        args[name].dtype if isinstance(args[name], NDArray) else dtype) for name in names}
    grads = {name: array(value, ctx=ctx, dtype=value.dtype).tostype(
        (stypes or {}).get(name) or "default") for name, value in before.items()}
    return _bound(sym, location, aux_states, ctx, dtype, grads, requests), before


def _assert_gradients(executor: Any, expected: Mapping[str, Any], before: Mapping[str, np.ndarray],
                      requests: Mapping[str, str], label: str, rtol: Tolerance, atol: Tolerance,
                      equal_nan: bool) -> None:
    """Check gradients by request: written, added to the initial contents, or untouched."""
    for name, want in expected.items():
        grad, names = executor.grad_dict[name], (f"{label}_{name}", f"BACKWARD_{name}")
        if requests[name] == "null":
            got = before[name] if grad is None else grad.asnumpy()
            assert_almost_equal(before[name], got, 0, 0, names)
        else:
            got = grad.asnumpy() - (before[name] if requests[name] == "add" else 0)
            assert_almost_equal(want, got, rtol, atol, names, equal_nan)


def check_symbolic_backward(sym: Any, location: Any, out_grads: Any, expected: Any,
                            rtol: Tolerance = None, atol: Tolerance = None, aux_states: Any = None,
                            grad_req: Any = "write", ctx: Context | None = None,
                            grad_stypes: Any = None, equal_nan: bool = False,
                            dtype: Any = np.float32) -> dict[str, NDArray | None]:
    """AssertionError unless the gradients of a symbol, which it returns, are as expected.

    Parameters
    ----------
    sym, ctx
        As for `simple_forward`.
    location, rtol, atol, aux_states, dtype, equal_nan
        As for `check_symbolic_forward`.
    out_grads : list of array, dict of str to array or None
        Gradients of the outputs; None for losses.
    expected : list of array or dict of str to array
        All gradients in the order of `list_arguments()`, or by name those to compare.
    grad_req : str, list of str or dict of str to str, default 'write'
        'write', 'add' (to random values) or 'null' (gradient arrays have to stay as they are).
    grad_stypes : dict of str to str, optional
        Storage types of the gradient arrays, by name of the argument.
    """
    names = sym.list_arguments()
    by_name = expected if isinstance(expected, Mapping) else _by_name(names, expected, "expected")
    requests = {name: req if name in by_name else "null"
                for name, req in _requests(names, grad_req).items()}
    ctx = default_context() if ctx is None else ctx
    executor, before = _bound_for_gradients(sym, location, aux_states, ctx, dtype, list(by_name),
                                            requests, grad_stypes)
    outputs = executor.forward(is_train=True)
    heads = None
    if out_grads is not None:
        names = sym.list_outputs()
        if isinstance(out_grads, (list, tuple)):
            out_grads = out_grads[:len(names)]  # hidden outputs may have gradients, too
        head_values = _in_order(names, out_grads, "out_grads")
        heads = [_copied(head, ctx, output.dtype)
                 for head, output in zip(head_values, outputs, strict=True)]
    executor.backward(heads)
    _assert_gradients(executor, by_name, before, requests, "EXPECTED", rtol, atol, equal_nan)
    return {name: executor.grad_dict[name] for name in by_name}


def numeric_grad(executor: Any, location: Mapping[str, Any], aux_states: Any = None,
                 eps: float = 1e-4, use_forward_train: bool = True, dtype: Any = np.float32
                 ) -> dict[str, np.ndarray]:
    """Central differences of the sum of the first output, for every element of the arguments.

    Parameters
    ----------
    executor : Executor
        The bound symbol.
    location : dict of str to array
        Values of the arguments, by name.
    aux_states : dict of str to array, optional
        Auxiliary states, which are set before each run.
    eps : float, default 1e-4
        Distance of the two points of a difference.
    use_forward_train : bool, default True
        Whether to run in training mode.
    dtype : dtype, default numpy.float32
        Element type of the result.

    Returns
    -------
    dict of str to numpy.ndarray
        The gradients, by name of the argument.
    """
    heads = [np.ones(executor.outputs[0].shape)]
    return _differences(executor, location, aux_states, eps, use_forward_train, dtype, heads)


def _differences(executor: Any, location: Mapping[str, Any], aux_states: Any, eps: float,
                 is_train: bool, dtype: Any, heads: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """Central differences of the sum of outputs times head gradients."""
    points = {name: host_array(value).astype(executor.arg_dict[name].dtype)
              for name, value in location.items()}
    for name, point in points.items():
        executor.arg_dict[name][:] = point

    def value() -> float:
        for name, state in (aux_states or {}).items():
            executor.aux_dict[name][:] = state
        outputs = executor.forward(is_train=is_train)
        return sum(float((output.asnumpy().astype(np.float64) * head).sum())
                   for output, head in zip(outputs, heads, strict=False))

    grads = {name: np.zeros(point.shape, dtype) for name, point in points.items()}
    for name, point in points.items():
        for where in np.ndindex(point.shape):
            center, values = point[where], []
            for step in (eps / 2, -eps / 2):
                point[where] = center + step
                executor.arg_dict[name][:] = point
                values.append(value())
            point[where] = center
            grads[name][where] = (values[0] - values[1]) / eps
        executor.arg_dict[name][:] = point
    return grads


def check_numeric_gradient(sym: Any, location: Any, aux_states: Any = None,
                           numeric_eps: float | None = None, rtol: Tolerance = None,
                           atol: Tolerance = None, grad_nodes: Any = None,
                           use_forward_train: bool = True, ctx: Context | None = None,
                           grad_stype_dict: Any = None, dtype: Any = np.float32) -> None:
    """AssertionError unless gradients agree with finite differences of the outputs.

    The outputs are weighted with random head gradients.  It takes two forward runs for each
    element.

    Parameters
    ----------
    sym, ctx
        As for `simple_forward`.
    location, rtol, atol, aux_states, dtype
        As for `check_symbolic_forward`.
    numeric_eps : float, optional
        Distance of the two points of a difference; that of the element type unless given.
    grad_nodes : list of str or dict of str to str, optional
        Arguments to check, or their gradient requests by name; all arguments unless given.
    use_forward_train : bool, default True
        Whether to run in training mode.
    grad_stype_dict : object, optional
        Accepted for compatibility and ignored.
    """
    kind = np.dtype(dtype)
    eps = default_numeric_eps()[kind] if numeric_eps is None else numeric_eps
    names = sym.list_arguments()
    chosen = names if grad_nodes is None else grad_nodes
    requests = {name: "null" for name in names} | (
        dict(chosen) if isinstance(chosen, Mapping) else dict.fromkeys(chosen, "write"))
    ctx = default_context() if ctx is None else ctx
    executor, before = _bound_for_gradients(sym, location, aux_states, ctx, kind, list(chosen),
                                            requests)
    states = {name: state.asnumpy() for name, state in executor.aux_dict.items()}
    outputs = executor.forward(is_train=True)
    heads = [np.random.uniform(0.1, 1.1, output.shape).astype(output.dtype) for output in outputs]
    executor.backward([array(head, ctx=ctx, dtype=head.dtype) for head in heads])
    points = {name: executor.arg_dict[name].asnumpy() for name in chosen}
    again = _bound(sym, location, aux_states, ctx, kind)
    numeric = _differences(again, points, states, eps, use_forward_train, kind, heads)
    _assert_gradients(executor, numeric, before, requests, "NUMERICAL", rtol, atol, False)
