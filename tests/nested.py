"""pytest in a process of its own, for tests of the tests and of settings read at import."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def run_pytest(folder: Path, *arguments: str,
               **environment: str) -> subprocess.CompletedProcess[str]:
    """Run pytest on `arguments` in one process; its temporary files are in `folder`.

    Without a folder of its own it tidies one that other processes of pytest tidy, too, and the
    ones it misses are warnings at its end, which are errors here.
    """
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
               f"--basetemp={folder / 'nested'}", *arguments]
    return subprocess.run(command, env=os.environ | {"PYTEST_ADDOPTS": ""} | environment,
                          cwd=Path(__file__).parents[1], capture_output=True, text=True)
