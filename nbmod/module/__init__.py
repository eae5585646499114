"""The Module API: networks with parameters, an optimizer and a training loop."""

from .base_module import BaseModule
from .bucketing_module import BucketingModule
from .det_module import DetModule
from .module import Module
from .python_module import PythonLossModule, PythonModule
from .sequential_module import SequentialModule

__all__ = ["BaseModule", "BucketingModule", "DetModule", "Module", "PythonLossModule",
           "PythonModule", "SequentialModule"]
__dir__ = __all__.copy
