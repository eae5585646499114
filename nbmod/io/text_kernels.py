"""Numbers out of text, by the megabyte: the kernels of the CSV and LibSVM readers.

Text is uint8: whole lines, then `PADDING` newlines, so that eight bytes can be looked at wherever a
number starts and nothing has to ask where the text ends.  A kernel answers in `status`: how many
rows it has read, what is wrong (0: nothing) and at which byte.  Decimals are read into an integer
of up to 18 digits and a power of ten, which are multiplied in float64: at most 2 ulp of a float64
away from the exact value, and integers are exact.

Helpers get addresses in the text, and words of it, never the array: that would count references.
"""

from __future__ import annotations

import numpy as np

from ..ops.jit import inlined, kernel
from ..ops.simd.bits import address_of, byte_at, trailing_zeros, word_at

__all__ = ["FINE", "NO_NUMBER", "NO_INDEX", "WRONG_COUNT", "OUT_OF_RANGE", "NO_ROOM", "PADDING",
           "parse_csv", "parse_libsvm"]

FINE, NO_NUMBER, NO_INDEX, WRONG_COUNT, OUT_OF_RANGE, NO_ROOM = range(6)
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
_LOWEST, _LOW, _NONE = np.uint64(255), np.uint64(15), np.uint64(0)
_PAIRS, _FOURS = np.uint64(0x00FF00FF00FF00FF), np.uint64(0x0000FFFF0000FFFF)


@inlined
def _skip_blanks(at):
    while byte_at(at) == _SPACE or byte_at(at) == _TAB or byte_at(at) == _RETURN:
        at += 1
    return at


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


@inlined(always=True)
def _exponent(word):
    """(length, value) of the exponent of up to 6 digits at the start of eight bytes, if any."""
    if (word & _LOWEST) | np.uint64(_LOWER) != np.uint64(_E):
        return np.int64(0), np.int64(0)
    sign, digits = (word >> np.uint64(8)) & _LOWEST, word >> np.uint64(16)
    minus = np.int64(sign == np.uint64(_MINUS))
    signed = minus + np.int64(sign == np.uint64(_PLUS))
    if signed == 1 and _count_digits(digits) == 2:
        tens, ones = digits & _LOW, (digits >> np.uint64(8)) & _LOW
        length, value = np.int64(4), np.int64(tens * np.uint64(10) + ones)
    else:
        digits = word >> np.uint64(8 + 8 * signed)
        count = _count_digits(digits)
        length = count + signed + 1 if count > 0 else np.int64(0)
        value = min(_join_digits(digits, count), np.int64(9999)) if count > 0 else np.int64(0)
    return length, (value ^ -minus) + minus


@inlined(always=True)
def _long(at, mantissa):
    """(last, mantissa, exponent) of a number of which nine digits have been read.

    The first of them is before the point; `at` is after it.  Digits that do not fit are not read.

    Of 17 digits or more that begin with no zero the first 17 are enough.
    """
    word = word_at(at)
    count = _count_digits(word)
    shift, places = count, 8 + count
    if count == 8:
        mantissa = mantissa * 10 ** 8 + _join_eight(word)
        at += 8  # not `count`: the processor guesses how the question ends, and waits for no sum
        word = word_at(at)
        count = _count_digits(word)
        if mantissa >= _MOST // 10:
            shift, places = np.int64(0), np.int64(16)
        else:
            count = count if count < 3 else np.int64(0)
            shift, places = count, 16 + count
    if shift > 0:
        mantissa = mantissa * _TENS[shift & 7] + _join_digits(word, shift & 7)
    at += count
    length, power = _exponent(word_at(at))
    return at + length, mantissa, power - places


@inlined(always=True)
def _usual(at):
    """(fits, last, negative, mantissa, exponent) of a number in one of the two usual forms.

    Up to 7 digits, and up to 7 after a point; or one digit, a point, more than that and perhaps an
    exponent.  The character at `last` tells whether the number ends there; if not, or if it does
    not fit, `_decimal` reads it.

    A single digit before the point, the usual one, is looked for first: then the processor can
    guess where the other digits are, and need not wait until the first ones are counted.
    """
    word = word_at(at)
    negative = word & _LOWEST == np.uint64(_MINUS)
    word ^= np.uint64(_MINUS ^ _ZERO) if negative else np.uint64(0)  # a zero in place of the sign
    first = at + np.int64(negative)
    digit = byte_at(first) - _ZERO
    if byte_at(first + 1) == _POINT and 0 <= digit <= 9:
        rest = word_at(first + 2)
        places = _count_digits(rest)
        last, mantissa, fits = first + 2 + places, digit, places < 9
        if places == 8:
            last, mantissa, exponent = _long(first + 10, digit * 10 ** 8 + _join_eight(rest))
            return True, last, negative, mantissa, exponent
    else:
        count = _count_digits(word)
        fits = count > np.int64(negative) and count < 8
        last, mantissa, rest, places = at + count, _join_digits(word, count), _NONE, np.int64(0)
        if byte_at(last) == _POINT:
            rest = word_at(last) >> np.uint64(8)
            places = _count_digits(rest)
            last += places + 1
    mantissa = mantissa * _TENS[places & 7] + _join_digits(rest, places & 7)
    return fits, last, negative, mantissa, -places


@inlined
def _word(at):
    """nan, inf or infinity: its stand-in exponent and where it ends."""
    a, b, c = byte_at(at) | _LOWER, byte_at(at + 1) | _LOWER, byte_at(at + 2) | _LOWER
    if a == _N and b == _A and c == _N:
        return at + 3, np.int64(_NAN)
    if a == _I and b == _N and c == _F:
        long = word_at(at) | _LOWERS == _LONG_INFINITY
        return at + (8 if long else 3), np.int64(_INFINITY)
    return at, np.int64(0)


@inlined(always=True)
def _append(at, mantissa):
    """(end, mantissa, dropped): the digits from `at` on appended to `mantissa`, eight at a time.

    Digits that do not fit are counted in `dropped`.
    """
    dropped, word = np.int64(0), word_at(at)
    count = _count_digits(word)
    while count == 8 and mantissa < _MOST // 10 ** 8:
        mantissa = mantissa * 10 ** 8 + _join_eight(word)
        at += 8
        word = word_at(at)
        count = _count_digits(word)
    if count < 8 and mantissa < _MOST // 10 ** 7:
        mantissa = mantissa * _TENS[count] + _join_digits(word, count)
        at += count
    while _ZERO <= byte_at(at) <= _NINE:
        if mantissa < _MOST:
            mantissa = mantissa * 10 + (np.int64(byte_at(at)) - _ZERO)
        else:
            dropped += 1
        at += 1
    return at, mantissa, dropped


@inlined(always=True)
def _decimal(at):
    """(where it ends, negative, mantissa, exponent) of any number at `at`; `at` if none is."""
    negative = byte_at(at) == _MINUS
    first = at + np.int64(negative) + np.int64(byte_at(at) == _PLUS)
    last, mantissa, exponent = _append(first, np.int64(0))
    count = last - first
    if byte_at(last) == _POINT:
        point = last
        last, mantissa, dropped = _append(point + 1, mantissa)
        places = last - point - 1
        count, exponent = count + places, exponent + dropped - places
    if count == 0:
        last, exponent = _word(first)
        last = at if last == first else last
    else:
        length, power = _exponent(word_at(last))
        last, exponent = last + length, exponent + power
    return last, negative, mantissa, exponent


@inlined(always=True)
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
def _next_line(at):
    while byte_at(at) != _NEWLINE:
        at += 1
    return at + 1


@kernel
def parse_csv(text, whole, values, status):
    """Rows of `values.shape[1]` decimals divided by commas; blank lines count for nothing.

    whole: only integers of up to 17 digits are right, and exact.
    """
    base, row = address_of(text), np.int64(0)
    at, end = base, base + np.int64(text.size - PADDING)
    columns = values.shape[1]
    while at < end:
        at = _skip_blanks(at)
        if byte_at(at) == _NEWLINE:
            at += 1
            continue
        for column in range(columns):
            limit = _NEWLINE if column == columns - 1 else _COMMA
            if byte_at(at + 1) == limit and _ZERO <= byte_at(at) <= _NINE:
                values[row, column] = np.int64(byte_at(at)) - _ZERO
                at += 2
                continue
            fits, last, negative, mantissa, exponent = _usual(at)
            if not fits or byte_at(last) != limit:
                at = _skip_blanks(at)
                last, negative, mantissa, exponent = _decimal(at)
                if last == at:
                    status[0], status[1], status[2] = row, NO_NUMBER, at - base
                    return
                last = _skip_blanks(last)
            if whole and exponent != 0:
                status[0], status[1], status[2] = row, NO_NUMBER, at - base
                return
            if whole:
                values[row, column] = -mantissa if negative else mantissa
            else:
                values[row, column] = _value(negative, mantissa, exponent)
            at = last
            if byte_at(at) != limit:
                ends = limit == _NEWLINE or byte_at(at) == _NEWLINE
                status[0], status[1], status[2] = row, WRONG_COUNT if ends else NO_NUMBER, at - base
                return
            at += 1
        row += 1
    status[0], status[1], status[2] = row, FINE, end - base


@inlined(always=True)
def _index(at, columns):
    """(where its colon is, index, what is wrong) of the index at `at`."""
    word = word_at(at)
    digits = _count_digits(word)
    last, index, dropped = at + digits, _join_digits(word, digits), np.int64(0)
    if digits == 8 or byte_at(last) != _COLON:
        last, index, dropped = _append(at, np.int64(0))
    if last == at or dropped > 0 or byte_at(last) != _COLON:
        wrong = NO_INDEX
    else:
        wrong = FINE if index < columns else OUT_OF_RANGE
    return last, index, wrong


@inlined(always=True)
def _pair(at, columns):
    """(where it ends, index, value, what is wrong) of a pair; if something is, it ends there."""
    last, index, wrong = _index(at, columns)
    value = np.float64(0)
    if wrong != FINE:
        last = at
    elif _ZERO <= byte_at(last + 1) <= _NINE and byte_at(last + 2) == _SPACE:
        value = np.float64(byte_at(last + 1) - _ZERO)
        last += 2
    else:
        at = last + 1
        fits, last, negative, mantissa, exponent = _usual(at)
        if not fits or byte_at(last) > _SPACE:
            last, negative, mantissa, exponent = _decimal(at)
            wrong = NO_NUMBER if last == at else FINE
        value = _value(negative, mantissa, exponent)
    return last, index, value, wrong


@kernel
def parse_libsvm(text, columns, labels, indptr, indices, values, status):
    """Rows of a label and pairs index:value, indices from 0 on; '#' starts a comment.

    The arrays may turn out too small: NO_ROOM.
    """
    base = address_of(text)
    at, end = base, base + np.int64(text.size - PADDING)
    row, count, wrong = np.int64(0), np.int64(0), FINE
    indptr[0] = 0
    while at < end and wrong == FINE:
        at = _skip_blanks(at)
        if byte_at(at) == _NEWLINE or byte_at(at) == _HASH:
            at = _next_line(at)
            continue
        last, negative, mantissa, exponent = _decimal(at)
        if last == at or row == labels.size:
            wrong = NO_NUMBER if last == at else NO_ROOM
            break
        labels[row] = _value(negative, mantissa, exponent)
        at = _skip_blanks(last)
        while byte_at(at) != _NEWLINE and byte_at(at) != _HASH:
            at, index, value, wrong = _pair(at, columns)
            if wrong == FINE and count == values.size:
                wrong = NO_ROOM
            if wrong != FINE:
                break
            indices[count], values[count] = index, value
            count += 1
            at = _skip_blanks(at)
        if wrong == FINE:
            at = _next_line(at)
            row += 1
            indptr[row] = count
    status[0], status[1], status[2] = row, wrong, at - base
