"""8-bit integer operators."""
