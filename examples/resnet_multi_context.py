"""A small residual network on several contexts, each with its share of the batch.

Every context runs an executor on its slice; the key-value store sums their gradients in a fixed
order and updates the parameters once.  On a machine with GPUs use `--gpus 0,1`.
"""

from __future__ import annotations

import argparse
import logging

import numpy as np

import nbmod as mx
from nbmod.cli.demo import load_digits


def convolution(x: mx.sym.Symbol, filters: int, stride: int, name: str) -> mx.sym.Symbol:
    x = mx.sym.Convolution(x, kernel=(3, 3), stride=(stride, stride), pad=(1, 1), no_bias=True,
                           num_filter=filters, name=f"{name}_conv")
    return mx.sym.BatchNorm(x, fix_gamma=False, name=f"{name}_bn")


def unit(x: mx.sym.Symbol, filters: int, stride: int, name: str) -> mx.sym.Symbol:
    """Two convolutions and a shortcut."""
    y = mx.sym.Activation(convolution(x, filters, stride, f"{name}_a"), act_type="relu")
    y = convolution(y, filters, 1, f"{name}_b")
    if stride > 1:
        x = mx.sym.Convolution(x, kernel=(1, 1), stride=(stride, stride), no_bias=True,
                               num_filter=filters, name=f"{name}_shortcut")
    return mx.sym.Activation(x + y, act_type="relu", name=name)


def resnet(stages: tuple[int, ...], units: int) -> mx.sym.Symbol:
    """`units` residual units in each stage; `stages` are their numbers of filters."""
    x = convolution(mx.sym.Variable("data"), stages[0], 1, "stem")
    x = mx.sym.Activation(x, act_type="relu")
    for stage, filters in enumerate(stages):
        for number in range(units):
            stride = 2 if stage and not number else 1
            x = unit(x, filters, stride, f"stage{stage}_unit{number}")
    x = mx.sym.Pooling(x, global_pool=True, pool_type="avg", kernel=(1, 1))
    x = mx.sym.FullyConnected(mx.sym.Flatten(x), num_hidden=10, name="fc")
    return mx.sym.SoftmaxOutput(x, name="softmax")


def main(argv: list[str] | None = None) -> float:
    """Train, and return the accuracy on every fifth digit, which training leaves out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--contexts", type=int, default=2, help="number of CPU contexts")
    parser.add_argument("--gpus", help="GPUs to use instead, such as 0,1")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=60)
    parser.add_argument("--units", type=int, default=1, help="residual units per stage")
    args = parser.parse_args(argv)
    contexts = [mx.gpu(int(i)) for i in args.gpus.split(",")] if args.gpus else [
        mx.cpu(i) for i in range(args.contexts)]

    images, labels = load_digits(size=8)
    held_out = np.arange(len(images)) % 5 == 0
    train = mx.io.NDArrayIter(images[~held_out], labels[~held_out], args.batch_size, shuffle=True)
    validation = mx.io.NDArrayIter(images[held_out], labels[held_out], args.batch_size)

    mx.random.seed(0)
    module = mx.mod.Module(resnet((16, 32), args.units), context=contexts)
    steps = args.epochs * (train.num_data // args.batch_size)
    module.fit(train, eval_data=validation, num_epoch=args.epochs, kvstore="device",
               optimizer="nag", optimizer_params={
                   "learning_rate": 0.1, "momentum": 0.9, "wd": 1e-4,
                   "lr_scheduler": mx.lr_scheduler.CosineScheduler(steps, base_lr=0.1)},
               initializer=mx.init.MSRAPrelu(),
               batch_end_callback=mx.callback.Speedometer(args.batch_size, frequent=10))
    return dict(module.score(validation, "acc"))["accuracy"]


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    print(f"validation accuracy: {main():.3f}")
