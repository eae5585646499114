"""Sentences, buckets and recurrent checkpoints against MXNet."""

from __future__ import annotations

import json

import numpy as np
import pytest

import nbmod as mx
from nbmod.base import MXNetError
from tests.programs import sentences
from tests.programs.rnn_numbers import drawn

VOCABULARIES = [
    {}, {"start_label": 1, "invalid_label": 0}, {"start_label": 0, "invalid_label": 0},
    {"start_label": 0, "invalid_label": 1}, {"invalid_key": "a", "invalid_label": 7},
    {"vocab": {"a": 5, "b": 6, "c": 7, "d": 8}}, {"vocab": {"a": 5}}]


@pytest.mark.parametrize("options", VOCABULARIES, ids=str)
def test_words_have_mxnets_codes(oracle, options):
    theirs = oracle.call("mx_scripts.run", "sentences", "encoded", options)
    np.testing.assert_equal(sentences.encoded(mx, options), theirs)


def test_unknown_words_have_the_code_of_the_unknown_token():
    """In MXNet each of them has a code of its own, and some the code of another word."""
    vocab = {"a": 0, "?": 4}
    coded, same = mx.rnn.encode_sentences(sentences.WORDS, vocab=vocab, unknown_token="?")
    assert coded == [[0, 4, 4], [4, 4], [0], [], [4, 4, 0]] and same is vocab
    vocab = {"a": 0}
    coded, _ = mx.rnn.encode_sentences(sentences.WORDS, vocab=vocab, unknown_token="?")
    assert coded[0] == [0, 1, 1] and vocab == {"a": 0, "?": 1}
    with pytest.raises(MXNetError, match="no word 'b'.*unknown_token"):
        mx.rnn.encode_sentences(sentences.WORDS, vocab={"a": 0})


COUNTS = [(2, 8), (3, 4), (5, 2), (9, 1)]
ITERATORS = {
    "automatic": {"batch_size": 2},
    "buckets": {"batch_size": 2, "buckets": [9, 3]},
    "some are too long": {"batch_size": 2, "buckets": [2, 3]},
    "empty bucket": {"batch_size": 4, "buckets": [3, 4, 20]},
    "time major": {"batch_size": 2, "buckets": [3, 9], "layout": "TN", "invalid_label": 0},
    "integers": {"batch_size": 2, "dtype": "int32", "data_name": "x", "label_name": "y"},
    "one bucket": {"batch_size": 5, "buckets": [10]},
}


@pytest.mark.parametrize("case", ITERATORS)
def test_batches_are_mxnets_in_another_order(oracle, case):
    options = ITERATORS[case]
    layout = options.get("layout", "NT")
    mx.random.seed(1)
    ours = sentences.batches(mx, COUNTS, options)
    theirs = oracle.call("mx_scripts.run", "sentences", "batches", COUNTS, options)
    told, kinds, rows = sentences.order_free(ours, layout)
    assert (told, kinds) == sentences.order_free(theirs, layout)[:2]
    whole = all(count % options["batch_size"] == 0 for count in bucket_counts(told["buckets"]))
    if whole:
        assert rows == sentences.order_free(theirs, layout)[2]
    assert len(ours["epochs"]) == 2 and rows[0]
    for epoch in rows:
        assert len({tuple(row) for row in epoch}) == len(epoch)


def bucket_counts(buckets):
    """The number of sentences of the corpus in each bucket."""
    counts = [0] * len(buckets)
    for length, count in COUNTS:
        place = np.searchsorted(buckets, length)
        if place < len(buckets):
            counts[place] += count
    return counts


def test_epochs_are_shuffled_and_follow_the_seed():
    """40 batches of 2: every row occurs once an epoch, orders and pairs differ."""
    def epochs():
        mx.random.seed(7)
        found = sentences.batches(mx, [(4, 60), (6, 20)], {"batch_size": 2}, epochs=3)["epochs"]
        return [[(key, data.tolist()) for key, _, data, _, _ in epoch] for epoch in found]

    first, again = epochs(), epochs()
    assert first == again
    assert first[0] != first[1] != first[2]
    rows = [sorted(row for _, batch in epoch for row in batch) for epoch in first]
    assert rows[0] == rows[1] == rows[2] and len(rows[0]) == 80
    partners = [{frozenset(map(tuple, batch)) for _, batch in epoch} for epoch in first]
    assert len(partners[0] & partners[1]) < 8
    # Of 30 batches of one bucket and 10 of the other, 15 have a neighbor of another bucket.
    changes = [sum(a[0] != b[0] for a, b in zip(epoch, epoch[1:], strict=False))
               for epoch in first]
    assert all(5 < count < 25 for count in changes)


@pytest.mark.parametrize("epochs, count", [(0, 0), (0, 3), (1, 0), (2, 5), (1, 8)])
def test_an_iterator_goes_on_from_any_place(epochs, count):
    """Eight batches an epoch; the state may be stored as JSON."""
    def made():
        return mx.rnn.BucketSentenceIter(sentences.corpus([(4, 12), (6, 5)]), 2, layout="TN")

    def told(batches):
        return [(b.bucket_key, b.data[0].asnumpy().tolist()) for b in batches]

    first, second = made(), made()
    for _ in range(epochs):
        list(first)
        first.reset()
    for _ in range(count):
        next(first)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    for left in (8 - count, 8):
        rest = told(first)
        assert told(second) == rest and len(rest) == left
        first.reset()
        second.reset()


def test_a_state_of_other_sentences_is_refused():
    first, second = (mx.rnn.BucketSentenceIter(sentences.corpus([(4, count)]), 2)
                     for count in (12, 14))
    with pytest.raises(MXNetError, match=r"sentences=\[12\], this one has \[14\]"):
        second.load_state_dict(first.state_dict())


WRONG = [
    ({"batch_size": 0}, "batch_size is 0"),
    ({"batch_size": 2, "layout": "TC"}, "layout is 'TC'.*'NT'"),
    ({"batch_size": 99}, "no sentence fits"),
    ({"batch_size": 2, "buckets": [1]}, "no sentence fits"),
]


@pytest.mark.parametrize("options, text", WRONG)
def test_wrong_use_is_explained(options, text):
    with pytest.raises(MXNetError, match=text):
        mx.rnn.BucketSentenceIter(sentences.corpus(COUNTS), **options)


CELLS = ["R.LSTMCell(8)", "R.GRUCell(8, 'g_')",
         "R.BidirectionalCell(R.RNNCell(4, prefix='l_'), R.LSTMCell(4, 'r_'))",
         "R.FusedRNNCell(4, 2, bidirectional=True)"]


@pytest.mark.parametrize("cell", CELLS)
def test_checkpoints_are_exchanged(oracle, cell):
    """The same bytes, and each reads the other's back to what was saved."""
    net = sentences.network(mx, eval(cell, {"R": mx.rnn}))
    arrays = drawn(net, data=(3, 2, 4))
    ours = sentences.checkpoint_file(mx, cell, arrays)
    theirs = oracle.call("mx_scripts.run", "sentences", "checkpoint_file", cell, arrays)
    assert ours[1] == theirs[1]
    for params in (ours[0], theirs[0]):
        back = [sentences.read_checkpoint(mx, cell, params, ours[1]), oracle.call(
            "mx_scripts.run", "sentences", "read_checkpoint", cell, params, ours[1])]
        for read, text in back:
            assert text == ours[1] and read.keys() == arrays.keys()
            for name, array in arrays.items():
                np.testing.assert_array_equal(read[name], array)


def test_rnn_unroll_still_makes_its_own_inputs():
    """MXNet 1.9.1 accepts it and passes on an argument that unroll does not have."""
    with pytest.warns(UserWarning, match="deprecated"):
        outputs, _ = mx.rnn.rnn_unroll(mx.rnn.RNNCell(3), 2, input_prefix="in_")
    assert [name for name in outputs[1].list_arguments() if "data" in name] == [
        "in_t1_data", "in_t0_data"]
