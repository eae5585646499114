"""Gradients in two bits: each element becomes one of -threshold, 0 and threshold.

The quantization error is not lost: it is the device's residual, which is added to its next gradient
(error feedback; Seide et al., "1-bit stochastic gradient descent", Interspeech 2014).  Stores of
one process transmit nothing, so nothing is saved; the purpose is to train as MXNet does.
Distributed stores send four elements in a byte.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from typing import TypeAlias

import numpy as np

from ..base import Array, MXNetError
from ..ndarray import NDArray
from ..ops.param import Shape

__all__ = ["TwoBit"]

Key = int | str
Codes: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.uint8]]"


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

        Raises
        ------
        MXNetError
            If the type is another one, or the threshold is not a positive number.
        """
        if not isinstance(params, Mapping):
            raise TypeError(f"compression_params is a {type(params).__name__}, expected a dict "
                            "such as {'type': '2bit', 'threshold': 0.5}")
        kind, value = params.get("type"), params.get("threshold", 0.5)
        if kind != "2bit":
            raise MXNetError(f"gradient compression of type {kind!r} is unknown, expected '2bit'")
        try:
            threshold = float(np.float32(value))
        except (TypeError, ValueError):
            threshold = 0.0
        if not threshold > 0:
            raise MXNetError(f"gradient compression: threshold is {value!r}, expected a number "
                             "greater than 0")
        return TwoBit(threshold)

    def restore(self, residuals: object, shapes: Mapping[Key, Shape]) -> None:
        """Restore the residuals of a saved state.

        Parameters
        ----------
        residuals : dict
            Residuals by key and device.
        shapes : mapping
            Shapes of the values of all keys.

        Raises
        ------
        MXNetError
            If a residual is no array, or not of the shape of its key's value.
        """
        if not isinstance(residuals, dict):
            raise MXNetError(f"gradient compression: the saved residuals are a "
                             f"{type(residuals).__name__}, expected a dict")
        for owner, value in residuals.items():
            shape = shapes.get(owner[0]) if isinstance(owner, tuple) and len(owner) == 2 else ()
            if not isinstance(value, NDArray) or shape not in (None, value.shape):
                raise MXNetError(f"gradient compression: the saved residual of "
                                 f"{reprlib.repr(owner)} is {reprlib.repr(value)}, expected an "
                                 f"array of shape {shape} for a key and a device")
        self.residuals = dict(residuals)

    def __call__(self, key: Key, values: list[NDArray]) -> list[NDArray]:
        """The compressed gradients of one key, one per device."""
        return [self._quantize((key, device), value) for device, value in enumerate(values)]

    def _quantize(self, owner: tuple[Key, int], value: NDArray) -> NDArray:
        residual = self.residuals.get(owner)
        whole = value if residual is None else residual.as_in_context(value.context) + value
        sent = ((whole >= self.threshold) - (whole <= -self.threshold)) * self.threshold
        self.residuals[owner] = whole - sent
        return sent

    # -- the codes that distributed stores send ----------------------------------------------

    @staticmethod
    def length(count: int) -> int:
        """Return the number of bytes that are sent: four elements in each.

        Parameters
        ----------
        count : int
            Number of elements.
        """
        return -(-count // 4)

    @staticmethod
    def encode(values: Array) -> Codes:
        """Return compressed gradients as two bits for each element.

        Parameters
        ----------
        values : ndarray of float32, shape (n,)
            What a call of this object returns.

        Returns
        -------
        ndarray of uint8, shape (length(n),)
            The first element in the lowest bits: 1 is threshold, 2 is -threshold.
        """
        codes = np.zeros(4 * TwoBit.length(len(values)), np.uint8)
        codes[:len(values)] = np.greater(values, 0) + 2 * np.less(values, 0)
        first, second, third, fourth = codes.reshape(-1, 4).T
        return (first + 4 * second + 16 * third + 64 * fourth).astype(np.uint8)

    def decode(self, codes: Codes, values: Array) -> None:
        """Write the elements that `encode` has encoded.

        Parameters
        ----------
        codes : ndarray of uint8
            The bytes.
        values : ndarray of float32
            Where to write the elements.
        """
        levels = np.array([0, self.threshold, -self.threshold, 0], np.float32)
        table = levels[np.arange(256)[:, None] >> np.arange(0, 8, 2) & 3]
        values[:] = table[codes].reshape(-1)[:len(values)]
