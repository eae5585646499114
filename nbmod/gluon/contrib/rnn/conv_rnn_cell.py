"""Recurrent cells whose maps are convolutions, over 1, 2 and 3 axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ....base import CheckError, plain_numbers
from ...base_parameter import Init, Parameter
from ...nn.pooling_layers import LAYOUTS, Size
from ...rnn.rnn_cell import Function, HybridRecurrentCell, StateInfo, _add_parameters
from ...utils import dimensions

__all__ = ["Conv1DGRUCell", "Conv1DLSTMCell", "Conv1DRNNCell", "Conv2DGRUCell", "Conv2DLSTMCell",
           "Conv2DRNNCell", "Conv3DGRUCell", "Conv3DLSTMCell", "Conv3DRNNCell"]
__dir__ = __all__.copy


class _ConvCell(HybridRecurrentCell):
    """Base of cells that map the input and the last output by convolutions.

    The second convolution is padded, so that the output keeps its size.  `_gates` is the number of
    parts of a map, `_states` that of states, `_rank` that of the axes that windows move along.
    """

    i2h_weight: Parameter
    _gates: ClassVar[int]
    _states: ClassVar[int] = 1
    _rank: ClassVar[int]

    def __init__(self, input_shape: Sequence[int], hidden_channels: int, i2h_kernel: Size,
                 h2h_kernel: Size, i2h_pad: Size = 0, i2h_dilate: Size = 1, h2h_dilate: Size = 1,
                 i2h_weight_initializer: Init = None, h2h_weight_initializer: Init = None,
                 i2h_bias_initializer: Init = "zeros", h2h_bias_initializer: Init = "zeros",
                 conv_layout: str | None = None, activation: Function = "tanh",
                 prefix: str | None = None, params: Any = None, **unknown: Any):
        super().__init__(prefix=prefix, params=params, **unknown)
        self._hidden_channels, self._activation = hidden_channels, activation
        self._conv_layout = LAYOUTS[self._rank][0] if conv_layout is None else conv_layout
        self._input_shape = dimensions(input_shape)
        self._check_layout()
        kernel, dilate = (self._sizes("h2h_kernel", h2h_kernel),
                          self._sizes("h2h_dilate", h2h_dilate))
        if any(size % 2 == 0 for size in kernel):
            raise CheckError(f"Only support odd number, get h2h_kernel= {h2h_kernel}: the output "
                             f"of {self.name} keeps its size")
        self._i2h = self._convolution(
            self._sizes("i2h_kernel", i2h_kernel), self._sizes("i2h_pad", i2h_pad),
            self._sizes("i2h_dilate", i2h_dilate))
        pad = tuple(step * (size - 1) // 2 for step, size in zip(dilate, kernel, strict=True))
        self._h2h = self._convolution(kernel, pad, dilate)
        self._state_shape = self._ordered(hidden_channels, self._output_sizes())
        _add_parameters(self, self._parameter_shapes(), (
            i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer,
            h2h_bias_initializer))

    # -- shapes -------------------------------------------------------------------------------

    @property
    def _channel_axis(self) -> int:
        return self._conv_layout.find("C")

    def _check_layout(self) -> None:
        layouts = LAYOUTS[self._rank]
        if self._conv_layout not in layouts:
            raise CheckError(f"Only supports {' and '.join(map(repr, layouts))} layout; "
                             f"conv_layout of {self.name} is {self._conv_layout!r}")
        if len(self._input_shape) != self._rank + 1:
            raise CheckError(f"{self.name}: input_shape is {self._input_shape}, expected the "
                             f"{self._rank + 1} axes of {self._conv_layout[1:]}, without those of "
                             "samples and steps")

    def _sizes(self, name: str, size: Size) -> tuple[int, ...]:
        """A number for each axis."""
        sizes = plain_numbers(size)
        sizes = (sizes,) * self._rank if isinstance(sizes, int) else sizes
        if not isinstance(sizes, (tuple, list)) or len(sizes) != self._rank:
            raise CheckError(f"For {self._rank}D convolution, the convolution settings can only be "
                             f"either int or list/tuple of length {self._rank}; {name} of "
                             f"{self.name} is {size!r}")
        return tuple(sizes)

    def _convolution(self, kernel: tuple[int, ...], pad: tuple[int, ...], dilate: tuple[int, ...]
                     ) -> dict[str, Any]:
        """Arguments of a convolution."""
        return {"kernel": kernel, "pad": pad, "dilate": dilate, "stride": (1,) * self._rank,
                "num_filter": self._hidden_channels * self._gates, "layout": self._conv_layout}

    def _ordered(self, channels: int, others: Sequence[int]) -> tuple[int, ...]:
        """The shape of channels and other axes in the layout."""
        return (channels, *others) if self._channel_axis == 1 else (*others, channels)

    def _output_sizes(self) -> list[int]:
        """How many windows of the input there are along each axis; 0 where it is not known."""
        start = self._channel_axis == 1
        lengths = self._input_shape[start:start + self._rank]
        facts, sizes = self._i2h, list[int]()
        for length, kernel, pad, dilate in zip(lengths, facts["kernel"], facts["pad"],
                                               facts["dilate"], strict=True):
            sizes.append(length + 2 * pad - dilate * (kernel - 1) if length else 0)
            if length and sizes[-1] < 1:
                raise CheckError(f"{self.name}: i2h_kernel {facts['kernel']} with i2h_pad "
                                 f"{facts['pad']} and i2h_dilate {facts['dilate']} is larger than "
                                 f"the input, of input_shape {self._input_shape}")
        return sizes

    def _parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        outputs = self._hidden_channels * self._gates
        inputs = self._input_shape[self._channel_axis - 1]
        return {
            "i2h_weight": (outputs, *self._ordered(inputs, self._i2h["kernel"])),
            "h2h_weight": (outputs, *self._ordered(self._hidden_channels, self._h2h["kernel"])),
            "i2h_bias": (outputs,), "h2h_bias": (outputs,)}

    def state_info(self, batch_size: int = 0) -> list[StateInfo]:
        return [{"shape": (batch_size, *self._state_shape), "__layout__": self._conv_layout}
                for _ in range(self._states)]

    # -- steps --------------------------------------------------------------------------------

    def hybrid_forward(self, F: Any, inputs: Any, states: Any, i2h_weight: Any, h2h_weight: Any,
                       i2h_bias: Any, h2h_bias: Any) -> Any:
        prefix = f"t{self._counter}_"
        i2h = F.Convolution(data=inputs, weight=i2h_weight, bias=i2h_bias, name=f"{prefix}i2h",
                            **self._i2h)
        h2h = F.Convolution(data=states[0], weight=h2h_weight, bias=h2h_bias, name=f"{prefix}h2h",
                            **self._h2h)
        return self._from_maps(F, prefix, i2h, h2h, states)

    def _from_maps(self, F: Any, prefix: str, i2h: Any, h2h: Any, states: Any) -> Any:
        """(output, new states) of the maps."""
        raise NotImplementedError

    def _parts(self, F: Any, x: Any, name: str) -> Any:
        """The parts of a map."""
        return F.SliceChannel(x, num_outputs=self._gates, axis=self._channel_axis, name=name)

    def __repr__(self) -> str:
        outputs, *inputs = self.i2h_weight.shape or ()
        channels = inputs[0 if self._channel_axis == 1 else -1] or None
        return (f"{type(self).__name__}({channels} -> {outputs}, {self._activation}, "
                f"{self._conv_layout})")


class _ConvRNNCell(_ConvCell):
    """Elman's cell with convolutions."""

    _hint, _gates = "conv_rnn", 1

    def _from_maps(self, F: Any, prefix: str, i2h: Any, h2h: Any, states: Any) -> Any:
        output = self._get_activation(F, i2h + h2h, self._activation, name=f"{prefix}out")
        return output, [output]


class _ConvLSTMCell(_ConvCell):
    """Long short-term memory with convolutions."""

    _hint, _gates, _states = "conv_lstm", 4, 2

    def _from_maps(self, F: Any, prefix: str, i2h: Any, h2h: Any, states: Any) -> Any:
        parts = self._parts(F, i2h + h2h, f"{prefix}slice")
        write, keep, show = (F.Activation(parts[index], act_type="sigmoid", name=prefix + name)
                             for index, name in ((0, "i"), (1, "f"), (3, "o")))
        candidate = self._get_activation(F, parts[2], self._activation, name=f"{prefix}c")
        memory = F.elemwise_add(keep * states[1], write * candidate, name=f"{prefix}state")
        shown = self._get_activation(F, memory, self._activation)
        output = F.elemwise_mul(show, shown, name=f"{prefix}out")
        return output, [output, memory]


class _ConvGRUCell(_ConvCell):
    """Gated recurrent unit with convolutions."""

    _hint, _gates = "conv_gru", 3

    def _from_maps(self, F: Any, prefix: str, i2h: Any, h2h: Any, states: Any) -> Any:
        i2h_r, i2h_z, i2h_g = self._parts(F, i2h, f"{prefix}i2h_slice")
        h2h_r, h2h_z, h2h_g = self._parts(F, h2h, f"{prefix}h2h_slice")
        reset = F.Activation(i2h_r + h2h_r, act_type="sigmoid", name=f"{prefix}r_act")
        keep = F.Activation(i2h_z + h2h_z, act_type="sigmoid", name=f"{prefix}z_act")
        candidate = self._get_activation(F, i2h_g + reset * h2h_g, self._activation,
                                         name=f"{prefix}h_act")
        output = F.elemwise_add((1. - keep) * candidate, keep * states[0], name=f"{prefix}out")
        return output, [output]


class Conv1DRNNCell(_ConvRNNCell):
    """Elman's cell with convolutions of sequences.

    h' = activation(W * x + b + R * h + c), where * convolves; padding of h keeps its size.

    Parameters are those of `Conv2DRNNCell`, with `input_shape` (C, W), and `conv_layout`
    {'NCW', 'NWC'}, default 'NCW'.

    Examples
    --------
    >>> cell = mx.gluon.contrib.rnn.Conv1DRNNCell((3, 8), 4, 3, 3, i2h_pad=1)
    >>> cell.initialize()
    >>> output, states = cell(mx.nd.ones((2, 3, 8)), cell.begin_state(2))
    >>> output.shape
    (2, 4, 8)
    """

    _rank = 1


class Conv2DRNNCell(_ConvRNNCell):
    """Elman's cell with convolutions of images.

    h' = activation(W * x + b + R * h + c), where * convolves; padding of h keeps its size.

    Parameters
    ----------
    input_shape : tuple of int
        Shape of a step of a sample in the layout, without the axis of samples: (C, H, W).
    hidden_channels : int
        Number of channels of outputs and states.
    i2h_kernel : int or tuple of int
        Size of the windows of W.
    h2h_kernel : int or tuple of int
        Size of the windows of R, odd.
    i2h_pad : int or tuple of int, default 0
        Zeros at both ends of each axis of the input.
    i2h_dilate, h2h_dilate : int or tuple of int, default 1
        Steps between the elements of the windows of W and R.
    i2h_weight_initializer, h2h_weight_initializer : Initializer or str, optional
        Initializers of W and R; None leaves them to `initialize`.
    i2h_bias_initializer, h2h_bias_initializer : Initializer or str, default 'zeros'
        Initializers of b and c.
    conv_layout : {'NCHW', 'NHWC'}, default 'NCHW'
        Order of the axes of inputs, outputs and weights.
    activation : str or HybridBlock, default 'tanh'
        Function of the outputs.
    prefix, params
        As for `HybridBlock`.

    Raises
    ------
    AssertionError
        For an even `h2h_kernel`, another layout, sizes of another number of axes, or windows that
        are larger than the input.

    Examples
    --------
    >>> cell = mx.gluon.contrib.rnn.Conv2DRNNCell((3, 8, 8), 4, 3, 3, i2h_pad=1)
    >>> cell.initialize()
    >>> output, states = cell(mx.nd.ones((2, 3, 8, 8)), cell.begin_state(2))
    >>> output.shape
    (2, 4, 8, 8)
    """

    _rank = 2


class Conv3DRNNCell(_ConvRNNCell):
    """Elman's cell with convolutions of volumes.

    h' = activation(W * x + b + R * h + c), where * convolves; padding of h keeps its size.

    Parameters are those of `Conv2DRNNCell`, with `input_shape` (C, D, H, W), and `conv_layout`
    {'NCDHW', 'NDHWC'}, default 'NCDHW'.

    Examples
    --------
    >>> cell = mx.gluon.contrib.rnn.Conv3DRNNCell((3, 8, 8, 8), 4, 3, 3, i2h_pad=1)
    >>> cell.initialize()
    >>> output, states = cell(mx.nd.ones((2, 3, 8, 8, 8)), cell.begin_state(2))
    >>> output.shape
    (2, 4, 8, 8, 8)
    """

    _rank = 3


class Conv1DLSTMCell(_ConvLSTMCell):
    """Long short-term memory with convolutions of sequences (Shi et al., 2015).

    See `LSTMCell` for the equations; `activation` is in the place of both tanh.

    Parameters are those of `Conv1DRNNCell`.

    Examples
    --------
    >>> cell = mx.gluon.contrib.rnn.Conv1DLSTMCell((3, 8), 4, 3, 3, i2h_pad=1)
    >>> cell.initialize()
    >>> output, states = cell(mx.nd.ones((2, 3, 8)), cell.begin_state(2))
    >>> output.shape
    (2, 4, 8)
    """

    _rank = 1


class Conv2DLSTMCell(_ConvLSTMCell):
    """Long short-term memory with convolutions of images (Shi et al., 2015).

    See `LSTMCell` for the equations; `activation` is in the place of both tanh.

    Parameters are those of `Conv2DRNNCell`.

    Examples
    --------
    >>> cell = mx.gluon.contrib.rnn.Conv2DLSTMCell((3, 8, 8), 4, 3, 3, i2h_pad=1)
    >>> cell.initialize()
    >>> output, states = cell(mx.nd.ones((2, 3, 8, 8)), cell.begin_state(2))
    >>> output.shape
    (2, 4, 8, 8)
    """

    _rank = 2


class Conv3DLSTMCell(_ConvLSTMCell):
    """Long short-term memory with convolutions of volumes (Shi et al., 2015).

    See `LSTMCell` for the equations; `activation` is in the place of both tanh.

    Parameters are those of `Conv3DRNNCell`.

    Examples
    --------
    >>> cell = mx.gluon.contrib.rnn.Conv3DLSTMCell((3, 8, 8, 8), 4, 3, 3, i2h_pad=1)
    >>> cell.initialize()
    >>> output, states = cell(mx.nd.ones((2, 3, 8, 8, 8)), cell.begin_state(2))
    >>> output.shape
    (2, 4, 8, 8, 8)
    """

    _rank = 3


class Conv1DGRUCell(_ConvGRUCell):
    """Gated recurrent unit with convolutions of sequences.

    See `GRUCell` for the equations; `activation` is in the place of tanh.

    Parameters are those of `Conv1DRNNCell`.

    Examples
    --------
    >>> cell = mx.gluon.contrib.rnn.Conv1DGRUCell((3, 8), 4, 3, 3, i2h_pad=1)
    >>> cell.initialize()
    >>> output, states = cell(mx.nd.ones((2, 3, 8)), cell.begin_state(2))
    >>> output.shape
    (2, 4, 8)
    """

    _rank = 1


class Conv2DGRUCell(_ConvGRUCell):
    """Gated recurrent unit with convolutions of images.

    See `GRUCell` for the equations; `activation` is in the place of tanh.

    Parameters are those of `Conv2DRNNCell`.

    Examples
    --------
    >>> cell = mx.gluon.contrib.rnn.Conv2DGRUCell((3, 8, 8), 4, 3, 3, i2h_pad=1)
    >>> cell.initialize()
    >>> output, states = cell(mx.nd.ones((2, 3, 8, 8)), cell.begin_state(2))
    >>> output.shape
    (2, 4, 8, 8)
    """

    _rank = 2


class Conv3DGRUCell(_ConvGRUCell):
    """Gated recurrent unit with convolutions of volumes.

    See `GRUCell` for the equations; `activation` is in the place of tanh.

    Parameters are those of `Conv3DRNNCell`.

    Examples
    --------
    >>> cell = mx.gluon.contrib.rnn.Conv3DGRUCell((3, 8, 8, 8), 4, 3, 3, i2h_pad=1)
    >>> cell.initialize()
    >>> output, states = cell(mx.nd.ones((2, 3, 8, 8, 8)), cell.begin_state(2))
    >>> output.shape
    (2, 4, 8, 8, 8)
    """

    _rank = 3
