"""`mx.contrib.tensorboard`: metrics for TensorBoard."""

from __future__ import annotations

from typing import Any

from ..base import MXNetError
from ..metric.eval_metric import numbers

__all__ = ["LogMetricsCallback"]
__dir__ = __all__.copy


class LogMetricsCallback:
    """A callback that writes metrics for TensorBoard, by the package `tensorboardX` or `mxboard`.

    Parameters
    ----------
    logging_dir : str
        Folder of the event files.
    prefix : str, optional
        Prefix of the names of metrics.

    Raises
    ------
    MXNetError
        If neither package is installed.
    """

    def __init__(self, logging_dir: str, prefix: str | None = None):
        self.prefix, self.step = prefix, 0
        self.summary_writer: Any = _writer(logging_dir)

    def __call__(self, param: Any) -> None:
        """Write the values of `param.eval_metric` that are numbers."""
        self.step += 1
        if param.eval_metric is None:
            return
        for name, value in numbers(param.eval_metric.get_name_value()).items():
            full = name if self.prefix is None else f"{self.prefix}-{name}"
            self.summary_writer.add_scalar(full, value, global_step=self.step)


def _writer(folder: str) -> Any:
    try:
        from mxboard import SummaryWriter
    except ImportError:
        try:
            from tensorboardX import SummaryWriter
        except ImportError:
            raise MXNetError("LogMetricsCallback writes through another package: "
                             "pip install 'nbmod[tensorboard]'") from None
    return SummaryWriter(folder)
