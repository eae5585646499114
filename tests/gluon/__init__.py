"""Tests of `nbmod.gluon`."""
