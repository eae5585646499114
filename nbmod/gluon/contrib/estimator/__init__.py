"""`mx.gluon.contrib.estimator`: trains networks of Gluon, with handlers for events.

    estimator.py           `Estimator`: `fit` and `evaluate` over loaders
    batch_processor.py     `BatchProcessor`: the calls for one batch
    events.py              base classes of handlers
    event_handler.py       handlers that step, update metrics, validate, log and end training
    checkpoint_handler.py  a handler that saves and goes on
    utils.py               checks and comparisons of metrics

Begin with `estimator.py`.  Imports `autograd`, `base`, `context`, `core.atomic`, `gluon.block`,
`gluon.data`, `gluon.loss`, `gluon.trainer`, `gluon.utils`, `metric` and `ndarray`.
"""

from . import batch_processor, estimator, event_handler, utils
from .batch_processor import BatchProcessor
from .estimator import Estimator
from .event_handler import *  # noqa: F403

__all__ = ["BatchProcessor", "Estimator", "batch_processor", "estimator", "event_handler", "utils"]
__all__ += event_handler.__all__
__dir__ = __all__.copy
