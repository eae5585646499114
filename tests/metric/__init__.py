"""Tests of `metric`."""
