"""Wheels of the distributions that this repository builds beside nbmod."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

__all__ = ["wheel_of"]

PROJECT = """
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"
"""


def wheel_of(project: Path, setup: str, out: Path) -> Path:
    """Make the wheel of a folder of sources.

    Parameters
    ----------
    project : Path
        The sources.
    setup : str
        Their setup.cfg.
    out : Path
        Folder of the wheel.

    Returns
    -------
    Path
        The wheel.
    """
    (project / "pyproject.toml").write_text(PROJECT)
    (project / "setup.cfg").write_text(setup)
    subprocess.run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir",
                    str(out), str(project)], check=True)
    return max(out.glob("*.whl"), key=lambda path: path.stat().st_mtime)
