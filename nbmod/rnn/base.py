"""What every cell is: parameters by name, states to begin with, a step, and its unrolling.

A cell is a function (inputs, states) -> (output, states) over symbols. Its weights are variables
kept in an `RNNParams`, so every step uses the same ones, and cells that are given the same
`RNNParams` share them. Nodes are called `<prefix>t<step>_...`; the names are MXNet's to the letter,
since checkpoints and scripts look nodes up by them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import ndarray as nd
from .. import symbol as sym
from ..base import MXNetError, did_you_mean
from .sequence import arrange, as_steps

__all__ = ["BaseRNNCell", "RNNParams", "take"]

States = Sequence[sym.Symbol]


class RNNParams:
    """Variables by name: asking twice for a name gives the same variable."""

    def __init__(self, prefix: str = ""):
        self._prefix = prefix
        self._params: dict[str, sym.Symbol] = {}

    def get(self, name: str, **kwargs: Any) -> sym.Symbol:
        """The variable `<prefix><name>`, made with `kwargs` when it is first asked for."""
        name = self._prefix + name
        if name not in self._params:
            self._params[name] = sym.Variable(name, **kwargs)
        return self._params[name]


class BaseRNNCell:
    """Base of cells. A subclass gives `state_info` and `__call__`; with weights, `_gate_names`.

    `prefix` begins the names of nodes, and of weights unless `params` is given.
    """

    _num_hidden: int
    _why_no_step = ""
    """For a cell that can only be unrolled: what to do instead of stepping it."""

    def __init__(self, prefix: str = "", params: RNNParams | None = None):
        self._own_params = params is None
        self._params = RNNParams(prefix) if params is None else params
        self._prefix = prefix
        self._modified = False
        self.reset()

    def reset(self) -> None:
        """Count steps and first states from 0 again, also in the cells of a container."""
        self._init_counter = -1
        self._counter = -1
        for cell in getattr(self, "_cells", ()):
            cell.reset()

    def __call__(self, inputs: sym.Symbol, states: States) -> tuple[Any, list[Any]]:
        """One step: (output, new states) of inputs (N, C) and of states as in `state_info`."""
        raise NotImplementedError(f"{type(self).__name__} has no step: "
                                  f"{self._why_no_step or 'a subclass must define __call__'}")

    @property
    def params(self) -> RNNParams:
        """The cell's variables; who has asked for them may not be given others."""
        self._own_params = False
        return self._params

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """For each state its `shape`, 0 for the batch, and `__layout__`."""
        raise NotImplementedError(f"{type(self).__name__} does not define state_info")

    @property
    def state_shape(self) -> list[tuple[int, ...]]:
        """Shapes of the states, 0 for the batch."""
        return [info["shape"] for info in self.state_info]

    @property
    def _gate_names(self) -> Sequence[str]:
        """What each block of `num_hidden` rows of a weight is for, as part of a name."""
        return ()

    @property
    def _num_gates(self) -> int:
        return len(self._gate_names)

    def begin_state(self, func: Callable[..., Any] = sym.zeros, **kwargs: Any) -> list[Any]:
        """The states of step 0: `func(name=..., shape=..., __layout__=..., **kwargs)` for each.

        `func=mx.sym.Variable` makes them inputs of the network.
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
            raise MXNetError(f"{type(self).__name__} {self._prefix!r} is inside a modifier cell "
                             "(ZoneoutCell, ResidualCell): call the modifier's begin_state, not "
                             "this one's")

    def unroll(self, length: int, inputs: Any, begin_state: States | None = None,
               layout: str = "NTC", merge_outputs: bool | None = None
               ) -> tuple[Any, list[Any]]:
        """(outputs, states) after `length` steps.

        `inputs` is one symbol in `layout`, or a list of `length` symbols without the axis T.
        `outputs` is a list, or one symbol in `layout` if `merge_outputs`; None leaves it to the
        cell which one is cheaper. `begin_state` is by default `self.begin_state()`.
        """
        self.reset()
        steps = as_steps(inputs, length, layout)
        states = list(self.begin_state() if begin_state is None else begin_state)
        outputs = []
        for step in steps:
            output, states = self(step, states)
            outputs.append(output)
        return arrange(outputs, length, layout, merge_outputs), states

    def _get_activation(self, inputs: sym.Symbol, activation: Any, **kwargs: Any) -> sym.Symbol:
        """`activation`, the name of one or a function, of `inputs`."""
        if isinstance(activation, str):
            return sym.Activation(inputs, act_type=activation, **kwargs)
        return activation(inputs, **kwargs)

    def _next_name(self) -> str:
        """What the names of the nodes of the next step begin with."""
        self._counter += 1
        return f"{self._prefix}t{self._counter}_"

    # -- weights, all gates in one array or one array per gate ----------------------------------

    def unpack_weights(self, args: Mapping[str, nd.NDArray]) -> dict[str, nd.NDArray]:
        """`args` with an array for every gate (`lstm_i2h_f_weight`) instead of packed ones."""
        args = dict(args)
        for packed, parts in self._parts_of_weights():
            if packed not in args and args.keys() >= set(parts):
                continue  # a cell with the same weights has unpacked them
            array, rows = take(args, packed), self._num_hidden
            args.update({name: array[i * rows:(i + 1) * rows].copy()
                         for i, name in enumerate(parts)})
        return args

    def pack_weights(self, args: Mapping[str, nd.NDArray]) -> dict[str, nd.NDArray]:
        """The opposite of `unpack_weights`."""
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
    """Remove and return an array."""
    if name not in args:
        raise MXNetError(f"weights: there is no array {name!r}{did_you_mean(name, args)}")
    return args.pop(name)
