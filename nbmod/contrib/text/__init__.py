"""Vocabularies and pre-trained word vectors.

Index 0 is the unknown token.  Nothing is downloaded: vectors are read from existing files.

    vocab.py      `Vocabulary`: tokens and their indices, by frequency
    embedding.py  `TokenEmbedding`: a vocabulary with a vector for each token, read from text
    names.py      the file names under which GloVe and fastText publish vectors
    utils.py      `count_tokens_from_str`, whose counts make a vocabulary

Begin with `vocab.py`.  Imports `base`, `core.registry` and `ndarray`.
"""

from . import embedding, utils, vocab

__all__ = ["embedding", "utils", "vocab"]
__dir__ = __all__.copy
