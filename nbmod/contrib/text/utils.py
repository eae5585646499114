"""Counting the tokens of a text."""

from __future__ import annotations

import re
from collections import Counter

from ...base import ArgumentError

__all__ = ["count_tokens_from_str"]
__dir__ = __all__.copy


def count_tokens_from_str(source_str: str, token_delim: str = " ", seq_delim: str = "\n",
                          to_lower: bool = False, counter_to_update: Counter | None = None
                          ) -> Counter:
    r"""Count the tokens of a text, in `counter_to_update` if it is given.

    Parameters
    ----------
    source_str : str
        The text.
    token_delim : str, default ' '
        Regular expression of what separates tokens.
    seq_delim : str, default '\n'
        Regular expression of what separates sequences.
    to_lower : bool, default False
        Whether to convert tokens to lower case.
    counter_to_update : collections.Counter, optional
        Counter that the counts are added to.

    Raises
    ------
    ArgumentError
        If a delimiter is not a regular expression; it is a ValueError, too.

    Examples
    --------
    >>> mx.contrib.text.utils.count_tokens_from_str("to be or not to be")["to"]
    2
    """
    try:
        tokens = re.split(f"{token_delim}|{seq_delim}", source_str)
    except re.error as error:
        raise ArgumentError(f"count_tokens_from_str: {token_delim!r} or {seq_delim!r} is no "
                            f"regular expression ({error}); see re.escape") from error
    counter = Counter() if counter_to_update is None else counter_to_update
    counter.update(token.lower() if to_lower else token for token in tokens if token)
    return counter
