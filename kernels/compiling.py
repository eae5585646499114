"""A process that compiles for one CPU level: `python -m kernels.compiling BEGIN [NAMES]`.

It records the kernels of all programs and compiles them from the fraction BEGIN of the list on, and
then those before, as far as no other process does so.
"""

from __future__ import annotations

import logging
import sys

from nbmod.ops.build.levels import chosen, is_supported

from .cross import imitate

__all__ = ["main"]


def main(begin: float, names: list[str]) -> None:
    """Compile; the first process also runs what a dry run cannot follow to its end."""
    from nbmod.ops.jit import compile_ahead

    from .rehearsal import jobs, perform

    if not begin:
        logging.basicConfig(level=logging.INFO, format="%(message)s")
    found = jobs(names)
    first = int(begin * len(found))
    for kernel, types in found[first:] + found[:first]:
        compile_ahead(kernel, types)
    if not begin and not names and is_supported(chosen()):
        perform()


if __name__ == "__main__":
    imitate(chosen())       # before anything asks what this machine is
    main(float(sys.argv[1]), sys.argv[2:])
