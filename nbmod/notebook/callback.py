"""`mxnet.notebook.callback`: tables and charts of training in notebooks, which nbmod has not."""

from ..core.refusal import refuse_names

__getattr__ = refuse_names(__name__, (
    "nbmod has no tables and charts for notebooks; mx.callback.Speedometer and "
    "mx.contrib.tensorboard.LogMetricsCallback record metrics, and so does any function given as "
    "batch_end_callback"))
