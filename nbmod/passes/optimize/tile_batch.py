"""Batch tiling (micro-batching): convolution and pooling run on a few images at a time.

Activations are largest after the first convolutions, and the pooling after them leaves a quarter.
In inference nothing else reads what is between the two, so it need not exist for the whole batch:
`BatchTiles` takes as many images through both as stay in the cache.

Assumes: nothing else reads the results in between, and each op computes an image from that image
alone: a convolution that adds nothing, formulas of one input, a pooling (`_chain`); the images of a
tile divide the batch (`_tile_size`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import prod

from ...graph import Entry, Graph, Node
from ...ops.elementwise.formula_op import FormulaOp
from ...ops.nn.batch_tiles import BatchTiles, divisors_up_to
from ...ops.op import Spec
from ..infer import specs_of
from ..remarks import Obstacle, obstacle
from ..rewrite import Replacement, Rewritten, rewrite
from .analysis import count_uses, other_reader

__all__ = ["tile_batch"]

CACHE_BYTES = 2 ** 22
"""Size of the activations between two ops of a tile."""
MIN_IMAGES = 4
"""Tiles of so few images would leave threads idle."""


def tile_batch(before: Rewritten) -> Rewritten:
    """`before` with one node for each convolution, elementwise functions of it, and pooling."""
    graph = before.graph
    if not any(map(_chain, graph.nodes)):
        return before
    uses = count_uses(graph)
    known = cache(lambda: specs_of(graph, before.specs))

    def rule(node: Node, inputs: list[Entry]) -> Replacement | Obstacle | None:
        chain = _chain(node)
        if not chain:
            return None
        why = next(filter(None, (other_reader(graph, uses, each.inputs[0])
                                 for each in chain[1:])), None)
        if why is not None:
            return why
        if getattr(chain[0].op, "add", True):
            return obstacle("the convolution adds nothing", layer=chain[0])
        images = _tile_size(chain, graph, known())
        if images is None or isinstance(images, Obstacle):
            return images
        # In the new graph the data may come from tiles, too.
        read = [inputs]
        while len(read) < len(chain):
            read.insert(0, read[0][0].node.inputs)
        rest = [entry for each in read for entry in each[1:]]
        tiles = Node(BatchTiles(tuple(each.op for each in chain if each.op), images), node.name,
                     [read[0][0], *rest])
        names = " -> ".join(each.name for each in chain)
        return Replacement([Entry(tiles)], f"{names}: {images} image(s) at a time",
                           rule="it runs on some images at a time", joined=chain[:-1])

    return rewrite(before, rule)


def _chain(pooling: Node) -> list[Node]:
    """The nodes from a convolution to a pooling; [] if there is something else in between."""
    if pooling.op_name != "_blocked_pooling":
        return []
    chain = [pooling]
    while True:
        node = chain[0].inputs[0].node
        chain.insert(0, node)
        if node.op_name == "_blocked_convolution":
            return chain
        if not (isinstance(node.op, FormulaOp) and len(node.inputs) == 1):
            return []


def _tile_size(chain: list[Node], graph: Graph, known: Sequence[Spec | None]
               ) -> int | Obstacle | None:
    """How many images a tile has, or the reason why tiling does not pay."""
    out, weight = (known[graph.eid(entry)] for entry in (chain[1].inputs[0], chain[0].inputs[1]))
    if out is None or weight is None:
        return None
    batch, image_bytes = out.shape[0], prod(out.shape[1:]) * out.dtype.itemsize
    images = max(divisors_up_to(batch, CACHE_BYTES // image_bytes), default=0)
    if images == batch:
        return obstacle("the batch is larger than the cache", bytes=batch * image_bytes,
                        cache=CACHE_BYTES)
    if images <= MIN_IMAGES:
        return obstacle("a tile of the batch keeps all threads busy", images=images,
                        least=MIN_IMAGES + 1)
    # Every tile reads the weights again, so these must be the smaller part of the traffic.
    if weight.nbytes > images * image_bytes:
        return obstacle("weights are smaller than a tile", weights=weight.nbytes,
                        tile=images * image_bytes)
    return images
