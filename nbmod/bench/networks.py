"""Subjects of nbmod: operators, symbols at shapes, and steps of a module.

Each is a function without arguments that knows its operations and bytes, so that `measure` tells
its share of the roof:

    print(bench.measure(bench.operator("Convolution", (16, 64, 56, 56), kernel=(3, 3), pad=(1, 1),
                                       num_filter=64)))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ..base import ArgumentError, did_you_mean

if TYPE_CHECKING:
    from ..context import Context
    from ..executor import Executor
    from ..io import DataBatch
    from ..module import BaseModule
    from ..ndarray import NDArray
    from ..symbol import Symbol

__all__ = ["Work", "bound", "fill", "module_step", "operator", "symbol"]

Shape = tuple[int, ...]
Input: TypeAlias = "Shape | NDArray | np.ndarray"
"""A shape, or an array whose values and type count."""


@dataclass(frozen=True)
class Work:
    """A function whose cost is known.

    Attributes
    ----------
    name : str
        Shown in tables.
    run : callable
        Does the work, and returns when it is done.
    operations, nbytes : float
        Multiplications plus additions; bytes that the steps read and write.
    """

    name: str
    run: Callable[[], object]
    operations: float = 0.0
    nbytes: float = 0.0

    def __call__(self) -> object:
        return self.run()


def operator(name: str, *inputs: Input, backward: bool = False, ctx: Context | None = None,
             dtype: str = "float32", **attributes: Any) -> Work:
    """One operator on arrays of these shapes, or on these arrays.

    Parameters
    ----------
    name : str
        As in `mx.sym`, such as "Convolution" or "contrib.box_nms", or as in files, such as
        "_contrib_box_nms"; one's own that was registered, too.
    *inputs : tuple of int, NDArray or numpy.ndarray
        The inputs in their order, as a shape or as an array, whose values and type count, such as
        indices. Those that can be inferred (weights) may be left out.
    backward : bool
        Whether to compute the gradients of all inputs, too.
    ctx : Context, optional
        The device; default: the current one.
    dtype : str
        Of the inputs whose shape is given.
    **attributes
        The operator's parameters.

    Examples
    --------
    >>> from nbmod import bench
    >>> work = bench.operator("dot", (64, 32), (32, 16))
    >>> work.operations
    65536
    >>> work = bench.operator("take", (1000, 64), np.arange(0, 1000, 10, dtype="int32"))
    >>> work.nbytes > 100 * 64 * 4
    True
    """
    from .. import sym

    build = _function(name)
    named = {f"input{number}": each for number, each in enumerate(inputs)}
    variables = [sym.Variable(each, dtype=getattr(value, "dtype", dtype))
                 for each, value in named.items()]
    net = build(*variables, name=name.rpartition(".")[2].lower(), **attributes)
    return symbol(net, train=backward, ctx=ctx, differentiate_inputs=True, title=name, **named)


def _function(name: str) -> Callable[..., Symbol]:
    """The function of `mx.sym`, or of a namespace in it, that makes a symbol of an operator."""
    from .. import sym
    from ..ops import OPS

    space, _, last = name.rpartition(".")
    places = [(getattr(sym, space, None) if space else sym, last), (sym._internal, name),
              (sym._internal, f"_{name}")]
    build: Callable[..., Symbol] | None
    for place, each in places:
        if build := getattr(place, each, None):
            return build
    raise ArgumentError(f"bench.operator: there is no operator {name!r} in mx.sym"
                        f"{did_you_mean(name, OPS)}")


def symbol(net: Symbol, train: bool = False, ctx: Context | None = None,
           differentiate_inputs: bool = False, title: str = "", **inputs: Input) -> Work:
    """A network at these shapes: inference, or forward and backward.

    Parameters
    ----------
    net : Symbol
        The network.
    train : bool
        Whether to run backward too, with gradients of the parameters.
    ctx : Context, optional
        The device; default: the current one.
    differentiate_inputs : bool
        Whether `train` asks for gradients of what is named in `inputs`, too.
    title : str
        Shown in tables; default: the name of the network's output.
    **inputs : tuple of int, NDArray or numpy.ndarray
        Shapes of inputs, or arrays, whose values and types count.
    """
    from .. import nd
    from ..execution.cost_model import costs_of

    executor = bound(net, inputs, train, ctx, differentiate_inputs)
    heads = [nd.ones(out.shape, ctx=out.ctx, dtype=out.dtype) for out in executor.outputs]

    def run() -> None:
        executor.forward(is_train=train)
        if train:
            executor.backward(heads)
        for array in executor.outputs:
            array.wait_to_read()

    costs = costs_of(executor.compiled)
    name = title or net.list_outputs()[0].removesuffix("_output")
    return Work(f"{name} {'train' if train else 'infer'}", run,
                sum(cost.operations for cost in costs), sum(cost.nbytes for cost in costs))


def module_step(module: BaseModule, batch: DataBatch) -> Work:
    """A training step of a module: forward, backward and update.

    Parameters
    ----------
    module : BaseModule
        Bound for training, with parameters and an optimizer.
    batch : DataBatch
        Data and labels of every step.
    """
    def run() -> None:
        module.forward_backward(batch)
        module.update()
        for array in module.get_outputs():
            array.wait_to_read()

    return Work("module step", run)


def bound(net: Symbol, inputs: Mapping[str, Input], training: bool, ctx: Context | None = None,
          differentiate_inputs: bool = False) -> Executor:
    """A network bound for a measurement: moderate values in arrays of which only the shape is told.

    Training asks for gradients of what is neither among `inputs` nor a label, never of integers.
    """
    from .. import current_context
    from ..ndarray import NDArray

    arrays = {name: value for name, value in inputs.items()
              if isinstance(value, (NDArray, np.ndarray))}
    indices = [name for name, array in arrays.items() if np.dtype(array.dtype).kind in "iub"]
    requests = {name: "write" if training and not name.endswith("_label") and name not in indices
                and (differentiate_inputs or name not in inputs) else "null"
                for name in net.list_arguments()}
    arguments: dict[str, Any] = {name: getattr(value, "shape", value)
                                 for name, value in inputs.items()}
    executor = net.simple_bind(ctx or current_context(), grad_req=requests, numpy_first=False,
                               type_dict={name: array.dtype for name, array in arrays.items()},
                               **arguments)
    fill(executor)
    for name, array in arrays.items():
        executor.arg_dict[name][:] = array
    return executor


def fill(executor: Executor) -> None:
    """Write moderate values to all arguments and states, zeros to labels."""
    from .. import nd

    for name, array in [*executor.arg_dict.items(), *executor.aux_dict.items()]:
        if name.endswith("_label"):
            array[:] = 0
        elif name.endswith(("_var", "_gamma")):
            array[:] = 1
        else:
            array[:] = 0.05 * nd.random.normal(shape=array.shape)
