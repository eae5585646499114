"""Graphs of real models: those in the folder that NBMOD_GRAPHS names, or beside the checkout.

Every `*.json.gz` there has names and graphs; `public/` has files as models were published.
"""

from __future__ import annotations

import gzip
import json
import os
from functools import cache
from pathlib import Path
from typing import Any

BESIDE = Path(__file__).resolve().parents[2] / "shared/reference/graphs"
FOLDER = Path(os.environ.get("NBMOD_GRAPHS") or BESIDE)
ARCHIVES = sorted(FOLDER.glob("*.json.gz"))
PUBLIC = sorted((FOLDER / "public").glob("*.json"))


@cache
def texts() -> dict[str, str]:
    """The JSON of every graph by name; empty where the folder is absent."""
    found = {}
    for archive in ARCHIVES:
        with gzip.open(archive, "rt", encoding="utf-8") as stream:
            for name, graph in json.load(stream).items():
                found[name] = graph if isinstance(graph, str) else json.dumps(graph)
    return found | {path.name: path.read_text(encoding="utf-8") for path in PUBLIC}


@cache
def records(name: str) -> dict[str, Any]:
    """The parsed JSON of a graph."""
    parsed: dict[str, Any] = json.loads(texts()[name])
    return parsed
