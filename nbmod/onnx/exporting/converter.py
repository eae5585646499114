"""Converters: how one operator becomes nodes of ONNX.

    @converts("Flatten")
    def flatten(node: NodeExport) -> Value:
        return node.emit("Flatten", node.inputs[0], axis=1)

A converter reads the operator's parameters (`node.op`), its inputs, and what is known of shapes and
types; it returns the value of the first output, or a list for several.  What it cannot express it
refuses (`node.refuse`); refusals of all nodes are reported together.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any, NoReturn, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from ...base import MXNetError
from ...ops.op import Op
from ...ops.param import Shape
from .onnx_graph import Attribute, GraphBuilder, Tensor, Value
from .tensor_info import TensorInfo

__all__ = ["CONVERTERS", "LARGE_CONSTANTS", "Converter", "NodeExport", "NotExpressible", "Operand",
           "as_list", "converts", "import_modules", "load_converters"]

Operand: TypeAlias = "Value | Tensor | Sequence[int] | None"
"""An input of a node: a value, an array for a constant, integers for a constant of int64."""
Result: TypeAlias = "Value | list[Value]"
Converter = Callable[["NodeExport"], Result]

STATIC = "make only the batch dynamic, by dynamic_input_shapes, or export with static shapes"
"""The hint where sizes are dynamic."""
CONVERTERS: dict[str, Converter] = {}
"""Name of the operator -> its converter; `load_converters` fills it."""
OPSETS: dict[str, int] = {}
"""Name of the operator -> the first opset that its converter can write, where not the first."""
LARGE_CONSTANTS: set[str] = set()
"""Operators whose converters make constants of the size of their outputs."""


def converts(*names: str, opset: int = 0, large_constants: bool = False
             ) -> Callable[[Converter], Converter]:
    """Register a converter for the operators `names`.

    Importers convert symbols that are not trusted: they count the outputs as constants first if the
    converter may make `large_constants`.  No converter may make much larger ones than that.
    """

    def register(function: Converter) -> Converter:
        for name in names:
            CONVERTERS[name] = function
            if opset:
                OPSETS[name] = opset
        if large_constants:
            LARGE_CONSTANTS.update(names)
        return function

    return register


@cache
def load_converters() -> dict[str, Converter]:
    """All converters by name of their operator."""
    from . import converters

    import_modules(converters)
    importlib.import_module(f"{converters.__name__}.formula").register_formulas()
    return CONVERTERS


def import_modules(package: ModuleType) -> None:
    """Import the modules of a package, which register converters."""
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")


class NotExpressible(MXNetError):
    """A node has no equivalent in ONNX, or its converter does not know it."""


@dataclass(eq=False)
class NodeExport:
    """One node of the symbol while it is exported to the graph that nodes are added to.

    `op` is the operator with its parameters.  Any: converters read the fields of their operators.
    `ins` and `outs` are shapes, types and dynamic axes of inputs and outputs, hidden outputs
    included, which `output_names` leaves out.
    """

    op: Any
    name: str
    inputs: list[Value]
    ins: list[TensorInfo]
    outs: list[TensorInfo]
    graph: GraphBuilder

    @property
    def opset(self) -> int:
        return self.graph.opset

    @property
    def x(self) -> Value:
        """The first input."""
        return self.inputs[0]

    def refuse(self, reason: str) -> NoReturn:
        """Raise NotExpressible."""
        raise NotExpressible(reason)

    # -- nodes ------------------------------------------------------------------------------

    def emit(self, op_type: str, *operands: Operand, domain: str = "", **attributes: Attribute
             ) -> Value:
        """Add a node with one output."""
        return self.emit_many(op_type, 1, *operands, domain=domain, **attributes)[0]

    def emit_many(self, op_type: str, outputs: int, *operands: Operand, domain: str = "",
                  **attributes: Attribute) -> list[Value]:
        """Add a node with several outputs."""
        hint = f"{self.name}/{op_type}"
        return self.graph.add(op_type, [self.value(operand) for operand in operands],
                              [hint] * outputs, attributes, domain)

    def value(self, operand: Operand) -> Value | None:
        """An operand as value."""
        if operand is None or isinstance(operand, Value):
            return operand
        array = operand if isinstance(operand, np.ndarray) else np.asarray(operand, np.int64)
        return self.graph.constant(array)

    def scalar(self, value: float, dtype: DTypeLike | None = None) -> Value:
        """A constant of no axes, of the type of the first input unless another is given."""
        kind = self.ins[0].dtype if dtype is None else np.dtype(dtype)
        return self.graph.constant(np.asarray(value).astype(kind))

    def constant(self, index: int) -> Tensor | None:
        """The value of an input that is a parameter."""
        return self.inputs[index].array

    def lowest(self, dtype: DTypeLike) -> Value:
        """The lowest finite number of a floating-point type."""
        return self.scalar(float(np.finfo(str(np.dtype(dtype))).min), dtype)

    def cast(self, value: Value, dtype: DTypeLike) -> Value:
        from onnx import helper

        if value.array is not None:
            return self.graph.constant(value.array.astype(dtype))
        return self.emit("Cast", value, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def cast_from(self, value: Value, source: DTypeLike, target: DTypeLike) -> Value:
        """A cast, unless the types are equal."""
        return value if np.dtype(source) == np.dtype(target) else self.cast(value, target)

    def apply(self, op: Op, inputs: list[Value], ins: list[TensorInfo], out: TensorInfo) -> Value:
        """The result of another operator, by its own converter."""
        converter = CONVERTERS.get(op.name)
        if converter is None:
            self.refuse(f"there is no converter for {op.name}, which it contains")
        return as_list(converter(
            NodeExport(op, f"{self.name}/{op.name}", inputs, ins, [out], self.graph)))[0]

    # -- shapes -----------------------------------------------------------------------------

    def static(self, info: TensorInfo, axes: Iterable[int] | None = None) -> Shape:
        """The shape; refuses where one of `axes` (None: of all) is dynamic."""
        checked = range(info.ndim) if axes is None else axes
        if any(axis in info.dynamic for axis in checked):
            self.refuse(f"it needs the size of a dynamic axis of shape {info.dims}; {STATIC}")
        return info.shape

    def shape(self, value: Value, info: TensorInfo) -> Value:
        """The shape as a tensor of int64."""
        if info.dynamic:
            return self.emit("Shape", value)
        return self.graph.constant(np.asarray(info.shape, np.int64))

    def size(self, value: Value, info: TensorInfo, axis: int) -> Value:
        """The size of an axis as a tensor of shape (1,)."""
        axis = info.axis(axis)
        if axis in info.dynamic:
            return self.emit("Shape", value, start=axis, end=axis + 1)
        return self.graph.constant(np.asarray(info.shape[axis:axis + 1], np.int64))

    def size_of_input(self, name: str, axis: int, size: int) -> Value:
        """A size that is a multiple of an axis of an input of the model, of shape (1,)."""
        graph = self.graph.root or self.graph
        matches = [each for each in graph.inputs if each[0].hint == name]
        if not matches:
            self.refuse(f"it needs the size of {name}, which is no input")
        value, info = matches[0]
        length, times = self.size(value, info, axis), size // info.shape[axis]
        return length if times == 1 else self.emit("Mul", length, [times])

    def reshape(self, value: Value, info: TensorInfo, source: TensorInfo | None = None) -> Value:
        """`value` in the shape of `info`; `source` describes it, the first input by default."""
        source = self.ins[0] if source is None else source
        if value.array is not None and not info.dynamic:
            return self.graph.parameter(value.array.reshape(info.shape), value.hint)
        dims = [-1 if axis in info.dynamic else size for axis, size in enumerate(info.shape)]
        for axis in sorted(info.dynamic):
            if dims.count(-1) > 1 and axis in source.dynamic and (
                    source.shape[axis] == info.shape[axis]):
                dims[axis] = 0
        if dims.count(-1) > 1:
            self.refuse(f"its result {info.dims} has several dynamic axes that do not follow from "
                        f"{source.dims}; {STATIC}")
        if 0 in info.shape:
            return self.emit("Reshape", value, dims, allowzero=1)
        return self.emit("Reshape", value, dims)

    def reshape_to(self, value: Value, *dims: int) -> Value:
        """`value` in another shape, as Reshape of ONNX reads it: 0 keeps a size, -1 follows."""
        return self.emit("Reshape", value, dims)

    def axes_op(self, op_type: str, value: Value, axes: Sequence[int]) -> Value:
        """Squeeze or Unsqueeze."""
        return self.emit(op_type, value, list(axes))

    def reduce(self, op_type: str, value: Value, axes: Sequence[int] | None, keepdims: bool = True
               ) -> Value:
        """A reduction; axes are an attribute before opset 18, but of ReduceSum."""
        if axes is None:
            return self.emit(op_type, value, keepdims=int(keepdims))
        if self.opset >= 18 or op_type == "ReduceSum":
            return self.emit(op_type, value, list(axes), keepdims=int(keepdims))
        return self.emit(op_type, value, axes=list(axes), keepdims=int(keepdims))

    def split(self, value: Value, sizes: Sequence[int], axis: int) -> list[Value]:
        """Parts of these sizes along an axis."""
        if len(sizes) == 1:
            return [value]
        return self.emit_many("Split", len(sizes), value, list(sizes), axis=axis)

    def part(self, value: Value, begin: int, end: int, axis: int) -> Value:
        """A range of an axis."""
        return self.emit("Slice", value, [begin], [end], [axis])

    def transpose(self, value: Value, *axes: int) -> Value:
        if value.array is not None:
            return self.graph.parameter(np.ascontiguousarray(value.array.transpose(axes)),
                                        value.hint)
        return self.emit("Transpose", value, perm=list(axes))


def as_list(result: Result) -> list[Value]:
    """The values of the outputs that a converter returns."""
    return result if isinstance(result, list) else [result]


def describe_op(op: Op) -> str:
    """The operator's parameters in words."""
    attrs = op.to_attrs()
    return ", ".join(f"{key}={value}" for key, value in sorted(attrs.items())) or "no attributes"
