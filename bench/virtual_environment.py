"""Virtual environments of tests and benchmarks, separate from the one that runs them.

Runs before nbmod is installed, so it imports the standard library only.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ROOT", "Environment"]

ROOT = Path(__file__).resolve().parents[1]
_PATIENCE = 3600  # seconds that pip may take


@dataclass(frozen=True)
class Environment:
    """Packages in a folder, whether they are there yet or not.

    kind: what it is for.  pointer: an environment variable that may name a Python that has the
    packages already.
    """

    kind: str
    folder: Path
    requirements: tuple[str, ...]
    pointer: str = ""

    @property
    def python(self) -> Path:
        """The Python of the folder."""
        return self.folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")

    @property
    def _stamp(self) -> Path:
        """Written last, so that an interrupted set-up is recognized as incomplete."""
        return self.folder / f"nbmod-{self.kind}.txt"

    def find(self) -> Path | None:
        """The Python that has the packages, or None if there is none yet, or see `misled`."""
        if named := os.environ.get(self.pointer):
            found = shutil.which(named)
            return Path(found) if found else None
        whole = self._stamp.exists() and self._stamp.read_text() == "\n".join(self.requirements)
        return self.python if whole else None

    def misled(self) -> str:
        """The error if the pointer names a Python that does not start; else nothing."""
        named = os.environ.get(self.pointer)
        if not named or self.find():
            return ""
        return f"{self.pointer} names {named}, which is no program"

    def make(self, base: str = sys.executable, before: Sequence[str] = ()) -> None:
        """Create it anew by the Python `base`.  Raises OSError and SubprocessError.

        before: packages that pip installs first, if it can.
        """
        shutil.rmtree(self.folder, ignore_errors=True)
        subprocess.run([base, "-m", "venv", str(self.folder)], check=True)
        pip = [str(self.python), "-m", "pip", "install", "--quiet"]
        if before:
            subprocess.run([*pip, *before], check=False, capture_output=True, timeout=_PATIENCE)
        subprocess.run([*pip, *self.requirements], check=True, timeout=_PATIENCE)
        self._stamp.write_text("\n".join(self.requirements))
