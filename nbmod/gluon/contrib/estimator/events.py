"""Events of training: a handler derives from the classes of those that it takes part in.

Handlers of an event are called in ascending order of their attribute `priority` (0 if there is
none), and those of one priority in the order of the list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....base import ArgumentError

if TYPE_CHECKING:
    from .estimator import Estimator

__all__ = ["BatchBegin", "BatchEnd", "EpochBegin", "EpochEnd", "EventHandler", "TrainBegin",
           "TrainEnd"]
__dir__ = __all__.copy


class EventHandler:
    """Base of all handlers of events.

    Examples
    --------
    >>> from nbmod.gluon.contrib.estimator import BatchEnd, TrainBegin
    >>> class Counter(TrainBegin, BatchEnd):
    ...     def train_begin(self, estimator, *args, **kwargs):
    ...         self.count = 0
    ...     def batch_end(self, estimator, *args, **kwargs):
    ...         self.count += 1
    ...         return self.count == 100    # ends training
    """


class TrainBegin(EventHandler):
    """Handler of the beginning of `fit`."""

    def train_begin(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Do something before the first epoch."""


class TrainEnd(EventHandler):
    """Handler of the end of `fit`."""

    def train_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Do something after the last epoch."""


class EpochBegin(EventHandler):
    """Handler of the beginning of every epoch."""

    def epoch_begin(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Do something before the first batch of an epoch."""


class EpochEnd(EventHandler):
    """Handler of the end of every epoch."""

    def epoch_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> bool | None:
        """Do something after the last batch of an epoch; True ends training."""
        return False


class BatchBegin(EventHandler):
    """Handler of the beginning of every batch."""

    def batch_begin(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Do something before the network is called with the keyword argument `batch`."""


class BatchEnd(EventHandler):
    """Handler of the end of every batch."""

    def batch_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> bool | None:
        """Do something after the backward pass; True ends the epoch.

        Keyword arguments are `batch`, and lists of arrays, one for each context, `pred`, `label`
        and `loss`.
        """
        return False


def _check_event_handlers(handlers: Any) -> list[EventHandler]:
    """Return a new list of the handlers."""
    if isinstance(handlers, EventHandler):
        return [handlers]
    handlers = handlers or []
    if not isinstance(handlers, (list, tuple)) or not all(
            isinstance(each, EventHandler) for each in handlers):
        raise ArgumentError("handlers must be an EventHandler or a list of EventHandler, "
                            f"got: {handlers}")
    return [*handlers]
