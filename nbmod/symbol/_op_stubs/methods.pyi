# Written by `python docs/generate_stubs.py`.
from collections.abc import Sequence
from typing import Any, Literal

from numpy.typing import DTypeLike

from ...context import Context
from ..symbol import Symbol
from . import NodeAttributes
from typing_extensions import Unpack

class Methods:
    """`x.exp()` is `exp(x)`."""

    def abs(self, name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
            **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """Absolute value; its gradient at 0 is 0."""

    def arccos(self, name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
               **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """Inverse of cos, in radians."""

    def arccosh(self, name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
                **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """Inverse of cosh."""

    def arcsin(self, name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
               **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """Inverse of sin, in radians."""

    def arcsinh(self, name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
                **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """Inverse of sinh."""

    def arctan(self, name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
               **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """Inverse of tan, in radians."""

    def arctanh(self, name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
                **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """Inverse of tanh."""

    def argmax(self, axis: int | None = None, keepdims: bool | int = False, name: str | None = None,
               attr: dict[str, str] | None = None, out: None = None, **kwargs: Unpack[NodeAttributes]
              ) -> Symbol:
        """Index of the first maximum along `axis`, in the type of the data; None: of the flat array."""

    def argmax_channel(self, name: str | None = None, attr: dict[str, str] | None = None,
                       out: None = None, **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """argmax along axis 1.  No gradient."""

    def argmin(self, axis: int | None = None, keepdims: bool | int = False, name: str | None = None,
               attr: dict[str, str] | None = None, out: None = None, **kwargs: Unpack[NodeAttributes]
              ) -> Symbol:
        """Index of the first minimum along `axis`, in the type of the data; None: of the flat array."""

    def argsort(self, axis: int | None = -1, is_ascend: bool | int = True,
                dtype: DTypeLike = 'float32', name: str | None = None,
                attr: dict[str, str] | None = None, out: None = None, **kwargs: Unpack[NodeAttributes]
               ) -> Symbol:
        """The positions along `axis` of the elements in order, of data's shape; (N,) with axis None."""

    def broadcast_axes(self, axis: Sequence[int] | int = (), size: Sequence[int] | int = (),
                       name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
                       **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """`data` repeated `size[i]` times along `axis[i]`, where it must have size 1."""

    def broadcast_like(self, rhs: Symbol | None = None, lhs_axes: Sequence[int] | int | None = None,
                       rhs_axes: Sequence[int] | int | None = None, name: str | None = None,
                       attr: dict[str, str] | None = None, out: None = None,
                       **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """`lhs` repeated to the shape of `rhs`, along all axes or from `rhs_axes` to `lhs_axes`."""

    def broadcast_to(self, shape: Sequence[int] | int = (), name: str | None = None,
                     attr: dict[str, str] | None = None, out: None = None,
                     **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """`data` repeated to `shape`, of the same rank; 0 there keeps the dimension."""

    def cbrt(self, name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
             **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """Cube root."""

    def ceil(self, name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
             **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """The smallest whole number not below x."""

    def clip(self, a_min: float = ..., a_max: float = ..., name: str | None = None,
             attr: dict[str, str] | None = None, out: None = None, **kwargs: Unpack[NodeAttributes]
            ) -> Symbol:
        """x clamped to [`a_min`, `a_max`].  The gradient passes where x is within these bounds."""

    def cos(self, name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
            **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """Cosine of x radians."""

    def cosh(self, name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
             **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """Hyperbolic cosine."""

    def degrees(self, name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
                **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """Radians as degrees."""

    def depth_to_space(self, block_size: int = ..., name: str | None = None,
                       attr: dict[str, str] | None = None, out: None = None,
                       **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """(N, b b C, H, W) to (N, C, H b, W b): channel (i b + j) C + c goes to offset (i, j)."""

    def exp(self, name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
            **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """e to the power of x."""

    def expm1(self, name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
              **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """exp(x) - 1, accurate near 0."""

    def fix(self, name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
            **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """The nearest whole number towards 0."""

    def flip(self, axis: Sequence[int] | int = ..., name: str | None = None,
             attr: dict[str, str] | None = None, out: None = None, **kwargs: Unpack[NodeAttributes]
            ) -> Symbol:
        """The elements in reverse order along each of `axis`."""

    def floor(self, name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
              **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """The largest whole number not above x."""

    def log(self, name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
            **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """Natural logarithm."""

    def log10(self, name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
              **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """Logarithm to base 10."""

    def log1p(self, name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
              **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """log(1 + x), accurate near 0."""

    def log2(self, name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
             **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """Logarithm to base 2."""

    def log_softmax(self, axis: int = -1, temperature: float | None = None,
                    dtype: DTypeLike | None = None, use_length: bool | int = False,
                    name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
                    **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """y = log(softmax(x / temperature)) along `axis`; `use_length` has no effect, as in MXNet."""

    def max(self, axis: Sequence[int] | int | None = None, keepdims: bool | int = False,
            exclude: bool | int = False, name: str | None = None, attr: dict[str, str] | None = None,
            out: None = None, **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """Maximum over axes; NaN wins."""

    def mean(self, axis: Sequence[int] | int | None = None, keepdims: bool | int = False,
             exclude: bool | int = False, name: str | None = None, attr: dict[str, str] | None = None,
             out: None = None, **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """Mean over axes; of integers, the wrapped sum divided towards zero."""

    def min(self, axis: Sequence[int] | int | None = None, keepdims: bool | int = False,
            exclude: bool | int = False, name: str | None = None, attr: dict[str, str] | None = None,
            out: None = None, **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """Minimum over axes; NaN wins."""

    def nanprod(self, axis: Sequence[int] | int | None = None, keepdims: bool | int = False,
                exclude: bool | int = False, name: str | None = None,
                attr: dict[str, str] | None = None, out: None = None, **kwargs: Unpack[NodeAttributes]
               ) -> Symbol:
        """Product over axes in which NaN counts as 1 and gets no gradient."""

    def nansum(self, axis: Sequence[int] | int | None = None, keepdims: bool | int = False,
               exclude: bool | int = False, name: str | None = None,
               attr: dict[str, str] | None = None, out: None = None, **kwargs: Unpack[NodeAttributes]
              ) -> Symbol:
        """Sum over axes in which NaN counts as 0 and gets no gradient."""

    def norm(self, ord: int = 2, axis: Sequence[int] | int | None = None,
             out_dtype: Literal['float16', 'float32', 'float64', 'int32', 'int64', 'int8'] | None = None,
             keepdims: bool | int = False, name: str | None = None, attr: dict[str, str] | None = None,
             out: None = None, **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """L1 norm (sum of magnitudes) or L2 norm (root of the sum of squares) over axes."""

    def one_hot(self, depth: int = ..., on_value: float = 1.0, off_value: float = 0.0,
                dtype: DTypeLike = 'float32', name: str | None = None,
                attr: dict[str, str] | None = None, out: None = None, **kwargs: Unpack[NodeAttributes]
               ) -> Symbol:
        """`on_value` at the index, `off_value` elsewhere, along a new last axis of size `depth`."""

    def ones_like(self, name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
                  **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """Ones of the shape and type of the input."""

    def pad(self, mode: Literal['constant', 'edge', 'reflect'] = ...,
            pad_width: Sequence[int] | int = ..., constant_value: float = 0.0, name: str | None = None,
            attr: dict[str, str] | None = None, out: None = None, **kwargs: Unpack[NodeAttributes]
           ) -> Symbol:
        """`data` with padding: `pad_width` is (before, after) of every axis, flat."""

    def pick(self, index: Symbol | None = None, axis: int | None = -1, keepdims: bool | int = False,
             mode: Literal['clip', 'wrap'] = 'clip', name: str | None = None,
             attr: dict[str, str] | None = None, out: None = None, **kwargs: Unpack[NodeAttributes]
            ) -> Symbol:
        """The element at `index` along `axis`, for every position of the other axes."""

    def prod(self, axis: Sequence[int] | int | None = None, keepdims: bool | int = False,
             exclude: bool | int = False, name: str | None = None, attr: dict[str, str] | None = None,
             out: None = None, **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """Product over axes.  The gradient is g y / x, so it is NaN where x is 0, as in MXNet."""

    def radians(self, name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
                **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """Degrees as radians."""

    def rcbrt(self, name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
              **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """Reciprocal of the cube root."""

    def reciprocal(self, name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
                   **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """1 / x."""

    def relu(self, name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
             **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """x where it is positive, else 0; NaN, and its gradient, is NaN."""

    def repeat(self, repeats: int = ..., axis: int | None = None, name: str | None = None,
               attr: dict[str, str] | None = None, out: None = None, **kwargs: Unpack[NodeAttributes]
              ) -> Symbol:
        """Every index along `axis` `repeats` times in a row; axis None: every element, flattened."""

    def reshape(self, shape: Sequence[int] | int = (), reverse: bool | int = False,
                target_shape: Sequence[int] | int = (), keep_highest: bool | int = False,
                name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
                **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """A tensor in another shape: its elements keep their order."""

    def reshape_like(self, rhs: Symbol | None = None, lhs_begin: int | None = None,
                     lhs_end: int | None = None, rhs_begin: int | None = None,
                     rhs_end: int | None = None, name: str | None = None,
                     attr: dict[str, str] | None = None, out: None = None,
                     **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """`lhs` in the shape of `rhs`."""

    def rint(self, name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
             **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """The nearest whole number, halves down."""

    def round(self, name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
              **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """The nearest whole number, halves away from 0."""

    def rsqrt(self, name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
              **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """Reciprocal of the square root."""

    def shape_array(self, name: str | None = None, attr: dict[str, str] | None = None,
                    out: None = None, **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """The shape of `data` as a 1-D int64 array.  No gradient."""

    def sigmoid(self, name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
                **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """The logistic function."""

    def sign(self, name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
             **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """-1, 0 or 1."""

    def sin(self, name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
            **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """Sine of x radians."""

    def sinh(self, name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
             **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """Hyperbolic sine."""

    def size_array(self, name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
                   **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """The number of elements of `data` as a (1,) int64 array.  No gradient."""

    def slice(self, begin: Sequence[int | None] | int = ..., end: Sequence[int | None] | int = ...,
              step: Sequence[int | None] | int = (), name: str | None = None,
              attr: dict[str, str] | None = None, out: None = None, **kwargs: Unpack[NodeAttributes]
             ) -> Symbol:
        """data[begin[0]:end[0]:step[0], ...] as in Python, None and negative values included."""

    def slice_axis(self, axis: int = ..., begin: int = ..., end: int | None = ...,
                   name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
                   **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """Indices [begin, end) along `axis`; negative ones count from the end, end None is the end."""

    def slice_like(self, shape_like: Symbol | None = None, axes: Sequence[int] | int = (),
                   name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
                   **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """The leading part of `data`, as large as `shape_like` along `axes` (none: along all)."""

    def softmax(self, length: Symbol | None = None, axis: int = -1, temperature: float | None = None,
                dtype: DTypeLike | None = None, use_length: bool | int = False,
                name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
                **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """y = exp(x / temperature) / (sum of the same along `axis`)."""

    def softmin(self, axis: int = -1, temperature: float | None = None, dtype: DTypeLike | None = None,
                use_length: bool | int = False, name: str | None = None,
                attr: dict[str, str] | None = None, out: None = None, **kwargs: Unpack[NodeAttributes]
               ) -> Symbol:
        """y = softmax(-x / temperature) along `axis`; `use_length` has no effect, as in MXNet."""

    def sort(self, axis: int | None = -1, is_ascend: bool | int = True, name: str | None = None,
             attr: dict[str, str] | None = None, out: None = None, **kwargs: Unpack[NodeAttributes]
            ) -> Symbol:
        """data in order along `axis`, of the same shape; all of it, (N,), with axis None."""

    def space_to_depth(self, block_size: int = ..., name: str | None = None,
                       attr: dict[str, str] | None = None, out: None = None,
                       **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """(N, C, H b, W b) to (N, b b C, H, W): the inverse of depth_to_space."""

    def split(self, num_outputs: int = ..., axis: int = 1, squeeze_axis: bool | int = False,
              name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
              **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """`num_outputs` equal pieces along `axis`; `squeeze_axis` drops it where they have size 1."""

    def sqrt(self, name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
             **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """Square root."""

    def square(self, name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
               **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """Square."""

    def sum(self, axis: Sequence[int] | int | None = None, keepdims: bool | int = False,
            exclude: bool | int = False, name: str | None = None, attr: dict[str, str] | None = None,
            out: None = None, **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """Sum over axes, in the input's type (integers wrap)."""

    def swapaxes(self, dim1: int = 0, dim2: int = 0, name: str | None = None,
                 attr: dict[str, str] | None = None, out: None = None, **kwargs: Unpack[NodeAttributes]
                ) -> Symbol:
        """Axes `dim1` and `dim2` exchanged."""

    def take(self, indices: Symbol | None = None, axis: int = 0,
             mode: Literal['clip', 'raise', 'wrap'] = 'clip', name: str | None = None,
             attr: dict[str, str] | None = None, out: None = None, **kwargs: Unpack[NodeAttributes]
            ) -> Symbol:
        """Slices of `a` along `axis` at `indices`: (before, *indices, after)."""

    def tan(self, name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
            **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """Tangent of x radians."""

    def tanh(self, name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
             **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """Hyperbolic tangent."""

    def tile(self, reps: Sequence[int] | int = ..., name: str | None = None,
             attr: dict[str, str] | None = None, out: None = None, **kwargs: Unpack[NodeAttributes]
            ) -> Symbol:
        """The whole of `data` `reps[i]` times along axis i; the shorter of shape and reps is filled
        with ones at the left.
        """

    def topk(self, axis: int | None = -1, k: int = 1,
             ret_typ: Literal['both', 'indices', 'mask', 'value'] = 'indices',
             is_ascend: bool | int = False, dtype: DTypeLike = 'float32', name: str | None = None,
             attr: dict[str, str] | None = None, out: None = None, **kwargs: Unpack[NodeAttributes]
            ) -> Symbol:
        """The k largest elements along `axis`, in descending order; the smallest with `is_ascend`."""

    def transpose(self, axes: Sequence[int] | int = (), name: str | None = None,
                  attr: dict[str, str] | None = None, out: None = None,
                  **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """Axes in the order `axes`; none given reverses them."""

    def trunc(self, name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
              **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """x without its fraction."""

    def zeros_like(self, name: str | None = None, attr: dict[str, str] | None = None, out: None = None,
                   **kwargs: Unpack[NodeAttributes]) -> Symbol:
        """Zeros of the shape and type of the input."""
