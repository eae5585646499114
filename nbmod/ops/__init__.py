"""The op table: `OPS[name]` is the class of an op, under its name or any alias.

Op families are modules; the light ones that eager expressions use are imported with the table, the
others when a name is first looked for among them.  Nothing here compiles anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

from ..base import MXNetError, did_you_mean
from .op import _TABLE, Backward, Call, Mode, Op, Spec

__all__ = ["OPS", "Op", "Backward", "Call", "Mode", "Spec"]

LIGHT = ("elementwise", "scalar", "broadcast", "reduce", "creation", "matrix", "manipulate",
         "indexing")
HEAVY = ("update", "fully_connected", "convolution", "deconvolution", "pooling", "batch_norm",
         "normalization", "activation", "softmax", "output", "dropout", "embedding", "resize",
         "sampling")


class OpTable(Mapping[str, type[Op]]):
    """Read-only mapping from op names and aliases to op classes."""

    def __init__(self) -> None:
        self._pending = [*LIGHT, *HEAVY]

    def load(self, families: tuple[str, ...] = LIGHT + HEAVY) -> None:
        """Import op families that have not been imported yet."""
        for family in [f for f in self._pending if f in families]:
            self._pending.remove(family)
            import_module(f"{__name__}.{family}")

    def __getitem__(self, name: str) -> type[Op]:
        if name not in _TABLE:
            self.load(LIGHT)
        if name not in _TABLE:
            self.load()
        if name not in _TABLE:
            raise KeyError(name)
        return _TABLE[name]

    def find(self, name: str, where: str = "") -> type[Op]:
        """The op class, or an MXNetError that suggests the nearest name."""
        try:
            return self[name]
        except KeyError:
            place = f"node {where}: " if where else ""
            raise MXNetError(f"{place}unknown operator {name!r}{did_you_mean(name, self)}"
                             ) from None

    def __iter__(self) -> Iterator[str]:
        self.load()
        return iter(list(_TABLE))

    def __len__(self) -> int:
        self.load()
        return len(_TABLE)


OPS = OpTable()
