"""Micro-kernels written as LLVM IR, which hold their accumulators in vector registers, and bit
operations on memory (`bits`).

No other part of the package emits IR for CPUs or depends on the vector width of the host.
"""
