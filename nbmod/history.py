"""Plots of the training history.

A history is what `fit` stores as `module.history`: a list with a dict per epoch, of its number
`epoch`, the metrics `train` and `validation` (name -> value; empty without validation data) and
the `seconds` that training took.  It is plain data: `json.dump` writes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .base import MXNetError
from .figures import save_figure

__all__ = ["plot"]


def plot(history: Sequence[Mapping[str, Any]], path: Any = None, title: str = "") -> Any:
    """Plot the metrics over the epochs, with one panel per metric.

    Training and validation share the panel of a metric. Epochs are counted from 1. Needs
    matplotlib.

    Parameters
    ----------
    history : list of dict
        ``module.history`` after `fit`.
    path : str or path, optional
        File that the figure is written to; its suffix determines the format.
    title : str, default ''
        Title of the figure.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.

    Raises
    ------
    MXNetError
        If there are no metrics in the history, or matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MXNetError("history.plot draws with matplotlib: pip install 'nbmod[plot]'"
                         ) from None
    names = list(dict.fromkeys(name for epoch in history for kind in ("train", "validation")
                               for name in epoch[kind]))
    if not names:
        raise MXNetError("history.plot: there is nothing to draw; call fit first")
    figure = Figure(figsize=(7, 1 + 3 * len(names)), layout="constrained")
    panels = figure.subplots(len(names), squeeze=False)[:, 0]
    for name, axes in zip(names, panels, strict=True):
        for kind, label, marker in (("train", "training", "o-"),
                                    ("validation", "validation", "s-")):
            points = [(past["epoch"] + 1, past[kind][name]) for past in history
                      if name in past[kind]]
            if points:
                axes.plot(*zip(*points, strict=True), marker, label=label)
        axes.set(xlabel="epoch", ylabel=name)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.grid(alpha=0.3)
        axes.legend()
    figure.suptitle(title)
    if path is not None:
        save_figure(figure, path)
    return figure
