"""`mx.gluon.contrib`: Gluon's experimental parts.

    nn/           layers side by side, shuffled pixels, embeddings with sparse weights
    cnn/          deformable convolutions
    rnn/          cells with convolutions and projections, dropout that all steps share
    data/         a sampler at intervals, texts
    estimator.py  the trainer and its events, by name only

Begin with `nn/`.  Imports `base`, `compat.c_interface`, `context`, `contrib.text`, `core.atomic`,
`gluon.absent`, `gluon.block`, `gluon.data.dataset`, `gluon.data.sampler`, `gluon.nn`,
`gluon.parameter`, `gluon.rnn`, `gluon.utils`, `initializer` and `ndarray`.
"""

from . import cnn, data, estimator, nn, rnn

__all__ = ["cnn", "data", "estimator", "nn", "rnn"]
__dir__ = __all__.copy
