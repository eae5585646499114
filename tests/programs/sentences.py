"""Programs over sentences and recurrent checkpoints of either package; imports neither.

`mx` is nbmod in the tests and MXNet in the oracle's worker.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

WORDS = [["a", "b", "c"], ["b", "d"], ["a"], [], ["d", "d", "a"]]


Counts = list[tuple[int, int]]


def corpus(counts: Counts) -> list[list[int]]:
    """Sentences for pairs (length, count), all different, lengths mixed."""
    made = [[1 + (7 * i + 3 * j) % 97 for j in range(length)]
            for length, count in counts for i in range(count)]
    return [made[i] for i in np.random.default_rng(0).permutation(len(made))]


def encoded(mx: Any, options: dict[str, Any]) -> Any:
    """Codes and vocabulary, or "error"."""
    try:
        codes, vocab = mx.rnn.encode_sentences(WORDS, **options)
        return codes, sorted(vocab.items())
    except Exception:
        return "error"


def batches(mx: Any, counts: Counts, options: dict[str, Any], epochs: int = 2
            ) -> dict[str, Any]:
    """Attributes, output and batches of a BucketSentenceIter."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        iterator = mx.rnn.BucketSentenceIter(corpus(counts), **options)
    told = {name: getattr(iterator, name) for name in (
        "buckets", "default_bucket_key", "batch_size", "invalid_label", "data_name", "label_name",
        "layout", "major_axis", "curr_idx")}
    told["descriptions"] = descriptions(iterator)
    told["printed"] = printed.getvalue()
    seen = []
    for _ in range(epochs):
        seen.append([(batch.bucket_key, batch.pad, batch.data[0].asnumpy(),
                      batch.label[0].asnumpy(), descriptions(batch)) for batch in iterator])
        iterator.reset()
    return {"told": told, "epochs": seen}


def descriptions(described: Any) -> list[Any]:
    return [[d.name, list(d.shape), np.dtype(d.dtype).name, d.layout]
            for d in (*described.provide_data, *described.provide_label)]


def order_free(answer: dict[str, Any], layout: str) -> Any:
    """The part of `batches` that does not depend on how they are shuffled.

    For each epoch: kinds of batches and their numbers; pairs of data and label rows, sorted, where
    all sentences of a bucket are seen.
    """
    kinds, rows = [], []
    for epoch in answer["epochs"]:
        kinds.append(sorted(Counter((key, pad, d.dtype.name, str(told))
                                    for key, pad, d, _, told in epoch).items()))
        pairs = [(np.hstack([d, x]) if layout[0] == "N" else np.vstack([d, x]).T).tolist()
                 for _, _, d, x, _ in epoch]
        rows.append(sorted(row for batch in pairs for row in batch))
    return answer["told"], kinds, rows


def checkpoint_file(mx: Any, cell: str, arrays: dict[str, np.ndarray]) -> tuple[bytes, str]:
    """(.params, symbol JSON) that `do_rnn_checkpoint` writes for a cell, after epoch 3 of 2."""
    made = eval(cell, {"R": mx.rnn})
    net = network(mx, made)
    with tempfile.TemporaryDirectory() as folder:
        callback = mx.rnn.do_rnn_checkpoint(made, f"{folder}/net", period=2)
        for epoch in (2, 3):
            callback(epoch, net, {k: mx.nd.array(v) for k, v in arrays.items()}, {})
        written = sorted(path.name for path in Path(folder).iterdir())
        if written != ["net-0004.params", "net-symbol.json"]:
            raise AssertionError(f"files: {written}")
        return (Path(folder, "net-0004.params").read_bytes(),
                Path(folder, "net-symbol.json").read_text())


def read_checkpoint(mx: Any, cell: str, params: bytes, symbol: str) -> tuple[dict, str]:
    """The results of `load_rnn_checkpoint` for such files: arrays by name, and the symbol."""
    made = eval(cell, {"R": mx.rnn})
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "net-0004.params").write_bytes(params)
        Path(folder, "net-symbol.json").write_text(symbol)
        net, args, _ = mx.rnn.load_rnn_checkpoint([made], f"{folder}/net", 4)
        return {name: array.asnumpy() for name, array in args.items()}, net.tojson()


def network(mx: Any, cell: Any) -> Any:
    """An unrolled cell and a classifier of every step's output."""
    with mx.name.NameManager(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outputs, _ = cell.unroll(3, mx.sym.Variable("data"), layout="TNC", merge_outputs=True)
        x = mx.sym.FullyConnected(mx.sym.Reshape(outputs, shape=(-1, 8)), num_hidden=5, name="out")
        return mx.sym.SoftmaxOutput(x, name="softmax")
