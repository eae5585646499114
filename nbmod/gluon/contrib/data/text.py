"""Texts as sequences of tokens: WikiText."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ....base import ArgumentError, NoSuchKey
from ....contrib.text.utils import count_tokens_from_str
from ....contrib.text.vocab import Vocabulary
from ....ndarray import array
from ...data.published_files import File, PublishedDataset, default_root

if TYPE_CHECKING:
    from collections import Counter

__all__ = ["WikiText103", "WikiText2"]
__dir__ = __all__.copy

EOS_TOKEN = "<eos>"
"""Ends each line."""


class _WikiText(PublishedDataset):
    """The tokens of a file, line after line, cut into sequences of one length."""

    _archive_file: ClassVar[File]
    _data_file: ClassVar[dict[str, File]]

    def __init__(self, root: str, segment: str, vocab: Vocabulary | None, seq_len: int):
        if segment not in self._data_file:
            raise NoSuchKey(f"{type(self).__name__}: segment is {segment!r}, expected one of "
                            f"{', '.join(map(repr, self._data_file))}")
        if seq_len < 1:
            raise ArgumentError(f"{type(self).__name__}: seq_len is {seq_len}, expected at least 1")
        self._segment, self._seq_len, self._own_vocab = segment, seq_len, vocab
        super().__init__(root, None)

    def _get_data(self) -> None:
        path, = self._unpacked([self._data_file[self._segment]], self._archive_file)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        self._counter = count_tokens_from_str(text)
        self._vocab = self._own_vocab if self._own_vocab is not None else Vocabulary(
            self._counter, reserved_tokens=[EOS_TOKEN])
        indices, length = self._indices(text), self._seq_len
        count = max(len(indices) - 1, 0) // length * length
        self._data, self._label = (
            array(indices[start:start + count].reshape(-1, length), dtype=np.int32)
            for start in (0, 1))

    def _indices(self, text: str) -> np.ndarray:
        """The indices of all tokens, with one after each line that has any."""
        lines = (words for line in text.splitlines() if (words := line.split()))
        return np.fromiter((index for words in lines
                            for index in self._vocab.to_indices([*words, EOS_TOKEN])), np.int32)

    @property
    def vocabulary(self) -> Vocabulary:
        """Tokens and their indices."""
        return self._vocab

    @property
    def frequencies(self) -> Counter[str]:
        """How often each token occurs in the text."""
        return self._counter


class WikiText2(_WikiText):
    """Articles of Wikipedia: int32 vectors of `seq_len` tokens, and the tokens after each of them.

    Sequences follow each other and do not overlap; each line ends with the token `<eos>`.  The text
    is under the Creative Commons Attribution-ShareAlike license.

    Parameters
    ----------
    root : str, default '~/.mxnet/datasets/wikitext-2'
        Folder of the files of tokens, or of their archive, which is downloaded if neither is there;
        `MXNET_HOME` replaces `~/.mxnet`.
    segment : {'train', 'validation', 'test'}
        Part of the text.
    vocab : mx.contrib.text.vocab.Vocabulary, optional
        Indices of the tokens, such as those of the training part; by default the tokens of this
        part, the most frequent ones first.
    seq_len : int, default 35
        Number of tokens of a sample.

    Raises
    ------
    KeyError
        If there is no such part.
    MXNetError
        If the files are neither there nor can be downloaded, or are damaged.
    """

    _namespace = "wikitext-2"
    _archive_file = ("wikitext-2-v1.zip", "3c914d17d80b1459be871a5039ac23e752a53cbe")
    _data_file: ClassVar[dict[str, File]] = {
        "train": ("wiki.train.tokens", "863f29c46ef9d167fff4940ec821195882fe29d1"),
        "validation": ("wiki.valid.tokens", "0418625c8b4da6e4b5c7a0b9e78d4ae8f7ee5422"),
        "test": ("wiki.test.tokens", "c7b8ce0aa086fb34dab808c5c49224211eb2b172")}

    def __init__(self, root: str = default_root("wikitext-2"), segment: str = "train",
                 vocab: Vocabulary | None = None, seq_len: int = 35):
        super().__init__(root, segment, vocab, seq_len)


class WikiText103(_WikiText):
    """Fifty times as many articles of Wikipedia; otherwise as `WikiText2`.

    Parameters
    ----------
    root : str, default '~/.mxnet/datasets/wikitext-103'
        Folder of the files, as for `WikiText2`.
    segment, vocab, seq_len
        As for `WikiText2`.
    """

    _namespace = "wikitext-103"
    _archive_file = ("wikitext-103-v1.zip", "0aec09a7537b58d4bb65362fee27650eeaba625a")
    _data_file: ClassVar[dict[str, File]] = {
        "train": ("wiki.train.tokens", "b7497e2dfe77e72cfef5e3dbc61b7b53712ac211"),
        "validation": ("wiki.valid.tokens", "c326ac59dc587676d58c422eb8a03e119582f92b"),
        "test": ("wiki.test.tokens", "8a5befc548865cec54ed4273cf87dbbad60d1e47")}

    def __init__(self, root: str = default_root("wikitext-103"), segment: str = "train",
                 vocab: Vocabulary | None = None, seq_len: int = 35):
        super().__init__(root, segment, vocab, seq_len)
