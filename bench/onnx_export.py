"""Real graphs exported to ONNX and verified with onnxruntime.

    python -m bench.onnx_export [NAME ...] [--opset N] [--cases CASE ...] [--out FILE]

The graphs are those beside the checkout: files of public repositories, and archives of model
builders.  A file of parameters is used where one lies beside its symbol; other parameters are drawn
as `bench.graph_values` draws them.  NAME is a regular expression; without any, all graphs
are exported.  The table in bench/results/onnx-export.md keeps the rows of the others.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

import nbmod as mx
from nbmod.graph import Graph
from nbmod.onnx.exporting.export_graph import UnsupportedNodes
from nbmod.onnx.exporting.export_model import build_model
from nbmod.onnx.exporting.exported_model import Export
from nbmod.onnx.exporting.inference_form import inference_form
from nbmod.onnx.reference_run import run_graph
from nbmod.onnx.verification import CASES, VerificationError, VerificationReport, verify_export
from nbmod.symbol.inference_symbol import predicting

from .graph_values import draw_values, known_shapes, lightened, statistics
from .real_graphs import FOLDER, PUBLIC, texts

RESULTS = Path(__file__).resolve().parent / "results" / "onnx-export.md"
PARAMETERS = {"det1-symbol.json": "det1-0001.params", "LeNet-symbol.json": "LeNet-0010.params",
              "songtianyi+go-mxnet-predictor__tests__pr3__go_test-symbol.json":
                  "go_test-0001.params"}
"""Public symbols, and the files of their parameters."""
DATA = {"LeNet-symbol.json": (2, 1, 28, 28)}
"""Shapes of the inputs of symbols whose parameters fix them."""
OPSET = 19
"""The first opset with deformable convolutions."""
NOTE = f"""`python -m bench.onnx_export` writes this table (opset {OPSET} unless another is given).

Errors are relative to the largest magnitude in an output; at most 1e-4 passes.  `amplified` are
larger errors although every node computes what nbmod's does from the same inputs, of models whose
own results change as much when all numbers change by their last digits, or in float64: those that
choose among scores, or round to 8 bits."""
HEAD = ("| graph | nodes | largest relative error | amplified | why not | seconds |",
        "|---|--:|--:|--:|---|--:|")
PUBLIC_NAMES = frozenset(path.name for path in PUBLIC)


class Row(NamedTuple):
    """What became of a graph: its error, or why there is none.

    `amplified` is the largest error above the tolerance where every node agrees on the same inputs,
    and where nbmod's own result changes as much when all numbers change by their last digits, or
    when it is computed in float64.
    """

    name: str
    nodes: int
    error: float | None
    reason: str
    seconds: float
    amplified: float = 0.0

    @property
    def passed(self) -> bool:
        return self.error is not None and not self.reason


def parameters_beside(name: str) -> dict[str, np.ndarray]:
    """The parameters in the file beside a public symbol, if there is one."""
    prefix = PARAMETERS.get(name)
    if prefix is None:
        return {}
    stored = mx.nd.load(str(FOLDER / "public" / prefix))
    return {key.partition(":")[2]: array.asnumpy() for key, array in stored.items()}


def settle(text: str, values: dict[str, np.ndarray]) -> None:
    """Set the statistics of BatchNorm to those of the batch, so that no layer's output explodes."""
    counted, norms = statistics(text)
    if not norms:
        return
    graph = Graph(mx.sym.load_json(counted).entries)
    with mx.autograd.train_mode():
        found = run_graph(graph, {name: value.copy() for name, value in values.items()})
    results = iter(found[entry] for entry in graph.outputs)
    for norm in norms:
        mean, scale = next(results), next(results)
        variance = np.maximum(1 / np.square(scale, dtype=np.float64) - norm["eps"], 0)
        values[norm["aux"][0]] = mean
        values[norm["aux"][1]] = (variance + 0.1 * np.mean(variance + np.square(mean)) + 1e-3
                                  ).astype(np.float32)


def export(name: str, opset: int, cases: Sequence[str]) -> Row:
    """Export and verify one graph."""
    start, nodes = time.perf_counter(), 0
    try:
        text = lightened(mx.sym.load_json(texts()[name]).tojson())
        symbol = mx.sym.load_json(text)
        nodes = len(Graph(symbol.entries).nodes)
        stored = parameters_beside(name)
        known = {"data": DATA[name]} if name in DATA else known_shapes(symbol, mx.MXNetError)
        values = draw_values(symbol, text, known) | stored
        if not stored:
            settle(text, values)
        names = [node.name for node in inference_form(Graph(predicting(symbol).entries)).variables]
        arguments, _, states = symbol.infer_shape(**known)
        shapes = dict(zip([*symbol.list_arguments(), *symbol.list_auxiliary_states()],
                           [*arguments, *states], strict=True))
        params = {name: mx.nd.array(values[name]) for name in names if name not in known}
        model = build_model(symbol, params, {name: shapes[name] for name in names if name in known},
                            opset=opset)
        report = verified(model, cases)
        strict = [each.relative for each in report.comparisons if not each.sensitivity]
        return Row(name, nodes, max(strict, default=0.0), "", time.perf_counter() - start,
                   max([each.relative for each in report.amplified], default=0.0))
    except UnsupportedNodes as problem:
        found = Counter(f"{op}: {why}" for _, op, why in problem.nodes)
        reason = "; ".join(f"{why} ({count})" for why, count in found.items())
    except VerificationError as problem:
        worst = problem.report.worst.relative if problem.report else float("nan")
        shown = re.sub(r"\S*/model\.onnx", "model.onnx", str(problem)).replace("\n", " ")
        return Row(name, nodes, worst, shown[:600], time.perf_counter() - start)
    except (mx.MXNetError, ValueError) as problem:
        reason = str(problem).replace("\n", " ")[:300]
        if "Custom" in reason or '"op": "Custom"' in texts()[name]:
            reason = "it has operators in Python (Custom), which are not in the file"
    return Row(name, nodes, None, reason, time.perf_counter() - start)


def verified(model: Export, cases: Sequence[str]) -> VerificationReport:
    """What verification finds of a model."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model.onnx"
        Path(path).write_bytes(model.model().SerializeToString())
        return verify_export(model, path, cases)


class Table:
    """The table, with the rows of earlier runs of graphs that this one does not choose."""

    def __init__(self, path: Path):
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        self.path = path
        self.lines = {line.split(" | ")[0][2:]: line for line in text.splitlines()
                      if line.startswith("| ") and line.split(" | ")[0][2:] in texts()}

    def add(self, row: Row) -> None:
        """Add a row, and write the file."""
        error = "" if row.error is None else f"{row.error:.1e}"
        amplified = f"{row.amplified:.1e}" if row.amplified else ""
        self.lines[row.name] = (f"| {row.name} | {row.nodes} | {error} | {amplified} | "
                                f"{row.reason.replace('|', '/')} | {row.seconds:.1f} |")
        self.path.write_text("\n".join(self._text()), encoding="utf-8")

    def _text(self) -> Iterator[str]:
        yield from ("# Export to ONNX", "", NOTE, "")
        public = [name for name in self.lines if name in PUBLIC_NAMES]
        for title, names in (("Public files", public),
                             ("Model builders", self.lines.keys() - set(public))):
            lines = [self.lines[name] for name in sorted(names)]
            passed = sum(line.split(" | ")[4].strip() == "" for line in lines)
            yield from (f"## {title}: {passed} of {len(lines)} graphs export and verify", "",
                        *HEAD, *lines, "")


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--opset", type=int, default=OPSET)
    parser.add_argument("--cases", nargs="*", default=list(CASES))
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    chosen = [name for name in texts()
              if any(re.search(pattern, name) for pattern in options.names or [""])]
    table = Table(options.out)
    for name in sorted(chosen):
        row = export(name, options.opset, options.cases)
        table.add(row)
        shown = "ok" if row.passed else "FAILED"
        print(f"{shown:7} {name:60} {row.error or 0:9.1e} {row.amplified:9.1e} "
              f"{row.seconds:6.1f} s {row.reason}",
              flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
