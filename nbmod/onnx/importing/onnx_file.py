"""ONNX files: read, and checked for what an importer relies on.

Nothing here trusts the file: it is parsed under limits, names must be unique, and nodes are sorted,
so that a graph with a cycle is found before it is followed.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias

from ...base import ArgumentTypeError, MXNetError, NoSuchFile
from .errors import DamagedModel

if TYPE_CHECKING:
    from google.protobuf.message import Message
    from onnx import GraphProto, ModelProto, NodeProto

__all__ = ["ModelFile", "count_readers", "defined_names", "read_model", "sorted_nodes"]

ModelFile: TypeAlias = "str | os.PathLike[str] | bytes | ModelProto"
"""The path of a file, its content, or a parsed model."""

FIRST_OPSET = 7
MAX_BYTES = 2 ** 31
"""Largest file: protobufs are not larger."""
MAX_DEPTH = 16
"""Graphs inside of attributes of nodes of graphs."""


def read_model(model_file: ModelFile) -> tuple[ModelProto, Path | None]:
    """A parsed model, and the folder that its external data may lie in.

    Raises DamagedModel if it is no ONNX model or is inconsistent, MXNetError if the package onnx is
    missing.
    """
    onnx = _require_onnx()
    folder = None
    if isinstance(model_file, (str, os.PathLike)):
        path = Path(model_file)
        folder, model_file = path.parent, _content(path)
    if isinstance(model_file, bytes):
        model = _parse(onnx.ModelProto(), model_file)
    elif isinstance(model_file, onnx.ModelProto):
        model = model_file
    else:
        raise ArgumentTypeError(f"import_model: {type(model_file).__name__} is given, expected a "
                                "path, bytes or an onnx.ModelProto")
    _check(model)
    return model, folder


def _content(path: Path) -> bytes:
    """The content of a file, which may be neither endless nor larger than a model can be."""
    content = None
    try:
        with open(path, "rb", opener=_open_at_once) as stream:
            status = os.fstat(stream.fileno())
            if stat.S_ISREG(status.st_mode) and status.st_size <= MAX_BYTES:
                content = stream.read()
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        raise NoSuchFile(f"import_model: {path}: {error}") from None
    if content is None:
        raise DamagedModel(f"import_model: {path}: no ONNX model: expected a regular file of at "
                           f"most {MAX_BYTES} bytes, as protobufs are not larger")
    return content


def _open_at_once(path: str, flags: int) -> int:
    """Open a file without waiting for somebody to write to it, if it is a pipe."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _require_onnx() -> ModuleType:
    try:
        import onnx
        import onnx.numpy_helper
    except ImportError:
        raise MXNetError("import_model needs the package onnx; pip install 'nbmod[onnx]'"
                         ) from None
    return onnx


def _parse(model: ModelProto, content: bytes) -> ModelProto:
    try:
        model.ParseFromString(content)
    except Exception as error:  # DecodeError, RecursionError or others, by implementation
        raise DamagedModel(f"import_model: no ONNX model: {error}") from None
    return model


def _check_text(model: ModelProto) -> None:
    """DamagedModel if a text is not UTF-8: protobuf gives it as bytes."""
    messages: list[Message] = [model]
    for message in messages:    # grows while it is walked
        for field, value in message.ListFields():
            if field.type == field.TYPE_MESSAGE:
                messages += [value] if hasattr(value, "ListFields") else value
            elif field.type == field.TYPE_STRING and not _is_text(value):
                raise DamagedModel(f"import_model: {field.full_name} is no text: {value!r:.80}")


def _is_text(value: object) -> bool:
    """Whether a text, or every one of several, is a string."""
    return isinstance(value, str) or not isinstance(value, bytes) and all(
        isinstance(each, str) for each in value)  # type: ignore[attr-defined]  # repeated


def _check(model: ModelProto) -> None:
    _check_text(model)
    if not model.HasField("graph") or not model.graph.output:
        raise DamagedModel("import_model: no ONNX model: it has no graph with outputs")
    versions = [entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")]
    if len(versions) > 1:
        raise DamagedModel(f"import_model: several opsets are declared: {versions}")
    if versions and versions[0] < FIRST_OPSET:
        raise MXNetError(f"import_model: opset {versions[0]} is not supported, only {FIRST_OPSET} "
                         "and later; convert it with onnx.version_converter")


def defined_names(graph: GraphProto) -> Iterator[tuple[str, str]]:
    """Names that a graph defines outside of its nodes, each with what it is."""
    initialized = {tensor.name for tensor in graph.initializer}
    for value in graph.input:  # an initializer may be a default value of an input
        if value.name not in initialized:
            yield value.name, "input"
    for tensor in graph.initializer:
        yield tensor.name, "initializer"
    for sparse in graph.sparse_initializer:
        yield sparse.values.name, "sparse initializer"


def sorted_nodes(graph: GraphProto, depth: int = 0) -> list[NodeProto]:
    """Nodes of a graph inside `depth` others, producers before consumers.

    Raises DamagedModel if a name is defined twice, or nodes need each other.
    """
    if depth > MAX_DEPTH:
        raise DamagedModel(f"graph {graph.name!r}: {MAX_DEPTH} graphs are inside of each other")
    maker = _makers(graph)
    needs = [{maker[name] for name in _read_names(node, depth) if name in maker}
             for node in graph.node]
    return [graph.node[i] for i in _topological(needs, graph)]


def _makers(graph: GraphProto) -> dict[str, int]:
    """Name -> the node that makes it; DamagedModel if a name is defined twice."""
    seen: dict[str, str] = {}
    maker: dict[str, int] = {}
    for name, what in defined_names(graph):
        if name in seen or not name:
            raise DamagedModel(f"graph {graph.name!r}: {what} {name!r} is defined already")
        seen[name] = what
    for index, node in enumerate(graph.node):
        for name in filter(None, node.output):
            if name in seen:
                raise DamagedModel(f"graph {graph.name!r}: node {node.name!r} ({node.op_type}) "
                                   f"writes {name!r}, which is an {seen[name]} already")
            seen[name], maker[name] = "output of a node", index
    return maker


def _read_names(node: NodeProto, depth: int) -> Iterator[str]:
    """Names that a node reads, those of its graphs included."""
    yield from node.input
    for attribute in node.attribute:
        for graph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
            if depth >= MAX_DEPTH:
                raise DamagedModel(f"node {node.name!r}: {MAX_DEPTH} graphs are inside of each "
                                   "other")
            for inner in graph.node:
                yield from _read_names(inner, depth + 1)
            yield from (value.name for value in graph.output)


def count_readers(graph: GraphProto) -> Counter[str]:
    """How often each name is read, by nodes, graphs inside of them, and as an output."""
    counts = Counter(value.name for value in graph.output)
    for node in graph.node:
        counts.update(_read_names(node, 0))
    return counts


def _topological(needs: Sequence[Iterable[int]], graph: GraphProto) -> list[int]:
    waiting = [len(set(before)) for before in needs]
    readers: list[list[int]] = [[] for _ in needs]
    for index, before in enumerate(needs):
        for producer in set(before):
            readers[producer].append(index)
    order = [i for i, count in enumerate(waiting) if not count]
    for index in order:  # grows while it is walked
        for reader in readers[index]:
            waiting[reader] -= 1
            if not waiting[reader]:
                order.append(reader)
    if len(order) < len(waiting):
        stuck = [graph.node[i].name or graph.node[i].op_type
                 for i, count in enumerate(waiting) if count][:10]
        raise DamagedModel(f"graph {graph.name!r}: nodes {stuck} form a cycle")
    return order
