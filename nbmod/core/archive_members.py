"""Members of tar and zip archives, read into memory: nothing is ever unpacked to the disk.

Archives come from anywhere, and their parsers trust them.  So whatever an archive could do to a
program that unpacks it is refused: names outside its folder, links and devices, names twice, more
members, deeper nesting or more bytes than a model has.  An archive in an archive counts as part of
it, and its members are those of a folder of its name.
"""

from __future__ import annotations

import io
import os
import re
import stat
import tarfile
import zipfile
from typing import NoReturn

from ..base import MXNetError
from .compressed import decompressed, most_unpacked, refusing, require_plausible
from .foreign import SUFFIXES

__all__ = ["EXPECTED", "is_archive", "read_members"]

EXPECTED = "a tar or zip archive"
ARCHIVE_NAME = re.compile(r".*\.(tar|tgz|tbz2?|txz|tar\.(gz|bz2|xz)|zip|mar)", re.IGNORECASE)
MEMBERS = 10_000
"""Most members of an archive, those of archives in it included."""
DEPTH = 3
"""Most archives in one another."""
COMPRESSED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0")
ZIP, ZIP_ENTRY = b"PK\x03\x04", b"PK\x01\x02"
TAR, TAR_AT, BLOCK = b"ustar", 257, 512
ZIP_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2}
"""Ways of compression whose memory is bounded."""
ENCRYPTED_BIT = 0x1


def is_archive(path: str | os.PathLike[str]) -> bool:
    """Tell whether a file is called, or begins like, a tar or zip archive.

    Files of other formats that are zip files are none.
    """
    name = os.fspath(path)
    if not os.path.isfile(name):
        return False
    if ARCHIVE_NAME.fullmatch(os.path.basename(name)):
        return True
    if os.path.splitext(name)[1].lower() in SUFFIXES:
        return False
    try:
        with open(name, "rb") as stream:
            return _begins_like_one(stream.read(BLOCK))
    except OSError:
        return False


def _begins_like_one(head: bytes) -> bool:
    return head.startswith((ZIP, *COMPRESSED)) or head[TAR_AT:TAR_AT + len(TAR)] == TAR


def read_members(path: str | os.PathLike[str]) -> dict[str, memoryview]:
    """Read all files in an archive: contents by name, in the order of the archive.

    Those of an archive in it, such as ``model_algo-1``, are named ``model_algo-1/<name>``.
    MXNetError if it cannot be read, is damaged, or has what no archive of a model has: a name that
    leaves its folder or is there twice, a link, a device, an encrypted member, too many members or
    bytes.
    """
    name = os.fspath(path)
    reading = _Reading(name)
    with refusing(name, EXPECTED):
        with open(name, "rb") as stream:
            content = stream.read()
        reading.add(content, "", 1)
    return reading.files


class _Reading:
    """Files of one archive so far, and what they have cost."""

    def __init__(self, path: str):
        self.path, self.files = path, dict[str, memoryview]()
        self.count, self.unpacked, self.most = 0, 0, most_unpacked(path)

    def add(self, content: bytes, within: str, depth: int) -> None:
        """Read an archive, whose members are in the folder `within`."""
        if depth > DEPTH:
            self.refuse(within.rstrip("/"), f"more than {DEPTH} archives are in one another")
        if content.startswith(ZIP) or content.startswith(b"PK\x05\x06"):
            self.add_zip(content, within, depth)
            return
        plain = decompressed(content, self.most - self.unpacked)
        if plain is not content:
            self.take(len(plain))
        self.add_tar(plain, within, depth)

    def add_tar(self, content: bytes, within: str, depth: int) -> None:
        end = 0
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
            for member in archive:
                name = self.checked(member.name, within)
                end = member.offset_data
                if member.isdir():
                    continue
                if not member.isreg() or member.issparse():
                    self.refuse(name, f"it is {_kind(member)}, expected a file")
                end += member.size
                data = memoryview(content)[member.offset_data:end]
                if member.size < 0 or len(data) < member.size:
                    raise ValueError(f"{name!r} has {member.size} bytes, {len(data)} are there")
                self.add_file(name, data, depth)
        end += -end % BLOCK
        if content[end:end + BLOCK].strip(b"\0") or len(content) < end + BLOCK:
            raise ValueError(f"it does not end after its last member, at byte {end}")

    def add_zip(self, content: bytes, within: str, depth: int) -> None:
        # Before `zipfile` makes an object of each.
        if content.count(ZIP_ENTRY) > MEMBERS:
            self.refuse(within.rstrip("/"), f"it has more than {MEMBERS} members")
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = archive.infolist()
            self.take(sum(entry.file_size for entry in entries))
            for entry in entries:
                name = self.checked(entry.orig_filename, within)
                kind = stat.S_IFMT(entry.external_attr >> 16)
                if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                    self.refuse(name, "it is a link or a device, expected a file")
                if entry.flag_bits & ENCRYPTED_BIT:
                    self.refuse(name, "it is encrypted: unpack the archive with its password")
                if entry.compress_type not in ZIP_METHODS:
                    self.refuse(name, "its compression is not deflate or bzip2")
                if entry.is_dir() or kind == stat.S_IFDIR:
                    continue
                with archive.open(entry) as stream:
                    data = stream.read(entry.file_size + 1)
                if len(data) != entry.file_size:
                    raise ValueError(f"{name!r} has {len(data)} bytes, {entry.file_size} are "
                                     "declared")
                self.add_file(name, memoryview(data), depth)

    def add_file(self, name: str, data: memoryview, depth: int) -> None:
        """Keep a file, or what is in it if it is an archive."""
        base = name.rpartition("/")[2]
        if "__MACOSX" in name.split("/") or base.startswith("._"):    # attributes of macOS
            return
        head = bytes(data[:BLOCK])
        named = ARCHIVE_NAME.fullmatch(base) or not os.path.splitext(base)[1]
        if named and _begins_like_one(head):
            with refusing(f"{self.path}: {name}", EXPECTED):
                self.add(bytes(data), f"{name}/", depth + 1)
            return
        if name in self.files:
            self.refuse(name, "it is there twice")
        self.files[name] = data

    def checked(self, name: str, within: str) -> str:
        """The name of one more member in its archive."""
        self.count += 1
        if self.count > MEMBERS:
            self.refuse(within.rstrip("/"), f"it has more than {MEMBERS} members")
        parts = [part for part in name.replace("\\", "/").split("/") if part not in ("", ".")]
        if (name.startswith(("/", "\\")) or ".." in parts or "\0" in name
                or re.match(r"[A-Za-z]:", name)):
            self.refuse(name, "its name leads out of the archive")
        return within + "/".join(parts)

    def take(self, nbytes: int) -> None:
        self.unpacked += nbytes
        require_plausible(self.path, self.unpacked, self.most)

    def refuse(self, name: str, reason: str) -> NoReturn:
        where = f": {name[:99]!r}" if name else ""
        raise MXNetError(f"{self.path}{where}: refused, as {reason}; nothing is unpacked")


def _kind(member: tarfile.TarInfo) -> str:
    if member.issym() or member.islnk():
        return f"a link to {member.linkname[:99]!r}"
    return "a sparse file" if member.issparse() else "a device or a pipe"
