"""Tests of `ndarray`."""
