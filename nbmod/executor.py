"""The executor: a recipe and a loop.

`Executor.__init__` is the recipe.  Each line finds one fact about the graph, and a reader can stop
after any of them and print it:

    graph   forward and gradient nodes in one graph
    shape   of every entry          dtype   of every entry
    plan    where every entry lives
    array   the memory itself       steps   functions without arguments, ready to call

`forward` and `backward` are the loop: call the prepared steps of their half, one after another.
Nothing is inferred, allocated or decided while it runs.

Memory.  Arguments, gradients and auxiliary states are NDArrays the user can see.  Intermediate
tensors live in an `Arena`, which executors of one model share (`shared_exec`, `reshape`, buckets):
its size is the largest that any of them asked for.  Outputs have buffers of their own, stable for
the executor's lifetime and overwritten by its next `forward`.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from .base import CONFIG, ArgumentError, MXNetError, did_you_mean
from .context import Context, resolve
from .graph import Entry, Graph, Node, topological_order
from .inspection import named_inputs, named_outputs
from .ndarray import NDArray
from .ops.device import Device, device_of
from .ops.internal import Accumulate
from .ops.op import Backward, Call, Mode, Spec
from .passes.check import check_plan, survives
from .passes.gradient import gradient
from .passes.infer import infer_shape, infer_type
from .passes.memory import NONE, Plan, PlanStep, plan_memory

__all__ = ["Executor", "Arena", "Step"]


class Arena:
    """One growable block of device memory that executors carve their intermediates from.

    Growing replaces the block.  Its tenants give up their views of the old one at that moment and
    carve new ones when they next run, so that never more than one block is kept.  `holder` is the
    tenant that wrote last: the values of all others are lost.
    """

    def __init__(self, device: Device):
        self.device = device
        self.nbytes = 0
        self.holder: weakref.ref[Executor] | None = None
        self._tenants: weakref.WeakSet[Executor] = weakref.WeakSet()
        self._block: Any = None

    def rent(self, tenant: Executor, nbytes: int) -> None:
        """Make room for `nbytes` of `tenant`, who then may call `view`."""
        self._tenants.add(tenant)
        if nbytes > self.nbytes:
            for other in self._tenants:
                other.vacate()
            self._block = self.holder = None
            self._block = self.device.arena(nbytes)
            self.nbytes = nbytes

    def view(self, offset: int, spec: Spec) -> Any:
        return self.device.view(self._block, offset, spec.shape, spec.dtype)


@dataclass
class Step:
    """One node, ready to run.  `run` is None for a view: its output is its input's memory."""

    node: Node
    run: Callable[[], None] | None
    ins: list[Any]
    outs: list[Any]


class Executor:
    """A symbol bound to arrays.  Made by `Symbol.bind` and `Symbol.simple_bind`.

    `outputs`, `arg_arrays`, `grad_arrays` and `aux_arrays` are lists of NDArrays in the order of
    the symbol's `list_outputs`, `list_arguments` and `list_auxiliary_states`; `output_dict`,
    `arg_dict`, `grad_dict` and `aux_dict` hold the same arrays by name.
    """

    def __init__(self, symbol: Any, ctx: Context, args: Mapping[str, NDArray],
                 grads: Mapping[str, NDArray], reqs: Mapping[str, str],
                 aux: Mapping[str, NDArray], shared: Executor | None = None):
        self._symbol, self._ctx, self._grad_req = symbol, resolve(ctx), dict(reqs)
        self._output_names = symbol.list_outputs()
        self.device = device_of(self._ctx)
        self.arg_dict, self.aux_dict = dict(args), dict(aux)
        self.grad_dict = {name: grads.get(name) for name in args}
        self.mode = Mode()
        self.forward_graph = Graph(symbol.entries)
        self.graph, self.heads, self.sinks = self._differentiate()
        known = {**self.arg_dict, **self.aux_dict}
        self.shape = self._infer(infer_shape, {name: a.shape for name, a in known.items()})
        self.dtype = self._infer(infer_type, {name: a.dtype for name, a in known.items()})
        self.computed = [node for node in self.graph.nodes if not node.is_variable]
        self._require_support()
        self.num_forward = sum(not node.is_variable for node in self.forward_graph.nodes)
        self.external = self._external()
        self.plan_steps, self.sizes = self._plan_steps()
        self.plan = self._make_plan()
        self.arena: Arena = shared.arena if shared is not None else Arena(self.device)
        self._monitor: tuple[Callable, bool] | None = None
        self._backward_runs: int | None = None
        self._repeatable: bool | None = None
        self._held = {sid: self.device.arena(max(storage.size, 1)) for sid, storage
                      in enumerate(self.plan.storages) if storage.held}
        self.outputs: list[NDArray] = []
        self._materialise()

    # -- the recipe -------------------------------------------------------------------------

    def _differentiate(self) -> tuple[Graph, list[Node], dict[int, str]]:
        """Forward and gradient in one graph, head-gradient variables, and grad entry -> name."""
        outputs = self.forward_graph.outputs
        heads = [Node(None, f"_head_grad_{i}") for i in range(len(outputs))]
        wrt = [node for node in self.forward_graph.variables
               if self._grad_req.get(node.name, "null") != "null"]
        if not wrt:
            return self.forward_graph, [], {}
        grads = gradient(outputs, wrt, [Entry(head) for head in heads])
        uses = _count_uses([*outputs, *grads])
        taken = {(id(e.node), e.index) for e in outputs}
        ends = []
        for node, entry in zip(wrt, grads, strict=True):
            if not _can_be_born_in_place(entry, uses, taken, self._grad_req[node.name]):
                entry = Entry(Node(Accumulate(), f"{node.name}_grad", [entry]))
            taken.add((id(entry.node), entry.index))
            ends.append(entry)
        graph = Graph([*outputs, *ends])
        sinks = {graph.eid(entry): node.name for node, entry in zip(wrt, ends, strict=True)}
        return graph, heads, sinks

    def _infer(self, rule: Callable, known: dict[str, Any]) -> list:
        """Facts of every entry: the forward graph decides, then heads and gradients follow."""
        facts = rule(self.forward_graph, known)
        for head, entry in zip(self.heads, self.forward_graph.outputs, strict=False):
            known[head.name] = facts[self.forward_graph.eid(entry)]
        return facts if self.graph is self.forward_graph else rule(self.graph, known)

    def _require_support(self) -> None:
        """One MXNetError for all nodes that the device cannot execute."""
        missing = [node for node in self.computed
                   if node.op is not None and not self.device.supports(node.op)]
        if missing:
            listed = ", ".join(node.describe() for node in missing[:20])
            more = f" and {len(missing) - 20} more" if len(missing) > 20 else ""
            raise MXNetError(f"bind: {self._ctx} has no kernels yet for {listed}{more}; bind to "
                             "mx.cpu(), or keep these nodes in a network of their own that is")

    def _external(self) -> dict[int, Any]:
        """Entry id -> the array of a variable, a head gradient or a user's gradient."""
        arrays = {**self.arg_dict, **self.aux_dict}
        external: dict[int, Any] = {}
        self._head_arrays: dict[int, NDArray] = {}
        for node in self.graph.variables:
            eid = self.graph.output_eids(node)[0]
            if node in self.heads:
                head = NDArray(self.device.empty(self.shape[eid], self.dtype[eid]), self._ctx)
                self._head_arrays[self.heads.index(node)] = head
                external[eid] = head._data
            else:
                external[eid] = arrays[node.name]._data
        for eid, name in self.sinks.items():
            target = self.grad_dict[name]
            assert target is not None
            external[eid] = target._data
        return external

    def _spec(self, eid: int) -> Spec:
        return Spec(self.shape[eid], self.dtype[eid])

    def _plan_steps(self) -> tuple[list[PlanStep], list[int]]:
        """The graph as the planner sees it: integers only."""
        read = {eid for node in self.computed for eid in self.graph.input_eids(node)}
        wanted = read | set(self.graph.output_ids) | set(self.external)
        steps = []
        for node in self.computed:
            ins, outs = self.graph.input_eids(node), self.graph.output_eids(node)
            op = node.op
            assert op is not None
            scratch = self.device.scratch(op, [self._spec(e) for e in ins],
                                          [self._spec(e) for e in outs])
            steps.append(PlanStep(
                tuple(ins), tuple(eid if eid in wanted else NONE for eid in outs),
                tuple(_inplace_positions(op)), tuple(spec.nbytes for spec in scratch),
                view=op.view, accumulates=op.accumulates, sums=op.name == "_grad_add"))
        sizes = [self._spec(eid).nbytes for eid in range(self.graph.num_entries)]
        return steps, sizes

    def _make_plan(self) -> Plan:
        keep = {self.graph.eid(entry) for entry in self.forward_graph.outputs}
        keep -= set(self.external)
        plan = plan_memory(self.plan_steps, self.sizes, set(self.external), keep)
        if CONFIG.check:
            check_plan(self.plan_steps, self.sizes, plan, keep)
        if CONFIG.debug:
            print(f"bind {self._symbol.name}: {len(self.plan_steps)} steps, {sum(self.sizes):,} "
                  f"bytes of entries in {plan.total_bytes:,} bytes")
        return plan

    def _materialise(self) -> None:
        """Turn the plan into arrays and the nodes into functions."""
        self.arena.rent(self, self.plan.arena.get(0, 0))
        arrays: list[Any] = [None] * self.graph.num_entries
        for eid, array in self.external.items():
            arrays[eid] = array
        for step in self.plan_steps:
            for eid in step.outputs:
                if eid != NONE and arrays[eid] is None:
                    arrays[eid] = self._array(eid, arrays)
        self.arrays = arrays
        self.steps = [self._prepare(index, node) for index, node in enumerate(self.computed)]
        self._calls = [step.run for step in self.steps]
        results = [NDArray(arrays[self.graph.eid(entry)], self._ctx)
                   for entry in self.forward_graph.outputs]
        for old, new in zip(self.outputs, results, strict=False):
            old._data = new._data
        self.outputs = self.outputs or results

    def vacate(self) -> None:
        """Let go of the arena's memory; the next run takes what it needs again."""
        self.arrays, self.steps, self._calls = [], [], []

    def _array(self, eid: int, arrays: list[Any]) -> Any:
        """The memory of one planned entry."""
        spec = self._spec(eid)
        if eid in self.plan.view_of:
            return arrays[self.plan.view_of[eid]].reshape(spec.shape)
        sid = self.plan.storage[eid]
        storage = self.plan.storages[sid]
        if storage.held:
            return self.device.view(self._held[sid], 0, spec.shape, spec.dtype)
        return self.arena.view(storage.offset, spec)

    def _prepare(self, index: int, node: Node) -> Step:
        step, op = self.plan_steps[index], node.op
        assert op is not None
        ins = [self.arrays[eid] for eid in step.inputs]
        outs = [None if eid == NONE else self.arrays[eid] for eid in step.outputs]
        if index in self.plan.views:
            return Step(node, None, ins, outs)
        if op.view:
            target = self.arrays[step.outputs[0]].reshape(ins[0].shape)
            return Step(node, partial(self.device.copy, ins[0], target), ins, outs)
        specs = [self._spec(eid) for eid in self.graph.output_eids(node)]
        wants = self.device.scratch(
            op, [self._spec(eid) for eid in self.graph.input_eids(node)], specs)
        scratch = [self.arena.view(self.plan.storages[sid].offset, spec)
                   for sid, spec in zip(self.plan.scratch[index], wants, strict=True)]
        add = tuple(eid in self.plan.add or self._adds_to_user(eid) for eid in step.outputs)
        call = Call(self.mode, scratch, add, specs)
        return Step(node, self.device.prepare(op, ins, outs, call), ins, outs)

    def _adds_to_user(self, eid: int) -> bool:
        return eid in self.sinks and self._grad_req[self.sinks[eid]] == "add"

    # -- the loop ---------------------------------------------------------------------------

    def _run(self, first: int, last: int) -> None:
        if not self.arrays:
            self._materialise()
        if self.plan.arena.get(0):
            self.arena.holder = weakref.ref(self)
        if self._monitor is not None:
            return self._run_monitored(first, last)
        index = first
        try:
            with np.errstate(all="ignore"):  # infinity and NaN are results, not events
                for index in range(first, last):
                    run = self._calls[index]
                    if run is not None:
                        run()
        except Exception as error:
            raise self._located(index, error) from error

    def _run_monitored(self, first: int, last: int) -> None:
        assert self._monitor is not None
        callback, monitor_all = self._monitor
        for index in range(first, last):
            step = self.steps[index]
            if monitor_all:
                self._report(callback, named_inputs(step.node, step.ins))
            try:
                if step.run is not None:
                    with np.errstate(all="ignore"):
                        step.run()
            except Exception as error:
                raise self._located(index, error) from error
            self._report(callback, named_outputs(step.node, step.outs))

    def _report(self, callback: Callable, named: Iterable[tuple[str, Any]]) -> None:
        for name, array in named:
            if array is not None:
                callback(name, NDArray(array, self._ctx))

    def _located(self, index: int, error: Exception) -> Exception:
        node = self.computed[index]
        if isinstance(error, MXNetError) and str(error).startswith(node.name):
            return error
        shapes = ", ".join(str(self.shape[eid]) for eid in self.graph.input_eids(node))
        return MXNetError(f"{node.describe()}: {error} [input shapes: {shapes}]")

    def forward(self, is_train: bool = False, **kwargs: Any) -> list[NDArray]:
        """Run the forward half; `kwargs` are copied into the arguments of these names first.

        Returns `outputs`.  Shapes must be the bound ones: `reshape` for others.
        """
        for name, value in kwargs.items():
            if name not in self.arg_dict:
                raise MXNetError(f"forward: unknown argument {name!r}"
                                 f"{did_you_mean(name, self.arg_dict)}")
            if not isinstance(value, (NDArray, np.ndarray)):
                raise ArgumentError(f"forward: argument {name} is a {type(value).__name__}, "
                                    "expected an NDArray or a numpy.ndarray")
            bound = self.arg_dict[name].shape
            if value.shape != bound:
                raise ArgumentError(f"forward: argument {name} has shape {value.shape}, bound with "
                                    f"{bound}; use Executor.reshape")
            self.arg_dict[name][:] = value
        self.mode.is_train = bool(is_train)
        self._backward_runs = None
        self._run(0, self.num_forward)
        self._backward_runs = 0
        return self.outputs

    def backward(self, out_grads: Any = None, is_train: bool = True) -> None:
        """Run the gradient half; gradients land in `grad_arrays` as `grad_req` says.

        `out_grads`: one NDArray per output (or a single one, or a dict by output name).  Outputs
        whose gradient nothing reads, such as those of loss layers, need none.
        """
        if not self.heads:
            return
        self._require_values()
        self._set_heads(self._head_list(out_grads))
        self.mode.is_train = bool(is_train)
        self._run(self.num_forward, len(self.computed))
        self._backward_runs = 1

    def _require_values(self) -> None:
        """The results of forward that backward reads must still stand in memory."""
        again = "call forward(is_train=True) again before backward"
        if self._backward_runs is None:
            raise MXNetError("backward: call forward(is_train=True) first")
        holder = self.arena.holder
        if self.plan.arena.get(0) and (holder is None or holder() is not self):
            raise MXNetError("backward: another executor that shares this one's memory was bound "
                             f"or ran since forward, so its intermediate results are lost; {again}")
        if self._backward_runs and not self._repeats():
            raise MXNetError("backward: intermediate results are overwritten once they are no "
                             f"longer needed, so it runs once for each forward; {again}")

    def _repeats(self) -> bool:
        """Whether backward leaves alone what it reads of the forward half (found when asked)."""
        if self._repeatable is None:
            self._repeatable = survives(self.plan_steps, self.sizes, self.plan, self.num_forward)
        return self._repeatable

    def _head_list(self, out_grads: Any) -> list[Any]:
        if out_grads is None:
            return []
        if isinstance(out_grads, NDArray):
            return [out_grads]
        if isinstance(out_grads, Mapping):
            return [out_grads.get(name) for name in self._output_names]
        if len(out_grads) > len(self.outputs):
            raise MXNetError(f"backward: {len(out_grads)} head gradients for "
                             f"{len(self.outputs)} output(s)")
        return list(out_grads)

    def _set_heads(self, grads: list[Any]) -> None:
        for index, target in self._head_arrays.items():
            grad = grads[index] if index < len(grads) else None
            name = self._output_names[index]
            if grad is None:
                raise MXNetError(f"backward: output {name!r} is not a loss, so its head gradient "
                                 "is needed in out_grads; to minimise it wrap it in "
                                 "mx.sym.make_loss")
            if grad.shape != target.shape:
                raise MXNetError(f"backward: head gradient of {name!r} has shape {grad.shape}, "
                                 f"expected {target.shape}")
            target[:] = grad

    # -- arrays by list and name ------------------------------------------------------------

    @property
    def arg_arrays(self) -> list[NDArray]:
        return list(self.arg_dict.values())

    @property
    def grad_arrays(self) -> list[NDArray | None]:
        return list(self.grad_dict.values())

    @property
    def aux_arrays(self) -> list[NDArray]:
        return list(self.aux_dict.values())

    @property
    def output_dict(self) -> dict[str, NDArray]:
        names = self._output_names
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ArgumentError(f"output_dict: several outputs are called {twice}; use outputs")
        return dict(zip(names, self.outputs, strict=True))

    def copy_params_from(self, arg_params: Mapping[str, NDArray],
                         aux_params: Mapping[str, NDArray] | None = None,
                         allow_extra_params: bool = False) -> None:
        """Copy parameters by name; a name the symbol does not have is an error unless allowed."""
        for given, bound, kind in ((arg_params, self.arg_dict, "arguments"),
                                   (aux_params or {}, self.aux_dict, "auxiliary states")):
            for name, value in given.items():
                if name in bound:
                    value.astype(bound[name].dtype).copyto(bound[name])
                elif not allow_extra_params:
                    raise ArgumentError(f"Find name {name!r} that is not in the {kind}"
                                        f"{did_you_mean(name, bound)}")

    def set_monitor_callback(self, callback: Callable[[str, NDArray], None] | None,
                             monitor_all: bool = False) -> None:
        """Call `callback(name, array)` for every output (and input) as steps run; None stops."""
        self._monitor = None if callback is None else (callback, monitor_all)

    def reshape(self, partial_shaping: bool = False, allow_up_sizing: bool = False,
                **shapes: tuple[int, ...]) -> Executor:
        """An executor for other input shapes that shares parameters and memory with this one."""
        from .binding import reshape

        return reshape(self, partial_shaping, allow_up_sizing, shapes)

    def debug_str(self) -> str:
        """The plan as a table: every step, its arrays and where they live, and the total."""
        from .inspection import debug_str

        return debug_str(self)

    def plan_chart(self, path: Any = None) -> str:
        """The memory plan as an SVG picture: steps to the right, addresses upwards."""
        from .inspection import plan_chart

        return plan_chart(self, path)


def _count_uses(outputs: Sequence[Entry]) -> dict[tuple[int, int], int]:
    uses: dict[tuple[int, int], int] = {}
    for node in topological_order(outputs):
        for entry in node.inputs:
            key = (id(entry.node), entry.index)
            uses[key] = uses.get(key, 0) + 1
    return uses


def _can_be_born_in_place(entry: Entry, uses: Mapping, taken: set, req: str) -> bool:
    """Whether a gradient can be computed straight into the user's array."""
    key, op = (id(entry.node), entry.index), entry.node.op
    if op is None or op.view or key in taken:
        return False
    if req == "add":
        return isinstance(op, Backward) and op.accumulates and not uses.get(key)
    return True


def _inplace_positions(op: Any) -> list[tuple[int, int]]:
    inputs, outputs = op.list_inputs(), op.list_outputs()
    return [(inputs.index(i), outputs.index(o)) for i, o in op.inplace
            if i in inputs and o in outputs]
