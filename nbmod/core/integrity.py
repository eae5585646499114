"""Checksums of a checkpoint: `<prefix>-<epoch:04d>.sha256`, which `sha256sum -c` reads, too.

Each line has the SHA-256 of a file, two spaces and the name of the file, which is in the same
folder.  MXNet ignores the file, and so does nbmod unless it is asked to verify.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from ..base import MXNetError
from .atomic import atomic_write, finish_sets, latest, replacing_together

__all__ = ["renew_checksum", "saving_together", "verify_checkpoint"]

_LINE = re.compile(rb"([0-9a-f]{64})  ([^/\\\n]+)\n")


KINDS = ("params", "states", "resume")
"""Suffixes of the files of one epoch."""


@contextmanager
def saving_together(stem: str, networks: Iterable[str], integrity: bool) -> Iterator[None]:
    """A block that writes a checkpoint, whose files replace the old ones together at its end.

    `stem` is the beginning of the names of the epoch's files, such as ``net-0007``, `networks` are
    files of networks.  Existing checksums are brought up to date also if `integrity` is False.
    """
    with replacing_together():
        yield
        if integrity or os.path.exists(f"{stem}.sha256"):
            files = [*networks, *(f"{stem}.{kind}" for kind in KINDS)]
            _write(f"{stem}.sha256", {os.path.basename(file).encode(): _digest(file)
                                      for file in files if os.path.exists(latest(file))})


def renew_checksum(stem: str, file: str) -> None:
    """Bring the checksum of a file that was written again up to date, if `stem` has checksums."""
    sums, name = f"{stem}.sha256", os.path.basename(file).encode()
    if os.path.exists(sums) and name in (known := _read(sums)):
        _write(sums, known | {name: _digest(file)})


def verify_checkpoint(prefix: str, epoch: int) -> None:
    """Compare the files of a checkpoint with the checksums that were written with it.

    Every bit that differs is found, in the file of checksums, too.

    Parameters
    ----------
    prefix : str
        Beginning of the file names, as given to `save_checkpoint`.
    epoch : int
        Number of the checkpoint.

    Raises
    ------
    MXNetError
        If there are no checksums, or with the names of the files that are damaged or missing.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     prefix = os.path.join(folder, "net")
    ...     mx.model.save_checkpoint(prefix, 1, mx.sym.Variable("data"), {}, {}, integrity=True)
    ...     mx.model.verify_checkpoint(prefix, 1)
    ...     sorted(os.listdir(folder))
    ['net-0001.params', 'net-0001.sha256', 'net-symbol.json']
    """
    finish_sets(os.path.dirname(prefix))
    sums = f"{prefix}-{epoch:04d}.sha256"
    if not os.path.exists(sums):
        raise MXNetError(f"{sums}: there are no checksums to verify; save_checkpoint(..., "
                         "integrity=True) writes them")
    wrong = []
    for name, digest in _read(sums).items():
        path = os.path.join(os.path.dirname(prefix), os.fsdecode(name))
        if not os.path.isfile(path):
            wrong.append(f"{path} is missing")
        elif _digest(path) != digest:
            wrong.append(f"{path} is not what was saved")
    if wrong:
        raise MXNetError(f"{sums}: {'; '.join(wrong)}. Use another epoch or a copy; a file that "
                         "was changed on purpose needs a new checksum")


def _write(sums: str, digests: dict[bytes, bytes]) -> None:
    with atomic_write(sums) as stream:
        stream.writelines(digest + b"  " + name + b"\n" for name, digest in digests.items())


def _read(sums: str) -> dict[bytes, bytes]:
    """Digests by file name."""
    with open(sums, "rb") as stream:
        content = stream.read()
    checksums = {match[2]: match[1] for match in _LINE.finditer(content)}
    if not checksums or b"".join(digest + b"  " + name + b"\n"
                                 for name, digest in checksums.items()) != content:
        raise MXNetError(f"{sums}: damaged: expected lines of a SHA-256, two spaces and a file "
                         "name")
    return checksums


def _digest(file: str) -> bytes:
    digest = hashlib.sha256()
    with open(latest(file), "rb") as stream:
        while content := stream.read(1 << 20):
            digest.update(content)
    return digest.hexdigest().encode()
