"""Optimizations of graphs: what makes a graph faster and may be switched off."""
