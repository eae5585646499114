"""Makes the environments that compile GPU kernels without a GPU: `python -m tests.cuda.setup`.

There is one for each compiler of `nbmod.ops.cuda.runtime.compiler`, with NVIDIA's compiler and
linker (some 800 MB).  They go to `.cuda-mlir/` and `.cuda/` in the checkout, or to the folders that
NBMOD_CUDA_MLIR_HOME and NBMOD_CUDA_HOME name, with what was compiled; NBMOD_CUDA_MLIR_PYTHON and
NBMOD_CUDA_PYTHON name a Python that has them already.  Neither driver nor toolkit is needed.
CUDA 13 makes code for compute capability 7.5 and later.  Imports the standard library only.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from bench.virtual_environment import ROOT, Environment

REQUIREMENTS = {
    "mlir": ("numba==0.68.1", "numba-cuda-mlir[cu13]==0.6.0"),
    "numba-cuda": ("numba==0.68.1", "numba-cuda==0.30.4", "nvidia-cuda-nvrtc==13.0.*",
                   "nvidia-nvvm==13.0.*", "nvidia-nvjitlink==13.0.*")}  # fmt: skip
"""Packages by compiler; nbmod itself takes numba."""
_PLACES = {"mlir": ("cuda-mlir", "NBMOD_CUDA_MLIR"), "numba-cuda": ("cuda", "NBMOD_CUDA")}


def environment(compiler: str) -> Environment:
    """That of a compiler, existing or not."""
    kind, variable = _PLACES[compiler]
    home = Path(os.environ.get(f"{variable}_HOME") or ROOT / f".{kind}")
    return Environment(kind, home, REQUIREMENTS[compiler], f"{variable}_PYTHON")


def find_python(compiler: str) -> Path | None:
    """The Python that compiles, or None before `main` has made it."""
    return environment(compiler).find()


def main() -> int:
    """Make the environments that do not exist.

    On failure, prints the reason and returns 1 under NBMOD_REQUIRE_CUDA=1, else 0: tests that need
    the environment are skipped.
    """
    return max(map(_make, REQUIREMENTS))


def _make(compiler: str) -> int:
    wanted = environment(compiler)
    trouble: object = wanted.misled()
    if wanted.find() is None and not trouble:
        print(f"{compiler}: making {wanted.folder}")
        try:
            wanted.make()
        except (OSError, subprocess.SubprocessError) as error:
            trouble = error
    if trouble:
        print(f"{compiler}: NO KERNEL WILL BE COMPILED: {trouble}", file=sys.stderr)
        return int(os.environ.get("NBMOD_REQUIRE_CUDA") == "1")
    print(f"{compiler}: {wanted.find()} stands")
    return 0


if __name__ == "__main__":
    sys.exit(main())
