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

import os
import queue
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from . import worker

__all__ = ["WorkerCrash", "WorkerError", "WorkerProcess"]

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
        request = {"call": function, "args": list(args), "kwargs": kwargs}
        answer = self._asked(request, timeout, again=2)
        if "error" in answer:
            raise WorkerError(f"{function}: {answer['error']}", answer["traceback"])
        return answer["result"]

    def _asked(self, request: dict[str, Any], timeout: float | None, again: int) -> dict[str, Any]:
        try:
            return self._exchange(request, timeout)
        except _Ended:
            if not again:
                raise
        self.repeats += 1
        return self._asked(request, timeout, again - 1)

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
            worker.send(process.stdin, request)
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
        self._process = subprocess.Popen(
            [str(self.python), worker.__file__, str(self.root), self.package],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr,
            cwd=self.root, env=environment)
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


def _read_answers(stream: Any, answers: queue.Queue[Any]) -> None:
    """Move answers into the queue; None marks the end."""
    try:
        while True:
            answers.put(worker.receive(stream))
    except (EOFError, OSError, ValueError):
        answers.put(None)


def _close(stream: IO[bytes] | None) -> None:
    if stream is None:
        return
    try:
        stream.close()
    except OSError:  # data was still buffered for a process that has ended
        pass
