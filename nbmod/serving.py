"""`Predictor`: a trained network that several threads ask for predictions.

Each worker has an executor for each of a few batch sizes; all workers read the same parameters.  A
call takes a worker that is free, cuts its samples into parts, pads each part with zeros to the
smallest size that it fits, and copies the outputs before it gives the worker back.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from queue import LifoQueue
from typing import Any

import numpy as np

from . import ndarray as nd
from . import symbol as sym
from .base import ArgumentError, ArgumentTypeError, MXNetError, did_you_mean
from .checkpoint import declare_shapes, epochs_of, load_archive, load_checkpoint, split_params
from .context import Context, cpu
from .core.model_archive import archive_at, beside
from .core.reprs import listed, safe_repr
from .diagram.visualization import HIDDEN
from .executor import Executor
from .ndarray import NDArray
from .symbol import Symbol
from .symbol.compose import copy_graph
from .symbol.inference_symbol import (
    Outputs,
    implied_shapes,
    inference_symbol,
    labels_of,
    likely_shape,
)

__all__ = ["Predictor", "bind_for_inference"]

Network = tuple[Symbol, Mapping[str, NDArray], Mapping[str, NDArray]]
"""A symbol, its parameters and its auxiliary states."""
Shape = tuple[int, ...]


class UnknownInputShape(ArgumentError):
    """An input of a network has no known shape.

    Parameters
    ----------
    name : str
        Name of the input.
    likely : list of int and str
        Its sizes, and words for those that are not known.
    """

    def __init__(self, name: str, likely: Sequence[int | str]):
        super().__init__(name, likely)
        self.name, self.likely = name, likely

    def __str__(self) -> str:
        return (f"Predictor: the shape of the input {self.name!r} is not known; give it: "
                f"shapes={{{self.name!r}: ({', '.join(map(str, self.likely))})}}")


class Predictor:
    """A trained network for inference, which threads may share.

    The network is bound, compiled and run once when the predictor is made. The first axis of inputs
    and outputs is that of the samples, of which a call may have any number.

    Parameters
    ----------
    model : str, path or tuple
        Prefix of a checkpoint; name of an archive with one, such as ``model.tar.gz``, of a
        ``.onnx``, ``.safetensors`` or ``-symbol.json`` file; or ``(symbol, arg_params,
        aux_params)``.
    shapes : dict of str to tuple of int, optional
        Shape of each input, the largest batch first: ``{"data": (32, 3, 224, 224)}``. Not needed
        for inputs whose variables have shapes, that a dense layer reads, or of which
        ``model-shapes.json`` or ``hyperparams.json`` tells, in the archive or beside the files.
    ctx : Context, default cpu()
        Where to compute.
    epoch : int, optional
        Number of the checkpoint; the last by default.
    params : str or path, optional
        File of parameters, instead of a checkpoint's.
    dtypes : dict of str to dtype, optional
        Element types of inputs; those that the parameters' types imply by default.
    batch_sizes : sequence of int, optional
        Numbers of samples that are bound; by default 1 and the largest batch of `shapes`. More
        sizes mean less padding, and more memory and time to compile.
    workers : int, default 1
        Calls that compute at the same time. Each worker has buffers of its own.
    fixed : bool, default False
        Accept exactly `shapes`: for networks in which samples influence each other, or whose
        outputs have no axis of samples.
    outputs : str, int, Symbol, or list of str and int, optional
        Outputs to compute, by the name of an output or of an inner node, or by position; or the
        network to compute. By default all that need no labels: those of a network for training are
        no inputs, unless `shapes` has them.

    Attributes
    ----------
    input_names, output_names : list of str
        Names of inputs and outputs.
    input_shapes : dict of str to tuple of int
        Shapes of the largest batch.

    Raises
    ------
    MXNetError
        If a file is missing or damaged, or parameters are missing or have other shapes.
    ArgumentError
        If the shape of an input is not known, an output has no axis of samples, needs a label, or
        is not there.

    Examples
    --------
    >>> net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="fc")
    >>> params = {"fc_weight": mx.nd.ones((2, 3)), "fc_bias": mx.nd.zeros(2)}
    >>> predictor = mx.Predictor((net, params, {}), {"data": (8, 3)})
    >>> output, = predictor([[1, 2, 3], [4, 5, 6]])
    >>> output.tolist()
    [[6.0, 6.0], [15.0, 15.0]]
    """

    def __init__(self, model: str | os.PathLike[str] | Network,
                 shapes: Mapping[str, Shape] | None = None, ctx: Context | None = None, *,
                 epoch: int | None = None, params: str | os.PathLike[str] | None = None,
                 dtypes: Mapping[str, Any] | None = None, batch_sizes: Sequence[int] | None = None,
                 workers: int = 1, fixed: bool = False, outputs: Outputs = None):
        stored, known_shapes = _read(model, epoch, params)
        user_shapes = dict(shapes or {})
        network = _for_inference(stored, outputs, user_shapes)
        self.input_shapes = _input_shapes(network, user_shapes, known_shapes)
        network = symbol, arguments, states = _declaring(network, self.input_shapes)
        self._sizes = [] if fixed else _batch_sizes(symbol, self.input_shapes, batch_sizes)
        self.input_names, self.output_names = [*self.input_shapes], symbol.list_outputs()
        ctx = ctx or cpu()
        types = dtypes or {name: array.dtype for name, array in arguments.items()
                           if name in symbol.list_arguments()}
        on_device = (symbol, _on(ctx, arguments), _on(ctx, states))
        if workers < 1:
            raise ArgumentError(f"Predictor: workers is {workers}, expected at least 1")
        pool = [_Worker(on_device, self.input_shapes, types, self._sizes) for _ in range(workers)]
        self._types = pool[0].types
        self._free: LifoQueue[_Worker] = LifoQueue()
        for worker in pool:
            self._free.put(worker)

    def __call__(self, /, *values: Any, **named: Any) -> list[np.ndarray]:
        """Compute the outputs for some samples.

        Parameters
        ----------
        *values, **named
            An array for each input, of shape (samples, ...): in the order of `input_names`, or by
            name. Lists and NDArrays are converted.

        Returns
        -------
        list of numpy.ndarray
            For each of `output_names` an array of shape (samples, ...), which is the caller's own.

        Raises
        ------
        ArgumentError
            For a wrong name or shape, or finite numbers beyond the range of the input's type.
        ArgumentTypeError
            For values that cannot be converted to the element type of the input.
        """
        data = self._by_name(values, named)
        inputs = {name: _converted(name, data[name], dtype) for name, dtype in self._types.items()}
        count = self._check_shapes(inputs)
        worker = self._free.get()
        try:
            if not self._sizes:
                return worker.run(None, inputs, count)
            largest = self._sizes[-1]
            parts = [worker.run(self._size_for(min(largest, count - begin)),
                                {name: value[begin:begin + largest]
                                 for name, value in inputs.items()}, min(largest, count - begin))
                     for begin in range(0, count, largest)]
        finally:
            self._free.put(worker)
        return parts[0] if len(parts) == 1 else [np.concatenate(column)
                                                 for column in zip(*parts, strict=True)]

    @safe_repr
    def __repr__(self) -> str:
        inputs = {name: ("samples", *shape[1:]) if self._sizes else shape
                  for name, shape in self.input_shapes.items()}
        text = listed(f"{name} ({', '.join(map(str, shape))}) {np.dtype(self._types[name])}"
                      for name, shape in inputs.items())
        at_most = f"; up to {self._sizes[-1]} samples at once" if self._sizes else ""
        return f"<Predictor: {text} -> {listed(self.output_names)}{at_most}>"

    def _by_name(self, values: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        if len(values) > len(self.input_names):
            raise ArgumentError(f"Predictor: {len(values)} inputs are given, expected "
                                f"{self.input_names}")
        by_name = dict(zip(self.input_names, values, strict=False))
        for name, value in named.items():
            if name not in self.input_shapes:
                raise ArgumentError(f"Predictor: there is no input {name!r}; inputs are "
                                    f"{self.input_names}{did_you_mean(name, self.input_names)}")
            if name in by_name:
                raise ArgumentError(f"Predictor: input {name!r} is given twice")
            by_name[name] = value
        missing = [name for name in self.input_names if name not in by_name]
        if missing:
            raise ArgumentError(f"Predictor: no value for the inputs {missing}")
        return by_name

    def _check_shapes(self, inputs: Mapping[str, np.ndarray]) -> int:
        """The number of samples; ArgumentError for a wrong shape."""
        counts = {name: value.shape[:1] for name, value in inputs.items()}
        for name, value in inputs.items():
            bound = self.input_shapes[name]
            expected = bound if not self._sizes else ("samples", *bound[1:])
            if value.shape != bound if not self._sizes else value.shape[1:] != bound[1:] or (
                    value.ndim != len(bound)):
                hint = "; a single sample needs a first axis: value[None]" if (
                    value.shape == bound[1:]) else ""
                raise ArgumentError(f"Predictor: {name} has the shape {value.shape}, expected "
                                    f"({', '.join(map(str, expected))}){hint}")
        if self._sizes and len({*counts.values()}) > 1:
            raise ArgumentError("Predictor: the inputs have different numbers of samples: " + str(
                {name: count for name, (count,) in counts.items()}))
        count: int = next(iter(counts.values()))[0]
        if count == 0:
            raise ArgumentError("Predictor: there are no samples, expected at least one")
        return count

    def _size_for(self, count: int) -> int:
        return next(size for size in self._sizes if size >= count)


class _Worker:
    """Executors of one network by batch size; None stands for fixed shapes."""

    def __init__(self, network: Network, shapes: Mapping[str, Shape], types: Mapping[str, Any],
                 sizes: Sequence[int]):
        largest = bind_for_inference(network, shapes, types)
        self.executors: dict[int | None, Executor] = {None: largest}
        for count in reversed(sizes):
            self.executors[count] = largest.reshape(
                partial_shaping=True, allow_up_sizing=True,
                **{name: (count, *shape[1:]) for name, shape in shapes.items()})
        self.types = {name: np.dtype(largest.arg_dict[name].dtype) for name in shapes}
        for size, executor in self.executors.items():
            if size is not None or not sizes:
                self.run(size, {name: np.zeros(executor.arg_dict[name].shape, dtype)
                                for name, dtype in self.types.items()}, size or 1)

    def run(self, size: int | None, inputs: Mapping[str, np.ndarray], count: int
            ) -> list[np.ndarray]:
        """Compute the outputs of `count` samples, padded to a batch size."""
        executor = self.executors[size]
        if size is not None and count < size:
            inputs = {name: np.concatenate([value, np.zeros((size - count, *value.shape[1:]),
                                                            value.dtype)])
                      for name, value in inputs.items()}
        outputs = executor.forward(is_train=False, **inputs)
        return [output.asnumpy() if size is None else output.asnumpy()[:count]
                for output in outputs]


def bind_for_inference(network: Network, shapes: Mapping[str, Shape], types: Mapping[str, Any]
                       ) -> Executor:
    """Bind a network with its parameters, which the executor shares unless their types differ.

    Arguments that are neither inputs nor parameters, such as labels, are zeros.

    Parameters
    ----------
    network : (Symbol, dict, dict)
        The symbol, and its parameters and auxiliary states on the device to compute on.
    shapes : dict of str to tuple of int
        Shapes of the inputs.
    types : dict of str to dtype
        Known element types of arguments.

    Raises
    ------
    MXNetError
        If a shape cannot be inferred, or is not that of a parameter.
    """
    symbol, arguments, states = _declaring(network, shapes)
    device = next(iter([*arguments.values(), *states.values()]), nd.zeros(1)).context
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the error below says more
        arg_shapes, _, of_states = symbol.infer_shape(**shapes)
    if arg_shapes is None or of_states is None:
        raise MXNetError(f"Predictor: the shapes {dict(shapes)} do not determine those of all "
                         f"arguments {symbol.list_arguments()}")
    kinds, _, state_kinds = symbol.infer_type_partial(**types)

    def arrays(names: Sequence[str], known: Mapping[str, NDArray], array_shapes: Sequence[Shape],
               dtypes: Sequence[Any]) -> dict[str, NDArray]:
        return {name: _fitting(name, known.get(name), shape, dtype or np.float32, device)
                for name, shape, dtype in zip(names, array_shapes, dtypes, strict=True)}

    parameters = {name: array for name, array in arguments.items() if name not in shapes}
    return symbol.bind(device, arrays(symbol.list_arguments(), parameters, arg_shapes, kinds),
                       grad_req="null",
                       aux_states=arrays(symbol.list_auxiliary_states(), states, of_states,
                                         state_kinds))


def _declaring(network: Network, shapes: Mapping[str, Shape]) -> Network:
    """The network, whose parameters of shapes that do not follow from its inputs declare them."""
    symbol, arguments, states = network
    arg_shapes = zip(symbol.list_arguments(), symbol.infer_shape_partial(**shapes)[0], strict=True)
    left = {name: arguments[name] for name, shape in arg_shapes
            if name in arguments and name not in shapes and (0 in shape or not shape)}
    if left:
        symbol = Symbol(copy_graph(symbol.entries))
        declare_shapes(symbol, left)
    return symbol, arguments, states


def _fitting(name: str, array: NDArray | None, shape: Shape, dtype: Any, device: Context
             ) -> NDArray:
    """A parameter, or zeros where there is none."""
    if array is None:
        return nd.zeros(shape, device, dtype)
    if array.shape != tuple(shape):
        raise MXNetError(f"Predictor: the parameter {name} has the shape {array.shape}, the "
                         f"network needs {tuple(shape)}: check the shapes of the inputs")
    return array if array.dtype == dtype else array.astype(dtype)


def _on(ctx: Context, arrays: Mapping[str, NDArray]) -> dict[str, NDArray]:
    return {name: array.as_in_context(ctx) for name, array in arrays.items()}


def _read(model: Any, epoch: int | None, params: Any) -> tuple[Network, Mapping[str, Shape]]:
    """The network of a file, a checkpoint or an archive, and stored shapes of its inputs."""
    if isinstance(model, tuple):
        symbol, arguments, states = model
        return (symbol, arguments, states), {}
    path = os.fspath(model)
    if path.endswith((".onnx", ".safetensors")):
        return _read_interchange(path), {}
    if params is not None:
        arrays = nd.load(os.fspath(params))
        if not isinstance(arrays, dict):
            raise MXNetError(f"{params}: the arrays have no names, so these are no parameters")
        return (sym.load(path if path.endswith(".json") else f"{path}-symbol.json"),
                *split_params(arrays, os.fspath(params))), beside(path).shapes
    archive = archive_at(path)
    if archive is not None:
        return load_archive(archive, epoch), archive.metadata.shapes
    prefix = path.removesuffix("-symbol.json")
    if epoch is None and not epochs_of(prefix):
        raise MXNetError(f"Predictor: there are no files {prefix}-0000.params, "
                         f"{prefix}-0001.params, ...; expected the prefix of a checkpoint, or the "
                         "name of an archive, a .onnx, .safetensors or -symbol.json file")
    return load_checkpoint(prefix, epoch), beside(prefix).shapes


def _read_interchange(path: str) -> Network:
    """The network of an ONNX or safetensors file."""
    if path.endswith(".onnx"):
        imported: Network = import_module(f"{__package__}.onnx").import_model(path)
        return imported
    loaded: Network = import_module(f"{__package__}.safetensors").load_model(path)
    return loaded


def _for_inference(network: Network, outputs: Outputs, shapes: Mapping[str, Shape]) -> Network:
    """The network without labels, except for those that `shapes` has."""
    symbol, arguments, states = network
    try:
        return inference_symbol(symbol, outputs, {*arguments, *shapes}), arguments, states
    except ArgumentError as error:
        raise ArgumentError(f"Predictor: {error}") from None


def _input_shapes(network: Network, user_shapes: dict[str, Shape], stored: Mapping[str, Shape]
                  ) -> dict[str, Shape]:
    """The shape of every input, in the symbol's order: given, declared, stored or implied."""
    symbol, arguments, states = network
    names = symbol.list_arguments()
    labels = labels_of(symbol, {*arguments, *user_shapes})
    for name in user_shapes:
        if name not in names:
            inputs = [one for one in names if one not in arguments]
            raise ArgumentError(f"Predictor: {name!r} of shapes is no argument of the network; "
                                f"its inputs are {inputs}{did_you_mean(name, inputs)}")
    missing = [name for name in symbol.list_auxiliary_states() if name not in states]
    if missing:
        raise MXNetError(f"Predictor: the parameters lack the states {missing}")
    inputs = [name for name in names if name in user_shapes or (
        name not in arguments and name not in labels)]
    parameters = {name: array.shape for name, array in arguments.items()}
    known = user_shapes | {name: shape for name, shape in {
        **implied_shapes(symbol, parameters), **stored}.items()
        if name in inputs and name not in user_shapes and not _has_shape(symbol, name)}
    arg_shapes = {name: tuple(shape) for name, shape in zip(
        names, symbol.infer_shape_partial(**known)[0], strict=True)}
    unknown = [name for name in inputs if name not in known and not _has_shape(symbol, name)]
    if unknown:
        name = next((name for name in unknown if not name.endswith(HIDDEN)), unknown[0])
        if name.endswith(HIDDEN):
            raise ArgumentError(f"Predictor: the parameters lack {unknown}")
        raise UnknownInputShape(name, likely_shape(symbol, parameters, name))
    return {name: arg_shapes[name] for name in inputs}


def _has_shape(symbol: Symbol, name: str) -> bool:
    """Whether a variable was made with a complete shape."""
    shape = symbol.attr_dict().get(name, {}).get("__shape__")
    return shape is not None and "0" not in shape.strip("()[] ").replace(" ", "").split(",")


def _batch_sizes(symbol: Symbol, shapes: Mapping[str, Shape], chosen: Sequence[int] | None
                 ) -> list[int]:
    """Sizes to bind, ascending; ArgumentError if samples have no axis of their own."""
    if len({shape[:1] for shape in shapes.values()}) != 1 or () in shapes.values():
        raise ArgumentError(f"Predictor: the inputs {dict(shapes)} have no common first axis of "
                            "samples; with fixed=True exactly these shapes are accepted")
    largest = next(iter(shapes.values()))[0]
    sizes = sorted({*(chosen or (1, largest))})
    if sizes[0] < 1:
        raise ArgumentError(f"Predictor: batch_sizes is {chosen}, expected positive numbers")
    for size in (largest, largest + 1):
        outputs = symbol.infer_shape(**{name: (size, *shape[1:])
                                        for name, shape in shapes.items()})[1]
        for name, shape in zip(symbol.list_outputs(), outputs or [], strict=False):
            if shape[:1] != (size,):
                raise ArgumentError(f"Predictor: the output {name} has the shape {shape} for "
                                    f"{size} samples, so its first axis is not that of samples; "
                                    "with fixed=True exactly the given shapes are accepted")
    return sizes


def _converted(name: str, value: Any, dtype: np.dtype) -> np.ndarray:
    """A value as an array of the input's type."""
    try:
        array = value.asnumpy() if isinstance(value, NDArray) else np.asarray(value)
    except ValueError as error:     # such as lists of several lengths
        raise ArgumentTypeError(f"Predictor: {name} is no array of numbers: {error}") from error
    if not np.can_cast(array.dtype, dtype, "same_kind"):
        raise ArgumentTypeError(f"Predictor: {name} has the type {array.dtype}, which is not "
                                f"converted to {dtype}, the type of the input")
    try:
        with np.errstate(over="raise"):
            return np.ascontiguousarray(array, dtype)
    except FloatingPointError as error:
        raise ArgumentError(f"Predictor: {name} has numbers beyond the range of {dtype}, the type "
                            "of the input") from error
