"""LeNet on handwritten digits: a checkpoint per epoch, of which the best is loaded.

`do_checkpoint` writes one after every epoch, in MXNet's own format.  `module.history` has the
metrics of every epoch; `--plot curve.png` plots them (needs `pip install nbmod[plot]`).
"""

from __future__ import annotations

import argparse
import logging

import numpy as np

import nbmod as mx
from nbmod.cli.demo import lenet, load_digits


def main(argv: list[str] | None = None) -> float:
    """Train, and return the accuracy of the best checkpoint on every fifth digit, left out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=60)
    parser.add_argument("--size", type=int, default=28, help="height and width of the images")
    parser.add_argument("--prefix", default="lenet", help="where checkpoints are written")
    parser.add_argument("--plot", help="file for a plot of the learning curve")
    args = parser.parse_args(argv)

    images, labels = load_digits(args.size)
    held_out = np.arange(len(images)) % 5 == 0
    train = mx.io.NDArrayIter(images[~held_out], labels[~held_out], args.batch_size, shuffle=True)
    validation = mx.io.NDArrayIter(images[held_out], labels[held_out], args.batch_size)

    mx.random.seed(0)
    module = mx.mod.Module(lenet(), context=mx.cpu())
    module.fit(train, eval_data=validation, num_epoch=args.epochs, optimizer="sgd",
               optimizer_params={"learning_rate": 0.1, "momentum": 0.9, "wd": 1e-4},
               initializer=mx.init.Xavier(),
               batch_end_callback=mx.callback.Speedometer(args.batch_size, frequent=10),
               epoch_end_callback=mx.callback.do_checkpoint(args.prefix))
    if args.plot:
        mx.history.plot(module.history, args.plot, "LeNet")

    best = max(module.history, key=lambda epoch: epoch["validation"]["accuracy"])
    module = mx.mod.Module.load(args.prefix, best["epoch"] + 1)
    module.bind(validation.provide_data, validation.provide_label, for_training=False)
    return dict(module.score(validation, "acc"))["accuracy"]


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    print(f"validation accuracy of the best checkpoint: {main():.3f}")
