"""Operators on shapes, order, indices and reductions of tensors."""
