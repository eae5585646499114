"""Tests of `optimizer`."""
