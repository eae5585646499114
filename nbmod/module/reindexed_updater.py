"""An updater for modules that list the parameters of another module in another order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from ..base import _as_list
from ..optimizer import Updater

if TYPE_CHECKING:
    from ..base import Forwarded
    from ..kvstore.base import PerDevice

__all__ = ["reindexed"]


def reindexed(updater: Updater, positions: Sequence[int], devices: int) -> Updater:
    """Adapt an updater to a module that lists the parameters at other positions."""
    return cast(Updater, _ReindexedUpdater(updater, positions, devices))


class _ReindexedUpdater:
    """An updater of one bucket, for another whose parameters have other indices.

    Updaters identify parameters by index (times devices, plus device).  A bucket that lacks a
    parameter or lists them in another order must not touch the state of the wrong one.
    """

    def __init__(self, updater: Updater, positions: Sequence[int], devices: int):
        self._updater = updater
        self._keys = [position * devices + k for position in positions for k in range(devices)]

    def __call__(self, index: int | Sequence[int], grad: PerDevice, weight: PerDevice) -> None:
        keys = [self._keys[i] for i in _as_list(index)]
        self._updater(keys if isinstance(index, (list, tuple)) else keys[0], grad, weight)

    def __getattr__(self, name: str) -> Forwarded:
        return getattr(self._updater, name)
