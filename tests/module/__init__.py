"""Tests of `module`."""
