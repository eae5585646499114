"""`mx.gluon.contrib.nn`: Gluon's experimental layers; some exist by name only (`nbmod.gluon`)."""

from __future__ import annotations

from typing import Any

from ..absent import absent_classes
from ..block import HybridBlock
from ..nn import HybridSequential

_NAMES = """
    Concurrent PixelShuffle1D PixelShuffle2D PixelShuffle3D SparseEmbedding SyncBatchNorm
"""


class HybridConcurrent(HybridSequential):
    """Hybrid blocks that are called on the same data, and whose results are concatenated.

    Parameters
    ----------
    axis : int, default -1
        Axis along which the results are concatenated.
    prefix, params
        As for `HybridBlock`.

    Examples
    --------
    >>> net = mx.gluon.contrib.nn.HybridConcurrent()
    >>> net.add(mx.gluon.contrib.nn.Identity(), mx.gluon.nn.Activation("relu"))
    >>> net(mx.nd.array([[-1, 2]])).asnumpy().tolist()
    [[-1.0, 2.0, 0.0, 2.0]]
    """

    def __init__(self, axis: int = -1, prefix: str | None = None, params: Any = None):
        super().__init__(prefix=prefix, params=params)
        self.axis = axis

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.concat(*(block(x) for block in self._children.values()), dim=self.axis)


class Identity(HybridBlock):
    """The data themselves, for a branch of `HybridConcurrent` without layers.

    Parameters
    ----------
    prefix, params
        As for `HybridBlock`.

    Examples
    --------
    >>> mx.gluon.contrib.nn.Identity()(mx.nd.array([3])).asnumpy().tolist()
    [3.0]
    """

    def __init__(self, prefix: str | None = None, params: Any = None):
        super().__init__(prefix=prefix, params=params)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return x


globals().update(absent_classes(__name__, _NAMES))
__all__ = ["HybridConcurrent", "Identity", *_NAMES.split()]
