"""Tests of `rnn`."""
