# Written by `python docs/generate_stubs.py`.
from collections.abc import Sequence
from typing import Any, Literal

from numpy.typing import DTypeLike

from ...context import Context
from ..symbol import Symbol
from . import NodeAttributes
from typing_extensions import Unpack
from .op import BlockGrad as stop_gradient
from .op import Concat as concat
from .op import Embedding as Embedding
from .op import FullyConnected as FullyConnected
from .op import LinearRegressionOutput as LinearRegressionOutput
from .op import LogisticRegressionOutput as LogisticRegressionOutput
from .op import MAERegressionOutput as MAERegressionOutput
from .op import abs as abs
from .op import adam_update as adam_update
from .op import add_n as ElementWiseSum
from .op import add_n as add_n
from .op import arccos as arccos
from .op import arccosh as arccosh
from .op import arcsin as arcsin
from .op import arcsinh as arcsinh
from .op import arctan as arctan
from .op import arctanh as arctanh
from .op import broadcast_add as broadcast_add
from .op import broadcast_add as broadcast_plus
from .op import broadcast_div as broadcast_div
from .op import broadcast_mul as broadcast_mul
from .op import broadcast_sub as broadcast_minus
from .op import broadcast_sub as broadcast_sub
from .op import cast_storage as cast_storage
from .op import cbrt as cbrt
from .op import ceil as ceil
from .op import clip as clip
from .op import cos as cos
from .op import cosh as cosh
from .op import degrees as degrees
from .op import dot as dot
from .op import elemwise_add as elemwise_add
from .op import elemwise_div as elemwise_div
from .op import elemwise_mul as elemwise_mul
from .op import elemwise_sub as elemwise_sub
from .op import exp as exp
from .op import expm1 as expm1
from .op import fix as fix
from .op import floor as floor
from .op import ftrl_update as ftrl_update
from .op import gamma as gamma
from .op import gammaln as gammaln
from .op import log as log
from .op import log10 as log10
from .op import log1p as log1p
from .op import log2 as log2
from .op import make_loss as make_loss
from .op import mean as mean
from .op import negative as negative
from .op import norm as norm
from .op import radians as radians
from .op import relu as relu
from .op import rint as rint
from .op import round as round
from .op import rsqrt as rsqrt
from .op import sgd_mom_update as sgd_mom_update
from .op import sgd_update as sgd_update
from .op import sigmoid as sigmoid
from .op import sign as sign
from .op import sin as sin
from .op import sinh as sinh
from .op import slice as slice
from .op import sqrt as sqrt
from .op import square as square
from .op import sum as sum
from .op import tan as tan
from .op import tanh as tanh
from .op import trunc as trunc
from .op import where as where
from .op import zeros_like as zeros_like

__all__: list[str] = ["ElementWiseSum", "Embedding", "FullyConnected", "LinearRegressionOutput",
                      "LogisticRegressionOutput", "MAERegressionOutput", "abs", "adagrad_update",
                      "adam_update", "add_n", "arccos", "arccosh", "arcsin", "arcsinh", "arctan",
                      "arctanh", "broadcast_add", "broadcast_div", "broadcast_minus",
                      "broadcast_mul", "broadcast_plus", "broadcast_sub", "cast_storage", "cbrt",
                      "ceil", "clip", "concat", "cos", "cosh", "degrees", "dot", "elemwise_add",
                      "elemwise_div", "elemwise_mul", "elemwise_sub", "exp", "expm1", "fix",
                      "floor", "ftrl_update", "gamma", "gammaln", "log", "log10", "log1p", "log2",
                      "make_loss", "mean", "negative", "norm", "radians", "relu", "retain", "rint",
                      "round", "rsqrt", "sgd_mom_update", "sgd_update", "sigmoid", "sign", "sin",
                      "sinh", "slice", "sqrt", "square", "stop_gradient", "sum", "tan", "tanh",
                      "trunc", "where", "zeros_like"]
def adagrad_update(weight: Symbol | None = None, grad: Symbol | None = None,
                   history: Symbol | None = None, lr: float = ..., epsilon: float = 1e-07,
                   wd: float = 0.0, rescale_grad: float = 1.0, clip_gradient: float = -1.0,
                   name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
                   **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """x = clipped(rescale_grad g);  history = history + x^2;
    w = w - lr (x / sqrt(history + epsilon) + wd w).

    Duchi et al. (2011).  MXNet has this op for row-sparse gradients only and computes the dense
    case in several steps; here it is one op.

    Shapes: all tensors have one shape.

    Parameters
    ----------
    lr
        learning rate
    epsilon
        added to the denominator
    wd
        weight decay
    rescale_grad
        gradients are multiplied by this
    clip_gradient
        largest absolute value of rescaled gradients; negative: no limit
    """

def retain(data: Symbol | None = None, indices: Symbol | None = None, name: str | None = None,
           attr: dict[str, str] | None = None, out: None = None, **kwargs: Unpack[NodeAttributes]
          ) -> Symbol:
    """The rows `indices` of `data`, at their places; all others are zeros.

    Shapes: data (rows, ...) and output are alike, indices is a vector.
    """
