"""Fused layers of graphs that MXNet's oneDNN back end has written."""
