"""MXNet's module path of events and their handlers."""

from . import checkpoint_handler, early_stopping, events, logging_handler, step_handlers
from .checkpoint_handler import *  # noqa: F403
from .early_stopping import *  # noqa: F403
from .events import *  # noqa: F403
from .events import _check_event_handlers  # noqa: F401 - programs take it from here
from .logging_handler import *  # noqa: F403
from .step_handlers import *  # noqa: F403

__all__ = [*checkpoint_handler.__all__, *early_stopping.__all__, *events.__all__,
           *logging_handler.__all__, *step_handlers.__all__]
__dir__ = __all__.copy
