"""Gradients in two bits: each element becomes one of -threshold, 0 and threshold.

The quantization error is not lost: it is the device's residual, which is added to its next gradient
(error feedback; Seide et al., "1-bit stochastic gradient descent", Interspeech 2014).  Stores of
one process transmit nothing, so nothing is saved; the purpose is to train as MXNet does.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..base import MXNetError
from ..ndarray import NDArray

__all__ = ["TwoBit"]

Key = int | str


class TwoBit:
    """Two-bit compression with a residual for every key and device.

    Parameters
    ----------
    threshold : float
        Elements whose absolute value, with the residual, reaches it are transmitted.
    """

    def __init__(self, threshold: float):
        self.threshold = threshold
        self.residuals: dict[tuple[Key, int], NDArray] = {}

    @staticmethod
    def from_params(params: object) -> TwoBit:
        """Create a compression from the options that users give.

        Parameters
        ----------
        params : dict
            ``{"type": "2bit", "threshold": 0.5}``; other keys are ignored.

        Returns
        -------
        TwoBit
            The compression.

        Raises
        ------
        MXNetError
            If the type is another one, or the threshold is not a positive number.
        """
        if not isinstance(params, Mapping):
            raise TypeError(f"compression_params is a {type(params).__name__}, expected a dict "
                            "such as {'type': '2bit', 'threshold': 0.5}")
        kind, given = params.get("type"), params.get("threshold", 0.5)
        if kind != "2bit":
            raise MXNetError(f"gradient compression of type {kind!r} is unknown, expected '2bit'")
        try:
            threshold = float(np.float32(given))
        except (TypeError, ValueError):
            threshold = 0.0
        if not threshold > 0:
            raise MXNetError(f"gradient compression: threshold is {given!r}, expected a number "
                             "greater than 0")
        return TwoBit(threshold)

    def __call__(self, key: Key, values: list[NDArray]) -> list[NDArray]:
        """The compressed gradients of one key, one per device."""
        return [self._quantize((key, device), value) for device, value in enumerate(values)]

    def _quantize(self, owner: tuple[Key, int], value: NDArray) -> NDArray:
        kept = self.residuals.get(owner)
        whole = value if kept is None else kept.as_in_context(value.context) + value
        sent = ((whole >= self.threshold) - (whole <= -self.threshold)) * self.threshold
        self.residuals[owner] = whole - sent
        return sent
