"""Conversion of trained networks to mixed precision (`nbmod.passes.mixed_precision`)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base import FLAG_OF_DTYPE, CheckError, MXNetError, did_you_mean
from ...context import gpu, num_gpus
from ...gluon import HybridBlock, SymbolBlock
from ...gluon.utils import Contexts
from ...graph import Graph
from ...module import BucketingModule
from ...ndarray import NDArray
from ...passes.infer import infer_type
from ...passes.mixed_precision import (
    Precision,
    parameters_in_float16,
    reduce_precision,
    types_of_casts,
)
from ...symbol import Symbol
from ...symbol.compose import copy_graph
from .casting import install, installed
from .lists import symbol_fp16 as lists
from .loss_scaler import init_trainer, scale_loss, unscale

__all__ = ["convert_bucketing_module", "convert_hybrid_block", "convert_model", "convert_symbol",
           "init", "init_trainer", "list_conditional_fp32_ops", "list_fp32_ops",
           "list_loss_output_functions", "list_lp16_fp32_ops", "list_lp16_ops",
           "list_lp16_use_fp32_params", "list_widest_type_cast", "scale_loss", "unscale"]
__dir__ = __all__.copy

Params = dict[str, NDArray]
Conditional = Sequence[tuple[str, str, Sequence[str]]]
_FLOAT32, _FLOAT16 = (str(FLAG_OF_DTYPE[np.dtype(name)]) for name in ("float32", "float16"))


# -- conversion ------------------------------------------------------------------------------------


def convert_symbol(sym: Symbol, target_dtype: str = "float16",
                   target_dtype_ops: list[str] | None = None, fp32_ops: list[str] | None = None,
                   conditional_fp32_ops: Conditional | None = None,
                   excluded_sym_names: list[str] | None = None,
                   data_names: list[str] | None = None,
                   cast_optional_params: bool = False) -> Symbol:
    """Return a symbol in which some operators compute in float16; inputs, outputs stay float32.

    Parameters
    ----------
    sym : Symbol
        A network in float32.
    target_dtype : str, default 'float16'
        The narrow type; only this one is supported.
    target_dtype_ops, fp32_ops : list of str, optional
        Operators that compute in float16, and in float32, instead of `list_lp16_ops` and
        `list_fp32_ops`.
    conditional_fp32_ops : list of (str, str, list of str), optional
        Operator, parameter and values for which it computes in float32, instead of
        `list_conditional_fp32_ops`.
    excluded_sym_names : list of str, optional
        Names of nodes that compute in float32.
    data_names : list of str, optional
        Inputs that are no parameters; if given, the types of all others are set.
    cast_optional_params : bool, default False
        With `data_names`: parameters that only operators in float16 read are float16 themselves.

    Raises
    ------
    MXNetError
        (an AssertionError) For an invalid argument.

    Examples
    --------
    >>> dense = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="fc")
    >>> mixed = mx.contrib.amp.convert_symbol(mx.sym.softmax(dense, name="p"))
    >>> [name for name in mixed.get_internals().list_outputs() if "amp" in name]
    ... # doctest: +NORMALIZE_WHITESPACE
    ['data_amp_cast_float16_output', 'fc_weight_amp_cast_float16_output',
     'fc_bias_amp_cast_float16_output', 'fc_output_amp_cast_float32_output']
    """
    if not isinstance(sym, Symbol):
        raise CheckError("First argument to convert_symbol should be Symbol, given "
                         f"{type(sym).__name__}")
    _check_type(target_dtype)
    precision = _precision(target_dtype_ops, fp32_ops, conditional_fp32_ops,
                           _list_of_str(excluded_sym_names, "excluded_sym_names"))
    graph = Graph(copy_graph(sym.entries))
    low = names = frozenset[str]()
    if data_names is not None:
        names = frozenset(_list_of_str(data_names, "data_names"))
        if cast_optional_params:
            low = parameters_in_float16(graph, precision) - names
    converted = reduce_precision(graph, precision, low)
    if data_names is not None:
        _set_types(converted, names, low)
    return Symbol(converted.outputs)


def convert_model(sym: Symbol, arg_params: Params, aux_params: Params,
                  target_dtype: str = "float16", target_dtype_ops: list[str] | None = None,
                  fp32_ops: list[str] | None = None,
                  conditional_fp32_ops: Conditional | None = None,
                  excluded_sym_names: list[str] | None = None,
                  cast_optional_params: bool = False) -> tuple[Symbol, Params, Params]:
    """Return a network in mixed precision, and its parameters.

    Parameters
    ----------
    sym : Symbol
        A network in float32.
    arg_params, aux_params : dict of str to NDArray
        Its parameters and auxiliary states.
    target_dtype, target_dtype_ops, fp32_ops, conditional_fp32_ops, excluded_sym_names : optional
        As for `convert_symbol`.
    cast_optional_params : bool, default False
        Whether parameters that only operators in float16 read become float16, in half the memory.

    Returns
    -------
    symbol : Symbol
        The converted network.
    arg_params, aux_params : dict of str to NDArray
        Its parameters.

    Raises
    ------
    MXNetError
        (an AssertionError) For an invalid argument.

    Examples
    --------
    >>> dense = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, no_bias=True,
    ...                               name="fc")
    >>> mixed, args, aux = mx.contrib.amp.convert_model(
    ...     dense, {"fc_weight": mx.nd.ones((2, 3))}, {}, cast_optional_params=True)
    >>> args["fc_weight"].dtype.__name__
    'float16'
    >>> mixed.eval(data=mx.nd.ones((1, 3)), **args)[0].asnumpy().tolist()
    [[3.0, 3.0]]
    """
    for place, params in (("Second", arg_params), ("Third", aux_params)):
        if not isinstance(params, dict):
            raise CheckError(f"{place} argument to convert_model should be a dict of name "
                             f"to ndarray, given {type(params).__name__}")
    if not isinstance(sym, Symbol):
        raise CheckError("First argument to convert_model should be Symbol, given "
                         f"{type(sym).__name__}")
    data_names = [name for name in sym.list_inputs()
                  if name not in arg_params and name not in aux_params]
    converted = convert_symbol(sym, target_dtype, target_dtype_ops, fp32_ops,
                               conditional_fp32_ops, excluded_sym_names, data_names,
                               cast_optional_params)
    low = {name for name, attrs in converted.attr_dict().items()
           if attrs.get("__dtype__") == _FLOAT16}
    args, aux = ({name: array.astype("float16") if name in low else array
                  for name, array in params.items()} for params in (arg_params, aux_params))
    return converted, args, aux


def convert_bucketing_module(bucketing_mod: BucketingModule, target_dtype: str = "float16",
                             target_dtype_ops: list[str] | None = None,
                             fp32_ops: list[str] | None = None,
                             conditional_fp32_ops: Conditional | None = None,
                             excluded_sym_names: list[str] | None = None,
                             cast_optional_params: bool = False) -> BucketingModule:
    """Return a module in mixed precision; bind it, and set its parameters, as any other.

    Parameters
    ----------
    bucketing_mod : BucketingModule
        A module in float32.
    target_dtype, target_dtype_ops, fp32_ops, conditional_fp32_ops, excluded_sym_names : optional
        As for `convert_symbol`.
    cast_optional_params : bool, default False
        Whether parameters that only operators in float16 read become float16.

    Raises
    ------
    MXNetError
        (an AssertionError) For an invalid argument.

    Examples
    --------
    >>> def sym_gen(length):
    ...     x = mx.sym.mean(mx.sym.Variable("data"), axis=1)
    ...     return mx.sym.FullyConnected(x, num_hidden=2, name="fc"), ["data"], []
    >>> module = mx.contrib.amp.convert_bucketing_module(mx.mod.BucketingModule(sym_gen, 8))
    >>> module.bind([("data", (4, 8, 3))])
    >>> module.init_params(mx.init.One())
    """
    if not isinstance(bucketing_mod, BucketingModule):
        raise CheckError("module should be a BucketingModule, given "
                         f"{type(bucketing_mod).__name__}")

    def sym_gen(key: Any) -> tuple[Symbol, Any, Any]:
        symbol, data_names, label_names = bucketing_mod._sym_gen(key)
        inputs = [*(data_names or []), *(label_names or []), *bucketing_mod._state_names]
        converted = convert_symbol(symbol, target_dtype, target_dtype_ops, fp32_ops,
                                   conditional_fp32_ops, excluded_sym_names, inputs,
                                   cast_optional_params)
        return converted, data_names, label_names

    return bucketing_mod.with_sym_gen(sym_gen)


def convert_hybrid_block(block: HybridBlock, target_dtype: str = "float16",
                         target_dtype_ops: list[str] | None = None,
                         fp32_ops: list[str] | None = None,
                         conditional_fp32_ops: Conditional | None = None,
                         excluded_sym_names: list[str] | None = None, ctx: Contexts = None,
                         cast_optional_params: bool = False) -> SymbolBlock:
    """Return a block in mixed precision, with copies of the parameters of a traced block.

    It takes and returns arrays without structure: of `net(x, [h, c])` the result takes `x, h, c`.

    Parameters
    ----------
    block : HybridBlock
        A block in float32, hybridized and called at least once, or a `SymbolBlock`.
    target_dtype, target_dtype_ops, fp32_ops, conditional_fp32_ops, excluded_sym_names : optional
        As for `convert_symbol`.
    ctx : Context or list of Context, optional
        Devices of the parameters; by default `gpu(0)`, and without a GPU those of the block.
    cast_optional_params : bool, default False
        Whether parameters that only operators in float16 read become float16, in half the memory.

    Returns
    -------
    SymbolBlock
        The converted network.

    Raises
    ------
    MXNetError
        For a block without a trace or without values of parameters (a RuntimeError), and for an
        invalid argument (an AssertionError).

    Examples
    --------
    >>> net = mx.gluon.nn.Dense(2, in_units=3, prefix="fc_")
    >>> net.initialize(mx.init.One())
    >>> net.hybridize()
    >>> y = net(mx.nd.ones((1, 3)))
    >>> mixed = mx.contrib.amp.convert_hybrid_block(net, cast_optional_params=True)
    >>> mixed(mx.nd.ones((1, 3))).asnumpy().tolist(), mixed.params["fc_weight"].dtype
    ([[3.0, 3.0]], <class 'numpy.float16'>)
    """
    if not isinstance(block, HybridBlock):
        raise CheckError(f"block input should be a HybridBlock, given {type(block).__name__}")
    if not block._cached_graph:
        raise MXNetError("Please first call block.hybridize() and then run forward with this block "
                         "at least once before calling convert_hybrid_block")
    inputs, symbol = block._cached_graph
    parameters = block.collect_params()
    args, aux = ({name: parameters[name]._reduce() for name in names if name in parameters}
                 for names in (symbol.list_arguments(), symbol.list_auxiliary_states()))
    converted, args, aux = convert_model(symbol, args, aux, target_dtype, target_dtype_ops,
                                         fp32_ops, conditional_fp32_ops, excluded_sym_names,
                                         cast_optional_params)
    if ctx is None:
        ctx = gpu(0) if num_gpus() else parameters.list_ctx()
    result = SymbolBlock(converted, inputs)
    result.collect_params().load_dict({**args, **aux}, ctx, cast_dtype=True)
    return result


def _check_type(target_dtype: str) -> None:
    if target_dtype == "bfloat16":
        raise MXNetError("target_dtype is bfloat16, which nbmod does not have; use float16")
    if target_dtype != "float16":
        raise CheckError("Only target_dtype float16 is supported, given "
                         f"{target_dtype!r}")


def _list_of_str(names: Any, argument: str) -> list[str]:
    if names is None:
        return []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise CheckError(f"{argument} should be a list of strs, given {names!r}")
    return names


def _precision(target_dtype_ops: list[str] | None, fp32_ops: list[str] | None,
               conditional_fp32_ops: Conditional | None, excluded: list[str]) -> Precision:
    """The precision of operators; a list that is not given is MXNet's."""
    low, single = lists.FP16_FUNCS, lists.FP32_FUNCS
    if target_dtype_ops is not None:
        low = _list_of_str(target_dtype_ops, "target_dtype_ops")
    if fp32_ops is not None:
        single = _list_of_str(fp32_ops, "fp32_ops")
    conditional = lists.CONDITIONAL_FP32_FUNCS
    if conditional_fp32_ops is not None:
        conditional = [_condition(condition) for condition in conditional_fp32_ops]
    _check_known(target_dtype_ops, fp32_ops, conditional)
    widest = {*lists.WIDEST_TYPE_CASTS} - {*low, *single}
    return Precision(frozenset(low), frozenset(single), frozenset(widest), conditional,
                     frozenset(excluded))


def _condition(condition: Any) -> tuple[str, str, list[str]]:
    if (not isinstance(condition, (tuple, list)) or len(condition) != 3
            or not all(isinstance(each, str) for each in condition[:2])
            or not isinstance(condition[2], list)):
        raise CheckError("conditional_fp32_ops should be a list of (str, str, list of str), "
                         f"given {condition!r}")
    op, parameter, values = condition
    return op, parameter, values


def _check_known(target_dtype_ops: list[str] | None, fp32_ops: list[str] | None,
                 conditional: Conditional) -> None:
    """Refuse operators that are in two lists, or that can be in none."""
    both = {*(target_dtype_ops or lists.FP16_FUNCS)} & {*(fp32_ops or lists.FP32_FUNCS)}
    if both and target_dtype_ops is not None:
        raise CheckError("Ops cannot be in two or more lists. Common ops in "
                         f"target_dtype_ops and fp32_ops {both}")
    known = {*lists.FP16_FUNCS, *lists.FP32_FUNCS, *lists.FP16_FP32_FUNCS,
             *(condition[0] for condition in lists.CONDITIONAL_FP32_FUNCS)}
    for op in [*(target_dtype_ops or []), *(fp32_ops or []), *(each[0] for each in conditional)]:
        if op not in known:
            raise CheckError(
                f"{op} is in none of amp.list_lp16_ops, list_fp32_ops, list_lp16_fp32_ops and "
                f"list_conditional_fp32_ops, so it cannot be chosen{did_you_mean(op, known)}")


def _set_types(graph: Graph, data_names: frozenset[str], low: frozenset[str]) -> None:
    """Declare the types of all parameters: those that their readers need, or else float32."""
    parameters = [node for node in graph.variables if node.name not in data_names]
    for node in parameters:
        if node.name in low:
            node.attrs["__dtype__"] = _FLOAT16
        elif node.attrs.get("__dtype__") == _FLOAT32:   # its readers may compute in float16 now
            del node.attrs["__dtype__"]
    types = infer_type(graph, {}, types_of_casts(graph), default=None)
    for node in parameters:
        dtype = types[graph.output_eids(node)[0]] or np.dtype(np.float32)
        node.attrs.setdefault("__dtype__", str(FLAG_OF_DTYPE[dtype]))


# -- training --------------------------------------------------------------------------------------

def init(target_dtype: str = "float16", target_precision_ops: list[str] | None = None,
         conditional_fp32_ops: Conditional | None = None,
         fp32_ops: list[str] | None = None) -> None:
    """Let all operators called from now on cast their inputs, of symbols and of arrays.

    Symbols made before stay as they are.  A second call has no effect.  `init_trainer` and
    `scale_loss` scale losses.

    Parameters
    ----------
    target_dtype : str or dtype, default 'float16'
        The narrow type; only this one is supported.
    target_precision_ops, fp32_ops : list of str, optional
        Operators that compute in float16, and in float32, instead of `list_lp16_ops` and
        `list_fp32_ops`.
    conditional_fp32_ops : list of (str, str, list of str), optional
        Operator, parameter and values for which it computes in float32, instead of
        `list_conditional_fp32_ops`.

    Raises
    ------
    MXNetError
        (an AssertionError) For an invalid argument.

    Examples
    --------
    >>> import subprocess, sys
    >>> script = (
    ...     "import nbmod as mx; mx.contrib.amp.init();"
    ...     "dense = mx.sym.FullyConnected(mx.sym.Variable('data'), num_hidden=2, no_bias=True);"
    ...     "print([name for name in dense.get_internals().list_outputs() if 'amp' in name])")
    >>> print(subprocess.check_output([sys.executable, "-c", script], text=True).strip())
    ['amp_cast0_output', 'amp_cast1_output']
    """
    if installed():
        return
    _check_type(target_dtype if isinstance(target_dtype, str) else np.dtype(target_dtype).name)
    install(_precision(target_precision_ops, fp32_ops, conditional_fp32_ops, []))
    logging.info("Using AMP")


def __getattr__(name: str) -> bool:
    """Tell, under MXNet's private name, whether `init` was called."""
    if name == "_amp_initialized":
        return installed()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# -- lists -----------------------------------------------------------------------------------------


def list_lp16_ops(target_dtype: str) -> list[str]:
    """Return the operators that compute in float16.

    Parameters
    ----------
    target_dtype : str
        'float16'.

    Raises
    ------
    MXNetError
        (an AssertionError) For another type.

    Examples
    --------
    >>> mx.contrib.amp.list_lp16_ops("float16")
    ['Convolution', 'Deconvolution', 'FullyConnected', 'RNN']
    """
    return _of(target_dtype, lists.FP16_FUNCS)


def list_fp32_ops(target_dtype: str) -> list[str]:
    """Return the operators that compute in float32; see `list_lp16_ops`."""
    return _of(target_dtype, lists.FP32_FUNCS)


def list_lp16_fp32_ops(target_dtype: str) -> list[str]:
    """Return the operators that compute in the type of their inputs; see `list_lp16_ops`."""
    return _of(target_dtype, lists.FP16_FP32_FUNCS)


def list_conditional_fp32_ops(target_dtype: str) -> list[tuple[str, str, list[str]]]:
    """Return (operator, parameter, values) with float32 for these values; see `list_lp16_ops`."""
    return _of(target_dtype, lists.CONDITIONAL_FP32_FUNCS)


def list_widest_type_cast(target_dtype: str) -> list[str]:
    """Return the operators that compute in their inputs' widest type; see `list_lp16_ops`."""
    return _of(target_dtype, lists.WIDEST_TYPE_CASTS)


def list_loss_output_functions(target_dtype: str) -> list[str]:
    """Return the operators that end a network in a loss; see `list_lp16_ops`."""
    return _of(target_dtype, lists.LOSS_OUTPUT_FUNCTIONS)


def list_lp16_use_fp32_params(target_dtype: str) -> None:
    """Return None: with float16 no operator mixes types; see `list_lp16_ops`."""
    _of(target_dtype, [])


def _of(target_dtype: str, names: list[Any]) -> list[Any]:
    if target_dtype != "float16":
        raise CheckError(f"not supported type: {target_dtype!r}, expected 'float16'")
    return list(names)
