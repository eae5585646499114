"""The docstring of every package is its sign: the files in reading order, and what it imports."""

from __future__ import annotations

import ast
import re

import pytest

from tests.test_house import FILES, PACKAGE, imported_modules, module_of, relative, tree_of

PACKAGES = [path for path in FILES if path.name == "__init__.py" and path.parent != PACKAGE]


def members(folder):
    """Names of the files and packages in a folder, as signs write them."""
    files = {path.name for path in folder.glob("*.py")} - {"__init__.py"}
    return files | {f"{path.parent.name}/" for path in folder.glob("*/__init__.py")}


SIGNED = [path for path in PACKAGES if len(members(path.parent)) > 1]


@pytest.mark.parametrize("path", SIGNED, ids=lambda path: relative(path.parent))
def test_a_package_lists_its_files(path):
    sign = ast.get_docstring(tree_of(path))
    listed = re.findall(r"^ {4}(\w+(?:\.py|/))  +\S", sign, re.MULTILINE)
    assert len(listed) == len(set(listed)) and set(listed) == members(path.parent)
    (first,) = re.findall(r"Begin with\s+`([\w/]+(?:\.py|/))`", sign)
    assert first.split("/")[0] in {name.rstrip("/") for name in listed} | {"__init__.py"}


@pytest.mark.parametrize("path", SIGNED, ids=lambda path: relative(path.parent))
def test_a_package_says_what_it_imports(path):
    """`ops` stands for all that is below it; packages at the top of the layers import anything."""
    sign = " ".join(ast.get_docstring(tree_of(path)).split())
    if "Imports anything." in sign:
        return
    (text,) = re.findall(r"Imports ((?:nothing|[^.]|\.(?=\w))+)\.", sign)
    allowed = re.findall(r"`([\w.]+)`", text)
    own = module_of(path)
    for each in sorted(path.parent.rglob("*.py")):
        for module in imported_modules(each, ast.walk):
            inside = (module + ".").startswith(own + ".")
            assert inside or any((module + ".").startswith(name + ".") for name in allowed), (
                f"{relative(each)} imports {module}")
