"""`HybridBlock`: a block whose calls can be compiled.

Its `hybrid_forward` is called with arrays and `mx.nd`, or with symbols and `mx.sym`.  Hybridized,
it is traced once into a symbol, which runs as one operation; shapes of parameters are inferred from
that symbol, and `export` writes it.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

from .. import ndarray, symbol
from ..base import (
    AbstractError,
    ArgumentError,
    ArgumentTypeError,
    CheckError,
    DTypeArg,
    MXNetError,
    did_you_mean,
    warn_user,
)
from ..checkpoint import save_checkpoint
from ..context import Context
from ..core.fork import fresh
from ..execution.cached_op import CachedOp
from ..executor import Executor
from ..ndarray import NDArray
from ..symbol import Symbol
from .base_block import Block, hint_of_child
from .base_parameter import DeferredInitializationError, Parameter
from .call_structure import Format, agree, devices_of, facts_of, flatten, regroup
from .op_hook import OpHook
from .parameter_dict import ParameterDict
from .trace_errors import name_block
from .utils import shape_is_known

__all__ = ["HybridBlock"]

_TRACING = fresh(threading.RLock())
"""Held while a block is traced, and while shapes of parameters are inferred."""
_FLAGS = ("static_alloc", "static_shape", "inline_limit", "forward_bulk_size",
          "backward_bulk_size")
"""Options of `hybridize`."""


class _OtherTypes(Exception):
    """Parameters were cast since the trace, in which constants may have their former types."""


class HybridBlock(Block):
    """A block whose calls can be compiled: a subclass defines `hybrid_forward`.

    Parameters
    ----------
    prefix, params
        As for `Block`.

    Examples
    --------
    >>> class Square(mx.gluon.HybridBlock):
    ...     def hybrid_forward(self, F, x):
    ...         return F.square(x)
    >>> net = Square()
    >>> net.hybridize()
    >>> net(mx.nd.array([2, 3])).asnumpy().tolist(), net(mx.sym.var("x")).list_arguments()
    ([4.0, 9.0], ['x'])
    """

    def __init__(self, prefix: str | None = None, params: ParameterDict | None = None,
                 **unknown: Any):
        super().__init__(prefix, params, **unknown)
        self._active = False
        self._flags: list[tuple[str, bool | int]] = []
        self._in_format: Format | None = None
        self._out_format: Format | None = None
        self._cached_graph: tuple[()] | tuple[list[Symbol], Symbol] = ()
        self._cached_op: CachedOp | None = None
        self._op_hook: OpHook | None = None
        self._traced_by: list[weakref.ref[HybridBlock]] = []

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if isinstance(value, HybridBlock):
            self._change()

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_cached_graph": (), "_cached_op": None, "_traced_by": []}

    def _clear_cached_op(self) -> None:
        """Forget the trace: the next call makes a new one."""
        self._cached_graph, self._cached_op = (), None

    def _change(self) -> None:
        """Forget the traces that this block is part of: it is another one from now on."""
        changed = [self]
        while changed:
            block = changed.pop()
            block._clear_cached_op()
            changed += [each for ref in block._traced_by if (each := ref()) is not None]
            block._traced_by = []

    def register_child(self, block: Block, name: str | None = None) -> None:
        """Add a child, which must be a `HybridBlock`.

        Parameters
        ----------
        block : HybridBlock
            Child.
        name : str, optional
            Its name in paths; its number by default.

        Raises
        ------
        ValueError
            If it is another kind of block.
        """
        if not isinstance(block, HybridBlock):
            hint = (". If you are using Sequential, please try HybridSequential instead."
                    if isinstance(block, Block) else hint_of_child(block, "HybridLambda"))
            raise ArgumentError("Children of HybridBlock must also be HybridBlock, but "
                                f"{block!r} has type {type(block)}{hint}")
        super().register_child(block, name)
        self._change()

    def hybridize(self, active: bool = True, backend: str | None = None, clear: bool = True,
                  static_alloc: bool = False, static_shape: bool = False, inline_limit: int = 2,
                  forward_bulk_size: int | None = None, backward_bulk_size: int | None = None,
                  **kwargs: Any) -> None:
        """Compile the calls of this block, and those of blocks within it that are called alone.

        Parameters
        ----------
        active : bool, default True
            Whether to do so, or no longer.
        backend : str, optional
            Accepted for compatibility: None or 'MKLDNN', which change nothing.
        clear : bool, default True
            Whether to forget the trace.
        static_alloc, static_shape : bool, default False
            Accepted for compatibility: memory is planned once in any case.
        inline_limit : int, default 2
            Networks of at most as many operators run operator by operator.
        forward_bulk_size, backward_bulk_size : int, optional
            Have no effect.
        **kwargs
            Options of the back end, which have no effect.
        """
        _require_backend(backend)
        for name in kwargs if backend is None else ():
            warn_user(f"hybridize: {name} has no effect{did_you_mean(name, _FLAGS)}")
        if active and (self._forward_hooks or self._forward_pre_hooks):
            warn_user(f'"{self!r}" is being hybridized while still having forward hook/pre-hook. '
                      f'If "{self!r}" is a child of HybridBlock, the hooks will not take effect.')
        self._active = active
        self._flags = [("static_alloc", static_alloc), ("static_shape", static_shape),
                       ("inline_limit", inline_limit)]
        if clear:
            self._clear_cached_op()
        super().hybridize(active, backend=backend, clear=clear, static_alloc=static_alloc,
                          static_shape=static_shape, inline_limit=inline_limit,
                          forward_bulk_size=forward_bulk_size,
                          backward_bulk_size=backward_bulk_size, **kwargs)

    def cast(self, dtype: DTypeArg) -> None:
        """Change the element type of the parameters of this block and of all within it.

        Parameters
        ----------
        dtype : dtype
            Element type.
        """
        self._change()
        super().cast(dtype)

    # -- calls ------------------------------------------------------------------------------------

    def forward(self, x: Any, *args: Any) -> Any:
        """Compute the outputs for arrays, or compose a symbol for symbols.

        Parameters
        ----------
        x, *args : NDArray or Symbol
            Arguments of `hybrid_forward`.
        """
        contexts = devices_of((x, *args))
        if not contexts:
            return self._compose(x, *args)
        if self._active:
            if len(contexts) > 1:
                raise ArgumentError("Find multiple contexts in the input, After hybridized, the "
                                    "HybridBlock only supports one input context. All contexts: "
                                    f"{contexts}")
            with contexts[0]:
                return self._call_cached_op(x, *args)
        with contexts[0] as ctx:
            try:
                own = self._own_arrays(ctx)
            except DeferredInitializationError:
                self._finish_deferred(x, *args)
                own = self._own_arrays(ctx)
            try:
                return self.hybrid_forward(ndarray, x, *args, **own)
            except (MXNetError, TypeError) as error:
                name_block(error, self, "arrays")
                raise

    def _own_arrays(self, ctx: Context) -> dict[str, NDArray]:
        return {name: each.data(ctx) for name, each in self._reg_params.items()}

    def _compose(self, *args: Any) -> Any:
        """Call `hybrid_forward` with symbols, in the scope of this block."""
        own = {name: each.var() for name, each in self._reg_params.items()}
        with self.name_scope():
            return self.hybrid_forward(symbol, *args, **own)

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N803
        """Compute the outputs: a subclass defines it.

        Parameters
        ----------
        F : module
            `mx.nd` for arrays, `mx.sym` for symbols.
        x, *args : NDArray or Symbol
            Arguments of the call.
        **kwargs : NDArray or Symbol
            The block's own parameters by attribute.
        """
        raise AbstractError(f"{type(self).__name__} defines no hybrid_forward(self, F, x, ...); a "
                            "HybridBlock needs it")

    # -- traces -----------------------------------------------------------------------------------

    def _get_graph(self, *args: Any) -> tuple[list[Symbol], Symbol]:
        """Inputs and outputs of this block as a symbol, of which there is one."""
        if self._cached_graph:
            return self._cached_graph
        with _TRACING:
            flat, self._in_format = flatten(args, "input")
            count = sum(each is not None for each in flat)
            names = ["data"] if count == 1 else [f"data{number}" for number in range(count)]
            inputs = [symbol.var(name) for name in names]
            try:
                outputs = self._compose(*regroup(inputs, self._in_format))
            except Exception as error:
                name_block(error, self, "symbols")
                raise
            self.apply(self._tell_trace)
            results, self._out_format = flatten(outputs, "output")
            present = [each for each in results if each is not None]
            if not present:
                raise ArgumentTypeError(f"hybrid_forward of {self.name}, a {type(self).__name__}, "
                                        f"returned {outputs!r}, expected its results")
            self._cached_graph = inputs, (present[0] if len(present) == 1
                                          else symbol.Group(present))
            return self._cached_graph

    def _tell_trace(self, part: Block) -> None:
        """Let a block within this one know that this has been traced."""
        if part is not self and isinstance(part, HybridBlock):
            part._traced_by = [each for each in part._traced_by if each() not in (None, self)]
            part._traced_by.append(weakref.ref(self))

    def _call_cached_op(self, *args: Any) -> Any:
        call = self._cached_op
        if call is None:
            with _TRACING:
                call = self._cached_op = self._cached_op or self._new_cached_op(*args)
        flat, form = flatten(args, "input")
        if self._in_format is None or not agree(form, self._in_format):
            raise ArgumentError("The argument structure of HybridBlock does not match the cached "
                                f"version. Stored format = {self._in_format}, input format = "
                                f"{form}; hybridize() again for another structure")
        arrays = [each for each in flat if each is not None]
        try:
            outputs = call(*arrays)
        except DeferredInitializationError:
            self._finish_deferred(*args)
            outputs = call(*arrays)
        except _OtherTypes:
            outputs = None
        if outputs is None:
            self._change()
            return self._call_cached_op(*args)
        if self._out_format == 0:
            return outputs
        assert self._out_format is not None
        return regroup([outputs] if isinstance(outputs, NDArray) else outputs, self._out_format)

    @property
    def executor(self) -> Executor | None:
        """That of the last hybridized call, for ``executor.debug_str()`` and ``explain``.

        None before the first, and for networks that run operator by operator.
        """
        return None if self._cached_op is None else self._cached_op.executor

    def register_op_hook(self, callback: Callable[[bytes, bytes, NDArray], object],
                         monitor_all: bool = False) -> None:
        """Call a function for each array that operators of hybridized calls compute.

        Parameters
        ----------
        callback : callable
            Takes the names of the array and of the operator, as bytes, and the array.
        monitor_all : bool, default False
            Whether inputs of operators are shown, too.
        """
        super().register_op_hook(callback, monitor_all)
        self._op_hook = OpHook(callback, monitor_all)
        if self._cached_op is not None and self._cached_graph:
            self._op_hook.watch(self._cached_op, self._cached_graph[1])

    def optimize_for(self, x: Any, *args: Any, backend: str | None = None, clear: bool = False,
                     **kwargs: Any) -> None:
        """Hybridize for a back end, and call once.

        Parameters
        ----------
        x, *args : NDArray
            Arguments of the call.
        backend : str
            'MKLDNN', which changes nothing; nbmod has no others.
        clear : bool, default False
            Whether to forget the trace first.
        **kwargs
            Further arguments of `hybridize`.

        Raises
        ------
        ValueError
            Without a back end.
        """
        if not backend:
            raise ArgumentError('Must specify "backend" to optimize_for; nbmod accepts "MKLDNN", '
                                "which changes nothing")
        self.hybridize(True, backend=backend, clear=clear, **kwargs)
        self(x, *args)

    def _new_cached_op(self, *args: Any) -> CachedOp:
        inputs, outputs = self._get_graph(*args)
        names = [each.name or "" for each in inputs]
        parameters = self.collect_params()
        used = {*outputs.list_inputs()}
        if unknown := used - {*names} - {*parameters}:
            raise CheckError(f"Unknown input to HybridBlock: {sorted(unknown)}; {self.name} has no "
                             "such parameters: are they of blocks that are no children, or not "
                             "made by self.params.get?")
        if ignored := [f"{position}-th" for position, name in enumerate(names) if name not in used]:
            warn_user(f"The {', '.join(ignored)} input to HybridBlock is not used by any "
                      f"computation. Is this intended?")
        if unused := sorted({*parameters} - used):
            warn_user(f"Parameter {', '.join(unused)} is not used by any computation. Is this "
                      "intended?")
        own = {name: each for name, each in parameters.items() if name in used}
        computed = {name: each.data for name, each in own.items() if each._is_computed}
        types = {name: each.dtype for name, each in own.items()}

        def arrays(ctx: Context) -> dict[str, NDArray]:
            if any(each.dtype != types[name] for name, each in own.items()):
                raise _OtherTypes
            return {name: each.data(ctx) for name, each in own.items() if name not in computed}

        call = CachedOp(outputs, self._flags, names, arrays, computed)
        for parameter in own.values():
            parameter._users.add(call)
        if self._op_hook is not None:
            self._op_hook.watch(call, outputs)
        return call

    # -- inference --------------------------------------------------------------------------------

    def _finish_deferred(self, *args: Any) -> None:
        """Initialize the parameters whose shapes the arguments tell."""
        with _TRACING:
            self._deferred_infer_shape(*args)
            parameters = self.collect_params()
            own = [] if self._active else [each.name for each in self._reg_params.values()]
            used = [name for name in self._get_graph(*args)[1].list_inputs() if name in parameters]
            for name in dict.fromkeys([*own, *used, *parameters]):  # in the order of MXNet's draws
                if shape_is_known(parameters[name].shape):
                    parameters[name]._finish_deferred_init()

    def _deferred_infer_shape(self, *args: Any) -> None:
        try:
            self.infer_shape(*args)
        except Exception as error:
            raise ArgumentError("Deferred initialization failed because shape cannot be inferred. "
                                f"{error}") from error

    def infer_shape(self, *args: Any) -> None:
        """Find the shapes of the parameters, without computing outputs.

        Parameters
        ----------
        *args : NDArray
            Arguments of a call, of which only the shapes are used.

        Raises
        ------
        ValueError
            If they do not follow.
        """
        inputs, outputs = self._get_graph(*args)
        shapes = facts_of(inputs, args, outputs, "shape")
        arguments, _, states = outputs.infer_shape_partial(**shapes)
        for parameter, shape in self._each_used(outputs, [*arguments, *states]):
            if not shape_is_known(shape or (0,)):
                raise ArgumentError(f"the shape of parameter {parameter.name} is {shape} for "
                                    f"inputs {shapes}; give in_units, in_channels and so on")
            parameter.shape = shape

    def infer_type(self, *args: Any) -> None:
        """Find the element types of the parameters, without computing outputs.

        Parameters
        ----------
        *args : NDArray
            Arguments of a call, of which only the types are used.
        """
        inputs, outputs = self._get_graph(*args)
        types = facts_of(inputs, args, outputs, "dtype")
        arguments, _, states = outputs.infer_type_partial(**types)
        for parameter, dtype in self._each_used(outputs, [*arguments, *states]):
            if dtype is not None:
                parameter.dtype = dtype

    def _each_used(self, outputs: Symbol, facts: list[Any]) -> list[tuple[Parameter, Any]]:
        """Parameters of the symbol, and what is known of their arrays."""
        names = [*outputs.list_arguments(), *outputs.list_auxiliary_states()]
        parameters = self.collect_params()
        return [(parameters[name], fact) for name, fact in zip(names, facts, strict=True)
                if name in parameters]

    # -- files ------------------------------------------------------------------------------------

    def export(self, path: str, epoch: int = 0, remove_amp_cast: bool = True) -> None:
        """Write the symbol and the parameters to files, which `Module.load` and MXNet read.

        Parameters
        ----------
        path : str
            Beginning of the names of the files: ``path-symbol.json`` and ``path-0000.params``.
        epoch : int, default 0
            Number in the name of the file of the parameters.
        remove_amp_cast : bool, default True
            Whether to leave out the casts that automatic mixed precision inserted.

        Raises
        ------
        RuntimeError
            Before the first hybridized call.
        """
        if not self._cached_graph:
            raise MXNetError("Please first call block.hybridize() and then run forward with this "
                             "block at least once before calling export.")
        network = self._cached_graph[1]
        parameters = self.collect_params()

        def arrays(names: list[str]) -> dict[str, NDArray]:
            return {name: each._reduce() for name, each in parameters.items() if name in names}

        save_checkpoint(path, epoch, network, arrays(network.list_arguments()),
                        arrays(network.list_auxiliary_states()), remove_amp_cast)

    def _saved_trace(self) -> dict[str, Any]:
        """Entries of `save` about calls."""
        trace: dict[str, Any] = {}
        if self._cached_graph:
            inputs, outputs = self._cached_graph
            trace = {"in_format": self._in_format, "out_format": self._out_format,
                     "inputs": [each.tojson() for each in inputs], "symbol": outputs.tojson()}
        return {**trace, "hybridized": bool(trace)}

    def _restore_trace(self, entry: dict[str, Any]) -> None:
        """Take what `_saved_trace` returned."""
        self._clear_cached_op()
        self._active = entry["hybridized"]
        if "symbol" in entry:
            self._in_format, self._out_format = entry["in_format"], entry["out_format"]
            self._cached_graph = ([symbol.load_json(each) for each in entry["inputs"]],
                                  symbol.load_json(entry["symbol"]))


def _require_backend(backend: str | None) -> None:
    if backend not in (None, "MKLDNN"):
        raise MXNetError(f"hybridize: backend is {backend!r}, expected None or 'MKLDNN': nbmod has "
                         "no other back ends")

