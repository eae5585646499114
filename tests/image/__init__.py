"""Tests of `image`."""
