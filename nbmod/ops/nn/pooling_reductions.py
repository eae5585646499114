"""Reductions of STEP contiguous windows at a time, for the pooling kernels.

`offsets` are those of taps from the window; `span` are the first and last taps of a reduction.
"""

from __future__ import annotations

import numpy as np

from ..jit import inlined
from ..simd.raw_arrays import STEP, stack_buffer

__all__ = ["add", "add_labelled", "find_along", "find_largest", "largest"]


@inlined
def add(source, start, offsets, span, into, to):
    """STEP sums, stored from into[to] on."""
    zero, total, (first, last) = source.dtype.type(0), stack_buffer(source.dtype), span
    for k in range(STEP):
        total[k] = zero
    for t in range(first, last):
        at = np.uintp(start + offsets[t])
        for k in range(STEP):
            total[k] += source[at + np.uintp(k)]
    for k in range(STEP):
        into[np.uintp(to) + np.uintp(k)] = total[k]


@inlined
def largest(source, start, offsets, span, lowest, into, to):
    """STEP maxima, at least `lowest`."""
    best, (first, last) = stack_buffer(source.dtype), span
    for k in range(STEP):
        best[k] = lowest
    for t in range(first, last):
        at = np.uintp(start + offsets[t])
        for k in range(STEP):
            pixel = source[at + np.uintp(k)]
            best[k] = pixel if pixel > best[k] else best[k]
    for k in range(STEP):
        into[np.uintp(to) + np.uintp(k)] = best[k]


@inlined
def find_largest(source, start, offsets, labels, span, into, which, to):
    """STEP maxima and the labels of their first occurrence, or -1 where all taps are -inf."""
    kind, (first, last) = source.dtype.type, span
    lowest, nowhere = kind(-np.inf), kind(-1)
    best, tap = stack_buffer(source.dtype), stack_buffer(source.dtype)
    for k in range(STEP):
        best[k], tap[k] = lowest, nowhere
    for t in range(first, last):
        at, number = np.uintp(start + offsets[t]), kind(labels[t])
        for k in range(STEP):
            pixel = source[at + np.uintp(k)]
            larger = pixel > best[k]
            best[k] = pixel if larger else best[k]
            tap[k] = number if larger else tap[k]
    for k in range(STEP):
        into[np.uintp(to) + np.uintp(k)] = best[k]
    for k in range(STEP):
        which[np.uintp(to) + np.uintp(k)] = tap[k]


@inlined(always=True)
def find_along(source, source_labels, start, offsets, labels, span, into, which, to, unordered):
    """STEP maxima that already have labels, `source_labels`, to which those of taps are added;
    where these are `unordered`, the first of equal maxima is that with the smallest label."""
    kind, (first, last) = source.dtype.type, span
    lowest, nowhere = kind(-np.inf), kind(-1)
    best, tap = stack_buffer(source.dtype), stack_buffer(source.dtype)
    for k in range(STEP):
        best[k], tap[k] = lowest, nowhere
    for t in range(first, last):
        at, number = np.uintp(start + offsets[t]), kind(labels[t])
        for k in range(STEP):
            pixel, label = source[at + np.uintp(k)], source_labels[at + np.uintp(k)] + number
            larger = pixel > best[k]
            if unordered:
                larger |= (pixel == best[k]) & (label < tap[k])
            best[k] = pixel if larger else best[k]
            tap[k] = label if larger else tap[k]
    for k in range(STEP):
        into[np.uintp(to) + np.uintp(k)] = best[k]
    for k in range(STEP):
        which[np.uintp(to) + np.uintp(k)] = tap[k]


@inlined
def add_labelled(shares, which, start, offsets, labels, span, into, to):
    """Gradients of STEP pixels from windows that each pass theirs to the tap of one label."""
    zero, total, (first, last) = shares.dtype.type(0), stack_buffer(shares.dtype), span
    for k in range(STEP):
        total[k] = zero
    for t in range(first, last):
        at, number = np.uintp(start + offsets[t]), shares.dtype.type(labels[t])
        for k in range(STEP):
            share, tap = shares[at + np.uintp(k)], which[at + np.uintp(k)]
            total[k] += share if tap == number else zero
    for k in range(STEP):
        into[np.uintp(to) + np.uintp(k)] = total[k]
