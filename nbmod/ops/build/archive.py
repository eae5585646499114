"""Archives of compiled kernels, for containers and for machines with the same instruction sets.

An archive is a tar file with a table of contents and the files of the compile cache (`store`); the
table names the compiler that made them.  Kernels of another compiler would never be loaded, since
it belongs to their names; `install` therefore refuses them and says what differs.
"""

from __future__ import annotations

import io
import json
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...base import MXNetError
from ...core.atomic import atomic_write
from ...core.compressed import most_unpacked, read_decompressed, refusing
from .levels import chosen
from .store import (
    SUFFIX,
    cache_folder,
    compiler_of,
    packed,
    read_kernel,
    unpacked,
    write_kernel,
)

__all__ = ["export", "install"]

CONTENTS = "contents.json"
NAME = re.compile(rf"\w{{1,150}}-[0-9a-f]{{40}}{re.escape(SUFFIX)}", re.ASCII)
MOST = 1 << 26
"""Bytes of a member at most: kernels have 10 to 500 thousand."""
MOST_KERNELS = 1 << 14
EXPECTED = "an archive of `nbmod warmup --export`"


def export(path: str) -> int:
    """Write all kernels of the compile cache to an archive; returns their number.

    The archive is replaced when it is complete; a suffix `.gz` or `.xz` compresses it.  MXNetError
    if it cannot be written.
    """
    suffix = Path(path).suffix.lstrip(".")
    files = sorted(cache_folder().glob(f"*{SUFFIX}"))
    kernels = [(file.name, content) for file in files if (content := read_kernel(file)) is not None]
    contents = {"compiler": compiler_of(level=chosen()), "kernels": [name for name, _ in kernels]}
    mode: Any = f"w:{suffix if suffix in ('gz', 'xz') else ''}"
    with atomic_write(path) as file, tarfile.open(fileobj=file, mode=mode) as archive:
        _add(archive, CONTENTS, json.dumps(contents, indent=1).encode())
        for name, content in kernels:
            _add(archive, name, packed(content))
    return len(kernels)


def install(path: str) -> int:
    """Add the kernels of an archive of `export` to the compile cache; returns their number.

    Compiled kernels are code that this process will run: install only what you have made.
    MXNetError if the file is no such archive or is damaged, or if its kernels were compiled by
    other versions, for other instruction sets or with other settings.  Nothing is installed then.
    """
    with refusing(path, EXPECTED):
        content = read_decompressed(path, EXPECTED, most_unpacked(path))
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
            members = dict(_members(archive, path))
        contents = json.loads(members.pop(CONTENTS) or b"")
        theirs, names = contents["compiler"], contents["kernels"]
        _require_same_compiler(theirs, path)
        kernels = {name: members.get(name) for name in names}
    damaged = [name for name, kernel in kernels.items() if kernel is None]
    if damaged:
        raise MXNetError(f"{path}: {len(damaged)} of {len(kernels)} kernels are damaged or "
                         f"missing, such as {damaged[0]}; nothing is installed")
    for name, kernel in kernels.items():
        assert kernel is not None
        write_kernel(cache_folder() / name, kernel)
    return len(kernels)


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    """A member without time and owner: equal kernels make equal archives."""
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(data), 0o600
    archive.addfile(member, io.BytesIO(data))


def _members(archive: tarfile.TarFile, path: str) -> Iterator[tuple[str, bytes | None]]:
    """Names and contents; no member is written under a path of its own choice."""
    for number, member in enumerate(archive):
        file = archive.extractfile(member) if member.isreg() else None
        known = member.name == CONTENTS or NAME.fullmatch(member.name)
        if file is None or not known or member.size > MOST:
            raise MXNetError(f"{path}: {member.name[:99]!r} is no compiled kernel; nothing is "
                             "installed")
        if number > MOST_KERNELS:
            raise MXNetError(f"{path}: more than {MOST_KERNELS} kernels; nothing is installed")
        data = file.read()
        yield member.name, data if member.name == CONTENTS else unpacked(data)


def _require_same_compiler(theirs: dict[str, str], path: str) -> None:
    """MXNetError unless this process could have compiled the kernels."""
    ours = compiler_of(level=chosen())
    differing = [name for name in ours if theirs.get(name) != ours[name]]
    if differing:
        differences = "; ".join(f"{name}: {_difference(str(theirs.get(name)), ours[name])}"
                                for name in differing)
        raise MXNetError(f"{path}: its kernels were compiled for another environment, so they "
                         f"would never be used ({differences}); export them where these are equal")


def _difference(theirs: str, ours: str) -> str:
    """The parts of two descriptions that differ."""
    one, other = theirs.split(), ours.split()
    return (f"{' '.join(each for each in one if each not in other) or 'nothing'} in the archive, "
            f"{' '.join(each for each in other if each not in one) or 'nothing'} here")
