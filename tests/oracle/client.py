"""The test side: `Oracle` owns one MXNet process, starts it late and again after a crash.

    oracle = Oracle(find_python())
    oracle.call("mx_ops.list_ops")

A call that MXNet answers with an exception raises `OracleError`; one that kills the process (a
C++ check can abort it) or outlives its timeout raises `OracleCrash`, and the next call gets a new
process. A reader thread moves answers into a queue, which gives timeouts on every platform.
"""

from __future__ import annotations

import os
import queue
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import IO, Any

from . import wire
from .setup import ROOT


class OracleError(Exception):
    """MXNet raised: its message, and its traceback as `traceback`."""

    def __init__(self, message: str, traceback: str) -> None:
        super().__init__(message)
        self.traceback = traceback


class OracleCrash(Exception):
    """The MXNet process ended, or was ended because its time was up."""


class Oracle:
    """Calls functions of `tests/oracle/mx_*.py` in a process that has MXNet."""

    def __init__(self, python: Path, timeout: float = 60.0, threads: int = 1) -> None:
        self.python = python
        self.timeout = timeout
        self.threads = threads
        self.calls = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._answers: queue.Queue[Any] = queue.Queue()
        self._reader: threading.Thread | None = None
        self._stderr: IO[bytes] | None = None

    def call(self, function: str, *args: Any, timeout: float | None = None, **kwargs: Any) -> Any:
        """Result of `module.function(*args, **kwargs)` over there.

        Arguments and result are any nesting of numbers, strings, None, lists, tuples, dictionaries
        with string keys, bytes and numpy arrays. Raises OracleError or OracleCrash.
        """
        self.calls += 1
        answer = self._exchange({"call": function, "args": list(args), "kwargs": kwargs}, timeout)
        if "error" in answer:
            raise OracleError(f"{function}: {answer['error']}", answer["traceback"])
        return answer["result"]

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
            wire.send(process.stdin, request)
            answer = self._answers.get(timeout=timeout or self.timeout)
        except queue.Empty:
            raise self._crash(f"no answer within {timeout or self.timeout} s", request) from None
        except OSError as error:
            raise self._crash(f"the pipe broke ({error})", request) from None
        if answer is None:
            raise self._crash("the process ended", request)
        return answer

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._start()
        assert self._process is not None
        return self._process

    def _start(self) -> None:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        environment |= {"OMP_NUM_THREADS": str(self.threads), "MXNET_SUBGRAPH_VERBOSE": "0"}
        self._stderr = tempfile.TemporaryFile()
        self._answers = queue.Queue()
        self._process = subprocess.Popen(
            [str(self.python), "-m", "tests.oracle.worker"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr,
            cwd=ROOT, env=environment,
        )  # fmt: skip
        self._reader = threading.Thread(
            target=_read_answers, args=(self._process.stdout, self._answers), daemon=True
        )
        self._reader.start()

    def _crash(self, what: str, request: dict[str, Any]) -> OracleCrash:
        assert self._stderr is not None
        self._stderr.seek(0)
        words = self._stderr.read().decode(errors="replace")[-2000:]
        self.close()
        return OracleCrash(f"{request['call']}: {what}; its last words:\n{words}")


def _read_answers(stream: Any, answers: queue.Queue[Any]) -> None:
    """Move answers into the queue; None says that no more will come."""
    try:
        while True:
            answers.put(wire.receive(stream))
    except (EOFError, OSError, ValueError):
        answers.put(None)


def _close(stream: IO[bytes] | None) -> None:
    if stream is None:
        return
    try:
        stream.close()
    except OSError:  # what was still buffered for a process that is gone
        pass
