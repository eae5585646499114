"""Linear classification of sparse data, which are read from a LibSVM file.

Samples have some 20 of 10,000 features.  A batch is a CSR matrix, the weight is row_sparse: of it,
forward reads, backward gives and the optimizer updates only the rows of features that occur in the
batch.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
from pathlib import Path

import numpy as np

import nbmod as mx


def write_samples(path: Path, count: int, features: int, seed: int) -> None:
    """Samples `class index:value ...`; the class is the sign of a hidden linear function."""
    hidden = np.random.RandomState(0).randn(features)
    rng = np.random.RandomState(seed)
    with open(path, "w") as file:
        for _ in range(count):
            # Low features are frequent, as words of a text are.
            columns = np.unique((features * rng.rand(20) ** 4).astype(int))
            values = rng.rand(len(columns))
            label = int(hidden[columns] @ values > 0)
            entries = " ".join(f"{c}:{v:.4f}" for c, v in zip(columns, values, strict=True))
            file.write(f"{label} {entries}\n")


def network(features: int) -> mx.sym.Symbol:
    x = mx.sym.Variable("data", stype="csr")
    weight = mx.sym.Variable("weight", shape=(features, 2), stype="row_sparse",
                             init=mx.init.Normal(0.01))
    bias = mx.sym.Variable("bias", shape=(2,), init=mx.init.Zero())
    scores = mx.sym.broadcast_add(mx.sym.sparse.dot(x, weight), bias)
    return mx.sym.SoftmaxOutput(scores, mx.sym.Variable("softmax_label"), name="softmax")


def main(argv: list[str] | None = None) -> float:
    """Train, and return the accuracy on other samples."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--samples", type=int, default=20_000)
    parser.add_argument("--features", type=int, default=10_000)
    args = parser.parse_args(argv)

    with tempfile.TemporaryDirectory() as folder:
        iterators = []
        for seed, count in enumerate((args.samples, args.samples // 5), 1):
            path = Path(folder, f"{seed}.libsvm")
            write_samples(path, count, args.features, seed)
            iterators.append(mx.io.LibSVMIter(data_libsvm=str(path), batch_size=100,
                                              data_shape=(args.features,)))
        train, validation = iterators

        mx.random.seed(0)
        module = mx.mod.Module(network(args.features), context=mx.cpu())

        def rows(batch):
            """The rows of the weight that a batch reads are pulled from the store before it."""
            return {"weight": batch.data[0].indices}

        module.fit(train, num_epoch=args.epochs, kvstore=mx.kv.create("local"), optimizer="adam",
                   optimizer_params={"learning_rate": 0.02}, sparse_row_id_fn=rows)
        return dict(module.score(validation, "acc", sparse_row_id_fn=rows))["accuracy"]


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    print(f"validation accuracy: {main():.3f}")
