"""Random changes of the colors of images; MXNet has these transformations in `transforms`."""

from __future__ import annotations

from typing import Any

from ...block import HybridBlock

__all__ = ["RandomBrightness", "RandomColorJitter", "RandomContrast", "RandomHue",
           "RandomLighting", "RandomSaturation"]
__dir__ = __all__.copy


def _factors(amount: float) -> tuple[float, float]:
    """The least and the largest factor that differ by an amount from 1."""
    return max(0, 1 - amount), 1 + amount


class RandomBrightness(HybridBlock):
    """Change of the brightness by a random factor.

    Parameters
    ----------
    brightness : float
        The largest difference of the factor from 1.

    Examples
    --------
    >>> change = mx.gluon.data.vision.transforms.RandomBrightness(0.5)
    >>> 0.5 <= float(change(mx.nd.ones((1, 1, 3))).max().asscalar()) <= 1.5
    True
    """

    def __init__(self, brightness: float):
        super().__init__()
        self._args = _factors(brightness)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.image.random_brightness(x, *self._args)


class RandomContrast(HybridBlock):
    """Change of the contrast by a random factor.

    Parameters
    ----------
    contrast : float
        The largest difference of the factor from 1.
    """

    def __init__(self, contrast: float):
        super().__init__()
        self._args = _factors(contrast)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.image.random_contrast(x, *self._args)


class RandomSaturation(HybridBlock):
    """Change of the saturation by a random factor.

    Parameters
    ----------
    saturation : float
        The largest difference of the factor from 1.
    """

    def __init__(self, saturation: float):
        super().__init__()
        self._args = _factors(saturation)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.image.random_saturation(x, *self._args)


class RandomHue(HybridBlock):
    """Change of the hue by a random factor.

    Parameters
    ----------
    hue : float
        The largest difference of the factor from 1.
    """

    def __init__(self, hue: float):
        super().__init__()
        self._args = _factors(hue)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.image.random_hue(x, *self._args)


class RandomColorJitter(HybridBlock):
    """Changes of brightness, contrast, saturation and hue in a random order.

    Parameters
    ----------
    brightness, contrast, saturation, hue : float, default 0
        The largest difference of each factor from 1.

    Examples
    --------
    >>> change = mx.gluon.data.vision.transforms.RandomColorJitter(0.1, 0.1, 0.1, 0.1)
    >>> change(mx.nd.ones((2, 2, 3))).shape
    (2, 2, 3)
    """

    def __init__(self, brightness: float = 0, contrast: float = 0, saturation: float = 0,
                 hue: float = 0):
        super().__init__()
        self._args = (brightness, contrast, saturation, hue)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.image.random_color_jitter(x, *self._args)


class RandomLighting(HybridBlock):
    """Noise along the principal components of the colors of ImageNet.

    Parameters
    ----------
    alpha : float
        Standard deviation of the noise.
    """

    def __init__(self, alpha: float):
        super().__init__()
        self._alpha = alpha

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.image.random_lighting(x, self._alpha)
