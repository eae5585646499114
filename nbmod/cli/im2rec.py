"""`im2rec`: make a list of a folder of images, and a record file of a list.

    nbmod im2rec --list --recursive data/train images/     lists: data/train.lst
    nbmod im2rec --resize 256 data/train images/           records of every list

The arguments are those of MXNet's script.  The lines of a list are separated by tabs: an index, one
or more labels, a path relative to the root.  With `--recursive` each folder is a class; classes are
numbered in order of name.

Records are written to `<prefix>.rec.part` and its index, and renamed when complete.  An interrupted
run is resumed if list and options are the same.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from ..base import MXNetError
from ..core.atomic import (
    adopt,
    atomic_write,
    named_errors,
    opener_for,
    replacing_together,
    require_other_files,
    require_writable,
)
from ..core.locks import try_lock
from ..imgproc.codecs import decode, encode
from ..recordio import IRHeader, pack
from ..recordio.frames import frames
from ..recordio.lists import ListEntry, read_list, write_list
from .counter import ProgressCounter
from .rec2idx import index_of

__all__ = ["HELP", "arguments", "make_lists", "make_records", "run"]

HELP = "make lists of images, and record files of them"
_SHUFFLE = 100  # the seed of MXNet's script, for the same order of lists
_CHUNK = 16


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add = parser.add_argument
    add("prefix", help="of the lists and record files, with their folder")
    add("root", help="folder of the images")
    lists = parser.add_argument_group("lists")
    add = lists.add_argument
    add("--list", action="store_true", help="make lists instead of record files")
    add("--exts", nargs="+", default=[".jpeg", ".jpg", ".png"], help="endings of images")
    add("--chunks", type=int, default=1, help="number of lists, default: 1")
    add("--train-ratio", type=float, default=1.0, help="share of images for training")
    add("--test-ratio", type=float, default=0.0, help="share for testing; the rest validates")
    add("--recursive", action="store_true", help="look into folders, each of which is a class")
    add("--no-shuffle", dest="shuffle", action="store_false", help="keep the order of names")
    records = parser.add_argument_group("record files")
    add = records.add_argument
    add("--pass-through", action="store_true", help="take the files as they are")
    add("--resize", type=int, default=0, help="make the shorter side this long")
    add("--center-crop", action="store_true", help="cut the middle square out")
    add("--quality", type=int, default=95, help="of JPEG, 1 to 100; of PNG 0 to 9, default: 95")
    add("--num-thread", type=int, default=os.cpu_count() or 1, help="default: all cores")
    add("--color", type=int, default=1, choices=[-1, 0, 1], help="-1: as it is, 0: gray, 1: color")
    add("--encoding", default=".jpg", choices=[".jpg", ".png"])
    add("--pack-label", action="store_true", help="keep all labels of a line, not only the first")


def run(options: argparse.Namespace) -> int:
    """Make the lists, or the records of every list that starts with the prefix."""
    if not os.path.isdir(options.root):
        raise MXNetError(f"im2rec: there is no folder {options.root!r}")
    if options.list:
        for path in make_lists(options):
            print(path)
        return 0
    folder = Path(options.prefix).parent
    name = Path(options.prefix).name
    lists = sorted(path for path in folder.glob("*.lst") if path.name.startswith(name))
    if not lists:
        raise MXNetError(f"im2rec: there is no list {options.prefix}*.lst; make one with --list")
    return max(make_records(path, options) for path in lists)


# --------------------------------------------------------------------------------------- lists

def _images(root: Path, endings: Sequence[str], recursive: bool) -> Iterator[tuple[str, int]]:
    """Paths below `root` in order of name, and the number of their class."""
    suffixes = {ending.lower() for ending in endings}
    classes: dict[str, int] = {}
    for folder, folders, files in os.walk(root, followlinks=True):
        folders.sort()
        for name in sorted(files):
            if os.path.splitext(name)[1].lower() in suffixes:
                below = os.path.relpath(os.path.join(folder, name), root)
                label = classes.setdefault(folder, len(classes)) if recursive else 0
                yield Path(below).as_posix(), label
        if not recursive:
            return


def make_lists(options: argparse.Namespace) -> list[Path]:
    """Write the lists that the options ask for; their paths."""
    share = options.train_ratio + options.test_ratio
    if options.chunks < 1 or not 0 <= share <= 1 + 1e-9:
        raise MXNetError(f"im2rec: --chunks {options.chunks}, --train-ratio {options.train_ratio}, "
                         f"--test-ratio {options.test_ratio}: expected at least one chunk, and "
                         "shares that sum up to 1 at most")
    images = [ListEntry(number, (float(label),), path) for number, (path, label) in
              enumerate(_images(Path(options.root), options.exts, options.recursive))]
    if not images:
        raise MXNetError(f"im2rec: no images ({', '.join(options.exts)}) in {options.root!r}"
                         + ("" if options.recursive else "; --recursive looks into its folders"))
    if options.shuffle:
        random.Random(_SHUFFLE).shuffle(images)
    size = -(-len(images) // options.chunks)
    lists: dict[Path, list[ListEntry]] = {}
    for chunk in range(options.chunks):
        part = images[chunk * size:(chunk + 1) * size]
        suffix = f"_{chunk}" if options.chunks > 1 else ""
        for name, entries in _shares(part, options.train_ratio, options.test_ratio).items():
            lists[Path(f"{options.prefix}{suffix}{name}.lst")] = entries
    require_other_files(lists, (os.path.join(options.root, entry.path) for entry in images))
    with replacing_together():
        for path, entries in lists.items():
            write_list(path, entries)
    return [*lists]


def _shares(entries: list[ListEntry], train: float, test: float) -> dict[str, list[ListEntry]]:
    """Suffix of a list -> its entries."""
    if train == 1:
        return {"": entries}
    first, last = int(len(entries) * test), int(len(entries) * (test + train) + 1e-9)
    parts = {"_test": entries[:first] if test else [], "_train": entries[first:last],
             "_val": entries[last:]}
    return {name: part for name, part in parts.items() if part}


# ------------------------------------------------------------------------------------- records

def make_records(list_path: Path, options: argparse.Namespace) -> int:
    """Write the record file of one list and its index; 1 if images were left out."""
    entries = read_list(list_path)
    target = list_path.with_suffix(".rec")
    images = (os.path.join(options.root, entry.path) for entry in entries)
    with _Unfinished(target, _signature(entries, options), [list_path, *images]) as file:
        left_out = 0
        with ProgressCounter(str(target), len(entries)) as progress:
            progress.add(file.done)
            for entry, record in _packed(entries[file.done:], options):
                if isinstance(record, str):
                    print(f"left out: {record}", file=sys.stderr)
                    left_out += 1
                file.write(entry.number, record)
                progress.add()
        file.finish()
    if left_out:
        print(f"{target}: {left_out} of {len(entries)} images left out", file=sys.stderr)
    return int(left_out > 0)


def _packed(entries: Sequence[ListEntry], options: argparse.Namespace
            ) -> Iterator[tuple[ListEntry, bytes | str]]:
    """Each entry with its record, or the reason why there is none; threads work ahead."""
    from ..io.job_pipeline import Job, Pipeline

    def jobs() -> Iterator[Job]:
        for at in range(0, len(entries), _CHUNK):
            chunk, packed = entries[at:at + _CHUNK], list[bytes | str]()
            yield Job([partial(_pack_all, chunk, options, packed)], partial(zip, chunk, packed))

    threads = max(options.num_thread, 1)
    pipeline = Pipeline(threads, 2 * threads)
    pipeline.start(jobs())
    for _ in range(0, len(entries), _CHUNK):
        yield from pipeline.next()
    pipeline.close()


def _pack_all(entries: Sequence[ListEntry], options: argparse.Namespace,
              packed: list[bytes | str]) -> None:
    """The record of each entry, or the reason why there is none."""
    for entry in entries:
        path = os.path.join(options.root, entry.path)
        try:
            packed.append(_pack(entry, path, options))
        except (OSError, ValueError, MXNetError) as error:  # ValueError: a null byte in a path
            packed.append(f"{path}: {error}")


def _pack(entry: ListEntry, path: str, options: argparse.Namespace) -> bytes:
    label: Any = entry.labels[0]
    if options.pack_label and len(entry.labels) > 1:
        label = np.array(entry.labels, np.float32)
    with open(path, "rb") as file:
        data = file.read()
    if not options.pass_through:
        data = _recoded(data, options)
    return pack(IRHeader(0, label, entry.number, 0), data)


def _recoded(data: bytes, options: argparse.Namespace) -> bytes:
    """The image decoded, cropped and resized, and encoded."""
    from ..ops.image.resample import resize

    image = decode(data, {1: 3, 0: 1, -1: 0}[options.color])
    if image.shape[2] == 4:
        image = np.ascontiguousarray(image[..., :3])
    height, width = image.shape[:2]
    if options.center_crop:
        side = min(height, width)
        top, left = (height - side) // 2, (width - side) // 2
        image = np.ascontiguousarray(image[top:top + side, left:left + side])
        height = width = side
    if options.resize:
        short = min(height, width)
        shape = (height * options.resize // short, width * options.resize // short)
        resized = np.empty((*shape, image.shape[2]), np.uint8)
        resize(image, resized)
        image = resized
    return encode(image, options.encoding, options.quality)


def _signature(entries: list[ListEntry], options: argparse.Namespace) -> str:
    """Settings that must be equal for a run to resume the files of another."""
    chosen = {name: value for name, value in sorted(vars(options).items())
              if name in ("pass_through", "resize", "center_crop", "quality", "color", "encoding",
                          "pack_label", "root")}
    return hashlib.sha256(json.dumps([entries, chosen]).encode("utf-8", "replace")).hexdigest()


class _Unfinished:
    """A record file in progress: a partial file beside the target, and a journal.

    The journal has the signature and then, for each entry, the end offset of its record.  It is
    written after the record, so that it lists complete records only.  It is locked by the process
    that writes the record file.
    """

    def __init__(self, target: Path, signature: str, sources: Iterable[Path | str]):
        self.target, self.signature = Path(os.path.realpath(target)), signature
        self._index = Path(index_of(str(target)))
        self._rec = self.target.with_name(self.target.name + ".part")
        self._journal = self.target.with_name(self.target.name + ".journal")
        self.done = 0
        self._keys: list[tuple[int, int]] = []
        require_other_files([target, self._index, self._rec, self._journal], sources)
        for path in (target, self._index, self._rec, self._journal):
            require_writable(path, regular=True)

    def _resume(self) -> int:
        """The number of valid bytes of the record file; sets `done` and the keys."""
        lines = self._log.read().split("\n")[:-1]
        if not lines or lines[0] != self.signature:
            return 0
        end, size = 0, os.path.getsize(self._rec) if self._rec.exists() else 0
        for line in lines[1:]:
            try:
                number, stop = map(int, line.split())
            except ValueError:    # damaged: what follows is packed again
                break
            if not end <= stop <= size:
                break
            if stop > end:
                self._keys.append((number, end))
            end = stop
            self.done += 1
        return end

    def __enter__(self) -> _Unfinished:
        opener = opener_for(self.target)
        with ExitStack() as opened, named_errors(self._rec):
            self._log = opened.enter_context(self._locked_journal(opener))
            self._end = self._resume()
            self._file = opened.enter_context(
                open(self._rec, "r+b" if self._end else "wb", opener=opener))
            self._file.truncate(self._end)
            self._file.seek(self._end)
            self._keep_lines()
            self._close = opened.pop_all().close
        return self

    def _locked_journal(self, opener: Callable[[str, int], int]) -> TextIO:
        """Open and lock the journal, which ends with the lock."""
        while True:
            file = open(self._journal, "a+", encoding="utf-8", errors="replace", opener=opener)
            file.seek(0)    # Windows locks the byte there
            if not try_lock(file):
                file.close()
                raise MXNetError(f"{self.target}: not written, as another process is writing it; "
                                 "wait for its end or choose another prefix")
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file.fileno()), self._journal.stat()):
                    return file
            file.close()    # a process that has just ended removed it

    def _keep_lines(self) -> None:
        """Keep the lines of the journal about records that are kept."""
        self._log.seek(0)
        lines = self._log.read().split("\n")[1:self.done + 1]
        self._log.seek(0)
        self._log.truncate()
        self._log.writelines(f"{line}\n" for line in [self.signature, *lines])

    def write(self, number: int, record: bytes | str) -> None:
        """Append a record; a text is the reason why there is none."""
        with named_errors(self._rec):
            if isinstance(record, bytes):
                self._keys.append((number, self._end))
                for piece in frames(record):
                    self._end += self._file.write(piece)
            self._log.write(f"{number} {self._end}\n")
            if len(self._keys) % 256 == 0:
                self._file.flush()
                self._log.flush()

    def finish(self) -> None:
        """Replace the target by the partial file, and write its index."""
        with named_errors(self._rec):
            self._file.close()
        with replacing_together():
            with atomic_write(self._index) as file:
                file.writelines(f"{number}\t{start}\n".encode() for number, start in self._keys)
            adopt(self._rec, self.target)
        if os.name == "nt":    # Windows removes no open files
            self._log.close()
        self._journal.unlink()

    def __exit__(self, *exception: object) -> None:
        with named_errors(self._rec):
            self._close()
