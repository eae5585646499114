"""The facts of a plan as a page: one HTML file that a browser opens from the disk.

The page is in `page/`: `index.html`, which names a style sheet and scripts, one for each view.
`page` puts these files and the facts into one; equal facts make equal bytes.  The page loads
nothing, and its policy forbids browsers to load anything for it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from .facts_json import to_json
from .plan_chart import page_chart
from .schema import BindFacts, Json

__all__ = ["page"]

FOLDER = Path(__file__).parent / "page"


def page(facts: BindFacts, other: BindFacts | None = None, command: str = "") -> str:
    """A page about a plan, and how it differs from another one if there is one.

    Commands that it tells begin with `command`, if that is known.
    """
    text = re.sub(r'<link rel="stylesheet" href="([a-z]+\.css)">',
                  lambda match: f"<style>\n{_file(match[1])}</style>", _file("index.html"))
    text = re.sub(r'<script src="([a-z]+\.js)"></script>',
                  lambda match: f"<script>\n{_file(match[1])}</script>", text)
    text = text.replace('id="chart">', f'id="chart">{page_chart(facts.plan)}')
    others: Json = None if other is None else to_json(other)
    return _with_data(text, {"facts": to_json(facts), "other": others, "command": command})


def _file(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def _with_data(text: str, data: Mapping[str, Json]) -> str:
    """The page with values in its elements for data."""
    for name, values in data.items():
        if values:
            # A tag within a string would end the element.
            shown = json.dumps(values, separators=(",", ":")).replace("<", r"\u003c")
            place = f'id="{name}">'
            text = text.replace(place, place + shown, 1)
    return text
