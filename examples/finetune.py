"""Fine-tuning: a new classifier on the frozen features of a checkpoint.

A network learns the digits 0 to 4 and is saved.  Then its features are taken from the checkpoint, a
new last layer is added, and a few samples of the digits 5 to 9 train that layer alone: the others
are fixed parameters.
"""

from __future__ import annotations

import argparse
import logging

import numpy as np

import nbmod as mx
from nbmod.cli.demo import load_digits


def classifier(features: mx.sym.Symbol, name: str) -> mx.sym.Symbol:
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(features, num_hidden=5, name=name),
                                name="softmax")


def network() -> mx.sym.Symbol:
    x = mx.sym.Variable("data")
    for number, filters in ((1, 16), (2, 32)):
        x = mx.sym.Convolution(x, kernel=(3, 3), num_filter=filters, name=f"conv{number}")
        x = mx.sym.Activation(x, act_type="relu", name=f"relu{number}")
    x = mx.sym.FullyConnected(mx.sym.Flatten(x), num_hidden=64, name="fc")
    return classifier(mx.sym.Activation(x, act_type="relu", name="features"), "old")


def digits(first: int, per_class: int | None = None) -> tuple[mx.io.NDArrayIter, ...]:
    """Iterators for training and validation over five digits, numbered from 0."""
    images, labels = load_digits(size=8)
    mine = (labels >= first) & (labels < first + 5)
    images, labels = images[mine], labels[mine] - first
    held_out = np.arange(len(images)) % 2 == 0
    chosen = np.concatenate([np.flatnonzero(~held_out & (labels == digit))[:per_class]
                             for digit in range(5)])
    return (mx.io.NDArrayIter(images[chosen], labels[chosen], 25, shuffle=True),
            mx.io.NDArrayIter(images[held_out], labels[held_out], 25, last_batch_handle="discard"))


def main(argv: list[str] | None = None) -> float:
    """Train twice, and return the accuracy on the digits 5 to 9 that training leaves out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=5, help="of the first training")
    parser.add_argument("--samples", type=int, default=20, help="of each new digit")
    parser.add_argument("--prefix", default="digits", help="where the checkpoint is written")
    args = parser.parse_args(argv)
    settings = {"learning_rate": 0.1, "momentum": 0.9}

    mx.random.seed(0)
    train, validation = digits(0)
    module = mx.mod.Module(network())
    module.fit(train, eval_data=validation, num_epoch=args.epochs, initializer=mx.init.Xavier(),
               optimizer_params=settings)
    module.save_checkpoint(args.prefix, args.epochs)

    symbol, arg_params, aux_params = mx.model.load_checkpoint(args.prefix, args.epochs)
    features = symbol.get_internals()["features_output"]
    fixed = [name for name in features.list_arguments() if name != "data"]
    train, validation = digits(5, args.samples)
    module = mx.mod.Module(classifier(features, "new"), fixed_param_names=fixed)
    module.fit(train, eval_data=validation, num_epoch=30, initializer=mx.init.Xavier(),
               arg_params=arg_params, aux_params=aux_params, allow_missing=True,
               optimizer_params=settings)

    trained, _ = module.get_params()
    assert all((trained[name].asnumpy() == arg_params[name].asnumpy()).all() for name in fixed)
    return dict(module.score(validation, "acc"))["accuracy"]


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    print(f"validation accuracy on the new digits: {main():.3f}")
