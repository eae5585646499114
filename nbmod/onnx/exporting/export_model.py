"""`export_model`: a symbol and parameters to a file of ONNX, which is then verified."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from ...base import DType, MXNetError, did_you_mean
from ...checkpoint import strip_kind
from ...core.atomic import (
    adopt,
    atomic_write,
    replacing_together,
    require_other_files,
    require_writable,
)
from ...core.foreign import refuse_suffix
from ...graph import Entry, Graph
from ...ndarray import NDArray
from ...ndarray.saving import load as load_arrays
from ...ops.op import Spec
from ...ops.param import Shape
from ...ops.shape import is_known
from ...passes.infer import SHAPES, TYPES
from ...symbol import Symbol
from ...symbol.functions import load as load_symbol
from ...symbol.inference_symbol import predicting
from ..verification import VerificationReport, is_available, verify_export
from .converter import load_converters
from .export_graph import export_graph, output_names, set_outputs
from .exported_model import Export
from .inference_form import inference_form
from .onnx_graph import EXTERNAL_DATA_FROM, IR_VERSIONS, ExportLimits, Tensor
from .tensor_info import DynamicAxes, TensorInfo, infer_tensors

if TYPE_CHECKING:
    from onnx import ModelProto

__all__ = ["build_export", "build_model", "export_model"]

Shapes: TypeAlias = "Sequence[tuple[int, ...]] | Mapping[str, tuple[int, ...]] | tuple[int, ...]"
Params: TypeAlias = ("str | os.PathLike[str] | Mapping[str, NDArray] "
                     "| Sequence[Mapping[str, NDArray]]")
DynamicShapes: TypeAlias = "Sequence[Sequence[int | str | None]]"
DEFAULT_OPSET = 17


def export_model(sym: Symbol | str | os.PathLike[str], params: Params,
                 in_shapes: Shapes | None = None,
                 in_types: DTypeLike | Sequence[DTypeLike] | None = np.float32,
                 onnx_file_path: str | os.PathLike[str] = "model.onnx", verbose: bool = False,
                 dynamic: bool = False, dynamic_input_shapes: DynamicShapes | None = None,
                 run_shape_inference: bool = False,
                 input_type: DTypeLike | Sequence[DTypeLike] | None = None,
                 input_shape: Shapes | None = None, *, opset: int = DEFAULT_OPSET,
                 verify: bool | None = None, until: str | None = None,
                 custom_domain: str | None = None) -> str:
    """Write a symbol with its parameters to a file of ONNX, and verify the file.

    The graph is that of predictions: labels are no inputs, losses become the predictions that they
    make, dropout is left out.  Outputs have the names of the nodes.  Where onnxruntime is
    installed, the model is first run on random and on extreme inputs, and every output compared
    with nbmod's; on a mismatch no file is written, and the error names the first tensor that
    differs.

    Parameters
    ----------
    sym : Symbol or str
        The symbol, or the name of a file `*-symbol.json`.
    params : dict of str to NDArray, or str, or list of two dicts
        Arguments and auxiliary states by name, with or without prefixes `arg:` and `aux:`; the name
        of a file `*.params`; or a list of arguments and auxiliary states.
    in_shapes : list of tuple of int, or dict of str to tuple of int, optional
        Shapes of the inputs, in the order of `sym.list_inputs()` without parameters and labels, or
        by name; those of labels are ignored.  Inputs that were made with a shape, such as those of
        `import_model`, have that by default.
    in_types : dtype or list of dtype, default numpy.float32
        Element types of the inputs: one, or one for each; None for those that inputs were made
        with, or float32.
    onnx_file_path : str, default "model.onnx"
        File to write; it is replaced atomically.
    verbose : bool, default False
        Whether to log what is written.
    dynamic : bool, default False
        Whether axes of the inputs may have other sizes when the file is run.
    dynamic_input_shapes : list of tuple, optional
        For each input its sizes, None or a name for those that are dynamic.  By default all are
        that parameters do not fix.
    run_shape_inference : bool, default False
        Whether to add the shapes of all intermediate tensors to the file.
    input_type, input_shape : optional
        MXNet's older names of `in_types` and `in_shapes`.
    opset : int, default 17
        Version of ONNX's operators.
    verify : bool, optional
        Whether to verify the file; by default where onnxruntime is installed.
    until : str, optional
        Name of a node, or of its output: the graph up to it is exported.
    custom_domain : str, optional
        Domain for operators that ONNX cannot express; the file is then not verified.

    Raises
    ------
    MXNetError
        If shapes are missing or contradict; `UnsupportedNodes` lists all nodes that cannot be
        expressed; `VerificationError` names the first tensor that differs.

    Examples
    --------
    >>> net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="fc")
    >>> params = {"fc_weight": mx.nd.ones((2, 3)), "fc_bias": mx.nd.zeros((2,))}
    >>> mx.onnx.export_model(net, params, [(1, 3)], onnx_file_path="fc.onnx")  # doctest: +SKIP
    'fc.onnx'
    """
    path = os.fspath(onnx_file_path)
    refuse_suffix(path, ".onnx")
    require_other_files([path, f"{path}.data"], [
        each for each in (sym, params) if isinstance(each, (str, os.PathLike))])
    require_writable(path)
    shapes = in_shapes if input_shape is None else input_shape
    types = in_types if input_type is None else input_type
    export = build_model(sym, params, shapes, types, dynamic=dynamic,
                         dynamic_shapes=dynamic_input_shapes, opset=opset, until=until,
                         custom_domain=custom_domain)
    model = export.model()
    if run_shape_inference:
        from onnx import shape_inference

        model = shape_inference.infer_shapes(model)
    checked = _is_verified(export, verify)
    report = _store(model, path, lambda content: verify_export(export, path, content=content)
                    if checked else None)
    if verbose:
        logging.info("export_model: %s: %d nodes, %d parameters, inputs %s, outputs %s", path,
                     len(model.graph.node), len(model.graph.initializer),
                     [value.name for value in model.graph.input],
                     [value.name for value in model.graph.output])
        logging.info("export_model: %s", report or "not verified")
    return path


def build_model(sym: Symbol | str | os.PathLike[str], params: Params, shapes: Shapes | None,
                types: DTypeLike | Sequence[DTypeLike] | None = np.float32, *,
                dynamic: bool = False, dynamic_shapes: DynamicShapes | None = None,
                opset: int = DEFAULT_OPSET, until: str | None = None,
                custom_domain: str | None = None) -> Export:
    """The model in memory; the arguments are those of `export_model`."""
    _require_onnx(opset)
    load_converters()
    network = sym if isinstance(sym, Symbol) else load_symbol(os.fspath(sym))
    symbol = _without_targets(network) if until is None else _cut(network, until)
    parameters = read_parameters(params)
    graph = inference_form(Graph(symbol.entries))
    inputs = [node.name for node in graph.variables if node.name not in parameters]
    known = {name: Spec(array.shape, array.dtype) for name, array in parameters.items()
             if any(name == node.name for node in graph.variables)}
    if isinstance(shapes, Mapping):
        shapes = {name: shape for name, shape in shapes.items()
                  if name in inputs or name not in network.list_inputs()}
    known.update(_input_specs(inputs, shapes, types, graph))
    infos = infer_tensors(graph, known, _dynamic_axes(inputs, known, dynamic, dynamic_shapes),
                          required=dynamic_shapes is not None)
    return build_export(symbol, graph, infos, parameters, opset, custom_domain)


def build_export(symbol: Symbol, graph: Graph, infos: list[TensorInfo],
                 parameters: dict[str, Tensor], opset: int, custom_domain: str | None = None,
                 limits: ExportLimits | None = None) -> Export:
    """The model of a symbol, whose inference form is `graph`; see `export_graph`."""
    exported = export_graph(graph, infos, parameters, opset, custom_domain, limits)
    names = [node.name if node.is_variable else output_names(node)[index]
             for node, index in symbol.entries]
    set_outputs(exported, [(entry, name, infos[graph.eid(entry)])
                           for entry, name in zip(graph.outputs, names, strict=True)])
    inputs = [node.name for node in graph.variables if node.name not in parameters]
    return Export(symbol, parameters, graph, infos, exported, inputs)


def _require_onnx(opset: int) -> None:
    try:
        from onnx import defs
    except ImportError:
        raise MXNetError("export_model needs the package onnx: pip install 'nbmod[onnx]'"
                         ) from None
    latest = min(max(IR_VERSIONS), defs.onnx_opset_version())
    if not min(IR_VERSIONS) <= opset <= latest:
        raise MXNetError(f"export_model: opset is {opset}, expected {min(IR_VERSIONS)} to {latest} "
                         "(the latest that the installed package onnx knows)")


def _without_targets(symbol: Symbol) -> Symbol:
    """The predictions of a network for training."""
    predictions = predicting(symbol)
    dropped = set(symbol.list_outputs()) - set(predictions.list_outputs())
    if dropped:
        logging.warning("export_model: %s not exported: computed from labels; until='NAME' chooses "
                        "outputs", ", ".join(sorted(dropped)))
    return predictions


def _cut(symbol: Symbol, until: str) -> Symbol:
    """The outputs of the node, or the output, that `until` names."""
    nodes = Graph(symbol.entries).nodes
    layers = [Symbol([Entry(node, index) for index in range(node.num_visible)])
              for node in nodes if not node.is_variable]
    matches = ([outputs for outputs in layers if outputs.name == until]
               or [outputs[until] for outputs in layers if until in outputs.list_outputs()])
    if len(matches) > 1:
        raise MXNetError(f"export_model: until is {until!r}, which is the name of {len(matches)} "
                         "nodes of the graph; give export_model the part to export instead, an "
                         "element of symbol.get_internals()")
    if not matches:
        raise MXNetError(f"export_model: until is {until!r}, which is no node of the graph"
                         f"{did_you_mean(until, [node.name for node in nodes])}")
    return matches[0]


def read_parameters(params: Params) -> dict[str, Tensor]:
    """Parameters by name, without prefixes."""
    if isinstance(params, (str, os.PathLike)):
        loaded = load_arrays(os.fspath(params))
        if not isinstance(loaded, dict):
            raise MXNetError(f"export_model: {os.fspath(params)} has no names of parameters")
        params = loaded
    parts = [params] if isinstance(params, Mapping) else list(params)
    return {strip_kind(name): array.asnumpy() if isinstance(array, NDArray) else np.asarray(array)
            for part in parts for name, array in part.items()}


def _input_specs(inputs: Sequence[str], shapes: Shapes | None,
                 types: DTypeLike | Sequence[DTypeLike] | None, graph: Graph) -> dict[str, Spec]:
    """Shapes and types of the inputs."""
    if isinstance(shapes, Mapping):
        unknown = sorted(set(shapes) - set(inputs))
        if unknown:
            raise MXNetError(f"export_model: in_shapes has {unknown[0]!r}, which is no input; the "
                             f"inputs are {list(inputs)}{did_you_mean(unknown[0], inputs)}")
        in_shapes = [shapes.get(name) for name in inputs]
    elif shapes is not None and all(isinstance(size, (int, np.integer)) for size in shapes):
        in_shapes = [tuple(shapes)]  # type: ignore[arg-type]  # integers only
    else:
        in_shapes = [None] * len(inputs) if shapes is None else [*shapes]
    kinds = list(types) if isinstance(types, (list, tuple)) else [types] * len(inputs)
    for what, count in (("in_shapes", len(in_shapes)), ("in_types", len(kinds))):
        if count != len(inputs):
            raise MXNetError(
                f"export_model: {what} has {count} element(s), expected one for each of the "
                f"{len(inputs)} inputs {list(inputs)[:20]}; those that are parameters are missing "
                "in params")
    attrs = {node.name: node.attrs for node in graph.variables}
    missing = [name for name, shape in zip(inputs, in_shapes, strict=True)
               if shape is None and "__shape__" not in attrs[name]]
    if missing:
        raise MXNetError(f"export_model: in_shapes lacks the shape of {', '.join(missing[:20])}")
    dims = [_declared_shape(attrs[name]) if shape is None else tuple(map(int, shape))
            for name, shape in zip(inputs, in_shapes, strict=True)]
    return {name: Spec(shape, _declared_type(attrs[name]) if kind is None
                       else np.dtype(kind))  # type: ignore[arg-type]  # one, not several
            for name, shape, kind in zip(inputs, dims, kinds, strict=True) if shape is not None}


def _declared_shape(attrs: Mapping[str, str]) -> Shape | None:
    """The shape that a variable was made with, None without a whole one."""
    shape = None
    with suppress(ValueError):  # inference says what is wrong
        shape = SHAPES.read(attrs.get(SHAPES.attr, "None"))
    return shape if is_known(shape) else None


def _declared_type(attrs: Mapping[str, str]) -> DType:
    """The type that a variable was made with, or float32."""
    kind = None
    with suppress(ValueError, KeyError):
        kind = TYPES.read(attrs.get(TYPES.attr, "-1"))
    return np.dtype(np.float32) if kind is None else np.dtype(kind)


def _dynamic_axes(inputs: Sequence[str], known: Mapping[str, Spec], dynamic: bool,
                  shapes: DynamicShapes | None) -> DynamicAxes:
    if not dynamic:
        if shapes is not None:
            logging.warning("export_model: dynamic_input_shapes has no effect without dynamic=True")
        return {}
    if shapes is None:
        return {name: dict.fromkeys(range(len(known[name].shape))) for name in inputs
                if name in known}
    if len(shapes) != len(inputs):
        raise MXNetError(f"export_model: dynamic_input_shapes has {len(shapes)} element(s), "
                         f"expected one for each of the inputs {list(inputs)}")
    for name, shape in zip(inputs, shapes, strict=True):
        if len(shape) != len(known[name].shape):
            raise MXNetError(f"export_model: dynamic_input_shapes has {tuple(shape)} for {name}, "
                             f"expected {len(known[name].shape)} axes as in {known[name].shape}")
    return {name: {axis: size for axis, size in enumerate(shape) if not isinstance(size, int)}
            for name, shape in zip(inputs, shapes, strict=True)}


def _store(model: ModelProto, path: str,
           verify: Callable[[str | bytes], VerificationReport | None]
           ) -> VerificationReport | None:
    """Verify the model, then write its file, with large parameters in a file beside it."""
    size = sum(len(tensor.raw_data) for tensor in model.graph.initializer)
    if size < EXTERNAL_DATA_FROM:
        content = model.SerializeToString(deterministic=True)
        report = verify(content)
        with atomic_write(path) as stream:
            stream.write(content)
        return report
    import onnx

    folder, name = os.path.split(path)
    with tempfile.TemporaryDirectory(dir=folder or ".", prefix=f"{name}.") as drafts:
        draft = os.path.join(drafts, name)
        onnx.save_model(model, draft, save_as_external_data=True, location=f"{name}.data")
        report = verify(draft)
        with replacing_together():
            for suffix in ("", ".data"):
                adopt(f"{draft}{suffix}", f"{path}{suffix}")
    return report


def _is_verified(export: Export, verify: bool | None) -> bool:
    """Whether the file is to be verified."""
    if verify and not is_available():
        raise MXNetError("export_model: verify=True needs the package onnxruntime: "
                         "pip install 'nbmod[onnx]'")
    if verify and export.has_custom_nodes:
        raise MXNetError("export_model: a file with operators of a custom domain cannot be "
                         "verified; pass verify=False")
    return verify is not False and is_available() and not export.has_custom_nodes
