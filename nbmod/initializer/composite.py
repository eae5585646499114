"""Initializers that pass arrays on to others: `FusedRNN`, `Load` and `Mixed`."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence

from ..base import (
    ArgumentError,
    ArgumentTypeError,
    CheckError,
    MXNetError,
    checks_numbers,
    wrong_type,
)
from ..ndarray import NDArray, load, zeros
from ..ops.rnn.rnn_weights import GATES, RnnLayout
from .base_initializer import InitDesc, Initializer, create, fills, register

__all__ = ["FusedRNN", "Load", "Mixed"]


@register
class FusedRNN(Initializer):
    """Fills the flat parameter vector of an `RNN` operator, one gate after the other.

    Parameters
    ----------
    init : Initializer, str or None
        Fills the weights and biases of gates, which have names like `l0_i2h_f_weight`: an
        initializer, its name or JSON, or None for that of the whole network.
    num_hidden : int
        Number of hidden units.
    num_layers : int
        Number of layers.
    mode : {'rnn_relu', 'rnn_tanh', 'lstm', 'gru'}
        The kind of cell.
    bidirectional : bool, default False
        Whether there are two directions.
    forget_bias : float, default 1.0
        Bias of the forget gates of an LSTM.

    Raises
    ------
    MXNetError
        If `mode` is none of these; when called, if there is no initializer.

    Examples
    --------
    >>> array = mx.nd.zeros(4 * (2 + 3 + 2))  # inputs, hidden units, two biases
    >>> init = mx.init.FusedRNN(mx.init.Zero(), num_hidden=1, num_layers=1, mode="lstm")
    >>> init("lstm_weight", array)
    >>> float(array.sum().asscalar())
    2.0
    """

    @checks_numbers
    def __init__(self, init: Initializer | str | None, num_hidden: int, num_layers: int, mode: str,
                 bidirectional: bool = False, forget_bias: float = 1.0):
        if mode not in GATES:
            raise MXNetError(f"FusedRNN: mode is {mode!r}, expected one of {sorted(GATES)}")
        init = create(init) if isinstance(init, str) else init
        if not isinstance(init, (Initializer, type(None))):
            raise wrong_type("FusedRNN: init", init, "an Initializer, or its name")
        super().__init__(init=None if init is None else init.dumps(), num_hidden=num_hidden,
                         num_layers=num_layers, mode=mode, bidirectional=bidirectional,
                         forget_bias=forget_bias)
        self._init = init
        self._layout = RnnLayout(mode, num_hidden, num_layers, bidirectional)
        self._forget_bias = forget_bias

    def _init_weight(self, desc: str, arr: NDArray) -> None:
        network = getattr(desc, "global_init", None)
        init = self._init or network
        if init is None:
            raise MXNetError(f"FusedRNN: {desc} is to be filled by the initializer of the network, "
                             "and there is none; give `init`")
        for piece in self._layout.pieces(self._layout.input_size(arr.size)):
            part = zeros(piece.shape, dtype=arr.dtype)
            if self._layout.mode == "lstm" and piece.name.endswith("_f_bias"):
                part[:] = self._forget_bias
            else:
                init(InitDesc(piece.name, global_init=network), part)
            arr[piece.span] = part.reshape((-1,))


class Load:
    """Takes parameters from a file or a dict.

    Parameters
    ----------
    param : str or dict of str to NDArray
        A file that `mx.nd.save` wrote, or arrays by name.  Prefixes `arg:` and `aux:` are removed.
    default_init : callable, optional
        Called with name and array for parameters that are missing.
    verbose : bool, default False
        Whether to log where every parameter comes from.

    Raises
    ------
    MXNetError
        If the file has no names; when called, if the shape is another, or if a parameter is missing
        and there is no `default_init`.

    Examples
    --------
    >>> init = mx.init.Load({"arg:a_weight": mx.nd.array([1, 2])}, default_init=mx.init.One())
    >>> a, b = mx.nd.zeros(2), mx.nd.zeros(2)
    >>> init("a_weight", a)
    >>> init("b_weight", b)
    >>> a.asnumpy().tolist(), b.asnumpy().tolist()
    ([1.0, 2.0], [1.0, 1.0])
    """

    def __init__(self, param: str | Mapping[str, NDArray],
                 default_init: Callable[[str, NDArray], None] | None = None, verbose: bool = False):
        arrays = param if isinstance(param, Mapping) else load(param)
        if not isinstance(arrays, Mapping):
            raise MXNetError(f"Load: {param} holds arrays without names")
        self.param = {re.sub("^(arg|aux):", "", name): array for name, array in arrays.items()}
        self.default_init = default_init
        self.verbose = verbose

    def __call__(self, name: str, arr: NDArray) -> None:
        if name in self.param:
            if self.param[name].shape != arr.shape:
                raise CheckError(f"Parameter {name} cannot be initialized from loading: shape "
                                 f"{arr.shape}, loaded {self.param[name].shape}")
            arr[:] = self.param[name]
            source = "loading"
        elif self.default_init is not None:
            self.default_init(name, arr)
            source = "default"
        else:
            raise CheckError(f"Cannot initialize {name}: it is not among the loaded parameters and "
                             "no default initializer is given")
        if self.verbose:
            logging.info("Initialized %s by %s", name, source)


class Mixed:
    """Selects an initializer by the name of the parameter.

    Parameters
    ----------
    patterns : list of str
        Regular expressions, which have to match at the beginning of the name; the first that does
        counts.
    initializers : list of callable
        The initializer of every pattern.

    Raises
    ------
    MXNetError
        If the lists differ in length.
    ArgumentError
        When called, if no pattern matches.

    Examples
    --------
    >>> init = mx.init.Mixed(["fc1_", ".*"], [mx.init.Zero(), mx.init.One()])
    >>> a, b = mx.nd.ones(2), mx.nd.zeros(2)
    >>> init("fc1_weight", a)
    >>> init("fc2_weight", b)
    >>> a.asnumpy().tolist(), b.asnumpy().tolist()
    ([0.0, 0.0], [1.0, 1.0])
    """

    def __init__(self, patterns: Sequence[str],
                 initializers: Sequence[Callable[[str, NDArray], None]]):
        if len(patterns) != len(initializers):
            raise CheckError(f"Mixed: {len(patterns)} patterns for {len(initializers)} "
                             "initializers")
        for each in initializers:
            if not fills(each):
                raise ArgumentTypeError(f"Mixed: {each!r} is no initializer; expected one such as "
                                        "mx.init.Xavier()")
        self.map = [(re.compile(pattern), initializer)
                    for pattern, initializer in zip(patterns, initializers, strict=True)]

    def __call__(self, name: str, arr: NDArray) -> None:
        for pattern, initializer in self.map:
            if pattern.match(name):
                initializer(name, arr)
                return
        raise ArgumentError(f"Parameter name {name} did not match any pattern: add a \".*\" "
                            "pattern at the end with a default initializer")
