"""Files that are written whole or not at all, alone or as a set.

`atomic_write` writes a temporary file beside the file that it replaces.  In a block of
`replacing_together` the replacements wait for its end, so that a process that is killed while it
writes leaves the old set.

A set is a transaction.  Before its first rename, a journal in the folder lists all of them; each
old file is kept under another name until the last rename.  A rename that fails puts the old files
back.  If the process is killed between two renames, `finish_sets` does the others: the journal is
only written when all contents are on the disk.

Temporary files and journals are locked as long as their process lives.  Whoever writes to the same
folder later finishes the sets and removes the temporary files of killed processes.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from typing import BinaryIO

from ..base import MXNetError, UnwritableFile, warn_user
from .interrupts import deferred, from_handler
from .locks import folder_locked, try_lock

__all__ = ["adopt", "atomic_write", "finish_sets", "latest", "named_errors", "opener_for",
           "replacing_together", "require_other_files", "require_writable"]

Path = str | os.PathLike[str]
_OURS = re.compile(r"(.+)\.nbmod-([0-9a-f]{12})\.(tmp|set|old)")


def _new_file(target: str, kind: str) -> tuple[str, BinaryIO]:
    """A new file beside `target` that is locked; `_sweep` may remove one before it is."""
    while True:
        name = f"{target}.nbmod-{os.urandom(6).hex()}.{kind}"
        stream = open(name, "xb", opener=opener_for(target))
        if os.name == "nt" and kind == "tmp":    # Windows keeps open files, and locks would keep
            return name, stream                  # readers out
        if try_lock(stream) and os.path.exists(name):
            return name, stream
        stream.close()


def opener_for(target: Path) -> Callable[[str, int], int]:
    """An opener of files with a new content of `target`.

    Only their owner may read them until they replace an existing file, which others may not be
    allowed to read.
    """
    mode = 0o600 if os.path.exists(target) else 0o666
    return lambda path, flags: os.open(path, flags, mode)


class _Replacement:
    """A new content of the file `target`, in the file `source` of the same folder."""

    def __init__(self, target: str, source: str, stream: BinaryIO, temporary: bool = True):
        self.target, self.source, self.stream = target, source, stream
        self.temporary = temporary
        self.old = ""

    def store(self) -> None:
        """Let the content reach the disk."""
        self.stream.flush()
        os.fsync(self.stream.fileno())

    def keep_old(self, number: str) -> None:
        """Give the target another name as well, or instead where files have one name only."""
        if not os.path.lexists(self.target):
            return
        if os.path.isdir(self.target):    # which has no second name, but could be moved
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), self.target)
        old = _old_name(self.target, number)
        try:
            os.link(self.target, old)
        except OSError:
            os.replace(self.target, old)
        self.old = old

    def publish(self) -> None:
        """Replace the target, under the lock where an open file can get another name."""
        if os.name == "nt":
            self.stream.close()
        _rename(self.source, self.target, self.old)
        self.stream.close()

    def restore(self) -> None:
        """Let the target be as it was before `keep_old`."""
        if self.old:
            os.replace(self.old, self.target)
        else:
            with suppress(FileNotFoundError):
                os.remove(self.target)

    def discard(self) -> None:
        """Remove the temporary file, if it is there still."""
        with suppress(OSError):
            self.stream.close()
        if self.temporary:
            with suppress(OSError):
                os.remove(self.source)


def _old_name(target: str, number: str) -> str:
    return f"{target}.nbmod-{number}.old"


def _rename(source: str, target: str, old: str) -> None:
    """Replace the target by the source; the same people may read and write it as before."""
    like = next((path for path in (target, old) if os.path.exists(path)), None)
    if like is not None:
        status, own = os.stat(like), os.stat(source)
        if (status.st_uid, status.st_gid) != (own.st_uid, own.st_gid):
            with suppress(OSError):    # only root may give files away
                os.chown(source, status.st_uid, status.st_gid)
        shutil.copymode(like, source)
    os.replace(source, target)


_set: ContextVar[dict[str, _Replacement] | None] = ContextVar("_set", default=None)
"""In a `replacing_together` block: replacements by target."""


@contextmanager
def atomic_write(path: Path) -> Iterator[BinaryIO]:
    """A binary stream whose content replaces the file `path` if the block succeeds.

    Until then it is a temporary file in the same folder, which is removed if the block raises.
    Symbolic links are followed; a device or pipe is written directly.
    Raises MXNetError where the file system refuses, at the beginning if it refuses all files.
    """
    target = os.path.realpath(os.fspath(path))
    with named_errors(path):
        if os.path.exists(target) and not stat.S_ISREG(os.stat(target).st_mode):
            with open(target, "wb") as stream:
                yield stream
            return
        _sweep(os.path.dirname(target))
        replacement = _Replacement(target, *_new_file(target, "tmp"))
        with _replacing(replacement):
            yield replacement.stream


@contextmanager
def named_errors(path: Path | None = None) -> Iterator[None]:
    """Errors of the file system name `path`, or else their own file, once."""
    try:
        yield
    except UnwritableFile:
        raise
    except OSError as error:
        if from_handler(error):
            raise
        named = error.filename2 or error.filename if path is None else path
        raise UnwritableFile.because(named, error) from error


@contextmanager
def _replacing(replacement: _Replacement) -> Iterator[None]:
    """A block that writes the replacement, which takes effect at the end of it or of the set."""
    try:
        yield
        replacement.store()
        waiting = _set.get()
        if waiting is None:
            _publish([replacement])
            return
    except BaseException:
        replacement.discard()
        raise
    before = waiting.pop(replacement.target, None)
    waiting[replacement.target] = replacement
    if before is not None:
        before.discard()


def adopt(draft: Path, path: Path) -> None:
    """Let a complete file of the same file system replace the file `path`.

    If that fails, a draft of the same folder stays where it is.
    Raises MXNetError where the file system refuses.
    """
    target, source = (os.path.realpath(os.fspath(name)) for name in (path, draft))
    is_beside = os.path.dirname(source) == os.path.dirname(target)
    with named_errors(path):
        stream: BinaryIO = open(source, "r+b")
        if not is_beside:
            source, stream = _moved(source, stream, target)
        with _replacing(_Replacement(target, source, stream, temporary=not is_beside)):
            pass


def _moved(source: str, stream: BinaryIO, target: str) -> tuple[str, BinaryIO]:
    """The open file `source`, locked, under the name of a temporary file beside `target`."""
    name, placeholder = _new_file(target, "tmp")
    placeholder.close()
    if os.path.exists(target):
        os.chmod(source, 0o600)
    if os.name == "nt":    # which renames no open files
        stream.close()
        os.replace(source, name)
        return name, open(name, "r+b")
    try_lock(stream)
    os.replace(source, name)
    return name, stream


@contextmanager
def replacing_together() -> Iterator[None]:
    """A block whose files replace the old ones at its end; none of them does if it raises.

    The file that is written first is the last one to be replaced: where it is new, the others are
    there, too.
    Raises MXNetError where the file system refuses; the old files are there then.
    """
    waiting: dict[str, _Replacement] = {}
    token = _set.set(waiting)
    try:
        with named_errors():
            yield
            _publish([*reversed(waiting.values())])
    finally:
        _set.reset(token)
        for replacement in waiting.values():
            replacement.discard()


def latest(path: Path) -> str:
    """Where the content of `path` is: within `replacing_together`, that which is to replace it."""
    waiting = _set.get() or {}
    replacement = waiting.get(os.path.realpath(os.fspath(path)))
    return os.fspath(path) if replacement is None else replacement.source


def require_other_files(targets: Collection[Path], sources: Iterable[Path]) -> None:
    """Raise MXNetError if a file to be written is a source, or two of them are one file.

    Targets include files with derived names; sources include files that belong to them.
    """
    names: dict[object, Path] = {}
    for target in targets:
        identity = _identity(target)
        if identity in names:
            raise MXNetError(f"{os.fspath(target)}: not written, as it is the same file as "
                             f"{os.fspath(names[identity])}; choose another name")
        names[identity] = target
    for source in sources:
        written = names.get(_identity(source))
        if written is not None:
            name = "" if os.fspath(written) == os.fspath(source) else f", as {os.fspath(source)}"
            raise MXNetError(f"{os.fspath(written)}: not written, as it is read here{name}, or "
                             "belongs to what is read; choose another name")


def require_writable(path: Path, regular: bool = False) -> None:
    """Raise MXNetError if the file, which may have to be regular, cannot be written."""
    target = os.path.realpath(os.fspath(path))
    with named_errors(path):
        if os.path.isdir(target):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), target)
        if not os.path.exists(target) or os.path.isfile(target):
            name, stream = _new_file(target, "tmp")
            stream.close()
            os.remove(name)
        elif regular:
            raise MXNetError(f"{os.fspath(path)}: not written, as it is a device or a pipe")


def _identity(path: Path) -> object:
    """Equal for all names of a file."""
    try:
        status = os.stat(path)
        return status.st_dev, status.st_ino
    except OSError:
        return os.path.realpath(path)
    except ValueError:      # a null byte is in no name of a file
        return os.fspath(path)


# ---------------------------------------------------------------------------------- transactions

class _Journal:
    """The renames of a set in one folder, in a file that exists until all of them are done."""

    def __init__(self, replacements: list[_Replacement]):
        self.replacements = replacements
        self.path, self.stream = _new_file(replacements[0].target, "set")
        self.number = _number(self.path)
        pairs = [[os.path.basename(name) for name in (one.source, one.target)]
                 for one in replacements]
        try:
            self._store(json.dumps(pairs).encode())
        except BaseException:
            self.end()
            raise

    def _store(self, content: bytes) -> None:
        self.stream.seek(0)
        self.stream.truncate()
        self.stream.write(content)
        self.stream.flush()
        os.fsync(self.stream.fileno())

    def take_back(self) -> None:
        """From now on the old files are to be put back, whoever does so."""
        with suppress(OSError):    # a disk that fails must not keep them from being put back now
            self._store(b"")

    def end(self) -> None:
        """Remove the old files and the journal."""
        with suppress(OSError):
            for one in self.replacements:
                if one.old and os.path.exists(one.old):
                    os.remove(one.old)
            if os.name == "nt":
                self.stream.close()
            os.remove(self.path)
        self.stream.close()


def _number(path: str) -> str:
    match = _OURS.fullmatch(os.path.basename(path))
    assert match
    return match[2]


def _publish(replacements: list[_Replacement]) -> None:
    """Replace all files or none, while no other process replaces files of these folders."""
    folders: dict[str, list[_Replacement]] = {}
    for one in replacements:
        folders.setdefault(os.path.dirname(one.target), []).append(one)
    with deferred(), ExitStack() as locks:
        for folder in sorted(folders):
            locks.enter_context(folder_locked(folder))
            for journal in _left(folder, "set"):
                _finish(journal)
        if len(replacements) > 1:
            _publish_set(folders, replacements)
        else:
            for one in replacements:
                one.publish()
            _sync(folders)


def _publish_set(folders: Mapping[str, list[_Replacement]], replacements: list[_Replacement]
                 ) -> None:
    """Replace all files or none, with a journal in each of the folders."""
    journals: dict[str, _Journal] = {}
    done: list[_Replacement] = []
    try:
        for folder, those in folders.items():
            journals[folder] = _Journal(those)
        _sync(folders)
        for one in replacements:
            one.keep_old(journals[os.path.dirname(one.target)].number)
            done.append(one)
            one.publish()
        _sync(folders)
    except BaseException:
        _take_back(journals.values(), done)
        raise
    for journal in journals.values():
        journal.end()


def _take_back(journals: Collection[_Journal], done: list[_Replacement]) -> None:
    """Put the old files back.  One that cannot be put back keeps its other name until `_finish`."""
    for journal in journals:
        journal.take_back()
    with ExitStack() as open_journals:
        for journal in journals:
            open_journals.callback(journal.stream.close)
        for one in reversed(done):
            one.restore()
        for journal in journals:
            journal.end()


def _sync(folders: Iterable[str]) -> None:
    """Make the renames themselves durable where the system lets a directory be synced."""
    if os.name != "posix":
        return
    for folder in folders:
        with suppress(OSError):
            handle = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)


# ----------------------------------------------------------------- what killed processes have left

def finish_sets(folder: Path) -> None:
    """Do the renames that killed processes have left, so that all files of a folder are of one set.

    An empty name is the current folder.  A UserWarning says if the file system refuses: files of
    the folder may then be of two sets.
    """
    folder = os.path.realpath(os.fspath(folder) or ".")
    for journal in _left(folder, "set"):
        try:
            with folder_locked(folder), deferred():
                _finish(journal)
        except OSError as error:
            if from_handler(error):
                raise
            warn_user(f"{journal}: a save was cut short, and cannot be completed: "
                      f"{error.strerror or error}; files that it lists may be of two saves")


def _left(folder: str, kind: str, number: str = "") -> list[str]:
    """Files of one kind in the folder, and of one set."""
    with suppress(OSError), os.scandir(folder) as entries:
        return [entry.path for entry in entries if (match := _OURS.fullmatch(entry.name))
                and match[3] == kind and number in ("", match[2])]
    return []


def _finish(journal: str) -> None:
    """Finish a set whose process has ended, or put the old files back if it was about to."""
    try:
        stream = open(journal, "rb")
    except FileNotFoundError:    # the process has ended well
        return
    with stream:
        if not (try_lock(stream, unknown=False) and _is_own(stream) and os.path.exists(journal)):
            return
        folder, number = os.path.dirname(journal), _number(journal)
        for source, target in _pairs(stream.read()):
            source, target = os.path.join(folder, source), os.path.join(folder, target)
            if os.path.exists(source):
                _rename(source, target, _old_name(target, number))
            with suppress(FileNotFoundError):
                os.remove(_old_name(target, number))
        for old in _left(folder, "old", number):
            os.replace(old, old.removesuffix(_old_name("", number)))
            with suppress(FileNotFoundError):    # two names of one file are not replaced
                os.remove(old)
        _sync([folder])
        if os.name != "nt":
            os.remove(journal)
    if os.name == "nt":
        os.remove(journal)


def _is_own(stream: BinaryIO) -> bool:
    """Whether this user has written a file; in a folder for all, anybody could write a journal."""
    return not hasattr(os, "geteuid") or os.fstat(stream.fileno()).st_uid == os.geteuid()


def _pairs(content: bytes) -> list[list[str]]:
    """The renames of a journal; none of one that was not written to its end.

    No file outside the folder is touched, whatever the journal says.
    """
    try:
        pairs = json.loads(content)
        if all(len(pair) == 2 and os.path.basename(name) == name not in ("", ".", "..")
               for pair in pairs for name in pair):
            return [[str(name) for name in pair] for pair in pairs]
    except (ValueError, TypeError, RecursionError):
        pass
    return []


def _sweep(folder: str) -> None:
    """Finish sets, and remove temporary files, of processes that have ended."""
    try:
        for journal in _left(folder, "set"):
            with folder_locked(folder), deferred():
                _finish(journal)
    except OSError as error:
        if from_handler(error):
            raise
        return    # the temporary files of that set have its contents
    if not _left(folder, "set"):
        for temporary in _left(folder, "tmp"):
            with suppress(OSError):
                _remove_if_left(temporary)


def _remove_if_left(temporary: str) -> None:
    if os.name == "nt":    # which removes no open file
        os.remove(temporary)
        return
    with open(temporary, "rb") as stream:
        if try_lock(stream, unknown=False):
            os.remove(temporary)
