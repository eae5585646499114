"""Plots of the training history.

A history is what `fit` stores as `module.history`: a list with a dict per epoch, of its number
`epoch`, the metrics `train` and `validation` (name -> value; empty without validation data) and
the `seconds` that training took.  It is plain data: `json.dump` writes it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from ..base import MXNetError
from ..core.figures import save_figure
from ..core.reprs import listed, safe_repr
from .watchers import larger_is_better

__all__ = ["History", "plot"]
__dir__ = __all__.copy


class History(list[dict[str, Any]]):
    """A history: a list that presents itself at a prompt, and in a notebook as a table.

    ``print`` shows its content.

    Examples
    --------
    >>> History([{"epoch": 0, "train": {"mse": 0.5}, "validation": {}, "seconds": 2.0}])
    <History of 1 epoch: mse=0.5>
    """

    @safe_repr
    def __repr__(self) -> str:
        count = f"{len(self)} epoch{'s' * (len(self) != 1)}"
        values = "" if not self else ": " + listed(
            f"{name}={value:.4g}" for name, value in _row(self[-1]).items())
        return f"<History of {count}{values}>"

    def __str__(self) -> str:
        return list.__repr__(self)

    def _repr_html_(self) -> str:
        """The epochs as a table, counted from 1."""
        rows = [_row(past) for past in self]
        names = list(dict.fromkeys(name for row in rows for name in row))
        head = "".join(f"<th>{escape(name)}</th>" for name in ["epoch", *names, "seconds"])
        body = "".join(
            "<tr>" + "".join(f"<td>{cell}</td>" for cell in [
                past["epoch"] + 1, *(f"{row[name]:.4g}" if name in row else "" for name in names),
                f"{past['seconds']:.1f}"]) + "</tr>" for past, row in zip(self, rows, strict=True))
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _row(past: Mapping[str, Any]) -> dict[str, float]:
    """Metrics of an epoch, those of the validation under names of their own."""
    return {**past["train"],
            **{f"validation-{name}": value for name, value in past["validation"].items()}}


def plot(history: Sequence[Mapping[str, Any]], path: Any = None, title: str = "") -> Any:
    """Plot the metrics over the epochs, with one panel per metric.

    Training and validation share the panel of a metric. Epochs are counted from 1. The best epoch
    is marked where the name of the metric tells whether larger values are better: the best of
    validation, or of training if there is no validation. Needs matplotlib.

    Parameters
    ----------
    history : list of dict
        ``module.history`` after `fit`.
    path : str or path, optional
        File that the figure is written to; its suffix determines the format.
    title : str, default ''
        Title of the figure.

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
        points: list[tuple[int, float]] = []
        for kind, label, marker in (("train", "training", "o-"),
                                    ("validation", "validation", "s-")):
            curve = [(past["epoch"] + 1, past[kind][name]) for past in history
                     if name in past[kind]]
            if curve:
                points = curve
                axes.plot(*zip(*points, strict=True), marker, markersize=4, label=label)
        _mark_best(axes, name, points)
        axes.set(xlabel="epoch", ylabel=name)
        axes.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
        axes.set_xlim(history[0]["epoch"] + 0.5, history[-1]["epoch"] + 1.5)
        axes.grid(alpha=0.3)
        axes.legend()
    figure.suptitle(title)
    if path is not None:
        save_figure(figure, path)
    return figure


def _mark_best(axes: Any, metric: str, points: Sequence[tuple[int, float]]) -> None:
    """Mark the first of the best points, if the metric tells what is better."""
    finite = [point for point in points if math.isfinite(point[1])]
    larger = larger_is_better(metric)
    if larger is not None and finite:
        epoch, value = max(finite, key=lambda point: point[1] if larger else -point[1])
        axes.scatter([epoch], [value], marker="*", s=160, color="tab:red", zorder=3,
                     label=f"best: epoch {epoch}, {value:.4g}")
