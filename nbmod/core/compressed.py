"""Compressed files and archives: bounded memory, and errors that name the file.

The parsers of Python's library raise a dozen classes of errors for damaged files, and unpack a few
bytes to any number.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager

from ..base import MXNetError
from .interrupts import from_handler

__all__ = ["decompressed", "most_unpacked", "read_decompressed", "refusing", "require_plausible"]

_XZ_MEMORY = 1 << 27
"""Bytes that an .xz file may demand for its dictionary; `xz -9` takes half as much."""


def most_unpacked(path: str | os.PathLike[str], base: int = 1 << 23) -> int:
    """Bytes that the contents of a file may have: `base` and 64 times those of the file."""
    return base + 64 * os.path.getsize(path)


def require_plausible(path: str | os.PathLike[str], unpacked: int, most: int) -> None:
    """Raise MXNetError if the contents of a file have more than `most` bytes."""
    if unpacked > most:
        raise MXNetError(f"{path}: damaged or hostile: {os.path.getsize(path)} bytes would become "
                         f"{unpacked} or more, expected at most {most}")


@contextmanager
def refusing(path: object, expected: str) -> Iterator[None]:
    """A block that reads an archive: whatever its parsers raise is an MXNetError.

    `expected` says what the file should be, such as "an .npz file of arrays".
    """
    import struct
    import tarfile
    import tokenize
    import zipfile
    import zlib

    damage: tuple[type[Exception], ...] = (
        ValueError, EOFError, LookupError, TypeError, AttributeError, ArithmeticError, RuntimeError,
        MemoryError, SyntaxError, tokenize.TokenError, struct.error, zlib.error,
        zipfile.BadZipFile, tarfile.TarError, *_lzma_errors())
    try:
        yield
    except MXNetError:
        raise
    except OSError as error:
        if from_handler(error):
            raise
        if error.errno is not None:
            raise MXNetError(f"{path}: cannot be read as {expected}: {error.strerror}") from error
        raise MXNetError(f"{path}: damaged, or cannot be read as {expected}: {error}") from None
    except damage as error:
        if from_handler(error):
            raise
        raise MXNetError(f"{path}: damaged, or cannot be read as {expected}: "
                         f"{error or type(error).__name__}") from None


def _lzma_errors() -> tuple[type[Exception], ...]:
    """Errors of Python's own `lzma`, which some builds lack."""
    try:
        from lzma import LZMAError
    except ImportError:
        return ()
    return (LZMAError,)


def read_decompressed(path: str | os.PathLike[str], expected: str, most: int) -> bytes:
    """Content of a file, at most `most` bytes, decompressed if it is one of gzip, bzip2 or xz.

    MXNetError if the file cannot be read, is damaged, or becomes larger; `expected` says in it what
    the file should be.
    """
    with refusing(path, expected):
        with open(path, "rb") as file:
            data = file.read()
        content = decompressed(data, most)
    if content is not data:
        require_plausible(path, len(content), most)
    return content


def decompressed(data: bytes, most: int) -> bytes:
    """Decompress at most `most + 1` bytes of gzip, bzip2 or xz; return other contents as they are.

    MXNetError if this Python lacks the decompressor; errors of Python's library for damage, within
    `refusing`.
    """
    try:
        if data.startswith(b"\x1f\x8b"):
            import gzip

            with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
                return file.read(most + 1)
        if data.startswith(b"BZh"):
            import bz2

            with bz2.BZ2File(io.BytesIO(data)) as stream:
                return stream.read(most + 1)
        return _unxz(data, most) if data.startswith(b"\xfd7zXZ\0") else data
    except ImportError as error:
        raise MXNetError(f"this Python cannot decompress the file: {error}") from None


def _unxz(data: bytes, most: int) -> bytes:
    """The streams of an .xz file; its dictionary is limited, unlike that of `lzma.open`."""
    import lzma

    parts: list[bytes] = []
    left = most + 1
    while data and left:
        decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ, _XZ_MEMORY)
        parts.append(decompressor.decompress(data, left))
        left -= len(parts[-1])
        if not decompressor.eof and left:
            raise EOFError("it ends within a compressed stream")
        data = decompressor.unused_data.lstrip(b"\0")
    return parts[0] if len(parts) == 1 else b"".join(parts)
