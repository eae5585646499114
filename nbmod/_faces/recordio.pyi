# Written by `python docs/generate_stubs.py`.
from nbmod.recordio import DamagedRecord as DamagedRecord
from nbmod.recordio import IRHeader as IRHeader
from nbmod.recordio import MXIndexedRecordIO as MXIndexedRecordIO
from nbmod.recordio import MXRecordIO as MXRecordIO
from nbmod.recordio import pack as pack
from nbmod.recordio import pack_img as pack_img
from nbmod.recordio import unpack as unpack
from nbmod.recordio import unpack_img as unpack_img
