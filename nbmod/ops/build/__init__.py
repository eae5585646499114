"""Compilation of kernels and its cache, across processes.

A kernel is stored under a digest of all that its machine code depends on, so nothing in the cache
is ever out of date; a file is complete, or it is absent.

    compiler.py        numba, or why it cannot be imported
    inlining.py        `@inlined`, and placeholders in the modules of kernels
    fingerprint.py     the digest of a kernel's sources: everything that its machine code depends on
    levels.py          CPU levels: the sets of instruction sets that kernels are shipped for
    trust.py           whether another user could have written a file of compiled code
    shipped.py         the distribution `nbmod-kernels`: kernels that are installed
    store.py           the compile cache: kernels in files named after their content
    archive.py         compiled kernels as one file, for containers and machines of the same kind
    parallel_loops.py  how `for i in prange(n)` is compiled: a function that every thread calls
    linkage.py         how a kernel is linked with its helpers, and optimized once
    forks.py           kernels and the compiler in forked processes
    progress.py        the kernel that is being compiled, and how many are left
    assembly.py        the assembly of compiled functions
    costs.py           CPU seconds of each compilation by stages, and bytes of machine code

Begin with `store.py`.  Imports `base` and `core`.
"""
