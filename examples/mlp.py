"""A multi-layer perceptron on handwritten digits: the shortest complete training script.

Data in arrays, a network as a symbol, `fit`, and the accuracy on digits it has not seen.
"""

from __future__ import annotations

import argparse
import logging

import numpy as np

import nbmod as mx
from nbmod.cli.demo import load_digits


def network() -> mx.sym.Symbol:
    x = mx.sym.Flatten(mx.sym.Variable("data"))
    for number, size in ((1, 128), (2, 64)):
        x = mx.sym.FullyConnected(x, num_hidden=size, name=f"fc{number}")
        x = mx.sym.Activation(x, act_type="relu", name=f"relu{number}")
    x = mx.sym.FullyConnected(x, num_hidden=10, name="fc3")
    return mx.sym.SoftmaxOutput(x, name="softmax")


def main(argv: list[str] | None = None) -> float:
    """Train, and return the accuracy on every fifth digit, which training leaves out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=60)
    parser.add_argument("--lr", type=float, default=0.1)
    args = parser.parse_args(argv)

    images, labels = load_digits(size=8)
    held_out = np.arange(len(images)) % 5 == 0
    train = mx.io.NDArrayIter(images[~held_out], labels[~held_out], args.batch_size, shuffle=True)
    validation = mx.io.NDArrayIter(images[held_out], labels[held_out], args.batch_size)

    mx.random.seed(0)
    module = mx.mod.Module(network(), context=mx.cpu())
    module.fit(train, eval_data=validation, eval_metric="acc", num_epoch=args.epochs,
               optimizer="sgd", optimizer_params={"learning_rate": args.lr, "momentum": 0.9},
               initializer=mx.init.Xavier(),
               batch_end_callback=mx.callback.Speedometer(args.batch_size, frequent=10))
    return dict(module.score(validation, "acc"))["accuracy"]


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    print(f"validation accuracy: {main():.3f}")
