"""The executor: a compiled graph, arrays, and a loop.

Everything that is decided when a symbol is bound is in the executor's `CompiledGraph`, which
`execution.pipeline` makes: graph, shapes, types, devices, order, memory plan.  `Executor` adds the
arrays.  Arguments, gradients and auxiliary states are NDArrays the user can see.  Intermediate
tensors are in arenas (`execution.arena`), one for each context, which executors of one model share.
Outputs have buffers of their own, stable for the executor's lifetime and overwritten by its next
`forward`.

`forward` and `backward` call the steps of their part of the graph in order
(`execution.steps.run_steps`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cached_property, partial
from typing import TYPE_CHECKING, ClassVar
from weakref import WeakValueDictionary

import numpy as np

from .base import ArgumentError, MXNetError, OutOfMemory
from .collector import without_collector
from .config import CONFIG, is_exact
from .context import Context
from .execution.arena import Arena, DeviceArray, Memory
from .execution.bind import BindArguments, reshape
from .execution.call_arguments import copy_parameters, load_arguments, load_head_gradients
from .execution.compile_ahead import announce
from .execution.debug import PlanChart, debug_str, plan_chart
from .execution.derived_constants import DerivedConstants, derive
from .execution.first_answers import first_answers
from .execution.pipeline import CompileOptions, compile_graph
from .execution.sanitizer import checks
from .execution.step_monitor import MonitorCallback, StepMonitor
from .execution.steps import BoundGraph, Modes, States, Step, StepWatcher, run_steps, run_watched
from .ndarray import NDArray, mutation
from .ops.device import device_of
from .ops.jit import denormals, has_compiler
from .ops.op import Mode
from .reprs import safe_repr, shaped

if TYPE_CHECKING:
    from os import PathLike

    from .base import Array
    from .symbol import Symbol
    from .symbol.symbol import Arrays

__all__ = ["Executor"]
__dir__ = __all__.copy


class Executor:
    """A symbol bound to arrays, ready to compute.

    Executors are created by `Symbol.bind` and `Symbol.simple_bind`.

    Parameters
    ----------
    given : BindArguments
        The network, its arrays by name, and where to compute.
    shared : Executor, optional
        An executor whose memory for intermediate results is shared.
    states : dict, optional
        What nodes keep between runs, if that is shared, too.
    optimize : bool, default True
        Whether passes may change the graph; else every node of the symbol runs by itself.
    numpy_forms : bool, default False
        Whether nodes run with NumPy; no kernel is called then.

    Attributes
    ----------
    arg_dict, grad_dict, aux_dict : dict of str to NDArray
        Arguments, their gradients (None for those without) and auxiliary states by name.
    outputs : list of NDArray
        In the order of the symbol's `list_outputs`.
    compiled : CompiledGraph
        What runs, and where its arrays are.
    watchers : list of StepWatcher
        Called before and after every step.

    Examples
    --------
    >>> import nbmod as mx
    >>> x = mx.sym.Variable("x")
    >>> exe = (x * x).simple_bind(mx.cpu(), x=(3,))
    >>> exe.forward(is_train=True, x=mx.nd.array([1, 2, 3]))[0].asnumpy().tolist()
    [1.0, 4.0, 9.0]
    >>> exe.backward(mx.nd.ones((3,)))
    >>> exe.grad_dict["x"].asnumpy().tolist()
    [2.0, 4.0, 6.0]
    """

    is_planned: ClassVar[bool] = True
    """Whether one `CompiledGraph` is all that runs: not with sparse arrays."""
    profiler: ClassVar[StepWatcher | None] = None
    """Watches the steps of all executors while the profiler runs."""

    @without_collector()
    def __init__(self, given: BindArguments, shared: Executor | None = None,
                 states: States | None = None, optimize: bool = True, numpy_forms: bool = False):
        if not has_compiler():
            optimize, numpy_forms = False, True
        self._given = given if given.exact is not None else given._replace(exact=is_exact())
        self.arg_dict, self.aux_dict = dict(given.args), dict(given.aux)
        self.grad_dict = {name: given.grads.get(name) for name in given.args}
        with self._explained():
            compiled = self.compiled = compile_graph(given.inferred, self._options(optimize))
        if CONFIG.debug:
            print(f"bind {given.symbol.name}: {len(compiled.nodes)} steps, {sum(compiled.sizes):,} "
                  f"bytes of entries in {compiled.plan.total_bytes:,} bytes")
        self._constant_cache: MutableMapping[tuple[Hashable, ...], DerivedConstants] = (
            WeakValueDictionary() if shared is None else shared._constant_cache)
        self.arenas: dict[Context, Arena] = {} if shared is None else shared.arenas
        with self._explained():
            self._head_arrays, self._external = self._external_arrays()
            self.constants = derive(self._constant_cache, compiled, self._external,
                                    bool(self._given.exact))
            self._memory = Memory(compiled.plan, compiled.spaces, self.arenas)
        self._modes, self._states = Modes(Mode(), Mode()), {} if states is None else states
        self._bound: BoundGraph | None = None
        self._checks: Sequence[StepWatcher] = ()
        self._monitor: StepWatcher | None = None
        self.watchers: list[StepWatcher] = []
        self._written: dict[bool, list[int]] = {}
        self._deputy: Executor | None = None
        self._numpy_forms = numpy_forms
        self._first = None if numpy_forms else first_answers(self._given, compiled)
        self._backward_runs: int | None = None
        self.outputs: list[NDArray] = []
        self._materialize()
        if not numpy_forms:
            announce(self)

    @safe_repr
    def __repr__(self) -> str:
        symbol = self._given.symbol
        inputs = shaped((name, array.shape) for name, array in self.arg_dict.items())
        outputs = shaped((name, array.shape) for name, array in
                         zip(symbol.list_outputs(), self.outputs, strict=False))
        text = f"<{type(self).__name__} {symbol.name or 'of a group'} on {self._given.ctx}: " + (
            f"{inputs} -> {outputs}")
        if not self.is_planned:
            return f"{text}>"
        return (f"{text}\n {len(self.compiled.nodes)} steps, {self.compiled.plan.total_bytes:,} "
                "bytes of memory for results>")

    # -- arrays ------------------------------------------------------------------------------

    def _options(self, optimize: bool) -> CompileOptions:
        given = self._given
        return CompileOptions(
            given.ctx, given.requests,
            {name: array.context for name, array in (*given.args.items(), *given.aux.items())},
            {name: array.context for name, array in given.grads.items()}, given.groups,
            bool(given.exact), optimize)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Memory that cannot be had is an OutOfMemory that names the largest tensor."""
        try:
            yield
        except MemoryError as error:
            graph, specs = self._given.inferred
            node, spec = max(((node, specs[eid]) for node in graph.nodes for eid
                              in graph.output_eids(node)), key=lambda found: found[1].nbytes)
            raise OutOfMemory(f"bind: {error}; the largest tensor is that of {node.describe()}: "
                              f"shape {spec.shape}, {spec.nbytes >> 20:,} MiB") from None

    def _external_arrays(self) -> tuple[dict[int, NDArray], dict[int, DeviceArray]]:
        """Head gradients by position of the output, and the memory of all external entries."""
        compiled, arrays = self.compiled, {**self.arg_dict, **self.aux_dict}
        heads, external = {}, {}
        positions = {id(node): position for position, node in enumerate(compiled.heads)}
        for node in compiled.graph.variables:
            eid = compiled.graph.output_eids(node)[0]
            if id(node) in positions:
                ctx = compiled.devices[eid]
                head = heads[positions[id(node)]] = NDArray(
                    device_of(ctx).empty(*compiled.specs[eid]), ctx)
                external[eid] = head._data
            else:
                external[eid] = arrays[node.name]._data
        for eid, name in compiled.gradients.items():
            external[eid] = self._given.grads[name]._data
        return heads, external

    def _materialize(self) -> BoundGraph:
        """Turn the plan into arrays and the nodes into functions."""
        compiled = self.compiled
        with self._explained():
            self._memory.reserve(self)
        bound = self._bound = BoundGraph(compiled, self._memory, self._external, self._modes,
                                         self._states, self._numpy_forms)
        shown = compiled.graph.output_ids[:len(self._given.inferred.graph.outputs)]
        self._checks = checks(bound, set(shown) - set(compiled.external))
        results = [NDArray(bound.arrays[eid], compiled.devices[eid]) for eid in shown]
        for old, new in zip(self.outputs, results, strict=False):
            old._data = new._data
        self.outputs = self.outputs or results
        return bound

    def renew_outputs(self) -> None:
        """Leave the arrays in `outputs` to those who have them, and make new ones."""
        self._memory.renew()
        self.outputs = []
        self._written.clear()
        self._materialize()

    def release(self) -> None:
        """Release the memory for intermediate results; the next run allocates it again."""
        self._bound, self._checks = None, ()

    @property
    def _symbol(self) -> Symbol:
        """The network; scripts for MXNet read it."""
        return self._given.symbol

    @property
    def _ctx(self) -> Context:
        """The context; scripts for MXNet read it."""
        return self._given.ctx

    @property
    def steps(self) -> list[Step]:
        """The nodes on their arrays, in the order in which they run."""
        return (self._bound or self._materialize()).steps

    @property
    def arena(self) -> Arena:
        """The memory for intermediate results on the executor's own context."""
        return self.arenas[self._given.ctx]

    @property
    def arg_arrays(self) -> list[NDArray]:
        """Arguments, in the order of `list_arguments`."""
        return list(self.arg_dict.values())

    @property
    def grad_arrays(self) -> list[NDArray | None]:
        """Gradients of the arguments; None for those without."""
        return list(self.grad_dict.values())

    @property
    def aux_arrays(self) -> list[NDArray]:
        """Auxiliary states, in the order of `list_auxiliary_states`."""
        return list(self.aux_dict.values())

    @property
    def output_dict(self) -> dict[str, NDArray]:
        """Outputs by name; ArgumentError if several have the same name."""
        names = self._given.symbol.list_outputs()
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ArgumentError(f"output_dict: several outputs are called {twice}; use outputs")
        return dict(zip(names, self.outputs, strict=True))

    def copy_params_from(self, arg_params: Mapping[str, NDArray],
                         aux_params: Mapping[str, NDArray] | None = None,
                         allow_extra_params: bool = False) -> None:
        """Copy parameters by name into the arrays bound.

        Parameters
        ----------
        arg_params : dict of str to NDArray
            Values of arguments; cast to the types bound.
        aux_params : dict of str to NDArray, optional
            Values of auxiliary states.
        allow_extra_params : bool, default False
            Whether names that the symbol does not have are ignored.

        Raises
        ------
        ArgumentError
            If a name is unknown and `allow_extra_params` is False.
        MXNetError
            If a shape differs from that bound.

        Examples
        --------
        >>> import nbmod as mx
        >>> exe = (mx.sym.Variable("a") * 2).simple_bind(mx.cpu(), a=(2,))
        >>> exe.copy_params_from({"a": mx.nd.array([3, 4]), "b": mx.nd.ones((1,))},
        ...                      allow_extra_params=True)
        >>> exe.arg_dict["a"].asnumpy().tolist()
        [3.0, 4.0]
        """
        for given, bound, kind in ((arg_params, self.arg_dict, "arguments"),
                                   (aux_params or {}, self.aux_dict, "auxiliary states")):
            copy_parameters(given, bound, kind, allow_extra_params)

    # -- running -----------------------------------------------------------------------------

    def forward(self, is_train: bool = False, **kwargs: NDArray | Array) -> list[NDArray]:
        """Compute the outputs.

        Parameters
        ----------
        is_train : bool, default False
            Whether ops such as Dropout and BatchNorm work as in training. Needed before
            `backward`.
        **kwargs
            Values for arguments by name, NDArrays or numpy arrays, which are copied into the bound
            arrays first. Shapes must be those bound; see `reshape` for others.

        Returns
        -------
        list of NDArray
            `outputs`, the same arrays at each call; copy those to be kept.

        Raises
        ------
        MXNetError
            If a name is not an argument.
        ArgumentError
            If a value is not an array or has another shape than that bound.

        Examples
        --------
        >>> import nbmod as mx
        >>> a, b = mx.sym.Variable("a"), mx.sym.Variable("b")
        >>> exe = (a + b).bind(mx.cpu(), {"a": mx.nd.ones((2,)), "b": mx.nd.ones((2,))})
        >>> exe.forward()[0].asnumpy().tolist()
        [2.0, 2.0]
        >>> exe.forward(b=mx.nd.array([10, 20]))[0].asnumpy().tolist()
        [11.0, 21.0]
        """
        if kwargs:
            load_arguments(self.arg_dict, kwargs)
        self._deputy = self._unsimplified_for(bool(is_train))
        trains = is_train and not self.compiled.heads
        if self._first is not None and self._deputy is None and not trains:
            self._begin(bool(is_train))
        else:
            (self._deputy or self)._forward(bool(is_train))
        if self._deputy is not None:
            for mine, other in zip(self.outputs, self._deputy.outputs, strict=True):
                other.copyto(mine)
        return self.outputs

    def backward(self, out_grads: NDArray | Arrays | None = None, is_train: bool = True) -> None:
        """Compute the gradients of the last `forward`, into `grad_arrays`.

        With ``grad_req="write"`` they overwrite these arrays, with ``"add"`` they are added.

        Parameters
        ----------
        out_grads : NDArray, list or dict of NDArray, optional
            Gradients of a loss with respect to the outputs: that of a single output, one for each,
            or by name of the output. Outputs that are losses, such as that of `SoftmaxOutput`,
            need none.
        is_train : bool, default True
            Whether ops work as in training.

        Raises
        ------
        MXNetError
            If `forward` has not been called, its intermediate results have been overwritten, or
            a gradient is missing or has another shape than its output.

        Examples
        --------
        >>> import nbmod as mx
        >>> exe = mx.sym.exp(mx.sym.Variable("x")).simple_bind(mx.cpu(), x=(2,), grad_req="add")
        >>> for _ in range(2):
        ...     out = exe.forward(is_train=True)
        ...     exe.backward([mx.nd.array([1, 10])])
        >>> exe.grad_arrays[0].asnumpy().tolist()
        [2.0, 20.0]
        """
        if self.compiled.heads:
            (self._deputy or self)._backward(out_grads, bool(is_train))

    def _begin(self, is_train: bool) -> None:
        """A forward pass, possibly with NumPy forms."""
        assert self._first is not None
        ran = self._first.forward(self, is_train)
        self._deputy = None if ran is self else ran
        if self._first.is_over:
            self._first = None
            self.__dict__.pop("in_numpy", None)

    def _unsimplified_for(self, is_train: bool) -> Executor | None:
        """`unsimplified`, if this graph lacks what a monitor wants to see or training needs."""
        compiled = self.compiled
        if self._monitor is not None:
            optimized = bool(compiled.is_simplified or compiled.notes)
        else:
            optimized = compiled.is_simplified and is_train and not compiled.heads
        if not optimized:
            return None
        self.unsimplified._monitor = self._monitor
        return self.unsimplified

    @cached_property
    def unsimplified(self) -> Executor:
        """An executor of the same arrays that runs every node of the symbol by itself.

        It is bound when it is first needed: by a monitor, or by ``forward(is_train=True)`` of an
        executor without gradients.
        """
        return Executor(self._given, self, self._states, optimize=False)

    @cached_property
    def in_numpy(self) -> Executor:
        """The same, running the NumPy forms of nodes: no kernels are needed."""
        return Executor(self._given, self, self._states, optimize=False, numpy_forms=True)

    def _forward(self, is_train: bool) -> None:
        for constants in self.constants:
            if constants.stale:
                with denormals(bool(self._given.exact)):  # as if they were steps
                    constants.refresh()
        self._modes.current.is_train = self._modes.recomputed.is_train = is_train
        self._backward_runs = None
        self._run(0, self.compiled.num_forward)
        self._backward_runs = 0

    def _backward(self, out_grads: NDArray | Arrays | None, is_train: bool) -> None:
        self._require_values()
        if self._head_arrays or out_grads is not None:
            load_head_gradients(self._head_arrays, self._given.symbol.list_outputs(), out_grads)
        self._modes.current.is_train = is_train
        self._run(self.compiled.num_forward, len(self.compiled.nodes))
        self._backward_runs = 1

    def _run(self, first: int, last: int) -> None:
        """Call the steps from `first` to `last`."""
        bound = self._bound or self._materialize()
        self._memory.own(self)
        watchers = [one for one in (self._monitor, *self._checks, *self.watchers, Executor.profiler)
                    if one is not None]
        run = partial(run_watched, watchers) if watchers else run_steps
        try:
            # Infinity and NaN are results, not events.
            flushes = nullcontext() if self._numpy_forms else denormals(bool(self._given.exact))
            with flushes, np.errstate(all="ignore"):
                run(bound, first, last)
        finally:
            if mutation.is_watched():
                mutation.written_owners(self._written_owners(bound, self._modes.current.is_train))

    def _written_owners(self, bound: BoundGraph, is_train: bool) -> list[int]:
        """Owners of the memory that a run writes to and others may read: found when asked."""
        if is_train not in self._written:
            graph = self.compiled.graph
            writers = [node for node in self.compiled.nodes
                       if node.op and node.op.writes_aux(is_train)]
            read = {eid for node in writers for eid in graph.input_eids(node)}
            eids = read.intersection(self.compiled.external).union(graph.output_ids)
            self._written[is_train] = [id(mutation.owner(bound.arrays[eid])) for eid in eids]
        return self._written[is_train]

    def _require_values(self) -> None:
        """The results of forward that backward reads must still be in memory."""
        again = "call forward(is_train=True) again before backward"
        if self._backward_runs is None:
            raise MXNetError("backward: call forward(is_train=True) first")
        if not self._memory.is_owned_by(self):
            raise MXNetError("backward: another executor that shares this one's memory was bound "
                             f"or ran since forward, so its intermediate results are lost; {again}")
        if self._backward_runs and not self.compiled.repeats_backward:
            raise MXNetError("backward: intermediate results are overwritten once they are no "
                             f"longer needed, so it runs once for each forward; {again}")

    # -- looking at it ------------------------------------------------------------------------

    def set_monitor_callback(self, callback: MonitorCallback | None,
                             monitor_all: bool = False) -> None:
        """Observe the arrays that the network computes.

        The network then runs op by op, without fusion, and slower.

        Parameters
        ----------
        callback : callable or None
            Called as ``callback(name, array)`` after each op; None ends the observation.
        monitor_all : bool, default False
            Whether it is called with the inputs of each op, too.

        Examples
        --------
        >>> import nbmod as mx
        >>> net = mx.sym.relu(mx.sym.Variable("x"), name="act")
        >>> exe = net.bind(mx.cpu(), {"x": mx.nd.array([-1, 1])})
        >>> exe.set_monitor_callback(lambda name, array: print(name, array.asnumpy().tolist()))
        >>> out = exe.forward()
        act_output [0.0, 1.0]
        """
        if not (callback is None or callable(callback)):
            raise TypeError(f"set_monitor_callback: callback is a {type(callback).__name__}, "
                            "expected a function of a name and an NDArray")
        self._monitor = None if callback is None else StepMonitor(callback, monitor_all)

    def reshape(self, partial_shaping: bool = False, allow_up_sizing: bool = False,
                **shapes: tuple[int, ...]) -> Executor:
        """Create an executor for other input shapes.

        It shares arrays whose shapes stay, and memory for intermediate results, with this one;
        arrays that become smaller reuse the memory of the larger ones.

        Parameters
        ----------
        partial_shaping : bool, default False
            Whether the shapes of arguments that are not given may change.
        allow_up_sizing : bool, default False
            Whether arrays may become larger than they are, which allocates new ones.
        **shapes : tuple of int
            New shapes by name of the argument.

        Returns
        -------
        Executor
            The new executor.

        Raises
        ------
        MXNetError
            If a name is not an argument, or a shape would change or grow that must not.

        Examples
        --------
        >>> import nbmod as mx
        >>> net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="fc")
        >>> exe = net.simple_bind(mx.cpu(), data=(8, 5))
        >>> small = exe.reshape(data=(2, 5))
        >>> small.outputs[0].shape, small.arg_dict["fc_weight"] is exe.arg_dict["fc_weight"]
        ((2, 3), True)
        """
        bound = self._given._replace(args=self.arg_dict, aux=self.aux_dict)
        reshaped = type(self)(reshape(bound, partial_shaping, allow_up_sizing, shapes), self)
        reshaped._monitor = self._monitor
        return reshaped

    def get_optimized_symbol(self) -> Symbol:
        """Return the symbol that was bound.

        MXNet's subgraph back ends (`optimize_for`) rewrite the symbol before it is bound; nbmod's
        passes rewrite its graph afterwards, which `debug_str` shows.

        Returns
        -------
        Symbol
            The symbol.
        """
        return self._given.symbol

    def debug_str(self) -> str:
        """Describe the execution plan.

        Returns
        -------
        str
            A table of the steps, their arrays and their addresses in memory, and the total.
        """
        first = None if self._first is None else self._first.note
        if not has_compiler():
            first = "Runs NumPy forms, node by node: there is no compiler"
        notes = [getattr(watcher, "notes", {}) for watcher in self.watchers]
        return debug_str(self.compiled, self._given.symbol.list_outputs(), first, notes)

    def plan_chart(self, path: str | PathLike[str] | None = None) -> PlanChart:
        """Draw the memory plan as an SVG image: steps on the x-axis, addresses on the y-axis.

        Notebooks show the result as a picture.

        Parameters
        ----------
        path : str or path, optional
            File that the image is written to.

        Returns
        -------
        PlanChart
            The image as SVG text, a str.
        """
        return plan_chart(self.compiled, self._given.symbol.name or "graph", path)
