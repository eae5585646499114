"""Vocabularies and pre-trained word vectors."""

from . import embedding, utils, vocab

__all__ = ["embedding", "utils", "vocab"]
__dir__ = __all__.copy
