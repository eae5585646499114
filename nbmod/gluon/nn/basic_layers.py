"""Containers, dense layers and small helpers; also MXNet's module path of the normalizations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from ... import ndarray as nd
from ... import symbol as sym
from ...base import ArgumentError, CheckError, plain_numbers, warn_user
from ..base_parameter import Init
from ..block import Block, HybridBlock
from ..utils import _indent
from .activations import Activation
from .norm_layers import BatchNorm, BatchNormReLU, GroupNorm, InstanceNorm, LayerNorm

__all__ = ["BatchNorm", "BatchNormReLU", "Dense", "Dropout", "Embedding", "Flatten", "GroupNorm",
           "HybridLambda", "HybridSequential", "InstanceNorm", "Lambda", "LayerNorm", "Sequential"]
__dir__ = __all__.copy


class _BlockList(Block):
    """Base of blocks that hold a list of others."""

    _is_container: ClassVar = True

    def _part(self) -> Any:
        """An empty container, for some of the blocks."""
        return type(self)(prefix=self.prefix)

    def __repr__(self) -> str:
        lines = "\n".join(f"  ({key}): {_indent(repr(block), 2)}"
                          for key, block in self._children.items())
        return f"{type(self).__name__}(\n{lines}\n)"

    def __getitem__(self, key: int | slice) -> Any:
        blocks: Any = [*self._children.values()][key]
        if not isinstance(key, slice):
            return blocks
        part = self._part()
        with part.name_scope():
            part.add(*blocks)
        return part

    def __len__(self) -> int:
        return len(self._children)

    def __iter__(self) -> Iterator[Block]:
        return iter([*self._children.values()])


class Sequential(_BlockList):
    """Blocks that are called one after the other.

    Parameters
    ----------
    prefix, params
        As for `Block`.

    Examples
    --------
    >>> net = mx.gluon.nn.Sequential()
    >>> net.add(mx.gluon.nn.Dense(4, activation="relu"), mx.gluon.nn.Dense(2))
    >>> net.initialize()
    >>> net(mx.nd.ones((3, 5))).shape
    (3, 2)
    """

    def add(self, *blocks: Block) -> None:
        """Append blocks.

        Parameters
        ----------
        *blocks : Block
            Blocks, which are called in this order.
        """
        for block in blocks:
            self.register_child(block)

    def forward(self, x: Any) -> Any:
        """Call the blocks.

        Parameters
        ----------
        x : NDArray
            Argument of the first one.
        """
        for block in self._children.values():
            x = block(x)
        return x

    def hybridize(self, active: bool = True, **kwargs: Any) -> None:
        """Hybridize the blocks; warn if a `HybridSequential` could take them all.

        Parameters
        ----------
        active, **kwargs
            As for `HybridBlock.hybridize`.
        """
        if self._children and all(isinstance(block, HybridBlock)
                                  for block in self._children.values()):
            warn_user(f"All children of this Sequential layer '{self.prefix}' are HybridBlocks. "
                      "Consider using HybridSequential for the best performance.")
        super().hybridize(active, **kwargs)


class HybridSequential(_BlockList, HybridBlock):
    """Hybrid blocks that are called one after the other.

    Parameters
    ----------
    prefix, params
        As for `HybridBlock`.

    Examples
    --------
    >>> net = mx.gluon.nn.HybridSequential(prefix="net_")
    >>> with net.name_scope():
    ...     net.add(mx.gluon.nn.Dense(4, activation="relu"), mx.gluon.nn.Dense(2))
    >>> net.initialize()
    >>> net.hybridize()
    >>> net(mx.nd.ones((3, 5))).shape, net[1].weight.name
    ((3, 2), 'net_dense1_weight')
    """

    def add(self, *blocks: HybridBlock) -> None:
        """Append blocks.

        Parameters
        ----------
        *blocks : HybridBlock
            Blocks, which are called in this order.
        """
        for block in blocks:
            self.register_child(block)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        for block in self._children.values():
            x = block(x)
        return x


class Dense(HybridBlock):
    """act(x weightᵀ + bias), for x of shape (N, ...) flattened to (N, in_units).

    Parameters
    ----------
    units : int
        Number of outputs.
    activation : str, optional
        Function of the outputs, as for `Activation`.
    use_bias : bool, default True
        Whether to add a bias.
    flatten : bool, default True
        Whether all axes but the first are one; otherwise the last axis alone is mapped.
    dtype : dtype, default 'float32'
        Element type of the parameters.
    weight_initializer : Initializer or str, optional
        Initializer of the weight (units, in_units); None leaves it to `initialize`.
    bias_initializer : Initializer or str, default 'zeros'
        Initializer of the bias (units,).
    in_units : int, default 0
        Number of inputs; 0 for that of the first call.
    **kwargs
        `prefix` and `params`, as for `HybridBlock`.

    Examples
    --------
    >>> layer = mx.gluon.nn.Dense(2, activation="relu", in_units=3)
    >>> layer.initialize(mx.init.One())
    >>> layer(mx.nd.array([[1, 2, 3]])).asnumpy().tolist()
    [[6.0, 6.0]]
    >>> layer
    Dense(3 -> 2, Activation(relu))
    """

    def __init__(self, units: int, activation: str | None = None, use_bias: bool = True,
                 flatten: bool = True, dtype: Any = "float32", weight_initializer: Init = None,
                 bias_initializer: Init = "zeros", in_units: int = 0, **kwargs: Any):
        super().__init__(**kwargs)
        self._units, self._in_units, self._flatten = units, in_units, flatten
        with self.name_scope():
            self.weight = self.params.get(
                "weight", shape=(units, in_units), dtype=dtype, init=weight_initializer,
                allow_deferred_init=True)
            self.bias = self.params.get(
                "bias", shape=(units,), dtype=dtype, init=bias_initializer,
                allow_deferred_init=True) if use_bias else None
            self.act = Activation(activation, prefix=f"{activation}_") if activation else None

    def hybrid_forward(self, F: Any, x: Any, weight: Any, bias: Any = None) -> Any:
        x = F.FullyConnected(x, weight, bias, no_bias=bias is None, num_hidden=self._units,
                             flatten=self._flatten, name="fwd")
        return x if self.act is None else self.act(x)

    def __repr__(self) -> str:
        units, in_units = self.weight.shape or (self._units, self._in_units)
        return f"{type(self).__name__}({in_units or None} -> {units}, {self.act or 'linear'})"


class Dropout(HybridBlock):
    """Sets random elements to 0 in training, and divides the others by 1 - rate.

    Parameters
    ----------
    rate : float
        Share of the elements that are set to 0.
    axes : tuple of int, default ()
        Axes along which all elements share their draw.
    **kwargs
        `prefix` and `params`, as for `HybridBlock`.

    Examples
    --------
    >>> mx.gluon.nn.Dropout(0.5)(mx.nd.ones(2)).asnumpy().tolist()
    [1.0, 1.0]
    """

    def __init__(self, rate: float, axes: tuple[int, ...] = (), **kwargs: Any):
        super().__init__(**kwargs)
        self._rate, self._axes = rate, plain_numbers(axes)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        if self._rate > 0:
            return F.Dropout(x, p=self._rate, axes=self._axes, cudnn_off=False, name="fwd")
        return F.identity(x)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p = {self._rate}, axes={self._axes})"


class Embedding(HybridBlock):
    """Rows of a weight, chosen by numbers: (...) becomes (..., output_dim).

    Parameters
    ----------
    input_dim : int
        Number of rows.
    output_dim : int
        Length of each row.
    dtype : dtype, default 'float32'
        Element type of the weight.
    weight_initializer : Initializer or str, optional
        Initializer of the weight (input_dim, output_dim); None leaves it to `initialize`.
    sparse_grad : bool, default False
        Whether the gradient is row-sparse.
    **kwargs
        `prefix` and `params`, as for `HybridBlock`.

    Examples
    --------
    >>> layer = mx.gluon.nn.Embedding(10, 4)
    >>> layer.initialize()
    >>> layer(mx.nd.array([[1, 2, 3]])).shape
    (1, 3, 4)
    """

    def __init__(self, input_dim: int, output_dim: int, dtype: Any = "float32",
                 weight_initializer: Init = None, sparse_grad: bool = False, **kwargs: Any):
        super().__init__(**kwargs)
        self._kwargs = {"input_dim": input_dim, "output_dim": output_dim, "dtype": dtype,
                        "sparse_grad": sparse_grad}
        with self.name_scope():
            self.weight = self.params.get(
                "weight", shape=(input_dim, output_dim), init=weight_initializer, dtype=dtype,
                allow_deferred_init=True, grad_stype="row_sparse" if sparse_grad else "default")

    def hybrid_forward(self, F: Any, x: Any, weight: Any) -> Any:
        return F.Embedding(x, weight, name="fwd", **self._kwargs)

    def __repr__(self) -> str:
        return (f"{type(self).__name__}({self._kwargs['input_dim']} -> "
                f"{self._kwargs['output_dim']}, {self._kwargs['dtype']})")


class Flatten(HybridBlock):
    """(N, ...) becomes (N, product of the other axes).

    Parameters
    ----------
    **kwargs
        `prefix` and `params`, as for `HybridBlock`.

    Examples
    --------
    >>> mx.gluon.nn.Flatten()(mx.nd.ones((2, 3, 4))).shape
    (2, 12)
    """

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.Flatten(x)

    def __repr__(self) -> str:
        return type(self).__name__


class Lambda(Block):
    """A function of arrays as a block.

    Parameters
    ----------
    function : str or callable
        Name of a function of `mx.nd`, or a function of arrays.
    prefix : str, optional
        As for `Block`.

    Raises
    ------
    AssertionError
        If `mx.nd` has no function of this name.
    ValueError
        If `function` is neither.

    Examples
    --------
    >>> mx.gluon.nn.Lambda("square")(mx.nd.array([3])).asnumpy().tolist()
    [9.0]
    """

    def __init__(self, function: str | Callable[..., Any], prefix: str | None = None):
        super().__init__(prefix=prefix)
        self._func_name = _function_name(function, (nd,))
        self._func = getattr(nd, function) if isinstance(function, str) else function

    def forward(self, *args: Any) -> Any:
        return self._func(*args)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._func_name})"


class HybridLambda(HybridBlock):
    """A function of arrays or symbols as a block.

    Parameters
    ----------
    function : str or callable
        Name of a function of both `mx.nd` and `mx.sym`, or a function of one of these modules and
        of the inputs.
    prefix : str, optional
        As for `HybridBlock`.

    Raises
    ------
    AssertionError
        If `mx.nd` or `mx.sym` has no function of this name.
    ValueError
        If `function` is neither.

    Examples
    --------
    >>> layer = mx.gluon.nn.HybridLambda(lambda F, x: F.square(x) + 1)
    >>> layer(mx.nd.array([3])).asnumpy().tolist()
    [10.0]
    """

    def __init__(self, function: str | Callable[..., Any], prefix: str | None = None):
        super().__init__(prefix=prefix)
        self._func_name = _function_name(function, (sym, nd))
        self._func = function

    def hybrid_forward(self, F: Any, x: Any, *args: Any) -> Any:
        if isinstance(self._func, str):
            return getattr(F, self._func)(x, *args)
        return self._func(F, x, *args)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._func_name})"


def _function_name(function: Any, modules: tuple[Any, ...]) -> str:
    """The name of a function that is given itself, or by its name in all of these modules."""
    if isinstance(function, str):
        if not all(hasattr(module, function) for module in modules):
            names = "/".join(module.__name__.rpartition(".")[2] for module in modules)
            raise CheckError(f"Function name {function} is not found in {names}.")
        return function
    if not callable(function):
        raise ArgumentError(f"Unrecognized function in lambda: {function} of type "
                            f"{type(function)}; expected a function or a name")
    return getattr(function, "__name__", type(function).__name__)
