"""Real graphs exported to ONNX, imported, and exported again: `python -m bench.onnx_round_trip`.

The graphs are those of `bench.onnx_export`, with its parameters and shapes; a NAME is a part of a
name.  The two files must be the same, byte by byte; the table in `bench/results/onnx-round-trip.md`
says why others are not.
"""

from __future__ import annotations

import argparse
import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import nbmod as mx
from bench.onnx_export import DATA, parameters_beside
from nbmod.graph import Graph
from nbmod.onnx.exporting.export_model import build_model
from nbmod.onnx.exporting.inference_form import inference_form, predictions
from nbmod.onnx.importing import UnsupportedModel, import_model
from tests.programs.graph_runs import draw_values, known_shapes, lightened
from tests.programs.real_graphs import PUBLIC, texts

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

TABLE = Path(__file__).parent / "results" / "onnx-round-trip.md"
PUBLIC_NAMES = frozenset(path.name for path in PUBLIC)


class Row(NamedTuple):
    """What became of a graph: 'same', 'other nodes', 'not imported' or 'not exported', and why."""

    name: str
    nodes: int
    verdict: str
    reason: str


def exported(name: str) -> ModelProto:
    """The file of a graph."""
    text = lightened(mx.sym.load_json(texts()[name]).tojson())
    symbol = mx.sym.load_json(text)
    known = {"data": DATA[name]} if name in DATA else known_shapes(symbol, mx.MXNetError)
    values = draw_values(symbol, text, known) | parameters_beside(name)
    inputs = [node.name for node in inference_form(Graph(predictions(symbol).entries)).variables
              if node.name in known]
    arguments, _, states = symbol.infer_shape(**known)
    shapes = dict(zip([*symbol.list_arguments(), *symbol.list_auxiliary_states()],
                      [*arguments, *states], strict=True))
    params = {key: mx.nd.array(value) for key, value in values.items() if key not in known}
    return build_model(symbol, params, {key: shapes[key] for key in inputs}).model()


def exported_again(model: ModelProto) -> ModelProto:
    """The file of an imported file."""
    from onnx import helper

    symbol, arguments, states = import_model(model)
    given = {value.name: value.type.tensor_type for value in model.graph.input}
    inputs = [name for name in symbol.list_inputs() if name in given]
    shapes = {name: tuple(dim.dim_value for dim in given[name].shape.dim) for name in inputs}
    types = [helper.tensor_dtype_to_np_dtype(given[name].elem_type) for name in inputs]
    return build_model(symbol, [arguments, states], shapes, types).model()


def round_trip(name: str) -> Row:
    """Both files of a graph, compared."""
    try:
        first = exported(name)
    except (mx.MXNetError, ValueError) as error:
        return Row(name, 0, "not exported", str(error).replace("\n", " ")[:200])
    count = len(first.graph.node)
    try:
        second = exported_again(first)
    except UnsupportedModel as error:
        return Row(name, count, "not imported", "; ".join(sorted({
            f"{node.operator}: {node.reason}" for node in error.nodes}))[:200])
    if first.SerializeToString(deterministic=True) == second.SerializeToString(deterministic=True):
        return Row(name, count, "same", "")
    return Row(name, count, "other nodes", next(differences(first, second), "other parameters"))


def differences(first: ModelProto, second: ModelProto) -> Iterator[str]:
    """Nodes that differ."""
    for one, other in zip(first.graph.node, second.graph.node, strict=False):
        if one != other:
            yield f"{shown(one)} became {shown(other)}"


def shown(node: NodeProto) -> str:
    attributes = ", ".join(each.name for each in node.attribute)
    return f"{node.name}: {node.op_type}({attributes})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    names = parser.parse_args().names
    logging.disable(logging.WARNING)
    rows = []
    for name in sorted(texts()):
        if not names or any(part in name for part in names):
            rows.append(round_trip(name))
            print(" | ".join(map(str, rows[-1])), flush=True)
    lines = ["# Export, import, export", "", "`python -m bench.onnx_round_trip`; "
             f"nbmod {mx.__version__}"]
    for title, chosen in (("Public files", True), ("Model builders", False)):
        own = [row for row in rows if (row.name in PUBLIC_NAMES) is chosen]
        counts = Counter(row.verdict for row in own)
        lines += ["", f"## {title}: {', '.join(f'{n} {what}' for what, n in counts.most_common())}",
                  "", "| graph | nodes | second file | why |", "|---|--:|---|---|"]
        lines += [f"| {row.name} | {row.nodes} | {row.verdict} | {row.reason.replace('|', '/')} |"
                  for row in own]
    if not names:
        TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
