"""Tests of `symbol`."""
