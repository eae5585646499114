"""Puts the stubs of import paths that have no file, in `stubs/`, into the package of a wheel.

Everything else is in setup.cfg.  A stub package of its own (`nbmod-stubs`) would hide the types of
nbmod from pyright, which merges partial stub packages with untyped packages only.
"""

from __future__ import annotations

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

STUBS = Path("stubs")


class BuildWithStubs(build_py):
    """Copies modules, and stubs beside them."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            for stub in STUBS.glob("*.pyi"):
                self.copy_file(str(stub), str(self._target(stub)))

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        own = [] if self.editable_mode else [*STUBS.glob("*.pyi")]
        return [*super().get_outputs(include_bytecode), *(str(self._target(stub)) for stub in own)]

    def _target(self, stub: Path) -> Path:
        return Path(self.build_lib) / "nbmod" / stub.name


setup(cmdclass={"build_py": BuildWithStubs})
