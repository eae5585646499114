"""Compilation across processes: locks, and notices of progress."""
