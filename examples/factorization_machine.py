"""A factorization machine on sparse data: csr batches and row_sparse weights.

Samples have a few of many features.  The weights of a factorization machine (Rendle, 2010) have a
row for each feature; a batch reads the rows of its features, gradients have these rows alone, and
the optimizer updates them alone.  The weights are in a key-value store, from which `prepare` pulls
what a batch needs.
"""

from __future__ import annotations

import argparse
import logging

import numpy as np

import nbmod as mx


def network(features: int, factors: int) -> mx.sym.Symbol:
    """y = b + x w + half of the sum over factors of (x v)^2 - x^2 v^2, and a logistic loss."""
    x = mx.sym.Variable("data", stype="csr")
    w = mx.sym.Variable("linear_weight", shape=(features, 1), stype="row_sparse")
    v = mx.sym.Variable("factors_weight", shape=(features, factors), stype="row_sparse")
    bias = mx.sym.Variable("bias", shape=(1,))
    of_sums = mx.sym.sum(mx.sym.square(mx.sym.dot(x, v)), axis=1, keepdims=True)
    squares = mx.sym._internal._square_sum(v, axis=1, keepdims=True)
    pairs = 0.5 * (of_sums - mx.sym.dot(mx.sym.square(x), squares))
    y = mx.sym.broadcast_add(mx.sym.dot(x, w) + pairs, bias)
    return mx.sym.LogisticRegressionOutput(y, mx.sym.Variable("label"))


def samples(count: int, features: int, random: np.random.RandomState
            ) -> tuple[mx.nd.sparse.CSRNDArray, np.ndarray]:
    """Samples of 8 features each; the class says whether pairs of even and of odd ones prevail."""
    columns = np.sort(np.stack([random.choice(features, 8, replace=False)
                                for _ in range(count)]), axis=1)
    odd = (columns % 2).sum(axis=1)
    x = mx.nd.sparse.csr_matrix((np.ones(columns.size, np.float32), columns.ravel(),
                                 np.arange(count + 1) * 8), shape=(count, features))
    return x, (np.abs(odd - 4) >= 2).astype(np.float32)[:, None]


def main(argv: list[str] | None = None) -> float:
    """Train, and return the accuracy on samples that training leaves out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--features", type=int, default=200)
    parser.add_argument("--factors", type=int, default=4)
    parser.add_argument("--count", type=int, default=4000)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=100)
    args = parser.parse_args(argv)

    random = np.random.RandomState(0)
    train, validation = (mx.io.NDArrayIter(*samples(count, args.features, random), args.batch_size,
                                           last_batch_handle="discard", label_name="label")
                         for count in (args.count, args.count // 4))

    def row_ids(batch: mx.io.DataBatch) -> dict[str, mx.nd.NDArray]:
        return dict.fromkeys(("linear_weight", "factors_weight"), batch.data[0].indices)

    mx.random.seed(0)
    module = mx.mod.Module(network(args.features, args.factors), label_names=["label"])
    accuracy = mx.metric.CustomMetric(lambda label, y: float(((y > 0.5) == label).mean()),
                                      "accuracy")
    module.fit(train, eval_data=validation, eval_metric=accuracy, num_epoch=args.epochs,
               kvstore=mx.kv.create("local"), optimizer="adam",
               optimizer_params={"learning_rate": 0.02}, initializer=mx.init.Normal(0.1),
               sparse_row_id_fn=row_ids)
    return dict(module.score(validation, accuracy, sparse_row_id_fn=row_ids))["accuracy"]


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    print(f"validation accuracy: {main():.3f}")
