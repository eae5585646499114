"""First answers: a run begins with the NumPy forms of operators while kernels are compiled.

The first forward pass runs as any other.  If it needs a kernel that is not in the compile cache, it
ends there (`KernelsMissing`), helper processes start to compile (`compile_ahead`), and the pass is
repeated from its beginning with NumPy forms: an `InterpretedProgram` of the same arrays runs the
implementation "reference".  So are the following ones, until the helpers have stored all kernels or
have ended; from then on nothing is left of this but one attribute that is None.  A pass never mixes
the two.

Inference does so by itself, training on request (``bind(numpy_first=True)``, a block of
`numpy_first`); on the CPU, if every node has a NumPy form, and if helpers can start.  Results are
the same but for rounding, so not in a block of `exact`.

Executors for training must be bound with the request.  A training step draws random numbers,
updates moving statistics and adds to gradients, so it cannot simply be repeated.  Therefore the
first one is a rehearsal of its forward and backward pass, after which all that it changed is
restored: it finds out whether kernels are missing, so that no later pass does.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..core.config import CONFIG, is_numpy_first
from ..ops.numpy_forms import has_numpy_form
from ..ops.random import rng
from .compile_ahead import Compilation, KernelsMissing, without_compiling
from .interpreted import InterpretedProgram
from .step_monitor import StepMonitor

if TYPE_CHECKING:
    from ..ndarray import NDArray
    from .bind import Arrays, BindArguments
    from .steps import ExecutorProgram, PlannedProgram, StepWatcher

__all__ = ["FirstAnswers", "first_answers", "has_numpy_forms", "restored"]

LOG = logging.getLogger("nbmod")


def first_answers(planned: PlannedProgram) -> FirstAnswers | None:
    """The program that begins with NumPy forms of a plan; None if it may not."""
    on_cpu = [ctx.device_type for ctx in planned.compiled.spaces] == ["cpu"]
    if not CONFIG.numpy_first or planned.binding.exact or not on_cpu:
        return None
    return FirstAnswers(planned)


def _request(binding: BindArguments) -> bool | None:
    """Whether NumPy forms are asked for: by the block that runs, else by what was bound."""
    block = is_numpy_first()
    return binding.numpy_first if block is None else block


def has_numpy_forms(binding: BindArguments, trains: bool = False) -> bool:
    """Whether every node of the symbol has one, and for training its gradient."""
    graph, specs = binding.inferred
    return all(has_numpy_form(node.op, [specs[eid] for eid in graph.input_eids(node)],
                              [specs[eid] for eid in graph.output_eids(node)], trains)
               for node in graph.nodes if node.op is not None)


class FirstAnswers:
    """A program that runs NumPy forms or the plan, until all its kernels are there.

    Once `is_over`, all later passes run kernels.  `in_numpy` runs NumPy forms, once it has.
    """

    def __init__(self, planned: PlannedProgram):
        self._binding, self._planned, self._compilation = planned.binding, planned, Compilation()
        self._has_gradients = bool(planned.compiled.heads)
        self._trains = self._has_gradients and bool(_request(self._binding))
        self.is_over = False
        self.in_numpy: InterpretedProgram | None = None
        self._ran: ExecutorProgram = self._planned

    @property
    def outputs(self) -> list[NDArray]:
        """Outputs of the form that ran."""
        return self._ran.outputs

    def forward(self, is_train: bool, observers: Sequence[StepWatcher] = ()) -> None:
        """Compute the outputs."""
        planned = self._ran = self._planned
        if is_train and not self._has_gradients:
            planned.forward(is_train, observers)
            return
        may_begin = self._may_begin(is_train)
        if may_begin and not self._compilation.is_over:
            self._run_numpy(is_train, observers)
            return
        retries = self._compilation.is_of(planned)
        monitored = any(isinstance(each, StepMonitor) for each in observers)
        if (may_begin and not retries and not monitored and not planned.watchers
                and has_numpy_forms(self._binding, self._trains)):
            try:
                with without_compiling(planned):
                    if self._trains:
                        _rehearse(planned)
                    planned.forward(is_train, observers)
            except KernelsMissing as missing:
                self._compilation = missing.compilation
                LOG.info("%s: kernels are missing; NumPy computes until they are compiled",
                         self._binding.symbol.name or "group")
                self._run_numpy(is_train, observers)
                return
        else:
            planned.forward(is_train, observers)
        if self._compilation.of is not None:
            LOG.info("%s: compiled kernels compute from now on",
                     self._binding.symbol.name or "group")
        self.is_over, self.in_numpy = True, None

    def backward(self, out_grads: NDArray | Arrays | None, is_train: bool,
                 observers: Sequence[StepWatcher] = ()) -> None:
        """Compute the gradients of the last forward pass, by the form that ran."""
        self._ran.backward(out_grads, is_train, observers)

    def retain(self) -> None:
        """Keep what the next backward pass reads, so that another may follow."""
        self._ran.retain()

    def _may_begin(self, is_train: bool) -> bool:
        request = _request(self._binding)
        return bool(request) if self._trains else not is_train and request is not False

    def _run_numpy(self, is_train: bool, observers: Sequence[StepWatcher]) -> None:
        self._ran = self.in_numpy = self.in_numpy or InterpretedProgram(
            self._binding, self._planned.states, "reference")
        self._ran.forward(is_train, observers)

    @property
    def note(self) -> str | None:
        """For `debug_str`: which form runs, and how many kernels are missing."""
        if self._compilation.is_over:
            return None
        missing = self._compilation.missing
        count = "its kernels" if missing is None else f"{missing} more kernel(s)"
        return (f"Runs NumPy forms, node by node, until {count} are compiled; the steps below run "
                "from then on")


def _rehearse(planned: PlannedProgram) -> None:
    """Run all steps of training, with head gradients that mean nothing, and restore what they
    changed."""
    with restored(planned.binding):
        planned.forward(True)
        planned.run(planned.compiled.num_forward, len(planned.compiled.nodes))


@contextmanager
def restored(binding: BindArguments) -> Iterator[None]:
    """Restore at the end of a block what a training step changes: auxiliary states, gradients and
    the sequence of random numbers.

    (What BatchNorm writes into gamma does not depend on it.)"""
    arrays = [*binding.aux.values(), *binding.grads.values()]
    copies, drawn = [array.asnumpy() for array in arrays], rng.get_state()
    try:
        yield
    finally:
        for array, values in zip(arrays, copies, strict=True):
            array[:] = values
        rng.set_state(drawn)
