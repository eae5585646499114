"""Training with variance-reduced gradients: `svrg_module.SVRGModule`."""

from .svrg_module import SVRGModule

__all__ = ["SVRGModule"]
__dir__ = __all__.copy
