"""Images as arrays: from bytes and back, and what iterators do to them."""
