"""Tests of `contrib`."""
