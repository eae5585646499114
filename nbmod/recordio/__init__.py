"""RecordIO: the `.rec` and `.idx` files of MXNet, read and written with NumPy alone.

    writer = recordio.MXIndexedRecordIO("a.idx", "a.rec", "w")
    writer.write_idx(0, recordio.pack(recordio.IRHeader(0, 4.0, 0, 0), jpeg))
    reader = recordio.MXIndexedRecordIO("a.idx", "a.rec", "r")
    header, jpeg = recordio.unpack(reader.read_idx(0))

`pack_img` and `unpack_img` need the extra `[image]`.

    frames.py          the layout of records in a file, and their recovery after damage
    record_reader.py   reads records of a file, in sequence and by offset
    files.py           `MXRecordIO` and `MXIndexedRecordIO`, which threads and processes can share
    record_headers.py  `IRHeader`, `pack` and `unpack`: the contents of an image's record
    lists.py           `.lst` files: images with their labels

Begin with `frames.py`.  Imports `base`, `core` and `imgproc.codecs`.
"""

from .files import MXIndexedRecordIO, MXRecordIO
from .frames import DamagedRecord
from .record_headers import IRHeader, pack, pack_img, unpack, unpack_img

__all__ = ["DamagedRecord", "IRHeader", "MXIndexedRecordIO", "MXRecordIO", "pack", "pack_img",
           "unpack", "unpack_img"]
__dir__ = __all__.copy
