"""Virtual environments of the peers, made on demand.

MXNet's is that of the oracle tests.  The others go to a folder beside the compiled kernels, or to
the one that NBMOD_BENCH_HOME names.  A peer that cannot be installed is left out, loudly.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

from nbmod.base import CONFIG
from tests.oracle import setup

__all__ = ["PEERS", "python_of"]

PEERS = {"nbmod": "nbmod", "mxnet": "MXNet", "pytorch": "PyTorch", "onnxruntime": "onnxruntime"}
"""Modules of `bench.frameworks` and the frameworks' names."""
REQUIREMENTS = {"pytorch": ("torch", "numpy"), "onnxruntime": ("onnxruntime", "onnx", "numpy")}
WITHOUT_CUDA = "https://download.pytorch.org/whl/cpu"
"""Smaller wheels of PyTorch, where this address can be reached."""


def python_of(framework: str) -> Path | None:
    """The Python that has `framework`, installed first if need be; None, and why, without."""
    if framework == "nbmod":
        return Path(sys.executable)
    try:
        if framework == "mxnet":
            return setup.find_python() or (setup.find_python() if setup.main() == 0 else None)
        return _made(framework)
    except (OSError, subprocess.SubprocessError) as error:
        print(f"*** {PEERS[framework]} is left out: {error}", file=sys.stderr)
        return None


def _made(framework: str) -> Path:
    """The environment of `framework`; its stamp is written last."""
    folder = Path(os.environ.get("NBMOD_BENCH_HOME") or CONFIG.cache_dir / "peers") / framework
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    stamp = folder / "nbmod-peer.txt"
    requirements = REQUIREMENTS[framework]
    if stamp.exists() and stamp.read_text() == "\n".join(requirements):
        return python
    print(f"bench: making the environment of {PEERS[framework]} in {folder}", file=sys.stderr)
    venv.create(folder, clear=True, with_pip=True)
    pip = [str(python), "-m", "pip", "install", "--quiet"]
    if framework == "pytorch":
        subprocess.run([*pip, "--retries", "0", "--timeout", "15", "torch",
                        "--index-url", WITHOUT_CUDA], check=False, capture_output=True)
    subprocess.run([*pip, *requirements], check=True, timeout=1800)
    stamp.write_text("\n".join(requirements))
    return python
