"""Tests of `diagram`."""
