"""Files that nbmod exported give their symbol back.

The metadata of a file has the symbol (`stored_symbol`), but no file is trusted: the symbol is
exported again, with the parameters and the dynamic axes of the file.  It is accepted if that gives
the graph of the file: the same nodes, inputs, outputs and initializers, byte by byte.  So the
metadata cannot change what a file computes, and a file that another program has changed is imported
node by node.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...core.interrupts import from_handler
from ...graph import Entry, Graph
from ...ops.op import Op, Spec
from ...ops.shape import size_of
from ...passes.infer import SHAPES, TYPES
from ...symbol import Symbol
from ...symbol.functions import load_json
from ...symbol.json_text import parse_json
from ..exporting.converter import LARGE_CONSTANTS, load_converters
from ..exporting.export_model import build_export
from ..exporting.exported_model import Export
from ..exporting.inference_form import inference_form
from ..exporting.onnx_graph import Value
from ..exporting.stored_symbol import KEY
from ..exporting.tensor_info import TensorInfo, axis_groups, infer_tensors
from .constant_folding import Folder, TooLarge
from .imported_tensor import Array
from .sample_shapes import MAX_GROUPS, infer_samples

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto

__all__ = ["OwnModel", "own_model"]

LARGEST, LONGEST = 2 ** 27, 2 ** 22
"""Elements of an operator's inputs and outputs together, and of an axis: converters make constants
for axes, such as positions."""
CONVERSIONS = 10_000
"""Operators that are converted, besides four for each node of the file: loops convert their
conditions twice, also those of loops inside of conditions."""
POSITION = np.dtype(np.uint64)
"""Type of the positions that stand for elements of parameters: no tensor of MXNet has it."""


class OwnModel(NamedTuple):
    """The symbol of a file that nbmod exported, and its parameters by name."""

    symbol: Symbol
    parameters: dict[str, Array]


def own_model(model: ModelProto, initializers: Mapping[str, Array]) -> OwnModel | None:
    """The symbol in the metadata of a model, or None if the model is not the export of one.

    Parameters that the file has in another form, such as in pieces, are as they were; elements that
    it does not have, as nothing reads them, are one.
    """
    texts = [entry.value for entry in model.metadata_props if entry.key == KEY]
    if not texts:
        return None
    accepted = None
    try:
        if len(texts) == 1 and not model.functions and _has_known_operators(texts[0]):
            with np.errstate(all="ignore"):  # positions take the place of ranges and scales
                accepted = _Comparison(model, initializers, load_json(texts[0])).run()
    except Exception as error:  # no metadata may prevent the import of the nodes
        if from_handler(error):
            raise
    if accepted is None:
        logging.warning("import_model: the graph is not what nbmod exports for the symbol in the "
                        "metadata of the file, so its nodes are imported one by one")
    return accepted


def _has_known_operators(text: str) -> bool:
    """Whether all operators have converters; others, such as Custom, are not even made."""
    known = load_converters().keys() | {"null"}
    waiting = [parse_json(text, KEY)]
    for each in waiting:  # grows while it is walked
        if isinstance(each, dict):
            if each.get("op", "null") not in known:
                return False
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each
    return True


class _Limits:
    """Limits to an export (`ExportLimits`), in proportion to the file."""

    def __init__(self, nodes: int, initializers: Mapping[str, Array]):
        self.nodes, self.left = nodes, CONVERSIONS + 4 * nodes
        # Positions have eight bytes for an element, of which the file may have one.
        self.reserve = Folder(16 * sum(array.nbytes for array in initializers.values())).reserve

    def check(self, op: Op, inputs: Sequence[Value], ins: Sequence[TensorInfo],
              outs: Sequence[TensorInfo]) -> None:
        self.left -= 1
        shapes = [info.shape for value, info in zip(inputs, ins, strict=True)
                  if value.array is None]
        shapes += [info.shape for info in outs[:op.num_visible]]
        if self.left < 0 or getattr(op, "num_layers", 1) > self.nodes:  # a node is a layer at most
            raise TooLarge(f"{op.name}: more operators or layers than the file has room for")
        if sum(map(size_of, shapes)) > LARGEST or any(max(shape, default=0) > LONGEST
                                                      for shape in shapes):
            raise TooLarge(f"{op.name}: inputs and outputs of shapes {shapes[:20]}")
        # Nodes do not have all attributes, such as the length of the rows of a table.
        if ins and not op.runs_subgraphs and infer_samples(
                op, [(info.shape,) for info in ins], 1)[1] != [(info.shape,) for info in outs]:
            raise ValueError(f"{op.name}: its attributes contradict the shapes of its inputs")
        if op.name in LARGE_CONSTANTS:
            for info in outs:
                self.reserve(info.shape, info.dtype)


class _Comparison:
    """A model, and the export of a symbol that is compared with it."""

    def __init__(self, model: ModelProto, initializers: Mapping[str, Array], symbol: Symbol):
        self.file, self.initializers, self.symbol = model.graph, initializers, symbol
        self.opset, = [entry.version for entry in model.opset_import]
        self.graph = inference_form(Graph(symbol.entries))
        specs = {node.name: Spec(SHAPES.read(node.attrs["__shape__"]),
                                 np.dtype(TYPES.read(node.attrs["__dtype__"])))
                 for node in self.graph.variables}
        axes = {value.name: {axis: dim.dim_param or None
                             for axis, dim in enumerate(value.type.tensor_type.shape.dim)
                             if not dim.HasField("dim_value")} for value in model.graph.input}
        if len(axis_groups(axes)) > MAX_GROUPS:
            raise TooLarge(f"more than {MAX_GROUPS} groups of dynamic axes")
        self.infos = infer_tensors(self.graph, specs, axes, required=False)
        self.specs = {name: spec for name, spec in specs.items() if name not in axes}
        """Shapes and types of the parameters."""

    def run(self) -> OwnModel | None:
        """The symbol and the parameters, if the export is the graph of the file."""
        parameters = self._parameters()
        export = self._export(parameters)
        graph, initializers, _ = export.exported.builder.graph(self.file.name)
        if _messages(graph) != _messages(self.file) or [*initializers] != [
                tensor.name for tensor in self.file.initializer] or not all(
                    _are_equal(array, self.initializers[name])
                    for name, array in initializers.items()):
            return None
        return OwnModel(export.stored_symbol(), parameters)

    def _export(self, parameters: dict[str, Array]) -> Export:
        return build_export(self.symbol, self.graph, self.infos, parameters, self.opset,
                            limits=_Limits(len(self.file.node), self.initializers))

    def _parameters(self) -> dict[str, Array]:
        """The parameters, from the initializers that nodes read as they are, or from pieces.

        Exported with positions for their elements, those that nodes do not read as they are tell
        where the file has each element.
        """
        whole = {name: array for name, spec in self.specs.items()
                 if (array := self.initializers.get(name)) is not None
                 and (array.shape, array.dtype) == spec}
        positions, pieces, read = self._pieces(whole)
        if not whole.keys() <= read:  # a piece may have the name and the shape of the whole
            whole = {name: array for name, array in whole.items() if name in read}
            positions, pieces, _ = self._pieces(whole)
        return whole | self._gathered(positions, pieces)

    def _pieces(self, whole: dict[str, Array]
                ) -> tuple[dict[str, Array], dict[str, Array], set[str]]:
        """The positions of elements, the initializers of them, and variables that nodes read."""
        positions = self._positions(whole)
        exported = self._export(whole | positions).exported
        _, pieces, names = exported.builder.graph(self.file.name)
        return positions, pieces, {node.name for node in self.graph.variables
                                   if id(exported.values[Entry(node)]) in names}

    def _positions(self, whole: Mapping[str, Array]) -> dict[str, Array]:
        """For each parameter that is not whole, numbers of its elements among those of all."""
        limits, positions, begin = _Limits(0, self.initializers), {}, 0
        for name, (shape, _) in self.specs.items():
            if name not in whole:
                limits.reserve(shape, POSITION)
                size = size_of(shape)
                positions[name] = np.arange(begin, begin + size, dtype=POSITION).reshape(shape)
                begin += size
        return positions

    def _gathered(self, positions: Mapping[str, Array], pieces: Mapping[str, Array]
                  ) -> dict[str, Array]:
        """The parameters whose elements are at these positions of the initializers."""
        size = sum(map(np.size, positions.values()))
        elements = {dtype: np.ones(size, dtype)
                    for dtype in {self.specs[name].dtype for name in positions}}
        for name, places in pieces.items():
            if places.dtype == POSITION:
                array = self.initializers[name]
                elements[array.dtype][places] = array
        return {name: elements[self.specs[name].dtype][places]
                for name, places in positions.items()}


def _messages(graph: GraphProto) -> list[list[bytes]]:
    """Nodes, inputs and outputs; shapes between them follow."""
    return [[each.SerializeToString(deterministic=True) for each in field]
            for field in (graph.node, graph.input, graph.output)]


def _are_equal(one: Array, other: Array) -> bool:
    return one is other or (one.dtype, one.shape, one.tobytes()) == (
        other.dtype, other.shape, other.tobytes())
