"""A generative adversarial network of convolutions (DCGAN) that draws handwritten digits.

The generator makes images from random numbers, the discriminator tells them from real ones.  A step
of the discriminator calls it twice in one record, on real and on generated images, and its one
`backward` goes through both calls; a step of the generator goes through both networks.  Both are
hybridized: every call is a planned graph, with memory of its own until its gradient is computed.

How good the drawings are is told by the Frechet distance: that of the normal distributions with the
mean and the covariance of the pixels.  `--sheet digits.png` writes a sheet of drawings (needs
`pip install nbmod[image]`).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import nbmod as mx
from nbmod import autograd, gluon, nd
from nbmod.cli.demo import load_digits
from nbmod.gluon import nn
from nbmod.imgproc.codecs import encode

SIZE, NOISE = 12, 16


def generator(channels: int) -> nn.HybridSequential:
    """Noise (N, NOISE, 1, 1) to images (N, 1, SIZE, SIZE) between -1 and 1."""
    net = nn.HybridSequential(prefix="generator_")
    with net.name_scope():
        for number, (size, stride, pad) in enumerate([(3, 1, 0), (4, 2, 1)]):
            net.add(nn.Conv2DTranspose(2 * channels >> number, size, stride, pad, use_bias=False),
                    nn.BatchNorm(), nn.Activation("relu"))
        net.add(nn.Conv2DTranspose(1, 4, 2, 1), nn.Activation("tanh"))
    return net


def discriminator(channels: int) -> nn.HybridSequential:
    """Images to scores (N, 1), which are large for real ones."""
    net = nn.HybridSequential(prefix="discriminator_")
    with net.name_scope():
        net.add(nn.Conv2D(channels, 4, 2, 1), nn.LeakyReLU(0.2),
                nn.Conv2D(2 * channels, 4, 2, 1, use_bias=False), nn.BatchNorm(),
                nn.LeakyReLU(0.2), nn.Dense(1))
    return net


class Adversaries:
    """Both networks, with the trainer of each."""

    def __init__(self, args: argparse.Namespace):
        self.generator, self.discriminator = (make(args.channels)
                                              for make in (generator, discriminator))
        self.trainers = {}
        for net in (self.generator, self.discriminator):
            net.initialize(mx.init.Normal(0.05))
            net.hybridize()
            self.trainers[net] = gluon.Trainer(net.collect_params(), "adam", {
                "learning_rate": args.lr, "beta1": 0.5})
        self.loss_of = gluon.loss.SigmoidBinaryCrossEntropyLoss()

    def draw(self, count: int) -> nd.NDArray:
        return self.generator(nd.random.normal(shape=(count, NOISE, 1, 1)))

    def step(self, real: nd.NDArray) -> tuple[float, float]:
        """Train the discriminator, then the generator; returns their losses."""
        count = len(real)
        ones, zeros = nd.ones((count, 1)), nd.zeros((count, 1))
        with autograd.record():
            drawn = self.draw(count)
            loss = (self.loss_of(self.discriminator(real), ones)
                    + self.loss_of(self.discriminator(drawn.detach()), zeros))
        loss.backward()
        self.trainers[self.discriminator].step(count)
        with autograd.record():
            deceit = self.loss_of(self.discriminator(drawn), ones)
        deceit.backward()
        self.trainers[self.generator].step(count)
        return float(loss.mean().asscalar()), float(deceit.mean().asscalar())


def distance(images: np.ndarray, others: np.ndarray) -> float:
    """The Frechet distance of two sets of images."""
    (mean, covariance), (other, spread) = (
        (rows.mean(axis=0), np.cov(rows.T))
        for rows in (each.reshape(len(each), -1).astype(np.float64) for each in (images, others)))
    # The trace of a root is the sum of the roots of eigenvalues, which are real and not negative.
    shared = np.sqrt(np.maximum(np.linalg.eigvals(covariance @ spread).real, 0)).sum()
    return float(((mean - other) ** 2).sum() + np.trace(covariance + spread) - 2 * shared)


def write_sheet(images: np.ndarray, path: Path, columns: int = 16) -> None:
    rows = images.reshape(-1, columns, SIZE, SIZE).transpose(0, 2, 1, 3)
    gray = np.clip(127.5 * (1 + rows.reshape(-1, columns * SIZE)), 0, 255).astype(np.uint8)
    path.write_bytes(encode(np.repeat(gray[..., None], 3, axis=2), "png"))


def main(argv: list[str] | None = None) -> float:
    """Train, and return the distance to real digits as a share of that before training."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--channels", type=int, default=16, help="of the first convolution")
    parser.add_argument("--lr", type=float, default=0.002)
    parser.add_argument("--sheet", type=Path, help="file for a sheet of drawings")
    args = parser.parse_args(argv)

    mx.random.seed(0)
    images = 2 * load_digits(SIZE)[0] - 1
    batches = gluon.data.DataLoader(gluon.data.ArrayDataset(images), args.batch_size,
                                    shuffle=True, last_batch="discard")
    both = Adversaries(args)
    before = distance(both.draw(1000).asnumpy(), images)
    for epoch in range(args.epochs):
        losses = np.mean([both.step(real) for real in batches], axis=0)
        drawn = both.draw(1024).asnumpy()
        share = distance(drawn, images) / before
        print(f"epoch {epoch}: losses {losses[0]:.2f} and {losses[1]:.2f}, "
              f"{share:.1%} of the first distance")
    if args.sheet:
        write_sheet(drawn[:256], args.sheet)
    return share


if __name__ == "__main__":
    print(f"{main():.1%} of the distance of an untrained generator")
