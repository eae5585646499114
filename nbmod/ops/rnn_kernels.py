"""One layer of a recurrent stack, all its steps and directions in one call.

Samples never meet in a recurrent layer, so a job is some samples of one direction through the whole
sequence: threads meet once per layer, not once per step.  What the layer's input adds to the gates
is there before (one product for all steps); a step multiplies the job's previous outputs with
packed weights (`panels.add_rows`), adds, and lets the cell finish its rows while they are in cache.

Arrays, with D directions (1 is last step first), T steps, N samples, G gates of H, W = G H or, for
gru, 4 H (see `rnn_cells`), R outputs per sample (H, or the size of the projection):

    gates, dgates   (D, T, N, W)       cells, hidden   (D, T, N, H); where nothing is to be kept
    y, gy           (T, N, D, R)                       for backward T is 1
    h, dh           (D, N, R)          c, dc           (D, N, H)

A sample beyond its length has outputs of 0 and keeps its state, so the backward direction begins at
the sample's last step.
"""

from __future__ import annotations

import numpy as np

from .few_rows import GROUP, add_dots
from .jit import inlined, kernel, prange
from .panels import add_rows
from .rnn_cells import GRU, backward_cell, forward_cell

__all__ = ["backward_layer", "forward_layer"]


@inlined
def _span(job, jobs, samples, unit):
    """First and last of the samples of a job, of `jobs` in one direction; multiples of `unit`."""
    units = (samples + unit - 1) // unit
    return job * units // jobs * unit, min(samples, (job + 1) * units // jobs * unit)


@inlined
def _copy(source, target):
    for j in range(source.size):
        target[j] = source[j]


@inlined
def _fill(target):
    for j in range(target.size):
        target[j] = 0


@inlined
def _add(source, target):
    for j in range(source.size):
        target[j] += source[j]


@inlined
def _forward_job(mode, d, span, panels, kept, y, state, lengths, clip, tile):
    """All steps of samples [span[0], span[1]) in direction d; see `forward_layer`."""
    gates, cells, hidden = kept
    (h, c), weight = state, panels[3] if d else panels[2]
    steps, samples, directions, out = y.shape
    width, first, rows = gates.shape[3], span[0], span[1] - span[0]
    columns, projected = width * 3 // 4 if mode == GRU else width, hidden.size > 0
    for s in range(steps):
        t = s if d == 0 else steps - 1 - s
        at = ((d * steps + t) * samples + first) * width + width - columns
        if weight.size:
            add_dots(h[d, first:first + rows], weight, gates.reshape(-1), at, width)
        else:
            add_rows(h.reshape(-1), (d * samples + first) * out, out, rows, panels[0][d],
                     gates.reshape(-1), at, width, columns, tile)
        for n in range(first, first + rows):
            row = hidden[d, t % hidden.shape[1], n] if projected else y[t, n, d]
            if t < lengths[n]:
                forward_cell(mode, gates[d, t, n], h[d, n], c[d, n], row, clip)
                _copy(c[d, n], cells[d, t % cells.shape[1], n])
            else:
                _fill(row)
        if projected:
            _project(d, t, first, rows, hidden, panels[1][d], y, tile)
        for n in range(first, first + rows):
            if t < lengths[n]:
                _copy(y[t, n, d], h[d, n])


@inlined
def _project(d, t, first, rows, hidden, panels, y, tile):
    """y at step t from the hidden numbers of that step."""
    _, samples, directions, out = y.shape
    size, kept = hidden.shape[3], hidden.shape[1]
    for n in range(first, first + rows):
        _fill(y[t, n, d])
    add_rows(hidden.reshape(-1), ((d * kept + t % kept) * samples + first) * size, size, rows,
             panels, y.reshape(-1), ((t * samples + first) * directions + d) * out,
             directions * out, out, tile)


@kernel(parallel=True)
def forward_layer(mode, panels, kept, y, state, lengths, clip, tiles):
    """y and the last states, from gates that hold what the input adds to them.

    panels   of h2h^T, (D, ...), and of h2r^T; then h2h of the first and of the last direction,
             empty unless it is not packed, since steps and samples are few
    kept     gates, cells, hidden; hidden is empty where nothing is projected
    state    h and c, which come with the first state and leave with the last
    lengths  steps of each sample; clip: bounds of c, and whether NaN counts as beyond them
    tiles    (jobs of one direction, ...)
    """
    jobs = len(tiles) // y.shape[2]
    for job in prange(len(tiles)):
        span = _span(np.int64(job) % jobs, jobs, y.shape[1], GROUP if panels[2].size else 1)
        _forward_job(mode, np.int64(job) // jobs, span, panels, kept, y, state, lengths, clip,
                     tiles[job])


@inlined
def _previous(d, t, n, steps, length, values, start):
    """The row of `values` (D, T, N, ...) at the step before t, `start`'s if t is the first."""
    before = t - 1 if d == 0 else t + 1
    return values[d, before, n] if 0 <= before < min(steps, length) else start[d, n]


@inlined
def _backward_job(mode, d, span, panels, kept, made, grads, states, lengths, clip, tile):
    """All steps, backwards, of some samples in direction d; see `backward_layer`."""
    gates, cells, y = kept
    dgates, before, douts, wide = made
    gy, dh, dc = grads
    h0, c0 = states
    (steps, samples, _, out), width = gy.shape, gates.shape[3]
    first, rows, projected = span[0], span[1] - span[0], wide.size > 0
    columns = width * 3 // 4 if mode == GRU else width
    for s in range(steps):
        t = steps - 1 - s if d == 0 else s
        for n in range(first, first + rows):
            _copy(_previous_output(d, t, n, lengths[n], y, h0), before[d, t, n])
            if t < lengths[n]:
                _add(gy[t, n, d], dh[d, n])
        if projected:
            _unproject(d, t, first, rows, lengths, panels[1][d], dh, douts, wide, tile)
        for n in range(first, first + rows):
            if t < lengths[n]:
                row = wide[d, n] if projected else dh[d, n]
                pair = (cells[d, t % cells.shape[1], n],
                        _previous(d, t, n, cells.shape[1], lengths[n], cells, c0))
                backward_cell(mode, gates[d, t, n], pair, before[d, t, n], row, dc[d, n],
                              dgates[d, t, n], clip)
            else:
                _fill(dgates[d, t, n])
        at = ((d * steps + t) * samples + first) * width + width - columns
        add_rows(dgates.reshape(-1), at, width, rows, panels[0][d], dh.reshape(-1),
                 (d * samples + first) * out, out, out, tile)


@inlined
def _previous_output(d, t, n, length, y, h0):
    """What the cell got as its previous output at step t."""
    last = t - 1 if d == 0 else t + 1
    return y[last, n, d] if 0 <= last < min(y.shape[0], length) else h0[d, n]


@inlined
def _unproject(d, t, first, rows, lengths, panels, dh, douts, wide, tile):
    """wide = gradient of the hidden numbers from dh, which is kept in douts and used up."""
    samples, out, size = dh.shape[1], dh.shape[2], wide.shape[2]
    for n in range(first, first + rows):
        _fill(wide[d, n])
        if t < lengths[n]:
            _copy(dh[d, n], douts[d, t, n])
            _fill(dh[d, n])
        else:
            _fill(douts[d, t, n])
    at = ((d * douts.shape[1] + t) * samples + first) * out
    add_rows(douts.reshape(-1), at, out, rows, panels, wide.reshape(-1),
             (d * samples + first) * size, size, size, tile)


@kernel(parallel=True)
def backward_layer(mode, panels, kept, made, grads, states, lengths, clip, tiles):
    """Gradients of the sums behind the gates, and of the first states.

    panels   of h2h, (D, ...), and of h2r
    kept     gates, cells, y: what forward left
    made     dgates; before (D, T, N, R), the previous outputs; douts (D, T, N, R), gradients of
             what was projected, and wide (D, N, H), scratch: both empty where nothing was
    grads    gy, dh, dc; the latter come with the gradients of the last states
    states   the first h and c
    """
    jobs = len(tiles) // kept[0].shape[0]
    for job in prange(len(tiles)):
        span = _span(np.int64(job) % jobs, jobs, grads[0].shape[1], 1)
        _backward_job(mode, np.int64(job) // jobs, span, panels, kept, made, grads, states,
                      lengths, clip, tiles[job])
