"""From what users pass to `bind`, `simple_bind` and `reshape` to what `Executor` needs.

MXNet lets arguments, gradients and requests be lists, dicts or single values, given or missing.
All of that is normalised here, once: the executor only ever sees `BindArguments`, dicts by name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

import numpy as np

from ..base import ArgumentError, MXNetError, OutOfMemory, did_you_mean
from ..context import Context, resolve
from ..core.shape_semantics import is_np_shape
from ..graph import Graph, Node
from ..ndarray import NDArray, zeros
from ..ops.device import device_of
from ..ops.op import Spec
from ..ops.shape import PartialShape, size_of
from ..passes.infer import (
    Inferred,
    infer_shape,
    infer_specs,
    infer_type,
    made_shapes,
    require_known,
    require_static,
    unknown_variables,
)
from ..passes.infer_storage import declared_storage, gradient_storage, infer_storage
from ..passes.place import array_devices
from ..symbol.inference import read_shape
from .pipeline import CompiledGraph, CompileOptions

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from ..symbol import Symbol

__all__ = ["Arrays", "BindArguments", "GradReq", "bind", "require_unique", "reshape",
           "simple_bind"]

Arrays: TypeAlias = Sequence[NDArray] | Mapping[str, NDArray]
GradReq: TypeAlias = str | Sequence[str] | Mapping[str, str]
"""A gradient request for all arguments, for each of them in order, or by name."""


class ArrayTables(Protocol):
    """The arrays of an executor by name."""

    arg_dict: dict[str, NDArray]
    grad_dict: dict[str, NDArray | None]
    aux_dict: dict[str, NDArray]


class BindArguments(NamedTuple):
    """A network, its arrays by name, and where to compute."""

    symbol: Symbol
    ctx: Context
    args: Mapping[str, NDArray]
    grads: Mapping[str, NDArray]
    requests: Mapping[str, str]
    """For each argument 'write', 'add' or 'null'."""
    aux: Mapping[str, NDArray]
    groups: Mapping[str, Context]
    """Context of nodes by the attribute ``ctx_group``."""
    inferred: Inferred
    """Graph, shapes and types of the symbol."""
    exact: bool | None = None
    """Whether only optimizations that keep all results bitwise are allowed; None: as set globally.
    """
    numpy_first: bool | None = None
    """Whether passes may begin with NumPy forms (see `first_answers`); None: in inference."""
    compiled: CompiledGraph | None = None
    """The result of an earlier bind of the same network to arrays like these."""

    @property
    def trained(self) -> list[str]:
        """Arguments with gradients."""
        return [name for name, request in self.requests.items() if request != "null"]

    @property
    def is_sparse(self) -> bool:
        """Whether an argument or a gradient is."""
        return any(array.is_sparse for array in (*self.args.values(), *self.grads.values()))

    def options(self, optimize: bool = True) -> CompileOptions:
        """The options with which the network is compiled."""
        return CompileOptions(
            self.ctx, self.requests,
            {name: array.context for name, array in {**self.args, **self.aux}.items()},
            {name: array.context for name, array in self.grads.items()}, self.groups,
            bool(self.exact), optimize, shared=_overlapping(
                {name: self.grads[name] for name in self.trained},
                [*self.args.values(), *self.aux.values()]))


def _overlapping(grads: Mapping[str, NDArray], others: Sequence[NDArray]) -> frozenset[str]:
    """The gradients in memory of one another, or of other arrays."""
    names, reached = set[str](), (0, 0, "")
    for device, start, end, name in sorted(
            (id(device), *device.span(array._data), name)
            for name, array in (*grads.items(), *[("", other) for other in others]) if array.size
            for device in [device_of(array.context)]):
        if device == reached[0] and start < reached[1]:     # of what reaches farthest
            names.update((name, reached[2]))
        reached = max(reached, (device, end, name))
    return frozenset(names - {""})


REQUESTS = ("null", "write", "add", "inplace")


def by_name(value: Arrays | None, names: Sequence[str], what: str, partial: bool = False
            ) -> dict[str, NDArray]:
    """A list in the order of `names`, or a dict, as a dict; None entries are dropped."""
    if value is None:
        return {}
    if isinstance(value, Mapping):
        missing = [name for name in names if name not in value]
        if missing and not partial:
            raise ArgumentError(f"{what}: nothing given for {missing}")
        return {name: value[name] for name in names if value.get(name) is not None}
    if len(value) != len(names):
        raise ArgumentError(f"{what}: {len(value)} arrays given, expected {len(names)}: "
                            f"{list(names)}")
    return {name: item for name, item in zip(names, value, strict=True) if item is not None}


def requests_by_name(grad_req: GradReq | None, names: Sequence[str]) -> dict[str, str]:
    """grad_req as a string, list or dict -> request per argument ('inplace' is 'write')."""
    if grad_req is None:
        return dict.fromkeys(names, "null")
    if isinstance(grad_req, str):
        reqs = dict.fromkeys(names, grad_req)
    elif isinstance(grad_req, Mapping):
        reqs = {name: grad_req.get(name, "null") for name in names}
    elif isinstance(grad_req, (list, tuple)) and len(grad_req) == len(names):
        reqs = dict(zip(names, grad_req, strict=True))
    else:
        raise MXNetError(f"grad_req is {grad_req!r}, expected 'null', 'write' or 'add', or one of "
                         f"these for each of {list(names)}")
    for name, req in reqs.items():
        if req not in REQUESTS:
            raise ArgumentError(f"grad_req of {name} is {req!r}, expected one of {REQUESTS}")
    return {name: "write" if req == "inplace" else req for name, req in reqs.items()}


def bind(symbol: Symbol, ctx: Context, args: Arrays, args_grad: Arrays | None = None,
         grad_req: GradReq | None = "write", aux_states: Arrays | None = None,
         groups: Mapping[str, Context] | None = None) -> BindArguments:
    """`Symbol.bind`: the user brings every array.

    With `groups` (of `ctx_group`, by name) arrays may be on any device, else they are on `ctx`.
    """
    arg_names, aux_names = symbol.list_arguments(), symbol.list_auxiliary_states()
    require_unique([*arg_names, *aux_names])
    arg_dict = by_name(args, arg_names, "args")
    absent = [name for name in arg_names if name not in arg_dict]
    if absent:
        raise ArgumentError(f"args: nothing given for {absent}")
    aux_dict = by_name(aux_states, aux_names, "aux_states")
    if len(aux_dict) != len(aux_names):
        raise ArgumentError("aux_states: nothing given for "
                            f"{[name for name in aux_names if name not in aux_dict]}")
    grads = by_name(args_grad, arg_names, "args_grad", partial=True)
    reqs = requests_by_name(grad_req, arg_names)
    reqs = {name: req if name in grads else "null" for name, req in reqs.items()}
    _check_arrays(arg_dict, grads)
    _check_devices(ctx, groups, {**arg_dict, **grads, **aux_dict})
    graph, arrays = Graph(symbol.entries), {**arg_dict, **aux_dict}
    require_static(graph)
    specs = infer_specs(graph, {name: Spec(array.shape, np.dtype(array.dtype))
                                for name, array in arrays.items()})
    require_known(graph, specs)
    return BindArguments(symbol, resolve(ctx), arg_dict, grads, reqs, aux_dict, _resolved(groups),
                         Inferred(graph, specs))


def require_unique(names: Sequence[str]) -> None:
    """ArgumentError if two arguments, or states, have one name: arrays are bound by name."""
    if len(set(names)) != len(names):
        twice = sorted(name for name, count in Counter(names).items() if count > 1)
        raise ArgumentError(f"Find duplicated arguments or states {twice}, which are variables of "
                            "one name: give each a name of its own, or make one variable and pass "
                            "it to all that read it")


def _check_arrays(args: Mapping[str, NDArray], grads: Mapping[str, NDArray]) -> None:
    for name, array in [*args.items(), *grads.items()]:
        if not isinstance(array, NDArray):
            raise TypeError(f"bind: {name} is a {type(array).__name__}, expected an NDArray")
        if 0 in array.shape and not is_np_shape():
            raise MXNetError(f"bind: {name} has shape {array.shape}, without elements; a dimension "
                             "of 0 means one that is not known, unless mx.np_shape is active")
    for name, grad in grads.items():
        for fact, actual, expected in (("shape", grad.shape, args[name].shape),
                                       ("type", np.dtype(grad.dtype), np.dtype(args[name].dtype))):
            if actual != expected:
                raise MXNetError(f"bind: gradient of {name} has {fact} {actual}, expected "
                                 f"{expected}")


def _check_devices(ctx: Context, groups: Mapping[str, Context] | None,
                   arrays: Mapping[str, NDArray]) -> None:
    """Without groups everything must be on one device."""
    if groups:
        return
    device = device_of(resolve(ctx))
    for name, array in arrays.items():
        if device_of(array.context) is not device:
            raise MXNetError(f"bind: {name} is on {array.context}, expected {ctx}; bring it there "
                             "with as_in_context, or give group2ctx to use several devices")


def infer_arrays(graph: Graph, shapes: Mapping[str, Sequence[int]], types: Mapping[str, DTypeLike],
                 where: str = "simple_bind") -> Inferred:
    """Shape and type of every entry, or an MXNetError that lists the shapes that are missing."""
    require_static(graph)
    known = {name: tuple(shape) for name, shape in shapes.items()}
    facts = infer_shape(graph, known, lengths=is_np_shape())
    unknown = unknown_variables(graph, facts, _is_given)
    if unknown:
        listed = ", ".join(f"{node.name} {facts[graph.output_eids(node)[0]] or '?'}"
                           for node in unknown[:20])
        raise MXNetError(f"{where}: cannot infer the shape of {listed}; give the shapes of "
                         f"more inputs (given: {known}), or let variables declare theirs: "
                         f"mx.sym.Variable({unknown[0].name!r}, shape=...)")
    if is_np_shape():
        facts = made_shapes(graph, facts)
    dtypes = infer_type(graph, {name: np.dtype(dtype) for name, dtype in types.items()})
    specs = list(map(Spec, facts, dtypes))  # type: ignore[arg-type]  # all are known, or refused
    require_known(graph, specs)
    return Inferred(graph, specs)


def _is_given(shape: PartialShape) -> bool:
    """Whether a shape has no unknown dimensions, in the active meaning of 0."""
    return shape is not None and (-1 if is_np_shape() else 0) not in shape


def simple_bind(symbol: Symbol, ctx: Context, grad_req: GradReq | None = "write",
                type_dict: Mapping[str, DTypeLike] | None = None,
                shared_arg_names: Sequence[str] | None = None,
                shared_exec: ArrayTables | None = None,
                shared_buffer: dict[str, NDArray] | None = None,
                shapes: Mapping[str, Sequence[int]] | None = None,
                groups: Mapping[str, Context] | None = None,
                stype_dict: Mapping[str, str] | None = None) -> BindArguments:
    """`Symbol.simple_bind`: shapes are inferred and arrays allocated (zeros) or shared.

    A shape of something the symbol does not have is ignored, as in MXNet: scripts give the shapes
    of labels to networks without a loss.  An array is on the context of its group, else on `ctx`
    (`array_devices`).
    """
    shapes = shapes or {}
    graph = Graph(symbol.entries)
    arg_names = [node.name for node in graph.arguments]
    require_unique([node.name for node in graph.variables])
    reqs = requests_by_name(grad_req, arg_names)
    inferred = infer_arrays(graph, shapes, type_dict or {})
    arg_specs = inferred.of(graph.arguments)
    contexts = array_devices(graph, groups or {}, ctx)
    trained = [node for node in graph.arguments if reqs[node.name] != "null"]
    source = _Sharing(contexts, shared_arg_names, shared_exec, shared_buffer,
                      _storage(graph, stype_dict or {}, trained))
    args = {name: source.array("arg_dict", name, spec) for name, spec in arg_specs.items()}
    grads = {name: source.array("grad_dict", name, spec) for name, spec in arg_specs.items()
             if reqs[name] != "null"}
    aux = {name: source.array("aux_dict", name, spec)
           for name, spec in inferred.of(graph.states).items()}
    _check_devices(ctx, groups, {**args, **grads, **aux})
    return BindArguments(symbol, resolve(ctx), args, grads, reqs, aux, _resolved(groups), inferred)


def _storage(graph: Graph, stypes: Mapping[str, str], trained: Sequence[Node]
             ) -> dict[str, dict[str, str]]:
    """Storage types of the executor's tables by name, those of dense arrays left out."""
    declared = declared_storage(graph, stypes)
    if not declared:
        return {}
    letters = infer_storage(graph, declared)
    return {"arg_dict": declared, "grad_dict": gradient_storage(graph, letters, trained)}


def _resolved(groups: Mapping[str, Context] | None) -> dict[str, Context]:
    return {name: resolve(ctx) for name, ctx in (groups or {}).items()}


def _zeros(where: str, name: str, shape: tuple[int, ...], ctx: Context, dtype: DTypeLike,
           stype: str = "default") -> NDArray:
    """Zeros for variable `name`."""
    try:
        return zeros(shape, ctx=ctx, dtype=dtype, stype=stype)
    except OutOfMemory as error:
        raise OutOfMemory(f"{where}: {name}: {error}") from None


class _Sharing:
    """Where `simple_bind` takes arrays from: another executor, a buffer by name, or fresh zeros.

    Arguments in `names` and all auxiliary states are those of `executor`; `executor` alone only
    lends its arenas.  Other arguments and gradients (as `grad of <name>`) are kept in `buffer`,
    where there is one, each as large as the largest that was ever asked for; sparse ones are fresh.
    """

    def __init__(self, contexts: Mapping[str, Context], names: Sequence[str] | None,
                 executor: ArrayTables | None, buffer: dict[str, NDArray] | None,
                 storage: Mapping[str, Mapping[str, str]]):
        self.contexts, self.names, self.buffer = contexts, set(names or ()), buffer
        self.storage = storage
        if not isinstance(buffer, (dict, type(None))):
            raise ArgumentError(f"simple_bind: shared_buffer is a {type(buffer).__name__}, "
                                "expected a dict of NDArray by name")
        shares = executor is not None and (names is not None or buffer is not None)
        self.executor = executor if shares else None

    def array(self, table: str, name: str, spec: Spec) -> NDArray:
        """The array that will be the executor's `table[name]`."""
        if table == "aux_dict" or name in self.names:
            return self._shared(table, name, *spec)
        stype = self.storage.get(table, {}).get(name, "default")
        if stype != "default":
            return _zeros("simple_bind", name, spec.shape, self.contexts[name], spec.dtype, stype)
        return self._pooled(name if table == "arg_dict" else f"grad of {name}", name, *spec)

    def _fresh(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray:
        return _zeros("simple_bind", name, shape, self.contexts[name], dtype)

    def _shared(self, table: str, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray:
        array = getattr(self.executor, table).get(name) if self.executor is not None else None
        if array is None:
            return self._fresh(name, shape, dtype)
        if array.shape != shape or array.dtype != dtype:
            raise MXNetError(f"simple_bind: {name} has shape {shape} and type {np.dtype(dtype)} "
                             f"here, but {array.shape} and {np.dtype(array.dtype)} in the shared "
                             "executor")
        return array

    def _pooled(self, key: str, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray:
        if self.buffer is None:
            return self._fresh(name, shape, dtype)
        array = self.buffer.get(key)
        if (array is None or array.dtype != dtype or array.size < size_of(shape)
                or array.context != resolve(self.contexts[name])):
            array = self.buffer[key] = self._fresh(name, shape, dtype)
        return resized(array, shape)


def resized(array: NDArray, shape: tuple[int, ...]) -> NDArray:
    """`array`'s memory under a shape that needs no more of it."""
    if array.shape == shape:
        return array
    if 0 in shape:
        return zeros(shape, ctx=array.context, dtype=array.dtype)
    return array.reshape((-1,))[:size_of(shape)].reshape(shape)


def reshape(binding: BindArguments, partial_shaping: bool, allow_up_sizing: bool,
            shapes: Mapping[str, Sequence[int]]) -> BindArguments:
    """`Executor.reshape`: arrays whose shape stays are shared, smaller ones reuse the memory.

    A change of an argument not named in `shapes` needs `partial_shaping`, a larger array needs
    `allow_up_sizing`; either missing is an MXNetError that names the argument.
    """
    shapes = {name: read_shape(name, tuple(shape) if isinstance(shape, list) else shape)
              for name, shape in shapes.items()}
    types = {name: array.dtype for name, array in binding.args.items()}
    for name in shapes:
        if name not in binding.args:
            raise MXNetError(f"reshape: unknown argument {name!r}"
                             f"{did_you_mean(name, binding.args)}")
    graph = Graph(binding.symbol.entries)
    inferred = infer_arrays(graph, shapes, types, "reshape")

    def adapt(name: str, array: NDArray, shape: tuple[int, ...]) -> NDArray:
        if array.shape == shape:
            return array
        if array.is_sparse:
            return _zeros("reshape", name, shape, array.context, array.dtype, array.stype)
        if name not in shapes and not partial_shaping:
            raise MXNetError(f"reshape: {name} would change from {array.shape} to {shape}, but is "
                             "not among the arguments given; set partial_shaping=True if this is "
                             "intended")
        if size_of(shape) <= array.size:
            return resized(array, shape)
        if not allow_up_sizing:
            raise MXNetError(f"reshape: {name} would grow from {array.shape} to {shape}; set "
                             "allow_up_sizing=True to allocate a larger array")
        return _zeros("reshape", name, shape, array.context, array.dtype)

    def adapted(arrays: Mapping[str, NDArray], specs: Mapping[str, Spec]) -> dict[str, NDArray]:
        return {name: adapt(name, array, specs[name].shape) for name, array in arrays.items()}

    args, states = (inferred.of(nodes) for nodes in (graph.arguments, graph.states))
    return binding._replace(args=adapted(binding.args, args), inferred=inferred, compiled=None,
                            grads=adapted(binding.grads, args), aux=adapted(binding.aux, states))
