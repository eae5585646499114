"""Record files: `MXRecordIO` and `MXIndexedRecordIO`.  A pickled one opens its file again."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Callable, Iterator
from io import TextIOWrapper
from typing import Any, BinaryIO, TextIO

from ..base import ArgumentError, CheckError, MXNetError, NoSuchFile, NoSuchKey, UnwritableFile
from ..core.atomic import named_errors, require_other_files
from ..core.interrupts import from_handler
from ..core.locks import lock_for_process
from .frames import frames
from .record_reader import WINDOW, RecordReader

__all__ = ["MXIndexedRecordIO", "MXRecordIO"]

_MAX_OFFSET = 1 << 62
"""Larger than the offset of any file, and small enough for the arithmetic of the system."""


def _open_to_write(path: str) -> BinaryIO:
    """The file, with its old content until `_empty`; no other process may be writing it."""
    with named_errors(path):
        file = open(path, "wb", buffering=WINDOW, opener=lambda name, flags: os.open(
            name, flags & ~os.O_TRUNC, 0o666))
        if not lock_for_process(file):
            file.close()
            raise UnwritableFile(f"{path}: cannot be written: another process is writing it")
        return file


def _empty(path: str, file: BinaryIO) -> None:
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):    # and no pipe
        with named_errors(path):
            file.truncate(0)


class MXRecordIO:
    r"""A file of records, read or written in sequence.

    Parameters
    ----------
    uri : str or os.PathLike
        Path of the file.
    flag : {'r', 'w'}
        'r' reads; 'w' writes, and empties an existing file.
    strict : bool, default True
        Whether damage raises `DamagedRecord`.  Otherwise `read` continues with the next intact
        record, and `lost` counts the damaged stretches.

    Raises
    ------
    ArgumentError
        For another flag.
    MXNetError
        If the file cannot be opened.

    Notes
    -----
    Threads may share a reader: each record is read by one of them.  A reader also works in forked
    processes and can be pickled (the copy starts at the first record); a writer cannot.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "a.rec")
    ...     with mx.recordio.MXRecordIO(path, "w") as writer:
    ...         for number in range(3):
    ...             writer.write(bytes([number]))
    ...     with mx.recordio.MXRecordIO(path, "r") as reader:
    ...         print(list(reader))
    [b'\x00', b'\x01', b'\x02']
    """

    def __init__(self, uri: str | os.PathLike[str], flag: str, *, strict: bool = True):
        self.uri, self.flag, self.strict = os.fspath(uri), flag, strict
        self.handle: RecordReader | BinaryIO | None = None
        self.pid: int | None = None
        self.is_open = False
        self.writable = False
        self.open()

    def open(self) -> None:
        """Open the file; a writer empties it."""
        if self.flag not in ("r", "w"):
            raise ArgumentError(f"{self.uri}: Invalid flag {self.flag!r}, expected 'r' or 'w'")
        self.writable = self.flag == "w"
        path = self.uri.removeprefix("file://")
        if self.writable:
            self.handle = _open_to_write(path)
            _empty(path, self.handle)
            self._written = 0
        else:
            self.handle = RecordReader(path, self.strict)
        self.pid, self.is_open = os.getpid(), True

    def close(self) -> None:
        """Close the file; closing it again has no effect."""
        if not self.is_open:
            return
        self.is_open, handle, self.handle = False, self.handle, None
        if isinstance(handle, RecordReader):
            handle.source.close()
        elif handle is not None and self.pid == os.getpid():
            with named_errors(self.uri):
                handle.close()

    def reset(self) -> None:
        """Open the file again, a reader at the first record, a writer as an empty file."""
        self.close()
        self.open()

    def read(self) -> bytes | None:
        """Read the next record.

        Returns
        -------
        bytes or None
            The record; None at the end of the file.

        Raises
        ------
        DamagedRecord
            If the file is damaged and `strict` is set.
        """
        handle = self.handle
        data = next(handle.window, None) if type(handle) is RecordReader else None
        return self._reader().next() if data is None else data

    def read_at(self, offset: int) -> bytes:
        """Read the record at an offset; any number of threads may do so at once.

        Parameters
        ----------
        offset : int
            Start of the record in bytes.

        Raises
        ------
        MXNetError
            If there is no intact record.
        """
        data = self._reader().at(offset)
        if data is None:
            raise MXNetError(f"{self.uri}: expected a record at offset {offset}, found the end of "
                             "the file")
        return data

    def first_bytes(self, offset: int, count: int) -> bytes:
        """Return the first bytes of the record at an offset, or all of it if it is shorter.

        Parameters
        ----------
        offset : int
            Start of the record in bytes.
        count : int
            Number of bytes.
        """
        return self._reader().chain.first_bytes(offset, count)

    def size(self) -> int:
        """Return the length of the file in bytes; of a reader only."""
        return self._reader().source.size()

    def offsets(self) -> Iterator[int]:
        """Iterate over the starts of the records, reading only their headers.

        Raises
        ------
        DamagedRecord
            If the file is damaged.
        """
        return self._reader().chain.starts()

    def write(self, buf: bytes | bytearray | memoryview) -> None:
        """Append a record.

        Parameters
        ----------
        buf : bytes, bytearray or memoryview
            Contents of fewer than 2**29 bytes.

        Raises
        ------
        TypeError
            For anything else.
        MXNetError
            If the file was not opened with 'w', or in another process.
        """
        try:
            data = bytes(memoryview(buf))
        except TypeError:
            raise TypeError(f"write: {self.uri}: expected bytes, got {type(buf).__name__}"
                            ) from None
        file = self._writer()
        try:
            for piece in frames(data):
                file.write(piece)
                self._written += len(piece)
        except OSError as error:
            if from_handler(error):
                raise
            raise UnwritableFile.because(self.uri, error) from error

    def tell(self) -> int:
        """Return the offset of the next record in bytes."""
        if self.writable:
            self._writer()
            return self._written
        return self._reader().position

    @property
    def lost(self) -> int:
        """Number of damaged stretches that reading has skipped; each cost at least one record."""
        return self._reader().chain.lost

    def _reader(self) -> RecordReader:
        if not isinstance(self.handle, RecordReader):
            raise CheckError(f"{self.uri}: cannot be read, it was "
                             + ("opened with flag 'w'" if self.is_open else "closed"))
        return self.handle

    def _writer(self) -> BinaryIO:
        if self.handle is None or isinstance(self.handle, RecordReader):
            raise CheckError(f"{self.uri}: cannot be written, it was "
                             + ("opened with flag 'r'" if self.is_open else "closed"))
        if self.pid != os.getpid():
            raise MXNetError(f"{self.uri}: Forbidden operation in multiple processes: the file "
                             "was opened for writing in another one")
        return self.handle

    def __iter__(self) -> Iterator[bytes]:
        """The remaining records."""
        return iter(self.read, None)

    def __enter__(self) -> MXRecordIO:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "is_open", False):
            try:
                self.close()
            except UnwritableFile as error:
                logging.getLogger(__name__).error("%s; the writer was not closed", error)

    def __getstate__(self) -> dict[str, Any]:
        if self.writable:
            raise MXNetError(f"{self.uri}: a writer cannot be pickled: opened once more, it would "
                             "empty the file")
        return self.__dict__ | {"handle": None, "pid": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self.is_open:
            self.open()


class MXIndexedRecordIO(MXRecordIO):
    """A file of records with keys, whose positions are stored in an index.

    Parameters
    ----------
    idx_path : str or os.PathLike
        Path of the index, which has lines of key, tab, offset.
    uri : str or os.PathLike
        Path of the record file.
    flag : {'r', 'w'}
        'r' reads; 'w' writes, and empties existing files.
    key_type : callable, default int
        Function that makes a key of the text in the index.
    strict : bool, default True
        Whether damage raises `DamagedRecord`, see `MXRecordIO`.  `read_idx` always does.

    Attributes
    ----------
    idx : dict
        Offsets by key.
    keys : list
        Keys in the order of the index.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     paths = os.path.join(folder, "a.idx"), os.path.join(folder, "a.rec")
    ...     with mx.recordio.MXIndexedRecordIO(*paths, "w") as writer:
    ...         writer.write_idx(7, b"seven")
    ...         writer.write_idx(9, b"nine")
    ...     with mx.recordio.MXIndexedRecordIO(*paths, "r") as reader:
    ...         print(reader.keys, reader.read_idx(9))
    [7, 9] b'nine'
    """

    def __init__(self, idx_path: str | os.PathLike[str], uri: str | os.PathLike[str], flag: str,
                 key_type: Callable[[Any], Any] = int, *, strict: bool = True):
        self.idx_path, self.key_type = os.fspath(idx_path), key_type
        self.idx: dict[Any, int] = {}
        self.keys: list[Any] = []
        self.fidx: TextIO | None = None
        super().__init__(uri, flag, strict=strict)

    def open(self) -> None:
        """Open both files; a writer empties them."""
        if self.flag == "w":
            self._open_both_to_write()
            return
        super().open()
        self.keys, offsets = read_index(self.idx_path, self.uri, self.key_type)
        self.idx = dict(zip(self.keys, offsets, strict=True))

    def _open_both_to_write(self) -> None:
        """Empty both files, or none if one of them cannot be written."""
        require_other_files([self.idx_path, self.uri.removeprefix("file://")], [])
        is_new = not os.path.exists(self.idx_path)
        index = _open_to_write(self.idx_path)
        try:
            super().open()
        except BaseException:
            index.close()
            if is_new:
                os.remove(self.idx_path)
            raise
        _empty(self.idx_path, index)
        self.fidx = TextIOWrapper(index, encoding="utf-8")
        self.idx, self.keys = {}, []

    def close(self) -> None:
        """Close both files; closing them again has no effect."""
        index, self.fidx = self.fidx, None
        try:
            super().close()
        finally:
            if index is not None and self.pid == os.getpid():
                with named_errors(self.idx_path):
                    index.close()

    def seek(self, idx: Any) -> None:
        """Continue reading with the record of a key.

        Parameters
        ----------
        idx : int
            Key.

        Raises
        ------
        KeyError
            If the index has no such key.
        """
        self._reader().go(self._offset(idx))

    def read_idx(self, idx: Any) -> bytes:
        """Read the record of a key; any number of threads may do so at once.

        Parameters
        ----------
        idx : int
            Key.

        Raises
        ------
        KeyError
            If the index has no such key.
        MXNetError
            If there is no intact record at its offset.
        """
        offset = self._offset(idx)
        data = self._reader().at(offset)
        if data is None:
            raise MXNetError(f"{self.uri}: key {idx!r} should start at offset {offset} by "
                             f"{self.idx_path}, found the end of the file; rec2idx rebuilds "
                             "the index")
        return data

    def write_idx(self, idx: Any, buf: bytes | bytearray | memoryview) -> None:
        """Append a record under a key.

        Parameters
        ----------
        idx : int
            Key.
        buf : bytes, bytearray or memoryview
            Contents of fewer than 2**29 bytes.
        """
        key, position = self.key_type(idx), self.tell()
        self.write(buf)
        assert self.fidx is not None
        try:
            self.fidx.write(f"{key}\t{position}\n")
        except OSError as error:
            if from_handler(error):
                raise
            raise UnwritableFile.because(self.idx_path, error) from error
        self.idx[key] = position
        self.keys.append(key)

    def _offset(self, idx: Any) -> int:
        self._reader()
        try:
            return self.idx[idx]
        except KeyError:
            raise NoSuchKey(f"{self.idx_path} has no key {idx!r}; it has {self._key_range()}"
                            ) from None

    def _key_range(self) -> str:
        """The keys in words: MXNet's tools count from 0, other writers from 1."""
        count = len(self.idx)
        if not count:
            return "no keys: the file of records is empty"
        least, greatest = min(self.idx), max(self.idx)
        named = f"key {least}" if count == 1 else f"keys {least} to {greatest}"
        gaps = isinstance(least, int) and greatest - least >= count
        return f"{named}, {count} of them" if gaps else named

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"fidx": None}


def read_index(path: str, record: str, key_type: Callable[[Any], Any]
                ) -> tuple[list[Any], list[int]]:
    """Read an index file.

    Parameters
    ----------
    path : str
        Name of the index.
    record : str
        Name of the file of records, for the error message.
    key_type : callable
        Makes a key of its text.

    Returns
    -------
    keys, offsets : list
        Keys, and where their records begin.

    Raises
    ------
    MXNetError
        If it cannot be read, or a line is malformed; names the line.
    """
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            text = file.read()
    except OSError as error:
        if from_handler(error):
            raise
        raise NoSuchFile(f"{path}: the index cannot be read: {error.strerror}; `nbmod "
                       f"rec2idx {record} {path}` rebuilds it") from error
    fields = text.rstrip("\n").replace("\n", "\t").split("\t") if text else []
    try:
        keys, offsets = list(map(key_type, fields[::2])), list(map(int, fields[1::2]))
        inside = not offsets or min(offsets) >= 0 and max(offsets) < _MAX_OFFSET
        if len(keys) == len(offsets) and inside:
            return keys, offsets
    except ValueError:
        pass
    return _read_lines(path, text, key_type)


def _read_lines(path: str, text: str, key_type: Callable[[Any], Any]
                ) -> tuple[list[Any], list[int]]:
    """Read an index line by line: skip blank lines, name a malformed one in the error."""
    keys, offsets = [], []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        key, tab, offset = line.partition("\t")
        try:
            if not offset.strip().isdecimal() or int(offset) >= _MAX_OFFSET:
                raise ValueError
            keys.append(key_type(key))
            offsets.append(int(offset))
        except ValueError:
            raise MXNetError(f"{path}, line {number}: expected a key, a tab and an offset, found "
                             f"{line[:80]!r}") from None
    return keys, offsets
