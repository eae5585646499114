"""What one measurement says, and how long it may look."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Effort:
    """How much of the published number of trials is run.

    Parameters
    ----------
    share : float
        1 is the published number.
    seed : int
        Seed of the random choices.
    """

    share: float
    seed: int = 0

    def trials(self, published: int, at_least: int = 1) -> int:
        """This run's share of a published number of trials."""
        return max(at_least, round(published * self.share))


@dataclass(frozen=True)
class Figure:
    """One row of the table.

    Parameters
    ----------
    what : str
        What was tried, in words: "Sets killed while the same epoch is saved again".
    trials : int
        How often it was tried.
    failures : tuple of str
        One sentence for each trial that broke the promise.
    detail : str
        Other results worth a reader's time: "longest 1.2 s".
    """

    what: str
    trials: int
    failures: tuple[str, ...] = ()
    detail: str = ""


@dataclass(frozen=True)
class Promise:
    """A promise to users and the measurement of it.

    Parameters
    ----------
    number : int
        Row in the table.
    name : str
        A few words.
    goal : str
        What must hold in every trial.
    measure : callable
        ``measure(effort)`` runs the trials on nbmod.
    mxnet : callable, optional
        The same trials on real MXNet, in processes of its own, where they can be run there.
    short : callable, optional
        What every test run measures instead, where even a small share of the trials is too slow.
    """

    number: int
    name: str
    goal: str
    measure: Callable[[Effort], list[Figure]]
    mxnet: Callable[[Effort], list[Figure]] | None = None
    short: Callable[[Effort], list[Figure]] | None = None
