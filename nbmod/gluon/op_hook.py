"""`OpHook`: a user's function sees what the operators of hybridized calls compute."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..execution.cached_op import CachedOp
from ..execution.step_monitor import named_inputs, named_outputs
from ..graph import Graph
from ..ndarray import NDArray
from ..symbol import Symbol

__all__ = ["OpHook"]


@dataclass(frozen=True)
class OpHook:
    """Shows arrays of a running network to a user's function, with the operators they are of."""

    callback: Callable[[bytes, bytes, NDArray], object]
    monitor_all: bool

    def watch(self, cached_op: CachedOp, network: Symbol) -> None:
        """Observe all calls of a network."""
        ops = dict(_monitored(Graph(network.entries)))

        def show(name: str, array: NDArray) -> None:
            if name in ops:
                self.callback(name.encode(), ops[name].encode(), array)

        cached_op.set_monitor_callback(show, self.monitor_all)


def _monitored(graph: Graph) -> Iterator[tuple[str, str]]:
    """Names of inputs and outputs of operators, as monitors see them, and the operators."""
    for node in graph.nodes:
        if node.op is not None:
            names = [*named_inputs(node, range(len(node.inputs))),
                     *named_outputs(node, range(node.num_outputs))]
            yield from ((name, node.op.name) for name, _ in names if name.startswith(node.name))
