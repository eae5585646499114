"""The RecordIO file format, and recovery of records from a damaged file.

A file is a sequence of parts.  A part is two 32-bit little-endian words, its payload, and zero
padding to a multiple of four bytes:

    magic 0xced7230a | kind (3 bits), length of the payload (29 bits) | payload | 0 to 3 zeros

A record is one part of kind WHOLE, or a FIRST, any number of MIDDLEs and a LAST.  It is split into
parts at every aligned magic word (at a multiple of four) in its data; the word itself is omitted
and restored by the reader.  So an aligned magic word in a file always starts a part, which lets a
reader resynchronize after damage.

Invariant: a length is checked against the file size before anything is read or allocated.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ..base import MXNetError

__all__ = ["HEAD", "MAGIC", "MAGIC_WORD", "MAX_LENGTH", "RecordChain", "DamagedRecord", "Record",
           "frames"]

MAGIC = 0xCED7230A
MAGIC_WORD = struct.pack("<I", MAGIC)
HEAD = struct.Struct("<II")
_LENGTH_BITS = 29
MAX_LENGTH = (1 << _LENGTH_BITS) - 1
WHOLE, FIRST, MIDDLE, LAST = range(4)
_FIRST_CHUNK, _CHUNK = 1 << 12, 1 << 20

Fetch = Callable[[int, int], bytes]
"""`fetch(offset, count)`: reads `count` bytes; fewer only at the end of the file."""


class DamagedRecord(MXNetError):
    """A file is damaged at `offset`: `found` is not what was `expected`."""

    def __init__(self, path: str, offset: int, expected: str, found: str):
        self.path, self.offset, self.expected, self.found = path, offset, expected, found
        super().__init__(f"{path}, offset {offset}: expected {expected}, found {found}; "
                         "a reader made with strict=False skips what is damaged, and "
                         "`nbmod rec repair` writes the rest to another file")

    def __reduce__(self) -> tuple[type[DamagedRecord], tuple[str, int, str, str]]:
        return DamagedRecord, (self.path, self.offset, self.expected, self.found)


class Record(NamedTuple):
    """The data of a record, and the offset after it."""

    data: bytes
    end: int


def frames(data: bytes) -> Iterator[bytes]:
    """The bytes of a file that hold `data` as one record, in pieces.

    Raises MXNetError if the length of the data does not fit into 29 bits.
    """
    if len(data) > MAX_LENGTH:
        raise MXNetError(f"write: a record has {len(data):,} bytes, the format holds at most "
                         f"{MAX_LENGTH:,}; split it into several records")
    cuts = [*(at for at in _find_magics(data) if at % 4 == 0), len(data)]
    start = 0
    for number, cut in enumerate(cuts):
        first, last = number == 0, number == len(cuts) - 1
        kind = (WHOLE if last else FIRST) if first else (LAST if last else MIDDLE)
        yield HEAD.pack(MAGIC, kind << _LENGTH_BITS | cut - start)
        yield data[start:cut] if len(cuts) > 1 else data
        yield bytes(-(cut - start) % 4)
        start = cut + 4


def _find_magics(data: bytes) -> Iterator[int]:
    """Offsets of the magic words in `data`; they cannot overlap."""
    at = data.find(MAGIC_WORD)
    while at >= 0:
        yield at
        at = data.find(MAGIC_WORD, at + 4)


class RecordChain:
    """The records of a file, which `fetch` reads; `size` returns its current length in bytes.

    Strict reading returns a record only if another one, or the end of the file, follows it, which
    detects a wrong length.  `intact` reads what it can.
    """

    def __init__(self, path: str, fetch: Fetch, size: Callable[[], int]):
        self.path, self.fetch, self.size = path, fetch, size
        self.lost = 0

    def read_simple(self, offset: int, head: bytes) -> tuple[bytes, int, bytes] | None:
        """Read a record of one part that is followed by another, the common case.

        Returns (data, offset after it, head of the next part); None for any other record.

        head: bytes that were read at `offset`.  If they include the next head, there are no further
        reads, otherwise two, none of more bytes than the file has.
        """
        if len(head) < 8:
            return None
        magic, length = HEAD.unpack_from(head)
        end = 8 + (length + 3 & ~3)
        if magic != MAGIC or length > MAX_LENGTH:
            return None
        following = head[end:end + 8] if end + 8 <= len(head) else self.fetch(offset + end, 8)
        if not following.startswith(MAGIC_WORD):
            return None
        inside = 8 + length <= len(head)
        data = head[8:8 + length] if inside else self.fetch(offset + 8, length)
        return data, offset + end, following

    def read(self, offset: int) -> Record | None:
        """The record at `offset`; None at the end of the file.  Raises DamagedRecord."""
        return self._record(offset, self._require_end)

    def first_bytes(self, offset: int, count: int) -> bytes:
        """The first `count` bytes of the record at `offset`, or all of it.  Raises DamagedRecord.

        Reads the whole record only if its first part is shorter than that.
        """
        kind, length = self._head(offset)
        if kind == WHOLE or kind == FIRST and length >= count:
            return self.fetch(offset + 8, min(length, count))
        record = self.read(offset)
        return record.data[:count] if record else b""

    def plausible(self, offset: int) -> Record | None:
        """The record at `offset`, unless it reaches over later ones; None at the end of the file.

        Raises DamagedRecord.
        """
        return self._record(offset, self._require_plausible)

    def intact(self, offset: int) -> Record | None:
        """The first intact record at or after `offset`; None if there is none.

        Every damaged region that is skipped increments `lost`.  Payloads have no checksum: changed
        bytes inside one are not detected.
        """
        at: int | None = offset
        while at is not None:
            try:
                return self.plausible(at)
            except DamagedRecord as damage:
                self.lost += 1
                at = self._recover(max(damage.offset, at + 1), at % 4)
        return None

    def starts(self) -> Iterator[int]:
        """Offsets of all records; reads only the heads of parts.  Raises DamagedRecord."""
        at = 0
        while self.fetch(at, 1):
            kind, length = self._head(at)
            if kind in (WHOLE, FIRST):
                yield at
            at += 8 + (length + 3 & ~3)

    def _record(self, offset: int, check: Callable[[int, int, int], None]) -> Record | None:
        """Read the record at `offset`, checking its parts first."""
        if not self.fetch(offset, 1):
            return None
        pieces, at = [], offset
        while True:
            kind, length = self._head(at)
            if kind not in ((WHOLE, FIRST) if at == offset else (MIDDLE, LAST)):
                expected = "the start of a record" if at == offset else "a further part of a record"
                raise self._damage(at, expected, f"a part of kind {kind}")
            end = at + 8 + (length + 3 & ~3)
            check(at, length, end)
            pieces.append(self.fetch(at + 8, length))
            at = end
            if kind in (WHOLE, LAST):
                return Record(MAGIC_WORD.join(pieces) if len(pieces) > 1 else pieces[0], at)

    def _head(self, offset: int) -> tuple[int, int]:
        """Kind and length of the part at `offset`, which is completely in the file."""
        head = self.fetch(offset, 8)
        if len(head) < 8:
            raise self._damage(offset, "a part of a record", f"{len(head)} bytes and the end")
        magic, word = HEAD.unpack(head)
        if magic != MAGIC:
            raise self._damage(offset, f"the magic number 0x{MAGIC:08x}",
                               f"0x{magic:08x}{'' if offset else self._format()}")
        length = word & MAX_LENGTH
        if offset + 8 + length > self.size():
            raise self._damage(offset, f"a part of {length:,} bytes",
                               f"{self.size() - offset - 8:,} bytes and the end of the file")
        return word >> _LENGTH_BITS, length

    def _require_end(self, offset: int, length: int, end: int) -> None:
        """Check that another part, or the end of the file, follows a part."""
        following = self.fetch(end, 4)
        if following not in (MAGIC_WORD, b""):
            raise self._damage(end, f"the magic number 0x{MAGIC:08x} after the part of "
                               f"{length:,} bytes at offset {offset}", f"0x{following[::-1].hex()}")

    def _require_plausible(self, offset: int, length: int, end: int) -> None:
        """Check the length of a part whose neighbours may be damaged.

        The length is wrong if another part starts before its end.  Where nothing valid follows,
        that part may have another alignment, and the length is wrong, too, if the padding is not
        zeros; otherwise what follows is damaged.
        """
        if self.fetch(end, 4) in (MAGIC_WORD, b""):
            inner = next((at for at in self._magics(offset + 8, offset + 8 + length)
                          if (at - offset) % 4 == 0), None)
        else:
            inner = self._recover(offset + 8, offset % 4, end)
            if inner is None and any(self.fetch(offset + 8 + length, -length % 4)):
                inner = offset + 4
        if inner is not None:
            raise self._damage(inner, f"a part of {length:,} bytes at offset {offset}",
                               "another length")

    def _recover(self, offset: int, phase: int, end: int | None = None) -> int | None:
        """Offset of the next record, from `offset` up to `end`; None if there is none.

        A part whose alignment differs from `phase`, because bytes were lost or inserted, counts
        only if another one follows: an unaligned magic word may be data.
        """
        for at in self._magics(offset, self.size() if end is None else end):
            try:
                kind, length = self._head(at)
                if at % 4 != phase:
                    self._require_end(at, length, at + 8 + (length + 3 & ~3))
            except DamagedRecord:
                continue
            if kind in (WHOLE, FIRST):
                return at
        return None

    def _magics(self, start: int, end: int) -> Iterator[int]:
        """Offsets of the magic words from `start` up to `end`."""
        size = _FIRST_CHUNK  # usually the next one is near
        while start < end:
            chunk = self.fetch(start, min(size, end - start) + 3)
            yield from (start + at for at in _find_magics(chunk))
            start, size = start + size, min(2 * size, _CHUNK)

    def _format(self) -> str:
        """The end of an error message, if the file has another format."""
        from ..core.foreign import HEAD_SIZE, foreign_format

        return foreign_format(self.fetch(0, HEAD_SIZE))

    def _damage(self, offset: int, expected: str, actual: str) -> DamagedRecord:
        return DamagedRecord(self.path, offset, expected, actual)
