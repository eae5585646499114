"""Comparison of one computation across contexts, element types and optimizers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..context import Context
from ..io import DataIter
from ..ndarray import NDArray, array, waitall
from .compare import assert_almost_equal, compare_ndarray_tuple
from .tolerance import Tolerance, default_context

__all__ = ["DummyIter", "check_consistency", "check_speed", "compare_optimizer"]


def check_consistency(sym: Any, ctx_list: Sequence[Mapping[str, Any]], scale: float = 1.0,
                      grad_req: Any = "write", arg_params: Mapping[str, Any] | None = None,
                      aux_params: Mapping[str, Any] | None = None, rtol: Tolerance = None,
                      atol: Tolerance = None, raise_on_err: bool = True,
                      ground_truth: Mapping[str, Any] | None = None, equal_nan: bool = False,
                      use_uniform: bool = False, rand_type: Any = np.float64) -> dict[str, Any]:
    """AssertionError unless a symbol computes the same on all contexts and in all types.

    Returns reference outputs and gradients by name.  Outputs, and gradients unless `grad_req` is
    'null', are compared with those of the executor of the most precise type, or with
    `ground_truth`.  Head gradients are the reference outputs.

    Parameters
    ----------
    sym : Symbol or list of Symbol
        The symbol, or one for each entry of `ctx_list`.
    ctx_list : list of dict
        Arguments of `simple_bind` for each executor: `ctx`, shapes by name, `type_dict`.
    scale : float, default 1
        Scale of random arguments.
    grad_req : str, list of str or dict of str to str, default 'write'
        Gradient request.
    arg_params : dict of str to array, optional
        Values of arguments; the others are random.
    aux_params : dict of str to array, optional
        Values of auxiliary states; the others are 0.
    rtol, atol : float or dict of dtype to float, optional
        Relative and absolute tolerance; those of the element types unless given.
    raise_on_err : bool, default True
        Whether a difference raises; otherwise it is printed.
    ground_truth : dict of str to array, optional
        Expected outputs and gradients, by name.
    equal_nan : bool, default False
        Whether NaN equals NaN.
    use_uniform : bool, default False
        Draw arguments from a uniform distribution on [-1, 1) instead of a normal one.
    rand_type : dtype, default numpy.float64
        Element type that random arguments are rounded to.

    Raises
    ------
    AssertionError
        If an output or gradient differs, or the symbols do not match each other.

    Examples
    --------
    >>> net = mx.sym.tanh(mx.sym.Variable("x"), name="net")
    >>> cases = [{"ctx": mx.cpu(), "x": (2, 3), "type_dict": {"x": dtype}}
    ...          for dtype in ("float64", "float32")]
    >>> sorted(mx.test_utils.check_consistency(net, cases))
    ['net_output', 'x']
    """
    symbols = list(sym) if isinstance(sym, (list, tuple)) else [sym] * len(ctx_list)
    if len(ctx_list) < 2 or len(symbols) != len(ctx_list):
        raise AssertionError(f"check_consistency: {len(ctx_list)} contexts for {len(symbols)} "
                             "symbols, expected at least two, and as many of both")
    if any(each.list_outputs() != symbols[0].list_outputs() for each in symbols):
        raise AssertionError("check_consistency: the symbols have different outputs: "
                             f"{[each.list_outputs() for each in symbols]}")
    executors = [each.simple_bind(grad_req=grad_req, **options)
                 for each, options in zip(symbols, ctx_list, strict=True)]
    draw = partial(np.random.uniform, -1, 1) if use_uniform else np.random.standard_normal
    start = {name: np.asarray(draw(a.shape) * scale).astype(rand_type)
             for name, a in executors[0].arg_dict.items()}
    for executor in executors:
        _fill(executor.arg_dict, {**start, **(arg_params or {})})
        _fill(executor.aux_dict, {**dict.fromkeys(executor.aux_dict, 0), **(aux_params or {})})
    backward = grad_req != "null"
    for executor in executors:
        executor.forward(is_train=backward)
    widths = [min(np.dtype(output.dtype).itemsize for output in executor.outputs)
              for executor in executors]
    best = widths.index(max(widths))
    truth = _results(executors[best], False) if ground_truth is None else dict(ground_truth)
    comparison = rtol, atol, equal_nan, raise_on_err
    _compare_all(executors, ctx_list, best, truth, False, comparison)
    if backward:
        for executor in executors:
            executor.backward([array(truth[name], ctx=output.context, dtype=output.dtype)
                               for name, output in _named_outputs(executor)])
        if ground_truth is None:
            truth = _results(executors[best], True)
        _compare_all(executors, ctx_list, best, truth, True, comparison)
    return truth


def _fill(arrays: Mapping[str, NDArray], values: Mapping[str, Any]) -> None:
    for name, target in arrays.items():
        target[:] = values[name]


def _named_outputs(executor: Any) -> list[tuple[str, NDArray]]:
    names = executor._symbol.list_outputs()
    return [(f"{name}[{i}]" if name in names[:i] else name, output)
            for i, (name, output) in enumerate(zip(names, executor.outputs, strict=True))]


def _results(executor: Any, gradients: bool) -> dict[str, np.ndarray]:
    """Outputs, and gradients under the names of their arguments, as NumPy arrays."""
    results = dict(_named_outputs(executor))
    if gradients:
        results.update({k: grad for k, grad in executor.grad_dict.items() if grad is not None})
    return {name: value.asnumpy() for name, value in results.items()}


def _compare_all(executors: Sequence[Any], ctx_list: Sequence[Mapping[str, Any]], best: int,
                 truth: Mapping[str, Any], gradients: bool,
                 comparison: tuple[Tolerance, Tolerance, bool, bool]) -> None:
    rtol, atol, equal_nan, raise_on_err = comparison
    for number, executor in enumerate(executors):
        for name, value in _results(executor, gradients).items():
            if number == best or name not in truth:
                continue
            try:
                assert_almost_equal(value, truth[name], rtol, atol, equal_nan=equal_nan)
            except AssertionError as error:
                place = f"{name} of {dict(ctx_list[number])} against {dict(ctx_list[best])}"
                if raise_on_err:
                    raise AssertionError(f"check_consistency: {place}: {error}") from None
                print(f"check_consistency: {place}: {error}")


def check_speed(sym: Any, location: Mapping[str, Any] | None = None, ctx: Context | None = None,
                N: int = 20, grad_req: Any = None, typ: str = "whole", **kwargs: Any) -> float:
    """Measure the mean time in seconds of one run of a symbol, after a warm-up run.

    Parameters
    ----------
    sym : Symbol
        The symbol.
    location : dict of str to array, optional
        Values of the arguments, by name; random unless given.
    ctx : Context, optional
        The device; the current context unless given.
    N : int, default 20
        Number of runs.
    grad_req : str, list of str or dict of str to str, optional
        Gradient request; 'write' or, for inference, 'null' unless given.
    typ : {'whole', 'forward'}, default 'whole'
        Forward and backward pass (head gradients are the outputs), or inference.
    **kwargs : tuple of int
        Shapes of the arguments, by name, if there is no `location`.

    Raises
    ------
    ValueError
        For another `typ`.
    """
    from ..bench.foreign.foreign_worker import seconds_of

    if typ not in ("whole", "forward"):
        raise ValueError(f"check_speed: typ is {typ!r}, expected 'whole' or 'forward'")
    ctx = default_context() if ctx is None else ctx
    shapes = {name: np.shape(value) for name, value in location.items()} if location else kwargs
    request = ("write" if typ == "whole" else "null") if grad_req is None else grad_req
    executor = sym.simple_bind(ctx, grad_req=request, **shapes)
    drawn = {name: np.random.standard_normal(a.shape) for name, a in executor.arg_dict.items()}
    _fill(executor.arg_dict, {**drawn, **(location or {})})

    def run() -> None:
        executor.forward(is_train=typ == "whole")
        if typ == "whole":
            executor.backward(executor.outputs)

    def runs(count: int) -> None:
        for _ in range(count):
            run()
        waitall()

    runs(1)
    return seconds_of(runs, [(N,)]) / N


def compare_optimizer(opt1: Any, opt2: Any, shape: Any, dtype: Any, w_stype: str = "default",
                      g_stype: str = "default", rtol: float = 1e-4, atol: float = 1e-5,
                      compare_states: bool = True, ntensors: int = 1) -> None:
    """AssertionError unless two optimizers update random weights and their states equally.

    Parameters
    ----------
    opt1, opt2 : Optimizer
        The optimizers. The first updates one weight in a call, the second all of them.
    shape : tuple of int or list of tuple of int
        Shape of the weights; a list has one for each weight.
    dtype : dtype
        Element type of the weights.
    w_stype, g_stype : str, default 'default'
        Accepted for compatibility and ignored.
    rtol, atol : float, default 1e-4 and 1e-5
        Relative and absolute tolerance.
    compare_states : bool, default True
        Whether to compare the states before and after the update, too.
    ntensors : int, default 1
        Number of weights, where `shape` is that of each.
    """
    shapes = [tuple(each) for each in (shape if isinstance(shape, list) else [shape] * ntensors)]
    draws = [[np.random.uniform(0, 1, each) for each in shapes] for _ in range(2)]
    results = []
    for optimizer in (opt1, opt2):
        weights, grads = (tuple(array(value, dtype=dtype) for value in draw) for draw in draws)
        states = [optimizer.create_state_multi_precision(i, w) for i, w in enumerate(weights)]
        before = [_copied(state) for state in states]
        if len(weights) > 1 and optimizer is opt2:
            optimizer.update_multi_precision(list(range(len(weights))), weights, grads, states)
        else:
            for each in zip(range(len(weights)), weights, grads, states, strict=True):
                optimizer.update_multi_precision(*each)
        results.append((before, states, weights))
    if compare_states:
        compare_ndarray_tuple(results[0][0], results[1][0], rtol, atol)
        compare_ndarray_tuple(results[0][1], results[1][1], rtol, atol)
    compare_ndarray_tuple(results[0][2], results[1][2], rtol, atol)


def _copied(state: Any) -> Any:
    if isinstance(state, (list, tuple)):
        return [_copied(part) for part in state]
    return state.copy() if isinstance(state, NDArray) else state


class DummyIter(DataIter):
    """An endless iterator that repeats the first batch of another, to time training without input.

    Parameters
    ----------
    real_iter : DataIter
        Iterator that yields the batch.
    """

    def __init__(self, real_iter: Any):
        super().__init__(real_iter.batch_size)
        self.real_iter = real_iter
        self.provide_data = real_iter.provide_data
        self.provide_label = real_iter.provide_label
        self.the_batch = next(real_iter)

    def __iter__(self) -> DummyIter:
        return self

    def next(self) -> Any:
        """Return the batch."""
        return self.the_batch
