"""Scripts that tests run as several ranks, and what they leave behind.

Every launch has a mark in its environment, by which the processes that belong to it are found.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
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
PATIENCE = 300
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
    """`nbmod launch` in a process, whose output is kept line by line with its time."""

    def __init__(self, arguments: Sequence[str], variables: Mapping[str, str] | None = None,
                 command: Sequence[str] = ("-m", "nbmod", "launch")):
        self.mark = uuid.uuid4().hex
        self._folder = tempfile.mkdtemp(prefix="nbmod-test-")
        self._before = shared_files()
        self.lines: list[tuple[float, str]] = []
        self.process = subprocess.Popen(
            [sys.executable, *command, *arguments], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=os.name == "posix",
            env=os.environ | {MARK: self.mark, "TMPDIR": self._folder, "NBMOD_NUMPY_FIRST": "0",
                              **(variables or {})})
        assert self.process.stdout
        self._reader = threading.Thread(target=self._read, args=[self.process.stdout])
        self._reader.start()

    def _read(self, stream: IO[bytes]) -> None:
        with stream:
            for line in stream:
                self.lines.append((time.monotonic(), line.decode(errors="replace").rstrip("\n")))

    def wait(self) -> int:
        """The exit status; all processes must end in time, and nothing may be left of them."""
        try:
            status = self.process.wait(PATIENCE)
            self.until(self._has_gone, "nothing is left")
            return status
        except subprocess.TimeoutExpired:
            raise AssertionError(f"hangs; it has said:\n{self.text}") from None
        finally:
            for number in self.processes():
                os.kill(number, signal.SIGKILL)
            self._reader.join(PATIENCE)
            shutil.rmtree(self._folder)

    def _has_gone(self) -> bool:
        """Whether there are no processes, and neither temporary files nor shared memory."""
        return not (self.processes() or os.listdir(self._folder) or shared_files() - self._before)

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
    """Numbers of all processes that have a mark in their environment, where /proc tells."""
    found = []
    for file in Path("/proc").glob("[0-9]*/environ"):
        try:
            content = file.read_bytes()
        except OSError:    # it has ended
            continue
        if f"{MARK}={mark}".encode() in content:
            found.append(int(file.parent.name))
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


def shared_files() -> set[str]:
    """Folders of shared memory whose `launch` has ended; those of other tests may run."""
    memory = Path("/dev/shm").glob("nbmod-*") if os.path.isdir("/dev/shm") else ()
    return {path.name for path in memory
            if (job := re.search(r"-(\d+)-", path.name)) and not command_of(int(job[1]))}
