"""Writes docs/ops: a page for every family of operators, and an index.

    python docs/generate_ops.py            write the pages
    python docs/generate_ops.py --check    say which of them are out of date

What a page says comes from the op table (docstrings, parameters, aliases, twins), from the samples
that the tests run (an example of a call with its shapes, element types, inputs that have a
gradient) and from docs/deviations.md.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)] * (str(ROOT) not in sys.path)

import nbmod as mx  # noqa: E402
from nbmod.base import _Null  # noqa: E402
from nbmod.ops import OPS, Op  # noqa: E402
from nbmod.ops.param import field_types, fields_of, to_text  # noqa: E402
from nbmod.ops.param_docs import meaning  # noqa: E402
from nbmod.ops.signature import default_of, type_text  # noqa: E402
from tests.cases import Input, Sample, all_samples  # noqa: E402
from tests.cases.sample import dtype_of  # noqa: E402
from tests.programs import common  # noqa: E402

FOLDER = ROOT / "docs" / "ops"
NAMESPACES = {"_contrib_": "contrib.", "_image_": "image.", "_linalg_": "linalg.",
              "_sparse_": "sparse."}
GROUPS = {
    "Numbers, element by element": "unary_binary broadcast scalar arithmetic cast cumulative",
    "Shapes, parts and order":
        "manipulate repetition rearrange slicing indexing ordering rows histogram creation "
        "im2col allclose",
    "Sums and products": "reduce dot linalg triangular spectrum",
    "Layers":
        "fully_connected convolution deconvolution deformable pooling adaptive_pooling "
        "activation softmax dropout batch_norm batch_norm_relu layer_norm lrn_l2 rnn sequence "
        "attention identity",
    "Losses": "loss ctc",
    "Images and detection":
        "preprocess color resize spatial_transformer correlation boxes multibox proposal roi "
        "roi_align roi_rotated",
    "8-bit integers":
        "quantize quantized_layers quantized_elementwise calibrate_entropy fused_layers intgemm",
    "Random numbers": "sampling choice pdf hawkes",
    "Loops, branches, your own": "control custom",
    "Optimizers": "sgd_update adaptive_update lamb_update multi_weight_update multi_tensor",
}
"""Pages under headings; those that nobody has listed come last."""
FUNCTIONS = {f"_{name}": f"contrib.{name}" for name in ("foreach", "while_loop", "cond")}
LONGEST = 160
"""Characters of a summary."""
MOST_VALUES = 60
"""Elements of an array that an example spells out."""
LONGEST_CELL = 250
"""Characters of what is said about a parameter in a table."""
TITLES = {"ctc": "CTC loss", "rnn": "RNN", "roi": "ROI pooling", "roi_align": "ROI align",
          "roi_rotated": "Rotated ROI", "color": "Image colours",
          "lrn_l2": "LRN and L2 normalization", "dot": "Matrix products", "im2col": "im2col",
          "pdf": "Densities", "sgd_update": "SGD updates", "simpledet": "SimpleDet"}


# -- facts --------------------------------------------------------------------------------------


@functools.cache
def families() -> dict[str, list[type[Op]]]:
    """The modules that have ops, each with its ops, in the order of their definition."""
    found: dict[str, list[type[Op]]] = {}
    for op in dict.fromkeys(OPS.values()):
        if op.__module__.startswith("nbmod."):
            # A package of a fork's operators has one page.
            module = op.__module__
            found.setdefault(module.rpartition(".")[0] if ".contrib." in module
                             and not module.startswith("nbmod.ops") else module, []).append(op)
    return dict(sorted(found.items()))


def page_of(module: str) -> str:
    return module.rpartition(".")[2]


def title_of(module: str) -> str:
    page = page_of(module)
    return TITLES.get(page, page.replace("_", " ").capitalize())


def functions_of(op: type[Op]) -> list[str]:
    """Where users find the op below `mx.nd` and `mx.sym`, best first."""
    names = [FUNCTIONS[op.name]] if op.name in FUNCTIONS else []
    for name in (op.name, *op.aliases):
        prefix = next((p for p in NAMESPACES if name.startswith(p)), "")
        inside = NAMESPACES.get(prefix, "_internal." if name.startswith("_") else "")
        names.append(inside + name[len(prefix):])
    return sorted(dict.fromkeys(names), key=lambda name: name.startswith(("_internal", "sparse")))


@functools.cache
def samples_of(op: type[Op]) -> list[Sample]:
    names = {op.name, *op.aliases}
    return [sample for sample in all_samples().values() if sample.op in names and not sample.error]


def types_of(op: type[Op]) -> list[str]:
    """Element types that the tests run the op with."""
    order = ["float32", "float64", "float16", "int8", "uint8", "int32", "int64", "bool"]
    found = {dtype for sample in samples_of(op) for dtype in sample.dtypes}
    return sorted(found, key=lambda name: order.index(name) if name in order else len(order))


def gradients_of(op: type[Op]) -> list[str]:
    """Inputs whose gradient the tests check; "all" for ops of any number of inputs."""
    found: dict[str, None] = {}
    if not is_plain(op):
        return ["all"]
    for sample in samples_of(op):
        wanted = sample.differentiated("float32")
        if sample.keyword:
            found.update(dict.fromkeys(wanted))
        elif op.variadic and wanted:
            return ["all"]
        else:
            names = dict(zip(sample.specs, op.inputs, strict=False))
            found.update(dict.fromkeys(names[name] for name in wanted if name in names))
    return sorted(found, key=lambda name: op.inputs.index(name) if name in op.inputs else 99)


def is_plain(op: type[Op]) -> bool:
    """Whether samples call the op itself, not a function of the tests that does."""
    names = {field.name for field in fields_of(op)}
    return all(set(sample.attrs) <= names for sample in samples_of(op))


def devices_of(op: type[Op]) -> str:
    from nbmod.ops.dispatch import find

    if op.runs_subgraphs:
        return "CPU, GPU"
    if op.view or find(op, "cuda"):
        trained = op.view or not gradients_of(op) or find(op, "cuda", True) or not op.needs
        return "CPU, GPU" if trained else "CPU, GPU (forward only)"
    return "CPU"


def computed_by(op: type[Op]) -> str:
    """Names of the functions in the table of implementations, by key."""
    rows = mx.runtime.implementations(op.name)
    return ", ".join(f"{row.key}: `{'.'.join(row.forward.split('.')[2:])}`" + (
        f" (by {', '.join(row.algorithms)})" if row.algorithms else "")
                     for row in rows if row.forward and row.key != "cuda") or "the memory planner"


@functools.cache
def deviations() -> list[tuple[str, str, str]]:
    """Rows (operators, nbmod, MXNet) of the table in docs/deviations.md."""
    text = (ROOT / "docs" / "deviations.md").read_text(encoding="utf-8")
    table = text.partition("## Operators\n")[2].partition("\n## ")[0]
    rows = [tuple(cell.strip() for cell in line.strip("|").split("|"))
            for line in table.splitlines() if line.startswith("|")]
    return [row for row in rows[2:] if len(row) == 3]


def deviations_of(op: type[Op]) -> list[tuple[str, str, str]]:
    short = {re.sub(r"^_(contrib|linalg|image|sparse)_", "", n) for n in (op.name, *op.aliases)}
    words = {*short, op.name, *op.aliases}
    return [row for row in deviations()
            if words & set(re.findall(r"[A-Za-z_]\w*", row[0].replace("*", "")))]


@functools.cache
def unclaimed() -> list[tuple[str, str, str]]:
    """Rows that name a family, not an operator."""
    claimed = {row for op in dict.fromkeys(OPS.values()) for row in deviations_of(op)}
    return [row for row in deviations() if row not in claimed]


# -- Markdown -----------------------------------------------------------------------------------


def cell(text: str) -> str:
    """Text for a table: no bars, no HTML."""
    return escaped(" ".join(text.split())).replace("|", "\\|")


def escaped(text: str) -> str:
    """Text in which only `code` is Markdown."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else
                   re.sub(r"<(?=[A-Za-z/!])", "&lt;", part).replace("*", "\\*")
                   .replace("](", "]\\(") for part in parts)


def summary(op: type[Op]) -> str:
    """The first sentence of the docstring, or its beginning."""
    first = " ".join((inspect.getdoc(op) or "").split("\n\n")[0].split())
    sentence = re.split(r"(?<=[.:])\s+(?=[A-Z`(])", first)[0]
    return (sentence if len(sentence) <= LONGEST else sentence.split("; ")[0]).rstrip(".:;")


def prose(op: type[Op]) -> str:
    """The docstring; indented parts stay as they are, which makes them code."""
    blocks = []
    for block in (inspect.getdoc(op) or "").split("\n\n"):
        blocks.append(block if block.startswith("    ") else escaped(block))
    return "\n\n".join(blocks)


def is_row(op: type[Op]) -> bool:
    """Whether a line of a table says it all: docstrings of `define` are formulas."""
    return f"\ny = {getattr(op, 'formula', None)}\n" in (inspect.getdoc(op) or "")


def formula_table(ops: list[type[Op]]) -> Iterator[str]:
    """Ops that share everything but their formulas."""
    base = ops[0].__mro__[1]
    letters = ", ".join(f"`{letter}` is {name}" for letter, name in ops[0].letters.items())
    yield f"Here {letters}, `y` the output, `gy` its gradient. {ops[0].shapes.capitalize()}."
    yield f"{devices_of(ops[0])}; {', '.join(types_of(ops[0]))}."
    if fields_of(base):
        yield parameters(ops[0])
    lines = ["| operator | | formula | gradient |", "|---|---|---|---|"]
    for op in ops:
        grads = " <br> ".join(f"`g{x} = {op.gradients[x]}`" for x in op.letters
                              if x in op.gradients) or "0"
        names = f"<a id=\"{op.name}\"></a>`{functions_of(op)[0]}`"
        others = [name for name in functions_of(op)[1:] if not name.startswith("_internal.")]
        if others:
            names += " " + ", ".join(f"`{name}`" for name in others)
        lines.append(f"| {names} | {cell(summary(op))} | `y = {op.formula}` | {grads} |")
    yield "\n".join(lines)


def parameters(op: type[Op]) -> str:
    hints = field_types(op)
    lines = ["| parameter | type | default | |", "|---|---|---|---|"]
    for field in fields_of(op):
        default = default_of(field)
        shown = "**required**" if default is _Null else f"`{to_text(default) or repr(default)}`"
        kind = re.sub(r"[{}']", "", type_text(hints[field.name])).replace(", ", " / ")
        text = meaning(op, field.name)
        told = cell(text) if len(text) <= LONGEST_CELL else "see above"
        lines.append(f"| `{field.name}` | {kind} | {shown} | {told} |")
    return "\n".join(lines)


def facts(op: type[Op]) -> str:
    rows = dict(tensors(op)) if is_plain(op) else {"function": f"`mx.nd.{functions_of(op)[0]}`"}
    gradient = ", ".join(name if name == "all" else f"`{name}`" for name in gradients_of(op))
    rows |= {"gradient": gradient or "none", "devices": devices_of(op),
             "computed by": computed_by(op), "types": ", ".join(types_of(op))}
    others = [name for name in op.aliases if name != functions_of(op)[0]]
    if others:
        rows["also named"] = ", ".join(f"`{name}`" for name in others)
    return "\n".join(["| | |", "|---|---|", *(f"| {key} | {text} |" for key, text in rows.items())])


def tensors(op: type[Op]) -> Iterator[tuple[str, str]]:
    """Names of inputs, and of the outputs that users see, as they are in a sample."""
    made = next((entry.node.op for entry in composed(op)[1].entries), None)

    def listed(names: tuple[str, ...]) -> str:
        return ", ".join(f"`{name}`" + " (state)" * (name in made.aux) for name in names) or "none"

    if op.variadic:
        yield "inputs", f"any number, counted by `{op.variadic}`"
    elif type(made) is op:
        plain = not isinstance(op.inputs, property) and set(made.list_inputs()) <= set(op.inputs)
        yield "inputs", listed(op.inputs if plain else made.list_inputs())
    if type(made) is op:
        yield "outputs", listed(made.list_outputs()[:made.num_visible])


@functools.cache
def composed(op: type[Op]) -> tuple[Sample, mx.sym.Symbol]:
    """A sample, with parameters if possible, and its symbol."""
    samples = samples_of(op)
    sample = next((sample for sample in samples if sample.attrs), samples[0])
    return sample, common.compose(mx, sample.op, sample.attrs, list(sample.specs), sample.keyword)


def example(op: type[Op]) -> str:
    """A call that the tests make, run as it is printed, with the shapes of its results."""
    if not is_plain(op):
        return ""
    sample = composed(op)[0]
    made = [f"{name} = {values(spec, dtype_of(spec, sample.dtypes[0]))}"
            for name, spec in sample.specs.items()]
    names = tuple(sample.specs)
    named = sample.keyword and (len(names) > 3 or op.inputs[:len(names)] != names)
    given = [f"{name}={name}" if named else name for name in names]
    given += [f"{key}={value!r}" for key, value in sample.attrs.items()]
    call = f"mx.nd.{functions_of(op)[0]}({', '.join(given)})"
    scope: dict[str, object] = {"mx": mx}
    mx.random.seed(0)
    exec("\n".join(made), scope)
    result = eval(call, scope)
    several = isinstance(result, (list, tuple))
    call = f"[y.shape for y in {call}]" if several else f"{call}.shape"
    shapes = [y.shape for y in result] if several else result.shape
    return "\n".join(["```python", *made, call, f"# {shapes}", "```"])


def values(spec: Input, dtype: str) -> str:
    """An expression for an input of a sample, with values such as the sample has."""
    kind = "" if dtype == "float32" else f", dtype={dtype!r}"
    cast = kind and f".astype({dtype!r})"
    if spec.kind == "array" and len(spec.values) > MOST_VALUES:
        low, high = min(spec.values), max(spec.values)
        return f"mx.nd.random.uniform({low:g}, {high:g}, shape={spec.shape}){cast}"
    if spec.kind == "array":
        text = rounded(np.reshape(spec.values, spec.shape).tolist())
        rows = text.replace("], [", "],\n    [") if len(text) > 80 else text
        return f"mx.nd.array({rows}{kind})"
    if spec.kind == "integers":
        return (f"mx.nd.random.randint({int(spec.low)}, {int(spec.high)}, shape={spec.shape})"
                f".astype({dtype!r})")
    if spec.kind == "uniform":
        return f"mx.nd.random.uniform({spec.low:g}, {spec.high:g}, shape={spec.shape}){cast}"
    return f"mx.nd.random.normal(shape={spec.shape}){cast}"


def rounded(numbers: list | float) -> str:
    """Nested lists as text, in which whole numbers are written without a point."""
    if isinstance(numbers, list):
        return f"[{', '.join(rounded(number) for number in numbers)}]"
    return f"{numbers:.6g}" if np.isfinite(numbers) else f"float('{numbers}')"


def section(op: type[Op]) -> Iterator[str]:
    yield f"## {op.name}"
    yield prose(op)
    if op.shapes:
        yield f"Shapes: {escaped(op.shapes)}."
    if isinstance(formula := getattr(op, "formula", ""), str) and formula:
        lines = [f"y = {formula}", *(f"g{x} = {g}" for x, g in op.gradients.items())]
        yield "```\n" + "\n".join(lines) + "\n```"
    yield example(op)
    yield facts(op)
    if fields_of(op):
        yield parameters(op)
    differs = [f"- {escaped(ours)} (MXNet 1.9.1: {escaped(theirs)})"
               for _, ours, theirs in deviations_of(op)]
    if differs:
        yield "Differs from MXNet:\n\n" + "\n".join(differs)


def page(module: str, ops: list[type[Op]]) -> str:
    intro = (inspect.getdoc(sys.modules[module]) or "").split("\n\n")[0]
    parts = [f"# {title_of(module)}", escaped(intro), "[All operators](README.md)"]
    word = page_of(module).rstrip("s")
    parts += [f"Differs from MXNet: {escaped(ours)} (MXNet 1.9.1: {escaped(theirs)})."
              for names, ours, theirs in unclaimed() if word in names.lower()]
    rows = [op for op in ops if is_row(op)]
    rest = [op for op in ops if op not in rows]
    if len(rest) > 1:
        parts.append("\n".join(f"- [{op.name}](#{op.name.lower()}): {escaped(summary(op))}"
                               for op in rest))
    for base in dict.fromkeys(op.__mro__[1] for op in rows):
        parts += formula_table([op for op in rows if op.__mro__[1] is base])
    for op in rest:
        parts += section(op)
    return "\n\n".join(part for part in parts if part) + "\n"


def index(found: dict[str, list[type[Op]]]) -> str:
    where = {op: page_of(module) for module, ops in found.items() for op in ops}
    names = {name for op in where for name in (op.name, *op.aliases)}
    return "\n\n".join([
        "# Operators",
        f"{len(where)} operators under {len(names)} names ([all of them, by the "
        "alphabet](by_name.md)). Each is a function of `mx.nd`, which "
        "computes at once, and of `mx.sym`, which adds a node to a graph; `_contrib_X` is "
        "`mx.nd.contrib.X`, and so on. Examples and element types are those of the tests, which "
        "compare with MXNet 1.9.1; what nbmod does otherwise on purpose is told with each operator "
        "and [in one list](../deviations.md). [One of your own](../register_op.md) is a Python "
        "class.",
        *groups(found, where),
        "(Written by `python docs/generate_ops.py` from the operators themselves.)"]) + "\n"


def by_name(found: dict[str, list[type[Op]]]) -> str:
    """An index of all names: those of functions, and those that files use."""
    where = {op: page_of(module) for module, ops in found.items() for op in ops}
    names = {name: op for op in where for name in (op.name, *op.aliases, *functions_of(op))
             if not name.startswith("_internal.")}
    letters: dict[str, list[str]] = {}
    for name in sorted(names, key=lambda name: (bare(name).lower(), name)):
        letters.setdefault(bare(name)[0].upper(), []).append(
            f"[`{name}`]({link(names[name], where[names[name]])})")
    parts = [f"## {letter}\n\n{', '.join(links)}" for letter, links in letters.items()]
    return "\n\n".join([
        "# Operators by name",
        "`linalg.gemm2` is `mx.nd.linalg.gemm2` and `mx.sym.linalg.gemm2`. Names with an "
        "underscore in front are those in files; programs find them in `mx.nd._internal`. "
        "[By subject](README.md).", *parts]) + "\n"


def bare(name: str) -> str:
    """A name without its namespace, by which it is sorted."""
    return re.sub(rf"^({'|'.join(NAMESPACES)})", "", name).rpartition(".")[2].strip("_")


def groups(found: dict[str, list[type[Op]]], where: dict[type[Op], str]) -> Iterator[str]:
    """A heading and a table for each of `GROUPS`."""
    modules = {page_of(module): module for module in found}
    rest = set(modules) - {name for names in GROUPS.values() for name in names.split()}
    for title, names in {**GROUPS, "More": " ".join(sorted(rest))}.items():
        rows = ["| family | operators |", "|---|---|"]
        for name in (name for name in names.split() if name in modules):
            ops = ", ".join(f"[{op.name}]({link(op, where[op])})" for op in found[modules[name]])
            rows.append(f"| [{title_of(modules[name])}]({name}.md) | {ops} |")
        if len(rows) > 2:
            yield f"## {title}"
            yield "\n".join(rows)


def link(op: type[Op], where: str) -> str:
    return f"{where}.md#{anchor(op)}"


def anchor(op: type[Op]) -> str:
    return op.name if is_row(op) else op.name.lower()


def anchors(page: str) -> dict[str, str]:
    """Name of a function below `mx.nd` and `mx.sym` -> anchor, of all operators of a page."""
    return {name: anchor(op) for module, ops in families().items() if page_of(module) == page
            for op in ops for name in functions_of(op)}


def pages() -> dict[str, str]:
    """File name -> text of everything in docs/ops."""
    found = families()
    made = {f"{page_of(module)}.md": page(module, ops) for module, ops in found.items()}
    return {"README.md": index(found), "by_name.md": by_name(found), **made}


def stale(made: dict[str, str]) -> list[str]:
    """Names of files that lack, differ or should not be there."""
    there = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")}
    return sorted(name for name in {*made, *there} if made.get(name) != there.get(name))


def main(args: list[str]) -> int:
    made = pages()
    wrong = stale(made)
    if "--check" in args:
        print(*wrong, sep="\n")
        return bool(wrong)
    FOLDER.mkdir(exist_ok=True)
    for name in wrong:
        if name in made:
            (FOLDER / name).write_text(made[name], encoding="utf-8", newline="\n")
        else:
            (FOLDER / name).unlink()
    print(f"{len(wrong)} of {len(made)} pages written")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
