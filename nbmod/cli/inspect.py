"""`inspect`: the contents of a file, and its damage.

    nbmod inspect net-symbol.json net-0007.params --shape data=1,3,224,224
    nbmod inspect net --json
    nbmod inspect model.tar.gz
    nbmod inspect train.rec
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from typing import Any

from ..base import MXNetError
from ..core.reprs import aligned
from . import rec
from .options import add_model_options, import_modules

__all__ = ["HELP", "arguments", "run"]

HELP = "tell what is in a file: networks, parameters, optimizer states, records"
STATISTICS = ("min", "max", "mean", "std")
COLUMNS = ("array", "shape", "type", *STATISTICS, "")

Report = dict[str, Any]


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add = parser.add_argument
    add("files", nargs="+", metavar="FILE", help="a model or an archive, as for convert; or "
        ".states, .rec, .idx")
    add_model_options(parser)
    add("--layers", action="store_true", help="print a table of the layers, too")
    add("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Print the report; the exit status is 1 if there is damage."""
    import_modules(options)
    path = options.files[0]
    suffix = os.path.splitext(path)[1].lower()
    if suffix in (".rec", ".idx") or path.endswith((".states", ".states.safetensors")):
        if len(options.files) > 1:
            raise MXNetError(f"inspect: {path} is inspected alone, given {len(options.files)} "
                             "files")
        report, lines = _FORMATS[suffix](path)
    else:
        from .model_report import model_report

        report = model_report(options.files, dict(options.shape), options.epoch)
        lines = _model_lines(report)
    if options.json:
        print(json.dumps(report))
    else:
        print("\n".join([*lines, *(f"damage: {line}" for line in report["damage"])]))
        if options.layers:
            _print_layers(options)
    return int(bool(report["damage"]))


def _print_layers(options: argparse.Namespace) -> None:
    from ..diagram.visualization import print_summary
    from ..symbol.inference_symbol import predicting
    from .origins import describe

    description = describe(options.files, options.epoch, dict(options.shape))
    if description.model.symbol is None:
        raise MXNetError("inspect: --layers needs a network, and there are parameters only")
    symbol = predicting(description.model.symbol, description.model.arg_params)
    shapes = {**description.shapes, **dict(options.shape)}
    declared = {name: shape for name, shape in zip(
        symbol.list_arguments(), symbol.infer_shape_partial(**shapes)[0], strict=True)
        if name in description.model.inputs and shape and 0 not in shape}
    print_summary(symbol, declared or None)


# -- records and optimizer states ---------------------------------------------------------------


def _records(path: str) -> tuple[Report, list[str]]:
    report = rec.describe(path, 5)
    report["damage"] = []
    if report["damaged stretches"]:
        report["damage"].append(f"{report['damaged stretches']} damaged stretches; "
                                "`nbmod rec repair` keeps the intact records")
    return report, rec.describe_lines(path, report)


def _index(path: str) -> tuple[Report, list[str]]:
    """The keys of an index, and whether its offsets are in the file of records beside it."""
    from ..recordio.files import read_index

    record = os.path.splitext(path)[0] + ".rec"
    keys, offsets = read_index(path, record, int)
    report: Report = {"bytes": os.path.getsize(path), "keys": len(keys), "damage": []}
    if len(set(keys)) < len(keys):
        report["damage"].append(f"{len(keys) - len(set(keys))} keys are there twice")
    if os.path.isfile(record):
        report["records of"], size = record, os.path.getsize(record)
        beyond = sum(offset >= size for offset in offsets)
        if beyond:
            report["damage"].append(f"{beyond} offsets are beyond the end of {record}; "
                                    "`nbmod rec2idx` rebuilds the index")
    span = f", from {min(keys)} to {max(keys)}" if keys else ""
    return report, [f"{path}: {report['bytes']:,} bytes, {len(keys):,} keys{span}"]


def _states(path: str) -> tuple[Report, list[str]]:
    """The states of an optimizer by parameter, and its hyperparameters."""
    from ..ndarray import NDArray
    from ..optimizer.state_files import read_states_file
    from .model_report import not_finite, statistics

    states, optimizer = read_states_file(path)
    rows = [{"name": f"{index}{where}", "kind": "state", **statistics(array.asnumpy())}
            for index, state in states.items() for where, array in _arrays(state, "")
            if isinstance(array, NDArray)]
    plain = {} if optimizer is None else {
        name: value for name, value in sorted(vars(optimizer).items())
        if value is None or isinstance(value, (bool, int, float, str))}
    report: Report = {"states": len(states), "parameters": rows, "damage": not_finite(rows),
                      "optimizer": None if optimizer is None else type(optimizer).__name__,
                      "hyperparameters": plain}
    told = "not in the file" if optimizer is None else type(optimizer).__name__ + "".join(
        f", {name}={value}" for name, value in plain.items())
    return report, [f"{path}: states of {len(states)} parameters", f"optimizer: {told}",
                    *_table(rows)]


def _arrays(state: Any, where: str) -> Iterator[tuple[str, Any]]:
    if isinstance(state, (list, tuple)):
        for number, part in enumerate(state):
            yield from _arrays(part, f"{where}.{number}")
    else:
        yield where, state


_FORMATS = {".rec": _records, ".idx": _index, ".states": _states, ".safetensors": _states}


# -- models -------------------------------------------------------------------------------------


def _model_lines(report: Report) -> list[str]:
    lines = [f"{file['name']}: " + ("there is no such file" if file["bytes"] is None
                                    else f"{file['bytes']:,} bytes") for file in report["files"]]
    lines += [f"  {member['name']}: {member['bytes']:,} bytes"
              for member in report.get("members", [])]
    lines += [f"algorithm: {report['algorithm']}"] * bool("members" in report)
    lines += [f"names of classes: {report['labels']}"] * bool(report["labels"])
    lines += [f"next: {command}" for command in report["next"]]
    lines += [f"{key}: {value}" for key, value in report["provenance"].items()]
    for kind in ("inputs", "outputs"):
        lines += [f"{kind}: " + "; ".join(_shown(one) for one in report[kind])
                  for _ in range(kind in report and bool(report[kind]))]
    if "operators" in report:
        lines.append("operators: " + ", ".join(
            f"{name} ({count})" for name, count in report["operators"].items()))
    if report["missing operators"]:
        lines.append("missing operators: " + ", ".join(report["missing operators"]) + (
            "" if report["files"][0]["format"] == ".onnx" else
            "; mx.register_op adds operators of one's own, and --import the module that does so"))
    if "needed" in report:
        lines.append(f"needed: {report['needed']}")
    if "MACs" in report:
        plan = report["memory plan"]
        lines += [f"MACs: {report['MACs']:,}", "memory plan of inference: "
                  + (f"{plan:,} bytes" if isinstance(plan, int) else plan)]
    elif report.get("inputs"):
        lines.append("MACs, memory plan: give the shapes of inputs, such as "
                     + report.get("example", "--shape data=1,3,224,224"))
    return lines + _table(report["parameters"])


def _shown(one: Report) -> str:
    shape = "of unknown shape" if one["shape"] is None else str(tuple(one["shape"]))
    return f"{one['name']} {shape}" + (f" {one['type']}" if "type" in one else "")


def _table(rows: list[Report]) -> list[str]:
    """A line for each array, and their number."""
    if not rows:
        return []
    cells = [COLUMNS, *(_cells(row) for row in rows)]
    elements = sum(_size(row["shape"]) for row in rows)
    return [f"{len(rows)} arrays of {elements:,} elements", *aligned(cells, range(3))]


def _size(shape: list[int]) -> int:
    size = 1
    for dim in shape:
        size *= dim
    return size


def _cells(row: Report) -> tuple[str, ...]:
    name = row["name"] if row["kind"] != "aux" else f"{row['name']} (state)"
    values = ["" if row[key] is None else f"{row[key]:.4g}" for key in STATISTICS]
    wrong = "not finite" if row["NaN"] or row["infinite"] else ""
    return name, "x".join(map(str, row["shape"])), row["type"], *values, wrong
