"""The steps of quantization, one by one and together."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from ... import ndarray as nd
from ...base import ArgumentError, MXNetError
from ...context import Context, cpu
from ...graph import Graph
from ...io import DataIter
from ...module import Module
from ...ndarray import NDArray
from ...passes.quantize_graph import MODES, Quantization, calibrate
from ...symbol import Symbol
from .calibration import (
    Collector,
    LayerHistogramCollector,
    LayerOutputMinMaxCollector,
    calibration_iter,
    collect_statistics,
    optimal_thresholds,
)
from .parameters import Params, distinct_layers, fold_norms, quantize_params, quantized_symbol

__all__ = ["calib_graph", "quantize_graph", "quantize_model", "quantize_model_mkldnn",
           "quantize_net", "quantize_net_v2"]

_DTYPES = ("int8", "uint8", "auto")
_GRANULARITIES = ("tensor-wise", "channel-wise")


def quantize_graph(sym: Symbol, arg_params: Params, aux_params: Params,
                   ctx: Context = cpu(),  # noqa: B008
                   excluded_sym_names: list[str] | None = None,
                   excluded_op_names: list[str] | None = None, calib_mode: str = "entropy",
                   quantized_dtype: str = "int8", quantize_mode: str = "full",
                   quantize_granularity: str = "tensor-wise",
                   LayerOutputCollector: Collector | None = None,  # noqa: N803
                   logger: logging.Logger | None = None
                   ) -> tuple[Symbol, Params, Params, Collector | None]:
    """Return a quantized network that is not calibrated, and a collector that can do this.

    Parameters
    ----------
    sym : Symbol
        The float32 network.
    arg_params, aux_params : dict of str to NDArray
        Its parameters and auxiliary states.
    ctx : Context, default cpu()
        Not used here; `quantize_model` calibrates on it.
    excluded_sym_names, excluded_op_names : list of str, optional
        Names of layers, and operators, that stay in float32.
    calib_mode : {'entropy', 'naive', 'customize', 'none'}, default 'entropy'
        How ranges are to be found: by histograms (least loss of information), as least and largest
        value, by `LayerOutputCollector`, or on the fly in each run, which is slow.
    quantized_dtype : {'int8', 'uint8', 'auto'}, default 'int8'
        Type of activations; 'auto' is uint8 where ranges have no negative values. Parameters are
        int8.
    quantize_mode : {'full', 'smart'}, default 'full'
        'full' quantizes all that is possible, 'smart' convolutions, dense layers, and what is
        between two of them.
    quantize_granularity : {'tensor-wise', 'channel-wise'}, default 'tensor-wise'
        Accepted; every parameter has one range, as in MXNet without oneDNN (docs/quantization.md).
    LayerOutputCollector : object, optional
        For 'customize': has ``collect(name, array)``, and ranges in ``min_max_dict``.
    logger : logging.Logger, optional
        Told of what is quantized, at level INFO.

    Returns
    -------
    symbol : Symbol
        The quantized network.
    arg_params, aux_params : dict of str to NDArray
        Its parameters.
    collector : object or None
        Its ``collect(name, array)`` is to see the tensors of the float32 network.

    Raises
    ------
    ArgumentError
        (a ValueError) For an invalid argument.
    """
    _check_options(quantized_dtype, quantize_mode, quantize_granularity)
    quantized, names = quantized_symbol(
        sym, logger, Quantization(
            frozenset(arg_params), quantized_dtype, quantize_mode,
            _names_of(excluded_sym_names, "excluded_sym_names", "symbols"),
            _names_of(excluded_op_names, "excluded_op_names", "operators"),
            calib_mode not in ("none", None)))
    collector = _collector(calib_mode, quantized_dtype, names, LayerOutputCollector, logger)
    if collector is not None:
        _require_distinct(sym, names)
    return quantized, quantize_params(quantized, arg_params), aux_params, collector


def calib_graph(qsym: Symbol, arg_params: Params, aux_params: Params, collector: Any,
                calib_mode: str = "entropy", quantized_dtype: str = "int8",
                logger: logging.Logger | None = None) -> tuple[Symbol, Params, Params]:
    """Return a quantized network with the ranges that a collector has found.

    Parameters
    ----------
    qsym : Symbol
        The network, from `quantize_graph`.
    arg_params, aux_params : dict of str to NDArray
        Parameters of the float32 network, or those from `quantize_graph`.
    collector : object
        What has seen the tensors of the float32 network.
    calib_mode : {'entropy', 'naive', 'customize'}, default 'entropy'
        That of `quantize_graph`.
    quantized_dtype : {'int8', 'uint8', 'auto'}, default 'int8'
        That of `quantize_graph`.
    logger : logging.Logger, optional
        Told of each range, at level DEBUG.

    Returns
    -------
    symbol : Symbol
        The calibrated network.
    arg_params, aux_params : dict of str to NDArray
        Its parameters.

    Raises
    ------
    ArgumentError
        (a ValueError) If `calib_mode` is not one of these.
    """
    if calib_mode == "entropy":
        ranges = optimal_thresholds(collector.hist_dict, quantized_dtype, logger=logger)
    elif calib_mode in ("naive", "customize"):
        ranges = collector.min_max_dict
    else:
        raise ArgumentError(f"unknown calibration mode {calib_mode} received, expected `naive`, "
                            "`entropy` or `customize`")
    calibrated = Symbol(calibrate(Graph(qsym.entries), ranges).outputs)
    return calibrated, quantize_params(calibrated, arg_params), aux_params


def quantize_model(sym: Symbol, arg_params: Params, aux_params: Params,
                   data_names: Sequence[str] = ("data",),
                   label_names: Sequence[str] | None = ("softmax_label",),
                   ctx: Context = cpu(),  # noqa: B008
                   excluded_sym_names: list[str] | None = None,
                   excluded_op_names: list[str] | None = None, calib_mode: str = "entropy",
                   calib_data: DataIter | NDArray | None = None,
                   num_calib_examples: int | None = None, quantized_dtype: str = "int8",
                   quantize_mode: str = "smart", quantize_granularity: str = "tensor-wise",
                   logger: logging.Logger | None = None, *,
                   calib_layer: Callable[[str], bool] | None = None
                   ) -> tuple[Symbol, Params, Params]:
    """Return a network on 8-bit integers that computes what a trained float32 network does.

    Parameters
    ----------
    sym, arg_params, aux_params, quantize_granularity
        As for `quantize_graph`.
    data_names, label_names : sequence of str
        Names of its data and labels.
    ctx : Context, default cpu()
        Device on which the float32 network runs for calibration.
    excluded_sym_names, excluded_op_names : list of str, optional
        Names of layers, and operators, that stay in float32; often the first and the last layer.
    calib_mode : {'entropy', 'naive', 'none'}, default 'entropy'
        How the ranges of activations are found: as those that lose least information, as least
        and largest value, or in each run anew, which is slow.
    calib_data : DataIter or NDArray, optional
        Typical data, a few hundred samples; required unless `calib_mode` is 'none'.
    num_calib_examples : int, optional
        Number of samples to use; all by default.
    quantized_dtype : {'int8', 'uint8', 'auto'}, default 'int8'
        Type of activations; 'auto' is uint8 where ranges have no negative values.
    quantize_mode : {'smart', 'full'}, default 'smart'
        'smart' quantizes convolutions, dense layers, and what is between two of them; 'full' all
        that is possible.
    logger : logging.Logger, optional
        Told of the steps.
    calib_layer : callable, optional
        Says of a tensor's name whether its range is to be calibrated; all are by default. (An
        argument of MXNet before 1.6.)

    Returns
    -------
    symbol : Symbol
        The quantized network.
    arg_params, aux_params : dict of str to NDArray
        Its parameters.

    Raises
    ------
    ArgumentError
        (a ValueError) For an invalid argument.

    Examples
    --------
    >>> symbol = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=1, name="fc")
    >>> args = {"fc_weight": mx.nd.array([[1, -2]]), "fc_bias": mx.nd.array([0.5])}
    >>> quantized, qargs, aux = mx.contrib.quantization.quantize_model(
    ...     symbol, args, {}, calib_mode="naive", calib_data=mx.nd.array([[1, 0.5], [-1, 1]]))
    >>> [name for name in quantized.get_internals().list_outputs() if name.endswith("_output")]
    ['quantized_fc_output', 'fc_dequantize_output']
    >>> float(quantized.eval(data=mx.nd.array([[1, 1]]), **qargs)[0].asnumpy().round(2))
    -0.5
    """
    data = _calibration_data(calib_mode, calib_data, data_names)
    if logger:
        logger.info("Quantizing symbol")
    sym, layers = distinct_layers(sym)
    if isinstance(excluded_sym_names, list):
        excluded_sym_names = [each for name in excluded_sym_names
                              for each in layers.get(name, [name])]
    quantized, args, aux, collector = quantize_graph(
        sym, arg_params, aux_params, ctx, excluded_sym_names, excluded_op_names, calib_mode,
        quantized_dtype, quantize_mode, quantize_granularity, logger=logger)
    if data is None or collector is None:
        return quantized, args, aux
    if calib_layer is not None:
        _restrict(collector, calib_layer)
    module = _bound_module(sym, (arg_params, aux_params), (data_names, label_names), ctx, data)
    count = collect_statistics(module, data, collector, num_calib_examples, logger)
    if logger:
        logger.info("Collected layer outputs from FP32 model using %d examples", count)
    return calib_graph(quantized, args, aux, collector, calib_mode, quantized_dtype, logger)


def quantize_model_mkldnn(sym: Symbol, arg_params: Params, aux_params: Params, *args: Any,
                          **kwargs: Any) -> tuple[Symbol, Params, Params]:
    """Fold each BatchNorm after a layer into its weights, then apply `quantize_model`.

    The result is faster and more exact, as quantized layers need no BatchNorm between them.
    (MXNet's function makes operators of its oneDNN back end for the same reason.)

    Parameters
    ----------
    sym, arg_params, aux_params
        As for `quantize_graph`.
    *args, **kwargs
        As for `quantize_model`.

    Returns
    -------
    symbol : Symbol
        The quantized network.
    arg_params, aux_params : dict of str to NDArray
        Its parameters.
    """
    folded, folded_params = fold_norms(sym, arg_params, aux_params)
    states = set(folded.list_auxiliary_states())
    aux_params = {name: array for name, array in aux_params.items() if name in states}
    return quantize_model(folded, folded_params, aux_params, *args, **kwargs)


def quantize_net(network: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """Refuse, and say what to do instead: networks of Gluon are not part of nbmod.

    Parameters
    ----------
    network : HybridBlock
        A network of Gluon.
    *args, **kwargs
        As in MXNet.
    """
    raise MXNetError("quantize_net: Gluon is not part of nbmod; quantize the symbol and the "
                     "parameters that HybridBlock.export has written by quantize_model")


quantize_net_v2 = quantize_net


# -- arguments -------------------------------------------------------------------------------------


def _check_options(quantized_dtype: str, quantize_mode: str, quantize_granularity: str) -> None:
    if quantized_dtype not in _DTYPES:
        raise ArgumentError(f"unknown quantized_dtype {quantized_dtype} received, expected "
                            "`int8`, `uint8` or `auto`")
    if quantize_granularity not in _GRANULARITIES:
        raise ArgumentError(f"unknown quantize_granularity {quantize_granularity} received, "
                            "expected `tensor-wise` or `channel-wise`")
    if quantize_mode not in MODES:
        raise MXNetError(f"unrecognized quantize mode: {quantize_mode}, expected `smart` or "
                         "`full`")


def _names_of(names: object, argument: str, what: str) -> frozenset[str]:
    if names is None:
        return frozenset()
    if not isinstance(names, list):
        raise ArgumentError(f"{argument} must be a list of strings representing the names of the "
                            f"{what} that will not be quantized, while received type "
                            f"{type(names)}")
    return frozenset(names)


def _calibration_data(calib_mode: str, calib_data: Any, data_names: Sequence[str]
                      ) -> DataIter | None:
    """The data, or None where no calibration is wanted."""
    if calib_mode in ("none", None):
        return None
    if calib_mode not in ("naive", "entropy"):
        raise ArgumentError(f"unknown calibration mode {calib_mode} received, expected `none`, "
                            "`naive`, or `entropy`")
    if calib_data is None:
        raise ArgumentError(f"calib_data must be provided when calib_mode={calib_mode}")
    return calibration_iter(calib_data, data_names)[0]


def _collector(calib_mode: str, quantized_dtype: str, names: list[str], own: Collector | None,
               logger: logging.Logger | None) -> Collector | None:
    """Collector of the ranges of the tensors of these names."""
    if calib_mode in ("none", None):
        return None
    if calib_mode == "customize" and own is not None:
        return own
    if calib_mode == "entropy":
        return LayerHistogramCollector(include_layer=names, logger=logger)
    if calib_mode == "naive":
        return LayerOutputMinMaxCollector(quantized_dtype, names, logger)
    raise ArgumentError(f"unknown calibration mode {calib_mode} received, expected `none`, "
                        "`naive`, `entropy` or `customize` with a LayerOutputCollector")


def _require_distinct(sym: Symbol, names: Sequence[str]) -> None:
    """ArgumentError if a collector cannot tell tensors whose ranges are needed apart."""
    shown = Counter(sym.get_internals().list_outputs())
    twice = sorted({name for name in names if shown[name] > 1})
    if twice:
        raise ArgumentError(f"quantize_graph: several tensors are called {twice}, and collectors "
                            "know tensors by name: give every layer a name of its own, or use "
                            "quantize_model, which does")


def _restrict(collector: Any, calib_layer: Callable[[str], bool]) -> None:
    collector.include_layer = [name for name in collector.include_layer if calib_layer(name)]


def _bound_module(sym: Symbol, params: tuple[Params, Params],
                  names: tuple[Sequence[str], Sequence[str] | None], ctx: Context,
                  data: DataIter) -> Module:
    """The float32 network, ready to run on `data`; labels that it does not provide are zeros."""
    (args, aux), (data_names, label_names) = params, names
    labels = data.provide_label if label_names else None
    if not labels:
        shapes, _, _ = sym.infer_shape(**{desc.name: desc.shape for desc in data.provide_data})
        zeros = {name: nd.zeros(shape) for name, shape
                 in zip(sym.list_arguments(), shapes or (), strict=False)
                 if name in (label_names or ())}
        args, label_names = {**args, **zeros}, None
    module = Module(sym, data_names=data_names, label_names=label_names, context=ctx)
    module.bind(data.provide_data, labels or None, for_training=False)
    module.set_params(args, aux)
    return module
