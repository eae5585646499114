# Written by `python docs/generate_stubs.py`.
from collections.abc import Sequence
from typing import Any, Literal

from numpy.typing import DTypeLike

from ...context import Context
from ..ndarray import NDArray

class Methods:
    """`x.exp()` is `exp(x)`."""

    def abs(self, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
        """Absolute value; its gradient at 0 is 0."""

    def arccos(self, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
              ) -> NDArray:
        """Inverse of cos, in radians."""

    def arccosh(self, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
               ) -> NDArray:
        """Inverse of cosh."""

    def arcsin(self, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
              ) -> NDArray:
        """Inverse of sin, in radians."""

    def arcsinh(self, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
               ) -> NDArray:
        """Inverse of sinh."""

    def arctan(self, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
              ) -> NDArray:
        """Inverse of tan, in radians."""

    def arctanh(self, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
               ) -> NDArray:
        """Inverse of tanh."""

    def argmax(self, axis: int | None = None, keepdims: bool | int = False,
               out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
        """Index of the first maximum along `axis`, in the type of the data; None: of the flat array."""

    def argmax_channel(self, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                      ) -> NDArray:
        """argmax along axis 1.  No gradient."""

    def argmin(self, axis: int | None = None, keepdims: bool | int = False,
               out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
        """Index of the first minimum along `axis`, in the type of the data; None: of the flat array."""

    def argsort(self, axis: int | None = -1, is_ascend: bool | int = True,
                dtype: DTypeLike = 'float32', out: NDArray | Sequence[NDArray] | None = None,
                name: str | None = None) -> NDArray | Any:
        """The positions along `axis` of the elements in order, of data's shape; (N,) with axis None."""

    def broadcast_axes(self, axis: Sequence[int] | int = (), size: Sequence[int] | int = (),
                       out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                      ) -> NDArray:
        """`data` repeated `size[i]` times along `axis[i]`, where it must have size 1."""

    def cbrt(self, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
        """Cube root."""

    def ceil(self, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
        """The smallest whole number not below x."""

    def clip(self, a_min: float, a_max: float, out: NDArray | Sequence[NDArray] | None = None,
             name: str | None = None) -> NDArray:
        """x clamped to [`a_min`, `a_max`].  The gradient passes where x is within these bounds."""

    def cos(self, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
        """Cosine of x radians."""

    def cosh(self, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
        """Hyperbolic cosine."""

    def degrees(self, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
               ) -> NDArray:
        """Radians as degrees."""

    def depth_to_space(self, block_size: int, out: NDArray | Sequence[NDArray] | None = None,
                       name: str | None = None) -> NDArray:
        """(N, b b C, H, W) to (N, C, H b, W b): channel (i b + j) C + c goes to offset (i, j)."""

    def diag(self, k: int = 0, axis1: int = 0, axis2: int = 1,
             out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
        """Diagonal `k` of the planes (axis1, axis2), as last axis; of a vector, the matrix that has it
        on diagonal `k`.
        """

    def exp(self, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
        """e to the power of x."""

    def expm1(self, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
        """exp(x) - 1, accurate near 0."""

    def fix(self, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
        """The nearest whole number towards 0."""

    def flip(self, axis: Sequence[int] | int, out: NDArray | Sequence[NDArray] | None = None,
             name: str | None = None) -> NDArray:
        """The elements in reverse order along each of `axis`."""

    def floor(self, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
        """The largest whole number not above x."""

    def log(self, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
        """Natural logarithm."""

    def log10(self, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
        """Logarithm to base 10."""

    def log1p(self, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
        """log(1 + x), accurate near 0."""

    def log2(self, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
        """Logarithm to base 2."""

    def log_softmax(self, axis: int = -1, temperature: float | None = None,
                    dtype: DTypeLike | None = None, use_length: bool | int = False,
                    out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
        """y = log(softmax(x / temperature)) along `axis`; `use_length` has no effect, as in MXNet."""

    def max(self, axis: Sequence[int] | int | None = None, keepdims: bool | int = False,
            exclude: bool | int = False, out: NDArray | Sequence[NDArray] | None = None,
            name: str | None = None) -> NDArray:
        """Maximum over axes; NaN wins."""

    def mean(self, axis: Sequence[int] | int | None = None, keepdims: bool | int = False,
             exclude: bool | int = False, out: NDArray | Sequence[NDArray] | None = None,
             name: str | None = None) -> NDArray:
        """Mean over axes; of integers, the wrapped sum divided towards zero."""

    def min(self, axis: Sequence[int] | int | None = None, keepdims: bool | int = False,
            exclude: bool | int = False, out: NDArray | Sequence[NDArray] | None = None,
            name: str | None = None) -> NDArray:
        """Minimum over axes; NaN wins."""

    def nanprod(self, axis: Sequence[int] | int | None = None, keepdims: bool | int = False,
                exclude: bool | int = False, out: NDArray | Sequence[NDArray] | None = None,
                name: str | None = None) -> NDArray:
        """Product over axes in which NaN counts as 1 and gets no gradient."""

    def nansum(self, axis: Sequence[int] | int | None = None, keepdims: bool | int = False,
               exclude: bool | int = False, out: NDArray | Sequence[NDArray] | None = None,
               name: str | None = None) -> NDArray:
        """Sum over axes in which NaN counts as 0 and gets no gradient."""

    def norm(self, ord: int = 2, axis: Sequence[int] | int | None = None,
             out_dtype: Literal['float16', 'float32', 'float64', 'int32', 'int64', 'int8'] | None = None,
             keepdims: bool | int = False, out: NDArray | Sequence[NDArray] | None = None,
             name: str | None = None) -> NDArray:
        """L1 norm (sum of magnitudes) or L2 norm (root of the sum of squares) over axes."""

    def one_hot(self, depth: int, on_value: float = 1.0, off_value: float = 0.0,
                dtype: DTypeLike = 'float32', out: NDArray | Sequence[NDArray] | None = None,
                name: str | None = None) -> NDArray:
        """`on_value` at the index, `off_value` elsewhere, along a new last axis of size `depth`."""

    def ones_like(self, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                 ) -> NDArray:
        """Ones of the shape and type of the input."""

    def pad(self, mode: Literal['constant', 'edge', 'reflect'], pad_width: Sequence[int] | int,
            constant_value: float = 0.0, out: NDArray | Sequence[NDArray] | None = None,
            name: str | None = None) -> NDArray:
        """`data` with padding: `pad_width` is (before, after) of every axis, flat."""

    def pick(self, index: NDArray, axis: int | None = -1, keepdims: bool | int = False,
             mode: Literal['clip', 'wrap'] = 'clip', out: NDArray | Sequence[NDArray] | None = None,
             name: str | None = None) -> NDArray:
        """The element at `index` along `axis`, for every position of the other axes."""

    def prod(self, axis: Sequence[int] | int | None = None, keepdims: bool | int = False,
             exclude: bool | int = False, out: NDArray | Sequence[NDArray] | None = None,
             name: str | None = None) -> NDArray:
        """Product over axes.  The gradient is g y / x, so it is NaN where x is 0, as in MXNet."""

    def radians(self, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
               ) -> NDArray:
        """Degrees as radians."""

    def rcbrt(self, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
        """Reciprocal of the cube root."""

    def reciprocal(self, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                  ) -> NDArray:
        """1 / x."""

    def relu(self, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
        """x where it is positive, else 0; NaN, and its gradient, is NaN."""

    def repeat(self, repeats: int, axis: int | None = None,
               out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
        """Every index along `axis` `repeats` times in a row; axis None: every element, flattened."""

    def reshape_like(self, rhs: NDArray, lhs_begin: int | None = None, lhs_end: int | None = None,
                     rhs_begin: int | None = None, rhs_end: int | None = None,
                     out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                    ) -> NDArray:
        """`lhs` in the shape of `rhs`."""

    def rint(self, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
        """The nearest whole number, halves down."""

    def round(self, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
        """The nearest whole number, halves away from 0."""

    def rsqrt(self, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
        """Reciprocal of the square root."""

    def shape_array(self, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                   ) -> NDArray:
        """The shape of `data` as a 1-D int64 array.  No gradient."""

    def sigmoid(self, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
               ) -> NDArray:
        """The logistic function."""

    def sign(self, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
        """-1, 0 or 1."""

    def sin(self, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
        """Sine of x radians."""

    def sinh(self, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
        """Hyperbolic sine."""

    def size_array(self, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                  ) -> NDArray:
        """The number of elements of `data` as a (1,) int64 array.  No gradient."""

    def slice(self, begin: Sequence[int | None] | int, end: Sequence[int | None] | int,
              step: Sequence[int | None] | int = (), out: NDArray | Sequence[NDArray] | None = None,
              name: str | None = None) -> NDArray:
        """data[begin[0]:end[0]:step[0], ...] as in Python, None and negative values included."""

    def slice_axis(self, axis: int, begin: int, end: int | None,
                   out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
        """Indices [begin, end) along `axis`; negative ones count from the end, end None is the end."""

    def slice_like(self, shape_like: NDArray, axes: Sequence[int] | int = (),
                   out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
        """The leading part of `data`, as large as `shape_like` along `axes` (none: along all)."""

    def softmax(self, length: NDArray | None = None, axis: int = -1, temperature: float | None = None,
                dtype: DTypeLike | None = None, use_length: bool | int = False,
                out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
        """y = exp(x / temperature) / (sum of the same along `axis`)."""

    def softmin(self, axis: int = -1, temperature: float | None = None, dtype: DTypeLike | None = None,
                use_length: bool | int = False, out: NDArray | Sequence[NDArray] | None = None,
                name: str | None = None) -> NDArray:
        """y = softmax(-x / temperature) along `axis`; `use_length` has no effect, as in MXNet."""

    def sort(self, axis: int | None = -1, is_ascend: bool | int = True,
             out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray | Any:
        """data in order along `axis`, of the same shape; all of it, (N,), with axis None."""

    def space_to_depth(self, block_size: int, out: NDArray | Sequence[NDArray] | None = None,
                       name: str | None = None) -> NDArray:
        """(N, C, H b, W b) to (N, b b C, H, W): the inverse of depth_to_space."""

    def split(self, num_outputs: int, axis: int = 1, squeeze_axis: bool | int = False,
              out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray | Any:
        """`num_outputs` equal pieces along `axis`; `squeeze_axis` drops it where they have size 1."""

    def sqrt(self, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
        """Square root."""

    def square(self, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
              ) -> NDArray:
        """Square."""

    def sum(self, axis: Sequence[int] | int | None = None, keepdims: bool | int = False,
            exclude: bool | int = False, out: NDArray | Sequence[NDArray] | None = None,
            name: str | None = None) -> NDArray:
        """Sum over axes, in the input's type (integers wrap)."""

    def swapaxes(self, dim1: int = 0, dim2: int = 0, out: NDArray | Sequence[NDArray] | None = None,
                 name: str | None = None) -> NDArray:
        """Axes `dim1` and `dim2` exchanged."""

    def take(self, indices: NDArray, axis: int = 0, mode: Literal['clip', 'raise', 'wrap'] = 'clip',
             out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
        """Slices of `a` along `axis` at `indices`: (before, *indices, after)."""

    def tan(self, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
        """Tangent of x radians."""

    def tanh(self, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
        """Hyperbolic tangent."""

    def tile(self, reps: Sequence[int] | int, out: NDArray | Sequence[NDArray] | None = None,
             name: str | None = None) -> NDArray:
        """The whole of `data` `reps[i]` times along axis i; the shorter of shape and reps is filled
        with ones at the left.
        """

    def topk(self, axis: int | None = -1, k: int = 1,
             ret_typ: Literal['both', 'indices', 'mask', 'value'] = 'indices',
             is_ascend: bool | int = False, dtype: DTypeLike = 'float32',
             out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray | Any:
        """The k largest elements along `axis`, in descending order; the smallest with `is_ascend`."""

    def transpose(self, axes: Sequence[int] | int = (), out: NDArray | Sequence[NDArray] | None = None,
                  name: str | None = None) -> NDArray:
        """Axes in the order `axes`; none given reverses them."""

    def trunc(self, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None) -> NDArray:
        """x without its fraction."""

    def zeros_like(self, out: NDArray | Sequence[NDArray] | None = None, name: str | None = None
                  ) -> NDArray:
        """Zeros of the shape and type of the input."""

class Operators:
    def __pow__(self, other: Any) -> NDArray: ...
    def __rpow__(self, other: Any) -> NDArray: ...
    def __add__(self, other: Any) -> NDArray: ...
    def __radd__(self, other: Any) -> NDArray: ...
    def __iadd__(self, other: Any) -> NDArray: ...
    def __sub__(self, other: Any) -> NDArray: ...
    def __rsub__(self, other: Any) -> NDArray: ...
    def __isub__(self, other: Any) -> NDArray: ...
    def __mul__(self, other: Any) -> NDArray: ...
    def __rmul__(self, other: Any) -> NDArray: ...
    def __imul__(self, other: Any) -> NDArray: ...
    def __truediv__(self, other: Any) -> NDArray: ...
    def __rtruediv__(self, other: Any) -> NDArray: ...
    def __itruediv__(self, other: Any) -> NDArray: ...
    def __div__(self, other: Any) -> NDArray: ...
    def __rdiv__(self, other: Any) -> NDArray: ...
    def __idiv__(self, other: Any) -> NDArray: ...
    def __mod__(self, other: Any) -> NDArray: ...
    def __rmod__(self, other: Any) -> NDArray: ...
    def __imod__(self, other: Any) -> NDArray: ...
    def __eq__(self, other: Any) -> NDArray: ...  # type: ignore[override]
    def __ne__(self, other: Any) -> NDArray: ...  # type: ignore[override]
    def __gt__(self, other: Any) -> NDArray: ...
    def __ge__(self, other: Any) -> NDArray: ...
    def __lt__(self, other: Any) -> NDArray: ...
    def __le__(self, other: Any) -> NDArray: ...
