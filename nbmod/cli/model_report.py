"""The report of `inspect` on a network and its parameters, as a dict that JSON can hold.

Each file is read by itself, so that damage of one does not hide the others; `damage` has a line for
each fault.
"""

from __future__ import annotations

import os
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from ..base import Array, MXNetError
from ..checkpoint import arrays_in
from ..convert.model_formats import (
    FileContent,
    StoredModel,
    find_parts,
    only_archive,
    read_content,
    suffix_of,
)
from ..core.model_archive import Metadata, ModelArchive, beside
from ..diagram.visualization import HIDDEN
from ..graph import Graph
from ..ndarray import NDArray, load
from ..safetensors.model_file import SYMBOL, as_ndarrays, split_by_symbol
from ..safetensors.tensor_file import read_metadata, read_tensors
from ..symbol import Symbol
from ..symbol.inference_symbol import labels_of, predicting
from ..symbol.json_reader import read_graph
from .origins import Origin, next_commands, recognize

__all__ = ["model_report", "not_finite", "statistics"]

Shapes = Mapping[str, tuple[int, ...]]
Report: TypeAlias = "dict[str, Any]"


def model_report(paths: Sequence[str], shapes: Shapes, epoch: int | None = None) -> Report:
    """Describe the model in these files; `shapes` are those of inputs."""
    report: Report = {"files": [], "provenance": {}, "missing operators": [], "damage": []}
    archive = only_archive(paths)
    if archive is not None:
        names, metadata = [*archive.members], archive.metadata
        model = _archived(archive, epoch, report)
    else:
        names = find_parts(paths, epoch)
        metadata = beside(names[0])
        model = _joined([*_contents(names, shapes, report)])
        _tell_checksums(report, paths[0], epoch)
    algorithm = recognize(paths[0], names, model, metadata)
    _tell_algorithm(report, paths[0], model, algorithm, metadata)
    if archive is not None:
        shapes = shapes or metadata.shapes or algorithm.shapes or model.implied_shapes()
    if model.symbol is not None:
        _tell_graph(report, model, shapes)
        if "MACs" not in report:
            report["example"] = model.shape_option()
    report["parameters"] = [
        {"name": name, "kind": kind, **statistics(array.asnumpy())}
        for kind, params in (("arg", model.arg_params), ("aux", model.aux_params))
        for name, array in params.items()]
    report["damage"] += not_finite(report["parameters"])
    return report


def _contents(names: Sequence[str], shapes: Shapes, report: Report) -> Iterator[FileContent]:
    """Contents of files that can be read; the report names the others."""
    for path in names:
        _tell_file(report, path)
        try:
            report |= _declared(path, report)
            yield _content(path, shapes, bool(report["missing operators"]))
        except MXNetError as error:
            _tell_error(report, error)


def _archived(archive: ModelArchive, epoch: int | None, report: Report) -> StoredModel:
    """The model of an archive, as far as it can be read."""
    _tell_file(report, archive.path)
    report["members"] = [{"name": name, "bytes": len(content)}
                         for name, content in archive.members.items()]
    members = archive.find(epoch)
    symbol, params = None, {}
    try:
        if members.symbol is not None:
            text, where = archive.content(members.symbol), f"{archive.path}/{members.symbol}"
            report |= _declared_in_json(text, where, report)
            if not report["missing operators"]:
                symbol = Symbol(read_graph(text, where))
        if members.params is not None:
            params = _numbered(arrays_in(archive, members.params))
    except MXNetError as error:
        _tell_error(report, error)
    return StoredModel(symbol, *split_by_symbol(params, symbol))


def _tell_algorithm(report: Report, path: str, model: StoredModel, algorithm: Origin,
                    metadata: Metadata) -> None:
    """Add the algorithm that made the model, and commands that use the model."""
    report["algorithm"], report["labels"] = algorithm.name, len(metadata.labels)
    report["next"] = (next_commands(path, model, algorithm, metadata) if "members" in report
                      else [])


def _content(path: str, shapes: Shapes, lacks_operators: bool) -> FileContent:
    """The content of a file; without the network if nbmod lacks operators of it."""
    suffix = suffix_of(path)
    if lacks_operators and suffix == ".json":
        return FileContent()
    with warnings.catch_warnings():  # the report names arrays that are not finite
        warnings.filterwarnings("ignore", ".* arrays have NaN: ")
        if lacks_operators and suffix == ".safetensors":
            return FileContent(None, as_ndarrays(path, read_tensors(path)[0]))
        if suffix == ".params":
            return FileContent(None, _numbered(load(path)))
        return read_content(path, shapes)


def _numbered(arrays: list[NDArray] | dict[str, NDArray]) -> dict[str, NDArray]:
    """Arrays by name, or by position: files of arrays without names are no damage."""
    return arrays if isinstance(arrays, dict) else {
        str(number): array for number, array in enumerate(arrays)}


def _tell_error(report: Report, error: MXNetError) -> None:
    """Damage, unless an ONNX file has operators that nbmod lacks or leaves shapes open."""
    if hasattr(error, "nodes"):
        report["missing operators"] = sorted({node.operator for node in error.nodes})
    elif hasattr(error, "inputs"):
        report["needed"] = str(error)
    else:
        report["damage"].append(str(error))


def _joined(contents: Sequence[FileContent]) -> StoredModel:
    symbol = next((one.symbol for one in contents if one.symbol is not None), None)
    params = {name: array for one in contents for name, array in (one.params or {}).items()}
    return StoredModel(symbol, *split_by_symbol(params, symbol))


def _tell_file(report: Report, path: str) -> None:
    nbytes = os.path.getsize(path) if os.path.isfile(path) else None
    report["files"].append({"name": path, "format": suffix_of(path), "bytes": nbytes})


def _tell_checksums(report: Report, path: str, epoch: int | None) -> None:
    """Compare the files of a checkpoint with its checksums, if it has some."""
    from ..core.integrity import verify_checkpoint

    names = [file["name"] for file in report["files"] if file["format"] == ".params"]
    match = re.fullmatch(r"(.+)-(\d{4,})\.params", names[0]) if names else None
    if match and os.path.isfile(f"{match[1]}-{match[2]}.sha256"):
        try:
            verify_checkpoint(match[1], int(match[2]))
            report["provenance"]["checksums"] = "match"
        except MXNetError as error:
            report["damage"].append(str(error))


# -- what a file declares -----------------------------------------------------------------------


def _declared(path: str, report: Report) -> Report:
    """Operators and provenance, as they are in the file, whether nbmod has the operators or not."""
    suffix = suffix_of(path)
    if suffix == ".onnx":
        return _declared_in_onnx(path, report)
    text: str | bytes | None = None
    if suffix == ".json":
        try:
            with open(path, "rb") as stream:
                text = stream.read()
        except OSError as error:
            raise MXNetError(f"{path}: cannot be read: {error.strerror or error}") from error
    elif suffix == ".safetensors":
        metadata = read_metadata(path)
        text = metadata.pop(SYMBOL, None)
        report["provenance"] |= metadata
    return {} if text is None else _declared_in_json(text, path, report)


def _declared_in_json(text: str | bytes, path: str, report: Report) -> Report:
    from ..ops import OPS
    from ..symbol.json_text import parse_json

    graph = parse_json(text, path)
    counts = Counter(_operators(graph))
    version = graph.get("attrs", {}) if isinstance(graph, dict) else {}
    version = version.get("mxnet_version") if isinstance(version, dict) else None
    if isinstance(version, list) and len(version) == 2 and type(version[1]) is int:
        number = version[1]
        report["provenance"]["MXNet"] = f"{number // 10000}.{number // 100 % 100}.{number % 100}"
    else:
        report["provenance"]["MXNet"] = "none recorded, as before 0.9"
    return {"operators": dict(counts.most_common()),
            "missing operators": sorted(name for name in counts if name not in OPS)}


def _operators(graph: object) -> Iterator[str]:
    """The operators of a graph in JSON, and of the graphs in it."""
    nodes = graph.get("nodes") if isinstance(graph, dict) else None
    for node in nodes if isinstance(nodes, list) else ():
        if isinstance(node, dict):
            name, parts = node.get("op"), node.get("subgraphs")
            if isinstance(name, str) and name != "null":
                yield name
            for part in parts if isinstance(parts, list) else ():
                yield from _operators(part)


def _declared_in_onnx(path: str, report: Report) -> Report:
    try:
        import onnx
        from google.protobuf.message import DecodeError
    except ImportError:
        raise MXNetError(f"{path}: ONNX files need the extra onnx: pip install 'nbmod[onnx]'"
                         ) from None
    try:
        model = onnx.load(path, load_external_data=False)
    except OSError as error:
        raise MXNetError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (DecodeError, ValueError) as error:
        raise MXNetError(f"{path}: damaged: {error}") from None
    report["provenance"] |= {
        "producer": f"{model.producer_name} {model.producer_version}".strip(),
        "IR version": model.ir_version,
        "opset": ", ".join(f"{one.domain or 'ai.onnx'} {one.version}"
                           for one in model.opset_import)}
    return {"operators": dict(Counter(node.op_type for node in model.graph.node).most_common())}


# -- what follows from the graph ----------------------------------------------------------------


def _tell_graph(report: Report, model: StoredModel, shapes: Shapes) -> None:
    """Inputs, outputs, MACs and memory plan, and parameters that do not fit the network."""
    from ..passes.infer import infer_shape, infer_type

    assert model.symbol is not None
    arrays = {**model.arg_params, **model.aux_params}
    known_shapes = {**{name: array.shape for name, array in arrays.items()}, **shapes}
    variables = {node.name for node in Graph(model.symbol.entries).variables}
    symbol = predicting(model.symbol, known_shapes)
    graph = Graph(symbol.entries)
    report["damage"] += [f"{name!r} is not in the network" for name in known_shapes
                         if name not in variables]
    if arrays:
        report["damage"] += [f"{name!r} is missing" for name in _missing(model)]
    needed, labels = {node.name for node in graph.variables}, labels_of(symbol, known_shapes)
    known = {name: shape for name, shape in known_shapes.items() if name in needed}
    types = {name: np.dtype(array.dtype) for name, array in arrays.items() if name in needed}
    try:
        entry_shapes = infer_shape(graph, known)
        dtypes = infer_type(graph, types)
    except MXNetError as error:
        report["damage"] += _misfits(graph, arrays, shapes) or [str(error)]
        report["inputs"] = [{"name": name, "shape": None} for name in model.inputs
                            if not name.endswith(HIDDEN) and name not in labels]
        report["outputs"] = [{"name": name, "shape": None} for name in symbol.list_outputs()]
        return
    by_name = {node.name: (graph.output_eids(node)[0]) for node in graph.variables}
    report["inputs"] = [{"name": name, "shape": _plain(entry_shapes[by_name[name]]),
                         "type": str(dtypes[by_name[name]])}
                        for name in symbol.list_arguments()
                        if name not in arrays and name not in labels
                        and (arrays or not name.endswith(HIDDEN))]
    report["outputs"] = [
        {"name": name, "shape": _plain(entry_shapes[eid]), "type": str(dtypes[eid])}
        for name, eid in zip(symbol.list_outputs(), graph.output_ids, strict=True)]
    if all(shape is not None and 0 not in shape for shape in entry_shapes):
        report |= _costs(graph, entry_shapes, dtypes)


def _missing(model: StoredModel) -> list[str]:
    """Parameters and states that the network has and the files have not."""
    assert model.symbol is not None
    return [*(name for name in model.inputs if name.endswith(HIDDEN)),
            *(name for name in model.symbol.list_auxiliary_states()
              if name not in model.aux_params)]


def _misfits(graph: Graph, arrays: Mapping[str, NDArray], shapes: Shapes) -> list[str]:
    """Parameters of other shapes than those that follow from the inputs."""
    from ..passes.infer import infer_shape

    try:
        entry_shapes = infer_shape(graph, {name: shape for name, shape in shapes.items()
                                           if name in {node.name for node in graph.variables}})
    except MXNetError:
        return []
    wrong = []
    for node in graph.variables:
        array, shape = arrays.get(node.name), entry_shapes[graph.output_eids(node)[0]]
        if array is not None and shape is not None and 0 not in shape and shape != array.shape:
            wrong.append(f"{node.name!r} has shape {array.shape}, the network expects {shape}")
    return wrong


def _plain(shape: Sequence[int] | None) -> list[int] | None:
    return list(shape) if shape else None


def _costs(graph: Graph, shapes: Sequence[Any], dtypes: Sequence[Any]) -> Report:
    """Multiplications with additions, and bytes of the memory plan of inference."""
    from ..context import cpu
    from ..execution.cost_model import products_of
    from ..execution.pipeline import CompileOptions, compile_graph
    from ..ops.op import Spec
    from ..passes.infer import Inferred

    specs = [Spec(shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]
    products = sum(products_of(node.op, [specs[eid] for eid in graph.input_eids(node)],
                               [specs[eid] for eid in graph.output_eids(node)])
                   for node in graph.nodes if node.op is not None)
    names = [node.name for node in graph.arguments]
    try:
        compiled = compile_graph(Inferred(graph, specs), CompileOptions(
            cpu(), dict.fromkeys(names, "null"), {}, {}))
    except MXNetError as error:
        return {"MACs": products, "memory plan": str(error)}
    return {"MACs": products, "memory plan": compiled.plan.total_bytes}


# -- values -------------------------------------------------------------------------------------


def not_finite(rows: Sequence[Report]) -> list[str]:
    """A line for each array with elements that are not finite."""
    return [f"{row['name']!r} has {row['NaN']} NaN and {row['infinite']} infinite elements"
            for row in rows if row["NaN"] or row["infinite"]]


def statistics(array: Array) -> Report:
    """Type, shape, and the least, greatest, mean and standard deviation of finite elements."""
    report: Report = {"type": str(array.dtype), "shape": list(array.shape), "min": None,
                      "max": None, "mean": None, "std": None, "NaN": 0, "infinite": 0}
    finite = array
    if array.dtype.kind == "f":
        is_finite = np.isfinite(array)
        if not is_finite.all():
            report["NaN"] = int(np.isnan(array).sum())
            report["infinite"] = int(array.size - is_finite.sum()) - report["NaN"]
            finite = array[is_finite]
    if finite.size:
        wide = finite.astype(np.float64)    # sums of float16 overflow
        report |= {"min": finite.min().item(), "max": finite.max().item(),
                   "mean": float(wide.mean()), "std": float(wide.std())}
    return report
