"""Layout assignment: convolutions and their neighbours work on images in blocks of channels.

The blocked layout is oneDNN's nChw8c/nChw16c with a halo (zero padding) around each image.  Layouts
propagate from convolutions to the ops after them, as in "Optimizing CNN Model Inference on CPUs"
(Liu et al., 2019).  The pass goes over the graph three times:

1. *Choose.*  A convolution is blocked where the cost model of all algorithms says that this takes
   the least time (see `ops.blocked.choose_algorithm`).  Ops between convolutions take the layout of
   their inputs: pooling, batch norm, concat, elementwise ops on blocked images alone.
2. *Halos.*  A convolution reads its padding from the halo of its input.  An elementwise op iterates
   over its memory linearly, so all its images have one halo: the widest that any of them needs.
3. *Build.*  Blocked ops replace the others.  Where a plain op reads blocked images, or a blocked op
   plain ones, a reorder is inserted, one for all readers.

An elementwise op needs no blocked variant: its images just have another shape.  Only a function
with f(0) != 0 is followed by a `ZeroPadding`, which zeroes halo and channel padding again.

Assumes: halo and padding channels of every blocked image are 0, those of gradients too (`_at_zero`,
evaluated); images are float32 with four axes, none empty, on the device of the executor
(`_choose`); elementwise ops are functions of tensors of one shape, with one output, and draw
nothing; nobody reads hidden outputs of norms; joined images fill their blocks (`_kind`); weights of
layers that do not learn may be packed, those of others are plain (`_convolution`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from ...graph import Entry, Graph, Node
from ...ops.elementwise.formula_op import FormulaOp
from ...ops.nn.sliding_window import Direction
from ...ops.op import Call, Spec
from ..infer import specs_of
from ..remarks import Obstacle, done, obstacle, refused
from ..rewrite import Rewritten
from .analysis import CONVOLUTIONS, NORMS, count_uses, nodes_with_gradient

if TYPE_CHECKING:
    from ...ops.blocked.address_tables import Sliding
    from ...ops.nn.batch_norm import BatchNormOp
    from ...ops.nn.convolution import Convolution
    from ...ops.nn.pooling import Pooling
    from ...ops.tensor.slicing import Concat

__all__ = ["blocked_layout"]

FLOAT = np.dtype(np.float32)


class Image(NamedTuple):
    """Channels and (height, width) of blocked images."""

    channels: int
    size: tuple[int, int]


@dataclass
class LayoutChoice:
    """The result of the first step."""

    kind: dict[Node, str] = field(default_factory=dict)
    """The kind of each blocked node: "convolution", "pooling", "norm" or "elementwise"."""
    images: dict[Entry, Image] = field(default_factory=dict)
    """The entries that become blocked."""
    data: dict[Node, Spec] = field(default_factory=dict)
    """The input of each convolution."""
    flat: set[Node] = field(default_factory=set)
    """Convolutions of inputs with few channels, such as RGB, which stay unblocked (one lane)."""


def blocked_layout(before: Rewritten, trained: Collection[str] = ()) -> Rewritten:
    """`before` with blocked images around convolutions; `trained` are the variables that get
    gradients."""
    graph = before.graph
    if not any(node.op_name in CONVOLUTIONS for node in graph.nodes):
        return before
    learns = nodes_with_gradient(graph, trained)
    chosen = _choose(graph, specs_of(graph, before.specs), learns)
    if not chosen.kind:
        return before
    return _BlockedGraphBuilder(before, chosen, _halos(chosen), learns).build()


# -- 1. choose ------------------------------------------------------------------------------------

def _choose(graph: Graph, known: Sequence[Spec | None], learns: set[Node]) -> LayoutChoice:
    """Which nodes work on blocked images."""
    chosen = LayoutChoice()
    uses = count_uses(graph)
    read = {entry for node in graph.nodes for entry in node.inputs}
    for node in graph.nodes:
        if node.op is None:
            continue
        kind = _kind(node, graph, known, chosen, learns, uses, Entry(node, 0) not in read)
        if isinstance(kind, Obstacle):
            refused("blocked_layout", node, kind)
            continue
        out = known[graph.output_eids(node)[0]]
        if kind and out is not None and len(out.shape) == 4 and 0 not in out.shape:
            chosen.kind[node] = kind
            _, channels, height, width = out.shape
            chosen.images[Entry(node, 0)] = Image(channels, (height, width))
    return chosen


def _kind(node: Node, graph: Graph, known: Sequence[Spec | None], chosen: LayoutChoice,
          learns: set[Node], uses: Counter[Entry], last: bool) -> str | Obstacle:
    """How a node works on blocked images, or the reason why it does not; "" if it is of no such
    kind.  `last`: no node reads its output."""
    op = node.op
    data = known[graph.input_eids(node)[0]] if node.inputs else None
    # All ops but convolutions take the layout of their input.
    is_convolution = op is not None and op.name in CONVOLUTIONS
    if op is None or data is None or not (is_convolution or node.inputs[0] in chosen.images):
        return ""
    if "__ctx_group__" in node.attrs:
        return obstacle("it has no ctx_group", ctx_group=node.attrs["__ctx_group__"])
    if is_convolution:
        return _convolution_kind(node, data, chosen, learns, last)
    if op.name == "Pooling":
        from ...ops.blocked.blocked_pooling import supports_blocks

        return "pooling" if supports_blocks(cast("Pooling", op)) else obstacle(
            "it takes a maximum, average or sum, of channels first")
    if op.name in NORMS:
        norm = cast("BatchNormOp", op)
        if norm.output_mean_var or uses[Entry(node, 1)] or uses[Entry(node, 2)]:
            return obstacle("nothing reads its statistics")
        return "norm" if norm.axis % 4 == 1 else obstacle("it scales channels", axis=norm.axis)
    if op.name == "Concat":
        return (_plain_input(node, chosen) or _cut_blocks(node, chosen)) or "elementwise"
    if isinstance(op, FormulaOp) or op.name in ("add_n", "BlockGrad", "_copy"):
        specs = [known[eid] for eid in (*graph.input_eids(node), *graph.output_eids(node))]
        return (_plain_input(node, chosen) or _uneven(node, specs, learns)) or "elementwise"
    return ""


def _plain_input(node: Node, chosen: LayoutChoice) -> Obstacle | None:
    """The obstacle of an input that is not in blocks."""
    plain = next((entry for entry in node.inputs if entry not in chosen.images), None)
    return obstacle("all inputs are in blocks", input=plain) if plain else None


def _cut_blocks(node: Node, chosen: LayoutChoice) -> Obstacle | None:
    """The reason why a node does not join whole blocks."""
    from ...ops.blocked.layout import LANES

    # Only the last input may have a partial one.
    for entry in node.inputs[:-1]:
        if chosen.images[entry].channels % LANES:
            return obstacle("whole blocks are joined", input=entry,
                            channels=chosen.images[entry].channels, block=LANES)
    dim = cast("Concat", node.op).dim
    return None if dim % 4 == 1 else obstacle("channels are joined", axis=dim)


def _uneven(node: Node, specs: Sequence[Spec | None], learns: set[Node]) -> Obstacle | None:
    """The reason why a node does not do the same to every element, halo and padding included."""
    if len(set(specs)) > 1:
        return obstacle("all tensors have one shape and type",
                        shapes=[spec.shape for spec in specs if spec])
    op = node.op
    if not isinstance(op, FormulaOp):
        return None
    if not op.is_pure:
        return obstacle("it draws no random numbers")
    if node.num_outputs != 1:
        return obstacle("it has one output", outputs=node.num_outputs)
    if node in learns and not _at_zero(op)[1]:
        return obstacle("its gradients at 0 are 0")
    return None


def _convolution_kind(node: Node, data: Spec, chosen: LayoutChoice, learns: set[Node], last: bool
                      ) -> str | Obstacle:
    """"convolution" where the cost model prefers blocks, or the reason why it is none of blocks."""
    op = cast("Convolution", node.op)
    if data.dtype != FLOAT:
        return obstacle("it computes in float32", dtype=str(data.dtype))
    if len(data.shape) != 4 or len(op.kernel) != 2:
        return obstacle("images have two axes", shape=data.shape)
    if op.channels_last:
        return obstacle("channels come first")
    from ...ops.blocked.blocked_convolution import FLAT
    from ...ops.blocked.choose_algorithm import costs_in_blocks

    blocked, data_learns = node.inputs[0] in chosen.images, node.inputs[0].node in learns
    wants: dict[Direction, bool] = {"forward": True, "weight": node in learns, "data": data_learns}
    directions = [direction for direction, is_wanted in wants.items() if is_wanted]
    costs = costs_in_blocks(op.geometry(data), directions, blocked, last)
    if costs is None:
        return obstacle("channels and filters fill vectors", channels=data.shape[1],
                        filters=op.num_filter, groups=op.num_group)
    if costs.blocks > costs.plain:
        return obstacle("blocks take less time", blocks_ns=round(costs.blocks),
                        plain_ns=round(costs.plain))
    chosen.data[node] = data
    if data.shape[1] < FLAT and not blocked and not data_learns:
        chosen.flat.add(node)
    return "convolution"


@cache
def _at_zero(op: FormulaOp) -> tuple[bool, bool]:
    """Whether f(0) is 0, and whether the gradients there are 0 if that of the result is.

    Found by evaluating both at 0.
    """
    count = len(op.list_inputs())
    zeros, out = [np.zeros(1, FLOAT) for _ in range(count)], np.ones(1, FLOAT)
    back = [np.ones(1, FLOAT) for _ in range(count)]
    with np.errstate(all="ignore"):
        op.forward(zeros, [out], Call())
        tensors = {"ograd": np.zeros(1, FLOAT), "output": out,
                   **dict(zip(op.list_inputs(), zeros, strict=True))}
        if op.list_needs():
            op.backward([tensors[need] for need in op.list_needs()], back, Call())
    vanish = not op.list_needs() or not any(np.any(each != 0) for each in back)
    return bool(out[0] == 0), vanish


# -- 2. halos -------------------------------------------------------------------------------------

def _halos(chosen: LayoutChoice) -> dict[Entry, int]:
    """The halo of every blocked entry."""
    halos = dict.fromkeys(chosen.images, 0)
    for node, kind in chosen.kind.items():
        if kind == "convolution" and node.inputs[0] in halos:  # the halo must hold the padding
            halos[node.inputs[0]] = max(halos[node.inputs[0]], *_slide(node).pad)
    # All images of an elementwise op have the widest halo of any; to a fixpoint, in both orders.
    tied = [[*node.inputs, Entry(node, 0)] for node, kind in chosen.kind.items()
            if kind == "elementwise"]
    changed = True
    while changed:
        changed = False
        for entries in (*tied, *reversed(tied)):
            widest = max(halos[entry] for entry in entries)
            changed = changed or any(halos[entry] < widest for entry in entries)
            halos.update(dict.fromkeys(entries, widest))
    return halos


def _slide(node: Node) -> Sliding:
    from ...ops.blocked.address_tables import Sliding

    op = cast("Convolution", node.op)
    kernel, stride, pad, dilate = (cast("tuple[int, int]", each) for each in op.params)
    return Sliding(kernel, stride, pad, dilate, op.num_group)


# -- 3. build -------------------------------------------------------------------------------------

class _BlockedGraphBuilder:
    """The new graph, node by node; an old entry may exist in plain layout, blocked, or both."""

    def __init__(self, before: Rewritten, chosen: LayoutChoice, halos: dict[Entry, int],
                 learns: set[Node]):
        from ...ops.blocked import layout, ops

        self.ops, self.lanes = ops, layout.LANES
        self.before, self.graph = before, before.graph
        self.origin, self.notes = dict(before.origin), list(before.notes)
        self.chosen, self.halos = chosen, halos
        self.learns = learns
        self.plain: dict[Entry, Entry] = {}
        self.blocked: dict[tuple[Entry, int, int], Entry] = {}
        """By entry, halo and lanes of a block."""
        self.builders = {"convolution": self._convolution, "pooling": self._pooling,
                         "norm": self._norm, "elementwise": self._elementwise}

    def build(self) -> Rewritten:
        for node in self.graph.nodes:
            kind = self.chosen.kind.get(node)
            if kind is None:
                self._keep(node)
            else:
                out = Entry(node, 0)
                blocks = self.builders[kind](node)
                self.blocked[out, self.halos[out], self.lanes] = blocks
                for index in range(1, node.num_outputs):
                    self.plain[Entry(node, index)] = Entry(blocks.node, index)
                padded = blocks.node.op_name == self.ops.ZeroPadding.name
                done("blocked_layout", node, "it works on blocks of channels",
                     into=blocks.node.inputs[0].node if padded else blocks.node)
                self.notes.append(f"{node.describe()} works on blocks of channels")
        graph = Graph([self._plain(entry) for entry in self.graph.outputs])
        return self.before._replace(graph=graph, origin=self.origin, notes=self.notes)

    def _keep(self, node: Node) -> None:
        """A node on plain images, or a clone of it where its inputs have been replaced."""
        inputs, plain_node = [self._plain(entry) for entry in node.inputs], node
        if inputs != node.inputs:
            plain_node = node.clone(inputs, node.source)
            self.origin[plain_node] = self.origin.get(node, node)
        for index in range(node.num_outputs):
            self.plain[Entry(node, index)] = Entry(plain_node, index)

    def _plain(self, entry: Entry) -> Entry:
        """The entry in plain layout (N, C, H, W), through a reorder if need be."""
        if entry not in self.plain:
            image, halo = self.chosen.images[entry], self.halos[entry]
            reorder = self.ops.FromBlocks(image.channels, halo, self.lanes)
            self.plain[entry] = Entry(Node(reorder, f"{entry.node.name}_plain",
                                           [self._blocked(entry)]))
        return self.plain[entry]

    def _reordered(self, entry: Entry, channels: int, halo: int, lanes: int) -> Entry:
        """The entry in blocks, with a halo of at least this width, through a reorder if need be."""
        halo = self.halos.get(entry, halo)
        key = entry, halo, lanes
        if key not in self.blocked:
            reorder = self.ops.IntoBlocks(channels, halo, lanes)
            self.blocked[key] = Entry(Node(reorder, f"{entry.node.name}_blocks",
                                           [self._plain(entry)]))
        return self.blocked[key]

    def _convolution(self, node: Node) -> Entry:
        from ...ops.blocked import choose_algorithm

        op = cast("Convolution", node.op)
        slide, out, whole = _slide(node), Entry(node, 0), self.chosen.data[node]
        channels, size = whole.shape[1], self.chosen.images[out].size
        lanes = 1 if node in self.chosen.flat else self.lanes
        data = self._reordered(node.inputs[0], channels, max(slide.pad), lanes)
        weight, *bias = (self._plain(entry) for entry in node.inputs[1:])
        # Weights that are not trained are packed once; the algorithm is direct, or Winograd's with
        # tiles of `tile` x `tile` pixels.
        packed = node not in self.learns
        layer = choose_algorithm.Layer(slide, whole.shape[0], channels,
                                       (whole.shape[2], whole.shape[3]), op.num_filter, size,
                                       not packed)
        tile, why = choose_algorithm.choose(layer) if lanes > 1 else (0, "")
        if why:
            algorithm = f"by tiles of {tile} x {tile} pixels" if tile else "directly"
            self.notes.append(f"{node.describe()} is computed {algorithm} ({why})")
        if packed:
            packing = self.ops.PackedFilters(slide, channels, op.num_filter, lanes, tile)
            weight = Entry(Node(packing, f"{node.name}_packed", [weight]))
        conv = self.ops.BlockedConvolution(
            slide, channels, op.num_filter, self.halos.get(node.inputs[0], max(slide.pad)),
            self.halos[out], bool(bias), packed, winograd_tile=tile,
            needs_data_grad=node.inputs[0].node in self.learns)
        return Entry(Node(conv, node.name, [data, weight, *bias]))

    def _pooling(self, node: Node) -> Entry:
        from ...ops.blocked.blocked_pooling import BlockedPooling

        data, out, op = node.inputs[0], Entry(node, 0), cast("Pooling", node.op)
        pooling = BlockedPooling(op, self.chosen.images[out].channels, self.halos[data],
                                 self.halos[out])
        return Entry(Node(pooling, node.name, [self._blocked(data)]))

    def _norm(self, node: Node) -> Entry:
        from ...ops.blocked.blocked_batch_norm import BlockedBatchNorm

        data, out, op = node.inputs[0], Entry(node, 0), cast("BatchNormOp", node.op)
        norm = BlockedBatchNorm(op, self.chosen.images[out].channels,
                                (self.halos[data], self.halos[out]))
        rest = [self._plain(entry) for entry in node.inputs[1:]]
        return Entry(Node(norm, node.name, [self._blocked(data), *rest]))

    def _elementwise(self, node: Node) -> Entry:
        inputs, out = [self._blocked(entry) for entry in node.inputs], Entry(node, 0)
        if node.op_name == "Concat":
            return Entry(Node(self.ops.BlockedConcat(len(inputs)), node.name, inputs))
        blocks = Entry(node.clone(inputs, node.source))
        image, halo = self.chosen.images[out], self.halos[out]
        if isinstance(node.op, FormulaOp) and not _at_zero(node.op)[0] and (
                halo or image.channels % self.lanes):
            padding = self.ops.ZeroPadding(image.channels, halo)
            blocks = Entry(Node(padding, f"{node.name}_cleared", [blocks]))
        return blocks

    def _blocked(self, entry: Entry) -> Entry:
        """The entry in the blocks in which it was computed."""
        return self.blocked[entry, self.halos[entry], self.lanes]
