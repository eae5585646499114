"""First answers: inference begins with the NumPy forms of operators while kernels are compiled.

The first forward pass runs as any other.  If it needs a kernel that is not in the compile cache, it
ends there (`KernelsMissing`), helper processes start to compile (`compile_ahead`), and the pass is
repeated from its beginning with NumPy forms, node by node, by an executor of the same arrays.  So
are the following ones, until the helpers have stored all kernels or have ended; from then on
nothing is left of this but one attribute that is None.  A pass never mixes the two.

It happens only where it was asked for (`predict`, `score`, ``bind(numpy_first=True)``), in
inference, on the CPU, if every node has a NumPy form, and if helpers can start; results are the
same but for rounding, so not in a block of `exact`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ..config import CONFIG, is_numpy_first
from ..ops.numpy_forms import has_numpy_form
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
    if not CONFIG.numpy_first or given.exact or compiled.heads or not on_cpu:
        return None
    return FirstAnswers(given)


def has_numpy_forms(given: BindArguments) -> bool:
    """Whether every node of the symbol has one."""
    graph, specs = given.inferred
    return all(has_numpy_form(node.op, [specs[eid] for eid in graph.input_eids(node)],
                              [specs[eid] for eid in graph.output_eids(node)])
               for node in graph.nodes if node.op is not None)


class FirstAnswers:
    """Which form an executor runs, until all its kernels are there.

    Attributes
    ----------
    is_over : bool
        Whether all later forward passes run kernels.
    """

    def __init__(self, given: BindArguments):
        self._given, self._compilation = given, Compilation()
        self.is_over = False

    def forward(self, executor: Executor) -> Executor:
        """Run a forward pass of inference, and return the executor that has run it."""
        asked = self._given.numpy_first or is_numpy_first()
        if asked and not self._compilation.is_over:
            return self._run_numpy(executor)
        retries = self._compilation.is_of(executor)
        if asked and not retries and executor._monitor is None and has_numpy_forms(self._given):
            try:
                with without_compiling(executor):
                    executor._forward(False)
            except KernelsMissing as missing:
                self._compilation = missing.compilation
                LOG.info("%s: kernels are missing; NumPy computes until they are compiled",
                         self._given.symbol.name or "group")
                return self._run_numpy(executor)
        else:
            executor._forward(False)
        if self._compilation.of is not None:
            LOG.info("%s: compiled kernels compute from now on", self._given.symbol.name or "group")
        self.is_over = True
        return executor

    def _run_numpy(self, executor: Executor) -> Executor:
        executor.in_numpy._monitor = executor._monitor
        executor.in_numpy._forward(False)
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
