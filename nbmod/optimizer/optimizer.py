"""`mx.optimizer.optimizer`, where MXNet keeps every class of the package."""

from __future__ import annotations

from .adaptive import AdaGrad, Adam, RMSProp
from .base import Optimizer, create, register
from .sgd import NAG, SGD, ccSGD
from .updater import Test, Updater, get_updater

__all__ = ["Optimizer", "SGD", "ccSGD", "NAG", "Adam", "AdaGrad", "RMSProp", "Test", "Updater",
           "create", "get_updater", "register"]
