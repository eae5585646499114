"""Real graphs run by nbmod and by MXNet with the same weights.

    python -m tests.programs.graph_runs --all

Weights are initialized by the op that reads them and the statistics of BatchNorm are those of the
data, so that values neither vanish nor explode.  Compared are outputs in inference and, where MXNet
trains the graph, outputs and gradients in training (Dropout does nothing there: the packages draw
other values).  An error is the largest difference of an array relative to its largest element.

Selecting ops (NMS, sorting, comparisons, rounding) turn differences in the last bit into other
results.  Where outputs differ, the graph is cut before them: what they read becomes a variable,
with the value that MXNet computed, and an output.  What float32 cannot decide, because a sum
cancels or a ReLU's input is near 0, is compared in float64.

A gradient goes to the larger of two pixels, and through a ReLU or not at all.  Where the last
digits decide, and with them the order of sums and so the machine, it takes another path, and every
gradient before that differs slightly.  The norm of the difference shows how many do so (`flips`).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bench.graph_values import Arrays, draw_values, known_shapes, lightened, readers, statistics
from bench.real_graphs import records, texts
from tests.programs import common

Theirs = Callable[..., dict[str, Any]]

TOLERANCE = 1e-4
SORTS = frozenset({"topk", "sort", "argsort"})
SELECTS = SORTS | frozenset({
    "argmax", "argmin", "floor", "ROIPooling", "_contrib_ROIAlign",
    "_contrib_box_nms", "_contrib_MultiBoxDetection", "_contrib_MultiBoxTarget",
    "_contrib_Proposal", "_contrib_MultiProposal", "broadcast_equal", "_equal_scalar",
    "_greater_scalar", "_lesser_scalar"})  # fmt: skip


# -- graphs as JSON ---------------------------------------------------------------------------


def in_double(text: str) -> str:
    """The graph with float32 replaced by float64 everywhere."""
    graph = json.loads(text)
    for node in graph["nodes"]:
        attrs = node.get("attrs", {})
        attrs.pop("__dtype__", None)
        if attrs.get("dtype") == "float32" or node["op"] in ("_arange", "_zeros"):
            attrs["dtype"] = "float64"
        if node["op"] == "LeakyReLU" and "slope" in attrs:
            attrs["slope"] = "0.125"  # MXNet rounds it to float32
    return json.dumps(graph)


def cut(text: str) -> tuple[str, str, list[str]]:
    """The graph with the inputs of selecting ops as outputs, and with those as variables as well.

    Outputs of sorting ops are variables, too: MXNet puts equal elements into any order.
    """
    graph = json.loads(text)
    nodes = graph["nodes"]
    wanted = sorted({(entry[0], entry[1]) for node in nodes for entry in node["inputs"]
                     if nodes[entry[0]]["op"] in SORTS
                     or node["op"] in SELECTS and nodes[entry[0]]["op"] != "null"})  # fmt: skip
    heads = graph["heads"] + [[*entry, 0] for entry in wanted]
    watched = json.dumps({**graph, "heads": heads})
    names = [f"cut{number}" for number in range(len(wanted))]
    place = {entry: number for number, entry in enumerate(wanted)}
    shift = len(wanted)

    def moved(entry: list[int], selects: bool) -> list[int]:
        selects = selects or nodes[entry[0]]["op"] in SORTS
        number = place.get((entry[0], entry[1])) if selects else None
        return [entry[0] + shift, entry[1], 0] if number is None else [number, 0, 0]

    pieces = [{"op": "null", "name": name, "inputs": []} for name in names]
    pieces += [{**node, "inputs": [moved(e, node["op"] in SELECTS) for e in node["inputs"]]}
               for node in nodes]  # fmt: skip
    arguments = [*range(shift), *(i + shift for i in graph["arg_nodes"])]
    parted = {"nodes": pieces, "arg_nodes": arguments, "attrs": graph["attrs"],
              "heads": [moved(head, False) for head in heads]}  # fmt: skip
    return watched, json.dumps(parted), names


# -- values -----------------------------------------------------------------------------------


def settle(mx: Any, text: str, values: Arrays) -> None:
    """Set the statistics of BatchNorm to those of the batch.

    Variances are larger, so that a few samples do not make them 0 and rounding errors grow.
    """
    counted, norms = statistics(text)
    if not norms:
        return
    found = iter(run(mx, counted, values, is_train=True)["outputs"])
    for norm in norms:
        mean, scale = next(found), next(found)
        variance = np.maximum(1 / np.square(scale, dtype=np.float64) - norm["eps"], 0)
        values[norm["aux"][0]] = mean.astype(np.float32)
        values[norm["aux"][1]] = (variance + 0.1 * np.mean(variance + np.square(mean)) + 1e-3
                                  ).astype(np.float32)  # fmt: skip


# -- runs -------------------------------------------------------------------------------------


def run(mx: Any, text: str, values: Mapping[str, np.ndarray], gradients: bool = False,
        heads: list[np.ndarray] | None = None, is_train: bool = False
        ) -> dict[str, Any]:  # fmt: skip
    """`outputs` and, for all arguments that are no `cut`, `grads`; in either package."""
    symbol, read = mx.sym.load_json(text), readers(text)
    fixed = {name for name, (reader, position) in read.items()
             if name.startswith("cut") or name.endswith("label")  # MXNet leaves labels' unset
             or (reader["op"], position) == ("Embedding", 0)}
    asked = [n for n in symbol.list_arguments() if n not in fixed] if gradients else []
    found = common.run(mx, symbol, values, dict.fromkeys(asked, "write"), heads, is_train)
    return {"outputs": found["outputs"], "grads": found["grads"]}


def pairs(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Outputs and gradients by name."""
    found = {f"output {i}": pair
             for i, pair in enumerate(zip(ours["outputs"], theirs["outputs"], strict=True))}
    return found | {name: (array, theirs["grads"][name]) for name, array in ours["grads"].items()}


def errors(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, float]:
    """The error of every output and gradient.

    A gradient that is nearly 0, as that of a bias before BatchNorm, is rounding alone: it is
    compared at the typical scale of this graph's gradients.
    """
    floor = _floor(theirs)
    return {name: error(*pair, 0.0 if name.startswith("output ") else floor)
            for name, pair in pairs(ours, theirs).items()}  # fmt: skip


def _floor(found: dict[str, Any]) -> float:
    usual = [float(np.abs(g).max(initial=0)) for g in found["grads"].values()]
    return 1e-3 * float(np.median(usual)) if usual else 0.0


def flips(ours: dict[str, Any], theirs: dict[str, Any]) -> float:
    """The largest norm of a difference of gradients, relative to that of the gradient."""
    floor, found = _floor(theirs), [0.0]
    for name, want in theirs["grads"].items():
        scale = max(float(np.linalg.norm(want)), floor * np.sqrt(want.size), 1e-30)
        found.append(float(np.linalg.norm(ours["grads"][name] - want)) / scale)
    return max(found)


def error(got: np.ndarray, want: np.ndarray, floor: float = 0.0) -> float:
    """Largest difference relative to the largest element; infinite where types are other ones."""
    if got.shape != want.shape:
        return np.inf
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    if not np.array_equal(np.isfinite(got), np.isfinite(want)):
        return np.inf
    got, want = got[np.isfinite(want)], want[np.isfinite(want)]
    scale = max(float(np.abs(want).max(initial=0)), floor, 1e-30)
    return float(np.abs(got - want).max(initial=0) / scale)


class Judge:
    """Runs one graph in both packages; `theirs` runs MXNet's side (see `run`)."""

    def __init__(self, mx: Any, theirs: Theirs, name: str, seed: int = 0) -> None:
        self.mx, self.theirs = mx, theirs
        symbol = mx.sym.load_json(texts()[name])
        self.text = lightened(symbol.tojson())
        symbol = mx.sym.load_json(self.text)
        self.known = known_shapes(symbol, mx.MXNetError)
        self.values = draw_values(symbol, self.text, self.known, seed)
        settle(mx, self.text, self.values)

    def compare(self, training: bool) -> dict[str, Any]:
        """How it was compared (`whole`, `pieces` or `double`), and the errors."""
        text, values = self.text, self.values
        ours, theirs = self._both(text, values, training)
        if _worst(errors(ours, theirs)) <= TOLERANCE:
            return _verdict("whole", errors(ours, theirs))
        watched, parted, names = cut(text)
        if names:
            seen = self.theirs(watched, values, is_train=training)["outputs"][-len(names):]
            text, values = parted, values | dict(zip(names, seen, strict=True))
            ours, theirs = self._both(text, values, training)
            if _worst(errors(ours, theirs)) <= TOLERANCE:
                return _verdict("pieces", errors(ours, theirs))
        return self._in_double(text, values, training)

    def _in_double(self, text: str, values: Arrays, training: bool) -> dict[str, Any]:
        """float32 of both packages against float64."""
        double = in_double(text)
        single = text.replace('"slope": "0.1"', '"slope": "0.125"')
        ours, theirs = self._both(single, values, training)
        wide = {name: value.astype(np.float64) for name, value in values.items()}
        exact, refused = self._run(self.mx, double, wide, training), ""
        found = {}
        try:
            truth = self._run(None, double, wide, training)
            found = errors(exact, truth)
            exact = truth
        except Exception as problem:
            refused = str(problem)[-200:]
        mine, mxnets = errors(ours, exact), errors(theirs, exact)
        return {**_verdict("double", found), "refused": refused,
                "single": _verdict("", errors(ours, theirs)),
                "ours": _worst(mine), "theirs": _worst(mxnets), "flips": flips(ours, exact),
                "outputs": _worst({name: value for name, value in mine.items()
                                   if name.startswith("output ")})}  # fmt: skip

    def _both(self, text: str, values: Arrays, training: bool) -> list[dict[str, Any]]:
        return [self._run(mx, text, values, training) for mx in (self.mx, None)]

    def _run(self, mx: Any, text: str, values: Arrays, training: bool) -> dict[str, Any]:
        """nbmod's result, or MXNet's for None."""
        heads = None
        if training:
            symbol = self.mx.sym.load_json(text)
            _, shapes, _ = symbol.infer_shape(**{n: v.shape for n, v in values.items()
                                                 if n in symbol.list_arguments()})
            _, types, _ = symbol.infer_type(**{n: v.dtype for n, v in values.items()
                                               if n in symbol.list_arguments()})
            rng = np.random.default_rng(1)
            heads = [rng.standard_normal(s).astype(t) for s, t in zip(shapes, types, strict=True)]
        asked = {"gradients": training, "heads": heads, "is_train": training}
        return self.theirs(text, values, **asked) if mx is None else run(mx, text, values, **asked)


def _worst(found: dict[str, float]) -> float:
    return max(found.values(), default=0.0)


def _verdict(how: str, found: dict[str, float]) -> dict[str, Any]:
    ranked = sorted(found.items(), key=lambda item: -item[1])
    return {"how": how, "error": _worst(found), "worst": dict(ranked[:3]),
            "wrong": sum(not value <= TOLERANCE for value in found.values()), "of": len(found)}


# -- the program ------------------------------------------------------------------------------


def report(mx: Any, theirs: Theirs, name: str, training: bool = True) -> dict[str, Any]:
    """The comparison of one graph; an exception is reported by its text."""
    started, found = time.perf_counter(), {"name": name}
    try:
        judge = Judge(mx, theirs, name)
        found["shape"] = judge.known["data"]
        found["forward"] = judge.compare(False)
        if training:
            found["training"] = judge.compare(True)
    except Exception as problem:
        found["problem"] = f"{type(problem).__name__}: {problem}"[:1500]
    return {**found, "seconds": round(time.perf_counter() - started, 1)}


def chosen(patterns: list[str]) -> Iterator[str]:
    """Names of graphs that contain one of `patterns`; all without."""
    for name in sorted(texts(), key=lambda name: len(records(name)["nodes"])):
        if not patterns or any(pattern in name for pattern in patterns):
            yield name


def main() -> None:
    """Run the graphs whose names contain an argument, or `--all`; one JSON line for each."""
    import nbmod
    from bench import mxnet_environment
    from tests.oracle.client import Oracle

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("patterns", nargs="*")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--out", type=Path, help="append lines here; what is there is not repeated")
    given = parser.parse_args()
    python = mxnet_environment.find_python()
    if python is None or not (given.patterns or given.all):
        parser.error("name graphs or --all; MXNet's environment must be there")
    done = set()
    if given.out and given.out.exists():
        done = {json.loads(line)["name"] for line in given.out.read_text().splitlines()}
    oracle = Oracle(python, timeout=600)

    def theirs(text: str, values: Arrays, **options: Any) -> dict[str, Any]:
        return oracle.call("mx_scripts.run", "graph_runs", "run", text, values, **options)

    for name in chosen(given.patterns):
        if name in done:
            continue
        line = json.dumps(report(nbmod, theirs, name), default=str)
        print(line, flush=True)
        if given.out:
            with given.out.open("a") as stream:
                stream.write(line + "\n")
    oracle.close()


if __name__ == "__main__":
    sys.exit(main())
