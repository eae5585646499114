"""Makes the environment that compiles GPU kernels without a GPU: `python -m tests.cuda.setup`.

numba-cuda and NVIDIA's compiler and linker (some 800 MB) go to `.cuda/` in the checkout, or to the
folder that NBMOD_CUDA_HOME names, with what was compiled; NBMOD_CUDA_PYTHON names a Python that
has them already.  Neither driver nor toolkit is needed.  CUDA 13 makes code for compute capability
7.5 and later.  Imports the standard library only.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from bench.virtual_environment import ROOT, Environment

REQUIREMENTS = ("numba==0.68.1", "numba-cuda==0.30.4", "nvidia-cuda-nvrtc==13.0.*",
                "nvidia-nvvm==13.0.*", "nvidia-nvjitlink==13.0.*")  # fmt: skip


def environment() -> Environment:
    """That of the compilers, existing or not."""
    home = Path(os.environ.get("NBMOD_CUDA_HOME") or ROOT / ".cuda")
    return Environment("cuda", home, REQUIREMENTS, "NBMOD_CUDA_PYTHON")


def find_python() -> Path | None:
    """The Python that compiles, or None before `main` has made it."""
    return environment().find()


def main() -> int:
    """Make the environment unless it exists.

    On failure, prints the reason and returns 1 under NBMOD_REQUIRE_CUDA=1, else 0: tests that need
    the environment are skipped.
    """
    wanted = environment()
    trouble: object = wanted.misled()
    if wanted.find() is None and not trouble:
        print(f"cuda: making {wanted.folder}")
        try:
            wanted.make()
        except (OSError, subprocess.SubprocessError) as error:
            trouble = error
    if trouble:
        print(f"cuda: NO KERNEL WILL BE COMPILED: {trouble}", file=sys.stderr)
        return int(os.environ.get("NBMOD_REQUIRE_CUDA") == "1")
    print(f"cuda: {wanted.find()} stands")
    return 0


if __name__ == "__main__":
    sys.exit(main())
