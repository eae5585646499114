"""An operator written in Python: the focal loss, which gives less weight to easy samples.

Forward is a softmax p over classes; backward is the gradient of -(1 - p_t)^gamma log p_t, with t
the right class.  With gamma 0 that is the cross entropy.  In the network it is a node like any
other operator.
"""

from __future__ import annotations

import argparse
import logging

import numpy as np

import nbmod as mx
from nbmod.cli.demo import load_digits


class FocalLoss(mx.operator.CustomOp):
    """The computation; one object per executor."""

    def __init__(self, gamma: float):
        super().__init__()
        self.gamma = gamma

    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], mx.nd.softmax(in_data[0]))

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        p, label = out_data[0], in_data[1]
        right = mx.nd.one_hot(label, p.shape[1])
        pt = mx.nd.pick(p, label, axis=1, keepdims=True)
        rest = 1 - pt + 1e-12
        weight = rest ** self.gamma - self.gamma * (
            pt * rest ** (self.gamma - 1) * mx.nd.log(pt + 1e-12))
        self.assign(in_grad[0], req[0], mx.nd.broadcast_mul(p - right, weight))


@mx.operator.register("focal_loss")
class FocalLossProp(mx.operator.CustomOpProp):
    """The properties of the operator; its parameters arrive as text."""

    def __init__(self, gamma: str = "2"):
        super().__init__(need_top_grad=False)
        self.gamma = float(gamma)

    def list_arguments(self):
        return ["data", "label"]

    def infer_shape(self, in_shape):
        return [in_shape[0], in_shape[0][:1]], [in_shape[0]], []

    def create_operator(self, ctx, in_shapes, in_dtypes):
        return FocalLoss(self.gamma)


def network(gamma: float) -> mx.sym.Symbol:
    x = mx.sym.Flatten(mx.sym.Variable("data"))
    x = mx.sym.FullyConnected(x, num_hidden=64, name="fc1")
    x = mx.sym.Activation(x, act_type="relu", name="relu1")
    x = mx.sym.FullyConnected(x, num_hidden=10, name="fc2")
    return mx.sym.Custom(x, op_type="focal_loss", gamma=gamma, name="softmax")


def main(argv: list[str] | None = None) -> float:
    """Train, and return the accuracy on every fifth digit, which training leaves out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--gamma", type=float, default=2.0)
    args = parser.parse_args(argv)

    images, labels = load_digits(size=8)
    held_out = np.arange(len(images)) % 5 == 0
    train = mx.io.NDArrayIter(images[~held_out], labels[~held_out], 60, shuffle=True)
    validation = mx.io.NDArrayIter(images[held_out], labels[held_out], 60)

    mx.random.seed(0)
    module = mx.mod.Module(network(args.gamma), context=mx.cpu())
    module.fit(train, eval_data=validation, eval_metric="acc", num_epoch=args.epochs,
               optimizer="adam", optimizer_params={"learning_rate": 0.01},
               initializer=mx.init.Xavier())
    return dict(module.score(validation, "acc"))["accuracy"]


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    print(f"validation accuracy: {main():.3f}")
