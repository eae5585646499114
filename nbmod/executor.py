"""The executor: a network bound to arrays, and the program that runs it.

When a symbol is bound, it is decided what runs.  A `PlannedProgram` (`execution.steps`) is a
compiled graph and a loop: everything that is decided is in its `CompiledGraph`, which
`execution.pipeline` makes.  An `InterpretedProgram` (`execution.interpreted`) runs node by node,
where an array has no elements.  `forward` and `backward` load arrays, run and return.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, overload
from weakref import WeakValueDictionary

from .base import ArgumentError, MXNetError
from .context import Context
from .core.collector import without_collector
from .core.config import CONFIG, is_exact
from .core.reprs import safe_repr
from .execution.bind import Arrays, BindArguments, reshape
from .execution.call_arguments import copy_parameters, load_arguments
from .execution.compile_ahead import announce
from .execution.debug import described
from .execution.first_answers import FirstAnswers, first_answers
from .execution.pipeline import CompiledGraph
from .execution.programs import planned_program, program_of
from .execution.step_monitor import MonitorCallback, StepMonitor
from .execution.steps import PlannedProgram, SharedMemory
from .ndarray import NDArray
from .ops.jit import lacks_compiler

if TYPE_CHECKING:
    from os import PathLike

    from .base import Array
    from .execution.arena import Arena
    from .execution.steps import ExecutorProgram, States, Step, StepWatcher
    from .explain.explanation import Explanation
    from .explain.plan_chart import PlanChart
    from .explain.schema import MeasuredFacts
    from .explain.wording import Answer
    from .symbol import Symbol

__all__ = ["Executor"]
__dir__ = __all__.copy


class Executor:
    """A symbol bound to arrays, ready to compute.

    Executors are created by `Symbol.bind` and `Symbol.simple_bind`.

    Parameters
    ----------
    binding : BindArguments
        The network, its arrays by name, and where to compute.
    shared : Executor, optional
        An executor whose memory for intermediate results is shared.
    states : dict, optional
        What nodes keep between runs, if that is shared, too.
    optimize : bool, default True
        Whether passes may change the graph; else every node of the symbol runs by itself.
    key : str, optional
        The implementation that nodes run one by one (see `execution.interpreter`), without a
        plan; None: "eager" where an array has no elements, else there is a plan.

    Attributes
    ----------
    arg_dict, grad_dict, aux_dict : dict of str to NDArray
        Arguments, their gradients (None for those without) and auxiliary states by name.

    Examples
    --------
    >>> x = mx.sym.Variable("x")
    >>> exe = (x * x).simple_bind(mx.cpu(), x=(3,))
    >>> exe.forward(is_train=True, x=mx.nd.array([1, 2, 3]))[0].asnumpy().tolist()
    [1.0, 4.0, 9.0]
    >>> exe.backward(mx.nd.ones((3,)))
    >>> exe.grad_dict["x"].asnumpy().tolist()
    [2.0, 4.0, 6.0]
    """

    profiler: ClassVar[StepWatcher | None] = None
    """Watches the steps of all executors while the profiler runs."""

    @without_collector()
    def __init__(self, binding: BindArguments, shared: Executor | None = None,
                 states: States | None = None, optimize: bool = True, key: str | None = None):
        self._binding = binding if binding.exact is not None else binding._replace(exact=is_exact())
        self.arg_dict, self.aux_dict = dict(binding.args), dict(binding.aux)
        self.grad_dict = {name: binding.grads.get(name) for name in binding.args}
        self._shared: SharedMemory = (SharedMemory({}, WeakValueDictionary()) if shared is None
                                      else shared._shared)
        self._states: States = {} if states is None else states
        self._program = program_of(self._binding, self._shared, self._states, Executor,
                                   optimize and not lacks_compiler(), key)
        self._ran: ExecutorProgram = self._program
        self._first: FirstAnswers | None = None
        self._observe(None)
        if isinstance(self._program, PlannedProgram) and not lacks_compiler():
            self._first = first_answers(self._program)
            announce(self._program)
        if isinstance(self._program, PlannedProgram) and (CONFIG.debug or CONFIG.print_passes):
            from .explain.ladder import print_plan

            print_plan(self._program)

    @safe_repr
    def __repr__(self) -> str:
        compiled = self.compiled if self.is_planned else None
        bound = self._binding._replace(args=self.arg_dict)
        return f"<{type(self).__name__} {described(bound, self.outputs, compiled)}>"

    # -- what runs ---------------------------------------------------------------------------

    @property
    def is_planned(self) -> bool:
        """Whether one `CompiledGraph` is all that runs: not where an array is sparse or empty."""
        return isinstance(self._program, PlannedProgram)

    @property
    def planned(self) -> PlannedProgram:
        """The program with a memory plan; MXNetError if there is none."""
        if not isinstance(self._program, PlannedProgram):
            raise MXNetError(f"{self._binding.symbol.name or 'group'}: nodes are interpreted one "
                             "by one, so there is no plan; see debug_str")
        return self._program

    @property
    def compiled(self) -> CompiledGraph:
        """The nodes that run, and where their arrays are."""
        return self.planned.compiled

    @property
    def arenas(self) -> dict[Context, Arena]:
        """The memory for intermediate results, shared by the executors of a model."""
        return self._shared.arenas

    @property
    def outputs(self) -> list[NDArray]:
        """In the order of the symbol's `list_outputs`."""
        return self._program.outputs

    def renew_outputs(self) -> None:
        """Leave the arrays in `outputs` to those who have them, and make new ones."""
        self._program.renew_outputs()

    def release(self) -> None:
        """Release the memory for intermediate results; the next run allocates it again."""
        self._program.release()

    @property
    def _symbol(self) -> Symbol:
        """The network; scripts for MXNet read it."""
        return self._binding.symbol

    @property
    def _ctx(self) -> Context:
        """The context; scripts for MXNet read it."""
        return self._binding.ctx

    @property
    def steps(self) -> list[Step]:
        """The nodes on their arrays, in the order in which they run."""
        return (self.planned.bound or self.planned.materialize()).steps

    @property
    def arena(self) -> Arena:
        """The memory for intermediate results on the executor's own context."""
        return self.arenas[self._binding.ctx]

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
        names = self._binding.symbol.list_outputs()
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
        >>> exe = (mx.sym.Variable("a") * 2).simple_bind(mx.cpu(), a=(2,))
        >>> exe.copy_params_from({"a": mx.nd.array([3, 4]), "b": mx.nd.ones((1,))},
        ...                      allow_extra_params=True)
        >>> exe.arg_dict["a"].asnumpy().tolist()
        [3.0, 4.0]
        """
        for params, bound, kind in ((arg_params, self.arg_dict, "arguments"),
                                    (aux_params or {}, self.aux_dict, "auxiliary states")):
            copy_parameters(params, bound, kind, allow_extra_params)

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
        >>> a, b = mx.sym.Variable("a"), mx.sym.Variable("b")
        >>> exe = (a + b).bind(mx.cpu(), {"a": mx.nd.ones((2,)), "b": mx.nd.ones((2,))})
        >>> exe.forward()[0].asnumpy().tolist()
        [2.0, 2.0]
        >>> exe.forward(b=mx.nd.array([10, 20]))[0].asnumpy().tolist()
        [11.0, 21.0]
        """
        if kwargs:
            load_arguments(self.arg_dict, kwargs)
        self._ran = self._program
        if self._first is not None or not self._suffices[bool(is_train)]:
            self._ran = self._substitute(bool(is_train))
        self._ran.forward(bool(is_train), self._observers())
        if self._ran is not self._program and self._ran.outputs is not self.outputs:
            for mine, other in zip(self.outputs, self._ran.outputs, strict=True):
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
        >>> exe = mx.sym.exp(mx.sym.Variable("x")).simple_bind(mx.cpu(), x=(2,), grad_req="add")
        >>> for _ in range(2):
        ...     out = exe.forward(is_train=True)
        ...     exe.backward([mx.nd.array([1, 10])])
        >>> exe.grad_arrays[0].asnumpy().tolist()
        [2.0, 20.0]
        """
        self._ran.backward(out_grads, bool(is_train), self._observers())

    def retain(self) -> None:
        """Let another backward pass follow the next one, without a forward pass between them."""
        self._ran.retain()

    def _substitute(self, is_train: bool) -> ExecutorProgram:
        """The program that runs instead: the graph without changes, or NumPy forms."""
        if not self._suffices[is_train]:
            return self._unchanged
        if self._first is not None and self._first.is_over:
            self._first = None
        return self._first or self._program

    def _observers(self) -> Sequence[StepWatcher]:
        """Watchers of the steps of any program."""
        return () if self._monitor is Executor.profiler is None else [
            one for one in (self._monitor, Executor.profiler) if one is not None]

    @cached_property
    def _unchanged(self) -> PlannedProgram:
        """That of the symbol's own nodes, for monitors, and for training without gradients."""
        return planned_program(self._binding, self._shared, self._states, optimize=False)

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
        >>> net = mx.sym.relu(mx.sym.Variable("x"), name="act")
        >>> exe = net.bind(mx.cpu(), {"x": mx.nd.array([-1, 1])})
        >>> exe.set_monitor_callback(lambda name, array: print(name, array.asnumpy().tolist()))
        >>> out = exe.forward()
        act_output [0.0, 1.0]
        """
        if not (callback is None or callable(callback)):
            raise TypeError(f"set_monitor_callback: callback is a {type(callback).__name__}, "
                            "expected a function of a name and an NDArray")
        self._observe(None if callback is None else StepMonitor(callback, monitor_all))

    def _observe(self, monitor: StepMonitor | None) -> None:
        """Decide in which modes, inference and training, the program itself runs.

        A monitor sees the graph without the changes of passes, and training of an executor without
        gradients runs that.
        """
        self._monitor, self._suffices = monitor, (True, True)
        if isinstance(self._program, PlannedProgram):
            compiled = self._program.compiled
            if monitor is not None and (compiled.is_simplified or compiled.notes):
                self._suffices = (False, False)
            elif monitor is None and compiled.is_simplified and not compiled.heads:
                self._suffices = (True, False)

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

        Raises
        ------
        MXNetError
            If a name is not an argument, or a shape would change or grow that must not.

        Examples
        --------
        >>> net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="fc")
        >>> exe = net.simple_bind(mx.cpu(), data=(8, 5))
        >>> small = exe.reshape(data=(2, 5))
        >>> small.outputs[0].shape, small.arg_dict["fc_weight"] is exe.arg_dict["fc_weight"]
        ((2, 3), True)
        """
        bound = self._binding._replace(args=self.arg_dict, aux=self.aux_dict)
        reshaped = type(self)(reshape(bound, partial_shaping, allow_up_sizing, shapes), self)
        reshaped._observe(self._monitor)
        return reshaped

    def get_optimized_symbol(self) -> Symbol:
        """Return the symbol that was bound: passes rewrite its graph afterwards (`explain`)."""
        return self._binding.symbol

    def debug_str(self) -> str:
        """Describe the execution plan.

        Returns
        -------
        str
            A table of the steps, their arrays and their addresses in memory, and the total.
        """
        program = self._program
        if not isinstance(program, PlannedProgram):
            return program.debug_str()
        return program.debug_str(None if self._first is None else self._first.note)

    @overload
    def explain(self, *, measured: MeasuredFacts | None = None) -> Explanation: ...

    @overload
    def explain(self, node: str | int, *, not_in: str | None = None,
                alive_at: str | int | None = None) -> Answer: ...

    @overload
    def explain(self, *, step: str | int, measured: MeasuredFacts | None = None) -> Answer: ...

    def explain(self, node: str | int | None = None, *, not_in: str | None = None,
                alive_at: str | int | None = None, step: str | int | None = None,
                measured: MeasuredFacts | None = None) -> Explanation | Answer:
        """Explain the plan, or answer a question about it.

        The network is compiled once more, without arrays, to record why it is as it is.  To ask
        several questions, keep the explanation, which has a method for each.

        Parameters
        ----------
        node : str or int, optional
            A node by name: what became of it.
        not_in : str, optional
            A pass, such as "fuse_elementwise": why it left the node as it is.
        alive_at : int or str, optional
            A step: why the memory of the node's output is not free there.
        step : int or str, optional
            A step by number or name: what it does, where, by which implementation.
        measured : MeasuredFacts, optional
            Times of the steps, from `bench.step_facts(executor)`: what bounds them, and how far
            they are from that.

        Returns
        -------
        Explanation or Answer
            An `Explanation` if nothing is asked.  Both print as text.

        Raises
        ------
        MXNetError
            If there is no such node, pass or step, or no plan (see `is_planned`).

        Examples
        --------
        >>> net = mx.sym.exp(mx.sym.BlockGrad(mx.sym.Variable("x"), name="block"), name="exp")
        >>> executor = net.simple_bind(mx.cpu(), grad_req="null", x=(2, 3))
        >>> executor.explain("block", not_in="fuse_elementwise")
        fuse_elementwise (chains of elementwise nodes become one kernel):
          block became part of x by skip_identities: ask about that
        """
        from .explain.explanation import Explanation

        explanation = Explanation.of(self.planned, measured)
        question = node, not_in, alive_at, step
        return explanation if question == (None,) * 4 else explanation.answer(*question)

    def compare(self, other: Executor | Explanation | str | PathLike[str]) -> Answer:
        """Tell what differs in another plan: passes, steps, bytes by cause, implementations.

        Parameters
        ----------
        other : Executor, Explanation or path
            The plan that would take the place of this one; a path is of a file that
            `nbmod explain --json` wrote.
        """
        return self.explain().compare(other.explain() if isinstance(other, Executor) else other)

    def plan_chart(self, path: str | PathLike[str] | None = None) -> PlanChart:
        """Draw the memory plan as SVG text, which notebooks show: steps and their addresses.

        Parameters
        ----------
        path : str or path, optional
            File that the image is written to.
        """
        from .explain.facts import plan_facts
        from .explain.plan_chart import plan_chart

        return plan_chart(plan_facts(self.compiled), self._binding.symbol.name or "graph", path)
