"""`rec`: inspect, verify, repair, slice and merge record files.

    nbmod rec inspect a.rec            its contents
    nbmod rec verify --decode a.rec    whether each record is intact, and an image
    nbmod rec repair a.rec b.rec       the intact records, and an index; with --decode
                                                 only images
    nbmod rec slice a.rec b.rec --start 100 --stop 200
    nbmod rec merge c.rec a.rec b.rec
    nbmod rec sheet a.rec a.png        a contact sheet of its images
    nbmod rec checksum a.rec b.rec     the same for the same records
"""

from __future__ import annotations

import argparse
import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from ..base import MXNetError
from ..core.atomic import atomic_write, replacing_together, require_other_files
from ..core.foreign import refuse_suffix
from ..imgproc.codecs import decode, encode
from ..recordio import DamagedRecord, MXRecordIO, unpack
from ..recordio.frames import frames
from .rec2idx import index_of

__all__ = ["HELP", "arguments", "describe", "describe_lines", "run"]

CAPTIONED, LINE = 48, 12
"""Pixels of the smallest image with a caption, and of a line of one."""
HELP = "inspect, verify, repair, slice and merge record files"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="action")

    def action(name: str, help: str) -> Any:
        return actions.add_parser(name, help=help, description=help).add_argument

    add = action("inspect", "number, sizes and labels of the records")
    add("record")
    add("--first", type=int, default=5, help="how many headers to show, default: 5")
    add = action("verify", "whether every record is intact; exit status 1 if not")
    add("record")
    add("--decode", action="store_true", help="decode the images, too")
    add = action("repair", "write the intact records, and their index, to another file")
    add("record")
    add("target")
    add("--decode", action="store_true", help="leave out what is no image, too")
    add = action("slice", "write some records, and their index, to another file")
    add("record")
    add("target")
    add("--start", type=int, default=0, help="number of the first, default: 0")
    add("--stop", type=int, help="number after the last, default: the end")
    add("--step", type=int, default=1, help="distance of the numbers, default: 1")
    add = action("merge", "write the records of several files, and an index, to one")
    add("target")
    add("records", nargs="+")
    add = action("sheet", "draw the images of the first records on one")
    add("record")
    add("target", help="a PNG or JPEG file")
    add("--count", type=int, default=64, help="how many images, default: 64")
    add("--size", type=int, default=96, help="pixels of each, default: 96; from 48 on, its id and "
        "label stand below")
    add = action("checksum", "number, bytes and SHA-256 of the records of each file")
    add("records", nargs="+")


def run(options: argparse.Namespace) -> int:
    """Run the requested command."""
    return {"inspect": _inspect, "verify": _verify, "repair": _repair, "slice": _slice,
            "merge": _merge, "sheet": _sheet, "checksum": _checksum}[options.action](options)


def _write(target: str, sources: Sequence[str], records: Iterable[bytes]) -> int:
    """Write records of the sources and their index, with keys 0, 1, 2, ..., to other files."""
    refuse_suffix(target, ".rec")
    require_other_files([target, index_of(target)], [*sources, *map(index_of, sources)])
    number = start = 0
    with replacing_together(), atomic_write(target) as file, \
            atomic_write(index_of(target)) as index:
        for number, record in enumerate(records, 1):
            index.write(f"{number - 1}\t{start}\n".encode())
            for piece in frames(record):
                start += file.write(piece)
    return number


def _inspect(options: argparse.Namespace) -> int:
    facts = describe(options.record, options.first, strict=True)
    print("\n".join(describe_lines(options.record, facts)))
    return 0


def describe(path: str, first: int, strict: bool = False) -> dict[str, Any]:
    """The number, sizes, contents and labels of the records of a file, and the `first` headers.

    Damaged stretches are counted, or an error if it is `strict`.
    """
    sizes, widths, kinds, labels = [], Counter[int](), Counter[str](), Counter[float]()
    headers: list[dict[str, Any]] = []
    reader = MXRecordIO(path, "r", strict=strict)
    for data in reader:
        sizes.append(len(data))
        try:
            header, content = unpack(data)
        except MXNetError:
            kinds["no header"] += 1
            continue
        widths[np.size(header.label)] += 1
        kinds[_kind(content)] += 1
        if np.size(header.label) == 1 and len(labels) < 100_000:
            labels[float(np.ravel(header.label)[0])] += 1
        if len(headers) < first:
            headers.append({"number": len(sizes) - 1, "id": int(header.id),
                            "label": np.ravel(header.label).tolist(), "bytes": len(content),
                            "content": _kind(content)})
    return {"bytes": os.path.getsize(path), "records": len(sizes), "damaged stretches": reader.lost,
            "bytes of a record": [min(sizes), max(sizes), float(np.mean(sizes))] if sizes else [],
            "content": dict(kinds.most_common()), "numbers in a label": dict(widths.most_common()),
            "labels": [len(labels), min(labels), max(labels)] if labels else [],
            "first": headers}


def describe_lines(path: str, facts: dict[str, Any]) -> list[str]:
    """The findings of `describe`, in words."""
    lines = [f"{path}: {facts['bytes']:,} bytes, {facts['records']:,} records"]
    if facts["records"]:
        least, most, mean = facts["bytes of a record"]
        lines += [f"bytes of a record: {least:,} to {most:,}, mean {mean:,.0f}",
                  "content: " + _counts(facts["content"]),
                  "numbers in a label: " + _counts(facts["numbers in a label"])]
    if facts["labels"]:
        lines.append("labels: {:,} different ones from {:g} to {:g}".format(*facts["labels"]))
    return lines + [f"  {one['number']}: id {one['id']}, label {_shown(one['label'])}, "
                    f"{one['bytes']:,} bytes of {one['content']}" for one in facts["first"]]


def _counts(counts: dict[Any, int]) -> str:
    return ", ".join(f"{key} ({count:,})" for key, count in [*counts.items()][:8])


def _shown(label: Any) -> str:
    values = np.ravel(label)
    more = ", ..." if values.size > 8 else ""
    return ", ".join(f"{value:g}" for value in values[:8]) + more


_STARTS = {b"\xff\xd8\xff": "JPEG", b"\x89PNG": "PNG", b"BM": "BMP", b"GIF8": "GIF"}


def _kind(content: bytes) -> str:
    return next((name for start, name in _STARTS.items() if content.startswith(start)),
                "data" if content else "nothing")


def _verify(options: argparse.Namespace) -> int:
    try:
        for _ in MXRecordIO(options.record, "r"):
            pass
    except DamagedRecord as damage:
        print(f"damaged: {damage}")
    reader, wrong, count = MXRecordIO(options.record, "r", strict=False), 0, 0
    for count, data in enumerate(reader, 1):
        wrong += options.decode and not _is_image(count - 1, data)
    print(f"{options.record}: {count:,} intact records, {reader.lost:,} damaged stretches"
          + (f", {wrong:,} that are no images" if options.decode else ""))
    return int(bool(reader.lost or wrong))


def _is_image(number: int, data: bytes) -> bool:
    """Whether a record contains an image; if not, the reason is printed."""
    try:
        decode(unpack(data)[1])
        return True
    except MXNetError as error:
        print(f"record {number}: {error}")
        return False


def _repair(options: argparse.Namespace) -> int:
    reader = MXRecordIO(options.record, "r", strict=False)
    count = _write(options.target, [options.record], (
        data for number, data in enumerate(reader)
        if not options.decode or _is_image(number, data)))
    print(f"{options.target}: {count:,} records; {reader.lost:,} damaged stretches left out")
    return 0


def _slice(options: argparse.Namespace) -> int:
    stop = options.stop
    if options.start < 0 or options.step < 1 or stop is not None and stop < options.start:
        raise MXNetError(f"rec slice: --start {options.start}, --stop {stop}, --step "
                         f"{options.step}: expected 0 <= start <= stop and a step of at least 1")

    def chosen() -> Iterator[bytes]:
        for number, data in enumerate(MXRecordIO(options.record, "r")):
            if stop is not None and number >= stop:
                return
            if number >= options.start and (number - options.start) % options.step == 0:
                yield data

    print(f"{options.target}: {_write(options.target, [options.record], chosen()):,} records")
    return 0


def _merge(options: argparse.Namespace) -> int:
    count = _write(options.target, options.records, (
        data for path in options.records for data in MXRecordIO(path, "r")))
    print(f"{options.target}: {count:,} records of {len(options.records)} files")
    return 0


def _sheet(options: argparse.Namespace) -> int:
    target, record = options.target, options.record
    require_other_files([target], [record, index_of(record)])
    ending = os.path.splitext(target)[1].lower() or ".png"
    if ending not in (".png", ".jpg", ".jpeg"):
        raise MXNetError(f"{target}: not written: expected a name with .png, .jpg or .jpeg")
    if min(options.count, options.size - 4) < 1:
        raise MXNetError(f"rec sheet: --count {options.count}, --size {options.size}: expected at "
                         "least 1 image of 5 pixels")
    with atomic_write(target) as file:
        file.write(encode(_contact_sheet(record, options.count, options.size), ending,
                          9 if ending == ".png" else 90))
    print(target)
    return 0


def _contact_sheet(record: str, count: int, size: int) -> np.ndarray:
    """The images of the first records in rows and columns; gray where there is none."""
    tiles: list[np.ndarray] = []
    for data in islice(MXRecordIO(record, "r"), count):
        tile, caption = np.full((size, size, 3), 96, np.uint8), ["no header"]
        try:
            header, content = unpack(data)
            caption = [f"id {header.id}", f"label {_shown(header.label)}"]
            tile = _tile(decode(content), size)
        except MXNetError:
            pass
        tiles.append(_captioned(tile, caption) if size >= CAPTIONED else tile)
    if not tiles:
        raise MXNetError(f"rec sheet: {record} has no records")
    columns = int(np.ceil(np.sqrt(len(tiles))))
    tiles += [np.full_like(tiles[0], 255)] * (-len(tiles) % columns)
    rows = [np.concatenate(tiles[at:at + columns], 1) for at in range(0, len(tiles), columns)]
    return np.concatenate(rows)


def _captioned(tile: np.ndarray, caption: Sequence[str]) -> np.ndarray:
    """The tile with lines of text below it, each shortened to its width."""
    try:
        from PIL import Image, ImageDraw
    except ImportError:
        raise MXNetError("rec sheet: labels are written by Pillow: pip install 'nbmod[image]', or "
                         f"draw images without them by --size {CAPTIONED - 1}") from None
    size = tile.shape[1]
    image = Image.new("RGB", (size, 2 * LINE + 4), "white")
    pen = ImageDraw.Draw(image)
    for number, text in enumerate(caption):
        line = text
        while pen.textlength(line) > size - 6:
            text = text[:-1]
            line = f"{text}..."
        pen.text((3, LINE * number), line, fill="black")
    return np.concatenate([tile, np.asarray(image)])


def _tile(image: np.ndarray, size: int) -> np.ndarray:
    """The image fitted into a white square."""
    from ..ops.image.resample import resize

    height, width = image.shape[:2]
    inner = size - 4
    scale = inner / max(height, width)
    fitted = np.empty((max(1, round(height * scale)), max(1, round(width * scale)), 3), np.uint8)
    resize(np.ascontiguousarray(image), fitted)
    tile = np.full((size, size, 3), 255, np.uint8)
    top, left = (size - fitted.shape[0]) // 2, (size - fitted.shape[1]) // 2
    tile[top:top + fitted.shape[0], left:left + fitted.shape[1]] = fitted
    return tile


def _checksum(options: argparse.Namespace) -> int:
    """A digest of the records, each prefixed by its length, whatever their division into parts."""
    for path in options.records:
        digest, count, total = hashlib.sha256(), 0, 0
        for data in MXRecordIO(path, "r"):
            digest.update(len(data).to_bytes(8, "little"))
            digest.update(data)
            count, total = count + 1, total + len(data)
        print(f"{digest.hexdigest()}  {count} records  {total} bytes  {path}")
    return 0
