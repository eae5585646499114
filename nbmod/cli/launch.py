"""`launch`: run a script as several ranks, with the options of MXNet's `tools/launch.py`.

`mpiexec` starts a `launcher.worker` for every rank, whose output comes through here.  When a rank
dies its worker says so and all others end; `--restarts` then starts all of them anew.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from types import FrameType
from typing import IO, NoReturn

from ..base import MXNetError
from ..launcher import mpiexec, worker
from ..launcher.bond import bound
from ..launcher.placement import launcher_of

__all__ = ["HELP", "arguments", "run", "start"]

HELP = "run a script as several ranks of distributed training, started by MPI"
LAUNCHERS = ("local", "ssh", "mpi", "sge", "yarn")
PATIENCE = 1.2
"""Seconds that `mpiexec` has to end all ranks when it is asked to."""
BORDER = re.compile(rb"(-{50,}|={50,})\r?\n")
"""The line above and below a report of Open MPI and of MPICH."""
FROM_RANK = re.compile(rb"\[\d+\] |" + worker.SPEAKS)
"""How lines of ranks and of their workers begin."""


class _Interrupted(BaseException):
    """A signal asks this process to end."""

    def __init__(self, number: int):
        self.number = number


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add = parser.add_argument
    add("-n", "--num-workers", type=_count, required=True, metavar="N",
        help="how many ranks to start")
    add("-H", "--hostfile", default="", metavar="FILE",
        help="a file with a host in each line, on which the ranks run; default: this host")
    add("--restarts", type=int, default=0, metavar="N",
        help="if a rank dies, start all anew, at most N times (default: %(default)s); the script "
        "resumes from its last checkpoint")
    add("--threads", type=_count, metavar="T",
        help="threads of each rank; default: cores of the host / ranks on it")
    add("--env", "--env-worker", action="append", default=[], type=_variable, metavar="NAME:VALUE",
        help="an environment variable of all ranks; may be repeated")
    add("--launcher", choices=LAUNCHERS, default="mpi",
        help="accepted: mpiexec starts ranks on this host and by ssh")
    add("-s", "--num-servers", type=int, metavar="N", help="accepted: there are no servers")
    add("--env-server", action="append", metavar="NAME:VALUE",
        help="accepted: there are no servers")
    add("--sync-dst-dir", metavar="FOLDER", help="accepted: nothing is copied to other hosts")
    add("--p3", action="store_true", help="accepted: parts of gradients are always sent early")
    add("program", nargs=argparse.REMAINDER, metavar="script ...",
        help="the Python file and its arguments; `--` or `python` may come before it")


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def _variable(text: str) -> tuple[str, str]:
    match = re.fullmatch(r"([A-Za-z_]\w*)[:=](.*)", text, re.DOTALL)
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME:VALUE")
    return match[1], match[2]


def run(options: argparse.Namespace) -> int:
    """Start the ranks; returns the exit status, 128 + the number of the signal that ended it."""
    _refuse(options)
    script = _script(options.program)
    for note in _notes(options):
        print(f"nbmod: launch: {note}", file=sys.stderr)
    threads = ["--threads", str(options.threads)] if options.threads else []
    status = 0
    try:
        with _ended_by_signals():
            for attempt in range(options.restarts + 1):
                ranks = mpiexec.Ranks(options.num_workers, options.hostfile,
                                      {**dict(options.env), "NBMOD_DIST_RESTARTS": str(attempt)})
                status = start(ranks, [*threads, *script])
                if status == 0 or attempt == options.restarts:
                    break
                print(f"nbmod: launch: restart {attempt + 1} of {options.restarts}: all "
                      f"{options.num_workers} ranks begin anew", file=sys.stderr, flush=True)
    except _Interrupted as ended:
        return 128 + ended.number
    return status


def _refuse(options: argparse.Namespace) -> None:
    """Raise MXNetError for a command that cannot be started."""
    if options.launcher in ("sge", "yarn"):
        raise MXNetError(
            f"launch: --launcher {options.launcher} is not supported, as nothing is submitted to "
            "a scheduler here; run this command without it in a job that the scheduler has "
            "started (Open MPI asks Slurm, SGE and PBS for the hosts of the job), or give the "
            "hosts by -H FILE")
    if options.hostfile and not os.path.isfile(options.hostfile):
        raise MXNetError(f"launch: there is no file of hosts {options.hostfile!r}")
    if options.restarts < 0:
        raise MXNetError(f"launch: --restarts is {options.restarts}, expected at least 0")
    if launcher := launcher_of():
        raise MXNetError(f"launch: this process is a rank already, which {launcher} has started; "
                         "give the script to it in place of `-m nbmod launch`")


def _script(words: Sequence[str]) -> list[str]:
    """The script and its arguments, of a command that may begin with `--` and with Python."""
    rest = list(words)
    if rest[:1] == ["--"]:
        rest = rest[1:]
    if rest and re.fullmatch(r"python[\d.]*(\.exe)?", os.path.basename(rest[0])):
        rest = rest[1:]
        while rest and re.fullmatch(r"-[uBEsSIqOb]+", rest[0]):
            rest = rest[1:]
    if not rest:
        raise MXNetError("launch: no script is given; such as: nbmod launch -n 4 "
                         "train.py --lr 0.1")
    if rest[0].startswith("-"):
        raise MXNetError(f"launch: {rest[0]!r} comes where a script is expected: options of launch "
                         "come before the script, those of the script after it, and Python's "
                         "options -m and -c are not supported")
    if not os.path.isfile(rest[0]):
        raise MXNetError(f"launch: there is no file {rest[0]!r}; what is launched is a Python "
                         "script")
    return rest


def _notes(options: argparse.Namespace) -> Iterator[str]:
    """The message about options of MXNet's launcher that have no effect."""
    if options.num_servers is not None:
        yield ("-s is ignored: there are no servers, every worker keeps and updates its share of "
               "the parameters")
    if options.env_server:
        yield "--env-server is ignored: there are no servers"
    if options.sync_dst_dir:
        yield ("--sync-dst-dir is ignored: nothing is copied, the script and nbmod have to be at "
               "the same paths on every host")
    if options.p3:
        yield "--p3 is ignored: gradients are sent in parts as soon as they are known, always"


# --------------------------------------------------------------------------------------- processes

def start(ranks: mpiexec.Ranks, arguments: Sequence[str]) -> int:
    """Run a worker for each rank until all have ended; output goes to stdout and stderr.

    Returns the exit status, 128 + the number of a signal.
    """
    program = mpiexec.find()
    kind = mpiexec.kind_of(program)
    with mpiexec.shared_memory(kind) as variables:
        ranks = replace(ranks, variables={**ranks.variables, **variables})
        return _run(mpiexec.command(program, kind, ranks, [
            sys.executable, "-m", "nbmod.launcher.worker", *arguments]))


def _run(command: Sequence[str]) -> int:
    """Run `mpiexec` to its end, or until a signal comes; the exit status."""
    # In a session of its own, so that Ctrl-C comes here only.
    running = subprocess.Popen(
        bound(command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=mpiexec.environment(), start_new_session=True,
        restore_signals=False)    # it cleans up even if nobody reads its last messages
    relay = _Relay(running)
    try:
        status = running.wait()
    except BaseException:
        _end(running)
        raise
    relay.finish()
    return 128 - status if status < 0 else status


def _end(running: subprocess.Popen[bytes]) -> None:
    """End `mpiexec`, which ends its ranks; workers end themselves when it is gone."""
    running.terminate()
    try:
        running.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        running.kill()
        running.wait()


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """A block that signals end by an exception; another signal while it ends changes nothing."""
    def end(number: int, frame: FrameType | None) -> NoReturn:
        for name in before:
            signal.signal(name, signal.SIG_IGN)
        raise _Interrupted(number)

    before: dict[int, object] = {}
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK"):
        if hasattr(signal, name):
            number = getattr(signal, name)
            before[number] = signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # one of Python's


class _Relay:
    """Passes the output of `mpiexec` on, in a thread for each stream.

    It omits reports of `mpiexec` where a worker says how its script has died.
    """

    def __init__(self, running: subprocess.Popen[bytes]):
        assert running.stdout and running.stderr
        self._reports: list[bytes] = []
        self._is_explained = False
        self._threads = [threading.Thread(target=self._run, args=pair, daemon=True) for pair in
                         ((running.stdout, sys.stdout), (running.stderr, sys.stderr))]
        for thread in self._threads:
            thread.start()

    def finish(self) -> None:
        """Pass on what is left."""
        for thread in self._threads:
            thread.join(PATIENCE)
        if not self._is_explained:
            for line in self._reports:
                _write(sys.stderr, line)

    def _run(self, source: IO[bytes], target: IO[str]) -> None:
        reporting = False
        with source:
            for line in source:
                border = BORDER.fullmatch(line)
                if FROM_RANK.match(line):
                    self._is_explained |= line.startswith(worker.SPEAKS)
                    _write(target, line)
                elif reporting or border or not line.strip():
                    self._reports.append(line)
                    if border:    # MPICH's reports go on after the second one
                        reporting = not reporting or line.startswith(b"=")
                else:
                    _write(target, line)


def _write(target: IO[str], line: bytes) -> None:
    with suppress(OSError, ValueError):    # whoever reads it may be gone
        target.write(line.decode(errors="replace"))
        target.flush()
