"""Measurements by users; nothing is recorded while the profiler is stopped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from ..base import ArgumentError
from .recorder import RECORDER, now

__all__ = ["Counter", "Domain", "Event", "Frame", "Marker", "Task", "scope"]


S = TypeVar("S", bound="_Span")


class Domain:
    """A name that groups tasks, frames, counters and markers.

    Parameters
    ----------
    name : str
        Its name, the category in the trace.

    Examples
    --------
    >>> domain = mx.profiler.Domain("reading")
    >>> with domain.new_task("decode"):
    ...     pass  # is measured while the profiler runs
    >>> images = domain.new_counter("images", 0)
    >>> images += 1
    """

    def __init__(self, name: str):
        self.name = name

    def __str__(self) -> str:
        return self.name

    def new_task(self, name: str) -> Task:
        """Create a task of this domain.

        Parameters
        ----------
        name : str
            Its name in the trace.
        """
        return Task(self, name)

    def new_frame(self, name: str) -> Frame:
        """Create a frame of this domain.

        Parameters
        ----------
        name : str
            Its name in the trace.
        """
        return Frame(self, name)

    def new_counter(self, name: str, value: float | None = None) -> Counter:
        """Create a counter of this domain.

        Parameters
        ----------
        name : str
            Its name in the trace.
        value : float, optional
            Its first value, which is recorded.
        """
        return Counter(self, name, value)

    def new_marker(self, name: str) -> Marker:
        """Create a marker of this domain.

        Parameters
        ----------
        name : str
            Its name in the trace.
        """
        return Marker(self, name)


class _Span:
    """Base of measurements that are started and stopped."""

    def __init__(self, name: str, category: str):
        self.name, self._category = name, category
        self._start: float | None = None

    def __str__(self) -> str:
        return self.name

    def start(self) -> None:
        """Start measuring."""
        self._start = now()

    def stop(self) -> None:
        """Stop measuring and record the duration; has no effect without `start`."""
        if self._start is not None and RECORDER.running:
            RECORDER.span(self._category, self.name, self._start, now() - self._start)
        self._start = None

    def __enter__(self: S) -> S:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()


class Task(_Span):
    """A span of time in a domain: `start` and `stop` it, or use it in a with statement.

    Parameters
    ----------
    domain : Domain
        The domain that it belongs to.
    name : str
        Its name in the trace.
    """

    def __init__(self, domain: Domain, name: str):
        super().__init__(name, str(domain))


class Frame(_Span):
    """A span of time that is repeated, such as an iteration; used like `Task`.

    Parameters
    ----------
    domain : Domain
        The domain that it belongs to.
    name : str
        Its name in the trace.
    """

    def __init__(self, domain: Domain, name: str):
        super().__init__(name, f"{domain},frame")


class Event(_Span):
    """A span of time without a domain; used like `Task`.

    Parameters
    ----------
    name : str
        Its name in the trace.
    """

    def __init__(self, name: str):
        super().__init__(name, "event")


class Counter:
    """A value that changes over time; supports ``+=`` and ``-=``.

    Parameters
    ----------
    domain : Domain
        The domain that it belongs to.
    name : str
        Its name in the trace.
    value : float, optional
        Its first value, which is recorded; 0, not recorded, by default.
    """

    def __init__(self, domain: Domain, name: str, value: float | None = None):
        self.name, self._category, self._value = name, str(domain), 0.0
        if value is not None:
            self.set_value(value)

    def __str__(self) -> str:
        return self.name

    def set_value(self, value: float) -> None:
        """Set and record the value.

        Parameters
        ----------
        value : float
            The new value.
        """
        self._value = value
        if RECORDER.running:
            RECORDER.counter(self._category, self.name, value)

    def increment(self, delta: float = 1) -> None:
        """Increase and record the value.

        Parameters
        ----------
        delta : float, default 1
            What to add.
        """
        self.set_value(self._value + delta)

    def decrement(self, delta: float = 1) -> None:
        """Decrease and record the value.

        Parameters
        ----------
        delta : float, default 1
            What to subtract.
        """
        self.set_value(self._value - delta)

    def __iadd__(self, delta: float) -> Counter:
        self.increment(delta)
        return self

    def __isub__(self, delta: float) -> Counter:
        self.decrement(delta)
        return self


_SCOPES = {"global": "g", "process": "p", "thread": "t", "task": "t", "marker": "t"}


class Marker:
    """A point in time.

    Parameters
    ----------
    domain : Domain
        The domain that it belongs to.
    name : str
        Its name in the trace.
    """

    def __init__(self, domain: Domain, name: str):
        self.name, self._category = name, f"{domain},instant_marker"

    def mark(self, scope: str = "process") -> None:
        """Record the current time.

        Parameters
        ----------
        scope : {'global', 'process', 'thread', 'task', 'marker'}, default 'process'
            What the mark is drawn across in the trace viewer; the last two are those of a thread.
        """
        if scope not in _SCOPES:
            raise ArgumentError(f"Marker.mark: scope is {scope!r}, expected one of "
                                f"{list(_SCOPES)}")
        if RECORDER.running:
            RECORDER.instant(self._category, self.name, _SCOPES[scope])


@contextmanager
def scope(name: str = "<unk>:", append_mode: bool = True) -> Iterator[None]:
    """Prefix the names of operations in the trace, in a with statement.

    Parameters
    ----------
    name : str, default '<unk>:'
        The prefix; a colon is appended if it does not end with one.
    append_mode : bool, default True
        Append it to the prefix of the enclosing scope, instead of replacing that.

    Examples
    --------
    >>> with mx.profiler.scope("encoder"):
    ...     total = mx.nd.ones((2,)) + 1
    """
    before = RECORDER.prefix
    ended = name if name.endswith(":") else f"{name}:"
    RECORDER.prefix = before + ended if append_mode else ended
    try:
        yield
    finally:
        RECORDER.prefix = before
