"""Elementwise operators, and the formula language of elementwise kernels."""
