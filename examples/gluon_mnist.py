"""A convolutional network on handwritten digits with Gluon: blocks, a loader, and the Trainer.

The images of a batch are moved by a pixel at random while they are loaded (`--workers` does so in
processes).  The network is a `HybridSequential`: `hybridize` makes one planned graph of its calls,
`--eager` leaves them as single operators.  At last it is exported, as files that `Module`, MXNet
and `nbmod explain` read, too, and read back to classify the digits that training leaves out.
"""

from __future__ import annotations

import argparse

import numpy as np

import nbmod as mx
from nbmod import autograd, gluon, nd
from nbmod.cli.demo import load_digits
from nbmod.gluon import nn


def network() -> nn.HybridSequential:
    net = nn.HybridSequential(prefix="digits_")
    with net.name_scope():
        for channels in (16, 32):
            net.add(nn.Conv2D(channels, kernel_size=3, padding=1, use_bias=False), nn.BatchNorm(),
                    nn.Activation("relu"), nn.MaxPool2D())
        net.add(nn.Dense(64, activation="relu"), nn.Dropout(0.3), nn.Dense(10))
    return net


class Moved:
    """An image moved by at most one pixel; a class, so that any process can read it."""

    def __call__(self, image: np.ndarray) -> np.ndarray:
        up, left = np.random.randint(0, 3, 2)
        return np.pad(image, ((0, 0), (1, 1), (1, 1)))[:, up:, left:][:, :image.shape[1],
                                                                      :image.shape[2]]


def loaders(args: argparse.Namespace) -> tuple[gluon.data.DataLoader, gluon.data.DataLoader]:
    """Batches to train with, and those of every fifth digit, which training leaves out."""
    images, labels = load_digits(size=16)
    held_out = np.arange(len(images)) % 5 == 0
    train, test = (gluon.data.ArrayDataset(images[part], labels[part])
                   for part in (~held_out, held_out))
    return (gluon.data.DataLoader(train.transform_first(Moved()), args.batch_size, shuffle=True,
                                  last_batch="discard", num_workers=args.workers),
            gluon.data.DataLoader(test, args.batch_size))


def accuracy_of(net: gluon.HybridBlock, batches: gluon.data.DataLoader) -> float:
    metric = mx.metric.Accuracy()
    for data, label in batches:
        metric.update(label, net(data))
    return metric.get()[1]


def train(net: gluon.HybridBlock, args: argparse.Namespace) -> None:
    batches, validation = loaders(args)
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "sgd",
                            {"learning_rate": args.lr, "momentum": 0.9, "wd": 1e-4})
    for epoch in range(args.epochs):
        total = 0.0
        for data, label in batches:
            with autograd.record():
                loss = loss_of(net(data), label)
            loss.backward()
            trainer.step(len(data))
            total += float(loss.mean().asscalar())
        print(f"epoch {epoch}: loss {total / len(batches):.3f}, validation accuracy "
              f"{accuracy_of(net, validation):.3f}")


def main(argv: list[str] | None = None) -> float:
    """Train and export, and return the accuracy of the network that the files hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=60)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--workers", type=int, default=0, help="processes that load batches")
    parser.add_argument("--eager", action="store_true", help="run single operators")
    parser.add_argument("--prefix", default="digits", help="where the network is exported")
    args = parser.parse_args(argv)

    mx.random.seed(0)
    np.random.seed(0)
    net = network()
    net.initialize(mx.init.Xavier())
    if not args.eager:
        net.hybridize()
    train(net, args)

    net.hybridize()
    net(nd.zeros((1, 1, 16, 16)))
    net.export(args.prefix, epoch=args.epochs)
    print(f"nbmod explain {args.prefix} --shape data={args.batch_size},1,16,16")
    block = gluon.SymbolBlock.imports(f"{args.prefix}-symbol.json", ["data"],
                                      f"{args.prefix}-{args.epochs:04}.params")
    return accuracy_of(block, loaders(args)[1])


if __name__ == "__main__":
    print(f"validation accuracy: {main():.3f}")
