"""The flags of `autograd`: recording and training mode, per thread."""

from __future__ import annotations

import threading
from types import TracebackType

__all__ = ["STATE", "RecordingScope"]


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
