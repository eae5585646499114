"""Tests of `passes`."""
