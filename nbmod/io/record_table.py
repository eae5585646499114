"""Offsets of the records of a file, and the labels stored with them or in a list."""

from __future__ import annotations

import os

import numpy as np

from ..base import MXNetError
from ..recordio import MXIndexedRecordIO
from ..recordio.files import MXRecordIO
from ..recordio.lists import read_list
from ..recordio.record_headers import HEADER_SIZE, read_header

__all__ = ["image_list", "label_lengths", "record_offsets"]


def record_offsets(record: str, index: str, num_parts: int = 1, part_index: int = 0
                   ) -> np.ndarray:
    """Return the offsets of the records of one of several equal parts, as int64.

    With an index the parts have equal numbers of records, otherwise equal numbers of bytes, as in
    MXNet; without one the file is scanned from header to header.

    Parameters
    ----------
    record : str
        Path of the record file.
    index : str
        Path of its index; empty: none.
    num_parts : int, default 1
        Number of parts.
    part_index : int, default 0
        Part that is read, from 0.
    """
    if index:
        reader = MXIndexedRecordIO(index, record, "r", key_type=str)
        offsets = np.array([reader.idx[key] for key in reader.keys], np.int64)
        step = -(-len(offsets) // num_parts)
        return offsets[step * part_index:step * (part_index + 1)]
    with MXRecordIO(record, "r") as file:
        offsets = np.fromiter(file.offsets(), np.int64)
    step = -(-os.path.getsize(record) // num_parts)
    inside = (offsets >= step * part_index) & (offsets < step * (part_index + 1))
    return offsets[inside]


def label_lengths(reader: MXRecordIO, offsets: np.ndarray) -> np.ndarray:
    """Return the number of elements of the labels of records, int64; only the headers are read.

    Parameters
    ----------
    reader : MXRecordIO
        Open record file.
    offsets : numpy.ndarray
        Offsets of the records.
    """
    starts = (reader.first_bytes(offset, HEADER_SIZE) for offset in offsets.tolist())
    return np.array([max(read_header(start).flag, 1) for start in starts], np.int64)


def image_list(path: str, label_width: int) -> dict[int, np.ndarray]:
    """Return the labels in a list file, float32, by the id of the image.

    Parameters
    ----------
    path : str
        Path of the list file.
    label_width : int
        Number of labels that are used of each line; not positive: all.
    """
    labels = {}
    for entry in read_list(path):
        if len(entry.labels) < label_width:
            raise MXNetError(f"{path}: {len(entry.labels)} labels for number {entry.number}, "
                             f"expected label_width={label_width}")
        chosen = entry.labels[:label_width] if label_width > 0 else entry.labels
        labels[entry.number] = np.array(chosen, np.float32)
    return labels
