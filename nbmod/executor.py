"""The executor: a recipe and a loop.

`Executor.__init__` is the recipe.  Each line finds one fact about the graph, and a reader can stop
after any of them and print it:

    symbol  its graph, shapes and types
    lean    the same graph, in inference with less to do
    graph   forward and gradient nodes in one graph, and copies between devices
    shape   of every entry          dtype   of every entry          context of every entry
    fused   the same graph, chains of elementwise nodes being one node each
    bodies  the programs of nodes that run graphs of their own (`execution.subgraph_executor`)
    derived values that follow from parameters alone (see `execution.derived_constants`)
    plan    where every other entry lives
    memory  the bytes themselves    steps   functions without arguments, ready to call

`forward` and `backward` are the loop: they call the prepared steps of their half in order.
Nothing is inferred, allocated or decided while it runs.

Memory.  Arguments, gradients and auxiliary states are NDArrays the user can see.  Intermediate
tensors live in arenas (`execution.arena`), one for each context, which executors of one model
share.  Outputs have buffers of their own, stable for the executor's lifetime and overwritten by its
next `forward`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from functools import cached_property
from operator import itemgetter
from typing import Any, ClassVar
from weakref import WeakValueDictionary

import numpy as np

from .base import MXNetError, OutOfMemory
from .config import CONFIG, is_exact
from .context import Context, resolve
from .execution.arena import Arena, Memory
from .execution.bound_arrays import BoundArrays
from .execution.compile_ahead import announce
from .execution.debug import named_inputs, named_outputs
from .execution.derived_constants import Derived, derive
from .execution.sanitizer import Sanitizer, check_arrays
from .execution.steps import Program, Step
from .graph import Graph, Node
from .ndarray import NDArray, mutation
from .ops.device import device_of
from .ops.jit import denormals
from .ops.op import Mode, Spec
from .passes.infer import Inferred, infer_shape, infer_type, require_static
from .passes.memory.plan import Plan, plan_memory
from .passes.memory.verify import survives
from .passes.optimize.fuse_elementwise import Fused, fuse
from .passes.optimize.pipelines import for_training, simplify
from .passes.place import place, with_copies
from .passes.recompute import mirror
from .passes.rewrite import Rewritten, carry, unchanged
from .passes.subgraph_gradient import with_trained_bodies
from .passes.switches import is_enabled
from .passes.training import land, with_gradients

__all__ = ["Executor", "Step"]


class Executor(Program, BoundArrays):
    """A symbol bound to arrays, ready to compute.

    Executors are created by `Symbol.bind` and `Symbol.simple_bind`; the parameters below are what
    these have prepared. `BoundArrays` describes the attributes for arrays.

    Parameters
    ----------
    symbol : Symbol
        The network.
    ctx : Context
        Where to compute.
    args : dict of str to NDArray
        All arguments by name.
    grads : dict of str to NDArray
        Where gradients of arguments are stored.
    reqs : dict of str to str
        For each argument 'write', 'add' or 'null'.
    aux : dict of str to NDArray
        All auxiliary states by name.
    shared : Executor, optional
        An executor whose memory for intermediate results is shared.
    groups : dict of str to Context, optional
        Context of nodes by the attribute ``ctx_group``.
    inferred : Inferred, optional
        Graph, shapes and types of the symbol, if they are known.
    exact : bool, optional
        Whether only optimizations that keep all results bitwise are allowed; as set globally by
        default.
    plain_of : Executor, optional
        An executor that this one replaces with a graph that is not optimized.

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

    watch: ClassVar[Callable[[Executor, int], None] | None] = None
    """Runs a step instead of the loop: the profiler, while it measures."""

    memory: Memory
    external: dict[int, Any]

    def __init__(self, symbol: Any, ctx: Context, args: Mapping[str, NDArray],
                 grads: Mapping[str, NDArray], reqs: Mapping[str, str],
                 aux: Mapping[str, NDArray], shared: Executor | None = None,
                 groups: Mapping[str, Context] | None = None, inferred: Inferred | None = None,
                 exact: bool | None = None, plain_of: Executor | None = None):
        self._symbol, self._ctx, self._grad_req = symbol, resolve(ctx), dict(reqs)
        self._groups = {name: resolve(group) for name, group in (groups or {}).items()}
        self._output_names = symbol.list_outputs()
        self.arg_dict, self.aux_dict = dict(args), dict(aux)
        self.grad_dict = {name: grads.get(name) for name in args}
        self.mode, self.forward_mode = Mode(), Mode()
        self._exact = is_exact() if exact is None else exact
        self.symbol = inferred or self._inferred()
        self.lean = unchanged(self.symbol.graph) if plain_of else self._simplify()
        self.graph, self.heads, trained = self._differentiate()
        self.graph, self.context = self._place(trained)
        self.shape = self._infer(infer_shape, self.symbol.shape)
        self.dtype = self._infer(infer_type, self.symbol.dtype)
        self.fused = self._fuse(plain_of is None and is_enabled("fuse_elementwise"))
        self.graph, self.context = self.fused.graph, self.fused.facts(self.context)
        self.shape, self.dtype = self.fused.facts(self.shape), self.fused.facts(self.dtype)
        self.forward_graph = self.graph.head(len(self._output_names))
        self.sinks = dict(zip(self.graph.output_ids[len(self._output_names):], trained,
                              strict=True))
        self.specs = list(map(Spec, self.shape, self.dtype))
        self.sizes = [spec.nbytes for spec in self.specs]
        self.computed = [node for node in self.graph.nodes if not node.is_variable]
        self._require_support()
        aside = {id(node) for group in self.lean.groups for node in group}
        self.computed = [node for node in self.computed if id(node) not in aside]
        self.num_forward = sum(not (node.is_variable or id(node) in aside)
                               for node in self.forward_graph.nodes)
        self.external = self._external()
        self.values: MutableMapping[tuple, Derived] = (
            WeakValueDictionary() if shared is None else shared.values)
        self.derived = self._derive()
        self.ends = self.graph.output_ids
        wanted = self._wanted()
        self.bodies = self._bodies(wanted)
        self.scratch = [self._scratch(*computed) for computed in enumerate(self.computed)]
        self.spaces = list(dict.fromkeys([self._ctx, *self.context]))
        self.plan_steps = self._plan_steps(wanted)
        self.plan = self._make_plan()
        self.arenas: dict[Context, Arena] = {} if shared is None else shared.arenas
        self.memory = self._room(Memory, self.plan, self.spaces, self.arenas)
        self._monitor: tuple[Callable, bool] | None = None
        self._backward_runs: int | None = None
        self._runs_plain = False
        self._repeatable: bool | None = None
        self._states: dict[int, dict[str, Any]] = {} if not plain_of else plain_of._states
        self._owners: dict[bool, list[int]] = {}
        self.outputs: list[NDArray] = []
        self._materialise()
        announce(self)

    # -- the recipe -------------------------------------------------------------------------

    def _inferred(self) -> Inferred:
        """The symbol's graph, and what follows from the arrays."""
        graph, arrays = Graph(self._symbol.entries), {**self.arg_dict, **self.aux_dict}
        require_static(graph)
        return Inferred(graph, infer_shape(graph, {name: a.shape for name, a in arrays.items()}),
                        infer_type(graph, {name: a.dtype for name, a in arrays.items()}))

    def _simplify(self) -> Rewritten:
        """The symbol's graph, optimized for one device, and for inference if nothing is trained."""
        graph, shape, dtype = self.symbol
        specs, blocks = list(map(Spec, shape, dtype)), self._ctx.device_type == "cpu"
        trained = [name for name, request in self._grad_req.items() if request != "null"]
        if self._groups:
            return unchanged(graph)
        if trained:
            return for_training(graph, specs, trained, self._exact, blocks)
        return simplify(graph, specs, self._exact, blocks)

    def _differentiate(self) -> tuple[Graph, list[Node], list[str]]:
        """Forward and gradients in one graph, head-gradient variables, arguments with gradients.

        Mirrored nodes are in it twice.
        """
        forward = self.lean.graph
        if any(req != "null" for req in self._grad_req.values()):
            forward = with_trained_bodies(forward, CONFIG.mirror)
        wrt = [node for node in forward.variables
               if self._grad_req.get(node.name, "null") != "null"]
        graph, heads = with_gradients(forward, wrt)
        graph = mirror(graph, len(forward.outputs), CONFIG.mirror)
        return graph, heads, [node.name for node in wrt]

    def _place(self, trained: list[str]) -> tuple[Graph, list[Context]]:
        """The graph with its copies between devices, and the context of every entry."""
        arrays = {**self.arg_dict, **self.aux_dict}
        known = {id(node): arrays[node.name].context for node in self.graph.variables
                 if node.name in arrays}
        ends = self.graph.outputs[len(self._output_names):]
        known |= {id(end.node): self._gradient(name).context
                  for name, end in zip(trained, ends, strict=True)}
        graph, placed = with_copies(self.graph, place(self.graph, self._groups, known, self._ctx))
        if is_enabled("write_gradients"):
            graph = land(graph, [self._grad_req[name] for name in trained])
        return graph, [placed[id(node)] for node in graph.nodes for _ in range(node.num_outputs)]

    def _infer(self, rule: Callable, facts: list) -> list:
        """Facts of every entry: those of the symbol's decide, heads and gradients follow."""
        symbol = self.symbol.graph
        if self.graph is symbol:
            return facts
        known = {head.name: facts[symbol.eid(entry)]
                 for head, entry in zip(self.heads, symbol.outputs, strict=False)}
        return rule(self.graph, known, carry(facts, symbol, self.graph, self.lean.origin))

    def _fuse(self, wanted: bool) -> Fused:
        """The graph with one node for each chain of elementwise nodes."""
        if not wanted:
            return Fused(self.graph, list(range(self.graph.num_entries)), {}, [])
        aside = [node for group in self.lean.groups for node in group]
        return fuse(self.graph, list(map(Spec, self.shape, self.dtype)), self.context,
                    len(self._output_names), aside, self._exact)

    def _external(self) -> dict[int, Any]:
        """Entry id -> the array of a variable, a head gradient or a user's gradient."""
        arrays = {**self.arg_dict, **self.aux_dict}
        external: dict[int, Any] = {}
        self._head_arrays: dict[int, NDArray] = {}
        heads = {id(node): index for index, node in enumerate(self.heads)}
        for node in self.graph.variables:
            eid = self.graph.output_eids(node)[0]
            if id(node) in heads:
                ctx = self.context[eid]
                head = NDArray(self._room(device_of(ctx).empty, *self.specs[eid]), ctx)
                self._head_arrays[heads[id(node)]] = head
                external[eid] = head._data
            else:
                external[eid] = arrays[node.name]._data
        return external | {eid: self._gradient(name)._data for eid, name in self.sinks.items()}

    def _derive(self) -> list[Derived]:
        """What runs beside the loop; its results join the external arrays."""
        read = {entry for node in self.computed for entry in node.inputs}
        return [derive(self.values, self.graph, nodes, self.specs, self._ctx, self.external, read)
                for nodes in self.lean.groups]

    def _kept(self) -> set[int]:
        """Outputs of forward that no variable holds."""
        return {*self.forward_graph.output_ids} - set(self.external)

    def _make_plan(self) -> Plan:
        plan = plan_memory(self.plan_steps, self.sizes, set(self.external), self._kept(),
                           is_enabled("reuse_memory"))
        if CONFIG.debug:
            print(f"bind {self._symbol.name}: {len(self.plan_steps)} steps, {sum(self.sizes):,} "
                  f"bytes of entries in {plan.total_bytes:,} bytes")
        return plan

    def _materialise(self) -> None:
        """Turn the plan into arrays and the nodes into functions."""
        self._room(self.memory.rent, self)
        arrays: list[Any] = [None] * self.graph.num_entries
        for eid, array in self.external.items():
            arrays[eid] = array
        self._take(arrays)
        self.arrays = arrays
        self.steps = [self._prepare(index, node) for index, node in enumerate(self.computed)]
        self._calls = device_of(self._ctx).join([step.run for step in self.steps],
                                                self.num_forward)
        if CONFIG.check:
            check_arrays(self, self._kept())
        self._sanitizer = Sanitizer(self, self._repeats(), self.num_forward) if (
            CONFIG.check > 1) else None
        results = [NDArray(arrays[eid], self.context[eid])
                   for eid in self.graph.output_ids[:len(self._output_names)]]
        for old, new in zip(self.outputs, results, strict=False):
            old._data = new._data
        self.outputs = self.outputs or results

    def _room(self, take: Callable, *args: Any) -> Any:
        """`take(*args)`, which allocates what results need."""
        try:
            return take(*args)
        except MemoryError as error:
            size, node, eid = max(((self.sizes[eid], node, eid) for node in self.graph.nodes
                                   for eid in self.graph.output_eids(node)), key=itemgetter(0))
            raise OutOfMemory(f"bind: {error}; the largest tensor is that of {node.describe()}: "
                              f"shape {self.shape[eid]}, {size >> 20:,} MiB") from None

    def vacate(self) -> None:
        """Release the memory for intermediate results; the next run allocates it again."""
        self.arrays, self.steps, self._calls = [], [], []

    def _state_of(self, node: Node) -> dict[str, Any]:
        node = node.source or node
        node = self.fused.origin.get(node, node)
        return self._states.setdefault(id(self.lean.origin.get(node, node)), {})

    def place(self, eid: int) -> str:
        """Describe where the user's array of an entry is.

        Parameters
        ----------
        eid : int
            Entry of the executor's graph.

        Returns
        -------
        str
            The gradient that it is; empty for other entries.
        """
        return f"user: gradient of {self.sinks[eid]}" if eid in self.sinks else ""

    def _adds(self, eid: int) -> bool:
        return eid in self.sinks and self._grad_req[self.sinks[eid]] == "add"

    # -- the loop ---------------------------------------------------------------------------

    def _run(self, first: int, last: int) -> None:
        if not self.arrays:
            self._materialise()
        self.memory.claim(self)
        try:
            with denormals(keep=self._exact):
                if self._monitor is not None or Executor.watch is not None:
                    self._run_watched(first, last)
                elif self._sanitizer is not None:
                    self._run_sanitized(first, last, self._sanitizer)
                else:
                    self._run_steps(first, last)
        finally:
            if mutation.is_watched():
                mutation.written_owners(self._written(self.mode.is_train))

    def _run_steps(self, first: int, last: int) -> None:
        index = first
        try:
            with np.errstate(all="ignore"):  # infinity and NaN are results, not events
                for index in range(first, last):
                    run = self._calls[index]
                    if run is not None:
                        run()
        except Exception as error:
            raise self._located(index, error) from error

    def _run_sanitized(self, first: int, last: int, sanitizer: Sanitizer) -> None:
        index = first
        try:
            sanitizer.begin()
            with np.errstate(all="ignore"):
                for index in range(first, last):
                    sanitizer.run(index)
        except Exception as error:
            raise self._located(index, error) from error

    def _written(self, is_train: bool) -> list[int]:
        """Owners of the memory that a run writes to and others may read: found when asked."""
        if is_train not in self._owners:
            writers = [node for node in self.computed if node.op and node.op.writes_aux(is_train)]
            read = {eid for node in writers for eid in self.graph.input_eids(node)}
            eids = read.intersection(self.external).union(self.graph.output_ids)
            self._owners[is_train] = [id(mutation.owner(self.arrays[eid])) for eid in eids]
        return self._owners[is_train]

    def _run_watched(self, first: int, last: int) -> None:
        callback, monitor_all = self._monitor or (None, False)
        run = Executor.watch or _run_step
        for index in range(first, last):
            step = self.steps[index]
            if callback is not None and monitor_all:
                self._report(callback, named_inputs(step.node, self._shown(
                    step.ins, self.graph.input_eids(step.node))))
            try:
                with np.errstate(all="ignore"):
                    run(self, index)
            except Exception as error:
                raise self._located(index, error) from error
            if callback is not None:
                self._report(callback, named_outputs(step.node, self._shown(
                    step.outs, self.graph.output_eids(step.node))))

    def _shown(self, arrays: list[Any], eids: Sequence[int]) -> list[NDArray | None]:
        return [None if array is None else NDArray(array, self.context[eid])
                for array, eid in zip(arrays, eids, strict=True)]

    def _report(self, callback: Callable, named: Iterable[tuple[str, NDArray | None]]) -> None:
        for name, array in named:
            if array is not None:
                callback(name, array)

    def forward(self, is_train: bool = False, **kwargs: Any) -> list[NDArray]:
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
        self._load(kwargs)
        if self._monitor is not None:
            self._runs_plain = self._is_simplified or bool(self.fused.notes)
        else:
            self._runs_plain = self._is_simplified and bool(is_train) and not self.heads
        if self._runs_plain:
            self._forward_plain(bool(is_train))
        else:
            self._forward(bool(is_train))
        return self.outputs

    def _forward(self, is_train: bool) -> None:
        for values in self.derived:
            if values.stale:
                values.refresh()
        self.mode.is_train = self.forward_mode.is_train = is_train
        self._backward_runs = None
        self._run(0, self.num_forward)
        self._backward_runs = 0

    def _forward_plain(self, is_train: bool) -> None:
        """Run every node of the symbol by itself: for training, and under observation."""
        self.plain._monitor = self._monitor
        self.plain._forward(is_train)
        for mine, other in zip(self.outputs, self.plain.outputs, strict=True):
            other.copyto(mine)

    @property
    def _is_simplified(self) -> bool:
        return bool(self.lean.notes or self.derived)

    @cached_property
    def plain(self) -> Executor:
        """An executor of the same arrays that runs every node of the symbol."""
        grads = {name: grad for name, grad in self.grad_dict.items() if grad is not None}
        return Executor(self._symbol, self._ctx, self.arg_dict, grads, self._grad_req,
                        self.aux_dict, self, None, self.symbol, plain_of=self)

    def backward(self, out_grads: Any = None, is_train: bool = True) -> None:
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
        if not self.heads:
            return
        if self._runs_plain:
            self.plain.backward(out_grads, is_train)
            return
        self._require_values()
        self._set_heads(self._head_list(out_grads))
        self.mode.is_train = bool(is_train)
        self._run(self.num_forward, len(self.computed))
        self._backward_runs = 1

    def _require_values(self) -> None:
        """The results of forward that backward reads must still be in memory."""
        again = "call forward(is_train=True) again before backward"
        if self._backward_runs is None:
            raise MXNetError("backward: call forward(is_train=True) first")
        if not self.memory.keeps(self):
            raise MXNetError("backward: another executor that shares this one's memory was bound "
                             f"or ran since forward, so its intermediate results are lost; {again}")
        if self._backward_runs and not self._repeats():
            raise MXNetError("backward: intermediate results are overwritten once they are no "
                             f"longer needed, so it runs once for each forward; {again}")

    def _repeats(self) -> bool:
        """Whether backward keeps what it reads of the forward half (found when asked)."""
        if self._repeatable is None:
            self._repeatable = survives(self.plan_steps, self.sizes, self.plan, self.num_forward)
        return self._repeatable

    @property
    def arena(self) -> Arena:
        """The arena on the executor's own context."""
        return self.arenas[self._ctx]

    def set_monitor_callback(self, callback: Callable[[str, NDArray], None] | None,
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
        self._monitor = None if callback is None else (callback, monitor_all)

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
        from .execution.bind import reshape

        return reshape(self, partial_shaping, allow_up_sizing, shapes)

    def debug_str(self) -> str:
        """Describe the execution plan.

        Returns
        -------
        str
            A table of the steps, their arrays and the places of these in memory, and the total.
        """
        from .execution.debug import debug_str

        return debug_str(self)

    def plan_chart(self, path: Any = None) -> str:
        """Draw the memory plan as an SVG image: steps on the x-axis, addresses on the y-axis.

        Parameters
        ----------
        path : str or path, optional
            File that the image is written to.

        Returns
        -------
        str
            The image as SVG text.
        """
        from .execution.debug import plan_chart

        return plan_chart(self, path)


def _run_step(executor: Executor, index: int) -> None:
    run = executor.steps[index].run
    if run is not None:
        run()
