"""The graph that inference runs: a symbol's outputs, at less work; and the one to train.

Each line of `simplify` is a pass over the graph that the line before it left.  What holds in
inference only, such as that Dropout passes its input on, or does not show a user who watches every
node, makes this graph one for `forward(is_train=False)` without a monitor.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..graph import Graph
from ..ops.op import Spec
from .absorb import absorb
from .byte_layers import with_byte_layers
from .chains import with_chains
from .derive import derived_groups, read_shapes
from .fold import fold_batch_norm
from .layout import with_blocks
from .parts import in_parts
from .recurrent import with_layers
from .redundant import merge_equal, skip_identities
from .rewrite import Rewritten, unchanged

__all__ = ["for_training", "simplify"]


def simplify(graph: Graph, specs: Sequence[Spec], exact: bool = False, blocks: bool = False
             ) -> Rewritten:
    """`graph`, of whose entries `specs` are known, without what inference can do without.

    With `exact` only what gives the same numbers bit for bit.  With `blocks` images stand in blocks
    of channels where that is faster, and unrolled cells become layers, which CPUs can do.
    """
    found = skip_identities(unchanged(graph), graph, specs)
    found = merge_equal(found)
    found = read_shapes(found, graph, specs)
    found = with_byte_layers(found, graph, specs) if blocks else found
    if not exact:
        found = fold_batch_norm(found, graph, specs)
        found = with_layers(found, graph, specs) if blocks else found
        found = with_blocks(found, graph, specs) if blocks else found
        found = with_chains(found, graph, specs) if blocks else found
        found = in_parts(found, graph, specs) if blocks else found
        found = absorb(found, (), plain=not blocks)
    groups = derived_groups(found.graph, found.facts(graph, specs))
    return found._replace(groups=groups)


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
        return absorb(found, trained, plain=True)
    found = with_blocks(with_layers(found, graph, specs), graph, specs, trained)
    groups = derived_groups(found.graph, found.facts(graph, specs))
    return found._replace(groups=[group for group in groups
                                  if all(node.op and node.op.derived for node in group)])
