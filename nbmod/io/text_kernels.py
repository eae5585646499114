"""Numbers out of text, by the megabyte: the kernels of the CSV and LibSVM readers.

Text is uint8: whole lines, then `PADDING` newlines, so that eight bytes can be looked at wherever a
number starts and nothing has to ask where the text ends.  A kernel answers in `status`: how many
rows it has read, what is wrong (0: nothing) and at which byte.  Decimals are read into an integer
of up to 18 digits and a power of ten, which are multiplied in float64: at most 2 ulp of a float64
away from the exact value, and integers are exact.
"""

from __future__ import annotations

import numpy as np

from ..ops.jit import inlined, kernel
from ..ops.simd.bits import trailing_zeros

__all__ = ["FINE", "NO_NUMBER", "NO_INDEX", "WRONG_COUNT", "OUT_OF_RANGE", "PADDING", "parse_csv",
           "parse_libsvm"]

FINE, NO_NUMBER, NO_INDEX, WRONG_COUNT, OUT_OF_RANGE = range(5)
PADDING = 16

_NEWLINE, _RETURN, _SPACE, _TAB, _COMMA, _HASH, _COLON = 10, 13, 32, 9, 44, 35, 58
_PLUS, _MINUS, _POINT, _ZERO, _NINE, _LOWER = 43, 45, 46, 48, 57, 32
_E, _N, _A, _I, _F = 101, 110, 97, 105, 102
_MOST = 10 ** 17
_NAN, _INFINITY = 1 << 20, (1 << 20) + 1
"""Exponents that stand for no power of ten."""
_POWERS = np.array([10.0 ** k for k in range(309)])
_TENS = np.array([10 ** k for k in range(8)])

# Numbers of eight bytes: the same byte eight times, and others.
_ZEROS, _ABOVE, _TOPS, _LOWS, _LOWERS = (np.uint64(0x0101010101010101 * byte)
                                         for byte in (_ZERO, 0x7F - _NINE, 0x80, 0x0F, _LOWER))
_LONG_INFINITY = np.uint64(int.from_bytes(b"infinity", "little"))
_LOWEST = np.uint64(255)
_PAIRS, _FOURS = np.uint64(0x00FF00FF00FF00FF), np.uint64(0x0000FFFF0000FFFF)


@inlined
def _byte(text, at):
    """The byte at `at`, which is not negative: NumPy's rule for such places costs time."""
    return text[np.uint64(at)]


@inlined
def _skip_blanks(text, at):
    while _byte(text, at) == _SPACE or _byte(text, at) == _TAB or _byte(text, at) == _RETURN:
        at += 1
    return at


@inlined
def _eight(text, at):
    """The eight bytes from `at` on as one number, the first one lowest."""
    at, word = np.uint64(at), np.uint64(0)
    for k in range(8):
        word |= np.uint64(text[at + np.uint64(k)]) << np.uint64(8 * k)
    return word


@inlined
def _count_digits(word):
    """How many of its bytes are digits, up to the first that is none."""
    other = ((word + _ABOVE) | (word - _ZEROS)) & _TOPS
    return trailing_zeros(other) >> 3


@inlined
def _join_eight(word):
    """The number that eight digits make; zeros may stand before fewer.

    Lemire, "Number parsing at a gigabyte per second", Software: Practice and Experience, 2021.
    """
    word = ((word & _LOWS) * np.uint64(2561)) >> np.uint64(8)
    word = ((word & _PAIRS) * np.uint64(6553601)) >> np.uint64(16)
    return np.int64(((word & _FOURS) * np.uint64(42949672960001)) >> np.uint64(32))


@inlined
def _join_digits(word, count):
    """The number that the first `count` < 8 of its bytes make."""
    return _join_eight((word << np.uint64(8 * (7 - count))) << np.uint64(8))


@inlined
def _leading(word):
    """(negative, word, count) of the eight bytes at the start of a number: a zero put in place of
    a minus sign, and how many digits there are then."""
    negative = word & _LOWEST == np.uint64(_MINUS)
    word ^= np.uint64(_MINUS ^ _ZERO) if negative else np.uint64(0)
    return negative, word, _count_digits(word)


@inlined(always=True)
def _plain(word, count, rest):
    """(length, mantissa, places) of a decimal of up to 7 digits, and up to 7 behind a point.

    word: the eight bytes at its start, the first `count` < 8 digits.  rest: the eight behind those.
    What follows tells whether the number ends there; if not, it is one for `_decimal`.
    """
    mantissa = _join_digits(word, count)
    if rest & _LOWEST != np.uint64(_POINT):
        return count, mantissa, np.int64(0)
    rest >>= np.uint64(8)
    places = _count_digits(rest)
    return count + places + 1, mantissa * _TENS[places] + _join_digits(rest, places), places


@inlined
def _digits(text, at, mantissa):
    """Digits from `at` appended to `mantissa`; those that do not fit are counted in `dropped`."""
    dropped = np.int64(0)
    while _ZERO <= _byte(text, at) <= _NINE:
        if mantissa < _MOST:
            mantissa = mantissa * 10 + (np.int64(_byte(text, at)) - _ZERO)
        else:
            dropped += 1
        at += 1
    return at, mantissa, dropped


@inlined
def _exponent(word):
    """(length, value) of the exponent of up to 6 digits at the start of eight bytes, if any."""
    sign = (word >> np.uint64(8)) & _LOWEST
    signed = sign == np.uint64(_MINUS) or sign == np.uint64(_PLUS)
    digits = word >> np.uint64(16 if signed else 8)
    count = _count_digits(digits)
    if (word & _LOWEST) | np.uint64(_LOWER) != np.uint64(_E) or count == 0:
        return np.int64(0), np.int64(0)
    value = min(_join_digits(digits, count), np.int64(9999))
    return count + signed + 1, -value if sign == np.uint64(_MINUS) else value


@inlined
def _word(text, at):
    """nan, inf or infinity: its stand-in exponent and where it ends."""
    a, b, c = _byte(text, at) | _LOWER, _byte(text, at + 1) | _LOWER, _byte(text, at + 2) | _LOWER
    if a == _N and b == _A and c == _N:
        return at + 3, np.int64(_NAN)
    if a == _I and b == _N and c == _F:
        long = _eight(text, at) | _LOWERS == _LONG_INFINITY
        return at + (8 if long else 3), np.int64(_INFINITY)
    return at, np.int64(0)


@inlined
def _decimal(text, at):
    """(where it ends, negative, mantissa, exponent) of any number at `at`; `at` if none is."""
    start, negative = at, _byte(text, at) == _MINUS
    if negative or _byte(text, at) == _PLUS:
        at += 1
    first, point, mantissa, exponent = at, np.int64(-1), np.int64(0), np.int64(0)
    while True:
        word = _eight(text, at)
        if mantissa < _MOST // 10 ** 8 and _count_digits(word) == 8:
            mantissa = mantissa * 10 ** 8 + _join_eight(word)
            at += 8
        elif _ZERO <= _byte(text, at) <= _NINE:
            if mantissa < _MOST:
                mantissa = mantissa * 10 + (np.int64(_byte(text, at)) - _ZERO)
            else:
                exponent += 1
            at += 1
        elif _byte(text, at) == _POINT and point < 0:
            point = at
            at += 1
        else:
            break
    if at - first - (point >= 0) == 0:
        at, exponent = _word(text, first)
        return (start if at == first else at), negative, np.int64(0), exponent
    exponent -= at - point - 1 if point >= 0 else 0
    length, power = _exponent(_eight(text, at))
    return at + length, negative, mantissa, exponent + power


@inlined
def _value(negative, mantissa, exponent):
    """The float64 of a decimal."""
    if exponent == _NAN:
        value = np.nan
    elif exponent == _INFINITY:
        value = np.inf
    elif exponent >= 0:
        value = np.float64(mantissa) * (_POWERS[exponent] if exponent < 309 else np.inf)
        if mantissa == 0:
            value = 0.0
    elif exponent > -309:
        value = np.float64(mantissa) / _POWERS[-exponent]
    elif exponent > -340:
        value = np.float64(mantissa) / _POWERS[308] / _POWERS[-exponent - 308]
    else:
        value = 0.0
    return -value if negative else value


@inlined
def _next_line(text, at):
    while _byte(text, at) != _NEWLINE:
        at += 1
    return at + 1


@kernel
def parse_csv(text, whole, values, status):
    """Rows of `values.shape[1]` decimals divided by commas; blank lines count for nothing.

    whole: only integers of up to 17 digits are right, and exact.
    """
    at, end, row = np.int64(0), np.int64(text.size - PADDING), np.int64(0)
    columns = values.shape[1]
    while at < end:
        at = _skip_blanks(text, at)
        if _byte(text, at) == _NEWLINE:
            at += 1
            continue
        for column in range(columns):
            limit = _NEWLINE if column == columns - 1 else _COMMA
            if _byte(text, at + 1) == limit and _ZERO <= _byte(text, at) <= _NINE:
                values[row, column] = np.int64(_byte(text, at)) - _ZERO
                at += 2
                continue
            negative, word, count = _leading(_eight(text, at))
            length, mantissa, places = _plain(word, count, _eight(text, at + count))
            last, exponent = at + length, -places
            if count == negative or count == 8 or _byte(text, last) != limit:
                at = _skip_blanks(text, at)
                last, negative, mantissa, exponent = _decimal(text, at)
                if last == at:
                    status[0], status[1], status[2] = row, NO_NUMBER, at
                    return
                last = _skip_blanks(text, last)
            if whole and exponent != 0:
                status[0], status[1], status[2] = row, NO_NUMBER, at
                return
            if whole:
                values[row, column] = -mantissa if negative else mantissa
            else:
                values[row, column] = _value(negative, mantissa, exponent)
            at = last
            if _byte(text, at) != limit:
                ends = limit == _NEWLINE or _byte(text, at) == _NEWLINE
                status[0], status[1], status[2] = row, WRONG_COUNT if ends else NO_NUMBER, at
                return
            at += 1
        row += 1
    status[0], status[1], status[2] = row, FINE, end


@kernel
def parse_libsvm(text, columns, labels, indptr, indices, values, status):
    """Rows of a label and pairs index:value, indices from 0 on; '#' starts a comment."""
    at, end = np.int64(0), np.int64(text.size - PADDING)
    row, count = np.int64(0), np.int64(0)
    indptr[0] = 0
    while at < end:
        at = _skip_blanks(text, at)
        if _byte(text, at) == _NEWLINE or _byte(text, at) == _HASH:
            at = _next_line(text, at)
            continue
        last, negative, mantissa, exponent = _decimal(text, at)
        if last == at:
            status[0], status[1], status[2] = row, NO_NUMBER, at
            return
        labels[row] = _value(negative, mantissa, exponent)
        at = _skip_blanks(text, last)
        while _byte(text, at) != _NEWLINE and _byte(text, at) != _HASH:
            word = _eight(text, at)
            digits = _count_digits(word)
            last, index, dropped = at + digits, _join_digits(word, digits), np.int64(0)
            if digits == 8 or _byte(text, last) != _COLON:
                last, index, dropped = _digits(text, at, np.int64(0))
            wrong = last == at or dropped > 0 or _byte(text, last) != _COLON
            if wrong or index >= columns:
                status[0], status[1], status[2] = row, NO_INDEX if wrong else OUT_OF_RANGE, at
                return
            at = last + 1
            if _ZERO <= _byte(text, at) <= _NINE and _byte(text, at + 1) == _SPACE:
                indices[count], values[count] = index, np.int64(_byte(text, at)) - _ZERO
                count += 1
                at = _skip_blanks(text, at + 2)
                continue
            negative, word, digits = _leading(_eight(text, at))
            length, mantissa, places = _plain(word, digits, _eight(text, at + digits))
            last, exponent = at + length, -places
            if digits == negative or digits == 8 or _byte(text, last) > _SPACE:
                last, negative, mantissa, exponent = _decimal(text, at)
                if last == at:
                    status[0], status[1], status[2] = row, NO_NUMBER, last
                    return
            indices[count], values[count] = index, _value(negative, mantissa, exponent)
            count += 1
            at = _skip_blanks(text, last)
        at = _next_line(text, at)
        row += 1
        indptr[row] = count
    status[0], status[1], status[2] = row, FINE, end
