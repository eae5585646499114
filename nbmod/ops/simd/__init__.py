"""Inner loops that must hold their sums in vector registers, and questions about bits (`bits`),
written as LLVM IR.

How kernels are linked is here as well (`linkage`).

Nothing else of the package emits IR or asks how wide the vectors of the host are.
"""
