"""`Explanation`: the facts of a plan, and answers to questions about it."""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path

from ..base import MXNetError
from .overview import overview
from .schema import BindFacts, from_json, to_json

__all__ = ["Explanation"]


class Explanation:
    """Why every step of a plan is as it is.

    Its text is a summary.

    Parameters
    ----------
    facts : BindFacts
        Everything that was decided, and why, as plain values.
    """

    def __init__(self, facts: BindFacts):
        self.facts = facts

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Explanation:
        """The explanation in a file that `json` wrote.

        Parameters
        ----------
        path : str or path
            The file.

        Raises
        ------
        MXNetError
            If it holds no facts, or those of a later version.
        """
        try:
            values = json.loads(Path(path).read_text(encoding="utf-8"))
        except ValueError as error:
            raise MXNetError(f"explain: {path} is damaged: {error}") from None
        if not isinstance(values, dict):
            raise MXNetError(f"explain: {path} holds no facts: expected an object of JSON")
        return cls(from_json(values))

    def __repr__(self) -> str:
        return overview(self.facts)

    def json(self) -> str:
        """The facts as JSON, which `nbmod explain --diff` and scripts read."""
        return json.dumps(to_json(self.facts), separators=(",", ":"))
