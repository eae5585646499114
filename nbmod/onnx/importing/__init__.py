"""Import of ONNX models: a symbol of MXNet's operators with its parameters.

No file is trusted: sizes are checked before memory is allocated.  A node that cannot be imported is
noted and the import goes on, so that the error lists all of them.

    imported_tensor.py     `ImportedTensor`: a constant, or an output of a node of nbmod's graph
    errors.py              the errors, with each node, its attributes and the reason
    onnx_file.py           the file, parsed and checked, with nodes sorted
    tensor_data.py         tensors of the file as arrays
    node_import.py         `imports`, which registers a converter, and `NodeImport`, its argument
    converters/            the converters
    composition.py         arithmetic of tensors, for converters that compose operators
    interpolation.py       interpolation along an axis as a matrix, for resizing
    constant_folding.py    nodes that are computed now, such as arithmetic of shapes
    sample_shapes.py       sizes for open dimensions, to learn what depends on them
    function_body.py       operators that are defined by a graph of others
    graph_import.py        the walk over the nodes: folded, converted, or replaced by a function
    own_export.py          files of nbmod's exporter, which give their symbol back
    imported_operators.py  operators and opsets that are imported, for the documentation

Begin with `imported_tensor.py`.  Imports `base`, `checkpoint`, `context`, `core.interrupts`,
`gluon`, `graph`, `ndarray`, `onnx.exporting`, `ops`, `passes.infer` and `symbol`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ...base import FLAG_OF_DTYPE
from ...checkpoint import declare_shapes
from ...context import Context
from ...graph import Graph
from ...ndarray import NDArray, array
from ...ndarray.saving import warn_of_nan
from ...ops.param import Shape
from ...passes.infer import infer_type
from ...symbol import Symbol
from .errors import DamagedModel, ShapeNeeded, UnsupportedModel, UnsupportedNode
from .graph_import import GraphImport
from .imported_tensor import Array
from .onnx_file import ModelFile, read_model
from .tensor_data import TensorReader

if TYPE_CHECKING:
    from ...gluon import SymbolBlock

__all__ = ["DamagedModel", "ShapeNeeded", "UnsupportedModel", "UnsupportedNode",
           "get_model_metadata", "import_model", "import_to_gluon"]


def import_model(model_file: ModelFile, shapes: Mapping[str, Shape] | None = None,
                 constants: Mapping[str, Array] | None = None
                 ) -> tuple[Symbol, dict[str, NDArray], dict[str, NDArray]]:
    """Import an ONNX model, of opset 7 or later.

    Parameters
    ----------
    model_file : str, os.PathLike, bytes or onnx.ModelProto
        Path of the file, its content, or a parsed model.  External data is read only from inside
        the folder of the file.
    shapes : dict of str to tuple of int, optional
        Shapes of inputs, where the model leaves dimensions open.
    constants : dict of str to numpy.ndarray, optional
        Values of inputs that become constants, such as shapes and axes.

    Returns
    -------
    sym : Symbol
        The network; its outputs are those of the model, and rank 0 is shape (1,).
    arg_params : dict of str to NDArray
        Weights by name.
    aux_params : dict of str to NDArray
        Moving averages of BatchNorm by name.

    Raises
    ------
    UnsupportedModel
        If nodes have no equivalent; all of them are listed.
    ShapeNeeded
        If nodes need a shape or a value that the model leaves open.
    DamagedModel
        If the file is damaged, inconsistent or hostile.
    MXNetError
        If the package onnx is missing.

    Examples
    --------
    >>> import nbmod as mx, onnx
    >>> graph = onnx.parser.parse_graph("g (float[2, 3] x) => (float[2, 3] y) { y = Relu(x) }")
    >>> sym, arg_params, aux_params = mx.onnx.import_model(onnx.helper.make_model(graph))
    >>> sym.list_arguments(), sym.list_outputs()
    (['x'], ['y_output'])
    """
    model, folder = read_model(model_file)
    importer = GraphImport(model, TensorReader(folder), shapes or {}, constants or {})
    symbol = Symbol(importer.run())
    used = {*symbol.list_arguments(), *symbol.list_auxiliary_states()}
    args, states = _arrays(importer.arguments, used), _arrays(importer.states, used)
    where = model_file if isinstance(model_file, (str, os.PathLike)) else "import_model"
    warn_of_nan({**args, **states}, os.fspath(where))
    declare_shapes(symbol, {**args, **states})
    _declare_types(symbol, {**args, **states})
    return symbol, args, states


def _arrays(arrays: Mapping[str, Array], used: set[str]) -> dict[str, NDArray]:
    return {name: array(np.ascontiguousarray(value), dtype=value.dtype)
            for name, value in arrays.items() if name in used}


def _declare_types(symbol: Symbol, params: Mapping[str, NDArray]) -> None:
    """Let parameters declare types that follow from nothing, which MXNet requires of float32, too.

    The others follow from those of the inputs, so that a model in float16 can be bound to data in
    float32.
    """
    graph = Graph(symbol.entries)
    types = infer_type(graph, {node.name: np.float32 for node in graph.variables
                               if node.name not in params and "__dtype__" not in node.attrs},
                       default=None)
    for node in graph.variables:
        if node.name in params and types[graph.output_eids(node)[0]] is None:
            node.attrs["__dtype__"] = str(FLAG_OF_DTYPE[np.dtype(params[node.name].dtype)])
            types = infer_type(graph, {}, types, default=None)


def get_model_metadata(model_file: ModelFile) -> dict[str, list[tuple[str, Shape]]]:
    """Names and shapes of the inputs and outputs of an ONNX model.

    Parameters
    ----------
    model_file : str, os.PathLike, bytes or onnx.ModelProto
        The model.

    Returns
    -------
    dict
        `input_tensor_data` and `output_tensor_data`: lists of (name, shape), 0 for open dimensions.

    Raises
    ------
    DamagedModel
        If the file is no ONNX model.

    Examples
    --------
    >>> import nbmod as mx, onnx
    >>> graph = onnx.parser.parse_graph("g (float[2, 3] x) => (float[2, 3] y) { y = Relu(x) }")
    >>> mx.onnx.get_model_metadata(onnx.helper.make_model(graph))["input_tensor_data"]
    [('x', (2, 3))]
    """
    graph = read_model(model_file)[0].graph
    weights = {tensor.name for tensor in graph.initializer}

    def described(values: Any) -> list[tuple[str, Shape]]:
        return [(value.name, tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim))
                for value in values if value.name not in weights]

    return {"input_tensor_data": described(graph.input),
            "output_tensor_data": described(graph.output)}


def import_to_gluon(model_file: ModelFile, ctx: Context | None = None,
                    shapes: Mapping[str, Shape] | None = None) -> SymbolBlock:
    """Import an ONNX model as a block.

    Parameters
    ----------
    model_file : str, os.PathLike, bytes or onnx.ModelProto
        The model.
    ctx : Context, optional
        Device of the parameters; the current one by default.
    shapes : dict of str to tuple of int, optional
        Shapes of inputs, where the model leaves dimensions open.

    Raises
    ------
    MXNetError
        As `import_model` does.

    Examples
    --------
    >>> import nbmod as mx, onnx
    >>> graph = onnx.parser.parse_graph("g (float[2, 3] x) => (float[2, 3] y) { y = Relu(x) }")
    >>> block = mx.onnx.import_to_gluon(onnx.helper.make_model(graph))
    >>> block(mx.nd.ones((2, 3)) * -1).asnumpy().max().item()
    0.0
    """
    from ...gluon import SymbolBlock
    from ...symbol import var

    symbol, arg_params, aux_params = import_model(model_file, shapes)
    values = {**arg_params, **aux_params}
    names = [name for name in symbol.list_arguments() if name not in values]
    block = SymbolBlock(symbol, [var(name) for name in names])
    for name, parameter in block.params.items():
        value = values[name]
        parameter.shape, parameter.dtype = value.shape, value.dtype
        parameter.initialize(ctx=ctx)
        parameter.set_data(value)
    return block
