"""Writes type stubs of operators, which have no source, and of names that load on first use.

    python docs/generate_stubs.py            write the stubs
    python docs/generate_stubs.py --check    name the stubs that are out of date

Stubs tell editors and type checkers the signature, the types and the documentation of functions
without source. Modules with a file have no stub: `nbmod/symbol/contrib.py`, for example, has types,
and imports those of its operators `if TYPE_CHECKING` by `from ._op_stubs.contrib import *`.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import textwrap
import types
import typing
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple, Union

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)] * (str(ROOT) not in sys.path)

import nbmod as mx  # noqa: E402
from nbmod.base import _Null  # noqa: E402
from nbmod.core.import_paths import ALIASES, REFUSED, real_name  # noqa: E402
from nbmod.ndarray.functions import ARITHMETIC  # noqa: E402
from nbmod.ndarray.operators import Operators  # noqa: E402
from nbmod.ops import OPS, Op  # noqa: E402
from nbmod.ops.param import HIDDEN_KEYS, Floats, Ints, Shape, field_types, fields_of  # noqa: E402
from nbmod.ops.param_docs import known  # noqa: E402
from nbmod.ops.random.draw_functions import DRAW_FUNCTIONS  # noqa: E402
from nbmod.ops.signature import Flavour, op_signature  # noqa: E402

HEAD = "# Written by `python docs/generate_stubs.py`.\n"
NAMESPACES = {"op": "", "contrib": "_contrib_", "image": "_image_", "linalg": "_linalg_",
              "random": "_random_", "sparse": "_sparse_", "_internal": ""}
"""Module of stubs -> prefix of the operators that it offers without it."""


class Kind(NamedTuple):
    """How operators are called by one of the two modules that offer them."""

    flavour: Flavour
    tensor: str
    head: str
    """The first lines of every stub."""
    tail: dict[str, str]
    """Types of what follows the parameters of an operator."""


IMPORTS = """\
from collections.abc import Sequence
from typing import Any, Literal

from numpy.typing import DTypeLike

from ...context import Context
"""
KINDS = (
    Kind("symbol", "Symbol", IMPORTS + "from ..symbol import Symbol\n"
         "from . import NodeAttributes\nfrom typing_extensions import Unpack\n",
         {"name": "str | None", "attr": "dict[str, str] | None", "out": "None"}),
    Kind("ndarray", "NDArray", IMPORTS + "from ..ndarray import NDArray\n",
         {"out": "NDArray | Sequence[NDArray] | None", "name": "str | None"}),
)

# -- types --------------------------------------------------------------------------------------


def type_of(name: str, hint: Any) -> str:
    """The type of the values that callers may give for a parameter."""
    sequences = {Shape: "Sequence[int] | int", Ints: "Sequence[int | None] | int",
                 Floats: "Sequence[float] | float", bool: "bool | int"}
    if typing.get_origin(hint) in (Union, types.UnionType):
        inner, = (arg for arg in typing.get_args(hint) if arg is not type(None))
        return f"{type_of(name, inner)} | None"
    if name == "dtype":
        return "DTypeLike | int" if hint is int else "DTypeLike"
    if name == "ctx":
        return "Context | str | None"
    if hint in sequences:
        return sequences[hint]
    if typing.get_origin(hint) is Literal:
        return f"Literal[{', '.join(map(repr, typing.get_args(hint)))}]"
    return hint.__name__


def parameters(op: type[Op], kind: Kind) -> Iterator[str]:
    """The parameters of the function, as text; `...` is the default of what must be given."""
    hints = field_types(op)
    optional = kind.flavour == "symbol" or op.list_inputs is not Op.list_inputs
    needed = kind.flavour == "ndarray"
    for name, parameter in op_signature(op, kind.flavour).parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            yield f"*{name}: {kind.tensor}"
            needed = False
        elif parameter.kind is parameter.VAR_KEYWORD:
            if "from_attrs" in vars(op):
                yield "**kwargs: Any"
            elif kind.flavour == "symbol":
                yield "**kwargs: Unpack[NodeAttributes]"
        elif name in op.inputs:
            needed = needed and (not optional or name == op.inputs[0])
            yield f"{name}: {kind.tensor}" if needed else f"{name}: {kind.tensor} | None = None"
        elif name in hints:
            required = parameter.default is _Null
            needed = needed and required
            default = "" if needed else " = ..." if required else f" = {parameter.default!r}"
            yield f"{name}: {type_of(name, hints[name])}{default}"
        else:
            needed = False
            yield f"{name}: {kind.tail[name]} = None"


def result(op: type[Op], kind: Kind) -> str:
    """The type that a call returns; where parameters decide on that, whatever the caller says."""
    if kind.flavour == "symbol":
        return kind.tensor
    if op.list_outputs is Op.list_outputs and op.num_visible is Op.num_visible:
        return kind.tensor if len(op.outputs) == 1 else f"list[{kind.tensor}]"
    return f"{kind.tensor} | Any"


# -- text ---------------------------------------------------------------------------------------


def filled(start: str, parts: Iterable[str], end: str) -> str:
    """`start`, the parts with commas between them, and `end`, in lines of 100 characters."""
    lines, indent = [start], " " * len(start)
    parts = list(parts)
    for part in [*(f"{part}, " for part in parts[:-1]), *parts[-1:]]:
        if len(lines[-1] + part.rstrip()) > 99 and lines[-1].strip() != start.strip():
            lines.append(indent)
        lines[-1] += part
    if len(lines[-1] + end) > 100:
        lines.append(indent[:-1])
    return "\n".join(line.rstrip() for line in [*lines[:-1], lines[-1] + end])


def documentation(op: type[Op], whole: bool) -> str:
    """The docstring of a function, or its beginning; types are in the signature."""
    text = [inspect.getdoc(op) or op.name]
    if not whole:
        return text[0].partition("\n\n")[0]
    text += [f"\nShapes: {op.shapes}."] if op.shapes else []
    said = {field.name: known(op, field.name) for field in fields_of(op)}
    if any(said.values()):
        text += ["\nParameters\n----------"]
        text += [f"{name}\n    {meaning}" for name, meaning in said.items() if meaning]
    return "\n".join(text)


def definition(name: str, op: type[Op], kind: Kind, whole: bool) -> str:
    head = filled(f"def {name}(", parameters(op, kind), f") -> {result(op, kind)}:")
    return f"{head}\n{quoted(documentation(op, whole))}"


def quoted(doc: str) -> str:
    """A docstring in the source of a function."""
    end = '\n"""' if "\n" in doc else '"""'
    lines = textwrap.indent(f'"""{doc}{end}', "    ").splitlines()
    return "\n".join(line.rstrip() for line in lines) + "\n"


# -- files --------------------------------------------------------------------------------------


def operators(module: Any, prefix: str) -> dict[str, type[Op]]:
    """The functions of a namespace that come from the table of operators."""
    found = {name: OPS.get(prefix + name) for name in dir(module) if not name.startswith("__")}
    return {name: op for name, op in found.items()
            if op and op.__module__.startswith("nbmod.") and not written(module, name)
            and (prefix != "_random_" or name not in DRAW_FUNCTIONS)}


def written(module: Any, name: str) -> bool:
    """Whether a function is in the source of the module: those made from the table are not."""
    return name in vars(module) and not hasattr(vars(module)[name], "__signature__")


def op_stubs(kind: Kind) -> Iterator[tuple[str, str]]:
    """(file name, text) of the stubs of `mx.sym` or `mx.nd`.

    An operator is defined once; under other names, and in other namespaces, it is the same object.
    """
    package = getattr(mx, kind.flavour)
    defined: dict[type[Op], tuple[str, str]] = {}
    for space, prefix in NAMESPACES.items():
        ops = operators(getattr(package, space), prefix)
        imports, body = [], []
        for name, op in sorted(ops.items(), key=lambda item: (item[1].name != prefix + item[0],
                                                              item[0])):
            where, first = defined.setdefault(op, (space, name))
            if (where, first) == (space, name):
                body.append(definition(name, op, kind, space != "_internal"))
            elif where == space:
                body.append(f"{name} = {first}\n")
            else:
                imports.append(f"from .{where} import {first} as {name}\n")
        head = HEAD + kind.head
        if space == "random":
            head += DRAW_IMPORTS
            body += [drawn(getattr(package.random, name), kind) for name in DRAW_FUNCTIONS]
            ops = {**ops, **dict.fromkeys(DRAW_FUNCTIONS)}
        names = filled("__all__: list[str] = [", (f'"{name}"' for name in sorted(ops)), "]\n")
        head += "".join(sorted(imports))
        yield f"{space}.pyi", "\n".join([head, names, *body])


DRAW_IMPORTS = """\
from ...base import DTypeArg, Forwarded, _NullType
"""


def drawn(function: types.FunctionType, kind: Kind) -> str:
    """A function of the table of distributions."""
    parts = []
    for parameter in inspect.signature(function).parameters.values():
        default = "" if parameter.kind is parameter.VAR_KEYWORD else (
            " = ..." if parameter.default is _Null else f" = {parameter.default!r}")
        stars = "**" * (parameter.kind is parameter.VAR_KEYWORD)
        parts.append(f"{stars}{parameter.name}: {parameter.annotation}{default}")
    head = filled(f"def {function.__name__}(", parts, f") -> {kind.tensor}:")
    return f"{head}\n{quoted(inspect.getdoc(function) or '')}"


def methods(kind: Kind) -> str:
    """The base class with the methods that stand for operators."""
    package = importlib.import_module(f"nbmod.{kind.flavour}.fluent")
    body = []
    for name in package.FLUENT:
        if op := OPS.get(name):
            _, *others = parameters(op, kind)
            head = filled(f"def {name}(", ["self", *others], f") -> {result(op, kind)}:")
            body.append(textwrap.indent(f"{head}\n{quoted(documentation(op, False))}", "    "))
    head = f'{HEAD}{kind.head}\nclass Methods:\n    """`x.exp()` is `exp(x)`."""\n\n'
    return head + "\n".join(body) + (python_operators() if kind.flavour == "ndarray" else "")


def python_operators() -> str:
    """The base class with Python's operators of arrays."""
    lines = [f"    def {name}(self, other: Any) -> NDArray: ..."
             + "  # type: ignore[override]" * (name in ("__eq__", "__ne__"))
             for name, value in vars(Operators).items() if inspect.isfunction(value)]
    return "\n".join(["", "class Operators:", *lines]) + "\n"


def arithmetic() -> str:
    """The functions of `mx.nd` that take arrays and numbers."""
    names = filled("__all__: list[str] = [", (f'"{name}"' for name in ARITHMETIC), "]")
    parts = [HEAD, "from ..ndarray import NDArray\n", names, ""]
    for name, function in ARITHMETIC.items():
        parts.append(f"def {name}(lhs: NDArray | float, rhs: NDArray | float) -> NDArray:\n"
                     + quoted(inspect.getdoc(function) or name))
    return "\n".join(parts)


def attributes() -> str:
    """The keywords that every operator of `mx.sym` takes beside its own."""
    lines = [f"    {key}: Any" for key in HIDDEN_KEYS]
    return "\n".join([
        HEAD, "from typing import Any, TypedDict\n",
        "class NodeAttributes(TypedDict, total=False):",
        '    """Attributes of a node that mean something to the framework."""', *lines]) + "\n"


def lazy_names() -> str:
    """The names of `nbmod` that are loaded when they are first used."""
    lines = []
    for name, (module, attribute) in sorted(mx._LAZY.items()):
        path = f"nbmod.{real_name(module)}"
        lines.append(f"from {path} import {attribute} as {name}" if attribute else
                     f"{name}: ModuleType" if module in REFUSED else
                     f"import {path} as {name}")
    names = filled("__all__: list[str] = [", (f'"{name}"' for name in sorted(mx._LAZY)), "]")
    return "\n".join([HEAD, "from types import ModuleType\n", *lines, "", names]) + "\n"


def import_paths() -> Iterator[tuple[str, str]]:
    """Paths and texts of stubs of import paths without a file.

    Stubs of top-level modules are in `stubs/`; a wheel has them in the package (`setup.py`).
    """
    for name in sorted(name for name in ALIASES if not name.startswith("gluon.")):
        text = f"{HEAD}from nbmod.{real_name(name)} import *\n"
        package, _, last = name.rpartition(".")
        yield (f"nbmod/{package.replace('.', '/')}/{last}.pyi" if package else
               f"stubs/{name}.pyi"), text
    for name in sorted(name for name in REFUSED if "." not in name):
        yield f"stubs/{name}.pyi", f"{HEAD}def __getattr__(name: str) -> object: ...\n"


def faces() -> dict[str, types.ModuleType]:
    """The modules of `nbmod` that say which names are public: not those that refuse all names."""
    modules = {name: importlib.import_module(f"nbmod.{name}")
               for name, attribute in mx._LAZY.values() if not attribute}
    return {name: module for name, module in modules.items()
            if "__dir__" in vars(module) and dir(module)}


def face(module: types.ModuleType) -> str:
    """For jedi: a module with the public names of another one, and nothing else to complete."""
    assert module.__spec__ is not None     # its name stays when mx.as_mxnet() changes the module's
    return HEAD + "".join(f"from {module.__spec__.name} import {name} as {name}\n"
                          for name in sorted(dir(module)))


def stubs() -> dict[str, str]:
    """Path below the root -> text of every stub."""
    made = {"nbmod/_lazy_names.pyi": lazy_names(),
            "nbmod/_faces/__init__.pyi": HEAD,
            **{f"nbmod/_faces/{name}.pyi": face(module) for name, module in faces().items()},
            **dict(import_paths()),
            "nbmod/symbol/_op_stubs/__init__.pyi": attributes(),
            "nbmod/ndarray/_op_stubs/__init__.pyi": HEAD,
            "nbmod/ndarray/_op_stubs/arithmetic.pyi": arithmetic()}
    for kind in KINDS:
        made[f"nbmod/{kind.flavour}/_op_stubs/methods.pyi"] = methods(kind)
        for name, text in op_stubs(kind):
            made[f"nbmod/{kind.flavour}/_op_stubs/{name}"] = text
    return made


def stale(made: dict[str, str]) -> list[str]:
    """Stubs that lack, differ or should not be there."""
    there = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
             for folder in ("nbmod", "stubs") for path in (ROOT / folder).rglob("*.pyi")}
    return sorted(path for path in {*made, *there} if made.get(path) != there.get(path))


def main(args: list[str]) -> int:
    made = stubs()
    wrong = stale(made)
    if "--check" in args:
        print(*wrong, sep="\n")
        return bool(wrong)
    for path in wrong:
        if path in made:
            (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
            (ROOT / path).write_text(made[path], encoding="utf-8", newline="\n")
        else:
            (ROOT / path).unlink()
    print(f"{len(wrong)} of {len(made)} stubs written")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
