"""Networks to measure: symbols built with nbmod, exchanged with MXNet as JSON.

Every builder returns a symbol with inputs `data` and `softmax_label`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import nbmod as mx

sym = mx.sym


def conv_unit(x: Any, name: str, filters: int, kernel: int, stride: int = 1, relu: bool = True,
              groups: int = 1) -> Any:
    """Convolution without bias, batch normalisation and, on demand, ReLU."""
    x = sym.Convolution(x, num_filter=filters, kernel=(kernel, kernel), stride=(stride, stride),
                        pad=(kernel // 2, kernel // 2), num_group=groups, no_bias=True,
                        name=f"{name}_conv")
    x = sym.BatchNorm(x, fix_gamma=False, eps=1e-5, name=f"{name}_bn")
    return sym.Activation(x, act_type="relu", name=f"{name}_relu") if relu else x


def _head(x: Any, classes: int) -> Any:
    x = sym.Pooling(x, global_pool=True, pool_type="avg", kernel=(7, 7), name="pool")
    x = sym.FullyConnected(sym.Flatten(x), num_hidden=classes, name="fc")
    return sym.SoftmaxOutput(x, name="softmax")


def resnet(units: list[int], bottleneck: bool, classes: int = 1000) -> Any:
    """ResNet v1 (He et al., 2015, https://arxiv.org/abs/1512.03385), 224 x 224 inputs."""
    x = conv_unit(sym.Variable("data"), "stem", 64, 7, 2)
    x = sym.Pooling(x, kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type="max", name="stem_pool")
    expansion = 4 if bottleneck else 1
    for stage, count in enumerate(units):
        filters = 64 << stage
        for unit in range(count):
            name, stride = f"stage{stage + 1}_unit{unit + 1}", 2 if stage and not unit else 1
            shortcut = x if unit or (not stage and not bottleneck) else conv_unit(
                x, f"{name}_shortcut", filters * expansion, 1, stride, relu=False)
            if bottleneck:
                y = conv_unit(x, f"{name}_a", filters, 1, stride)
                y = conv_unit(y, f"{name}_b", filters, 3)
                y = conv_unit(y, f"{name}_c", filters * 4, 1, relu=False)
            else:
                y = conv_unit(x, f"{name}_a", filters, 3, stride)
                y = conv_unit(y, f"{name}_b", filters, 3, relu=False)
            x = sym.Activation(y + shortcut, act_type="relu", name=f"{name}_out")
    return _head(x, classes)


def vgg16(classes: int = 1000) -> Any:
    """VGG-16 (Simonyan and Zisserman, 2014, https://arxiv.org/abs/1409.1556)."""
    x = sym.Variable("data")
    for stage, (count, filters) in enumerate([(2, 64), (2, 128), (3, 256), (3, 512), (3, 512)], 1):
        for unit in range(1, count + 1):
            x = sym.Convolution(x, num_filter=filters, kernel=(3, 3), pad=(1, 1),
                                name=f"conv{stage}_{unit}")
            x = sym.Activation(x, act_type="relu", name=f"relu{stage}_{unit}")
        x = sym.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max", name=f"pool{stage}")
    x = sym.Flatten(x)
    for number in (6, 7):
        x = sym.FullyConnected(x, num_hidden=4096, name=f"fc{number}")
        x = sym.Dropout(sym.Activation(x, act_type="relu", name=f"relu{number}"), p=0.5)
    return sym.SoftmaxOutput(sym.FullyConnected(x, num_hidden=classes, name="fc8"), name="softmax")


def mobilenet_v2(classes: int = 1000) -> Any:
    """MobileNetV2 (Sandler et al., 2018, https://arxiv.org/abs/1801.04381)."""
    x = conv_unit(sym.Variable("data"), "stem", 32, 3, 2)
    previous, number = 32, 0
    for expansion, filters, count, stride in [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2),
                                              (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
                                              (6, 320, 1, 1)]:
        for unit in range(count):
            number += 1
            name, step, wide = f"block{number}", 1 if unit else stride, previous * expansion
            y = conv_unit(x, f"{name}_expand", wide, 1) if expansion > 1 else x
            y = conv_unit(y, f"{name}_depthwise", wide, 3, step, groups=wide)
            y = conv_unit(y, f"{name}_project", filters, 1, relu=False)
            x = x + y if step == 1 and previous == filters else y
            previous = filters
    return _head(conv_unit(x, "last", 1280, 1), classes)


def lenet(classes: int = 10) -> Any:
    """The demo's network."""
    from nbmod.cli.demo import lenet as build

    return build(classes)


def perceptron(classes: int = 10) -> Any:
    """784-128-64-10 with ReLU."""
    x = sym.Variable("data")
    for number, hidden in enumerate((128, 64), 1):
        x = sym.FullyConnected(x, num_hidden=hidden, name=f"fc{number}")
        x = sym.Activation(x, act_type="relu", name=f"relu{number}")
    return sym.SoftmaxOutput(sym.FullyConnected(x, num_hidden=classes, name="fc3"), name="softmax")


def wide_and_deep(words: int = 10_000, width: int = 16) -> Any:
    """Wide and deep (Cheng et al., 2016, https://arxiv.org/abs/1606.07792): `ids` (N, 26) of words
    in a linear model and, with `data` (N, 13), in a perceptron on embeddings."""
    ids, data = sym.Variable("ids"), sym.Variable("data")
    wide = sym.sum(sym.Embedding(ids, input_dim=words, output_dim=2, name="wide"), axis=1)
    deep = sym.Embedding(ids, input_dim=words, output_dim=width, name="deep")
    deep = sym.Concat(sym.Flatten(deep), data, dim=1)
    for number, hidden in enumerate((256, 128), 1):
        deep = sym.FullyConnected(deep, num_hidden=hidden, name=f"fc{number}")
        deep = sym.Activation(deep, act_type="relu", name=f"relu{number}")
    deep = sym.FullyConnected(deep, num_hidden=2, name="fc3")
    return sym.SoftmaxOutput(wide + deep, name="softmax")


def language_model(fused: bool, mode: str = "lstm", words: int = 10_000, hidden: int = 650,
                   layers: int = 2, length: int = 35, batch: int = 32) -> Any:
    """An LSTM or GRU that predicts words from `ids` (N, length): the RNN operator, or cells
    unrolled.  `softmax_label` (N, length) is put in the order of time, as the outputs are."""
    x = sym.Embedding(sym.Variable("ids"), input_dim=words, output_dim=hidden, name="embed")
    if fused:
        x = sym.RNN(sym.transpose(x, axes=(1, 0, 2)), mode=mode, state_size=hidden,
                    num_layers=layers, name=mode)
    else:
        x = _unrolled(x, mode, (batch, hidden), layers, length)
    x = sym.Reshape(x, shape=(-1, hidden))
    x = sym.FullyConnected(x, num_hidden=words, name="decode")
    labels = sym.Reshape(sym.transpose(sym.Variable("softmax_label")), shape=(-1,))
    return sym.SoftmaxOutput(x, labels, name="softmax")


def _unrolled(x: Any, mode: str, shape: tuple[int, int], layers: int, length: int) -> Any:
    """Outputs of all steps, (length * N, hidden)."""
    stack = mx.rnn.FusedRNNCell(shape[1], layers, mode, prefix="").unfuse()
    states = [sym.Variable(f"{kind}{layer}_state", shape=shape)
              for layer in range(layers) for kind in ("hc" if mode == "lstm" else "h")]
    outputs, _ = stack.unroll(length, x, begin_state=states, layout="NTC", merge_outputs=False)
    return sym.Concat(*outputs, dim=0)


NETWORKS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "resnet18": (lambda: resnet([2, 2, 2, 2], False), (16, 3, 224, 224)),
    "resnet50": (lambda: resnet([3, 4, 6, 3], True), (16, 3, 224, 224)),
    "vgg16": (vgg16, (8, 3, 224, 224)),
    "mobilenet_v2": (mobilenet_v2, (16, 3, 224, 224)),
    "lenet": (lenet, (64, 1, 28, 28)),
    "perceptron": (perceptron, (64, 784)),
}
"""name -> (builder, shape of `data`)."""
