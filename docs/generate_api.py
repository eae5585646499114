"""Writes the API reference: a page for every public module, from the docstrings.

    python docs/generate_api.py              how many public names it describes, by module
    python docs/generate_api.py FOLDER       write its pages, as `docs/build.py` does

Public is what users reach by attributes from `import nbmod as mx`: the names of `__all__` and of
`__dir__`, so that those are included which are imported on first use. Functions of operators are on
the pages of `docs/ops`, to which their names lead. Pages are Markdown with MyST's directives.
"""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [path for path in (str(ROOT), str(ROOT / "docs")) if path not in sys.path]

import generate_ops  # noqa: E402

import nbmod as mx  # noqa: E402

HEADING = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)
LISTS = ("Parameters", "Other Parameters", "Attributes", "Returns", "Yields", "Raises", "Warns")
"""Sections that are lists of names and what they mean."""
KINDS = {staticmethod: "staticmethod", classmethod: "classmethod", property: "property",
         cached_property: "property"}
SHORT = ("mx.nd.", "mx.sym.", "mx.mod.", "mx.kv.", "mx.init.")
"""Names of modules that programs use rather than the long ones."""


# -- what is public -----------------------------------------------------------------------------


def own_name(module: ModuleType) -> str:
    """Name under which a module was imported; `mx.as_mxnet()` changes `__name__` of two modules."""
    return module.__spec__.name if module.__spec__ else module.__name__


def names_of(module: ModuleType) -> list[str]:
    """Public names of a module, in alphabetical order."""
    listed = [*getattr(module, "__all__", ())]
    if "__dir__" in vars(module):
        listed += module.__dir__()
    if not listed:
        listed = [name for name, value in vars(module).items() if
                  (getattr(value, "__module__", None) or getattr(value, "__name__", "")
                   ).startswith(module.__name__)]
    return sorted({name for name in listed if not name.startswith("_")}, key=str.lower)


@cache
def modules() -> dict[str, ModuleType]:
    """Public path, such as `mx.nd.random`, -> module; of several paths one that programs use."""
    paths = {mx: "mx"}
    waiting = [mx]
    for module in waiting:
        for name in names_of(module):
            value = getattr(module, name)
            if isinstance(value, ModuleType) and own_name(value).startswith("nbmod."):
                path = f"{paths[module]}.{name}"
                if value not in paths:
                    waiting.append(value)
                paths[value] = min(path, paths.get(value, path), key=lambda path: (
                    path.count("."), not f"{path}.".startswith(SHORT), -len(path)))
    return dict(sorted((path, module) for module, path in paths.items()))


@dataclass(frozen=True)
class Entry:
    """A public name of a module, and what it stands for."""

    module: str
    name: str
    value: object

    @property
    def path(self) -> str:
        """The name in full, such as `mx.nd.zeros`."""
        return f"{self.module}.{self.name}"


@cache
def entries() -> tuple[Entry, ...]:
    """Every public name of every public module."""
    return tuple(Entry(path, name, getattr(module, name))
                 for path, module in modules().items() for name in names_of(module))


def is_described(value: object) -> bool:
    """Whether a value has a docstring of its own."""
    return inspect.isclass(value) or callable(value) and not isinstance(value, ModuleType)


@cache
def homes() -> dict[int, Entry]:
    """By the identity of a class or function, the name under which it is described."""
    def distance(entry: Entry) -> tuple[bool, bool, int, int]:
        real, own = own_name(modules()[entry.module]), str(getattr(entry.value, "__module__", ""))
        is_alias = entry.name != getattr(entry.value, "__name__", entry.name)
        return not own.startswith(real), is_alias, -len(real), len(entry.path)

    ordered = sorted(entries(), key=distance, reverse=True)
    return {id(entry.value): entry for entry in ordered if is_described(entry.value)}


@cache
def operators() -> dict[str, str]:
    """Name below `mx.nd` and `mx.sym` -> page of its operator, with the anchor."""
    return {name: f"../ops/{page}.md#{anchor}"
            for page in map(generate_ops.page_of, generate_ops.families())
            for name, anchor in generate_ops.anchors(page).items()}


def operator_of(entry: Entry) -> str:
    """Where the operator is described whose function an entry is; "" for other entries."""
    space, _, below = entry.path.removeprefix("mx.").partition(".")
    real = getattr(entry.value, "__module__", "")
    if space not in ("nd", "sym") or real != own_name(modules()[entry.module]):
        return ""
    return operators().get(below.removeprefix("op.")) or (
        operators().get(below.removeprefix("sparse."), ""))


@cache
def full_names() -> dict[str, str]:
    """Public path -> the one under which it is described, for names that an `Entry` has."""
    return {entry.path: homes().get(id(entry.value), entry).path for entry in entries()
            if not operator_of(entry) and place_of(entry)}


def full_name(path: str) -> str:
    """The name under which a path is described, such as `mx.nd.zeros` of `mx.ndarray.zeros`."""
    value: object = mx
    module, *rest = "mx", *path.split(".")[1:]
    for depth, part in enumerate(path.split(".")[1:], 2):
        value = getattr(value, part, None) if isinstance(value, ModuleType) else None
        if isinstance(value, ModuleType) and value in named():
            module, rest = named()[value], path.split(".")[depth:]
    return full_names().get(path := ".".join([module, *rest]), path)


@cache
def named() -> dict[ModuleType, str]:
    """Module -> its public path."""
    return {module: path for path, module in modules().items()}


def place_of(entry: Entry) -> str:
    """Where an entry is described: a link from `docs/api`; "" if it is nowhere."""
    if isinstance(entry.value, ModuleType):
        path = named().get(entry.value, "")
        return f"{path}.md" if path else f"{entry.module}.md#{entry.path}"
    if place := operator_of(entry):
        return place
    home = homes().get(id(entry.value), entry)
    return f"{home.module}.md#{home.path}" if described(home) else ""


# -- docstrings ---------------------------------------------------------------------------------


def described(entry: Entry) -> bool:
    """Whether the page of an entry's module says something about it."""
    return bool(document(entry.value)) or not is_described(entry.value)


def document(value: object) -> str:
    """The docstring that is a value's own, not that of its type."""
    own = inspect.getdoc(value) or ""
    return "" if own == inspect.getdoc(type(value)) else own


def text(paragraphs: str) -> str:
    """Prose of a docstring as Markdown: examples and what is indented are code."""
    return "\n\n".join(block(part) for part in re.split(r"\n{2,}", paragraphs.strip("\n")) if part)


def block(part: str) -> str:
    """A paragraph, a list, an example or a formula."""
    if part.lstrip().startswith(">>>"):
        return f"```pycon\n{inspect.cleandoc(part)}\n```"
    if part.startswith(("    ", "$ ")):
        return f"```text\n{inspect.cleandoc(part)}\n```"
    return prose(re.sub(r"\s*::$", ":", part))


def prose(words: str) -> str:
    """Text in which only `code` is Markdown, and underscores are themselves."""
    parts = re.split(r"(`[^`]*`)", re.sub(r"``([^`]*)``", r"`\1`", words))
    return "".join(part if part.startswith("`") else
                   re.sub(r"(?<![^\W_])_+|_+(?![^\W_])", lambda found: "\\_" * len(found[0]),
                          generate_ops.escaped(part))
                   for part in parts)


def sections(docstring: str) -> Iterator[tuple[str, str]]:
    """(heading, text) of the parts of a numpydoc docstring; the first has no heading."""
    parts = HEADING.split(docstring)
    yield "", parts[0]
    yield from zip(parts[1::2], parts[2::2], strict=True)


def definitions(listed: str) -> str:
    """A section of names as a list of definitions."""
    rows = []
    for item in re.split(r"\n(?=\S)", listed.strip("\n")):
        head, _, body = item.partition("\n")
        name, _, kind = head.partition(" : ")
        names = ", ".join(f"`{each.strip()}`" for each in name.split(","))
        told = text(inspect.cleandoc(body)) or "\u2014"
        rows.append(f"{names}{' : ' * bool(kind)}{prose(kind)}\n: "
                    + textwrap.indent(told, "  ").removeprefix("  "))
    return "\n\n".join(rows)


def rendered(docstring: str) -> str:
    """A numpydoc docstring as Markdown."""
    parts = []
    for heading, body in sections(docstring):
        if heading:
            parts.append(f"**{heading}**")
        parts.append(definitions(body) if heading in LISTS else text(body))
    return "\n\n".join(part for part in parts if part)


# -- pages --------------------------------------------------------------------------------------


def signature(value: object) -> str:
    """Parameters with their defaults; their types are told below."""
    try:
        found = inspect.signature(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return "(...)"
    plain = [parameter.replace(annotation=parameter.empty, default=shown(parameter.default))
             for parameter in found.parameters.values()]
    return str(found.replace(parameters=plain, return_annotation=found.empty))


class Shown(str):
    """A default as it is printed in a signature."""

    def __repr__(self) -> str:
        return str(self)


def shown(default: object) -> object:
    """A default without addresses of memory and paths of this machine."""
    if default is inspect.Parameter.empty or isinstance(default, (bool, int, float, str, tuple,
                                                                  list, dict, type(None))):
        return default
    return Shown(getattr(default, "__qualname__", getattr(default, "__name__", "...")))


def directive(kind: str, head: str, body: str, level: int = 3) -> str:
    """A description that the index and the search know."""
    fence = ":" * level
    return f"{fence}{{py:{kind}}} {head}\n{body}\n{fence}"


def describe(entry: Entry) -> str:
    """What a page says about one of its names."""
    if isinstance(entry.value, ModuleType):
        return directive("data", entry.path, f"The module `{entry.value.__name__}`.")
    if not is_described(entry.value):
        return directive("data", entry.path, f"A constant: `{constant(entry.value)}`.")
    if inspect.isclass(entry.value):
        body = [bases(entry.value), rendered(document(entry.value)), *members(entry)]
        return directive("class", entry.path + signature(entry.value),
                         "\n\n".join(part for part in body if part), 4)
    return directive("function", entry.path + signature(entry.value),
                     rendered(document(entry.value)))


def constant(value: object) -> str:
    """A value, or its type where that says more."""
    text = repr(value)
    return type(value).__name__ if len(text) > 80 or " at 0x" in text or "`" in text else text


def bases(owner: type) -> str:
    """The nearest public classes that a class inherits from."""
    public = [base for base in owner.__mro__[1:] if id(base) in homes()]
    paths = [f"`{homes()[id(base)].path}`" for base in public
             if not any(issubclass(other, base) for other in public if other is not base)]
    return f"Inherits from {', '.join(paths)}." if paths else ""


def members(entry: Entry) -> Iterator[str]:
    """Methods and properties that a class defines, or inherits from one that is not described."""
    owner = entry.value
    assert isinstance(owner, type)
    at_bases = {name for base in owner.__mro__[1:] if id(base) in homes() for name in vars(base)}
    for name in sorted(dir(owner)):
        member = inspect.getattr_static(owner, name)
        kind = KINDS.get(type(member), "method")
        member = getattr(member, "__func__", member)
        told = "" if name.startswith("_") else document(member)
        if not told or name in at_bases and name not in vars(owner):
            continue
        if not member.__doc__ and (path := described_at(owner, name)):
            told = f"As `{path}`: {told.partition(chr(10) * 2)[0]}"
        if kind == "property":
            yield directive(kind, name, rendered(told))
        elif inspect.isroutine(member) and from_nbmod(owner, name):
            head = re.sub(r"^\((self|cls)(, )?", "(", signature(member))
            yield directive(kind, name + head, rendered(told))


def described_at(owner: type, name: str) -> str:
    """The path of the member of a base whose docstring that of `owner` inherits; "" if that base
    has no page."""
    base = next((each for each in owner.__mro__[1:]
                 if getattr(vars(each).get(name), "__doc__", None)), owner)
    return f"{homes()[id(base)].path}.{name}" if id(base) in homes() else ""


def from_nbmod(owner: type, name: str) -> bool:
    """Whether the class that defines a member is part of nbmod."""
    return next(base.__module__ for base in owner.__mro__ if name in vars(base)).startswith("nbmod")


def table(rows: list[tuple[str, str]]) -> str:
    """Names with a sentence about each."""
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {told} |" for name, told in rows)])


def sentence(value: object) -> str:
    """The first sentence of a docstring, for a table."""
    first = " ".join(document(value).split("\n\n")[0].split())
    return prose(re.split(r"(?<=[.:])\s+(?=[A-Z`(])", first)[0].rstrip(".:")).replace("|", "\\|")


def page(path: str) -> str:
    """The page of a public module."""
    own = [entry for entry in entries() if entry.module == path]
    here = [entry for entry in own if place_of(entry) == f"{path}.md#{entry.path}"]
    called = [entry for entry in own if operator_of(entry)]
    rest = [entry for entry in own if entry not in here and entry not in called]
    intro = (inspect.getdoc(modules()[path]) or "").partition("\n\n")[0]
    parts = [f"# {path}", text(intro), "[All modules](index.md)"]
    if rest:
        parts.append(table([(f"[`{entry.path}`]({place_of(entry)})", sentence(entry.value))
                            for entry in rest if place_of(entry)]))
    parts += [describe(entry) for entry in here]
    if called:
        parts += ["## Operators", ", ".join(f"[`{entry.name}`]({operator_of(entry)})"
                                            for entry in called)]
    return "\n\n".join(part for part in parts if part) + "\n"


def index() -> str:
    """The page that leads to those of modules."""
    rows = [(f"[`{path}`]({path}.md)", sentence(module)) for path, module in modules().items()]
    return "\n\n".join([
        "# API reference",
        "`import nbmod as mx`. Every public name, with its parameters, errors and an example; "
        "operators are on [pages of their own](../ops/README.md), "
        "[by name](../ops/by_name.md).", table(rows)]) + "\n"


def pages() -> dict[str, str]:
    """File name -> text of all pages."""
    return {"index.md": index(), **{f"{path}.md": page(path) for path in modules()}}


def coverage() -> dict[str, tuple[int, list[str]]]:
    """Public path of a module -> number of its names, and those that no page describes."""
    found: dict[str, tuple[int, list[str]]] = {}
    for path in modules():
        own = [entry for entry in entries() if entry.module == path]
        found[path] = len(own), [entry.path for entry in own if not place_of(entry)]
    return found


def main(args: list[str]) -> int:
    """Print the coverage, or write the pages; 1 if a public name is described nowhere."""
    if args:
        folder = Path(args[0])
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in pages().items():
            (folder / name).write_text(text, encoding="utf-8", newline="\n")
    lost = []
    for path, (count, missing) in coverage().items():
        print(f"{path:40} {count - len(missing):4} of {count:4}")
        lost += missing
    total = len(entries())
    print(f"{total - len(lost)} of {total} public names ({100 * (1 - len(lost) / total):.1f}%)",
          *lost, sep="\n")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
