"""First answers: a run begins with the NumPy forms of operators while kernels are compiled.

The first forward pass runs as any other.  If it needs a kernel that is not in the compile cache, it
ends there (`KernelsMissing`), helper processes start to compile (`compile_ahead`), and the pass is
repeated from its beginning with NumPy forms, node by node, by an executor of the same arrays.  So
are the following ones, until the helpers have stored all kernels or have ended; from then on
nothing is left of this but one attribute that is None.  A pass never mixes the two.

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
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..config import CONFIG, is_numpy_first
from ..ops.numpy_forms import has_numpy_form
from ..ops.random import rng
from .compile_ahead import Compilation, KernelsMissing, without_compiling

if TYPE_CHECKING:
    from ..executor import Executor
    from .bind import BindArguments
    from .pipeline import CompiledGraph

__all__ = ["FirstAnswers", "first_answers", "has_numpy_forms"]

LOG = logging.getLogger("nbmod")


def first_answers(given: BindArguments, compiled: CompiledGraph) -> FirstAnswers | None:
    """The state of an executor that may begin with NumPy forms; None if it may not."""
    on_cpu = [ctx.device_type for ctx in compiled.spaces] == ["cpu"]
    if not CONFIG.numpy_first or given.exact or not on_cpu:
        return None
    return FirstAnswers(given, bool(compiled.heads))


def _request(given: BindArguments) -> bool | None:
    """Whether NumPy forms are asked for: by the block that runs, else by what was bound."""
    block = is_numpy_first()
    return given.numpy_first if block is None else block


def has_numpy_forms(given: BindArguments, trains: bool = False) -> bool:
    """Whether every node of the symbol has one, and for training its gradient."""
    graph, specs = given.inferred
    return all(has_numpy_form(node.op, [specs[eid] for eid in graph.input_eids(node)],
                              [specs[eid] for eid in graph.output_eids(node)], trains)
               for node in graph.nodes if node.op is not None)


class FirstAnswers:
    """Which form an executor runs, until all its kernels are there.

    Attributes
    ----------
    is_over : bool
        Whether all later passes run kernels.
    """

    def __init__(self, given: BindArguments, has_gradients: bool):
        self._given, self._compilation = given, Compilation()
        self._trains = has_gradients and bool(_request(given))
        self.is_over = False

    def forward(self, executor: Executor, is_train: bool) -> Executor:
        """Run a forward pass, and return the executor that has run it."""
        asked = self._may_begin(is_train)
        if asked and not self._compilation.is_over:
            return self._run_numpy(executor, is_train)
        retries = self._compilation.is_of(executor)
        if (asked and not retries and executor._monitor is None and not executor.watchers
                and has_numpy_forms(self._given, self._trains)):
            try:
                with without_compiling(executor):
                    if self._trains:
                        _rehearse(executor)
                    executor._forward(is_train)
            except KernelsMissing as missing:
                self._compilation = missing.compilation
                LOG.info("%s: kernels are missing; NumPy computes until they are compiled",
                         self._given.symbol.name or "group")
                return self._run_numpy(executor, is_train)
        else:
            executor._forward(is_train)
        if self._compilation.of is not None:
            LOG.info("%s: compiled kernels compute from now on", self._given.symbol.name or "group")
        self.is_over = True
        return executor

    def _may_begin(self, is_train: bool) -> bool:
        request = _request(self._given)
        return bool(request) if self._trains else not is_train and request is not False

    def _run_numpy(self, executor: Executor, is_train: bool) -> Executor:
        executor.in_numpy._monitor = executor._monitor
        executor.in_numpy._forward(is_train)
        return executor.in_numpy

    @property
    def note(self) -> str | None:
        """For `debug_str`: which form runs, and how many kernels are missing."""
        if self._compilation.is_over:
            return None
        missing = self._compilation.missing
        count = "its kernels" if missing is None else f"{missing} more kernel(s)"
        return (f"Runs NumPy forms, node by node, until {count} are compiled; the steps below run "
                "from then on")


def _rehearse(executor: Executor) -> None:
    """Run all steps of training, with head gradients that mean nothing, and restore what they
    changed."""
    with _restored(executor):
        executor._forward(True)
        executor._run(executor.compiled.num_forward, len(executor.compiled.nodes))


@contextmanager
def _restored(executor: Executor) -> Iterator[None]:
    """Restore at the end of a block what a training step changes: auxiliary states, gradients and
    the sequence of random numbers.  (What BatchNorm writes into gamma does not depend on it.)"""
    arrays = [*executor.aux_arrays, *(g for g in executor.grad_arrays if g is not None)]
    kept, drawn = [array.asnumpy() for array in arrays], rng.get_state()
    try:
        yield
    finally:
        for array, values in zip(arrays, kept, strict=True):
            array[:] = values
        rng.set_state(drawn)
