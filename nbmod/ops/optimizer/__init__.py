"""Update steps of optimizers as operators."""
