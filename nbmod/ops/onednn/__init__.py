"""Fused layers of graphs exported by MXNet's oneDNN backend."""
