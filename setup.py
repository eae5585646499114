"""Puts the stubs of import paths that have no file, in `stubs/`, into the package of a wheel.

The description of the package is the README.  Its links to files of the repository need an address
outside of it: NBMOD_PROJECT_URL, which a maintainer sets for a release; without it they are plain
text.  Everything else is in setup.cfg.

A stub package of its own (`nbmod-stubs`) would hide the types of nbmod from pyright, which merges
partial stub packages with untyped packages only.
"""

from __future__ import annotations

import os
import re
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


def description(address: str) -> str:
    """The README with absolute links to files below `address`, or with their texts alone."""
    text = Path("README.md").read_text(encoding="utf-8")
    inside = re.compile(r"(!?)\[([^]]*)\]\((?!https?://|#|mailto:)([^)]*)\)")

    def absolute(link: re.Match[str]) -> str:
        kind, title, path = link.groups()
        if not address:
            return "" if kind else title
        return f"{kind}[{title}]({address}/{'raw' if kind else 'blob'}/main/{path})"

    return inside.sub(absolute, text)


def addresses(address: str) -> dict[str, str]:
    """The links of the package's page."""
    return {"Source": address, "Documentation": f"{address}/blob/main/docs/index.md",
            "Changelog": f"{address}/blob/main/CHANGELOG.md",
            "Issues": f"{address}/issues"} if address else {}


URL = os.environ.get("NBMOD_PROJECT_URL", "").rstrip("/")
setup(cmdclass={"build_py": BuildWithStubs}, long_description=description(URL),
      long_description_content_type="text/markdown", project_urls=addresses(URL))
