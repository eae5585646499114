"""Tests of distributed key-value stores."""
