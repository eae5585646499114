"""Vocabularies and pre-trained word vectors.

Index 0 is the unknown token.  Vectors of GloVe and fastText are downloaded if they are not there.

    vocab.py      `Vocabulary`: tokens and their indices, by frequency
    embedding.py  `TokenEmbedding`: a vocabulary with a vector for each token, read from text
    names.py      the files of vectors that GloVe and fastText publish, and their archives
    utils.py      `count_tokens_from_str`, whose counts make a vocabulary

Begin with `vocab.py`.  Imports `base`, `compat.c_interface`, `core.registry`, `gluon.utils`
and `ndarray`.
"""

from . import embedding, utils, vocab

__all__ = ["embedding", "utils", "vocab"]
__dir__ = __all__.copy
