"""`python -m kernels`: compile for CPU levels, and make a wheel."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from nbmod.ops.build.levels import LEVELS, machine

from .wheel import build


def main(arguments: list[str] | None = None) -> None:
    """Parse the command line, compile, and print what was built."""
    native = [name for name, level in LEVELS.items() if level.machine == machine()]
    parser = argparse.ArgumentParser(prog="python -m kernels", description=__doc__)
    parser.add_argument("--level", action="append", choices=LEVELS, help="may be repeated; "
                        f"default: those of this architecture, {', '.join(native)}")
    parser.add_argument("--program", action="append", default=[], help="compile only for some "
                        "programs of the rehearsal; may be repeated")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--cache", type=Path, help="keep the compiled kernels in this folder, from "
                        "which a later build goes on")
    parser.add_argument("--out", type=Path, default=Path("dist"), help="default: %(default)s")
    options = parser.parse_args(arguments)
    if len({LEVELS[level].machine for level in options.level or native}) != 1:
        parser.error("the levels of a wheel are for one architecture; none is known for "
                     f"{machine()}, or several are given")
    with tempfile.TemporaryDirectory() as scratch:
        caches = {level: (options.cache or Path(scratch)) / level
                  for level in options.level or native}
        for level, folder in caches.items():
            started = time.perf_counter()
            compile_level(level, folder, options.processes, options.program)
            print(f"{level}: {describe(folder)}, {time.perf_counter() - started:.0f} s", flush=True)
        project = Path(scratch) / "project"
        wheel = build(caches, project, options.out)
    print(f"{wheel}: {wheel.stat().st_size / 1e6:.1f} MB")


def compile_level(level: str, folder: Path, processes: int, programs: list[str]) -> None:
    """Compile for a level in several processes, which share a cache in `folder`."""
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(("NBMOD_", "NUMBA_"))}
    environment |= {"NBMOD_CPU_LEVEL": level, "NBMOD_CACHE_DIR": str(folder.absolute()),
                    "NBMOD_SHIPPED": "0", "NBMOD_COMPILERS": "1", "NUMBA_NUM_THREADS": "16"}
    running = [subprocess.Popen([sys.executable, "-m", "kernels.compiling",
                                 str(number / processes), *programs],
                                env=environment) for number in range(processes)]
    if any([process.wait() for process in running]):
        sys.exit(f"compiling for {level} failed")


def describe(folder: Path) -> str:
    """Number and size of the kernels in a cache."""
    sizes = [path.stat().st_size for path in (folder / "kernels").iterdir() if path.is_file()]
    return f"{len(sizes)} kernels, {sum(sizes) / 1e6:.1f} MB"


if __name__ == "__main__":
    main()
