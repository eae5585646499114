"""The wheel of `nbmod-kernels`: a package without modules, and a folder for every CPU level."""

from __future__ import annotations

import shutil
import sys
import sysconfig
from importlib.metadata import version
from pathlib import Path

import nbmod
from nbmod.ops.build.shipped import PACKAGE
from nbmod.ops.build.store import SUFFIX

from .cross import TRIPLES
from .project import wheel_of

__all__ = ["build", "platform_tag"]

SETUP = """
[metadata]
name = nbmod-kernels
version = {version}
description = Kernels of nbmod, compiled for the CPU levels {levels}
license = Apache-2.0

[options]
packages = {package}
python_requires = =={python}.*
install_requires =
    nbmod=={version}
    numba=={numba}
    numpy=={numpy}.*

[options.package_data]
{package} = */*{suffix}

[bdist_wheel]
python_tag = cp{tag}
plat_name = {platform}
"""

def build(caches: dict[str, Path], project: Path, out: Path) -> Path:
    """Make a wheel of the compile caches of levels, all for one architecture; `project` is an empty
    folder for its sources.

    Kernels are machine code in files that no loader of the system reads, so the wheel needs no
    certain C library: it is for any Linux.
    """
    for level, cache in caches.items():
        folder = project / PACKAGE / level
        folder.mkdir(parents=True)
        for file in sorted((cache / "kernels").glob(f"*{SUFFIX}")):
            shutil.copyfile(file, folder / file.name)
    (project / PACKAGE / "__init__.py").write_text('"""Compiled kernels of nbmod."""\n')
    python = "{}.{}".format(*sys.version_info)
    return wheel_of(project, SETUP.format(
        version=nbmod.__version__, levels=", ".join(caches), package=PACKAGE, python=python,
        numba=version("numba"), numpy=".".join(version("numpy").split(".")[:2]), suffix=SUFFIX,
        tag=python.replace(".", ""), platform=platform_tag(next(iter(caches)))), out)


def platform_tag(level: str) -> str:
    """The platform of a level, this one or another, as wheels name it."""
    if level in TRIPLES:
        return {"armv8.2": "manylinux_2_17_aarch64", "apple-m1": "macosx_11_0_arm64"}[level]
    found = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    return found.replace("linux_", "manylinux_2_17_")
