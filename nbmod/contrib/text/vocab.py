"""Vocabularies: tokens and their indices.

Index 0 is the unknown token, followed by the reserved ones and by the counted ones in order of
frequency; ties are in alphabetical order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

from ...base import ArgumentError, CheckError, MXNetError

__all__ = ["Vocabulary"]
__dir__ = __all__.copy

UNKNOWN = 0
"""The index of the unknown token."""


class Vocabulary:
    """Indices of the tokens that occur in a text.

    Parameters
    ----------
    counter : collections.Counter, optional
        Number of occurrences of each token; None: only unknown and reserved tokens.
    most_freq_count : int, optional
        Largest number of counted tokens; unknown and reserved ones are not included.
    min_freq : int, default 1
        Smallest number of occurrences of a counted token.
    unknown_token : hashable, default '<unk>'
        Token that all tokens outside of the vocabulary are mapped to; its index is 0.
    reserved_tokens : list of hashable, optional
        Tokens that follow it.

    Raises
    ------
    MXNetError
        If `counter` is not a Counter, `min_freq` is less than 1, or tokens are repeated.

    Examples
    --------
    >>> import collections
    >>> words = collections.Counter(["to", "be", "or", "not", "to", "be"])
    >>> vocabulary = mx.contrib.text.vocab.Vocabulary(words, min_freq=2)
    >>> vocabulary.idx_to_token, vocabulary.to_indices(["to", "see"])
    (['<unk>', 'be', 'to'], [2, 0])
    """

    def __init__(self, counter: Counter | None = None, most_freq_count: int | None = None,
                 min_freq: int = 1, unknown_token: Hashable = "<unk>",
                 reserved_tokens: Sequence[Hashable] | None = None):
        if counter is not None and not isinstance(counter, Counter):
            raise MXNetError(f"Vocabulary: counter is a {type(counter).__name__}, expected a "
                             "collections.Counter")
        if min_freq < 1:
            raise CheckError(f"Vocabulary: min_freq is {min_freq}, expected at least 1")
        self._unknown_token = unknown_token
        self._reserved_tokens = None if reserved_tokens is None else list(reserved_tokens)
        self._idx_to_token = [unknown_token, *(reserved_tokens or ())]
        self._token_to_idx = {token: i for i, token in enumerate(self._idx_to_token)}
        if len(self._token_to_idx) < len(self._idx_to_token):
            raise CheckError(f"Vocabulary: reserved_tokens are {self._reserved_tokens}, expected "
                             f"different tokens, {unknown_token!r} not among them")
        ranked = sorted((counter or {}).items())
        ranked.sort(key=lambda pair: pair[1], reverse=True)
        new = [token for token, count in ranked
               if count >= min_freq and token not in self._token_to_idx]
        limited = most_freq_count is not None and most_freq_count >= 0
        for token in new[:most_freq_count] if limited else new:
            self._append(token)

    def _append(self, token: Any) -> None:
        self._token_to_idx[token] = len(self._idx_to_token)
        self._idx_to_token.append(token)

    def __len__(self) -> int:
        return len(self._idx_to_token)

    @property
    def token_to_idx(self) -> dict[Any, int]:
        """Token -> index."""
        return self._token_to_idx

    @property
    def idx_to_token(self) -> list[Any]:
        """Tokens in order of their indices."""
        return self._idx_to_token

    @property
    def unknown_token(self) -> Any:
        """The token at index 0, which represents all tokens outside of the vocabulary."""
        return self._unknown_token

    @property
    def reserved_tokens(self) -> list[Any] | None:
        """The reserved tokens, None if none were given."""
        return self._reserved_tokens

    def to_indices(self, tokens: Any) -> Any:
        """Return the index of a token, or those of a list; 0 for unknown tokens.

        Parameters
        ----------
        tokens : hashable or list of hashable
            A token, or several.
        """
        if isinstance(tokens, list):
            return [self._token_to_idx.get(token, UNKNOWN) for token in tokens]
        return self._token_to_idx.get(tokens, UNKNOWN)

    def to_tokens(self, indices: Any) -> Any:
        """Return the token at an index, or those of a list.

        Parameters
        ----------
        indices : int or list of int
            An index, or several.

        Raises
        ------
        ArgumentError
            If an index is out of range; it is a ValueError, too.
        """
        if isinstance(indices, list):
            return [self._token(index) for index in indices]
        return self._token(indices)

    def _token(self, index: Any) -> Any:
        try:
            if 0 <= index < len(self):
                return self._idx_to_token[index]
        except TypeError:
            pass
        raise ArgumentError(f"to_tokens: index is {index!r}, expected an integer from 0 to "
                            f"{len(self) - 1}")
