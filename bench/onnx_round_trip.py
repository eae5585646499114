"""Real graphs exported to ONNX, imported, and exported again: `python -m bench.onnx_round_trip`.

The graphs are those of `bench.onnx_export`, with its parameters and shapes; a NAME is a part of a
name.  The two files must be the same, byte by byte; the table in `bench/results/onnx-round-trip.md`
says why others are not.  It keeps the rows of graphs that are left out.
"""

from __future__ import annotations

import argparse
import logging
import platform
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import nbmod as mx
from bench.onnx_export import DATA, OPSET, parameters_beside
from nbmod.graph import Graph
from nbmod.onnx.exporting.export_model import build_model
from nbmod.onnx.exporting.inference_form import inference_form
from nbmod.onnx.importing import ShapeNeeded, UnsupportedModel, import_model
from nbmod.symbol.inference_symbol import predicting

from .graph_values import draw_values, known_shapes, lightened
from .real_graphs import PUBLIC, texts

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

TABLE = Path(__file__).parent / "results" / "onnx-round-trip.md"
PUBLIC_NAMES = frozenset(path.name for path in PUBLIC)
HEAD = ("graph", "nodes", "fixed", "dynamic", "why", "run")


class Verdict(NamedTuple):
    """What became of a graph: 'same', 'other nodes', 'not imported' or 'not exported', and why."""

    verdict: str
    reason: str = ""
    nodes: int = 0


class Row(NamedTuple):
    """A graph with fixed shapes, and with a dynamic batch."""

    name: str
    fixed: Verdict
    dynamic: Verdict

    def cells(self) -> list[str]:
        """What the table says of it."""
        reasons = {"fixed": self.fixed.reason, "dynamic": self.dynamic.reason}
        shown = (reasons["fixed"] if reasons["fixed"] == reasons["dynamic"] else "; ".join(
            f"{what}: {why}" for what, why in reasons.items() if why)).replace("|", "/")
        return [self.name, str(self.fixed.nodes), self.fixed.verdict, self.dynamic.verdict, shown]


class Network(NamedTuple):
    """What is exported."""

    symbol: mx.sym.Symbol
    params: Sequence[Mapping[str, mx.nd.NDArray]]
    shapes: Mapping[str, tuple[int, ...]]
    types: Sequence[np.dtype]

    def file(self, dynamic: bool) -> ModelProto:
        """Its file, with fixed shapes or a dynamic first axis of every input."""
        given = [self.shapes[name] for name in self.symbol.list_inputs() if name in self.shapes]
        open_shapes = [(None, *shape[1:]) for shape in given]
        return build_model(self.symbol, self.params, self.shapes, self.types, opset=OPSET,
                           dynamic=dynamic, dynamic_shapes=open_shapes if dynamic else None).model()


def network(name: str) -> Network:
    """A graph with parameters."""
    text = lightened(mx.sym.load_json(texts()[name]).tojson())
    symbol = mx.sym.load_json(text)
    known = {"data": DATA[name]} if name in DATA else known_shapes(symbol, mx.MXNetError)
    values = draw_values(symbol, text, known) | parameters_beside(name)
    inputs = [node.name for node in inference_form(Graph(predicting(symbol).entries)).variables
              if node.name in known]
    arguments, _, states = symbol.infer_shape(**known)
    shapes = dict(zip([*symbol.list_arguments(), *symbol.list_auxiliary_states()],
                      [*arguments, *states], strict=True))
    params = {key: mx.nd.array(value) for key, value in values.items() if key not in known}
    return Network(symbol, [params], {key: shapes[key] for key in inputs},
                   [np.dtype(np.float32)] * len(inputs))


def imported(model: ModelProto, shapes: Mapping[str, tuple[int, ...]]) -> Network:
    """What is exported of a file."""
    from onnx import helper

    symbol, arguments, states = import_model(model)
    given = {value.name: value.type.tensor_type for value in model.graph.input}
    inputs = [name for name in symbol.list_inputs() if name in given]
    types = [helper.tensor_dtype_to_np_dtype(given[name].elem_type) for name in inputs]
    return Network(symbol, [arguments, states], {name: shapes[name] for name in inputs}, types)


def compared(given: Network, dynamic: bool) -> Verdict:
    """Both files of a graph."""
    try:
        first = given.file(dynamic)
    except (mx.MXNetError, ValueError) as error:
        return Verdict("not exported", str(error).replace("\n", " ")[:200])
    count = len(first.graph.node)
    try:
        second = imported(first, given.shapes).file(dynamic)
    except (UnsupportedModel, ShapeNeeded) as error:
        nodes = getattr(error, "nodes", [])
        return Verdict("not imported", "; ".join(sorted({
            f"{node.operator}: {node.reason}" for node in nodes}) or [str(error)])[:200], count)
    if first.SerializeToString(deterministic=True) == second.SerializeToString(deterministic=True):
        return Verdict("same", nodes=count)
    return Verdict("other nodes", next(differences(first, second), "other parameters"), count)


def round_trip(name: str) -> Row:
    """A graph both ways."""
    try:
        given = network(name)
    except (mx.MXNetError, ValueError) as error:
        none = Verdict("not exported", str(error).replace("\n", " ")[:200])
        return Row(name, none, none)
    return Row(name, compared(given, False), compared(given, True))


def differences(first: ModelProto, second: ModelProto) -> Iterator[str]:
    """Nodes that differ."""
    for one, other in zip(first.graph.node, second.graph.node, strict=False):
        if one != other:
            yield f"{shown(one)} became {shown(other)}"


def shown(node: NodeProto) -> str:
    attributes = ", ".join(each.name for each in node.attribute)
    return f"{node.name}: {node.op_type}({attributes})"


class Table:
    """The page of results, with the rows of earlier runs of graphs that this one leaves out."""

    def __init__(self, path: Path):
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        self.path = path
        self.rows = {cells[0]: cells for line in text.splitlines()
                     if len(cells := line.strip("| ").split(" | ")) == len(HEAD)
                     and cells[0] in texts()}

    def add(self, row: Row) -> None:
        """Add a row, and write the file."""
        self.rows[row.name] = [*row.cells(), f"{date.today()}, opset {OPSET}"]
        self.path.write_text("\n".join(self._lines()) + "\n", encoding="utf-8")

    def _lines(self) -> Iterator[str]:
        yield from ("# Export, import, export", "",
                    f"`python -m bench.onnx_round_trip` writes this table; last with nbmod "
                    f"{mx.__version__}, onnx {version('onnx')}, NumPy {np.__version__}, Python "
                    f"{platform.python_version()}. `dynamic` has a dynamic first axis of every "
                    "input.")
        for title, chosen in (("Public files", True), ("Model builders", False)):
            own = [cells for name, cells in sorted(self.rows.items())
                   if (name in PUBLIC_NAMES) is chosen]
            yield from ("", f"## {title}: {len(own)} graphs", "")
            for what in ("fixed", "dynamic"):
                counts = Counter(cells[HEAD.index(what)] for cells in own)
                yield f"- {what}: {', '.join(f'{n} {it}' for it, n in counts.most_common())}"
            yield from ("", f"| {' | '.join(HEAD)} |", "|---|--:|---|---|---|---|")
            yield from (f"| {' | '.join(cells)} |" for cells in own)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of names; default: all")
    parser.add_argument("--skip", nargs="*", default=[], help="names that are left out")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    found = Table(TABLE)
    for name in sorted(texts().keys() - set(options.skip)):
        if not options.names or any(part in name for part in options.names):
            row = round_trip(name)
            found.add(row)
            print(" | ".join(row.cells()), flush=True)


if __name__ == "__main__":
    main()
