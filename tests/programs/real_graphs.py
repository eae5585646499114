"""The graphs of real models in a folder next to the checkout."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[3] / "shared/reference/graphs"
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
