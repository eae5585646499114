"""Base of all cells: parameters by name, first states, a step, and its unrolling.

A cell is a function (inputs, states) -> (output, states) over symbols. Its weights are variables
kept in an `RNNParams`, so every step uses the same ones, and cells that are given the same
`RNNParams` share them. Nodes are called `<prefix>t<step>_...`; the names are exactly MXNet's, since
checkpoints and scripts look nodes up by them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import ndarray as nd
from .. import symbol as sym
from ..base import CheckError, NoSuchKey, did_you_mean, wrong_type

__all__ = ["BaseRNNCell", "RNNParams", "arrange", "as_block", "as_steps", "take", "time_axis"]

States = Sequence[sym.Symbol]


class RNNParams:
    """Variables by name: asking twice for a name gives the same variable.

    Parameters
    ----------
    prefix : str, default ''
        What the names of the variables begin with.

    Examples
    --------
    >>> params = mx.rnn.RNNParams("a_")
    >>> params.get("weight").name
    'a_weight'
    >>> params.get("weight") is params.get("weight")
    True
    """

    def __init__(self, prefix: str = ""):
        self._prefix = prefix
        self._params: dict[str, sym.Symbol] = {}

    def get(self, name: str, **kwargs: Any) -> sym.Symbol:
        """The variable `<prefix><name>`.

        Parameters
        ----------
        name : str
            Its name without the prefix.
        **kwargs
            Arguments of `mx.sym.Variable`, used when the variable is first asked for.
        """
        name = self._prefix + name
        if name not in self._params:
            self._params[name] = sym.Variable(name, **kwargs)
        return self._params[name]


class BaseRNNCell:
    """Base class of cells.  A subclass defines `state_info` and `__call__`.

    Parameters
    ----------
    prefix : str, default ''
        What names of nodes, and of weights unless `params` is given, begin with.
    params : RNNParams, optional
        Variables to share with other cells; new ones unless given.
    """

    _num_hidden: int
    _why_no_step = ""
    """For a cell that can only be unrolled: what to do instead of stepping it."""

    def __init__(self, prefix: str = "", params: RNNParams | None = None):
        owner = type(self).__name__
        if not isinstance(prefix, str):
            raise wrong_type(f"{owner}: prefix", prefix, "text")
        if not isinstance(params, (RNNParams, type(None))):
            raise wrong_type(f"{owner}: params", params, "RNNParams, such as those of another cell")
        self._own_params = params is None
        self._params = RNNParams(prefix) if params is None else params
        self._prefix = prefix
        self._modified = False
        self.reset()

    def reset(self) -> None:
        """Count steps and first states from 0 again, also in the cells of a container.

        To be called before a cell is stepped for another graph; `unroll` does it.
        """
        self._init_counter = -1
        self._counter = -1
        for cell in getattr(self, "_cells", ()):
            cell.reset()

    def __call__(self, inputs: sym.Symbol, states: States) -> tuple[Any, list[Any]]:
        """One step of the cell.

        Parameters
        ----------
        inputs : Symbol
            The input of the step, of shape (N, C) for cells over vectors.
        states : list of Symbol
            The states, with shapes as in `state_info`.

        Returns
        -------
        output : Symbol
            The output of the step.
        states : list of Symbol
            The new states.
        """
        raise NotImplementedError(f"{type(self).__name__} has no step: "
                                  f"{self._why_no_step or 'a subclass must define __call__'}")

    @property
    def params(self) -> RNNParams:
        """The cell's variables; once read, the cell may not be given others by a container."""
        self._own_params = False
        return self._params

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """For each state a dict of its `shape`, with 0 for the batch, and its `__layout__`."""
        raise NotImplementedError(f"{type(self).__name__} does not define state_info")

    @property
    def state_shape(self) -> list[tuple[int, ...]]:
        """Shapes of the states, with 0 for the batch."""
        return [info["shape"] for info in self.state_info]

    @property
    def _gate_names(self) -> Sequence[str]:
        """The gate of each block of `num_hidden` rows of a weight, as part of a name."""
        return ()

    @property
    def _num_gates(self) -> int:
        return len(self._gate_names)

    def begin_state(self, func: Callable[..., Any] = sym.zeros, **kwargs: Any) -> list[Any]:
        """The states before the first step.

        Parameters
        ----------
        func : callable, default mx.sym.zeros
            Called as `func(name=..., shape=..., __layout__=..., **kwargs)` for each state;
            `mx.sym.Variable` makes the states inputs of the network.
        **kwargs
            Further arguments of `func`.

        Raises
        ------
        MXNetError
            If the cell is inside a modifier cell, whose `begin_state` has to be called.

        Examples
        --------
        >>> cell = mx.rnn.LSTMCell(4)
        >>> [state.name for state in cell.begin_state(func=mx.sym.Variable)]
        ['lstm_begin_state_0', 'lstm_begin_state_1']
        """
        self._check_not_modified()
        states = []
        for info in self.state_info:
            self._init_counter += 1
            name = f"{self._prefix}begin_state_{self._init_counter}"
            states.append(func(name=name, **{**kwargs, **info}))
        return states

    def _check_not_modified(self) -> None:
        if self._modified:
            raise CheckError(f"{type(self).__name__} {self._prefix!r} is inside a modifier cell "
                             "(ZoneoutCell, ResidualCell): call the modifier's begin_state, not "
                             "this one's")

    def unroll(self, length: int, inputs: Any, begin_state: States | None = None,
               layout: str = "NTC", merge_outputs: bool | None = None
               ) -> tuple[Any, list[Any]]:
        """Apply the cell to a sequence.

        Parameters
        ----------
        length : int
            Number of steps.
        inputs : Symbol or list of Symbol
            One symbol in `layout`, or `length` symbols without the axis T.
        begin_state : list of Symbol, optional
            The first states; those of `begin_state()` unless given.
        layout : str, default 'NTC'
            The axes of a single symbol: N batch, T time, C channels.
        merge_outputs : bool, optional
            Whether the outputs are one symbol in `layout` or a list; None leaves that to the cell.

        Returns
        -------
        outputs : Symbol or list of Symbol
            The outputs of all steps.
        states : list of Symbol
            The states after the last step.

        Examples
        --------
        >>> cell = mx.rnn.RNNCell(num_hidden=4)
        >>> outputs, states = cell.unroll(2, [mx.sym.Variable("x0"), mx.sym.Variable("x1")])
        >>> [output.name for output in outputs]
        ['rnn_t0_out', 'rnn_t1_out']
        """
        self.reset()
        steps = as_steps(inputs, length, layout)
        states = list(self.begin_state() if begin_state is None else begin_state)
        if len(states) != len(self.state_info):
            raise CheckError(f"unroll: {len(states)} begin_state(s) are given, expected "
                             f"{len(self.state_info)} for a {type(self).__name__}")
        outputs = []
        for step in steps:
            output, states = self(step, states)
            outputs.append(output)
        return arrange(outputs, length, layout, merge_outputs), states

    def _get_activation(self, inputs: sym.Symbol, activation: Any, **kwargs: Any) -> sym.Symbol:
        """`activation`, the name of one or a function, of `inputs`."""
        if isinstance(activation, str):
            return sym.Activation(inputs, act_type=activation,  # type: ignore[arg-type]
                                  **kwargs)
        return activation(inputs, **kwargs)

    def _next_name(self) -> str:
        """The prefix of the names of the nodes of the next step."""
        self._counter += 1
        return f"{self._prefix}t{self._counter}_"

    # -- weights, all gates in one array or one array per gate ----------------------------------

    def unpack_weights(self, args: Mapping[str, nd.NDArray]) -> dict[str, nd.NDArray]:
        """Split the weights of all gates into an array for every gate.

        Parameters
        ----------
        args : dict of str to NDArray
            Parameters of the network.

        Returns
        -------
        dict of str to NDArray
            A copy with arrays such as `lstm_i2h_f_weight` in the place of `lstm_i2h_weight`.

        Examples
        --------
        >>> cell = mx.rnn.LSTMCell(2)
        >>> args = {name: mx.nd.zeros(shape) for name, shape in [
        ...     ("lstm_i2h_weight", (8, 3)), ("lstm_h2h_weight", (8, 2)),
        ...     ("lstm_i2h_bias", (8,)), ("lstm_h2h_bias", (8,))]}
        >>> unpacked = cell.unpack_weights(args)
        >>> len(unpacked), unpacked["lstm_i2h_f_weight"].shape
        (16, (2, 3))
        >>> sorted(cell.pack_weights(unpacked)) == sorted(args)
        True
        """
        args = dict(args)
        for packed, parts in self._parts_of_weights():
            if packed not in args and args.keys() >= set(parts):
                continue  # a cell with the same weights has unpacked them
            array, rows = take(args, packed), self._num_hidden
            args.update({name: array[i * rows:(i + 1) * rows].copy()
                         for i, name in enumerate(parts)})
        return args

    def pack_weights(self, args: Mapping[str, nd.NDArray]) -> dict[str, nd.NDArray]:
        """Return a copy with one array for all gates; the opposite of `unpack_weights`.

        Parameters
        ----------
        args : dict of str to NDArray
            Parameters as from `unpack_weights`.
        """
        args = dict(args)
        for packed, parts in self._parts_of_weights():
            if packed in args and not args.keys() & set(parts):
                continue  # a cell with the same weights has packed them
            args[packed] = nd.concatenate([take(args, name) for name in parts])
        return args

    def _parts_of_weights(self) -> list[tuple[str, list[str]]]:
        """Names of the arrays for all gates, and of those for each gate."""
        prefix, gates = self._params._prefix, self._gate_names
        return [(f"{prefix}{layer}_{kind}", [f"{prefix}{layer}{gate}_{kind}" for gate in gates])
                for layer in ("i2h", "h2h") for kind in ("weight", "bias") if gates]


def take(args: dict[str, nd.NDArray], name: str) -> nd.NDArray:
    """Remove and return an array.

    Parameters
    ----------
    args : dict of str to NDArray
        The arrays.
    name : str
        Name of the array.
    """
    if name not in args:
        raise NoSuchKey(f"weights: there is no array {name!r}{did_you_mean(name, args)}")
    return args.pop(name)


# -- sequences: a list with a symbol per step, or one symbol with a time axis ------------------

def time_axis(layout: str) -> int:
    """The position of the time axis.

    Parameters
    ----------
    layout : str
        Axes such as 'NTC', where `T` is time.
    """
    axis = layout.find("T") if isinstance(layout, str) else -1
    if axis < 0:
        raise CheckError(f"unroll: layout is {layout!r}, expected one with a time axis 'T', such "
                         "as 'NTC' or 'TNC'")
    return axis


def as_steps(inputs: Any, length: int, layout: str) -> list[sym.Symbol]:
    """The steps of a sequence in either form.

    Parameters
    ----------
    inputs : Symbol or list of Symbol
        The sequence.
    length : int
        Number of steps.
    layout : str
        The axes of a single symbol.
    """
    if isinstance(inputs, sym.Symbol):
        return list(sym.split(_single(inputs), axis=time_axis(layout), num_outputs=length,
                              squeeze_axis=1))
    return _counted(inputs, length)


def as_block(inputs: Any, length: int, layout: str) -> sym.Symbol:
    """A sequence in either form as one symbol.

    Parameters
    ----------
    inputs : Symbol or list of Symbol
        The sequence.
    length : int
        Number of steps.
    layout : str
        The axes of a single symbol.
    """
    if isinstance(inputs, sym.Symbol):
        return _single(inputs)
    axis = time_axis(layout)
    steps = [sym.expand_dims(step, axis=axis) for step in _counted(inputs, length)]
    return sym.Concat(*steps, dim=axis)


def arrange(inputs: Any, length: int, layout: str, merge: bool | None) -> Any:
    """A sequence as one symbol, as steps, or as it is.

    Parameters
    ----------
    inputs : Symbol or list of Symbol
        The sequence.
    length : int
        Number of steps.
    layout : str
        The axes of a single symbol.
    merge : bool or None
        Whether it becomes one symbol; None leaves it as it is.
    """
    if merge is None:
        return _single(inputs) if isinstance(inputs, sym.Symbol) else _counted(inputs, length)
    return (as_block if merge else as_steps)(inputs, length, layout)


def _single(inputs: sym.Symbol) -> sym.Symbol:
    if len(inputs) != 1:
        raise CheckError(f"unroll: {inputs!r} has {len(inputs)} outputs, expected one with a time "
                         "axis; pass list(inputs) if they are the steps")
    return inputs


def _counted(inputs: Any, length: int) -> list[sym.Symbol]:
    if not isinstance(inputs, Sequence) or isinstance(inputs, str):
        raise CheckError(f"unroll: inputs is a {type(inputs).__name__}, expected a Symbol or a "
                         "list of them, one per step")
    if len(inputs) != length:
        raise CheckError(f"unroll: {len(inputs)} inputs are given for {length} steps")
    return list(inputs)
