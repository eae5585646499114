"""A process of another Python that answers calls; it is started lazily, and again after a crash.

    worker = WorkerProcess(python, folder, "package")
    worker.call("module.function", 3, x=array)

A call that raises there raises `WorkerError` here; one that kills the process or outlives its
timeout raises `WorkerCrash`, and the next call gets a new process.  MXNet's engine races now and
then: the effects of one call can kill the process during a later, innocent one.  So a call whose
process died is repeated in a fresh one, twice; a call at fault kills those too.  A reader thread
moves answers into a queue, for timeouts on every platform.
"""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from ...base import MXNetError
from ...ops.jit import num_threads
from ..rounds import Pace
from . import foreign_worker

__all__ = ["ForeignArm", "WorkerCrash", "WorkerError", "WorkerProcess", "other_python"]

PATIENCE = 600.0
"""Seconds that a call of `other_python` may take: the first ones import and compile."""

SPINNING = Pace(block=0.01, settle=0.05)
"""With several threads: OpenMP's spin for some 15 ms after their work."""
LIBRARIES = ("OMP", "MKL", "OPENBLAS", "NUMBA")
"""All that a framework may compute with gets as many threads."""


class WorkerError(Exception):
    """The function raised: its message, and its traceback as `traceback`."""

    def __init__(self, message: str, traceback: str) -> None:
        super().__init__(message)
        self.traceback = traceback


class WorkerCrash(Exception):
    """The process ended, or was ended on timeout."""


class _Ended(WorkerCrash):
    """It ended by itself."""


class WorkerProcess:
    """Calls functions of a package in a process of another Python.

    Parameters
    ----------
    python : Path
        The Python.
    root : Path
        The folder that the package lies in; the process runs there.
    package : str
        Its dotted name.
    timeout : float
        Seconds that a call may take.
    threads : int
        Threads of what computes there.
    environment : mapping, optional
        Environment variables of the process beside this one's.
    """

    def __init__(self, python: Path, root: Path, package: str, timeout: float = 60.0,
                 threads: int = 1, environment: Mapping[str, str] | None = None) -> None:
        self.python = python
        self.root = root
        self.package = package
        self.timeout = timeout
        self.threads = threads
        self.environment = environment or {}
        self.calls = 0
        self.repeats = 0
        self.arms = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._answers: queue.Queue[Any] = queue.Queue()
        self._reader: threading.Thread | None = None
        self._stderr: IO[bytes] | None = None

    def call(self, function: str, *args: Any, timeout: float | None = None, **kwargs: Any) -> Any:
        """Call `module.function(*args, **kwargs)` in that process.

        Parameters
        ----------
        function : str
            A module of the package and its function.
        *args, **kwargs
            Any nesting of numbers, strings, None, lists, tuples, dictionaries with string keys,
            bytes and NumPy arrays.
        timeout : float, optional
            Seconds that this call may take.

        Returns
        -------
        object
            Such a nesting, too.

        Raises
        ------
        WorkerError
            If the function raises.
        WorkerCrash
            If the process ends, or does not answer in time.
        """
        self.calls += 1
        return self._asked({"call": function, "args": list(args), "kwargs": kwargs}, timeout, 2)

    def _asked(self, request: dict[str, Any], timeout: float | None, again: int) -> Any:
        try:
            answer = self._exchange(request, timeout)
        except _Ended:
            if not again:
                raise
            self.repeats += 1
            return self._asked(request, timeout, again - 1)
        if "error" in answer:
            call = "" if request["call"].startswith(":") else f"{request['call']}: "
            raise WorkerError(call + answer["error"], answer["traceback"])
        return answer["result"]

    def arm(self, source: str, *args: Any, name: str = "", processor: bool = False,
            warm: bool = True, **options: Any) -> ForeignArm:
        """Prepare an arm in that process; it is called once.

        Parameters
        ----------
        source : str
            A function as `call` takes it.  It returns the function that is timed, or a pair: a
            function whose time does not count, called before every call, and that function.
        *args, **options
            Its arguments.
        name : str
            Shown in tables; default: `source`.
        processor : bool
            Whether to take the time of all processors instead of the wall clock's.
        warm : bool
            Whether an untimed call precedes each block.
        """
        self.arms += 1
        self._asked({"call": ":prepare_arm", "kwargs": {},
                     "args": [self.arms, source, self.package, list(args), options]}, None, 2)
        return ForeignArm(name or source, self, self.arms, warm, processor)

    def close(self) -> None:
        """End the process; the next call would start another."""
        process, self._process = self._process, None
        if process is None or self._reader is None or self._stderr is None:
            return
        process.kill()
        process.wait()
        self._reader.join()
        for stream in (process.stdin, process.stdout, self._stderr):
            _close(stream)

    def _exchange(self, request: dict[str, Any], timeout: float | None) -> dict[str, Any]:
        process = self._running()
        assert process.stdin is not None
        try:
            foreign_worker.send(process.stdin, request)
            answer = self._answers.get(timeout=timeout or self.timeout)
        except queue.Empty:
            raise WorkerCrash(
                self._end(f"no answer within {timeout or self.timeout} s", request)) from None
        except OSError as error:
            raise _Ended(self._end(f"the pipe broke ({error})", request)) from None
        if answer is None:
            raise _Ended(self._end("the process ended", request))
        return answer

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._start()
        assert self._process is not None
        return self._process

    def _start(self) -> None:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        environment |= {f"{library}_NUM_THREADS": str(self.threads) for library in LIBRARIES}
        environment |= self.environment
        self._stderr = tempfile.TemporaryFile()
        self._answers = queue.Queue()
        try:
            self._process = subprocess.Popen(
                [str(self.python), foreign_worker.__file__, str(self.root), self.package],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr,
                cwd=self.root, env=environment)
        except OSError:     # there is no such Python
            self._stderr.close()
            raise
        self._reader = threading.Thread(
            target=_read_answers, args=(self._process.stdout, self._answers), daemon=True
        )
        self._reader.start()

    def _end(self, what: str, request: dict[str, Any]) -> str:
        """End the process and say what happened."""
        assert self._stderr is not None
        self._stderr.seek(0)
        words = self._stderr.read().decode(errors="replace")[-2000:]
        self.close()
        return f"{request['call']}: {what}; its last words:\n{words}"


class ForeignArm:
    """A function in a process of another Python.

    Parameters
    ----------
    name : str
        Shown in tables.
    process : WorkerProcess
        Where it is.
    number : int
        Among the arms of that process.
    warm, processor : bool
        See `WorkerProcess.arm`.
    """

    def __init__(self, name: str, process: WorkerProcess, number: int, warm: bool,
                 processor: bool) -> None:
        self.name = name
        self._process, self._number = process, number
        self._warm, self._processor = warm, processor
        self.pace = SPINNING if process.threads > 1 else Pace()

    def time(self, calls: int, turn: int) -> float:
        """Seconds of one of `calls` calls in that process.

        Raises
        ------
        MXNetError
            If the function raises, or the process ends.
        """
        try:
            return float(self._process._asked(
                {"call": ":time_arm", "kwargs": {},
                 "args": [self._number, calls, self._warm, self._processor]}, None, 0))
        except (WorkerError, WorkerCrash) as error:
            raise MXNetError(f"bench: {self.name}: {error}") from error

    def forget(self) -> None:
        """Drop the function and what it holds; the process lives on."""
        self._process._asked({"call": ":forget_arm", "kwargs": {}, "args": [self._number]}, None, 0)


@contextlib.contextmanager
def other_python(python: str | Path, source: str, *args: Any, name: str = "",
                 threads: int | None = None, environment: Mapping[str, str] | None = None,
                 **options: Any) -> Iterator[ForeignArm]:
    """Time a function of another Python environment beside one of this process.

    Parameters
    ----------
    python : str or Path
        The Python of that environment, which has NumPy and need not have nbmod.
    source : str
        A function there, "file.py:function" or "module:function".  It is called once, prepares
        the work, and returns the function without arguments that is timed, whose work must be
        done when it returns.
    *args, **options
        Its arguments: numbers, strings, NumPy arrays, and lists, tuples and dictionaries of them.
    name : str
        Shown in tables; default: `source`.
    threads : int, optional
        Threads of what computes there; default: as many as here.
    environment : mapping, optional
        Environment variables of its process, beside those of this one.

    Yields
    ------
    ForeignArm
        The `baseline` of `measure`.  The process ends after the block.  Where it has several
        threads, which spin after their work, a pause precedes every block and rounds take about a
        second: `measure` then needs some 20 `seconds`.

    Raises
    ------
    MXNetError
        If the function raises, or its process ends.

    Examples
    --------
    With a file ``peer.py`` ::

        import torch

        def relu(x):
            x = torch.from_numpy(x)
            return lambda: torch.relu(x)

    PyTorch is the baseline of a comparison by ::

        with bench.other_python("torch-env/bin/python", "peer.py:relu", x) as peer:
            print(bench.measure(np.maximum, x, 0, baseline=peer, seconds=20))
    """
    process = WorkerProcess(Path(python), Path.cwd(), "", PATIENCE, threads or num_threads(),
                            environment)
    with contextlib.closing(process):
        try:
            arm = process.arm(source, *args, name=name, **options)
        except (WorkerError, WorkerCrash, OSError) as error:
            told = getattr(error, "traceback", "")
            raise MXNetError(f"bench: {source} in {python}: {error}"
                             + (f"\n{told}" if told else "")) from error
        yield arm


def _read_answers(stream: Any, answers: queue.Queue[Any]) -> None:
    """Move answers into the queue; None marks the end."""
    try:
        while True:
            answers.put(foreign_worker.receive(stream))
    except (EOFError, OSError, ValueError):
        answers.put(None)


def _close(stream: IO[bytes] | None) -> None:
    if stream is None:
        return
    try:
        stream.close()
    except OSError:  # data was still buffered for a process that has ended
        pass
