"""Makes the oracle's virtual environment: `python -m tests.oracle.setup`.

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

ROOT = Path(__file__).resolve().parents[2]
# OpenCV is what MXNet's own `pack_img` and `unpack_img` ask for.
REQUIREMENTS = ("mxnet==1.9.1", "numpy==1.23.5", "opencv-python-headless==4.8.1.78")
VERSIONS = ("3.11", "3.10")


def home() -> Path:
    """The folder of the oracle's environment, existing or not."""
    return Path(os.environ.get("NBMOD_ORACLE_HOME") or ROOT / ".oracle")


def find_python() -> Path | None:
    """The Python that has MXNet, or None when `main` has not made it."""
    named = os.environ.get("NBMOD_ORACLE_PYTHON")
    if named:
        return Path(named)
    whole = _stamp().exists() and _stamp().read_text() == "\n".join(REQUIREMENTS)
    return python_of(home()) if whole else None


def main() -> int:
    """Make the environment unless it stands; 0, or 1 with the reason on standard error."""
    if find_python() is not None:
        print(f"oracle: {find_python()} stands")
        return 0
    base = next(base_pythons(), None)
    if base is None:
        print(f"oracle: MXNet needs one of Python {', '.join(VERSIONS)}", file=sys.stderr)
        return 1
    print(f"oracle: making {home()} with {base}")
    shutil.rmtree(home(), ignore_errors=True)
    subprocess.run([base, "-m", "venv", str(home())], check=True)
    python = str(python_of(home()))
    subprocess.run([python, "-m", "pip", "install", "--quiet", *REQUIREMENTS], check=True)
    subprocess.run([python, "-c", "import mxnet; print('oracle: MXNet', mxnet.__version__)"],
                   check=True)  # fmt: skip
    _stamp().write_text("\n".join(REQUIREMENTS))
    return 0


def base_pythons() -> Iterator[str]:
    """Interpreters of a fitting version that start, best first."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for version in VERSIONS:
        candidates = [shutil.which(f"python{version}")]
        candidates += [str(path) for path in sorted(pyenv.glob(f"{version}.*/bin/python"))]
        for candidate in candidates:
            if candidate and _starts(candidate, version):
                yield candidate


def _starts(python: str, version: str) -> bool:
    """Whether `python` is a whole Python `version`; pyenv puts shims of absent ones on PATH."""
    code = "import sys, ensurepip, venv; print('%d.%d' % sys.version_info[:2])"
    try:
        ran = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=60)
    except OSError:
        return False
    return ran.returncode == 0 and ran.stdout.strip() == version


def python_of(folder: Path) -> Path:
    """The Python of a virtual environment."""
    inside = "Scripts/python.exe" if os.name == "nt" else "bin/python"
    return folder / inside


def _stamp() -> Path:
    """Written last, so that an interrupted set-up is not taken for a whole one."""
    return home() / "nbmod-oracle.txt"


if __name__ == "__main__":
    sys.exit(main())
