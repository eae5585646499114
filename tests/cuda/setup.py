"""Makes the environment that compiles GPU kernels without a GPU: `python -m tests.cuda.setup`.

numba-cuda and NVIDIA's compiler and linker (some 800 MB) go to `.cuda/` in the checkout, or to the
folder that NBMOD_CUDA_HOME names, with what was compiled; NBMOD_CUDA_PYTHON names a Python that
has them already.  Neither driver nor toolkit is needed.  CUDA 13 makes code for compute capability
7.5 and later.  Imports the standard library only.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from ..oracle.setup import python_of

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = ("numba==0.68.1", "numba-cuda==0.30.4", "nvidia-cuda-nvrtc==13.0.*",
                "nvidia-nvvm==13.0.*", "nvidia-nvjitlink==13.0.*")  # fmt: skip


def home() -> Path:
    """The folder of the environment, existing or not."""
    return Path(os.environ.get("NBMOD_CUDA_HOME") or ROOT / ".cuda")


def find_python() -> Path | None:
    """The Python that compiles, or None when `main` has not made it."""
    named = os.environ.get("NBMOD_CUDA_PYTHON")
    if named:
        return Path(named)
    whole = _stamp().exists() and _stamp().read_text() == "\n".join(REQUIREMENTS)
    return python_of(home()) if whole else None


def main() -> int:
    """Make the environment unless it stands.

    Where that fails it says so, and returns 1 under NBMOD_REQUIRE_CUDA=1, else 0: the tests that
    need it are skipped.
    """
    if find_python() is None:
        print(f"cuda: making {home()}")
        shutil.rmtree(home(), ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(home())], check=True)
        done = subprocess.run([python_of(home()), "-m", "pip", "install", "--quiet", *REQUIREMENTS])
        if done.returncode:
            print("cuda: NO KERNEL WILL BE COMPILED, the packages cannot be installed",
                  file=sys.stderr)
            return int(os.environ.get("NBMOD_REQUIRE_CUDA") == "1")
        _stamp().write_text("\n".join(REQUIREMENTS))
    print(f"cuda: {find_python()} stands")
    return 0


def _stamp() -> Path:
    """Written last, so that an interrupted set-up is not taken for a whole one."""
    return home() / "nbmod-cuda.txt"


if __name__ == "__main__":
    sys.exit(main())
