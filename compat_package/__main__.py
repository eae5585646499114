"""`python -m compat_package`: make the wheel of `nbmod-mxnet`."""

from __future__ import annotations

import argparse
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import nbmod
from kernels.project import wheel_of

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "nbmod"
SETUP = """
[metadata]
name = nbmod-mxnet
version = {version}
description = `import mxnet` is nbmod: MXNet 1.x in plain Python on numpy and numba
license = Apache-2.0

[options]
py_modules =
    mxnet
    mxnet_predict
packages =
    {stubs}
python_requires = >=3.10
install_requires =
    nbmod=={version}

[options.package_data]
* = *.pyi
"""
STUBS = "mxnet-stubs"
"""Type checkers look for the types of `mxnet` there (PEP 561)."""


def public_modules() -> Iterator[Path]:
    """Files of the modules that users import, relative to nbmod."""
    tops = {module for module, name in nbmod._LAZY.values() if not name}
    for path in sorted(PACKAGE.rglob("*.py")):
        module = path.relative_to(PACKAGE)
        if module.with_suffix("").parts[0] in tops and not re.search(r"/_[a-z]", f"/{module}"):
            yield module


def stub_of(module: Path) -> str:
    """A module with the names of nbmod's.

    mypy knows an `__all__` only as far as it is a list, so that stars in the module are repeated,
    and namespaces of operators are named.
    """
    text = (PACKAGE / module).read_text(encoding="utf-8")
    name = ".".join(["nbmod", *module.with_suffix("").parts]).removesuffix(".__init__")
    package = ".".join(["nbmod", *module.parent.parts])
    lines = [f"from {name} import *"]
    lines += [f"from {package}.{star} import *"
              for star in re.findall(r"^ *from \.([\w.]+) import \*", text, re.M)]
    for group in re.findall(r"^    from \. import ([\w, ]+)", text, re.M):    # for checkers only
        lines += [f"from {name} import {one} as {one}" for one in group.strip().split(", ")]
    return "\n".join([*lines, ""])


def write_stubs(folder: Path) -> list[str]:
    """Write the packages of stubs; returns their names."""
    folder.mkdir(parents=True)
    names = (PACKAGE / "_lazy_names.pyi").read_text(encoding="utf-8")
    (folder / "__init__.pyi").write_text("from nbmod import *\n" + names + "\n__version__: str\n")
    for module in public_modules():
        path = folder / module.with_suffix(".pyi")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(stub_of(module))
    return sorted(".".join(path.parent.relative_to(folder.parent).parts)
                  for path in folder.rglob("__init__.pyi"))


def main() -> None:
    """Parse the command line, and build."""
    parser = argparse.ArgumentParser(prog="python -m compat_package", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("dist"), help="default: %(default)s")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        project = Path(scratch)
        for name in ("mxnet.py", "mxnet_predict.py"):
            shutil.copyfile(ROOT / "compat_package" / name, project / name)
        stubs = "\n    ".join(write_stubs(project / STUBS))
        print(wheel_of(project, SETUP.format(version=nbmod.__version__, stubs=stubs), options.out))


if __name__ == "__main__":
    main()
