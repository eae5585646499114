"""Tests of `operator`."""
