"""`rec2idx`: rebuild the index of a record file."""

from __future__ import annotations

import argparse
import os

from ..recordio import MXRecordIO, unpack

__all__ = ["HELP", "arguments", "make_index", "run"]

HELP = "make the index of a record file"


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the command line takes."""
    parser.add_argument("record", help="the record file")
    parser.add_argument("index", nargs="?", help="the index, default: the record file's name with "
                        ".idx at its end")
    parser.add_argument("--ids", action="store_true",
                        help="keys are the numbers in the headers; default: 0, 1, 2, ...")


def run(options: argparse.Namespace) -> int:
    """Write the index."""
    index = options.index or os.path.splitext(options.record)[0] + ".idx"
    print(f"{index}: {make_index(options.record, index, options.ids):,} records")
    return 0


def make_index(record: str, index: str, ids: bool = False) -> int:
    """Write the index of `record`; returns the number of records.  Raises DamagedRecord."""
    with MXRecordIO(record, "r") as reader:
        lines, start = [], 0
        for number, data in enumerate(reader):
            lines.append(f"{unpack(data)[0].id if ids else number}\t{start}\n")
            start = reader.tell()
    with open(f"{index}.part", "w", encoding="utf-8") as file:
        file.writelines(lines)
    os.replace(f"{index}.part", index)
    return len(lines)
