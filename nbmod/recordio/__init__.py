"""RecordIO: the `.rec` and `.idx` files of MXNet, read and written with NumPy alone.

    writer = recordio.MXIndexedRecordIO("a.idx", "a.rec", "w")
    writer.write_idx(0, recordio.pack(recordio.IRHeader(0, 4.0, 0, 0), jpeg))
    reader = recordio.MXIndexedRecordIO("a.idx", "a.rec", "r")
    header, jpeg = recordio.unpack(reader.read_idx(0))

There are three layers: `frames` implements the layout of records in a file, `files` opens files for
reading and writing, `record_headers` implements the contents of an image's record.  `pack_img` and
`unpack_img` need the extra `[image]`.  `lists` reads lists of images with their labels.
"""

from .files import MXIndexedRecordIO, MXRecordIO
from .frames import DamagedRecord
from .record_headers import IRHeader, pack, pack_img, unpack, unpack_img

__all__ = ["DamagedRecord", "IRHeader", "MXIndexedRecordIO", "MXRecordIO", "pack", "pack_img",
           "unpack", "unpack_img"]
__dir__ = __all__.copy
