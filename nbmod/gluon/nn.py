"""`mx.gluon.nn`: names of Gluon's layers (see `nbmod.gluon`)."""

from . import Block, HybridBlock, SymbolBlock
from .absent import absent_classes

_NAMES = """
    Activation AvgPool1D AvgPool2D AvgPool3D BatchNorm BatchNormReLU Conv1D Conv1DTranspose Conv2D
    Conv2DTranspose Conv3D Conv3DTranspose Dense Dropout ELU Embedding Flatten GELU GlobalAvgPool1D
    GlobalAvgPool2D GlobalAvgPool3D GlobalMaxPool1D GlobalMaxPool2D GlobalMaxPool3D GroupNorm
    HybridLambda HybridSequential InstanceNorm Lambda LayerNorm LeakyReLU MaxPool1D MaxPool2D
    MaxPool3D PReLU ReflectionPad2D SELU Sequential Swish
"""

globals().update(absent_classes(__name__, _NAMES))
__all__ = ["Block", "HybridBlock", "SymbolBlock", *_NAMES.split()]
