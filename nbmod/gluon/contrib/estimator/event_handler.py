"""MXNet's module path of events and their handlers."""

from .checkpoint_handler import CheckpointHandler
from .early_stopping import EarlyStoppingHandler
from .events import (
    BatchBegin,
    BatchEnd,
    EpochBegin,
    EpochEnd,
    EventHandler,
    TrainBegin,
    TrainEnd,
    _check_event_handlers,
)
from .logging_handler import LoggingHandler
from .step_handlers import (
    GradientUpdateHandler,
    MetricHandler,
    StoppingHandler,
    ValidationHandler,
)

__all__ = ["BatchBegin", "BatchEnd", "CheckpointHandler", "EarlyStoppingHandler", "EpochBegin",
           "EpochEnd", "EventHandler", "GradientUpdateHandler", "LoggingHandler", "MetricHandler",
           "StoppingHandler", "TrainBegin", "TrainEnd", "ValidationHandler",
           "_check_event_handlers"]


def __dir__() -> list[str]:
    return [name for name in __all__ if not name.startswith("_")]
