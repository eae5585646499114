"""What users measure themselves; nothing is recorded while the profiler does not run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..base import ArgumentError
from .recorder import RECORDER, now

__all__ = ["Counter", "Domain", "Event", "Frame", "Marker", "Task", "scope"]


class Domain:
    """A name that groups tasks, frames, counters and markers."""

    def __init__(self, name: str):
        self.name = name

    def __str__(self) -> str:
        return self.name

    def new_task(self, name: str) -> Task:
        """A task of this domain."""
        return Task(self, name)

    def new_frame(self, name: str) -> Frame:
        """A frame of this domain."""
        return Frame(self, name)

    def new_counter(self, name: str, value: float | None = None) -> Counter:
        """A counter of this domain."""
        return Counter(self, name, value)

    def new_marker(self, name: str) -> Marker:
        """A marker of this domain."""
        return Marker(self, name)


class _Span:
    """Something that is started and stopped."""

    def __init__(self, name: str, category: str):
        self.name, self._category = name, category
        self._start: float | None = None

    def __str__(self) -> str:
        return self.name

    def start(self) -> None:
        """Begin."""
        self._start = now()

    def stop(self) -> None:
        """End; a stop without a start means nothing."""
        if self._start is not None and RECORDER.running:
            RECORDER.span(self._category, self.name, self._start, now() - self._start)
        self._start = None

    def __enter__(self) -> Any:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()


class Task(_Span):
    """A piece of work in a domain."""

    def __init__(self, domain: Domain, name: str):
        super().__init__(name, str(domain))


class Frame(_Span):
    """One of many that follow each other, such as an iteration."""

    def __init__(self, domain: Domain, name: str):
        super().__init__(name, f"{domain},frame")


class Event(_Span):
    """A piece of work without a domain."""

    def __init__(self, name: str):
        super().__init__(name, "event")


class Counter:
    """A number that changes; `counter += 1` changes it as well."""

    def __init__(self, domain: Domain, name: str, value: float | None = None):
        self.name, self._category, self._value = name, str(domain), 0.0
        if value is not None:
            self.set_value(value)

    def __str__(self) -> str:
        return self.name

    def set_value(self, value: float) -> None:
        """The number is `value` from now on."""
        self._value = value
        if RECORDER.running:
            RECORDER.counter(self._category, self.name, value)

    def increment(self, delta: float = 1) -> None:
        """Add to it."""
        self.set_value(self._value + delta)

    def decrement(self, delta: float = 1) -> None:
        """Take from it."""
        self.set_value(self._value - delta)

    def __iadd__(self, delta: float) -> Counter:
        self.increment(delta)
        return self

    def __isub__(self, delta: float) -> Counter:
        self.decrement(delta)
        return self


_SCOPES = {"global": "g", "process": "p", "thread": "t", "task": "t", "marker": "t"}


class Marker:
    """A moment."""

    def __init__(self, domain: Domain, name: str):
        self.name, self._category = name, f"{domain},instant_marker"

    def mark(self, scope: str = "process") -> None:
        """Now, for the whole of `scope`: "global", "process", "thread", "task" or "marker"."""
        if scope not in _SCOPES:
            raise ArgumentError(f"Marker.mark: scope is {scope!r}, expected one of "
                                f"{list(_SCOPES)}")
        if RECORDER.running:
            RECORDER.instant(self._category, self.name, _SCOPES[scope])


@contextmanager
def scope(name: str = "<unk>:", append_mode: bool = True) -> Iterator[None]:
    """A block whose operations have `name` before theirs in the trace, after that of the block
    around it if `append_mode`."""
    before = RECORDER.prefix
    ended = name if name.endswith(":") else f"{name}:"
    RECORDER.prefix = before + ended if append_mode else ended
    try:
        yield
    finally:
        RECORDER.prefix = before
