"""A wide and deep network (Cheng et al., 2016): memory of combinations and generalization at once.

The *wide* part is a linear model of crossed categories, a CSR matrix with one feature for each pair
of categories.  The *deep* part looks the categories up in an embedding with a sparse gradient, and
feeds them, with dense numbers, to a perceptron.  Their scores are added.
"""

from __future__ import annotations

import argparse
import logging

import numpy as np

import nbmod as mx


class Sample:
    """Data made on the spot: the class depends on a pair of categories, and on numbers."""

    def __init__(self, count: int, categories: int):
        rng = np.random.RandomState(0)
        self.ids = rng.randint(categories, size=(count, 2))
        self.numbers = rng.randn(count, 4).astype("float32")
        self.cross = self.ids[:, 0] * categories + self.ids[:, 1]
        exceptions = rng.randn(categories, categories)[self.ids[:, 0], self.ids[:, 1]]
        smooth = np.tanh(self.numbers @ rng.randn(4)) + np.sin(self.ids @ rng.randn(2))
        self.label = (smooth + exceptions > 0).astype("float32")
        self.crosses = categories ** 2

    def batches(self, part: slice, size: int) -> mx.io.NDArrayIter:
        cross = self.cross[part]
        wide = mx.nd.sparse.csr_matrix((np.ones(len(cross)), cross, np.arange(len(cross) + 1)),
                                       shape=(len(cross), self.crosses), dtype="float32")
        return mx.io.NDArrayIter({"ids": self.ids[part], "numbers": self.numbers[part],
                                  "wide": wide},
                                 {"softmax_label": self.label[part]}, size,
                                 last_batch_handle="discard")


def network(crosses: int, categories: int) -> mx.sym.Symbol:
    weight = mx.sym.Variable("wide_weight", shape=(crosses, 2), stype="row_sparse",
                             init=mx.init.Zero())
    wide = mx.sym.sparse.dot(mx.sym.Variable("wide", stype="csr"), weight)

    table = mx.sym.Variable("embedding_weight", shape=(2 * categories, 8), stype="row_sparse",
                            init=mx.init.Normal(0.1))
    found = mx.sym.Embedding(mx.sym.Variable("ids"), table, input_dim=2 * categories,
                             output_dim=8, sparse_grad=True)
    x = mx.sym.concat(mx.sym.Flatten(found), mx.sym.Variable("numbers"), dim=1)
    for number, units in enumerate((32, 16), 1):
        x = mx.sym.FullyConnected(x, num_hidden=units, name=f"fc{number}")
        x = mx.sym.Activation(x, act_type="relu")
    deep = mx.sym.FullyConnected(x, num_hidden=2, name="deep")
    return mx.sym.SoftmaxOutput(wide + deep, mx.sym.Variable("softmax_label"), name="softmax")


def main(argv: list[str] | None = None) -> float:
    """Train, and return the accuracy on other samples."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--samples", type=int, default=40_000)
    parser.add_argument("--categories", type=int, default=50)
    args = parser.parse_args(argv)

    sample = Sample(args.samples, args.categories)
    begin = args.samples * 4 // 5
    train, validation = (sample.batches(part, 100)
                         for part in (slice(0, begin), slice(begin, args.samples)))

    mx.random.seed(0)
    module = mx.mod.Module(network(sample.crosses, args.categories),
                           data_names=["ids", "numbers", "wide"])

    def rows(batch):
        """The rows of both tables that a batch reads are pulled from the store before it."""
        ids, _, wide = batch.data       # in the order of their names
        return {"wide_weight": wide.indices, "embedding_weight": ids}

    module.fit(train, num_epoch=args.epochs, kvstore=mx.kv.create("local"), optimizer="adam",
               optimizer_params={"learning_rate": 0.01}, initializer=mx.init.Xavier(),
               sparse_row_id_fn=rows)
    return dict(module.score(validation, "acc", sparse_row_id_fn=rows))["accuracy"]


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    print(f"validation accuracy: {main():.3f}")
