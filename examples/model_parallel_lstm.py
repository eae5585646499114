"""A recurrent network whose layers are on different devices.

A stack of LSTM layers learns to repeat its input of some steps ago, which it has to remember until
then.  Every layer is a group of nodes, `AttrScope(ctx_group=...)`, and `group2ctxs` assigns each
group, with its weights, states and gradients, to a device.  Only the outputs of a layer, and their
gradients, are copied between devices.  `--device gpu` takes one GPU for each layer; otherwise the
devices are `cpu(0)`, `cpu(1)`, ...
"""

from __future__ import annotations

import argparse
import logging

import numpy as np

import nbmod as mx

SYMBOLS, LENGTH, DELAY = 8, 10, 3


def echoes(count: int, seed: int, batch_size: int) -> mx.io.NDArrayIter:
    """Sentences of random symbols, one-hot; a symbol's label is the one `DELAY` steps before it."""
    text = np.random.default_rng(seed).integers(0, SYMBOLS, (count, LENGTH))
    label = np.concatenate([np.zeros((count, DELAY), int), text[:, :-DELAY]], axis=1)
    return mx.io.NDArrayIter(np.eye(SYMBOLS)[text], label, batch_size)


def network(layers: int, hidden: int) -> mx.sym.Symbol:
    with mx.AttrScope(ctx_group="layer0"):
        x = mx.sym.Variable("data")
    for number in range(layers):
        with mx.AttrScope(ctx_group=f"layer{number}"):
            cell = mx.rnn.LSTMCell(hidden, prefix=f"lstm{number}_", forget_bias=1.0)
            x, _ = cell.unroll(LENGTH, x, layout="NTC", merge_outputs=True)
    with mx.AttrScope(ctx_group=f"layer{layers - 1}"):
        x = mx.sym.FullyConnected(mx.sym.Reshape(x, shape=(-1, hidden)), num_hidden=SYMBOLS,
                                  name="decoder")
        label = mx.sym.Reshape(mx.sym.Variable("softmax_label"), shape=(-1,))
        return mx.sym.SoftmaxOutput(x, label, name="softmax")


def main(argv: list[str] | None = None) -> float:
    """Train, and return the accuracy on sentences that training has not seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--hidden", type=int, default=48)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=50)
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    args = parser.parse_args(argv)

    devices = [mx.Context(args.device, number) for number in range(args.layers)]
    train, validation = (echoes(count, seed, args.batch_size) for count, seed in ((2000, 1),
                                                                                  (500, 2)))
    mx.random.seed(0)
    module = mx.mod.Module(network(args.layers, args.hidden), context=devices[0], group2ctxs={
        f"layer{number}": device for number, device in enumerate(devices)})
    module.fit(train, eval_data=validation, eval_metric="acc", num_epoch=args.epochs,
               optimizer="adam", optimizer_params={"learning_rate": 0.01},
               initializer=mx.init.Xavier())
    return dict(module.score(validation, "acc"))["accuracy"]


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    print(f"accuracy of the echo: {main():.3f}")
