"""The virtual environment of MXNet, for the oracle's tests and for benchmarks.

    python -m tests.oracle.setup        makes it

It needs Python 3.10 or 3.11 (MXNet 1.9.1 uses names that numpy 1.24 removed) on PATH or under
pyenv, and PyPI. The environment goes to `.oracle/` in the checkout, or to the folder that
NBMOD_ORACLE_HOME names; NBMOD_ORACLE_PYTHON names a Python that has MXNet already.
Runs before nbmod is installed, so it imports the standard library only.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from .virtual_environment import ROOT, Environment

# OpenCV is required by MXNet's own `pack_img` and `unpack_img`.
REQUIREMENTS = ("mxnet==1.9.1", "numpy==1.23.5", "opencv-python-headless==4.8.1.78")
VERSIONS = ("3.11", "3.10")


def environment() -> Environment:
    """The oracle's, existing or not."""
    home = Path(os.environ.get("NBMOD_ORACLE_HOME") or ROOT / ".oracle")
    return Environment("oracle", home, REQUIREMENTS, "NBMOD_ORACLE_PYTHON")


def find_python() -> Path | None:
    """The Python that has MXNet, or None: `absence` says why."""
    return environment().find()


def absence() -> str:
    """What to do where there is no MXNet."""
    return "MXNet's environment is absent: " + (
        environment().misled() or "python -m tests.oracle.setup makes it")


def main() -> int:
    """Make the environment unless it exists; 0, or 1 with the reason on standard error."""
    wanted = environment()
    if wanted.find() is not None:
        print(f"oracle: {wanted.find()} stands")
        return 0
    base = None if wanted.misled() else next(base_pythons(), None)
    if base is None:
        print("oracle:", wanted.misled() or f"MXNet needs one of Python {', '.join(VERSIONS)}",
              file=sys.stderr)
        return 1
    print(f"oracle: making {wanted.folder} with {base}")
    wanted.make(base)
    subprocess.run([wanted.python, "-c", "import mxnet; print('oracle: MXNet', mxnet.__version__)"],
                   check=True)  # fmt: skip
    return 0


def base_pythons() -> Iterator[str]:
    """Installed interpreters of a suitable version, best first."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for version in VERSIONS:
        candidates = [shutil.which(f"python{version}")]
        candidates += [str(path) for path in sorted(pyenv.glob(f"{version}.*/bin/python"))]
        for candidate in candidates:
            if candidate and _starts(candidate, version):
                yield candidate


def _starts(python: str, version: str) -> bool:
    """Whether `python` is a working Python `version`; pyenv puts shims of absent ones on PATH."""
    code = "import sys, ensurepip, venv; print('%d.%d' % sys.version_info[:2])"
    try:
        ran = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=60)
    except OSError:
        return False
    return ran.returncode == 0 and ran.stdout.strip() == version
