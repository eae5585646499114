"""Virtual environments of the peers, made on demand.

MXNet's is that of the oracle tests.  The others are installed in a folder beside the compiled
kernels, or in NBMOD_BENCH_HOME.  A peer that cannot be installed is left out, with a message.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from nbmod.core.config import CONFIG

from . import mxnet_environment
from .virtual_environment import Environment

__all__ = ["INFER_ONLY", "PEERS", "USUAL", "python_of"]

PEERS = {"nbmod": "nbmod", "mxnet": "MXNet", "pytorch": "PyTorch",
         "torch_compile": "torch.compile", "onnxruntime": "onnxruntime", "openvino": "OpenVINO"}
"""Modules of `bench.frameworks` and the frameworks' names."""
INFER_ONLY = ("onnxruntime", "openvino")
USUAL = [name for name in PEERS if name != "torch_compile"]
"""Those that are compared unless others are named: `torch.compile` compiles for minutes."""
REQUIREMENTS = {"pytorch": ("torch", "numpy"), "onnxruntime": ("onnxruntime", "onnx", "numpy"),
                "openvino": ("openvino", "onnx", "numpy")}
HOMES = {"torch_compile": "pytorch"}
"""Frameworks in the environment of another one."""
FIRST = {"pytorch": ("--retries", "0", "--timeout", "15", "torch", "--index-url",
                     "https://download.pytorch.org/whl/cpu")}
"""Smaller wheels of PyTorch, without CUDA, where this address can be reached."""


def python_of(framework: str) -> Path | None:
    """The Python that has `framework`, installed first if needed; without one, None and the
    reason."""
    if framework == "nbmod":
        return Path(sys.executable)
    try:
        if framework == "mxnet":
            if mxnet_environment.find_python() is None:
                mxnet_environment.main()
            return mxnet_environment.find_python()
        return _made(HOMES.get(framework, framework))
    except (OSError, subprocess.SubprocessError) as error:
        print(f"*** {PEERS[framework]} is left out: {error}", file=sys.stderr)
        return None


def _made(framework: str) -> Path:
    home = Path(os.environ.get("NBMOD_BENCH_HOME") or CONFIG.cache_dir / "peers")
    wanted = Environment("peer", home / framework, REQUIREMENTS[framework])
    if wanted.find() is None:
        print(f"bench: making the environment of {PEERS[framework]} in {wanted.folder}",
              file=sys.stderr)
        wanted.make(before=FIRST.get(framework, ()))
    return wanted.python
