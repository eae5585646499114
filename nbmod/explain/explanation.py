"""`Explanation`: the facts of a plan, and answers to questions about it."""

from __future__ import annotations

import json

from .schema import BindFacts, to_json

__all__ = ["Explanation"]


class Explanation:
    """Why every step of a plan is as it is.

    Parameters
    ----------
    facts : Facts
        Everything that was decided, and why, as plain values.
    """

    def __init__(self, facts: BindFacts):
        self.facts = facts

    def json(self) -> str:
        """The facts as JSON, which `nbmod explain --diff` and scripts read."""
        return json.dumps(to_json(self.facts), separators=(",", ":"))
