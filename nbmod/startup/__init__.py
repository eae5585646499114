"""Setup by `nbmod run` of the Python processes that its program starts.

This folder stands first on their PYTHONPATH, so that Python imports `sitecustomize` of it when it
starts.  Processes without that variable, other Pythons and other environments are not affected.
"""

from __future__ import annotations

import os
from pathlib import Path

from .sitecustomize import THIS_PYTHON

__all__ = ["set_up_children"]


def set_up_children() -> None:
    """Let all Python processes that inherit this environment have nbmod as `mxnet`."""
    here = str(Path(__file__).resolve().parent)
    others = os.environ.get("PYTHONPATH", "")
    if here not in others.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join([here, others] if others else [here])
    os.environ["NBMOD_RUN"] = THIS_PYTHON
    os.environ.setdefault("NBMOD_GPU_TO_CPU", "1")
