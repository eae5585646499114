"""What a search has run, in numbers that add up over processes."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import NamedTuple


class Tally(NamedTuple):
    """Programs by style, how many of them failed, and how often each feature and check was."""

    styles: Counter[str]
    failed: int
    features: Counter[str]

    @staticmethod
    def none() -> Tally:
        return Tally(Counter(), 0, Counter())

    @property
    def count(self) -> int:
        return sum(self.styles.values())

    def __add__(self, other: Tally) -> Tally:   # type: ignore[override]
        return Tally(self.styles + other.styles, self.failed + other.failed,
                     self.features + other.features)

    def __str__(self) -> str:
        return (f"{self.count} programs, {self.count - self.failed} clean\n"
                f"  styles: {_listed(self.styles)}\n  features: {_listed(self.features)}")

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(self))

    @staticmethod
    def read(path: Path) -> Tally:
        styles, failed, features = json.loads(path.read_text())
        return Tally(Counter(styles), failed, Counter(features))


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.most_common())
