"""Optimizers: `create("sgd", momentum=0.9)`, the classes behind the names, and `Updater`.

`base` has the rates, counts and multipliers that all share; `sgd`, `adaptive`, `layerwise` and
`contrib` the optimizers; `updater` what a training loop calls, `states` the file format of what it
remembers.  The arithmetic is in `nbmod.ops.update`.
"""

from __future__ import annotations

from . import contrib, optimizer
from .optimizer import (
    DCASGD,
    FTML,
    LAMB,
    LARS,
    LBSGD,
    NAG,
    SGD,
    SGLD,
    AdaDelta,
    AdaGrad,
    Adam,
    Adamax,
    Ftrl,
    Nadam,
    Optimizer,
    RMSProp,
    Signum,
    Test,
    Updater,
    ccSGD,
    create,
    get_updater,
    register,
)

__all__ = ["AdaDelta", "AdaGrad", "Adam", "Adamax", "DCASGD", "FTML", "Ftrl", "LAMB", "LARS",
           "LBSGD", "NAG", "Nadam", "Optimizer", "RMSProp", "SGD", "SGLD", "Signum", "Test",
           "Updater", "ccSGD", "contrib", "create", "get_updater", "optimizer", "register"]
