"""`rec2idx`: rebuild the index of a record file."""

from __future__ import annotations

import argparse
import os

from ..core.atomic import atomic_write, require_other_files
from ..core.foreign import refuse_suffix
from ..recordio import MXRecordIO, unpack

__all__ = ["HELP", "arguments", "index_of", "make_index", "run"]

HELP = "make the index of a record file"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("record", help="the record file")
    parser.add_argument("index", nargs="?", help="the index, default: the record file's name with "
                        ".idx at its end")
    parser.add_argument("--ids", action="store_true",
                        help="keys are the numbers in the headers; default: 0, 1, 2, ...")


def run(options: argparse.Namespace) -> int:
    """Write the index."""
    index = options.index or index_of(options.record)
    print(f"{index}: {make_index(options.record, index, options.ids):,} records")
    return 0


def index_of(record: str) -> str:
    """The name that the index of a record file has."""
    return os.path.splitext(record)[0] + ".idx"


def make_index(record: str, index: str, ids: bool = False) -> int:
    """Write the index of `record`; returns the number of records.  Raises DamagedRecord."""
    refuse_suffix(index, ".idx")
    require_other_files([index], [record])
    number = start = 0
    with MXRecordIO(record, "r") as reader, atomic_write(index) as file:
        for number, data in enumerate(reader, 1):
            file.write(f"{unpack(data)[0].id if ids else number - 1}\t{start}\n".encode())
            start = reader.tell()
    return number
