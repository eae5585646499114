"""Calibration: the ranges of a network's tensors, found on batches of data.

A *collector* sees every tensor of the float32 network and remembers what ranges follow from: the
least and the largest value, or a histogram.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ... import ndarray as nd
from ...base import ArgumentError
from ...io import DataDesc, DataIter, NDArrayIter
from ...module import Module
from ...ndarray import NDArray

__all__ = ["Collector", "LayerHistogramCollector", "LayerOutputMinMaxCollector", "Ranges",
           "calibration_iter", "collect_statistics", "combine_histogram", "optimal_threshold",
           "optimal_thresholds"]

Ranges = dict[str, tuple[float, float]]
Histogram = tuple[np.ndarray, np.ndarray, float, float, float]
"""Counts, edges, least and largest value, and the end of the range."""


class Collector(Protocol):
    """Sees every tensor of a network, by name."""

    def collect(self, name: str, arr: NDArray) -> None:
        """Take note of a tensor."""


# -- collectors ------------------------------------------------------------------------------------


class _LayerCollector:
    """Base of the collectors of layers: the choice of tensors, and their range."""

    def __init__(self, include_layer: Collection[str] | None, logger: logging.Logger | None):
        self.include_layer, self.logger = include_layer, logger

    def collect(self, name: str, arr: NDArray) -> None:
        """Take note of a tensor, unless it is left out."""
        if self.include_layer is None or name in self.include_layer:
            values = arr.asnumpy()
            self._observe(name, values, float(values.min()), float(values.max()))

    def _observe(self, name: str, values: np.ndarray, low: float, high: float) -> None:
        raise NotImplementedError


class LayerOutputMinMaxCollector(_LayerCollector):
    """The least and the largest value of tensors: calibration mode 'naive'.

    Parameters
    ----------
    quantized_dtype : str
        Type of the integers: 'int8', 'uint8' or 'auto'.
    include_layer : collection of str, optional
        Names of the tensors to observe; all by default.
    logger : logging.Logger, optional
        Told of each tensor, at level DEBUG.

    Attributes
    ----------
    min_max_dict : dict of str to (float, float)
        What was found.

    Examples
    --------
    >>> collector = mx.contrib.quantization.LayerOutputMinMaxCollector("int8")
    >>> collector.collect("fc_output", mx.nd.array([-1, 2]))
    >>> collector.collect("fc_output", mx.nd.array([0, 3]))
    >>> collector.min_max_dict
    {'fc_output': (-1.0, 3.0)}
    """

    def __init__(self, quantized_dtype: str, include_layer: Collection[str] | None = None,
                 logger: logging.Logger | None = None):
        super().__init__(include_layer, logger)
        self.min_max_dict: Ranges = {}
        self.quantized_dtype = quantized_dtype

    def _observe(self, name: str, values: np.ndarray, low: float, high: float) -> None:
        before = self.min_max_dict.get(name, (low, high))
        self.min_max_dict[name] = min(low, before[0]), max(high, before[1])
        if self.logger:
            self.logger.debug("Collecting layer %s min_range=%f, max_range=%f", name, low, high)


class LayerHistogramCollector(_LayerCollector):
    """Histograms of tensors: calibration mode 'entropy'.

    Parameters
    ----------
    num_bins : int, default 8001
        Odd number of bins of a tensor's first histogram; later values outside of it add bins.
    include_layer, logger
        As for `LayerOutputMinMaxCollector`.

    Attributes
    ----------
    hist_dict : dict of str to tuple
        Counts, edges, least and largest value, and the end of the range of each tensor.
    """

    def __init__(self, num_bins: int = 8001, include_layer: Collection[str] | None = None,
                 logger: logging.Logger | None = None):
        super().__init__(include_layer, logger)
        self.hist_dict: dict[str, Histogram] = {}
        self.num_bins = num_bins

    def _observe(self, name: str, values: np.ndarray, low: float, high: float) -> None:
        end = max(abs(low), abs(high))
        if name in self.hist_dict:
            self.hist_dict[name] = combine_histogram(self.hist_dict[name], values, low, high, end)
        else:
            counts, edges = np.histogram(values, self.num_bins, (-end, end))
            # Of zeros alone NumPy makes bins around 0.
            self.hist_dict[name] = counts, edges, low, high, float(edges[-1])
        if self.logger:
            self.logger.debug("Collecting layer %s histogram of shape %s", name, values.shape)


def combine_histogram(old_hist: Histogram, arr: np.ndarray, new_min: float, new_max: float,
                      new_th: float) -> Histogram:
    """Return a histogram with more values; bins of the same width are added where needed.

    Parameters
    ----------
    old_hist : tuple
        Counts, edges, least and largest value, and the end of the range.
    arr : ndarray
        Values to add.
    new_min, new_max : float
        The least and the largest of them.
    new_th : float
        The larger of their magnitudes.
    """
    counts, edges, low, high, end = old_hist
    more, step = 0, 2 * end / len(counts)
    if new_th > end:
        more = int((new_th - end) // step + 1) if step else 0
        end += more * step
    added, edges = np.histogram(arr, len(counts) + 2 * more, (-end, end))
    return added + np.pad(counts, more), edges, min(low, new_min), max(high, new_max), end


def optimal_threshold(hist_data: Histogram, quantized_dtype: str,
                           num_quantized_bins: int = 255) -> tuple[float, float, float, float]:
    """The least and the largest value, the end of the best range, and its divergence."""
    counts, edges, low, high, _ = hist_data
    if low >= 0 and quantized_dtype in ("auto", "uint8"):
        num_quantized_bins = 2 * num_quantized_bins + 1  # half of the range remains empty
    end, divergence = nd.contrib.calibrate_entropy(
        nd.array(counts, dtype="float32"), nd.array(edges, dtype="float32"),
        num_quantized_bins=num_quantized_bins)
    return low, high, float(end.asscalar()), float(divergence.asscalar())


def optimal_thresholds(hist_dict: Mapping[str, Histogram], quantized_dtype: str,
                            num_quantized_bins: int = 255,
                            logger: logging.Logger | None = None) -> Ranges:
    """The best range of each tensor."""
    ranges = {}
    for name, histogram in hist_dict.items():
        low, high, end, divergence = optimal_threshold(histogram, quantized_dtype,
                                                            num_quantized_bins)
        positive = low >= 0 and quantized_dtype in ("auto", "uint8")
        ranges[name] = 0.0 if positive else -end, end
        if logger:
            logger.debug("layer=%s, min_val=%f, max_val=%f, threshold=%f, KL divergence=%f",
                         name, low, high, end, divergence)
    return ranges


# -- calibration data ------------------------------------------------------------------------------


def calibration_iter(calib_data: Any, data_names: Sequence[str] = ("data",)
                  ) -> tuple[DataIter, list[DataDesc]]:
    """An iterator over the data, and what it provides; arrays are one batch."""
    if not isinstance(calib_data, DataIter):
        arrays = [calib_data] if isinstance(calib_data, (NDArray, np.ndarray)) else calib_data
        if not (isinstance(arrays, (list, tuple)) and arrays
                and all(isinstance(array, (NDArray, np.ndarray)) for array in arrays)):
            raise ArgumentError(f"calib_data is of type {type(calib_data)}, expected a DataIter "
                                "or an NDArray")
        if len(arrays) != len(data_names):
            raise ArgumentError(f"calib_data has {len(arrays)} arrays, expected one for each of "
                                f"the data {list(data_names)}")
        calib_data = NDArrayIter(dict(zip(data_names, arrays, strict=True)),
                                 batch_size=len(arrays[0]))
    return calib_data, calib_data.provide_data


def collect_statistics(mod: Module, data: DataIter, collector: Collector,
                              max_num_examples: int | None = None,
                              logger: logging.Logger | None = None) -> int:
    """Show the tensors of a module to `collector`, batch by batch; returns how many samples."""
    for executor in mod._exec_group.execs:
        executor.set_monitor_callback(collector.collect, monitor_all=True)
    count = batches = 0
    data.reset()
    for batch in data:
        mod.forward(batch, is_train=False)
        nd.waitall()
        batches += 1
        count += data.batch_size
        if max_num_examples is not None and count >= max_num_examples:
            break
    for executor in mod._exec_group.execs:
        executor.set_monitor_callback(None)
    if not batches:
        raise ArgumentError("calib_data has no batch, so no range can be found")
    if logger:
        logger.info("Collected statistics from %d batches with batch_size=%d", batches,
                    data.batch_size)
    return count
