"""The features that a search draws: those of programs, and the checks that apply to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from math import prod

from tests.fuzz.program import Line, Program

NOTED: Counter[str] = Counter()
"""How often each check ran in this process."""


def note(name: str) -> None:
    """Count a check that ran."""
    NOTED[name] += 1


def _line(test: Callable[[Line], object]) -> Callable[[Program], bool]:
    return lambda program: any(map(test, program.lines))


def _input(test: Callable[[tuple[int, ...]], object]) -> Callable[[Program], bool]:
    return lambda program: any(map(test, program.inputs))


def _is_first_odd(line: Line) -> bool:
    return line.kind == "cell" and any(odd[1] == 0 for odd in line.params["odd"])


FEATURES: dict[str, Callable[[Program], bool]] = {
    "beyond 8192 elements": _input(lambda shape: prod(shape) > 8192),
    "images beyond 8 x 8": _input(lambda shape: len(shape) == 4 and max(shape[2:]) > 8),
    "batch beyond 4": _input(lambda shape: shape[:1] > (4,)),
    "odd first steps": _line(_is_first_odd),
    "odd later steps": _line(lambda line: line.kind == "cell" and any(
        odd[1] for odd in line.params["odd"])),
    "states given": _line(lambda line: line.params.get("begin", "zeros") != "zeros"),
    "states handed on": _line(lambda line: line.kind == "decoder"),
    "steps read twice": _line(lambda line: line.kind in ("cell", "unroll_steps")
                              and len(set(line.args)) < len(line.args)),
    "one value twice": _line(lambda line: line.kind in ("binary", "broadcast", "power", "add_n")
                             and len(set(line.args)) < len(line.args)),
    "losses with options": _line(lambda line: line.kind.endswith("_loss")
                                 and "options" in line.params),
    "detection heads": _line(lambda line: line.kind in ("multibox", "proposal", "regions",
                                                        "box_nms")),
    "layers in loops": _line(lambda line: line.kind in ("foreach_layer", "while_layer",
                                                        "cond_layer")),
    "computed weights": _line(lambda line: line.params.get("weight", "variable") != "variable"
                              or line.kind == "generated"),
    "weights of two layers": _line(lambda line: line.params.get("layers", 1) > 1
                                   or line.kind in ("shared", "tied_embedding")),
    "mixed types": _line(lambda line: line.kind in ("typed", "mixed_dense")),
    "integer indices": _line(lambda line: line.kind == "indexed"),
    "sparse arrays": _line(lambda line: line.kind == "sparse"),
    "channels last": _line(lambda line: line.params.get("last") is True),
    "1-D layers": _line(lambda line: line.kind.endswith("_nd") and line.params["rank"] == 3),
    "3-D layers": _line(lambda line: line.kind.endswith("_nd") and line.params["rank"] == 5),
}
"""What has once been a blind spot, by name."""


def of_program(program: Program) -> list[str]:
    """The features of a program."""
    return [name for name, has in FEATURES.items() if has(program)]
