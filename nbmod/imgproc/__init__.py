"""Image codecs and the augmentation pipelines of the record iterators."""
