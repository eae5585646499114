"""The picture of a graph: layers as boxes, folded blocks and the bodies of loops as frames.

Layers that only transform elements or normalize stand below the one that they read, in one box.
Sources (variables, and operators without inputs) are no part of the sequence in which repeats are
sought: one that each copy of a block has for itself is drawn in the block.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Set
from typing import NamedTuple

from ..graph import Node
from ..ops.control_flow.control_base import Control
from .layered import Item, far_edges, place
from .picture import SIZES, Box, Line, Picture, Text, text_width, without_controls
from .repeats import Layers, RepeatedBlock, find_repeats

__all__ = ["NodeFacts", "draw_graph"]

PAD, LEAD, ONE_LINE, LETTERS, LINES = 7.0, 15.0, 200.0, 44, 4
"""Pixels between text and border and from line to line, width up to which name and operator share
a line, letters of a line and lines of a name."""
STACKED = frozenset({
    "BatchNorm", "BatchNorm_v1", "SyncBatchNorm", "LayerNorm", "InstanceNorm", "GroupNorm",
    "Activation", "LeakyReLU", "relu", "sigmoid", "tanh", "softsign", "clip", "Dropout", "Cast",
    "_copy", "BlockGrad", "softmax", "log_softmax", "SoftmaxActivation", "_plus_scalar",
    "_minus_scalar", "_mul_scalar", "_div_scalar"})
"""Operators that stand in the box of what they read."""
STACK = 5
"""Layers of a box."""
KINDS = {
    "null": "variable",
    **dict.fromkeys(("Convolution", "FullyConnected", "Deconvolution", "RNN", "dot", "batch_dot",
                     "Embedding"), "product"),
    **dict.fromkeys(("BatchNorm", "LayerNorm", "InstanceNorm", "GroupNorm", "LRN",
                     "L2Normalization"), "norm"),
    **dict.fromkeys(("Activation", "LeakyReLU", "relu", "sigmoid", "tanh", "softmax", "clip",
                     "SoftmaxActivation", "SoftmaxOutput", "log_softmax"), "activation"),
    "Pooling": "pool", "UpSampling": "pool",
    **dict.fromkeys(("Concat", "Flatten", "Reshape", "transpose", "SliceChannel", "expand_dims",
                     "slice_axis", "SwapAxis", "stack"), "layout")}
"""Operator -> kind of box."""
NESTED = 3
"""Loops in loops are drawn to this depth."""


class NodeFacts(NamedTuple):
    """Text of a layer: its operator in words, and the shapes and types of its outputs."""

    detail: Callable[[Node], str]
    result: Callable[[Node], str]
    hidden: Callable[[Node], bool]
    names: Mapping[Node, str]


class _Tile(NamedTuple):
    """A picture that stands in another one, and where arrows leave it."""

    picture: Picture
    leave: float


class _Group(NamedTuple):
    """The content of one tile: layers of a box, or the first copy of a folded block.

    Of a block also the layers of all copies, and those of the first one that others read.
    """

    nodes: list[Node]
    repeat: RepeatedBlock | None = None
    all_nodes: Sequence[Node] = ()
    exits: Sequence[Node] = ()

    @property
    def members(self) -> Sequence[Node]:
        return self.all_nodes or self.nodes


def draw_graph(nodes: Sequence[Node], facts: NodeFacts) -> Picture:
    """The picture of these nodes, which are in topological order."""
    return _tile([node for node in nodes if not facts.hidden(node)], facts, NESTED).picture


def _tile(nodes: Sequence[Node], facts: NodeFacts, depth: int, exits: Sequence[Node] = ()) -> _Tile:
    """Boxes and arrows; a block, which has exits, gets arrows from above and to below."""
    groups = _groups(nodes, facts, {id(node) for node in exits})
    owner = {id(node): number for number, group in enumerate(groups, 1) for node in group.members}
    edges = dict.fromkeys((owner.get(id(entry.node), 0), number)
                          for number, group in enumerate(groups, 1)
                          for node in group.members for entry in node.inputs
                          if not facts.hidden(entry.node))
    edges.update(dict.fromkeys((owner[id(node)], len(groups) + 1) for node in exits))
    arrows = [(a, b) for a, b in edges if a != b and (a or exits)]
    far = far_edges(len(groups) + 2, arrows)
    notes: dict[int, list[str]] = {}
    for source, target in sorted(far):
        name = groups[source - 1].nodes[-1].name if source else "input"
        notes.setdefault(target, []).append(name)
    tiles = [_draw_group(group, facts, depth, notes.get(number, []))
             for number, group in enumerate(groups, 1)]
    return _assembled(tiles, [edge for edge in arrows if edge not in far], bool(exits))


def _assembled(tiles: Sequence[_Tile], edges: Sequence[tuple[int, int]], is_block: bool) -> _Tile:
    """Tiles 1, 2, ... in their places; 0 is the entry of a block, the number after all its exit."""
    port = Item(0.0, 0.0, 0.0)
    items = [port, *(Item(tile.picture.width, tile.picture.height, tile.leave) for tile in tiles),
             port]
    used = range(len(items)) if is_block else range(1, len(items) - 1)
    placed = place([items[at] for at in used],
                   [(a - used.start, b - used.start) for a, b in edges])
    picture = Picture(placed.width, placed.height, [], [], [])
    for way, (source, target) in zip(placed.ways, edges, strict=True):
        ends = [(p[0], placed.height) for p in way[-1:] if p and target > len(tiles)]
        starts = [(p[0], 0.0) for p in way[:1] if p and not source]
        picture.lines.append(Line([*starts, *way, *ends], not ends))
    corners = dict(zip(used, placed.corners, strict=True))
    for number, tile in enumerate(tiles, 1):
        picture.add(tile.picture, *corners[number])
    leave = corners[len(tiles) + 1][0] if is_block else placed.width / 2
    return _Tile(picture, leave)


# -- what stands together -------------------------------------------------------------------------


def _groups(nodes: Sequence[Node], facts: NodeFacts, exits: Set[int]) -> list[_Group]:
    """Boxes, and folded blocks unless this is one; each after all that it reads."""
    layers = [node for node in nodes if not _is_source(node, facts)]
    blocks = [] if exits else _folded(nodes, layers, facts)
    folded = {id(node) for group in blocks for node in group.members}
    boxes = _stacks([node for node in nodes if id(node) not in folded], nodes, facts, exits)
    position = {id(node): number for number, node in enumerate(layers)}
    return sorted([*blocks, *boxes], key=lambda group: min(
        (position.get(id(node), len(layers)) for node in group.members)
        if group.repeat else [position.get(id(group.nodes[0]), -1)]))


def _is_source(node: Node, facts: NodeFacts) -> bool:
    return all(facts.hidden(entry.node) for entry in node.inputs)


def _stacks(nodes: Iterable[Node], everything: Iterable[Node], facts: NodeFacts, exits: Set[int]
            ) -> list[_Group]:
    """Boxes: a layer, with those below it that only transform its elements."""
    readers = dict.fromkeys(exits, 1)
    for node in everything:
        for key in {id(entry.node) for entry in node.inputs}:
            readers[key] = readers.get(key, 0) + 1
    box: dict[int, _Group] = {}
    for node in nodes:
        shown = [entry.node for entry in node.inputs if not facts.hidden(entry.node)]
        above = box.get(id(shown[0])) if len(shown) == 1 and node.op_name in STACKED else None
        if (above and not shown[0].is_variable and readers[id(shown[0])] == 1
                and len(above.nodes) < STACK and not isinstance(above.nodes[0].op, Control)):
            above.nodes.append(node)
            box[id(node)] = above
        else:
            box[id(node)] = _Group([node])
    return [*{id(group): group for group in box.values()}.values()]


def _folded(nodes: Sequence[Node], layers: Sequence[Node], facts: NodeFacts) -> list[_Group]:
    """Blocks that occur several times in sequence."""
    number = {id(node): at for at, node in enumerate(layers)}
    sources = [node for node in nodes if id(node) not in number]
    number.update((id(node), ~at) for at, node in enumerate(sources))
    reads = [[number[id(entry.node)] for entry in node.inputs if id(entry.node) in number]
             for node in layers]
    repeats = find_repeats(Layers(
        [node.name for node in layers], [_kind(node, facts) for node in layers], reads,
        [_kind(node, facts) for node in sources]))
    readers: dict[int, set[int]] = {}
    for at, positions in enumerate(reads):
        for position in positions:
            readers.setdefault(position, set()).add(at)
    return [_block(repeat, layers, sources, reads, readers) for repeat in repeats]


def _block(repeat: RepeatedBlock, layers: Sequence[Node], sources: Sequence[Node],
           reads: Sequence[Sequence[int]], readers: Mapping[int, set[int]]) -> _Group:
    """The first copy, and the layers of all copies, with sources that are their own."""
    start, period, stop = repeat.start, repeat.period, repeat.stop
    own: dict[int, None] = {}
    first: dict[int, None] = {}
    for at in range(start, stop):
        twin = at + period if at < start + period else at - period
        for mine, other in zip(reads[at], reads[twin], strict=True):
            copies = {(reader - start) // period for reader in readers[mine]}
            if mine < 0 and other < 0 and mine != other and copies == {(at - start) // period}:
                own[mine] = None
                if at < start + period:
                    first[mine] = None
    exits = {(at - start) % period for at in range(start, stop) for reader in readers.get(at, ())
             if (reader - start) // period != (at - start) // period}
    return _Group([*(sources[~at] for at in first), *layers[start:start + period]], repeat,
                 [*(sources[~at] for at in own), *layers[start:stop]],
                 [layers[start + at] for at in sorted(exits)] or [layers[start + period - 1]])


def _kind(node: Node, facts: NodeFacts) -> Hashable:
    """Equal for layers that do the same; loops are all different."""
    if isinstance(node.op, Control):
        return id(node)
    attrs = tuple(sorted((key, value) for key, value in node.attrs.items()
                         if not key.startswith("__")))
    return node.op_name, attrs, facts.result(node)


# -- tiles ----------------------------------------------------------------------------------------


def _draw_group(group: _Group, facts: NodeFacts, depth: int, notes: Sequence[str]) -> _Tile:
    reads = [f"also reads {name}" for name in notes]
    if group.repeat is not None:
        return _frame(_block_title(group), reads, [_tile(group.nodes, facts, depth, group.exits)],
                      [node.name for node in group.all_nodes], joined=True)
    node, control = group.nodes[0], group.nodes[0].op
    if isinstance(control, Control) and depth:
        inside = facts._replace(result=lambda node: "")  # shapes of rows are not known here
        inner = [_tile([one for one in body.forward.nodes if not facts.hidden(one)],
                       inside, depth - 1)
                 for body in control.bodies]
        return _frame(f"{node.name} {control.name.strip('_')}", [*reads, *_results(node, facts)],
                      inner, [node.name])
    return _stack(group.nodes, facts, reads)


def _results(node: Node, facts: NodeFacts) -> list[str]:
    result = facts.result(node)
    return [f"\u2192 {result}"] if result else []


def _block_title(group: _Group) -> str:
    """How often the block occurs, and what tells its first and last copy apart."""
    assert group.repeat is not None
    period, copies = group.repeat.period, group.repeat.copies
    layers = group.all_nodes[len(group.all_nodes) - copies * period:]
    first, last = ([node.name for node in some] for some in (layers[:period], layers[-period:]))
    ends = [os.path.commonprefix([name for name in names if not name.startswith("_")])
            .rstrip("_.-/") for names in (first, last)]
    if not all(ends) or ends[0] == ends[1]:
        ends = [first[0], last[0]]
    return f"\u00d7 {copies} {ends[0]} \u2026 {ends[1]}"


def _frame(title: str, more: Sequence[str], inner: Sequence[_Tile], names: Sequence[str],
           joined: bool = False) -> _Tile:
    """Pictures side by side in a box with a title."""
    rows = [*((line, "head") for line in _lines(title)),
            *((line, "shape") for text in more for line in _lines(text))]
    head = LEAD * len(rows) + PAD
    width = max(sum(tile.picture.width for tile in inner),
                *(text_width(*row) + 2 * PAD for row in rows))
    height = head + max((tile.picture.height for tile in inner), default=0.0)
    picture = Picture(width, height, [Box(0, 0, width, height, "frame", names)], [],
                      _written(rows, 0))
    x = (width - sum(tile.picture.width for tile in inner)) / 2
    leave = x + inner[0].leave if joined else width / 2
    for tile in inner:
        picture.add(tile.picture, x, head)
        x += tile.picture.width
    return _Tile(picture, leave)


def _stack(nodes: Sequence[Node], facts: NodeFacts, notes: Sequence[str]) -> _Tile:
    """A box with a part for each layer; the last one has the shape."""
    parts = [_rows(node, facts) for node in nodes]
    parts[-1] += [(line, "shape") for text in (*_results(nodes[-1], facts), *notes)
                  for line in _lines(text)]
    width = max(_row_width(row) for rows in parts for row in rows) + 2 * PAD
    boxes, texts, y = [], list[Text](), 0.0
    for node, rows in zip(nodes, parts, strict=True):
        height = LEAD * len(rows) + PAD
        boxes.append(Box(0, y, width, height, KINDS.get(node.op_name, "other"), [node.name]))
        texts += _written(rows, y)
        y += height
    return _Tile(Picture(width, y, boxes, [], texts), width / 2)


Row = tuple[str, str]
"""A text and its kind; `name\\tdetail` has both on one line."""


def _rows(node: Node, facts: NodeFacts) -> list[Row]:
    """The name and the operator of a layer, on one line if that is short."""
    name = without_controls(facts.names.get(node, node.name)) or "(no name)"
    detail = without_controls(facts.detail(node))
    together = f"{name}\t{detail}"
    if detail and _row_width((together, "both")) <= ONE_LINE:
        return [(together, "both")]
    return [*((line, "name") for line in _lines(name)),
            *((line, "detail") for line in _lines(detail) if detail)]


def _row_width(row: Row) -> float:
    text, kind = row
    if kind != "both":
        return text_width(text, kind)
    name, detail = text.split("\t")
    return text_width(name, "name") + PAD + text_width(detail, "detail")


def _written(rows: Sequence[Row], top: float) -> list[Text]:
    """The texts of rows in a box."""
    texts = []
    for number, (text, kind) in enumerate(rows):
        y = top + PAD / 2 + LEAD * number + SIZES["name"] - 0.5
        if kind == "both":
            name, detail = text.split("\t")
            texts += [Text(PAD, y, name, "name"),
                      Text(2 * PAD + text_width(name, "name"), y, detail, "detail")]
        else:
            texts.append(Text(PAD, y, text, kind))
    return texts


def _lines(text: str) -> list[str]:
    """A text in lines of a box; of a very long one, its beginning and end."""
    text, most = without_controls(text), LETTERS * LINES
    if len(text) > most:
        text = f"{text[:most // 2 - 1]}\u2026{text[-(most // 2):]}"
    return textwrap.wrap(text, LETTERS)
