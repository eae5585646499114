"""The Module API: networks with parameters, an optimizer and a training loop."""

from .base_module import BaseModule
from .module import Module

__all__ = ["BaseModule", "Module"]
