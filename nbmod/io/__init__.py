"""Data iterators, from which `Module.fit` draws batches.

An iterator describes its batches in `provide_data` and `provide_label` before it yields the first
one.  Its `state_dict` is plain data from which it resumes at the same batch, or None where it
cannot tell its position.

    data_iter.py         `DataIter`, `DataBatch` and `DataDesc`, the base of all
    ndarray_iter.py      `NDArrayIter`: arrays in memory
    resize_iter.py       `ResizeIter`: another iterator with more or fewer batches in an epoch
    job_pipeline.py      jobs that a pool of threads runs ahead, with results in order
    prefetching.py       `PrefetchingIter`: prepares the next batch of other iterators ahead
    saved_state.py       checks of a saved state, which may come from a damaged file
    sampler.py           the samples of each batch, by seed and position, in order or shuffled
    native.py            options, docstrings and the last batch of MXNet's native iterators, below
    mnist.py             `MNISTIter`: handwritten digits from their authors' files
    record_table.py      offsets and labels of the records of a file
    image_record.py      `ImageRecordIter`: augmented images from record files
    image_det_record.py  `ImageDetRecordIter`: images with the boxes of objects in them
    text_kernels.py      loops that parse numbers of CSV and LibSVM files
    text_rows.py         rows of such files, parsed block by block and ahead
    text.py              `CSVIter` and `LibSVMIter`
    sources.py           data sets of pandas, Arrow, torch and others, recognized by interface
    csr_rows.py          rows of CSR matrices as samples, and batches of them
    samples.py           samples of any form, assembled into the arrays of a batch
    dataset.py           `DatasetIter`: data sets whose samples have an index
    generator.py         `GeneratorIter`: samples that can only be read in sequence

Begin with `data_iter.py`.  Imports `base`, `context`, `core`, `imgproc`, `ndarray`, `ops` and
`recordio`.
"""

import sys
from typing import TYPE_CHECKING

from .data_iter import DataBatch, DataDesc, DataIter
from .dataset import DatasetIter
from .generator import GeneratorIter
from .image_det_record import ImageDetRecordIter
from .image_record import (
    ImageRecordInt8Iter,
    ImageRecordIter,
    ImageRecordIter_v1,
    ImageRecordUInt8Iter,
    ImageRecordUInt8Iter_v1,
)
from .mnist import MNISTIter
from .native import MXDataIter
from .ndarray_iter import NDArrayIter
from .ndarray_iter import named_arrays as _init_data  # noqa: F401 - MXNet's name
from .prefetching import PrefetchingIter
from .resize_iter import ResizeIter
from .text import CSVIter, LibSVMIter

__all__ = ["CSVIter", "DataBatch", "DataDesc", "DataIter", "DatasetIter", "GeneratorIter",
           "ImageDetRecordIter", "ImageRecordInt8Iter", "ImageRecordIter", "ImageRecordIter_v1",
           "ImageRecordUInt8Iter", "ImageRecordUInt8Iter_v1", "LibSVMIter", "MNISTIter",
           "MXDataIter", "NDArrayIter", "PrefetchingIter", "ResizeIter"]
__dir__ = __all__.copy

if TYPE_CHECKING:
    from .. import io
    from .. import io as utils

    __all__ += ["io", "utils"]  # of an installed package, checkers know these names only
else:
    io = utils = sys.modules[__name__]  # MXNet's import paths, `mx.io.io.NDArrayIter`
