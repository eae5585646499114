"""Parsing kernels of the CSV and LibSVM readers.

Text is uint8: whole lines, then `PADDING` newlines, so that eight bytes can be loaded wherever a
number starts, without bounds checks.  A kernel returns in `status`: the number of rows, an error
code (0: none) and its byte offset.  Decimals are parsed to an integer of up to 18 digits and a
power of ten, which are multiplied in float64: the error is at most 2 ulp of float64, and integers
are exact.  Digits are parsed eight at a time with SWAR arithmetic (SIMD within a register).

Helpers receive addresses and words of the text, not the array, which would cost reference counts.

Without a compiler, NumPy parses what is plain and correct, and the Python functions the rest.
"""

from __future__ import annotations

import re

import numpy as np

from ..ops.jit import inlined, kernel
from ..ops.simd.bits import address_of, byte_at, trailing_zeros, word_at

__all__ = ["OK", "BAD_NUMBER", "BAD_INDEX", "WRONG_COUNT", "OUT_OF_RANGE", "BUFFER_FULL", "PADDING",
           "parse_csv", "parse_libsvm"]

OK, BAD_NUMBER, BAD_INDEX, WRONG_COUNT, OUT_OF_RANGE, BUFFER_FULL = range(6)
PADDING = 16

_NEWLINE, _RETURN, _SPACE, _TAB, _COMMA, _HASH, _COLON = 10, 13, 32, 9, 44, 35, 58
_PLUS, _MINUS, _POINT, _ZERO, _NINE, _CASE_BIT = 43, 45, 46, 48, 57, 32
_E, _N, _A, _I, _F = 101, 110, 97, 105, 102
_MAX_MANTISSA = 10 ** 17
_NAN, _INFINITY = 1 << 20, (1 << 20) + 1
"""Codes in place of an exponent."""
_NUMBER = rb"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
_CELL = re.compile(rb"[ \t\r]*" + _NUMBER + rb"[ \t\r]*(?:,|(?=\n)|\Z)")
_PAIR = re.compile(rb"[ \t\r]+\d+:" + _NUMBER + rb"(?!\S)")
_LABEL = re.compile(rb"\s*" + _NUMBER + rb"(?!\S)\s*")
_TO_BLANKS = bytes.maketrans(b",:", b"  ")
_POWERS = np.array([10.0 ** k for k in range(309)])
_TENS = np.array([10 ** k for k in range(8)])

# Words of eight bytes for SWAR: the same byte eight times, and masks.
_ZEROS, _PAST_NINE, _TOP_BITS, _LOW_NIBBLES, _CASE_BITS = (np.uint64(0x0101010101010101 * byte)
                                         for byte in (_ZERO, 0x7F - _NINE, 0x80, 0x0F, _CASE_BIT))
_LONG_INFINITY = np.uint64(int.from_bytes(b"infinity", "little"))
_BYTE_MASK, _NIBBLE_MASK, _ZERO_WORD = np.uint64(255), np.uint64(15), np.uint64(0)
_BYTE_PAIRS, _BYTE_QUADS = np.uint64(0x00FF00FF00FF00FF), np.uint64(0x0000FFFF0000FFFF)


@inlined
def _skip_blanks(at):
    while byte_at(at) == _SPACE or byte_at(at) == _TAB or byte_at(at) == _RETURN:
        at += 1
    return at


@inlined
def _count_digits(word):
    """Number of leading bytes that are digits."""
    other = ((word + _PAST_NINE) | (word - _ZEROS)) & _TOP_BITS
    return trailing_zeros(other) >> 3


@inlined
def _eight_digits(word):
    """The integer of eight digits; fewer are padded with leading zeros.

    Lemire, "Number parsing at a gigabyte per second", Software: Practice and Experience, 2021.
    """
    word = ((word & _LOW_NIBBLES) * np.uint64(2561)) >> np.uint64(8)
    word = ((word & _BYTE_PAIRS) * np.uint64(6553601)) >> np.uint64(16)
    return np.int64(((word & _BYTE_QUADS) * np.uint64(42949672960001)) >> np.uint64(32))


@inlined
def _digits(word, count):
    """The integer of its first `count` < 8 digits; any for 8, of which no caller takes it."""
    return _eight_digits((word << np.uint64(8 * (7 - count & 7))) << np.uint64(8))


@inlined(always=True)
def _parse_exponent(word):
    """(length, value) of an exponent of up to 6 digits at the start of a word; length 0: none."""
    if (word & _BYTE_MASK) | np.uint64(_CASE_BIT) != np.uint64(_E):
        return np.int64(0), np.int64(0)
    sign, digits = (word >> np.uint64(8)) & _BYTE_MASK, word >> np.uint64(16)
    minus = np.int64(sign == np.uint64(_MINUS))
    signed = minus + np.int64(sign == np.uint64(_PLUS))
    if signed == 1 and _count_digits(digits) == 2:
        tens, ones = digits & _NIBBLE_MASK, (digits >> np.uint64(8)) & _NIBBLE_MASK
        length, value = np.int64(4), np.int64(tens * np.uint64(10) + ones)
    else:
        digits = word >> np.uint64(8 + 8 * signed)
        count = _count_digits(digits)
        length = count + signed + 1 if count > 0 else np.int64(0)
        value = min(_digits(digits, count), np.int64(9999)) if count > 0 else np.int64(0)
    return length, (value ^ -minus) + minus


@inlined(always=True)
def _parse_long(at, mantissa):
    """(last, mantissa, exponent) of a number, from its tenth digit on, which is in the fraction.

    Digits that do not fit are left unread; 17 significant digits are enough.
    """
    word = word_at(at)
    count = _count_digits(word)
    shift, places = count, 8 + count
    if count == 8:
        mantissa = mantissa * 10 ** 8 + _eight_digits(word)
        at += 8  # not `count`: the branch is predicted, which removes the data dependency
        word = word_at(at)
        count = _count_digits(word)
        if mantissa >= _MAX_MANTISSA // 10:
            shift, places = np.int64(0), np.int64(16)
        else:
            count = count if count < 3 else np.int64(0)
            shift, places = count, 16 + count
    if shift > 0:
        mantissa = mantissa * _TENS[shift & 7] + _digits(word, shift & 7)
    at += count
    length, power = _parse_exponent(word_at(at))
    return at + length, mantissa, power - places


@inlined(always=True)
def _parse_common(at):
    """(fits, last, negative, mantissa, exponent) of a number in one of the two common forms.

    They are up to 7 digits, and up to 7 after the point; or one digit, a point, more digits and an
    optional exponent.  The caller checks the byte at `last`; if the number does not end there or
    does not fit, it calls `_parse_general`.

    A single digit before the point, the common case, is tested first: a predicted branch then gives
    the position of the fraction without waiting for the count of digits.
    """
    word = word_at(at)
    negative = word & _BYTE_MASK == np.uint64(_MINUS)
    word ^= np.uint64(_MINUS ^ _ZERO) if negative else np.uint64(0)  # a zero in place of the sign
    first = at + np.int64(negative)
    digit = byte_at(first) - _ZERO
    if byte_at(first + 1) == _POINT and 0 <= digit <= 9:
        rest = word_at(first + 2)
        places = _count_digits(rest)
        last, mantissa, fits = first + 2 + places, digit, places < 9
        if places == 8:
            mantissa = digit * 10 ** 8 + _eight_digits(rest)
            last, mantissa, exponent = _parse_long(first + 10, mantissa)
            return True, last, negative, mantissa, exponent
    else:
        count = _count_digits(word)
        fits = count > np.int64(negative) and count < 8
        last, mantissa, rest, places = at + count, _digits(word, count), _ZERO_WORD, np.int64(0)
        if byte_at(last) == _POINT:
            rest = word_at(last) >> np.uint64(8)
            places = _count_digits(rest)
            last += places + 1
    mantissa = mantissa * _TENS[places & 7] + _digits(rest, places & 7)
    return fits, last, negative, mantissa, -places


@inlined
def _parse_special(at):
    """(last, exponent code) of nan, inf or infinity; `at` if it is none of them."""
    a, b, c = byte_at(at) | _CASE_BIT, byte_at(at + 1) | _CASE_BIT, byte_at(at + 2) | _CASE_BIT
    if a == _N and b == _A and c == _N:
        return at + 3, np.int64(_NAN)
    if a == _I and b == _N and c == _F:
        long = word_at(at) | _CASE_BITS == _LONG_INFINITY
        return at + (8 if long else 3), np.int64(_INFINITY)
    return at, np.int64(0)


@inlined(always=True)
def _append_digits(at, mantissa):
    """(last, mantissa, dropped): append digits from `at` on; `dropped` counts those beyond 18."""
    dropped, word = np.int64(0), word_at(at)
    count = _count_digits(word)
    while count == 8 and mantissa < _MAX_MANTISSA // 10 ** 8:
        mantissa = mantissa * 10 ** 8 + _eight_digits(word)
        at += 8
        word = word_at(at)
        count = _count_digits(word)
    if count < 8 and mantissa < _MAX_MANTISSA // 10 ** 7:
        mantissa = mantissa * _TENS[count] + _digits(word, count)
        at += count
    while _ZERO <= byte_at(at) <= _NINE:
        if mantissa < _MAX_MANTISSA:
            mantissa = mantissa * 10 + (np.int64(byte_at(at)) - _ZERO)
        else:
            dropped += 1
        at += 1
    return at, mantissa, dropped


@inlined(always=True)
def _parse_general(at):
    """(last, negative, mantissa, exponent) of any number at `at`; last == at: there is none."""
    negative = byte_at(at) == _MINUS
    first = at + np.int64(negative) + np.int64(byte_at(at) == _PLUS)
    last, mantissa, exponent = _append_digits(first, np.int64(0))
    count = last - first
    if byte_at(last) == _POINT:
        point = last
        last, mantissa, dropped = _append_digits(point + 1, mantissa)
        places = last - point - 1
        count, exponent = count + places, exponent + dropped - places
    if count == 0:
        last, exponent = _parse_special(first)
        last = at if last == first else last
    else:
        length, power = _parse_exponent(word_at(last))
        last, exponent = last + length, exponent + power
    return last, negative, mantissa, exponent


@inlined(always=True)
def _to_float64(negative, mantissa, exponent):
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


def _numbers(text):
    """The float64 numbers that blanks, commas and colons separate in correct text."""
    text = text.translate(_TO_BLANKS)
    return np.empty(0) if text.isspace() or not text else np.fromstring(text, sep=" ")


def _lines(text):
    return [line for line in text.split(b"\n") if line and not line.isspace()]


def _parse_csv(text, integral, values, status):
    whole, columns = text[:-PADDING].tobytes(), values.shape[1]
    lines, numbers = _lines(whole), None
    if not (integral or _CELL.sub(b"", whole).strip()
            or any(line.count(b",") != columns - 1 for line in lines)):
        numbers = _numbers(whole)
    if numbers is None or numbers.size != len(lines) * columns:
        parse_csv.function(text, integral, values, status)
    else:
        values[:len(lines)] = numbers.reshape(-1, columns)
        status[:] = len(lines), OK, len(whole)


@kernel(plain=_parse_csv)
def parse_csv(text, integral, values, status):
    """Parse rows of `values.shape[1]` decimals separated by commas; blank lines are ignored.

    integral: accept only integers, of up to 17 digits, which are exact.
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
            fits, last, negative, mantissa, exponent = _parse_common(at)
            if not fits or byte_at(last) != limit:
                at = _skip_blanks(at)
                last, negative, mantissa, exponent = _parse_general(at)
                if last == at:
                    status[0], status[1], status[2] = row, BAD_NUMBER, at - base
                    return
                last = _skip_blanks(last)
            if integral and exponent != 0:
                status[0], status[1], status[2] = row, BAD_NUMBER, at - base
                return
            if integral:
                values[row, column] = -mantissa if negative else mantissa
            else:
                values[row, column] = _to_float64(negative, mantissa, exponent)
            at = last
            if byte_at(at) != limit:
                ends = limit == _NEWLINE or byte_at(at) == _NEWLINE
                error = WRONG_COUNT if ends else BAD_NUMBER
                status[0], status[1], status[2] = row, error, at - base
                return
            at += 1
        row += 1
    status[0], status[1], status[2] = row, OK, end - base


@inlined(always=True)
def _parse_index(at, columns):
    """(position of the colon, index, error code) of the index at `at`."""
    word = word_at(at)
    digits = _count_digits(word)
    last, index, dropped = at + digits, _digits(word, digits), np.int64(0)
    if digits == 8 or byte_at(last) != _COLON:
        last, index, dropped = _append_digits(at, np.int64(0))
    if last == at or dropped > 0 or byte_at(last) != _COLON:
        error = BAD_INDEX
    else:
        error = OK if index < columns else OUT_OF_RANGE
    return last, index, error


@inlined(always=True)
def _parse_pair(at, columns):
    """(last, index, value, error code) of a pair; `last` is the position of an error."""
    last, index, error = _parse_index(at, columns)
    value = np.float64(0)
    if error != OK:
        last = at
    elif _ZERO <= byte_at(last + 1) <= _NINE and byte_at(last + 2) == _SPACE:
        value = np.float64(byte_at(last + 1) - _ZERO)
        last += 2
    else:
        at = last + 1
        fits, last, negative, mantissa, exponent = _parse_common(at)
        if not fits or byte_at(last) > _SPACE:
            last, negative, mantissa, exponent = _parse_general(at)
            error = BAD_NUMBER if last == at else OK
        value = _to_float64(negative, mantissa, exponent)
    return last, index, value, error


def _parse_libsvm(text, columns, labels, indptr, indices, values, status):
    whole, numbers = text[:-PADDING].tobytes(), np.empty(0)
    lines = _lines(whole)
    counts = np.array([line.count(b":") for line in lines], np.int64)
    rows, pairs = len(counts), counts.sum()
    starts = np.cumsum(2 * counts + 1) - 2 * counts - 1
    if all(map(_LABEL.match, lines)) and all(map(_LABEL.fullmatch,
                                                 _lines(_PAIR.sub(b"", whole)))):
        numbers = _numbers(whole)
    is_correct = len(numbers) == rows + 2 * pairs
    at, data = np.delete(numbers, starts).reshape(-1, 2).T if is_correct else (counts, counts)
    if not is_correct or (at >= columns).any():
        parse_libsvm.function(text, columns, labels, indptr, indices, values, status)
    elif rows > labels.size or pairs > values.size:
        status[:] = 0, BUFFER_FULL, 0
    else:
        labels[:rows], indices[:pairs], values[:pairs] = numbers[starts], at, data
        indptr[0], indptr[1:rows + 1] = 0, np.cumsum(counts)
        status[:] = rows, OK, len(whole)


@kernel(plain=_parse_libsvm)
def parse_libsvm(text, columns, labels, indptr, indices, values, status):
    """Parse rows of a label and pairs index:value, indices from 0; '#' starts a comment.

    The error code is BUFFER_FULL if the arrays are too small.
    """
    base = address_of(text)
    at, end = base, base + np.int64(text.size - PADDING)
    row, count, error = np.int64(0), np.int64(0), OK
    indptr[0] = 0
    while at < end and error == OK:
        at = _skip_blanks(at)
        if byte_at(at) == _NEWLINE or byte_at(at) == _HASH:
            at = _next_line(at)
            continue
        last, negative, mantissa, exponent = _parse_general(at)
        if last == at or row == labels.size:
            error = BAD_NUMBER if last == at else BUFFER_FULL
            break
        labels[row] = _to_float64(negative, mantissa, exponent)
        at = _skip_blanks(last)
        while byte_at(at) != _NEWLINE and byte_at(at) != _HASH:
            at, index, value, error = _parse_pair(at, columns)
            if error == OK and count == values.size:
                error = BUFFER_FULL
            if error != OK:
                break
            indices[count], values[count] = index, value
            count += 1
            at = _skip_blanks(at)
        if error == OK:
            at = _next_line(at)
            row += 1
            indptr[row] = count
    status[0], status[1], status[2] = row, error, at - base
