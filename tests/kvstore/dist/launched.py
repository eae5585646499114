"""Scripts that tests run as several ranks, and what they leave behind.

Every launch has a mark in its environment, by which the processes that belong to it are found.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import IO

import pytest

from nbmod import MXNetError
from nbmod.launcher import mpiexec

MARK = "NBMOD_TEST_MARK"
PATIENCE = 120
"""Seconds after which a launch hangs."""


def absence() -> str:
    """Why ranks cannot be started here; empty if they can."""
    if find_spec("mpi4py") is None:
        return "mpi4py is not installed: pip install 'nbmod[mpi]'"
    try:
        mpiexec.find()
    except MXNetError as error:
        return str(error)
    return ""


def require_mpi() -> None:
    """Skip the tests of a file without MPI; let them fail if NBMOD_REQUIRE_MPI=1."""
    if reason := absence():
        if os.environ.get("NBMOD_REQUIRE_MPI") == "1":
            pytest.fail(reason)
        pytest.skip(reason, allow_module_level=True)


class Launch:
    """`python -m nbmod launch` in a process, whose output is kept line by line with its time."""

    def __init__(self, arguments: Sequence[str], variables: Mapping[str, str] | None = None,
                 command: Sequence[str] = ("-m", "nbmod", "launch")):
        self.mark = uuid.uuid4().hex
        self.lines: list[tuple[float, str]] = []
        self.process = subprocess.Popen(
            [sys.executable, *command, *arguments], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=os.name == "posix",
            env=os.environ | {MARK: self.mark, "NBMOD_NUMPY_FIRST": "0", **(variables or {})})
        assert self.process.stdout
        self._reader = threading.Thread(target=self._read, args=[self.process.stdout])
        self._reader.start()

    def _read(self, stream: IO[bytes]) -> None:
        with stream:
            for line in stream:
                self.lines.append((time.monotonic(), line.decode(errors="replace").rstrip("\n")))

    def wait(self) -> int:
        """The exit status; all processes are ended if there is none in time."""
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            for number in self.processes():
                os.kill(number, signal.SIGKILL)
            raise AssertionError(f"hangs; it has said:\n{self.text}") from None
        finally:
            self._reader.join(PATIENCE)

    @property
    def text(self) -> str:
        """What has been written."""
        return "\n".join(line for _, line in self.lines)

    def said(self, beginning: str) -> list[str]:
        """The lines with a beginning."""
        return [line for _, line in self.lines if line.startswith(beginning)]

    def until(self, holds: Callable[[], object], what: str) -> None:
        """Wait for something to hold."""
        end = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < end, f"{what}: not in {PATIENCE} s; it has said:\n{self.text}"
            time.sleep(0.02)

    def processes(self, module: str = "") -> list[int]:
        """Numbers of the processes of this launch, but for itself, whose command has a word."""
        return [number for number in processes_with(self.mark)
                if number != self.process.pid and module in command_of(number)]

    def ranks(self) -> dict[int, int]:
        """The process of the script of each rank that has one."""
        found = {}
        for number in self.processes("nbmod.launcher.script"):
            if rank := variable_of(number, "OMPI_COMM_WORLD_RANK", "PMI_RANK"):
                found[int(rank)] = number
        return found


def processes_with(mark: str) -> list[int]:
    """Numbers of all processes that have a mark in their environment, zombies left out."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                content = (folder / "environ").read_bytes()
            except OSError:
                continue
            if f"{MARK}={mark}".encode() in content:
                found.append(int(folder.name))
    return sorted(found)


def command_of(number: int) -> str:
    """The command line of a process."""
    try:
        return Path(f"/proc/{number}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def variable_of(number: int, *names: str) -> str:
    """The first of some environment variables that a process has."""
    try:
        content = Path(f"/proc/{number}/environ").read_bytes().decode(errors="replace")
    except OSError:
        return ""
    variables = dict(entry.partition("=")[::2] for entry in content.split("\0"))
    return next((variables[name] for name in names if name in variables), "")


def is_gone(mark: str) -> bool:
    """Whether all processes with a mark have ended within some seconds."""
    for _ in range(100):
        if not processes_with(mark):
            return True
        time.sleep(0.1)
    return False


def shared_files() -> set[str]:
    """Files of MPI's shared memory, and its folders of temporary files."""
    memory = Path("/dev/shm").iterdir() if os.path.isdir("/dev/shm") else ()
    return {str(path) for path in (*memory, *Path("/tmp").glob("ompi.*"),
                                   *Path("/tmp").glob("nbmod-position-*"))}


def copied(name: str, folder: Path) -> Path:
    """A script of this folder, elsewhere."""
    return Path(shutil.copy(Path(__file__).parent / name, folder))
