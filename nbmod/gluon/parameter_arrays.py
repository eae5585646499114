"""`ParameterArrays`: the copies of a parameter, of which a program may replace some."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from .. import initializer
from ..context import Context
from ..ndarray import NDArray

__all__ = ["AnyInit", "ArrayUser", "Init", "ParameterArrays", "device_positions", "fill"]

Init = initializer.Initializer | str | None
"""An initializer, or its name; None leaves it to `initialize`."""
AnyInit = Init | Callable[..., object]
"""An initializer of a whole network, which may also be a function such as `Mixed`."""


class ArrayUser(Protocol):
    """Keeps arrays of parameters, such as a `CachedOp`."""

    def reset(self) -> None:
        """Forget them: parameters have new ones."""

    def read_per_call(self, name: str, array_on: Callable[[Context], NDArray]) -> None:
        """Read a parameter for each call from now on."""


class ParameterArrays(list[NDArray]):
    """The copies of a parameter, in the order of its devices; tells when one is replaced.

    Parameters
    ----------
    arrays : iterable of NDArray
        Copies.
    replaced : callable
        Called after a program has put another array in the place of a copy.
    """

    def __init__(self, arrays: Iterable[NDArray], replaced: Callable[[], None]):
        super().__init__(arrays)
        self._replaced = replaced

    def __setitem__(self, position: Any, array: Any) -> None:
        super().__setitem__(position, array)
        self._replaced()


def device_positions(contexts: Sequence[Context]) -> list[list[int | None]]:
    """Positions of devices in a list, by number of device: those of GPUs, then those of CPUs."""
    positions: list[list[int | None]] = [[], []]
    for position, ctx in enumerate(contexts):
        own = positions[ctx.device_typeid & 1]
        own += [None] * (ctx.device_id + 1 - len(own))
        own[ctx.device_id] = position
    return positions


def fill(name: str, array: NDArray, init: Any, default_init: Any) -> None:
    """Fill an array by an initializer, whatever the name of the parameter ends with."""
    if callable(init) and not isinstance(init, initializer.Initializer):
        init(initializer.InitDesc(name), array)  # such as `Load` and `Mixed`
        return
    attributes: Any = {"__init__": init}
    default = default_init if isinstance(default_init, initializer.Initializer) else init
    initializer.create(default)(initializer.InitDesc(name, attributes), array)
