"""Tests of `execution`."""
