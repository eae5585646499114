"""Counting the tokens of a text."""

from __future__ import annotations

import re
from collections import Counter

from ...base import ArgumentError

__all__ = ["count_tokens_from_str"]


def count_tokens_from_str(source_str: str, token_delim: str = " ", seq_delim: str = "\n",
                          to_lower: bool = False, counter_to_update: Counter | None = None
                          ) -> Counter:
    """How often each token occurs in `source_str`, added to `counter_to_update` if given.

    Tokens stand between matches of the regular expressions `token_delim` and `seq_delim`.
    """
    try:
        tokens = re.split(f"{token_delim}|{seq_delim}", source_str)
    except re.error as error:
        raise ArgumentError(f"count_tokens_from_str: {token_delim!r} or {seq_delim!r} is no "
                            f"regular expression ({error}); see re.escape") from error
    counter = Counter() if counter_to_update is None else counter_to_update
    counter.update(token.lower() if to_lower else token for token in tokens if token)
    return counter
