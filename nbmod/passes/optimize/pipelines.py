"""The graph that inference runs: a symbol's outputs, at less work; and the one to train.

Each line of `simplify` is a pass over the graph that the line before it left.  What holds in
inference only, such as that Dropout passes its input on, or does not show a user who watches every
node, makes this graph one for `forward(is_train=False)` without a monitor.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ...graph import Graph
from ...ops.op import Spec
from ..rewrite import Rewritten, unchanged
from ..switches import is_enabled, run_pass
from .blocked_layout import with_blocks
from .cse import merge_equal, skip_identities
from .fold_batch_norm import fold_batch_norm
from .fuse_depthwise import with_chains
from .fuse_epilogue import absorb
from .fuse_int8 import with_byte_layers
from .hoist_constants import derived_groups, read_shapes
from .reroll_rnn import with_layers
from .tile_batch import in_parts

__all__ = ["for_training", "simplify"]


def simplify(graph: Graph, specs: Sequence[Spec], exact: bool = False, blocks: bool = False
             ) -> Rewritten:
    """`graph`, of whose entries `specs` are known, without what inference can do without.

    With `exact` only what gives the same numbers bit for bit.  With `blocks` images stand in blocks
    of channels where that is faster, and unrolled cells become layers, which CPUs can do.
    """
    known = graph, specs
    found = run_pass("skip_identities", skip_identities, unchanged(graph), *known)
    found = run_pass("cse", merge_equal, found, *known)
    found = run_pass("hoist_constants", read_shapes, found, *known)
    found = run_pass("fuse_int8", with_byte_layers, found, *known) if blocks else found
    if not exact:
        found = run_pass("fold_batch_norm", fold_batch_norm, found, *known)
        if blocks:
            found = run_pass("reroll_rnn", with_layers, found, *known)
            found = run_pass("blocked_layout", with_blocks, found, *known)
            found = run_pass("fuse_depthwise", with_chains, found, *known)
            found = run_pass("tile_batch", in_parts, found, *known)
        found = run_pass("fuse_epilogue", absorb, found, (), not blocks)
    return _with_groups(found, *known)


def for_training(graph: Graph, specs: Sequence[Spec], trained: Collection[str],
                 exact: bool = False, blocks: bool = False) -> Rewritten:
    """`graph` as the gradients of the variables `trained` are found for it.

    Of what follows from parameters only the work of passes runs beside the loop, such as bringing
    weights that stay as they are into another order.
    """
    found = unchanged(graph)
    if exact:
        return found
    if not blocks:
        return run_pass("fuse_epilogue", absorb, found, trained, True)
    found = run_pass("reroll_rnn", with_layers, found, graph, specs)
    found = run_pass("blocked_layout", with_blocks, found, graph, specs, trained)
    found = _with_groups(found, graph, specs)
    return found._replace(groups=[group for group in found.groups
                                  if all(node.op and node.op.derived for node in group)])


def _with_groups(found: Rewritten, first: Graph, specs: Sequence[Spec]) -> Rewritten:
    """`found` with the groups of nodes that need not run every time."""
    if not is_enabled("hoist_constants"):
        return found
    return found._replace(groups=derived_groups(found.graph, found.facts(first, specs)))
