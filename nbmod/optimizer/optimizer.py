"""`mx.optimizer.optimizer`, the module of nearly all optimizer classes in MXNet."""

from .adaptive import FTML, AdaDelta, AdaGrad, Adam, Adamax, Ftrl, Nadam, RMSProp
from .base_optimizer import Optimizer, create, register
from .layerwise import LAMB, LARS, LBSGD
from .sgd import DCASGD, NAG, SGD, SGLD, Signum, ccSGD
from .updater import Test, Updater, get_updater

__all__ = ["AdaDelta", "AdaGrad", "Adam", "Adamax", "DCASGD", "FTML", "Ftrl", "LAMB", "LARS",
           "LBSGD", "NAG", "Nadam", "Optimizer", "RMSProp", "SGD", "SGLD", "Signum", "Test",
           "Updater", "ccSGD", "create", "get_updater", "register"]
