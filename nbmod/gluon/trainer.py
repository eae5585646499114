"""MXNet's module path of Gluon's trainer (see `nbmod.gluon`)."""

from . import Trainer

__all__ = ["Trainer"]
