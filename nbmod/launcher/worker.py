"""`python -m nbmod.launcher.worker [--threads T] script args`: one rank, which `mpiexec` starts.

It runs the script in a process of its own (`launcher.script`) with its share of the cores, writes
each line of its output with the rank before it, and when it has died says in one line which rank,
how, and where it was in its training.  Its exit status is then that of the script, upon which
`mpiexec` ends all other ranks.  The script does not outlive it, nor it the `mpiexec`.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import IO

from . import mpiexec, position
from .placement import Placement, cores, placement_of

__all__ = ["main", "thread_variables"]

THREADS = "NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"
POLL = 0.1
"""Seconds between two looks at signals."""
GRACE = 0.5
"""Seconds that a script has to end after SIGTERM."""
PATIENCE = 1.0
"""Seconds to wait for output that processes of a dead script may still write."""
SPEAKS = b"nbmod: "
"""The beginning of what a worker says itself; lines of scripts begin with their rank."""
LINE = 4000
"""Longest piece of a line that is written at once: pipes do not divide it."""


def main(arguments: Sequence[str]) -> int:
    """Run a script to its end; the exit status is the script's, or 128 + the signal it died by."""
    threads = ""
    if arguments[:1] == ["--threads"]:
        threads, arguments = arguments[1], arguments[2:]
    place = placement_of()
    signals = _noted_signals()
    parent = os.getppid()
    memory = mpiexec.memory_folder(os.environ)
    if memory:
        os.makedirs(memory, mode=0o700, exist_ok=True)
    with _position_file() as (file, name):
        environment = os.environ | thread_variables(place, threads) | {
            "DMLC_ROLE": "worker", "PYTHONUNBUFFERED": "1"}
        script = subprocess.Popen(
            [sys.executable, "-m", "nbmod.launcher.script", str(os.getpid()), name, *arguments],
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            close_fds=False)    # some MPIs hand a connection to their ranks
        relays = [_relay(place.rank, script.stdout, 1), _relay(place.rank, script.stderr, 2)]
        status, must_end = _outcome(script, lambda: bool(signals) or os.getppid() != parent)
        _end_group(script.pid)
        for relay in relays:
            relay.join(PATIENCE)
        file.seek(0)
        where = position.read(file.read())
        if (status or where.is_awaited) and not must_end:
            _write(2, SPEAKS + f"{_last_line(place, status, where)}\n".encode())
            status = status or 1    # so that `mpiexec` ends the ranks that wait
    _clean_up(memory, status != 0, os.getppid() != parent)
    return 128 - status if status < 0 else status


def thread_variables(place: Placement, threads: str = "",
                     environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables that set how many threads a rank's kernels and BLAS use.

    All ranks of a host share its cores; variables of the environment are left alone unless
    `threads` is given.

    Examples
    --------
    >>> thread_variables(Placement(0, 4, 2), "3", {})["OMP_NUM_THREADS"]
    '3'
    """
    share = threads or str(max(1, cores() // (place.local_size or 1)))
    return {name: share for name in THREADS if threads or name not in environ}


def _last_line(place: Placement, status: int, where: position.Position) -> str:
    """The message about a script that has died."""
    if where.last_words:
        return where.last_words
    step = f"at {where}" if str(where) else "before its first step"
    if status == 0:
        step += "; it did not come to the end of its script, as after os._exit(0)"
    if status >= 0:
        return f"{place} ended with exit status {status} {step}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    hint = ("; if nobody has sent this signal, the host may have run out of memory"
            if name == "SIGKILL" else "")
    return f"{place} was killed by {name} {step}{hint}"


# ------------------------------------------------------------------------------------- processes

def _end_group(script: int) -> None:
    """End what a script has left running, such as workers of its data loaders."""
    if hasattr(os, "killpg"):
        with suppress(OSError):
            os.killpg(script, signal.SIGKILL)


def _clean_up(memory: str, failed: bool, orphaned: bool) -> None:
    """Remove the folder of shared memory, and that of an `mpiexec` that has been killed."""
    if failed:    # on the first host, `launch` does it as well
        shutil.rmtree(memory, ignore_errors=True)
    elif memory:
        with suppress(OSError):    # other ranks may use it still
            os.rmdir(memory)
    if orphaned:
        shutil.rmtree(mpiexec.session_folder(os.environ), ignore_errors=True)


def _noted_signals() -> list[int]:
    """The signals that come from now on, which do nothing else."""
    noted: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        noted.append(number)

    for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGBREAK"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), note)
    return noted


def _outcome(script: subprocess.Popen[bytes], must_end: Callable[[], bool]) -> tuple[int, bool]:
    """The status of a script that has ended, and whether it had to because this process has to."""
    while not must_end():
        with suppress(subprocess.TimeoutExpired):
            return script.wait(POLL), False
    # MPI may have noticed the death of the script before its parent has.
    with suppress(subprocess.TimeoutExpired):
        return script.wait(POLL), False
    script.terminate()
    try:
        script.wait(GRACE)
    except subprocess.TimeoutExpired:
        script.kill()
    return script.wait(), True


# ------------------------------------------------------------------------------ files of a script

@contextmanager
def _position_file() -> Iterator[tuple[IO[bytes], str]]:
    """A file for the script's position, and the name by which the script opens it.

    It has no name in a folder where the system lets the script inherit it.
    """
    with tempfile.NamedTemporaryFile(prefix="nbmod-position-", delete=False) as file:
        file.write(position.blank())
        file.flush()
        try:
            if os.name == "posix":
                os.remove(file.name)
                os.set_inheritable(file.fileno(), True)
                yield file.file, f"/dev/fd/{file.fileno()}"
            else:
                yield file.file, file.name
        finally:
            if os.name != "posix":
                file.close()
                os.remove(file.name)


# ----------------------------------------------------------------------------------------- output

def _relay(rank: int, stream: IO[bytes] | None, target: int) -> threading.Thread:
    """A thread that writes every line of a stream with the rank before it."""
    assert stream is not None

    def relay() -> None:
        prefix = b"[%d] " % rank
        with stream:
            while line := stream.readline(LINE):
                _write(target, prefix + line + (b"" if line.endswith(b"\n") else b"\n"))

    thread = threading.Thread(target=relay, daemon=True)
    thread.start()
    return thread


def _write(target: int, line: bytes) -> None:
    with suppress(OSError):    # whoever reads it may be gone, and the script shall go on
        os.write(target, line)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
