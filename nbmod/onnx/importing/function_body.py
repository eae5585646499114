"""Functions: operators that are defined by a graph of others.

A model may have functions of its own, and ONNX defines some of its operators in this way; that is
how operators without a converter are imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from .errors import DamagedModel
from .imported_tensor import ImportedTensor

if TYPE_CHECKING:
    from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TypeProto

    from .node_import import NodeImport

__all__ = ["FunctionGraph", "FunctionLibrary", "check_node", "is_function"]

TYPED_FUNCTIONS = frozenset({
    "Attention", "CausalConvWithState", "CenterCropPad", "Gelu", "LinearAttention",
    "NegativeLogLikelihoodLoss", "RMSNormalization", "RotaryEmbedding",
    "SoftmaxCrossEntropyLoss"})
"""Operators whose body ONNX builds for the types of their inputs.  It does so in C++, which crashes
on nodes of some other operators, so that only these are asked for, and only for valid nodes."""


class FunctionGraph(NamedTuple):
    """The body of a function for one node.

    `graph` has the attributes of the node, and those outputs that the node has; `opsets` are those
    of its nodes.
    """

    graph: GraphProto
    opsets: dict[str, int]


class FunctionLibrary:
    """The functions of a model, and those of ONNX."""

    def __init__(self, model: ModelProto):
        self._local = {(each.domain, each.name): each for each in model.functions}
        if len(self._local) < len(model.functions):
            raise DamagedModel("two functions of the model have the same name")

    def local(self, node: NodeProto) -> FunctionGraph | None:
        """The body of a function that the model defines."""
        function = self._local.get((node.domain, node.op_type))
        return None if function is None else _instance(function, node)

    def standard(self, proto: NodeProto, node: NodeImport) -> FunctionGraph | None:
        """The body of an operator that ONNX defines as a function."""
        import onnx

        schema = _schema(node.operator, node.opset)
        if schema is None:
            return None
        if schema.has_function:
            function = schema.function_body
        elif proto.op_type in TYPED_FUNCTIONS and schema.has_context_dependent_function:
            for tensor in node.inputs:
                if tensor is not None:
                    node.rank(tensor)
            function = _for_types(schema, proto, node)
        else:
            return None
        filled = onnx.NodeProto()
        filled.CopyFrom(proto)
        present = {each.name for each in proto.attribute}
        filled.attribute.extend(each.default_value for name, each in schema.attributes.items()
                                if name not in present and each.default_value.name)
        return _instance(function, filled)


def is_function(operator: str, opset: int) -> bool:
    """Whether ONNX defines an operator by a graph of others that can be asked for."""
    schema = _schema(operator, opset)
    return schema is not None and bool(schema.has_function or (
        operator in TYPED_FUNCTIONS and schema.has_context_dependent_function))


def _schema(operator: str, opset: int) -> Any:
    """The schema of an operator; None if ONNX does not know it."""
    import onnx

    try:
        return onnx.defs.get_schema(operator, opset, "")
    except onnx.defs.SchemaError:
        return None


def check_node(proto: NodeProto, node: NodeImport) -> None:
    """Refuse a node that does not fit the schema of its operator: converters rely on it."""
    schema = _schema(node.operator, node.opset)
    if schema is None:
        return
    count = len(node.inputs)
    if not (schema.min_input <= count <= schema.max_input
            and schema.min_output <= len(node.outputs) <= schema.max_output):
        node.refuse(f"{count} inputs and {len(node.outputs)} outputs do not fit the operator")
    formals = [*schema.inputs, *schema.inputs[-1:] * count]  # the last one may be repeated
    for formal, tensor in zip(formals, node.inputs, strict=False):
        if tensor is None and formal.option != formal.option.Optional:
            node.refuse(f"input {formal.name} is missing")
    for name, formal in schema.attributes.items():
        attribute = next((each for each in proto.attribute if each.name == name), None)
        if attribute is None and formal.required:
            node.refuse(f"attribute {name} is missing")
        if attribute is not None and int(attribute.type) != int(formal.type.value):
            node.refuse(f"attribute {name} is of the wrong type")


def _for_types(schema: Any, proto: NodeProto, node: NodeImport) -> FunctionProto:
    """The body of an operator that depends on the types of its inputs."""
    import onnx

    versions = [each for each in schema.context_dependent_function_opset_versions
                if each <= node.opset]
    types = [_type_of(each).SerializeToString() for each in node.inputs]
    content = schema.get_context_dependent_function_with_opset_version(
        max(versions, default=schema.since_version), proto.SerializeToString(), types)
    function = onnx.FunctionProto()
    function.ParseFromString(content)
    return function


def _type_of(tensor: ImportedTensor | None) -> TypeProto:
    import onnx

    if tensor is None:
        return onnx.TypeProto()
    shape = [size or None for size in tensor.shape] if tensor.shape is not None else None
    return onnx.helper.make_tensor_type_proto(
        onnx.helper.np_dtype_to_tensor_dtype(tensor.dtype), shape)


def _instance(function: FunctionProto, node: NodeProto) -> FunctionGraph:
    """The body with the attributes of a node in the place of references to them."""
    import onnx

    attributes = {each.name: each for each in function.attribute_proto}
    attributes.update({each.name: each for each in node.attribute})
    if len(node.output) > len(function.output) or len(node.input) > len(function.input):
        raise DamagedModel(f"function {function.name!r} has {len(function.input)} inputs and "
                           f"{len(function.output)} outputs")
    body = onnx.GraphProto(name=function.name)
    body.input.extend(onnx.ValueInfoProto(name=name) for name in function.input)
    body.output.extend(onnx.ValueInfoProto(name=name) for name, used
                       in zip(function.output, node.output, strict=False) if used)
    prefix = node.name or next(filter(None, node.output), function.name)
    for inner in function.node:
        copied = body.node.add()
        copied.CopyFrom(inner)
        copied.name = f"{prefix}/{inner.name or next(filter(None, inner.output), inner.op_type)}"
        _resolve(copied, attributes)
    return FunctionGraph(body, {each.domain: each.version for each in function.opset_import})


def _resolve(node: NodeProto, attributes: dict[str, AttributeProto]) -> None:
    """Replace references to attributes of the function, in graphs of attributes, too."""
    survivors = []
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            source = attributes.get(attribute.ref_attr_name)
            if source is None:
                continue  # an attribute without a default: the operator's own applies
            name = attribute.name
            attribute.CopyFrom(source)
            attribute.name = name
        for graph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
            for inner in graph.node:
                _resolve(inner, attributes)
        survivors.append(attribute)
    if len(survivors) < len(node.attribute):
        copies = [type(each)() for each in survivors]
        for copied, each in zip(copies, survivors, strict=True):
            copied.CopyFrom(each)
        del node.attribute[:]
        node.attribute.extend(copies)
