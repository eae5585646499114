"""An LSTM language model: predict the next word of an English sentence.

Sentences of different lengths are trained in buckets: a BucketingModule builds one network per
length, and all of them share their parameters and their memory.  The text is Python's own help on
topics (`help('FUNCTIONS')`). With --fused the layers are one operator instead of single cells; the
weights of either can be given to the other.
"""

from __future__ import annotations

import argparse
import logging
import pydoc_data.topics
import re

import nbmod as mx
from nbmod.contrib.text import utils, vocab

BUCKETS = [8, 16, 24]
PAD, UNKNOWN = 0, "<unk>"


def read_sentences(count: int) -> list[list[str]]:
    """The first `count` sentences of the topics, as words in lower case."""
    text = " ".join(pydoc_data.topics.topics[name] for name in sorted(pydoc_data.topics.topics))
    prose = re.sub(r"[^a-z.!?' ]+", " ", text.lower())
    sentences = [re.findall(r"[a-z']+", part) for part in re.split(r"[.!?]\s", prose)]
    return [words for words in sentences if 4 <= len(words) <= BUCKETS[-1]][:count]


def encode(sentences: list[list[str]], size: int) -> tuple[list[list[int]], int]:
    """(sentences as indices, the size of the vocabulary): the `size` most frequent words."""
    counter = utils.count_tokens_from_str(" ".join(" ".join(words) for words in sentences))
    words = vocab.Vocabulary(counter, most_freq_count=size, unknown_token="<pad>",
                             reserved_tokens=[UNKNOWN])
    coded, _ = mx.rnn.encode_sentences(sentences, vocab=words.token_to_idx, unknown_token=UNKNOWN)
    return coded, len(words)


def network(cell: mx.rnn.BaseRNNCell, words: int, size: int):
    """`sym_gen` of a BucketingModule: the network for sentences of a length."""

    def sym_gen(length: int):
        data, label = mx.sym.Variable("data"), mx.sym.Variable("softmax_label")
        x = mx.sym.Embedding(data, input_dim=words, output_dim=size, name="embed")
        x, _ = cell.unroll(length, x, layout="TNC", merge_outputs=True)
        x = mx.sym.FullyConnected(mx.sym.Reshape(x, shape=(-1, size)), num_hidden=words,
                                  name="scores")
        label = mx.sym.Reshape(label, shape=(-1,))
        x = mx.sym.SoftmaxOutput(x, label, use_ignore=True, ignore_label=PAD,
                                 normalization="valid", name="softmax")
        return x, ("data",), ("softmax_label",)

    return sym_gen


def main(argv: list[str] | None = None) -> float:
    """Train, and return the perplexity on every tenth sentence, which training leaves out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--sentences", type=int, default=3000)
    parser.add_argument("--words", type=int, default=800, help="size of the vocabulary")
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--layers", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--fused", action="store_true")
    args = parser.parse_args(argv)

    mx.random.seed(0)
    sentences, words = encode(read_sentences(args.sentences), args.words)
    train, validation = (
        mx.rnn.BucketSentenceIter(part, args.batch_size, BUCKETS, invalid_label=PAD, layout="TN")
        for part in ([s for i, s in enumerate(sentences) if i % 10], sentences[::10]))
    cell = mx.rnn.FusedRNNCell(args.hidden, args.layers, mode="lstm", prefix="lstm_")
    module = mx.mod.BucketingModule(network(cell if args.fused else cell.unfuse(), words,
                                            args.hidden), train.default_bucket_key)
    module.fit(train, eval_data=validation, eval_metric=mx.metric.Perplexity(PAD),
               optimizer="adam", optimizer_params={"learning_rate": args.lr, "rescale_grad": 1.0},
               initializer=mx.init.Xavier(), num_epoch=args.epochs)
    return dict(module.score(validation, mx.metric.Perplexity(PAD)))["perplexity"]


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    print(f"validation perplexity: {main():.1f}")
