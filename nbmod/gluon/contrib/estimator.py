"""`mx.gluon.contrib.estimator`: names of Gluon's trainer and its events (see `nbmod.gluon`)."""

from ..absent import absent_classes

_NAMES = """
    BatchBegin BatchEnd BatchProcessor CheckpointHandler EarlyStoppingHandler EpochBegin EpochEnd
    Estimator EventHandler GradientUpdateHandler LoggingHandler MetricHandler StoppingHandler
    TrainBegin TrainEnd ValidationHandler
"""

globals().update(absent_classes(__name__, _NAMES))
__all__ = _NAMES.split()
