"""An exported model in memory: what is written to a file, and what verification reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...graph import Graph
from ...symbol import Symbol
from .export_graph import ExportedGraph
from .onnx_graph import Tensor
from .stored_symbol import KEY, stored_symbol
from .tensor_info import TensorInfo

if TYPE_CHECKING:
    from onnx import ModelProto

__all__ = ["Export"]


@dataclass
class Export:
    """A model in memory, and what verification needs to know of it."""

    symbol: Symbol
    """The part of the symbol that is exported, as it was given."""
    parameters: dict[str, Tensor]
    graph: Graph
    """In inference form."""
    infos: list[TensorInfo]
    exported: ExportedGraph
    inputs: list[str]

    @property
    def has_custom_nodes(self) -> bool:
        """Whether the model has nodes of a custom domain."""
        domain = self.exported.custom_domain
        return domain is not None and any(
            node.domain == domain for node in self.exported.builder.nodes)

    def model(self) -> ModelProto:
        """The protobuf."""
        model = self.exported.builder.model(self.symbol.name or "model")
        if not self.has_custom_nodes:
            model.metadata_props.add(key=KEY,
                                     value=self.stored_symbol().tojson(remove_amp_cast=False))
        return model

    def stored_symbol(self) -> Symbol:
        """The symbol for the metadata."""
        return stored_symbol(self.graph, self.infos,
                             [value.hint for value, _ in self.exported.builder.outputs])
