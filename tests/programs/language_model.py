"""Training of recurrent networks by the same code in either package; imports neither of them.

`mx` is nbmod in the tests and MXNet in the oracle's worker.
"""

from __future__ import annotations

import logging
import warnings
from typing import Any

import numpy as np

from tests.programs.rnn_numbers import drawn
from tests.programs.rnn_programs import namespace

WORDS, SIZE, BATCH, PAD = 12, 6, 4, 0

CELLS = {
    "lstm": "stack(R.LSTMCell(6, 'a_'), R.DropoutCell(0), R.LSTMCell(6, 'b_'))",
    "gru": "R.ResidualCell(R.GRUCell(6))",
    "bidirectional": "R.BidirectionalCell(R.RNNCell(3, prefix='l_'), R.LSTMCell(3, 'r_'))",
    "fused lstm": "R.FusedRNNCell(6, 2)",
    "fused gru": "R.FusedRNNCell(3, 1, 'gru', bidirectional=True)",
}


def sym_gen(mx: Any, cell: str) -> Any:
    """The network of a language model for a length, words first by time."""
    made = eval(CELLS[cell], namespace(mx))

    def draw(length: int) -> Any:
        sym = mx.sym
        with mx.name.NameManager(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            x = sym.Embedding(sym.Variable("data"), input_dim=WORDS, output_dim=SIZE, name="embed")
            x, _ = made.unroll(length, x, merge_outputs=True)
            x = sym.FullyConnected(sym.Reshape(x, shape=(-1, SIZE)), num_hidden=WORDS, name="out")
            label = sym.Reshape(sym.Variable("softmax_label"), shape=(-1,))
            x = sym.SoftmaxOutput(x, label, use_ignore=True, ignore_label=PAD, name="softmax")
        return x, ("data",), ("softmax_label",)

    return draw


def batch(mx: Any, number: int, lengths: list[int]) -> Any:
    """Words that mostly determine the next one, in changing buckets."""
    length = lengths[number % len(lengths)]
    rng = np.random.default_rng(number)
    rows = np.zeros((BATCH, length + 1), np.int64)
    rows[:, 0] = rng.integers(1, WORDS, BATCH)
    for i in range(length):
        rows[:, i + 1] = 1 + (3 * rows[:, i] + rng.integers(0, 2, BATCH)) % (WORDS - 1)
    rows[0, length - 1:] = PAD
    data, label = (mx.nd.array(part) for part in (rows[:, :-1], rows[:, 1:]))
    return mx.io.DataBatch([data], [label], pad=0, bucket_key=length,
                           provide_data=[mx.io.DataDesc("data", data.shape, layout="NT")],
                           provide_label=[mx.io.DataDesc("softmax_label", label.shape,
                                                         layout="NT")])


def trained(mx: Any, cell: str, lengths: list[int], optimizer: str, options: dict[str, Any],
            steps: int, context: Any = None) -> dict[str, Any]:
    """Perplexity in every step, the parameters after the last one, and the smallest change of a
    parameter; on the CPU unless there is a context.

    With one length it is a Module, else a BucketingModule.
    """
    logging.disable(logging.WARNING)
    draw = sym_gen(mx, cell)
    largest, context = max(lengths), context or mx.cpu()
    if len(lengths) == 1:
        module = mx.mod.Module(draw(largest)[0], context=context)
    else:
        module = mx.mod.BucketingModule(draw, default_bucket_key=largest, context=context)
    module.bind([("data", (BATCH, largest))], [("softmax_label", (BATCH, largest))])
    shapes = {"data": (BATCH, largest), "softmax_label": (BATCH, largest)}
    start = {name: mx.nd.array(array) for name, array in drawn(draw(largest)[0], **shapes).items()
             if name not in shapes}
    module.init_params(arg_params=start, aux_params={})
    module.init_optimizer(optimizer=optimizer, optimizer_params=options)
    metric, seen = mx.metric.Perplexity(PAD), []
    for number in range(steps):
        given = batch(mx, number, lengths)
        module.forward_backward(given)
        module.update()
        metric.reset()
        module.update_metric(metric, given.label)
        seen.append(metric.get()[1])
    logging.disable(logging.NOTSET)
    params = {name: array.asnumpy() for name, array in module.get_params()[0].items()}
    moved = min(abs(params[name] - array.asnumpy()).max() for name, array in start.items())
    return {"perplexity": np.array(seen), "moved": np.array(moved), **params}
