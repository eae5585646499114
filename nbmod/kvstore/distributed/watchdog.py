"""A thread that names the rank which all others wait for, and ends all of them.

    watchdog = Watchdog(MPIMessages(comm.Dup()), hosts)
    with watchdog.exchange("push of 161 keys"):
        ...                             # an exchange that blocks until all ranks call it

Where an exchange takes longer than NBMOD_DIST_TIMEOUT, the thread asks those of all other ranks
where these are.  The exchanges of a communicator are counted, so it sees who has not begun one.
If several ranks find out together, the lowest speaks.  The threads exchange JSON text, by messages
from one rank to another on a communicator of their own.
"""

from __future__ import annotations

import json
import math
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Protocol, TypeAlias

from ...core.config import CONFIG
from ...launcher import position

__all__ = ["WatchedExchange", "MPIMessages", "Messages", "State", "Watchdog"]

Untyped: TypeAlias = Any  # type: ignore[explicit-any]
"""An object of mpi4py."""

POLL = 0.25
"""Seconds between two looks at messages and exchanges."""
ANSWER = 3.0
"""Seconds that a rank has to answer."""
TURN = 5.0
"""Seconds that a rank leaves the report to a lower one."""
ENDED = 5.0
"""Seconds that an exchange waits for a rank whose script has ended, whatever the timeout is."""
FIRST = 10
"""Times the timeout that the first exchange of a name may take: other ranks may compile before."""
PACKAGE = str(Path(__file__).parents[2]) + os.sep


class Messages(Protocol):
    """How the watchdogs of all ranks reach each other; only their threads use it."""

    @property
    def rank(self) -> int:
        """Index of this rank."""

    @property
    def size(self) -> int:
        """Number of ranks."""

    def send(self, rank: int, text: bytes) -> None:
        """Send a text to a rank, without waiting for it."""

    def receive(self) -> tuple[int, bytes] | None:
        """A text and the rank that it is from, if one has arrived."""

    def abort(self) -> None:
        """End the processes of all ranks."""


class MPIMessages:
    """Messages by MPI, through an `mpi4py.MPI.Intracomm` that nothing else uses."""

    def __init__(self, comm: Untyped):
        from mpi4py import MPI

        self._comm, self._status = comm, MPI.Status()
        self.rank: int = comm.Get_rank()
        self.size: int = comm.Get_size()
        self._sent: list[tuple[Untyped, bytes]] = []

    def send(self, rank: int, text: bytes) -> None:
        self._sent = [pair for pair in self._sent if not pair[0].Test()]
        self._sent.append((self._comm.Isend(text, rank), text))    # MPI reads it until it is sent

    def receive(self) -> tuple[int, bytes] | None:
        if not self._comm.Iprobe(status=self._status):
            return None
        source = self._status.Get_source()
        text = bytearray(self._status.Get_count())
        self._comm.Recv(text, source)
        return source, bytes(text)

    def abort(self) -> None:
        self._comm.Abort(1)


@dataclass(frozen=True)
class State:
    """The position of a rank, as its watchdog reports it.

    `begun` counts the exchanges that it has begun on each communicator, `waiting` is the one that
    it is in, if any, for `seconds`; `late` if that is too long.  `where` is a function and a line
    of its script; `ended` after the last one.
    """

    epoch: int | None = None
    batch: int | None = None
    begun: Sequence[int] = ()
    waiting: str = ""
    seconds: float = 0.0
    late: bool = False
    where: str = ""
    ended: bool = False

    @property
    def step(self) -> str:
        """Epoch and batch, in words; empty if the rank has told none."""
        return str(position.Position(self.epoch, self.batch))


class WatchedExchange:
    """An exchange that this rank is in, within a `with` statement."""

    __slots__ = "what", "stream", "peer", "number", "began", "limit", "_watchdog"

    def __init__(self, watchdog: Watchdog, what: str, stream: int, peer: int):
        self._watchdog, self.what, self.stream, self.peer = watchdog, what, stream, peer
        self.number, self.began, self.limit = 0, 0.0, 0.0

    def __enter__(self) -> None:
        self._watchdog._begin(self)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._watchdog._finish(self)

    def is_late(self, others_have_ended: bool) -> bool:
        """Whether it takes longer than it may, or would if a rank that has ended is not in it."""
        seconds = time.monotonic() - self.began
        return seconds > self.limit or others_have_ended and self.peer < 0 and seconds > ENDED


class Watchdog:
    """The watchdog of a rank; its thread runs until `stop`, or `end_script`.

    An exchange may take `timeout` seconds: NBMOD_DIST_TIMEOUT by default, any time if it is 0.
    When one takes longer, `die` is called with the message; by default all ranks end.
    """

    def __init__(self, messages: Messages, hosts: Sequence[str], timeout: float | None = None,
                 die: Callable[[str], None] | None = None):
        self.timeout = CONFIG.dist_timeout if timeout is None else timeout
        self._messages, self._hosts = messages, hosts
        self._die = die or self.end_all
        self._lock = threading.Lock()
        self._active: list[WatchedExchange] = []
        self._begun = [0]
        self._done: set[str] = set()
        self._main = threading.main_thread().ident
        self._answers: dict[int, State] = {}
        self._ended: set[int] = set()
        self._stopping = threading.Event()
        position.awaited(True)
        self._thread = threading.Thread(target=self._run, name="nbmod-watchdog", daemon=True)
        self._thread.start()

    # -- what stores call -------------------------------------------------------------------

    def stream(self) -> int:
        """A number for exchanges on a communicator of their own, which are counted apart."""
        with self._lock:
            self._begun.append(0)
            return len(self._begun) - 1

    def exchange(self, what: str, stream: int = 0, peer: int = -1) -> WatchedExchange:
        """Return a block in which this rank waits for others.

        `what` is a noun, for messages, such as ``push of 161 keys``: all ranks have to do the
        same. `stream` is what `stream` has returned for the communicator, `peer` the only rank
        that this one waits for, in exchanges that not all ranks take part in.
        """
        return WatchedExchange(self, what, stream, peer)

    def _begin(self, exchange: WatchedExchange) -> None:
        with self._lock:
            if exchange.peer < 0:
                self._begun[exchange.stream] += 1
            exchange.number, exchange.began = self._begun[exchange.stream], time.monotonic()
            first = 1 if exchange.what in self._done else FIRST
            exchange.limit = self.timeout * first or math.inf
            self._active.append(exchange)
        position.doing(exchange.what)

    def _finish(self, exchange: WatchedExchange) -> None:
        with self._lock:
            self._active.remove(exchange)
            self._done.add(exchange.what)
            what = self._active[-1].what if self._active else ""
        position.doing(what)

    def end_script(self) -> None:
        """The script has ended: tell the other ranks, wait until theirs have, and stop.

        Nobody is late here, as rank 0 may have much to evaluate or save after the last batch; but
        a rank that waits in an exchange will say that this one has ended.
        """
        self._ended.add(self._messages.rank)
        position.awaited(False)
        self._thread.join()

    def stop(self) -> None:
        """End the thread."""
        self._stopping.set()
        self._thread.join()

    def end_all(self, message: str) -> NoReturn:
        """End the processes of all ranks, after a message on stderr: which one is at fault."""
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):    # nobody may read it any more
                stream.flush()
        if position.is_supervised():    # then the worker has the last word
            position.last_words(message)
            os._exit(1)
        print(f"nbmod: {message}", file=sys.stderr, flush=True)
        self._messages.abort()
        os._exit(1)

    # -- the thread -------------------------------------------------------------------------

    def _run(self) -> None:
        told = False
        while not self._stopping.wait(POLL if not told else POLL / 10):
            self._read()
            if self._messages.rank in self._ended:
                if not told:
                    self._tell({"ended": True}, self._others())
                    told = True
                if len(self._ended) == self._messages.size:
                    return
            late = self._late()
            if late is not None:
                self._investigate(late)

    def _others(self) -> list[int]:
        return [rank for rank in range(self._messages.size) if rank != self._messages.rank]

    def _tell(self, what: object, ranks: Iterable[int]) -> None:
        for rank in ranks:
            self._messages.send(rank, json.dumps(what).encode())

    def _read(self) -> None:
        """Answer the questions, and keep the answers, that have arrived."""
        while (message := self._messages.receive()) is not None:
            rank, text = message
            said = json.loads(text)
            if "ask" in said:
                self._tell({"state": asdict(self._state())}, [rank])
            elif "ended" in said:
                self._ended.add(rank)
            else:
                known = {field.name for field in fields(State)}
                self._answers[rank] = State(**{name: value for name, value in said["state"].items()
                                               if name in known})

    def _late(self) -> WatchedExchange | None:
        with self._lock:
            return next((each for each in self._active if self._is_late(each)), None)

    def _is_late(self, exchange: WatchedExchange) -> bool:
        return exchange.is_late(bool(self._ended - {self._messages.rank}))

    def _state(self) -> State:
        now = position.current()
        with self._lock:
            oldest = self._active[0] if self._active else None
            begun = [*self._begun]
        if oldest is None:
            return State(now.epoch, now.batch, begun, where=self._where(),
                         ended=self._messages.rank in self._ended)
        seconds = time.monotonic() - oldest.began
        return State(now.epoch, now.batch, begun, oldest.what, seconds, self._is_late(oldest),
                     self._where())

    def _where(self) -> str:
        """The function in which the main thread of this rank is, and the line of its script."""
        frame = sys._current_frames().get(self._main or 0)
        if frame is None:
            return ""
        stack = traceback.extract_stack(frame)
        innermost = stack[-1]
        outside = [each for each in stack if not each.filename.startswith(PACKAGE)
                   and "<frozen" not in each.filename]
        caller = outside[-1] if outside else innermost
        place = f"{caller.name} ({os.path.basename(caller.filename)}:{caller.lineno})"
        return place if caller is innermost else f"{innermost.name}, called by {place}"

    def _investigate(self, late: WatchedExchange) -> None:
        """An exchange takes too long: find out why; end all if it still does then."""
        self._ask(ANSWER, lambda: len(self._answers) == len(self._others()))
        if any(state.late for rank, state in self._answers.items()
               if rank < self._messages.rank):
            self._ask(TURN, lambda: late not in self._active)
        hopeless = any(state.ended and _is_absent(state, late) for state in self._answers.values())
        if late in self._active and (hopeless or late.is_late(False)):
            self._die(self._report(late, dict(self._answers)))

    def _ask(self, seconds: float, enough: Callable[[], bool]) -> None:
        """Ask all others, and read what comes, for some seconds or until it is enough."""
        self._answers.clear()
        self._tell({"ask": True}, self._others())
        until = time.monotonic() + seconds
        while time.monotonic() < until and not enough():
            time.sleep(POLL / 10)
            self._read()

    # -- the message ------------------------------------------------------------------------

    def _name(self, rank: int) -> str:
        return f"rank {rank} of {self._messages.size} (host {self._hosts[rank]})"

    def _report(self, late: WatchedExchange, answers: dict[int, State]) -> str:
        """Why an exchange does not end, by the states of the ranks that have answered."""
        mine = self._state()
        waited = f"for {time.monotonic() - late.began:.0f} s"
        step = f" of {mine.step}" if mine.step else ""
        if late.peer >= 0:
            return (f"{self._name(late.peer)} has not answered the {late.what}{step} of rank "
                    f"{self._messages.rank} {waited}: {_account(answers.get(late.peer))}. {ADVICE}")
        absent = [rank for rank in self._others() if _is_absent(answers.get(rank), late)]
        if absent:
            accounts = "; ".join(f"{self._name(rank)} has not reached the {late.what}{step} "
                                 f"{waited}: {_account(answers.get(rank))}" for rank in absent)
            waiting = sorted({*self._others(), self._messages.rank}.difference(absent))
            return f"{accounts}; {_ranks(waiting)} for it. {ADVICE}"
        calls = {self._messages.rank: late.what,
                 **{rank: state.waiting for rank, state in answers.items()}}
        if len(set(calls.values())) > 1:
            return ("the ranks wait for each other in different exchanges, "
                    + ", ".join(f"rank {rank} in {calls[rank]}" for rank in sorted(calls))
                    + f"{step}: all have to use the same keys in the same order")
        hosts = ", ".join(sorted(set(self._hosts)))
        return (f"all {self._messages.size} ranks are in the {late.what}{step} {waited}, and it "
                f"does not end: is the network between the hosts ({hosts}) in order? {ADVICE}")


ADVICE = "NBMOD_DIST_TIMEOUT sets how many seconds an exchange may take"


def _is_absent(state: State | None, exchange: WatchedExchange) -> bool:
    """Whether a rank has not begun an exchange of all ranks."""
    return state is None or sum(state.begun[exchange.stream:][:1]) < exchange.number


def _account(state: State | None) -> str:
    """The activity of a rank, in words."""
    if state is None:
        return ("it does not answer, so it is stopped, or in code that does not release Python's "
                "lock")
    if state.ended:
        return "its script has ended"
    step = f"at {state.step}" if state.step else "before its first step"
    if state.waiting:
        return f"it waits in the {state.waiting}, {step}, for {state.seconds:.0f} s"
    return f"it is {step}, in {state.where}" if state.where else f"it is {step}"


def _ranks(ranks: Sequence[int]) -> str:
    """The ranks as the subject of a sentence."""
    if len(ranks) == 1:
        return f"rank {ranks[0]} waits"
    few = [*map(str, ranks)] if len(ranks) <= 8 else [*map(str, ranks[:7]), "..."]
    return f"ranks {', '.join(few)} wait"
