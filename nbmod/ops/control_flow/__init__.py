"""Loops and branches over subgraphs."""
