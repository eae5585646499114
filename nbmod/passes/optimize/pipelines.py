"""The pass pipelines: which optimizations run before inference and before training.

Each line of `simplify` runs one pass on the result of the line before it.  Some of them hold only
in inference, such as that Dropout is the identity, and intermediate results may disappear: the
executor runs the result for `forward(is_train=False)` without a monitor.

Assumes: all nodes are on one device, and all arrays have elements (`execution.pipeline`:
`compile_graph`, `_simplify`); training and monitors run the graph as it was, unless it was made for
training (`Executor._observe`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ...graph import Graph
from ...ops.op import Spec
from ..rewrite import Rewritten, unchanged
from ..switches import run_pass
from .blocked_layout import blocked_layout
from .cse import cse, skip_identities
from .fold_batch_norm import fold_batch_norm
from .fuse_depthwise import fuse_depthwise
from .fuse_epilogue import fuse_epilogue
from .fuse_int8 import fuse_int8
from .hoist_constants import fold_shape_reads, hoist_constants
from .reroll_rnn import reroll_rnn
from .tile_batch import tile_batch

__all__ = ["for_training", "simplify"]


def simplify(graph: Graph, specs: Sequence[Spec], exact: bool = False, blocks: bool = False
             ) -> Rewritten:
    """`graph`, whose entries have these `specs`, optimized for inference.

    With `exact`, only passes that give bitwise the same results run.  `blocks` allows blocked
    layouts and recurrent layers, which exist on CPUs only.
    """
    network = run_pass(skip_identities, unchanged(graph, specs))
    network = run_pass(cse, network)
    network = run_pass(fold_shape_reads, network)
    network = run_pass(fuse_int8, network) if blocks else network
    if not exact:
        network = run_pass(fold_batch_norm, network)
        network = run_pass(reroll_rnn, network) if blocks else network
        network = run_pass(blocked_layout, network) if blocks else network
        network = run_pass(fuse_epilogue, network, (), not blocks)
        network = run_pass(fuse_depthwise, network)
        network = run_pass(tile_batch, network)
    return run_pass(hoist_constants, network)


def for_training(graph: Graph, specs: Sequence[Spec], trained: Collection[str],
                 exact: bool = False, blocks: bool = False) -> Rewritten:
    """`graph` optimized for training, before gradients of the variables `trained` are added.

    Only ops that passes inserted are hoisted out of the training loop, such as packing weights
    that are not trained.
    """
    network = unchanged(graph, specs)
    if exact:
        return network
    if not blocks:
        return run_pass(fuse_epilogue, network, trained, True)
    network = run_pass(reroll_rnn, network)
    blocked = run_pass(blocked_layout, network, trained)
    if blocked is network:    # there are no epilogues on CPUs, and no weights that are packed
        return network
    network = run_pass(hoist_constants, run_pass(fuse_epilogue, blocked, trained))
    return network._replace(groups=[group for group in network.groups
                                    if all(node.op and node.op.derived for node in group)])
