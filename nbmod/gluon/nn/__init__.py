"""`mx.gluon.nn`: layers as blocks.

    activations.py     functions of each element: `Activation`, `LeakyReLU`, `PReLU` and others
    basic_layers.py    containers, `Dense`, `Dropout`, `Embedding`, `Flatten`, `Lambda`
    norm_layers.py     `BatchNorm`, `LayerNorm`, `GroupNorm`, `InstanceNorm`
    conv_layers.py     convolutions over 1, 2 and 3 axes, and their transposes
    pooling_layers.py  pooling over 1, 2 and 3 axes, `ReflectionPad2D`

Begin with `basic_layers.py`.  Imports `base`, `gluon.base_parameter`, `gluon.block`, `gluon.utils`,
`initializer`, `ndarray` and `symbol`.
"""

from ..block import Block, HybridBlock, SymbolBlock
from . import activations, basic_layers, conv_layers
from .activations import *  # noqa: F403
from .basic_layers import *  # noqa: F403
from .conv_layers import *  # noqa: F403
from .norm_layers import *  # noqa: F403
from .pooling_layers import *  # noqa: F403

__all__ = ["Block", "HybridBlock", "SymbolBlock", *activations.__all__, *basic_layers.__all__,
           *conv_layers.__all__]
__dir__ = [*__all__, "activations", "basic_layers", "conv_layers"].copy
