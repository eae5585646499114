"""Recurrent cells over images, whose maps are convolutions.

The map of the last output keeps its size, so its kernel is odd and its padding follows from it.
The map of the input may change the size; states have the size of its result. Source: Shi et al.
(2015).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from .. import symbol as sym
from ..base import CheckError
from .base_cell import RNNParams
from .gates import ElmanStep, GatedCell, GRUStep, LSTMStep

__all__ = ["BaseConvRNNCell", "ConvGRUCell", "ConvLSTMCell", "ConvRNNCell"]

LEAKY = partial(sym.LeakyReLU, act_type="leaky", slope=0.2)


class BaseConvRNNCell(GatedCell):
    """Base class of convolutional cells.

    Parameters
    ----------
    input_shape : tuple of int
        Shape of the input of a step in `conv_layout`; its batch size does not matter.
    num_hidden : int
        Number of channels of the states.
    h2h_kernel, h2h_dilate : tuple of int, default (3, 3) and (1, 1)
        Kernel and dilation (height, width) of the convolution of the last output; the kernel is
        odd.
    i2h_kernel, i2h_stride, i2h_pad, i2h_dilate : tuple of int, default (3, 3) and otherwise (1, 1)
        Kernel, stride, padding and dilation of the convolution of the input.
    i2h_weight_initializer, h2h_weight_initializer : Initializer or str, optional
        Initializers of the weights; that of the network unless given.
    i2h_bias_initializer, h2h_bias_initializer : Initializer or str, default 'zeros'
        Initializers of the biases.
    activation : str or callable, optional
        A type for `mx.sym.Activation`, or a function of a symbol; leaky ReLU of slope 0.2 unless
        given.
    prefix : str, optional
        What names of nodes and weights begin with; the class's name and '_' without 'Cell' unless
        given.
    params : RNNParams, optional
        Variables to share with other cells; new ones unless given.
    conv_layout : str, default 'NCHW'
        Layout of inputs and states.

    Raises
    ------
    MXNetError
        If `h2h_kernel` is not odd.
    """

    _default_prefix = ""

    def __init__(self, input_shape: Sequence[int], num_hidden: int,
                 h2h_kernel: Sequence[int] = (3, 3), h2h_dilate: Sequence[int] = (1, 1),
                 i2h_kernel: Sequence[int] = (3, 3), i2h_stride: Sequence[int] = (1, 1),
                 i2h_pad: Sequence[int] = (1, 1), i2h_dilate: Sequence[int] = (1, 1),
                 i2h_weight_initializer: Any = None, h2h_weight_initializer: Any = None,
                 i2h_bias_initializer: Any = "zeros", h2h_bias_initializer: Any = "zeros",
                 activation: Any = LEAKY, prefix: str | None = None,
                 params: RNNParams | None = None, conv_layout: str = "NCHW"):
        super().__init__(self._default_prefix if prefix is None else prefix, params)
        if not all(size % 2 for size in h2h_kernel):
            raise CheckError(f"{type(self).__name__}: h2h_kernel is {tuple(h2h_kernel)}, expected "
                             "odd numbers, so that states keep their size")
        self._num_hidden = num_hidden
        self._activation = activation
        self._conv_layout = conv_layout
        self._i2h: dict[str, Any] = {"kernel": i2h_kernel, "stride": i2h_stride, "pad": i2h_pad,
                                     "dilate": i2h_dilate, "layout": conv_layout}
        same = tuple(dilate * (size - 1) // 2
                     for size, dilate in zip(h2h_kernel, h2h_dilate, strict=True))
        self._h2h: dict[str, Any] = {"kernel": h2h_kernel, "stride": (1, 1), "pad": same,
                                     "dilate": h2h_dilate, "layout": conv_layout}
        self._iW = self.params.get("i2h_weight", init=i2h_weight_initializer)
        self._hW = self.params.get("h2h_weight", init=h2h_weight_initializer)
        self._iB = self.params.get("i2h_bias", init=i2h_bias_initializer)
        self._hB = self.params.get("h2h_bias", init=h2h_bias_initializer)
        mapped: Any = sym.Convolution(sym.Variable("data"), num_filter=num_hidden, **self._i2h)
        self._state_shape = (0, *mapped.infer_shape(data=tuple(input_shape))[1][0][1:])

    @property
    def state_info(self) -> list[dict[str, Any]]:
        return [{"shape": self._state_shape, "__layout__": self._conv_layout}]

    def _map(self, name: str, inputs: sym.Symbol, output: sym.Symbol
             ) -> tuple[sym.Symbol, sym.Symbol]:
        filters = self._num_hidden * self._num_gates
        return (sym.Convolution(inputs, self._iW, self._iB, num_filter=filters, name=f"{name}i2h",
                                **self._i2h),
                sym.Convolution(output, self._hW, self._hB, num_filter=filters, name=f"{name}h2h",
                                **self._h2h))


class ConvRNNCell(ElmanStep, BaseConvRNNCell):
    """Elman's cell with convolutions; see `RNNCell` for its equations.

    Parameters are those of `BaseConvRNNCell`.

    Examples
    --------
    >>> cell = mx.rnn.ConvRNNCell(input_shape=(1, 3, 8, 8), num_hidden=4)
    >>> cell.state_shape
    [(0, 4, 8, 8)]
    """

    _default_prefix = "ConvRNN_"


class ConvLSTMCell(LSTMStep, BaseConvRNNCell):
    """Long short-term memory with convolutions; see `LSTMCell` for its equations.

    `activation` is in the place of both tanh.

    Parameters are those of `BaseConvRNNCell`.

    Examples
    --------
    >>> cell = mx.rnn.ConvLSTMCell(input_shape=(1, 3, 8, 8), num_hidden=4)
    >>> cell.state_shape
    [(0, 4, 8, 8), (0, 4, 8, 8)]
    """

    _default_prefix = "ConvLSTM_"

    @property
    def _slice_options(self) -> dict[str, Any]:  # type: ignore[override]
        return {"axis": self._conv_layout.find("C")}

    @property
    def state_info(self) -> list[dict[str, Any]]:
        return 2 * super().state_info


class ConvGRUCell(GRUStep, BaseConvRNNCell):
    """Gated recurrent unit with convolutions; see `GRUCell` for its equations.

    `activation` is in the place of tanh.

    Parameters are those of `BaseConvRNNCell`.

    Examples
    --------
    >>> cell = mx.rnn.ConvGRUCell(input_shape=(1, 3, 8, 8), num_hidden=4)
    >>> cell.state_shape
    [(0, 4, 8, 8)]
    """

    _default_prefix = "ConvGRU_"

    @property
    def _slice_options(self) -> dict[str, Any]:  # type: ignore[override]
        axis = self._conv_layout.find("C")
        return {} if axis == 1 else {"axis": axis}
