"""The random number generator: a key, and a counter of draws.

Every op that samples takes the next *stream*, which is the pair (key, index of this draw).  Philox
is a counter-based generator: element i of a stream is a function of (key, draw, i) only.  So
streams do not depend on the number of threads, and the whole state of the generator is two
integers (`get_state`, `set_state`), from which training resumes exactly.

Most ops draw through NumPy's generator over Philox (`generator`).  Kernels that sample inline
(Dropout) compute Philox4x32 themselves (`philox_round`), of which `words` is the NumPy reference:
Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from ...core.fork import fresh
from ..jit import inlined

__all__ = ["Stream", "Sequence", "seed", "next_stream", "generator", "get_state", "set_state",
           "aside", "words", "philox_round"]

_MASK = 2 ** 64 - 1
_lock = fresh(threading.Lock())
_key = 0
_draws = 0


class Stream(NamedTuple):
    """The random numbers of one draw; both are unsigned 64-bit."""

    key: int
    draw: int


def seed(key: int) -> None:
    """Start over with the streams of `key` (any integer, taken modulo 2^64)."""
    set_state((int(key), 0))


def get_state() -> tuple[int, int]:
    """(key, number of draws so far): the complete state, for an exact resume."""
    with _lock:
        return _key, _draws


def set_state(state: tuple[int, int]) -> None:
    """Continue from where `get_state` was called."""
    global _key, _draws
    with _lock:
        _key, _draws = (int(part) & _MASK for part in state)


def next_stream() -> Stream:
    """A stream that has not been used before."""
    global _draws
    with _lock:
        stream = Stream(_key, _draws)
        _draws = (_draws + 1) & _MASK
    return stream


def generator(stream: Stream | None = None) -> np.random.Generator:
    """NumPy's generator over the given stream, or the next one."""
    key, draw = stream or next_stream()
    # The lower two words count blocks within the stream, so streams never overlap.
    return np.random.Generator(np.random.Philox(key=key, counter=[0, 0, draw, 0]))


@contextmanager
def aside() -> Iterator[None]:
    """A context that draws from another sequence; after it, the first one continues unchanged."""
    state = get_state()
    set_state((_key_from(Stream(*state)), 0))
    try:
        yield
    finally:
        set_state(state)


def _key_from(stream: Stream) -> int:
    return int(generator(stream).integers(2 ** 64, dtype=np.uint64))


class Sequence:
    """A private sequence of streams, independent of all others.

    Its key is drawn once from the common sequence, so `seed` determines it.  `state` (key, number
    of draws so far) is its complete state and may be set.
    """

    def __init__(self) -> None:
        self.state = (_key_from(next_stream()), 0)

    def next(self) -> np.random.Generator:
        """The generator of the next draw."""
        key, draws = self.state
        self.state = (key, draws + 1)
        return generator(Stream(key, draws))

    def last(self) -> np.random.Generator:
        """The generator of the last draw again."""
        key, draws = self.state
        return generator(Stream(key, draws - 1))


_M0, _M1 = 0xD2511F53, 0xCD9E8D57
_W0, _W1 = 0x9E3779B9, 0xBB67AE85
_LOW = 0xFFFFFFFF
ROUNDS = 10


def words(stream: Stream, blocks: int) -> np.ndarray:
    """uint32 of shape (4, blocks): column b holds the four words of block b of the stream."""
    index = np.arange(blocks, dtype=np.uint64)
    counter = [index & np.uint64(_LOW), index >> np.uint64(32)]
    draw = stream.draw
    counter += [np.full(blocks, word, np.uint64) for word in (draw & _LOW, draw >> 32)]
    c0, c1, c2, c3 = counter
    k0, k1 = stream.key & _LOW, stream.key >> 32
    for _ in range(ROUNDS):
        p0, p1 = c0 * np.uint64(_M0), c2 * np.uint64(_M1)
        low, high = np.uint64(_LOW), np.uint64(32)
        c0, c1, c2, c3 = ((p1 >> high) ^ c1 ^ np.uint64(k0), p1 & low,
                          (p0 >> high) ^ c3 ^ np.uint64(k1), p0 & low)
        k0, k1 = (k0 + _W0) & _LOW, (k1 + _W1) & _LOW
    return np.stack([c0, c1, c2, c3]).astype(np.uint32)


@inlined
def philox_round(c0, c1, c2, c3, k0, k1):
    """One of the ten rounds of Philox4x32 (Salmon et al., 2011); all arguments are uint32.

    Kernels contain the loop over rounds and the key schedule themselves: LLVM does not vectorize a
    call of a function that long.
    """
    p0 = np.uint64(c0) * np.uint64(0xD2511F53)
    p1 = np.uint64(c2) * np.uint64(0xCD9E8D57)
    high = np.uint64(32)
    return (np.uint32(np.uint32(p1 >> high) ^ c1 ^ k0), np.uint32(p1),
            np.uint32(np.uint32(p0 >> high) ^ c3 ^ k1), np.uint32(p0))
