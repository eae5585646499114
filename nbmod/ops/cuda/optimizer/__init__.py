"""GPU twins of the operators of `ops/optimizer`."""
