"""A callback that writes graph, scalars and histograms for TensorBoard."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base import MXNetError
from ..graph import Entry, Graph
from ..metric.eval_metric import numbers
from ..passes.entry_names import distinct_names
from .loggers import learning_rate
from .watchers import epoch_values

if TYPE_CHECKING:
    from ..module.module_interface import ModuleInterface
    from ..module.training_position import BatchEndParam
    from ..symbol import Symbol

__all__ = ["TensorBoard"]


class TensorBoard:
    """Writes the network, metrics and distributions of parameters for TensorBoard.

    Pass one object to `fit` as both `batch_end_callback` and `eval_end_callback`, or as one of
    them. There are the graph, the scalars ``train/<metric>``, ``validation/<metric>`` and
    ``learning_rate``, and histograms ``parameters/<name>`` and ``gradients/<name>``. Steps are
    updates of the optimizer, so that resumed training goes on where it was. Needs the package
    `tensorboardX`.

    Parameters
    ----------
    folder : str or path
        Folder of the event file.
    period : int, default 50
        Write metrics after every `period`-th batch of an epoch, beginning with the first, and after
        the last.
    histograms : int, default 1
        Write histograms after every `histograms`-th epoch; 0 for none.

    Raises
    ------
    MXNetError
        If `tensorboardX` is not installed.

    Examples
    --------
    >>> board = mx.callback.TensorBoard("runs/1")                       # doctest: +SKIP
    >>> module.fit(train_data, eval_data, num_epoch=5, batch_end_callback=board,
    ...            eval_end_callback=board)                             # doctest: +SKIP
    >>> board.close()                                                   # doctest: +SKIP
    """

    def __init__(self, folder: str | os.PathLike[str], period: int = 50, histograms: int = 1):
        try:
            from tensorboardX import SummaryWriter
        except ImportError:
            raise MXNetError("TensorBoard writes through another package: "
                             "pip install 'nbmod[tensorboard]'") from None
        self.writer: Any = SummaryWriter(os.fspath(folder))
        self.period, self.histograms = period, histograms
        self._has_graph = False

    def __call__(self, param: BatchEndParam) -> None:
        module: ModuleInterface = param.locals["self"]
        step = max((optimizer.num_update for optimizer in module._optimizers()), default=0)
        values = epoch_values(param)
        if "end_of_batch" not in param.locals:
            self._scalars("validation", values or {}, step)
            self.writer.flush()
            return
        if not self._has_graph:
            self._has_graph = True
            self._write_graph(module)
        if values is not None or param.nbatch % self.period == 0:
            self._scalars("train", values or numbers(param.eval_metric.get_name_value()), step)
            self.writer.add_scalar("learning_rate", learning_rate(module) or 0.0, step)
        if values is not None:
            if self.histograms and (param.epoch + 1) % self.histograms == 0:
                self._write_histograms(module, step)
            self.writer.flush()

    def close(self) -> None:
        """Close the event file."""
        self.writer.close()

    def _scalars(self, kind: str, values: dict[str, float], step: int) -> None:
        for name, value in values.items():
            self.writer.add_scalar(f"{kind}/{name}", value, step)

    def _write_graph(self, module: ModuleInterface) -> None:
        symbol: Symbol | None = getattr(module, "symbol", None)
        if symbol is None:  # a sequence of modules
            return
        from tensorboardX.proto.event_pb2 import Event

        shapes = {desc.name: desc.shape for desc in [*module.data_shapes,
                                                     *(module.label_shapes or [])]}
        graph = _graph(symbol, shapes).SerializeToString()
        self.writer.file_writer.add_event(Event(graph_def=graph))

    def _write_histograms(self, module: ModuleInterface, step: int) -> None:
        names = module.get_params()[0]
        for name, array in names.items():
            self._histogram(f"parameters/{name}", array.asnumpy(), step)
        gradients: dict[str, np.ndarray] = {}
        for executor in module._executors():
            for name, gradient in executor.grad_dict.items():
                if gradient is not None and name in names:
                    gradients[name] = gradients.get(name, 0) + gradient.asnumpy()
        for name, values in gradients.items():
            self._histogram(f"gradients/{name}", values, step)

    def _histogram(self, name: str, values: np.ndarray, step: int) -> None:
        finite = values[np.isfinite(values)]
        if finite.size:
            self.writer.add_histogram(name, finite.astype(np.float64), step)


def _graph(symbol: Symbol, shapes: dict[str, tuple[int, ...]]) -> Any:
    """The `GraphDef` of a symbol: its nodes with their attributes and the shapes of outputs."""
    from tensorboardX.proto.attr_value_pb2 import AttrValue
    from tensorboardX.proto.graph_pb2 import GraphDef
    from tensorboardX.proto.node_def_pb2 import NodeDef
    from tensorboardX.proto.tensor_shape_pb2 import TensorShapeProto

    internals = symbol.get_internals()
    shape_of = dict(zip(internals.entries, internals.infer_shape_partial(**shapes)[1], strict=True))
    graph, names = GraphDef(), distinct_names(Graph(symbol.entries).nodes)
    for node, name in names.items():
        attributes = {key: AttrValue(s=value.encode()) for key, value in node.attrs.items()}
        shape = shape_of[Entry(node)]
        if shape:
            dimensions = [TensorShapeProto.Dim(size=size) for size in shape]
            attributes["_output_shapes"] = AttrValue(list=AttrValue.ListValue(
                shape=[TensorShapeProto(dim=dimensions)]))
        inputs = [names[source] + (f":{index}" if index else "") for source, index in node.inputs]
        graph.node.append(NodeDef(name=name, op="Variable" if node.is_variable else node.op_name,
                                  input=inputs, attr=attributes))
    return graph
