"""Normalization."""

from __future__ import annotations

from collections.abc import Sequence

from ....ops.shape import size_of
from ..composition import add, divide, multiply, subtract
from ..imported_tensor import ImportedTensor
from ..node_import import NodeImport, imports


def epsilon(node: NodeImport) -> float:
    """The attribute `epsilon`, with the digits of the float32 that the file has."""
    return float(f"{float(node.attribute('epsilon', 1e-5)):.8g}")


@imports("BatchNormalization")
def batch_norm(node: NodeImport) -> ImportedTensor | list[ImportedTensor]:
    """BatchNorm with its moving averages as states, if they are constants."""
    data, gamma, beta, mean, variance = [node.input(i) for i in range(5)]
    if node.attribute("training_mode", 0):
        return _training(node, data, [gamma, beta, mean, variance])
    if mean.array is None or variance.array is None or data.dtype.kind != "f":
        return _normalized(node, data, [gamma, beta, mean, variance])
    states = [ImportedTensor(each.shape, each.dtype, carrier=each.dtype,
                             entry=node.owner.state(each.name or f"{node.name}_{what}", array))
              for each, array, what in ((mean, mean.array, "moving_mean"),
                                        (variance, variance.array, "moving_var"))]
    momentum = float(f"{float(node.attribute('momentum', 0.9)):.8g}")
    return node.emit("BatchNorm", data, gamma, beta, *states, eps=epsilon(node),
                     momentum=momentum, fix_gamma=False)


def _per_channel(node: NodeImport, tensors: Sequence[ImportedTensor], rank: int
                 ) -> list[ImportedTensor]:
    return [node.reshape(each, (node.static(each)[0],) + (1,) * (rank - 2)) for each in tensors]


def _normalized(node: NodeImport, data: ImportedTensor, tensors: Sequence[ImportedTensor]
                ) -> ImportedTensor:
    """gamma (data - mean) / sqrt(variance + epsilon) + beta."""
    statistics = [node.cast(each, data.dtype) for each in tensors]
    gamma, beta, mean, variance = _per_channel(node, statistics, node.rank(data))
    return add(node, multiply(node, gamma, _scaled(node, subtract(node, data, mean), variance)),
               beta)


def _scaled(node: NodeImport, centred: ImportedTensor, variance: ImportedTensor
            ) -> ImportedTensor:
    widened = add(node, variance, node.new_constant(epsilon(node), variance.dtype))
    if widened.array is not None:
        node.refuse("a constant variance of an input that is none")
    return divide(node, centred, node.emit("sqrt", widened))


def _training(node: NodeImport, data: ImportedTensor, tensors: Sequence[ImportedTensor]
              ) -> list[ImportedTensor]:
    """Normalized by the statistics of the batch, and the next moving averages."""
    rank = node.rank(data)
    axes = (0, *range(2, rank))
    mean = node.emit("mean", data, axis=axes)
    shaped = _per_channel(node, [mean], rank)[0]
    centred = subtract(node, data, shaped)
    variance = node.emit("mean", node.emit("square", centred), axis=axes)
    momentum = float(node.attribute("momentum", 0.9))
    moved = [add(node, multiply(node, old, node.new_constant(momentum, old.dtype)),
                 multiply(node, new, node.new_constant(1 - momentum, new.dtype)))
             for old, new in ((tensors[2], mean), (tensors[3], variance))]
    return [_normalized(node, data, [*tensors[:2], mean, variance]), *moved]


@imports("InstanceNormalization")
def instance_norm(node: NodeImport) -> ImportedTensor:
    """Each channel of each sample by itself."""
    return node.emit("InstanceNorm", node.input(0), node.input(1), node.input(2),
                     eps=epsilon(node))


@imports("LayerNormalization")
def layer_norm(node: NodeImport) -> list[ImportedTensor]:
    """Each row by itself, over all axes from `axis` on."""
    data, gamma, beta = node.input(0), node.input(1), node.optional(2)
    axis, rank = node.axis(-1), node.rank()
    if beta is None:
        beta = node.filled(node.static(gamma), 0, gamma.dtype)
    wide = axis < rank - 1 or len(gamma.shape or ()) != 1
    shape = node.static() if wide or node.wants(1) else ()
    if wide:
        size = size_of(shape[axis:])
        data = node.reshape(data, (*shape[:axis], size))
        gamma, beta = node.reshape(gamma, (size,)), node.reshape(beta, (size,))
    extra = node.wants(1) or node.wants(2)
    outputs = node.emit_all("LayerNorm", data, gamma, beta, axis=axis, eps=epsilon(node),
                            output_mean_var=extra)
    results = [node.reshape(outputs[0], shape) if wide else outputs[0]]
    if extra:
        small = (*shape[:axis], *(1,) * (rank - axis))
        inverse = node.emit("reciprocal", outputs[2])
        results += [node.reshape(each, small) for each in (outputs[1], inverse)]
    return results


@imports("GroupNormalization")
def group_norm(node: NodeImport) -> ImportedTensor:
    """Groups of channels; ONNX has a factor for each channel, or before opset 21 for each group."""
    data, gamma, beta = [node.input(i) for i in range(3)]
    groups, shape = int(node.attribute("num_groups", 1)), node.static()
    if node.opset < 21:
        return node.emit("GroupNorm", data, gamma, beta, num_groups=groups, eps=epsilon(node))
    ones, zeros = (node.filled((groups,), value, data.dtype) for value in (1, 0))
    inner = node.emit("GroupNorm", data, ones, zeros, num_groups=groups, eps=epsilon(node))
    gamma, beta = _per_channel(node, [gamma, beta], len(shape))
    return add(node, multiply(node, inner, gamma), beta)


@imports("LRN")
def local_response_norm(node: NodeImport) -> ImportedTensor:
    """Divided by a norm over neighbouring channels."""
    size = int(node.attribute("size"))
    if size < 1 or not size % 2:
        node.refuse(f"size is {size}, expected an odd one: MXNet's even windows are smaller")
    return node.emit("LRN", node.data, nsize=size, alpha=float(node.attribute("alpha", 1e-4)),
                     beta=float(node.attribute("beta", 0.75)),
                     knorm=float(node.attribute("bias", 1.0)))


@imports("LpNormalization")
def lp_norm(node: NodeImport) -> ImportedTensor:
    """Divided by the norm along an axis; 0 where that is 0."""
    axis, power = node.axis(-1), int(node.attribute("p", 2))
    size = node.emit("norm", node.data, ord=power, axis=axis, keepdims=True)
    zero = node.emit("_equal_scalar", size, scalar=0)
    return divide(node, node.data, add(node, size, zero))
