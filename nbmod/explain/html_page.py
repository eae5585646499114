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

from .schema import BindFacts, to_json

__all__ = ["page"]

FOLDER = Path(__file__).parent / "page"


def page(facts: BindFacts, other: BindFacts | None = None) -> str:
    """A page about a plan, and how it differs from another one if there is one."""
    text = re.sub(r'<link rel="stylesheet" href="([a-z]+\.css)">',
                  lambda match: f"<style>\n{_file(match[1])}</style>", _file("index.html"))
    text = re.sub(r'<script src="([a-z]+\.js)"></script>',
                  lambda match: f"<script>\n{_file(match[1])}</script>", text)
    return _with_data(text, {"facts": facts, "other": other})


def _file(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def _with_data(text: str, data: Mapping[str, BindFacts | None]) -> str:
    """The page with facts in its elements for data."""
    for name, facts in data.items():
        if facts is not None:
            # A tag within a string would end the element.
            values = json.dumps(to_json(facts), separators=(",", ":")).replace("<", r"\u003c")
            place = f'id="{name}">'
            text = text.replace(place, place + values, 1)
    return text
