"""Tests of `recordio`."""
