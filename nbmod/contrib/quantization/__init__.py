"""`mx.contrib.quantization`: networks on 8-bit integers, from trained float32 networks.

    quantized, args, aux = quantize_model(symbol, args, aux, calib_data=batches)

Three steps, which scripts can also take one by one: `quantize_graph` rewrites the symbol and the
parameters (`nbmod.passes.quantize_graph`), a *collector* sees the tensors of the float32 network on
batches of calibration data, and `calib_graph` writes the ranges that it found into the symbol.
Names with an underscore are those that scripts import from MXNet's module.

    calibration.py  collectors, which keep least and largest values or histograms of tensors
    parameters.py   the rewritten symbol, with its parameters as integers and their ranges
    workflow.py     the steps one by one, and `quantize_model` and `quantize_net`, which take all

Begin with `workflow.py`.  Imports `base`, `context`, `graph`, `io`, `module`, `ndarray`, `ops`,
`passes` and `symbol`.
"""

from .calibration import LayerHistogramCollector, LayerOutputMinMaxCollector, combine_histogram
from .calibration import LayerHistogramCollector as _LayerHistogramCollector
from .calibration import LayerOutputMinMaxCollector as _LayerOutputMinMaxCollector
from .calibration import calibration_iter as _as_data_iter
from .calibration import collect_statistics as _collect_layer_statistics
from .calibration import optimal_threshold as _get_optimal_threshold
from .calibration import optimal_thresholds as _get_optimal_thresholds
from .parameters import quantize_params as _quantize_params
from .workflow import (
    calib_graph,
    quantize_graph,
    quantize_model,
    quantize_model_mkldnn,
    quantize_net,
    quantize_net_v2,
)

__all__ = ["LayerHistogramCollector", "LayerOutputMinMaxCollector", "_LayerHistogramCollector",
           "_LayerOutputMinMaxCollector", "_as_data_iter", "_collect_layer_statistics",
           "_get_optimal_threshold", "_get_optimal_thresholds", "_quantize_params", "calib_graph",
           "combine_histogram", "quantize_graph", "quantize_model", "quantize_model_mkldnn",
           "quantize_net", "quantize_net_v2"]
__dir__ = __all__.copy
