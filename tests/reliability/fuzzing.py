"""Coverage-guided fuzzing of every reader, by atheris (libFuzzer).

    python -m tests.reliability.fuzzing images --runs 100000 --keep

fuzzes one reader; with --keep, inputs that reach lines which no kept input reaches are added to
`tests/reliability/corpus/`.  Fuzzing begins with those, and every test run reads them again.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from types import FrameType
from typing import TYPE_CHECKING
from unittest.mock import patch

from tests.reliability.figures import Effort, Figure, Promise

if TYPE_CHECKING:
    from tests.reliability.loaders import Loader

PUBLISHED = 10_000_000
"""Inputs of each reader, half a day of one processor in all."""

CORPUS = pathlib.Path(__file__).with_name("corpus")
INSTALL = "fuzzing needs atheris, which has wheels for Linux: pip install atheris"
LARGEST_KEPT = 1 << 12
LIMITS = ["-timeout=20", "-rss_limit_mb=2048"]
RUNS_OF_A_PROCESS = 250_000
"""After them another process goes on with its corpus: atheris never frees the results of
comparisons of arrays, some KB for each input of symbol JSON."""
IN_MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None
"""Where files are written: writing them to a disk would take most of the time."""


class CallingThread:
    """A pool of threads without threads: each task runs while it is submitted.

    Those of a small file are done sooner than a thread has started.
    """

    def __init__(self, count: int):
        pass

    def submit(self, task: Callable[[], object]) -> Future[object]:
        future: Future[object] = Future()
        try:
            future.set_result(task())
        except BaseException as error:
            future.set_exception(error)
        return future

    def close(self) -> None:
        pass


def fuzz(name: str, folder: str, options: list[str]) -> None:
    """Fuzz one reader in this process, which libFuzzer ends; its files are in the folder."""
    import atheris

    os.environ["NBMOD_CACHE_DIR"] = os.path.join(folder, "cache", "kernels")
    os.environ["NUMBA_DISABLE_JIT"] = "1"  # numba cannot compile what atheris has instrumented
    # Coverage is of Python code: of nbmod, not of the libraries below it.  Reading imports more.
    with atheris.instrument_imports(include=["nbmod"]):
        from nbmod.base import MXNetError
        from nbmod.io import job_pipeline, text_rows
        from nbmod.ops.image import resample
        from tests.reliability import loaders
        job_pipeline._ThreadPool = CallingThread  # type: ignore[assignment,misc]
        text_rows._MAX_TEXT = LARGEST_KEPT  # buffers for a megabyte would take half of the time
        for kernel in ("_across", "_down", "_down_fixed"):  # as Python code, most of the time
            setattr(resample, kernel, lambda *arrays: None)
        loader, = loaders.chosen([name])
        loader.load(pathlib.Path(folder, "corpus", "sample-0").read_bytes(), pathlib.Path(folder))

    def one_input(content: bytes) -> None:
        try:
            loader.load(content, pathlib.Path(folder))
        except MXNetError:
            pass

    atheris.Setup([sys.argv[0], *options], one_input)
    atheris.Fuzz()


def kept_inputs(name: str) -> pathlib.Path:
    """The folder of a reader's kept inputs."""
    return CORPUS / re.sub(r"\W+", "_", name).strip("_")


def run(name: str, runs: int, seed: int, keep: bool = False) -> Figure:
    """Fuzz a reader in another process, which begins with sound samples and the kept inputs."""
    from tests.reliability import loaders

    loader, = loaders.chosen([name])
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        corpus = pathlib.Path(folder, "corpus")
        corpus.mkdir()
        samples = loader.samples()
        for index, content in enumerate(samples):
            (corpus / f"sample-{index}").write_bytes(content)
        for path in kept_inputs(name).glob("*"):
            shutil.copy(path, corpus)
        what, trials, branches = f"Fuzzed: {name}", 0, 0
        while trials < runs:
            done = _libfuzzer(name, folder, [
                str(corpus), f"-runs={min(runs - trials, RUNS_OF_A_PROCESS)}",
                f"-seed={seed + trials + 1}", f"-artifact_prefix={folder}/", *LIMITS,
                f"-max_len={longest_input(samples)}"])
            count = re.search(r"#(\d+)\s+DONE\s+cov: (\d+)", done.stderr)
            if done.returncode or count is None:
                findings = [path.read_bytes() for path in pathlib.Path(folder).glob("*-*")]
                tail = "\n".join(done.stderr.splitlines()[-12:])
                return Figure(what, trials, (f"input {findings[:1]!r:.300}: {tail[:1000]}",))
            trials, branches = trials + int(count[1]), max(branches, int(count[2]))
        if keep:
            keep_inputs(loader, corpus, pathlib.Path(folder))
    return Figure(what, trials, (), f"{branches} branches")


def longest_input(samples: Sequence[bytes]) -> int:
    """Bytes of the longest input: room for several times of what a sample has."""
    return 4 * max(64, *map(len, samples))


def keep_inputs(loader: Loader, corpus: pathlib.Path, folder: pathlib.Path) -> None:
    """Keep those of the corpus, small ones first, that reach new lines of nbmod."""
    from nbmod.core.config import CONFIG

    kept = kept_inputs(loader.name)
    kept.mkdir(parents=True, exist_ok=True)
    known = [*loader.samples(), *(path.read_bytes() for path in kept.glob("*"))]
    with patch.object(CONFIG, "cache_dir", folder / "cache"):
        covered = set().union(*(lines_reached(loader, content, folder) for content in known))
        for path in sorted(corpus.glob("*"), key=lambda path: (path.stat().st_size, path.name)):
            content = path.read_bytes()
            lines = lines_reached(loader, content, folder)
            if len(content) <= LARGEST_KEPT and not lines <= covered:
                (kept / hashlib.sha1(content).hexdigest()[:12]).write_bytes(content)
                covered |= lines


def lines_reached(loader: Loader, content: bytes, folder: pathlib.Path) -> set[tuple[str, int]]:
    """The lines of nbmod that run while the content is read."""
    import nbmod

    package, reached = os.path.dirname(nbmod.__file__), set()

    def trace(frame: FrameType, _event: str, _value: object) -> Callable[..., object] | None:
        if not frame.f_code.co_filename.startswith(package):
            return None
        reached.add((frame.f_code.co_filename, frame.f_lineno))
        return trace

    sys.settrace(trace)
    try:
        loader.load(content, folder)
    except nbmod.MXNetError:
        pass
    finally:
        sys.settrace(None)
    return reached


def _libfuzzer(name: str, folder: str, options: list[str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.reliability.fuzzing", name, "--inside", folder,
               "--", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, errors="replace")


def measure(effort: Effort) -> list[Figure]:
    """Fuzz all readers."""
    from tests.reliability import loaders

    if importlib.util.find_spec("atheris") is None:
        sys.exit(INSTALL)
    return [run(loader.name, effort.trials(PUBLISHED, at_least=1000), effort.seed)
            for loader in loaders.LOADERS]


def replay(_effort: Effort) -> list[Figure]:
    """Read the kept inputs of all readers."""
    from nbmod.core.config import CONFIG
    from tests.reliability import loaders
    from tests.reliability.mutation import try_one

    figures = []
    for loader in loaders.LOADERS:
        files = sorted(kept_inputs(loader.name).glob("*"))
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            with patch.object(CONFIG, "cache_dir", folder / "cache"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                problems = [(file.name, try_one(loader, file.read_bytes(), folder))
                            for file in files]
        figures.append(Figure(f"Kept inputs: {loader.name}", len(files), tuple(
            f"{file}: {problem}" for file, problem in problems if problem)))
    return figures


PROMISE = Promise(2, "Coverage-guided fuzzing of every reader",
                  "Every input is read or refused by MXNetError in 20 s and 2 GB", measure,
                  short=replay)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.reliability.fuzzing",
                                     description=__doc__)
    parser.add_argument("reader")
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", action="store_true", help="keep inputs that reach new code")
    parser.add_argument("--inside", metavar="FOLDER", help=argparse.SUPPRESS)
    end = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    arguments, options = parser.parse_args(sys.argv[1:end]), sys.argv[end + 1:]
    warnings.simplefilter("ignore")
    if arguments.inside:
        fuzz(arguments.reader, arguments.inside, options)  # those of libFuzzer, after --
    elif importlib.util.find_spec("atheris") is None:
        sys.exit(INSTALL)
    else:
        print(run(arguments.reader, arguments.runs, arguments.seed, arguments.keep))


if __name__ == "__main__":
    main()
