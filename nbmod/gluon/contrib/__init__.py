"""`mx.gluon.contrib`: Gluon's experimental parts.

    nn/           layers side by side, shuffled pixels, embeddings with sparse weights
    cnn/          deformable convolutions
    rnn/          cells with convolutions and projections, dropout that all steps share
    data/         a sampler at intervals, texts
    estimator/    trains networks, with handlers for events

Begin with `nn/`.  Imports `autograd`, `base`, `context`, `contrib.text`, `core.atomic`,
`gluon.base_parameter`, `gluon.block`, `gluon.data`, `gluon.loss`, `gluon.nn`, `gluon.rnn`,
`gluon.trainer`, `gluon.utils`, `metric` and `ndarray`.
"""

from . import cnn, data, estimator, nn, rnn

__all__ = ["cnn", "data", "estimator", "nn", "rnn"]
__dir__ = __all__.copy
