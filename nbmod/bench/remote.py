"""Arms in other processes of this Python, such as those of another commit of a project.

A process that has an arm serves it (`serve`), and the one that compares has a `RemoteArm`.  Both
take turns by messages of a few bytes between blocks, so that a round is as short as within one
process, and the time of a block is measured where it runs.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import IO

from ..base import MXNetError
from .rounds import Arm

__all__ = ["SERVE", "RemoteArm", "commit_of", "is_serving", "serve", "served_by", "worktree"]

SERVE = "NBMOD_BENCH_SERVE"
"""The environment variable by which a process learns that it is to serve: port and key."""
PATIENCE = 600.0
"""Seconds that a process may take until it serves: it imports and compiles."""


class RemoteArm:
    """An arm that another process runs.

    Parameters
    ----------
    name : str
        Shown in tables.
    connection : multiprocessing.connection.Connection
        To a process that has called `serve`.
    """

    def __init__(self, name: str, connection: Connection[object, object]) -> None:
        self.name = name
        self._connection = connection

    def time(self, calls: int, turn: int) -> float:
        """Seconds of one of `calls` calls in that process.

        Raises
        ------
        MXNetError
            With the error of that process, or if it has ended.
        """
        try:
            self._connection.send((calls, turn))
            answer = self._connection.recv()
        except (EOFError, OSError):
            raise MXNetError(f"bench: the process of {self.name} has ended") from None
        if not isinstance(answer, float):
            raise MXNetError(f"bench: {self.name}: {answer}")
        return answer


def is_serving() -> bool:
    """Whether this process was started to serve."""
    return SERVE in os.environ


def serve(arm: Arm) -> None:
    """Run an arm for the process that has started this one, until it is done."""
    port, key = os.environ[SERVE].split(":")
    with Client(("127.0.0.1", int(port)), authkey=bytes.fromhex(key)) as connection:
        with contextlib.suppress(EOFError, OSError):
            while True:
                request = connection.recv()
                connection.send(_answer(arm, request))


def _answer(arm: Arm, request: tuple[int, int]) -> float | str:
    try:
        return arm.time(*request)
    except Exception as error:  # told to the process that asked
        return f"{type(error).__name__}: {error}"


@contextlib.contextmanager
def served_by(name: str, command: Sequence[str], cwd: Path,
              environment: Mapping[str, str]) -> Iterator[RemoteArm]:
    """Start a process that serves an arm; it is ended after the block.

    Parameters
    ----------
    name : str
        Shown in tables and errors.
    command : sequence of str
        Of a process that calls `serve`.
    cwd : Path
        Its folder.
    environment : mapping
        Its environment, apart from `SERVE`.

    Raises
    ------
    MXNetError
        If it ends, or does not serve in time; with the end of its output.
    """
    key = secrets.token_hex(16)
    with tempfile.TemporaryFile() as output, Listener(
            ("127.0.0.1", 0), authkey=bytes.fromhex(key)) as listener:
        told = {**environment, SERVE: f"{listener.address[1]}:{key}"}
        process = subprocess.Popen(command, cwd=cwd, env=told, stdout=output,
                                   stderr=subprocess.STDOUT)
        try:
            with _accepted(name, listener, process, output) as connection:
                yield RemoteArm(name, connection)
        finally:
            process.kill()
            process.wait()


def _accepted(name: str, listener: Listener, process: subprocess.Popen[bytes],
              output: IO[bytes]) -> Connection[object, object]:
    """The connection of the process; a thread waits for its end, which closes the listener."""
    def watch() -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE)
        if not connected.is_set():   # wake up `accept`
            with contextlib.suppress(OSError):
                Client(listener.address, authkey=b"").close()

    connected = threading.Event()
    threading.Thread(target=watch, daemon=True).start()
    try:
        connection = listener.accept()
    except Exception:
        output.seek(0)
        words = output.read().decode(errors="replace")[-2000:]
        raise MXNetError(f"bench: the process of {name} does not serve; the end of its output:\n"
                         f"{words}") from None
    finally:
        connected.set()
    return connection


@contextlib.contextmanager
def worktree(revision: str, folder: Path) -> Iterator[Path]:
    """A checkout of another revision of the git repository that `folder` lies in.

    Parameters
    ----------
    revision : str
        As git takes it: a tag, a branch, ``HEAD~3``.
    folder : Path
        In the repository.

    Yields
    ------
    Path
        The folder that corresponds to `folder`; it is removed after the block.

    Raises
    ------
    MXNetError
        If `folder` is in no repository, or this has no such revision.
    """
    top = Path(_git(folder, "rev-parse", "--show-toplevel"))
    with tempfile.TemporaryDirectory() as temporary:
        copy = Path(temporary) / "worktree"
        _git(top, "worktree", "add", "--detach", str(copy), revision)
        try:
            yield copy / folder.resolve().relative_to(top.resolve())
        finally:
            _git(top, "worktree", "remove", "--force", str(copy))


def commit_of(folder: Path) -> str:
    """The abbreviated commit of the repository that a folder lies in; empty without one."""
    try:
        return _git(folder, "rev-parse", "--short", "HEAD")
    except (MXNetError, OSError):   # no repository; no git
        return ""


def _git(folder: Path, *args: str) -> str:
    ran = subprocess.run(["git", *args], cwd=folder, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise MXNetError(f"bench: git {' '.join(args)} in {folder}: {ran.stderr.strip()}")
    return ran.stdout.strip()
