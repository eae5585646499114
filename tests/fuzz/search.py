"""Searching for programs that fail: one process of a search."""

from __future__ import annotations

import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple
from unittest.mock import patch

from tests.fuzz import drawing, features
from tests.fuzz.judge import Disagreement, require_agreement, require_mxnet, require_mxnet_training
from tests.fuzz.program import Program
from tests.fuzz.shrink import guilty, smallest
from tests.fuzz.tally import Tally
from tests.oracle.client import Oracle

Check = Callable[[Any, Program, int], str]
"""What is wrong with a program, of the library and a seed; "" if nothing is."""


class Finding(NamedTuple):
    """A program that fails, minimized, with the error and the passes at fault."""

    seed: int
    program: Program
    error: str
    passes: list[str]

    def __str__(self) -> str:
        passes = ", ".join(self.passes) or "none alone"
        return f"seed {self.seed}: {self.error}\npasses at fault: {passes}\n{self.program}"


def _tile_size(chain: list[Any], graph: Any, known: Any) -> int | None:
    """A part of the batch, however small; None where it has none."""
    batch = known[graph.eid(chain[1].inputs[0])].shape[0]
    return max((images for images in range(1, batch) if batch % images == 0), default=None)


SMALL = {"optimize.elementwise_units._is_compiled": lambda shape: 0 not in shape,
         "optimize.tile_batch._tile_size": _tile_size}
"""What passes ask of sizes, for programs of few elements."""


@contextmanager
def small_chains_fuse() -> Iterator[None]:
    """A block in which small networks are transformed as large ones are: chains of few elements are
    fused, too (NumPy runs them, so that programs need no kernels of their own), small depthwise
    convolutions run in bands, and a few images at a time."""
    with ExitStack() as stack:
        for name, value in SMALL.items():
            stack.enter_context(patch(f"nbmod.passes.{name}", value))
        stack.enter_context(patch("nbmod.ops.blocked.depthwise_chain.L2_ELEMENTS", 2 ** 9))
        yield


def error_of(mx: Any, program: Program, seed: int) -> str:
    """The error of a program; "" if there is none."""
    try:
        require_agreement(mx, program, seed)
    except Exception as error:
        if type(error) is mx.MXNetError and _is_refused(error):
            return ""
        lines = traceback.format_exception_only(error)
        return "".join(lines)[:2000]
    return ""


def _is_refused(error: Exception) -> bool:
    """Errors that programs may end in: invalid programs are not avoided in advance."""
    return "has no gradient" in str(error)


def mxnet_error_of(oracle: Oracle, mx: Any, program: Program, seed: int) -> str:
    """Differences from MXNet's results; "" if none.  Which side is wrong is for people to judge."""
    try:
        require_mxnet(mx, oracle, program)
        require_mxnet_training(mx, oracle, replace(program, mirror=False))
    except Disagreement as error:
        return str(error)
    return ""


def search(mx: Any, seeds: Iterator[int], style: str = "",
           report: Callable[[Finding], None] = print, until: float = float("inf"),
           check: Check = error_of) -> Tally:
    """Run the programs of `seeds` until it is `until`."""
    styles, drawn, failed = Counter[str](), Counter[str](), 0
    features.NOTED.clear()
    with small_chains_fuse():
        for seed in seeds:
            if time.monotonic() > until:
                break
            rng = Random(seed)
            chosen = style or drawing.any_style(rng)
            program = drawing.program(rng, chosen)
            styles[chosen] += 1
            drawn.update(features.of_program(program))
            error = check(mx, program, seed)
            if error:
                failed += 1
                report(explained(mx, program, seed, error, check))
    return Tally(styles, failed, drawn + features.NOTED)


def explained(mx: Any, program: Program, seed: int, error: str, check: Check = error_of) -> Finding:
    """The smallest program that fails, and why."""
    def fails(other: Program) -> bool:
        return bool(check(mx, other, seed))

    try:
        small = smallest(mx, program, fails)
        return Finding(seed, small, check(mx, small, seed) or error, guilty(mx, small, fails))
    except Exception:
        print(traceback.format_exc(), file=sys.stderr)
        return Finding(seed, program, error, [])
