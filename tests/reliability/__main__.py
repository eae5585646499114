"""python -m tests.reliability: measure what docs/reliability.md promises."""

from __future__ import annotations

import argparse
import sys
import time

from tests.reliability import figures, promises, table


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.reliability", description=__doc__)
    parser.add_argument("--only", type=int, nargs="*", help="rows of the table; default: all")
    parser.add_argument("--share", type=float, default=1.0,
                        help="share of the published number of trials")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--mxnet", action="store_true", help="try real MXNet, too")
    parser.add_argument("--write", metavar="FILE", help="put the rows into this page")
    arguments = parser.parse_args()
    effort = figures.Effort(arguments.share, arguments.seed)
    measured = []
    for promise in promises.load(arguments.only):
        measured.append(run(promise, effort, arguments.mxnet))
        print(table.as_text(measured[-1]), flush=True)
    if arguments.write:
        table.write(arguments.write, measured, command=" ".join(sys.orig_argv[1:]))
    return int(any(row.broken for row in measured))


def run(promise: figures.Promise, effort: figures.Effort, mxnet: bool) -> table.Row:
    """Measure one promise."""
    start = time.monotonic()
    ours = promise.measure(effort)
    seconds = time.monotonic() - start
    theirs = promise.mxnet(effort) if mxnet and promise.mxnet else []
    return table.Row(promise, ours, theirs, seconds)


if __name__ == "__main__":
    sys.exit(main())
