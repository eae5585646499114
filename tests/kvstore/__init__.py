"""Tests of `kvstore`."""
