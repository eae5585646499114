"""An LSTM language model with Gluon: predict the next word of a running text.

The text is Python's own help on topics (`help('FUNCTIONS')`), cut into one stream for each sample
of a batch.  A training step reads some words of every stream and goes on with the states of the
step before, detached from it; gradients are clipped by their norm.  Embedding and scores share one
matrix.  With --cells the layers are single cells, unrolled; the plan of the hybridized network has
the same layers.
"""

from __future__ import annotations

import argparse
import math
import pydoc_data.topics
import re
from collections import Counter
from typing import Any

import numpy as np

import nbmod as mx
from nbmod import autograd, gluon, nd
from nbmod.gluon import nn, rnn


def read_words(count: int, size: int) -> tuple[np.ndarray, list[str]]:
    """The first `count` words as indices of the `size` most frequent ones; 0 is for all others."""
    topics = pydoc_data.topics.topics
    words = re.findall(r"[a-z']+|[.]", " ".join(topics[name] for name in sorted(topics)).lower())
    words = words[:count]
    vocabulary = ["<unk>", *(word for word, _ in Counter(words).most_common(size - 1))]
    index = {word: number for number, word in enumerate(vocabulary)}
    return np.array([index.get(word, 0) for word in words], np.float32), vocabulary


def streams(words: np.ndarray, batch_size: int, length: int) -> list[tuple[Any, Any]]:
    """Pairs of inputs and labels (T, N); each continues the one before."""
    columns = words[:len(words) // batch_size * batch_size].reshape(batch_size, -1).T
    return [(nd.array(columns[t:t + length]), nd.array(columns[t + 1:t + length + 1]))
            for t in range(0, len(columns) - length, length)]


class LanguageModel(gluon.HybridBlock):
    """Words (T, N) and states to scores (T N, words) and the next states."""

    def __init__(self, words: int, args: argparse.Namespace):
        super().__init__(prefix="model_")
        self._length, self._size = args.length, args.hidden
        with self.name_scope():
            self.dropout = nn.Dropout(args.dropout)
            self.embedding = nn.Embedding(words, args.hidden)
            self.lstm = self._cells(args) if args.cells else rnn.LSTM(args.hidden, args.layers)
            self.scores = nn.Dense(words, in_units=args.hidden, params=self.embedding.params)

    def _cells(self, args: argparse.Namespace) -> rnn.HybridSequentialRNNCell:
        cells = rnn.HybridSequentialRNNCell()
        with cells.name_scope():
            for _ in range(args.layers):
                cells.add(rnn.LSTMCell(args.hidden))
        return cells

    def begin_state(self, batch_size: int) -> list[Any]:
        return self.lstm.begin_state(batch_size=batch_size)

    def hybrid_forward(self, F: Any, words: Any, states: list[Any]) -> tuple[Any, list[Any]]:
        x = self.dropout(self.embedding(words))
        if isinstance(self.lstm, rnn.LSTM):
            x, states = self.lstm(x, states)
        else:
            x, states = self.lstm.unroll(self._length, x, states, "TNC", merge_outputs=True)
        return self.scores(self.dropout(x).reshape((-1, self._size))), states


def perplexity(net: LanguageModel, batches: list[tuple[Any, Any]]) -> float:
    """e to the mean loss of a word."""
    loss_of, total = gluon.loss.SoftmaxCrossEntropyLoss(), 0.0
    states = net.begin_state(batches[0][0].shape[1])
    for data, label in batches:
        scores, states = net(data, states)
        total += float(loss_of(scores, label.reshape((-1,))).mean().asscalar())
    return math.exp(total / len(batches))


def perplexity_of_frequencies(words: np.ndarray, others: np.ndarray, size: int) -> float:
    """That of `others` by how often each word is among `words`, plus one."""
    counts = np.bincount(words.astype(int), minlength=size) + 1
    return math.exp(-np.log(counts / counts.sum())[others.astype(int)].mean())


def train(net: LanguageModel, batches: list[tuple[Any, Any]], trainer: gluon.Trainer,
          clip: float) -> None:
    """An epoch."""
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    gradients = [parameter.grad() for parameter in net.collect_params().values()]
    states = net.begin_state(batches[0][0].shape[1])
    for data, label in batches:
        states = [state.detach() for state in states]
        with autograd.record():
            scores, states = net(data, states)
            loss = loss_of(scores, label.reshape((-1,))).mean()
        loss.backward()
        gluon.utils.clip_global_norm(gradients, clip)
        trainer.step(1)


def main(argv: list[str] | None = None) -> float:
    """Train, and return the perplexity of the last tenth of the text, as a share of that which the
    frequencies of words alone reach."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--text", type=int, default=40000, help="how many words are read")
    parser.add_argument("--words", type=int, default=800, help="size of the vocabulary")
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--layers", type=int, default=1)
    parser.add_argument("--length", type=int, default=20, help="words of a training step")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--clip", type=float, default=1.0, help="largest norm of the gradients")
    parser.add_argument("--cells", action="store_true", help="unroll single cells")
    args = parser.parse_args(argv)

    mx.random.seed(0)
    words, vocabulary = read_words(args.text, args.words)
    border = len(words) * 9 // 10
    batches, validation = (streams(part, args.batch_size, args.length)
                           for part in (words[:border], words[border:]))
    net = LanguageModel(len(vocabulary), args)
    net.initialize(mx.init.Xavier())
    net.hybridize()
    net(batches[0][0], net.begin_state(args.batch_size))
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": args.lr})
    simple = perplexity_of_frequencies(words[:border], words[border:], len(vocabulary))
    print(f"validation perplexity by the frequencies of words: {simple:.1f}")
    for epoch in range(args.epochs):
        train(net, batches, trainer, args.clip)
        figure = perplexity(net, validation)
        print(f"epoch {epoch}: validation perplexity {figure:.1f}")
    return figure / simple


if __name__ == "__main__":
    print(f"{main():.1%} of the perplexity by the frequencies of words")
