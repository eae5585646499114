"""Writes the tables of operators in docs/onnx.md, from the converters.

    python docs/generate_onnx.py            write the tables
    python docs/generate_onnx.py --check    say whether they are out of date
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)] * (str(ROOT) not in sys.path)

from nbmod.onnx.exporting.inference_form import IDENTITIES, REPLACED  # noqa: E402
from nbmod.onnx.exporting.operator_support import exported_opsets  # noqa: E402
from nbmod.onnx.importing.imported_operators import imported_operators  # noqa: E402
from nbmod.ops import OPS  # noqa: E402

PAGE = ROOT / "docs" / "onnx.md"
MARK = "<!-- matrix -->\n"
WAYS = {"operators": "", "function": ", by the graph that defines it",
        "constant": ", where its inputs are constants"}
TRAINING = ("update", "random", "sample", "multi_", "all_finite", "reset_arrays", "_shuffle",
            "_backward", "_grad")
"""Parts of the names of operators that predictions do not need."""


def exported() -> Iterator[str]:
    """Rows of the operators that are exported."""
    yield "| operator | exported with opset |"
    yield "|---|---|"
    for name, opsets in exported_opsets().items():
        note = ", as its prediction" if name in REPLACED | IDENTITIES else ""
        yield f"| `{name}` | {span(opsets)}{note} |"


def span(opsets: Sequence[int]) -> str:
    """Versions without gaps in words."""
    return f"{opsets[0]} to {opsets[-1]}"


def absent() -> str:
    """Operators of predictions that are not exported."""
    names = sorted({op.name for op in OPS.values() if op.__module__.startswith("nbmod.ops")}
                   - exported_opsets().keys())
    return ", ".join(f"`{name}`" for name in names
                     if not any(part in name for part in TRAINING))


def imported() -> Iterator[str]:
    """Rows of the operators that are imported."""
    yield from ("", "### Operators of ONNX that are imported", "",
                "| operator | imported from opset |", "|---|---|")
    for name, support in imported_operators().items():
        yield f"| `{name}` | {span(support.opsets)}{WAYS[support.way]} |"


def page() -> str:
    """The page with its tables."""
    head = PAGE.read_text(encoding="utf-8").partition(MARK)[0]
    table = [*exported(), "", f"Not exported: {absent()}.", *imported()]
    return head + MARK + "\n" + "\n".join(table) + "\n"


def main(args: list[str]) -> int:
    made = page()
    stale = made != PAGE.read_text(encoding="utf-8")
    if "--check" in args:
        print("docs/onnx.md is out of date" if stale else "up to date")
        return stale
    PAGE.write_text(made, encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
