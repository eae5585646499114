"""The layers of a network with their sizes and costs, as data and as tables.

`mx.viz.print_summary` prints and returns a `Summary`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import accumulate, zip_longest

from ..base import MXNetError
from ..graph import Entry, Graph, Node
from ..ops.control_flow.control_base import Control
from ..ops.op import Spec
from ..ops.shape import is_known, size_of
from ..symbol import Symbol
from .picture import cells_of, without_controls
from .symbol_picture import facts_of

__all__ = ["LayerSummary", "Summary", "summarize"]

PARAMETERS = ("weight", "bias", "gamma", "beta", "parameters")
"""Names of ops' inputs that are trained."""
COLUMNS = {"Layer (type)": 32, "Output": 17, "Params": 11, "MACs": 8, "Memory": 8}
"""Title of a column -> its characters; with spaces between columns a line has 80."""
WIDTH = sum(COLUMNS.values()) + len(COLUMNS) - 1


@dataclass(frozen=True)
class LayerSummary:
    """One layer.

    Parameters
    ----------
    name, op : str
        Name and operator; that of a variable is ``null``.
    inputs : tuple of str
        Names of the layers that it reads.
    shape : tuple of int or None
        Shape of its first output, if shapes are known.
    parameters : int
        Elements of the parameters that it is the first to read.
    macs : int or None
        Multiplications with an addition, if shapes are known.
    nbytes : int or None
        Bytes of its outputs, if shapes and types are known.
    """

    name: str
    op: str
    inputs: tuple[str, ...]
    shape: tuple[int, ...] | None
    parameters: int
    macs: int | None = None
    nbytes: int | None = None


@dataclass(frozen=True)
class Summary:
    """The layers of a network in topological order, after the first variable.

    ``str`` is a table of 80 columns.
    """

    layers: tuple[LayerSummary, ...]

    @property
    def parameters(self) -> int:
        """Elements of all parameters; each is counted once."""
        return sum(layer.parameters for layer in self.layers)

    @property
    def macs(self) -> int | None:
        """Multiplications with an addition, of a forward pass; None without shapes."""
        return _total(layer.macs for layer in self.layers)

    @property
    def nbytes(self) -> int | None:
        """Bytes of the outputs of all layers; None without shapes."""
        return _total(layer.nbytes for layer in self.layers)

    def __repr__(self) -> str:
        return f"<Summary: {', '.join(self._totals())}>"

    def _totals(self) -> Iterator[str]:
        yield f"{sum(layer.op != 'null' for layer in self.layers):,} layers"
        yield f"{self.parameters:,} parameters"
        if self.macs is not None:
            yield f"{_short(self.macs)} multiply-adds"
        if self.nbytes is not None:
            yield f"{_short(self.nbytes, 'B')} of outputs"

    def __str__(self) -> str:
        rule = "-" * WIDTH
        lines = [rule, *_written([*COLUMNS]), rule]
        for layer in self.layers:
            lines += _written(_fields(layer))
        lines += [rule, f"Total params: {self.parameters}"]
        if self.macs is not None:
            lines.append(f"Total MACs: {self.macs} ({_short(self.macs)})")
        if self.nbytes is not None:
            lines.append(f"Outputs of all layers: {self.nbytes} bytes "
                         f"({_short(self.nbytes, 'B')})")
        return "\n".join([*lines, rule])

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{title}</th>" for title in COLUMNS)
        rows = "".join("<tr>" + "".join(f"<td>{escape(without_controls(field))}</td>"
                                        for field in _fields(layer)) + "</tr>"
                       for layer in self.layers)
        return (f"<details><summary>{', '.join(self._totals())}</summary>"
                f"<table><tr>{head}</tr>{rows}</table></details>")

    def table(self, line_length: int = 120, positions: Sequence[float] = (.44, .64, .74, 1.)
              ) -> str:
        """Return the layers as MXNet prints them, in a table of `line_length` characters.

        `positions` are the ends of the four columns: fractions of `line_length` if the last one is
        at most 1, else characters. What is longer than its column is cut.
        """
        ends = [int(line_length * p) for p in positions] if positions[-1] <= 1 else list(positions)
        rule = "_" * line_length
        lines = [rule, _row(("Layer (type)", "Output Shape", "Param #", "Previous Layer"), ends),
                 "=" * line_length]
        for layer in self.layers:
            first, *others = layer.inputs or ("",)
            lines.append(_row((f"{layer.name}({layer.op})", _times((layer.shape or ())[1:]),
                               layer.parameters, first), ends))
            lines += [_row(("", "", "", name), ends) for name in others]
            lines.append(("=" if layer is self.layers[-1] else "_") * line_length)
        return "\n".join([*lines, f"Total params: {self.parameters}", rule])


def summarize(symbol: Symbol, shape: Mapping[str, Sequence[int]] | None = None) -> Summary:
    """Return the layers of a network; `shape` has shapes of inputs by name.

    ValueError if not all shapes follow from those.
    """
    graph = Graph(symbol.entries)
    shapes = None if shape is None else facts_of(symbol, "infer_shape", shape, "shape")
    sizes = shapes or facts_of(symbol, "infer_shape_partial", {}, "shape")
    counts = _parameter_counts(graph, sizes)
    specs = _specs(graph, shapes) if shapes else {}
    shown = [node for at, node in enumerate(graph.nodes) if not at or not node.is_variable]
    names = {id(node): node.name for node in shown}
    return Summary(tuple(LayerSummary(
        node.name, node.op_name,
        tuple(dict.fromkeys(names[id(e.node)] for e in _distinct(node) if id(e.node) in names)),
        shapes[Entry(node)] if shapes else None, counts[node], *_costs(node, specs))
        for node in shown))


def _distinct(node: Node) -> Iterable[Entry]:
    return {id(entry.node): entry for entry in node.inputs}.values()


def _specs(graph: Graph, shapes: Mapping[Entry, tuple[int, ...]]) -> dict[Entry, Spec]:
    """Shape and type of every output, hidden ones included; none if not all are known."""
    from ..passes.infer import infer_shape, infer_type

    inferred = infer_shape(graph, {Entry(node): shapes[Entry(node)] for node in graph.variables})
    try:
        types = infer_type(graph, {})
    except MXNetError:
        return {}
    specs = [Spec(shape, dtype) for shape, dtype in zip(inferred, types, strict=True)
             if shape and is_known(shape) and dtype is not None]
    if len(specs) < graph.num_entries:
        return {}
    return {Entry(node, index): specs[eid] for node in graph.nodes
            for index, eid in enumerate(graph.output_eids(node))}


def _costs(node: Node, specs: Mapping[Entry, Spec]) -> tuple[int | None, int | None]:
    """Multiplications with additions, and bytes of outputs."""
    from ..execution.cost_model import products_of

    if not specs:
        return None, None
    outs = [specs[Entry(node, index)] for index in range(node.num_outputs)]
    macs = 0 if node.op is None else products_of(node.op, [specs[e] for e in node.inputs], outs)
    return macs, sum(spec.nbytes for spec in outs[:node.num_visible])


def _parameter_counts(graph: Graph, sizes: Mapping[Entry, tuple[int, ...]]) -> dict[Node, int]:
    """Node -> elements of the parameters that it is the first to read."""
    counts, seen = dict.fromkeys(graph.nodes, 0), set()
    for node in graph.nodes:
        for name, entry in _reads(node):
            if name in PARAMETERS and entry.node.is_variable and id(entry.node) not in seen:
                seen.add(id(entry.node))
                shape = sizes.get(entry)
                counts[node] += size_of(shape) if shape and is_known(shape) else 0
    return counts


def _reads(node: Node) -> Iterator[tuple[str, Entry]]:
    """The inputs of a node under their names; of a loop, under those that its bodies have."""
    if isinstance(node.op, Control):
        for index, body in enumerate(node.op.bodies):
            outside = dict(zip(body.variables, node.op.sources(index), strict=True))
            for inner in body.forward.nodes:
                yield from ((name, node.inputs[outside[entry]]) for name, entry in _reads(inner)
                            if entry in outside)
    elif node.op is not None:
        yield from zip(node.op.list_inputs(), node.inputs, strict=True)


# -- text -----------------------------------------------------------------------------------------


def _total(values: Iterable[int | None]) -> int | None:
    known = [*values]
    return None if None in known else sum(value for value in known if value is not None)


def _times(shape: Iterable[int]) -> str:
    return "x".join(map(str, shape))


def _fields(layer: LayerSummary) -> list[str]:
    """A layer's cells of the table."""
    exact = f"{layer.parameters:,}"
    shape = "" if layer.shape is None else _times(layer.shape) or "()"
    return [f"{layer.name} ({layer.op})", shape,
            exact if len(exact) <= COLUMNS["Params"] else _short(layer.parameters),
            "" if layer.macs is None else _short(layer.macs),
            "" if layer.nbytes is None else _short(layer.nbytes, "B")]


def _short(number: int, unit: str = "") -> str:
    """A number with three digits: `4.09 G`."""
    value, prefixes = float(number), ["", "k", "M", "G", "T", "P", "E"]
    while value >= 999.5 and len(prefixes) > 1:
        value, prefixes = value / 1000, prefixes[1:]
    digits = 0 if value >= 99.95 or number < 1000 else 1 if value >= 9.995 else 2
    return f"{value:.{digits}f} {prefixes[0]}{unit}".rstrip()


def _written(fields: Sequence[str]) -> Iterator[str]:
    """The lines of a row: what does not fit into its column continues below."""
    columns = [[*_wrapped(without_controls(field), width)]
               for field, width in zip(fields, COLUMNS.values(), strict=True)]
    for parts in zip_longest(*columns, fillvalue=""):
        padded = [" " * (width - cells_of(part)) for part, width
                  in zip(parts, COLUMNS.values(), strict=True)]
        yield " ".join(part + pad if number < 2 else pad + part for number, (part, pad)
                       in enumerate(zip(parts, padded, strict=True))).rstrip()


def _wrapped(text: str, width: int) -> Iterator[str]:
    """Pieces of at most `width` cells, the first without indentation; divided at spaces."""
    start, end, taken = 0, 0, 0
    for at, letter in enumerate(text):
        if letter == " ":
            end = at + 1
        cells = cells_of(letter)
        if taken + cells > width:
            stop = end if end > start else at
            yield "  " * (start > 0) + text[start:stop].rstrip()
            width -= 2 * (start == 0)
            start, taken = stop, cells_of(text[stop:at])
        taken += cells
    yield "  " * (start > 0) + text[start:]


def _row(fields: Sequence[object], ends: Sequence[float]) -> str:
    """Fields side by side, each cut and filled to the end of its column."""
    columns = zip(fields, ends, strict=True)
    *_, line = accumulate(columns, lambda line, column: (line + str(column[0]))[:int(column[1])]
                          .ljust(int(column[1])), initial="")
    return line
