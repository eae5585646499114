"""RecordIO: the `.rec` and `.idx` files of MXNet, with numpy alone.

    writer = recordio.MXIndexedRecordIO("a.idx", "a.rec", "w")
    writer.write_idx(0, recordio.pack(recordio.IRHeader(0, 4.0, 0, 0), jpeg))
    reader = recordio.MXIndexedRecordIO("a.idx", "a.rec", "r")
    header, jpeg = recordio.unpack(reader.read_idx(0))

Three layers, one file each: `frames` knows how a record lies in a file, `files` opens files for
reading and writing, `headers` knows what is in the record of an image.  Nothing here needs the
rest of nbmod but its error; `pack_img` and `unpack_img` need the extra `[image]`.
"""

from .files import MXIndexedRecordIO, MXRecordIO
from .frames import DamagedRecord
from .headers import IRHeader, pack, pack_img, unpack, unpack_img

__all__ = ["DamagedRecord", "IRHeader", "MXIndexedRecordIO", "MXRecordIO", "pack", "pack_img",
           "unpack", "unpack_img"]
