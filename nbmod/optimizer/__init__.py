"""Optimizers: `create("sgd", momentum=0.9)`, the classes that it creates, and `Updater`.

`base_optimizer` has learning rates, update counts and multipliers; `sgd`, `adaptive`, `layerwise`
and `contrib` have the optimizers; `updater` has the `Updater`, which training loops call; `states`
has the file format of optimizer states.  The arithmetic is in `nbmod.ops.optimizer.sgd_update`.

Examples
--------
>>> import nbmod as mx
>>> optimizer = mx.optimizer.create("adam", learning_rate=0.1)
>>> updater = mx.optimizer.get_updater(optimizer)
>>> weight = mx.nd.array([4.0])
>>> for _ in range(100):
...     updater(0, 2 * weight, weight)
>>> abs(weight.asscalar().item()) < 0.1
True
"""

from __future__ import annotations

from . import contrib, optimizer
from .optimizer import *  # noqa: F403

__all__ = ["contrib", "optimizer"]
__all__ += optimizer.__all__
__dir__ = __all__.copy
