"""Layers that map each element by itself."""

from __future__ import annotations

from typing import Any

from ...base import CheckError
from ...initializer import Constant
from ..base_parameter import Init
from ..block import HybridBlock

__all__ = ["Activation", "ELU", "GELU", "LeakyReLU", "PReLU", "SELU", "Swish"]
__dir__ = __all__.copy


class Activation(HybridBlock):
    """A function of each element, chosen by name.

    Parameters
    ----------
    activation : {'relu', 'sigmoid', 'softrelu', 'softsign', 'tanh'}
        Function.
    **kwargs
        `prefix` and `params`, as for `HybridBlock`.

    Examples
    --------
    >>> relu = mx.gluon.nn.Activation("relu")
    >>> relu(mx.nd.array([-1, 2])).asnumpy().tolist()
    [0.0, 2.0]
    """

    def __init__(self, activation: str, **kwargs: Any):
        self._act_type = activation
        super().__init__(**kwargs)

    def _alias(self) -> str:
        return self._act_type

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.Activation(x, act_type=self._act_type, name="fwd")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._act_type})"


class LeakyReLU(HybridBlock):
    """x where x > 0, alpha x elsewhere.

    Parameters
    ----------
    alpha : float
        Slope for negative numbers, at least 0.
    **kwargs
        `prefix` and `params`, as for `HybridBlock`.

    Raises
    ------
    AssertionError
        If `alpha` is negative.

    Examples
    --------
    >>> layer = mx.gluon.nn.LeakyReLU(0.5)
    >>> layer(mx.nd.array([-1, 2])).asnumpy().tolist()
    [-0.5, 2.0]
    """

    def __init__(self, alpha: float, **kwargs: Any):
        if alpha < 0:
            raise CheckError("Slope coefficient for LeakyReLU must be no less than 0; alpha is "
                             f"{alpha}")
        super().__init__(**kwargs)
        self._alpha = alpha

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.LeakyReLU(x, act_type="leaky", slope=self._alpha, name="fwd")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._alpha})"


class PReLU(HybridBlock):
    """x where x > 0, alpha x elsewhere, with trained slopes.

    Parameters
    ----------
    alpha_initializer : Initializer or str, default Constant(0.25)
        Initializer of the slopes.
    in_channels : int, default 1
        Number of slopes: 1, or one for each channel (axis 1).
    **kwargs
        `prefix` and `params`, as for `HybridBlock`.

    Examples
    --------
    >>> layer = mx.gluon.nn.PReLU()
    >>> layer.initialize()
    >>> layer(mx.nd.array([-1, 2])).asnumpy().tolist()
    [-0.25, 2.0]
    """

    # The default is compared with MXNet's.
    def __init__(self, alpha_initializer: Init = Constant(0.25),  # noqa: B008
                 in_channels: int = 1, **kwargs: Any):
        super().__init__(**kwargs)
        with self.name_scope():
            self.alpha = self.params.get("alpha", shape=(in_channels,), init=alpha_initializer)

    def hybrid_forward(self, F: Any, x: Any, alpha: Any) -> Any:
        return F.LeakyReLU(x, gamma=alpha, act_type="prelu", name="fwd")


class ELU(HybridBlock):
    """x where x > 0, alpha (exp(x) - 1) elsewhere.

    Parameters
    ----------
    alpha : float, default 1.0
        Factor for negative numbers.
    **kwargs
        `prefix` and `params`, as for `HybridBlock`.

    Examples
    --------
    >>> round(float(mx.gluon.nn.ELU()(mx.nd.array([-1])).asscalar()), 3)
    -0.632
    """

    def __init__(self, alpha: float = 1.0, **kwargs: Any):
        super().__init__(**kwargs)
        self._alpha = alpha

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.LeakyReLU(x, act_type="elu", slope=self._alpha)


class SELU(HybridBlock):
    """The exponential unit that keeps mean and variance (Klambauer et al., 2017).

    Parameters
    ----------
    **kwargs
        `prefix` and `params`, as for `HybridBlock`.

    Examples
    --------
    >>> round(float(mx.gluon.nn.SELU()(mx.nd.array([1])).asscalar()), 3)
    1.051
    """

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.LeakyReLU(x, act_type="selu", name="fwd")


class GELU(HybridBlock):
    """x times the normal distribution function of x (Hendrycks and Gimpel, 2016).

    Parameters
    ----------
    **kwargs
        `prefix` and `params`, as for `HybridBlock`.

    Examples
    --------
    >>> round(float(mx.gluon.nn.GELU()(mx.nd.array([1])).asscalar()), 3)
    0.841
    """

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.LeakyReLU(x, act_type="gelu", name="fwd")


class Swish(HybridBlock):
    """x sigmoid(beta x) (Ramachandran et al., 2017).

    Parameters
    ----------
    beta : float, default 1.0
        Factor in the sigmoid.
    **kwargs
        `prefix` and `params`, as for `HybridBlock`.

    Examples
    --------
    >>> round(float(mx.gluon.nn.Swish()(mx.nd.array([1])).asscalar()), 3)
    0.731
    """

    def __init__(self, beta: float = 1.0, **kwargs: Any):
        super().__init__(**kwargs)
        self._beta = beta

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return x * F.sigmoid(self._beta * x, name="fwd")
