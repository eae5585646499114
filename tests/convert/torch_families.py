"""Small networks of the families that people bring from PyTorch, as symbols (see `torch_networks`).

`FAMILIES` has for each the symbol, the shape of its data, and pairs of names: module of the state
dict, in the order of construction, and node of the symbol.  `torch_module` makes the module, in the
usual names of torchvision and insightface, where torch is installed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import nbmod as mx

WIDTHS = (8, 16)


class Family(NamedTuple):
    symbol: Any
    shape: tuple[int, ...]
    pairs: list[tuple[str, str]]


def conv(x, name, filters, kernel=1, stride=1, groups=1, bias=False):
    return mx.sym.Convolution(x, num_filter=filters, kernel=(kernel,) * 2, stride=(stride,) * 2,
                              pad=(kernel // 2,) * 2, num_group=groups, no_bias=not bias, name=name)


def norm(x, name, fix_gamma=False):
    return mx.sym.BatchNorm(x, fix_gamma=fix_gamma, eps=1e-5, name=name)


def relu(x):
    return mx.sym.Activation(x, act_type="relu")


def pooled(x, name):
    x = mx.sym.Pooling(x, global_pool=True, kernel=(1, 1), pool_type="avg")
    x = mx.sym.FullyConnected(mx.sym.Flatten(x), num_hidden=5, name=name)
    return mx.sym.SoftmaxOutput(x, name="softmax")


def resnet(bottleneck):
    """ResNet 1.5; the shortcut is the first operand of the sum, so that it is computed first."""
    x, pairs = mx.sym.Variable("data"), [("conv1", "conv0"), ("bn1", "bn0")]
    x = relu(norm(conv(x, "conv0", 8, 7, 2), "bn0"))
    grow = 4 if bottleneck else 1
    sizes = ((1, 3, 1) if bottleneck else (3, 3))
    for stage, width in enumerate(WIDTHS, 1):
        for unit in range(2):
            at, name = f"layer{stage}.{unit}", f"stage{stage}_unit{unit + 1}"
            y, stride = x, 2 if stage > 1 and unit == 0 else 1
            for i, size in enumerate(sizes, 1):
                last = i == len(sizes)
                y = conv(y, f"{name}_conv{i}", width * (grow if last else 1), size,
                         stride if size == 3 and (bottleneck or i == 1) else 1)
                y = norm(y, f"{name}_bn{i}")
                y = y if last else relu(y)
                pairs += [(f"{at}.conv{i}", f"{name}_conv{i}"), (f"{at}.bn{i}", f"{name}_bn{i}")]
            if unit == 0 and (stride > 1 or grow > 1):
                x = norm(conv(x, f"{name}_sc", width * grow, 1, stride), f"{name}_scbn")
                pairs += [(f"{at}.downsample.0", f"{name}_sc"),
                          (f"{at}.downsample.1", f"{name}_scbn")]
            x = relu(x + y)
    return Family(pooled(x, "fc1"), (2, 3, 32, 32), [*pairs, ("fc", "fc1")])


def mobilenet_v1():
    x, pairs = mx.sym.Variable("data"), []
    x = relu(norm(conv(x, "conv_1", 8, 3, 2), "conv_1_bn"))
    pairs += [("model.0.0", "conv_1"), ("model.0.1", "conv_1_bn")]
    filters = 8
    for i, (wider, stride) in enumerate([(16, 1), (32, 2), (32, 1)], 1):
        x = relu(norm(conv(x, f"conv_{i}_dw", filters, 3, stride, filters), f"conv_{i}_dw_bn"))
        x = relu(norm(conv(x, f"conv_{i}_pw", wider), f"conv_{i}_pw_bn"))
        pairs += [(f"model.{i}.{j}", f"conv_{i}_{name}") for j, name
                  in ((0, "dw"), (1, "dw_bn"), (3, "pw"), (4, "pw_bn"))]
        filters = wider
    # A convolution of 1x1 in place of the dense layer.
    x = mx.sym.Pooling(x, global_pool=True, kernel=(1, 1), pool_type="avg")
    x = mx.sym.Flatten(conv(x, "pred", 5, bias=True))
    return Family(mx.sym.softmax(x, name="prob"), (2, 3, 32, 32), [*pairs, ("fc", "pred")])


def mobilenet_v2():
    x, pairs = mx.sym.Variable("data"), []
    x = relu(norm(conv(x, "first_conv", 8, 3, 2), "first_bn"))
    pairs += [("features.0.0", "first_conv"), ("features.0.1", "first_bn")]
    for i, (wide, filters, stride, joined) in enumerate(
            [(8, 8, 1, True), (48, 16, 2, False), (96, 16, 1, True)], 1):
        y, rows, name = x, [], f"block{i}"
        if wide > 8:
            y = relu(norm(conv(y, f"{name}_expand", wide), f"{name}_expand_bn"))
            rows.append((f"{name}_expand", f"{name}_expand_bn"))
        y = relu(norm(conv(y, f"{name}_dw", wide, 3, stride, wide), f"{name}_dw_bn"))
        y = norm(conv(y, f"{name}_out", filters), f"{name}_out_bn")
        rows.append((f"{name}_dw", f"{name}_dw_bn"))
        for j, row in enumerate(rows):
            pairs += [(f"features.{i}.conv.{j}.{k}", each) for k, each in enumerate(row)]
        pairs += [(f"features.{i}.conv.{len(rows)}", f"{name}_out"),
                  (f"features.{i}.conv.{len(rows) + 1}", f"{name}_out_bn")]
        x = y + x if joined else y
    return Family(pooled(x, "output"), (2, 3, 32, 32), [*pairs, ("classifier.1", "output")])


def vgg(batch_norm):
    x, pairs, at = mx.sym.Variable("data"), [], 0
    for i, filters in enumerate((8, 16)):
        for j in range(2):
            x = conv(x, f"conv{i}_{j}", filters, 3, bias=True)
            pairs.append((f"features.{at}", f"conv{i}_{j}"))
            if batch_norm:
                x = norm(x, f"norm{i}_{j}")
                pairs.append((f"features.{at + 1}", f"norm{i}_{j}"))
            x, at = relu(x), at + 2 + batch_norm
        x, at = mx.sym.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max"), at + 1
    for i, hidden in enumerate((24, 24, 5)):
        x = mx.sym.FullyConnected(x, num_hidden=hidden, name=f"fc{6 + i}")
        x = mx.sym.Dropout(relu(x), p=0.5) if i < 2 else x
        pairs.append((f"classifier.{3 * i}", f"fc{6 + i}"))
    return Family(mx.sym.SoftmaxOutput(x, name="softmax"), (2, 3, 16, 16), pairs)


def prelu(x, name):
    return mx.sym.LeakyReLU(x, act_type="prelu", name=name)


def arcface():
    """iresnet in the names of insightface; the last norm has a fixed gamma, as there."""
    x = mx.sym.Variable("data")
    x = prelu(norm(conv(x, "conv0", 8, 3), "bn0"), "relu0")
    pairs = [("conv1", "conv0"), ("bn1", "bn0"), ("prelu", "relu0")]
    for stage, width in enumerate(WIDTHS, 1):
        for unit in range(2):
            at, name = f"layer{stage}.{unit}", f"stage{stage}_unit{unit + 1}"
            y = conv(norm(x, f"{name}_bn1"), f"{name}_conv1", width, 3)
            y = prelu(norm(y, f"{name}_bn2"), f"{name}_relu1")
            y = norm(conv(y, f"{name}_conv2", width, 3, 1 if unit else 2), f"{name}_bn3")
            pairs += [(f"{at}.{theirs}", f"{name}_{ours}") for theirs, ours in (
                ("bn1", "bn1"), ("conv1", "conv1"), ("bn2", "bn2"), ("prelu", "relu1"),
                ("conv2", "conv2"), ("bn3", "bn3"))]
            if unit == 0:
                x = norm(conv(x, f"{name}_conv1sc", width, 1, 2), f"{name}_sc")
                pairs += [(f"{at}.downsample.0", f"{name}_conv1sc"),
                          (f"{at}.downsample.1", f"{name}_sc")]
            x = x + y
    x = mx.sym.FullyConnected(norm(x, "bn1"), num_hidden=12, name="pre_fc1")
    return Family(norm(x, "fc1", fix_gamma=True), (2, 3, 16, 16),
                  [*pairs, ("bn2", "bn1"), ("fc", "pre_fc1"), ("features", "fc1")])


FAMILIES = {
    "resnet18": lambda: resnet(False), "resnet50": lambda: resnet(True), "vgg": lambda: vgg(False),
    "vgg_bn": lambda: vgg(True), "mobilenet": mobilenet_v1, "mobilenet_v2": mobilenet_v2,
    "arcface": arcface}
