"""The flags of `autograd`: recording and training mode, per thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from types import TracebackType
from typing import ParamSpec, TypeVar

__all__ = ["STATE", "RecordingScope", "unrecorded"]

P = ParamSpec("P")
R = TypeVar("R")


class _RecordingState(threading.local):
    recording = False
    training = False


STATE = _RecordingState()


class RecordingScope:
    """Context manager that sets the flags, if not None, and restores them at its end."""

    def __init__(self, recording: bool | None, training: bool | None):
        self._wanted = recording, training
        self._before: list[tuple[bool, bool]] = []

    def __enter__(self) -> None:
        self._before.append((STATE.recording, STATE.training))
        recording, training = self._wanted
        if recording is not None:
            STATE.recording = recording
        if training is not None:
            STATE.training = training

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        STATE.recording, STATE.training = self._before.pop()


def unrecorded(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function whose operations on arrays are not recorded.

    Parameters
    ----------
    function : callable
        Function or method.
    """
    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        with RecordingScope(False, None):
            return function(*args, **kwargs)

    return call
