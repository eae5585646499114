"""The program of a binding: a plan, or an interpreter, where there can be no plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..passes.infer import lacks_elements
from .bind import BindArguments
from .bound_region import Bind
from .interpreted import InterpretedProgram
from .pipeline import compile_graph
from .steps import PlannedProgram, SharedMemory, States, explained

if TYPE_CHECKING:
    from .sparse_program import SparseProgram

__all__ = ["planned_program", "program_of"]


def program_of(binding: BindArguments, shared: SharedMemory, states: States, bind: Bind,
               optimize: bool, key: str | None
               ) -> PlannedProgram | InterpretedProgram | SparseProgram:
    """The program of a binding; for `optimize` and `key` see `Executor`.

    `bind` makes the executors of the dense parts of a sparse network.
    """
    if binding.is_sparse:
        from .sparse_program import SparseProgram

        return SparseProgram(binding, bind)
    if key is not None or lacks_elements(*binding.inferred):
        return InterpretedProgram(binding, states, key or "eager")
    return planned_program(binding, shared, states, optimize)


def planned_program(binding: BindArguments, shared: SharedMemory, states: States,
                    optimize: bool = True) -> PlannedProgram:
    """Compile a network and give its plan arrays; without `optimize`, no pass changes its graph."""
    options = binding.options(optimize)
    compiled = binding.compiled if optimize else None
    if compiled is None:
        with explained(binding.inferred):
            compiled = compile_graph(binding.inferred, options)
    return PlannedProgram(binding, compiled, shared, states, options)
