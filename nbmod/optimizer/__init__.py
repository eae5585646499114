"""Optimizers: `create("sgd", momentum=0.9)`, the classes behind the names, and `Updater`.

`base` has the rates, counts and multipliers that all share, `sgd` and `adaptive` the rules,
`updater` what a training loop calls, `states` the file format of what it remembers.  The arithmetic
is in `nbmod.ops.update`.
"""

from __future__ import annotations

from . import optimizer
from .optimizer import (
    NAG,
    SGD,
    AdaGrad,
    Adam,
    Optimizer,
    RMSProp,
    Test,
    Updater,
    ccSGD,
    create,
    get_updater,
    register,
)

__all__ = ["Optimizer", "SGD", "ccSGD", "NAG", "Adam", "AdaGrad", "RMSProp", "Test", "Updater",
           "create", "get_updater", "register", "optimizer"]
