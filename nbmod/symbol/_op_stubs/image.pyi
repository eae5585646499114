# Written by `python docs/generate_stubs.py`.
from collections.abc import Sequence
from typing import Any, Literal

from numpy.typing import DTypeLike

from ...context import Context
from ..symbol import Symbol
from . import NodeAttributes
from typing_extensions import Unpack

__all__: list[str] = ["adjust_lighting", "crop", "flip_left_right", "flip_top_bottom", "normalize",
                      "random_brightness", "random_color_jitter", "random_contrast",
                      "random_flip_left_right", "random_flip_top_bottom", "random_hue",
                      "random_lighting", "random_saturation", "resize", "to_tensor"]
def adjust_lighting(data: Symbol | None = None, alpha: Sequence[float] | float = ...,
                    name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
                    **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """y = x + P (alpha s), with P the principal components of ImageNet's colours and s their
    standard deviations; `alpha` has three values.

    Shapes: (H, W, C) with C of 3 or 1, the same for the output.
    """

def crop(data: Symbol | None = None, x: int = ..., y: int = ..., width: int = ...,
         height: int = ..., name: str | None = None, attr: dict[str, str] | None = None,
         out: None = None, **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """y[h, w] = data[y + h, x + w]: the part `width` wide and `height` high from (`x`, `y`) on.

    The gradient is 0 outside of it.

    Shapes: (H, W, C) -> (height, width, C), (N, H, W, C) -> (N, height, width, C).
    """

def flip_left_right(data: Symbol | None = None, name: str | None = None,
                    attr: dict[str, str] | None = None, out: None = None,
                    **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """y[h, w] = x[h, W - 1 - w], and so is the gradient.

    Shapes: (H, W, C), the same for the output.
    """

def flip_top_bottom(data: Symbol | None = None, name: str | None = None,
                    attr: dict[str, str] | None = None, out: None = None,
                    **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """y[h, w] = x[H - 1 - h, w], and so is the gradient.

    Shapes: (H, W, C), the same for the output.
    """

def normalize(data: Symbol | None = None, mean: Sequence[float] | float = (0.0, 0.0, 0.0, 0.0),
              std: Sequence[float] | float = (1.0, 1.0, 1.0, 1.0), name: str | None = None,
              attr: dict[str, str] | None = None, out: None = None,
              **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """y[c] = (x[c] - mean[c]) / std[c]; gx[c] = gy[c] / std[c].

    A single value of `mean` or `std` is for all channels.  Integers are computed in float32,
    truncated, and wrap around.

    Shapes: (C, H, W) or (N, C, H, W), the same for the output.
    """

def random_brightness(data: Symbol | None = None, min_factor: float = ..., max_factor: float = ...,
                      name: str | None = None, attr: dict[str, str] | None = None,
                      out: None = None, **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """y = f x, with f drawn uniformly from `min_factor` to `max_factor`.

    Shapes: (H, W, C) with C of 3 or 1, the same for the output.
    """

def random_color_jitter(data: Symbol | None = None, brightness: float = ..., contrast: float = ...,
                        saturation: float = ..., hue: float = ..., name: str | None = None,
                        attr: dict[str, str] | None = None, out: None = None,
                        **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """y = x with brightness, contrast, saturation and hue changed, in random order.

    Factors are drawn from 1 - b to 1 + b, the turn of hues from - b to b, where b is the parameter
    of that name; nothing is done for a b of 0 or less.

    Shapes: (H, W, C) with C of 3 or 1, the same for the output.
    """

def random_contrast(data: Symbol | None = None, min_factor: float = ..., max_factor: float = ...,
                    name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
                    **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """y = f x + (1 - f) (mean grey of the image), with f from `min_factor` to `max_factor`.

    A pixel's grey is 0.299 red + 0.587 green + 0.114 blue.

    Shapes: (H, W, C) with C of 3 or 1, the same for the output.
    """

def random_flip_left_right(data: Symbol | None = None, name: str | None = None,
                           attr: dict[str, str] | None = None, out: None = None,
                           **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """y[h, w] = x[h, W - 1 - w] with probability 0.5, else x; the gradient is flipped back.

    Shapes: (H, W, C), the same for the output.
    """

def random_flip_top_bottom(data: Symbol | None = None, name: str | None = None,
                           attr: dict[str, str] | None = None, out: None = None,
                           **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """y[h, w] = x[H - 1 - h, w] with probability 0.5, else x; the gradient is flipped back.

    Shapes: (H, W, C), the same for the output.
    """

def random_hue(data: Symbol | None = None, min_factor: float = ..., max_factor: float = ...,
               name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
               **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """y = x with all hues rotated by f of the colour circle, f from `min_factor` to `max_factor`.

    The greatest and the least value of a pixel stay; f = 0 and f = 1 leave x as it is.

    Shapes: (H, W, C) with C of 3 or 1, the same for the output.
    """

def random_lighting(data: Symbol | None = None, alpha_std: float = 0.05, name: str | None = None,
                    attr: dict[str, str] | None = None, out: None = None,
                    **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """`adjust_lighting` with normally distributed alpha of standard deviation `alpha_std`.

    Shapes: (H, W, C) with C of 3 or 1, the same for the output.
    """

def random_saturation(data: Symbol | None = None, min_factor: float = ..., max_factor: float = ...,
                      name: str | None = None, attr: dict[str, str] | None = None,
                      out: None = None, **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """y = f x + (1 - f) (grey of the pixel), with f from `min_factor` to `max_factor`.

    A pixel's grey is 0.299 red + 0.587 green + 0.114 blue.

    Shapes: (H, W, C) with C of 3 or 1, the same for the output.
    """

def resize(data: Symbol | None = None, size: Sequence[int] | int = (),
           keep_ratio: bool | int = False, interp: int = 1, name: str | None = None,
           attr: dict[str, str] | None = None, out: None = None, **kwargs: Unpack[NodeAttributes]
          ) -> Symbol:
    """The image resized to (width, height) = `size`.

    A single value is for both; with `keep_ratio` it is the length of the shorter side, and the
    other is rounded down.  `interp`: 0 nearest, 1 linear, 2 cubic, 3 area, 4 Lanczos, all as in
    OpenCV (`image.resample`).  No gradient.

    Shapes: (H, W, C) -> (height, width, C), (N, H, W, C) -> (N, height, width, C).
    """

def to_tensor(data: Symbol | None = None, name: str | None = None,
              attr: dict[str, str] | None = None, out: None = None,
              **kwargs: Unpack[NodeAttributes]) -> Symbol:
    """y[c, h, w] = x[h, w, c] / 255, as float32; gx[h, w, c] = gy[c, h, w] / 255.

    Shapes: (H, W, C) -> (C, H, W), (N, H, W, C) -> (N, C, H, W).
    """
