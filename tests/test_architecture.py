"""docs/architecture.md: its fields are those of the code, its rooms are all packages, and its
picture is up to date."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import importlib.util
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
SECTIONS = {section.splitlines()[0]: section for section in PAGE.split("\n### ")[1:]
            if "| field | meaning |" in section}


@pytest.mark.parametrize("name", SECTIONS)
def test_the_page_has_the_fields_of_the_code(name):
    file, = re.findall(r"^`nbmod/([\w/]+)\.py`\. ", SECTIONS[name], re.M)
    cls = getattr(importlib.import_module("nbmod." + file.replace("/", ".")), name)
    assert sorted(re.findall(r"^\| `(\w+)` \|", SECTIONS[name], re.M)) == sorted(fields(cls))


def fields(cls: type) -> Iterator[str]:
    """The fields that a class declares; of others the attributes that methods give to `self`."""
    if dataclasses.is_dataclass(cls):
        yield from (field.name for field in dataclasses.fields(cls))
    elif hasattr(cls, "_fields"):
        yield from cls._fields
    elif "__slots__" in vars(cls):
        yield from (name for name in vars(cls)["__slots__"] if name != "__weakref__")
    else:
        yield from dict.fromkeys(
            node.attr for base in cls.__mro__[:-1]
            for node in ast.walk(ast.parse(inspect.getsource(base)))
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
            and ast.unparse(node.value) == "self")


def test_every_package_has_its_paragraph():
    packages = {path.parent.name for path in ROOT.glob("nbmod/*/__init__.py")}
    modules = {path.stem for path in ROOT.glob("nbmod/*.py")} - {"__init__", "__main__"}
    rooms = PAGE.partition("\n## The rooms\n")[2]
    bold = {room for names in re.findall(r"\*\*(`nbmod/.*?`)[.*]", rooms)
            for room in re.findall(r"`nbmod/([\w/.]+)`", names)}
    assert bold == {f"{name}/" for name in packages} | {f"{name}.py" for name in modules}


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_architecture",
                                                  ROOT / "docs" / "generate_architecture.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_picture_is_up_to_date(script):
    assert script.text() == script.FILE.read_text(encoding="utf-8"), (
        "run python docs/generate_architecture.py")


def test_the_rooms_of_the_picture_exist(script):
    missing = [name for room in script.ROOMS
               for name in re.findall(r"[\w/]+\.py|[\w/]+/", room.files)
               if not any((ROOT / folder / name).exists() for folder in ("nbmod", "nbmod/ops"))]
    assert missing == []
