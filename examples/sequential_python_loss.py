"""A network of several modules: two in sequence, then a loss written in Python.

`SequentialModule` passes outputs forward and gradients backward; `PythonLossModule` turns scores
and labels into a gradient with a plain function, here that of the multi-class hinge loss of a
linear SVM.
"""

from __future__ import annotations

import argparse
import logging

import numpy as np

import nbmod as mx
from nbmod.cli.demo import load_digits


def hinge(scores: mx.nd.NDArray, labels: mx.nd.NDArray) -> mx.nd.NDArray:
    """Gradient of sum_j max(0, 1 + score_j - score_label), per sample."""
    right = mx.nd.one_hot(labels, scores.shape[1])
    margin = 1 + scores - mx.nd.pick(scores, labels, axis=1, keepdims=True)
    wrong = (margin > 0) * (1 - right)
    return wrong - right * wrong.sum(axis=1, keepdims=True)


def features() -> mx.sym.Symbol:
    x = mx.sym.FullyConnected(mx.sym.Flatten(mx.sym.Variable("data")), num_hidden=64, name="fc1")
    return mx.sym.Activation(x, act_type="relu", name="relu1")


def scores() -> mx.sym.Symbol:
    return mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=10, name="fc2")


def main(argv: list[str] | None = None) -> float:
    """Train, and return the accuracy on every fifth digit, which training leaves out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=60)
    parser.add_argument("--lr", type=float, default=0.05)
    args = parser.parse_args(argv)

    images, labels = load_digits(size=8)
    held_out = np.arange(len(images)) % 5 == 0
    train = mx.io.NDArrayIter(images[~held_out], labels[~held_out], args.batch_size, shuffle=True)
    validation = mx.io.NDArrayIter(images[held_out], labels[held_out], args.batch_size)

    mx.random.seed(0)
    row = mx.mod.SequentialModule()
    row.add(mx.mod.Module(features(), label_names=None))
    row.add(mx.mod.Module(scores(), label_names=None), auto_wiring=True)
    row.add(mx.mod.PythonLossModule(grad_func=hinge), take_labels=True, auto_wiring=True)
    row.fit(train, eval_data=validation, eval_metric="acc", num_epoch=args.epochs,
            optimizer_params={"learning_rate": args.lr, "momentum": 0.9},
            initializer=mx.init.Xavier())
    return dict(row.score(validation, "acc"))["accuracy"]


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    print(f"validation accuracy: {main():.3f}")
