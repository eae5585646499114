"""Tests of `profiler`."""
