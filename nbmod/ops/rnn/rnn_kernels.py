"""One layer of a recurrent stack, all steps and directions in one kernel.

The input's contribution to the gates is computed before (one product for all steps).  A step has
two phases with a barrier after each: first all threads add the contribution of the previous
outputs, a share of the columns each, then they compute the cells, a share of the samples each.  So
a thread reads only its own share of the packed weights in each step, and finds it in its cache.

Arrays, with D directions (1 is last step first), T steps, N samples, G gates of H, W = G H or, for
gru, 4 H (see `rnn_cells`), R outputs per sample (H, or the size of the projection):

    gates, dgates   (D, T, N, W)       cells, hidden   (D, T, N, H); in inference, for a single
    y, gy           (T, N, D, R)                       step, T is 1
    h, dh           (D, N, R)          c, dc           (D, N, H)

A sample beyond its length has outputs of 0 and keeps its state, so the backward direction begins at
the sample's last step.

Jobs of a phase are numbered, those of direction 0 first; `work` has a workspace for each, or one
for all of them, which the calling thread does then.
"""

from __future__ import annotations

import numpy as np

from ..jit import inlined, kernel, prange
from ..linalg.gemm import add_gemm_share
from ..linalg.gemm_small_m import ROW_GROUP, add_gemm_small_m
from .rnn_cells import GRU, CellGates, backward_cell, forward_cell

__all__ = ["backward_layer", "backward_projected", "forward_few", "forward_layer",
           "forward_projected"]


@inlined
def _share(job, count, directions, s, steps):
    """Direction of a job, its index within the direction, jobs of a direction, and the step that it
    computes at turn s."""
    jobs = count // directions
    d = job // jobs
    return d, job % jobs, jobs, s if d == 0 else steps - 1 - s


@inlined
def _span(job, jobs, samples):
    """First and last of the samples of a job, multiples of ROW_GROUP."""
    units = (samples + ROW_GROUP - 1) // ROW_GROUP
    return job * units // jobs * ROW_GROUP, min(samples, (job + 1) * units // jobs * ROW_GROUP)


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
def _recurrent_part(mode, share, gates):
    """Where the columns begin to which the previous outputs contribute, at step t; their number."""
    d, _, _, t = share
    _, steps, samples, width = gates.shape
    columns = width * 3 // 4 if mode == GRU else width
    return (d * steps + t) * samples * width + width - columns, columns


@inlined
def _recur(mode, share, packed, gates, h, work):
    """gates at step t += h h2h^T, a job's columns."""
    d, job, jobs, _ = share
    samples, width = gates.shape[2:]
    at, columns = _recurrent_part(mode, share, gates)
    add_gemm_share(h.reshape(-1), d * samples * h.shape[2], h.shape[2], samples, packed[d],
                   gates.reshape(-1), at, width, columns, (job, jobs), work)


@inlined
def _recur_few(mode, share, weights, gates, h):
    """gates at step t += h h2h^T, a job's samples; `weights` are those of both directions."""
    (d, job, jobs, _), (ahead, back) = share, weights
    samples, width = gates.shape[2:]
    at, _ = _recurrent_part(mode, share, gates)
    first, last = _span(job, jobs, samples)
    add_gemm_small_m(h[d, first:last], back if d else ahead, gates.reshape(-1),
                     at + first * width, width)


@inlined
def _recur_somehow(mode, share, weights, gates, h, work):
    """Either of the two; weights that are packed for `_recur`, and those of `_recur_few`."""
    packed, ahead, back = weights
    if ahead.size:
        _recur_few(mode, share, (ahead, back), gates, h)
    else:
        _recur(mode, share, packed, gates, h, work)


@inlined
def _finish(cell, share, results, y, state, lengths, clip):
    """Gates, states and outputs of a job's samples at step t."""
    d, job, jobs, t = share
    (gates, cells, hidden), (h, c) = results, state
    first, last = _span(job, jobs, y.shape[1])
    for n in range(first, last):
        row = hidden[d, t % hidden.shape[1], n] if hidden.size else y[t, n, d]
        if hidden.size:
            _fill(y[t, n, d])
        if t < lengths[n]:
            forward_cell(cell, gates[d, t, n], h[d, n], c[d, n], row, clip)
            _copy(c[d, n], cells[d, t % cells.shape[1], n])
            if not hidden.size:
                _copy(row, h[d, n])
        else:
            _fill(row)


@inlined
def _project(share, hidden, packed, y, work):
    """A job's columns of y at step t, projected from `hidden` of that step."""
    d, job, jobs, t = share
    _, samples, directions, out = y.shape
    size, steps = hidden.shape[3], hidden.shape[1]
    add_gemm_share(hidden.reshape(-1), (d * steps + t % steps) * samples * size, size, samples,
                   packed[d], y.reshape(-1), (t * samples * directions + d) * out,
                   directions * out, out, (job, jobs), work)


@inlined
def _keep(share, y, h, lengths):
    """h of a job's samples, from the projected outputs."""
    d, job, jobs, t = share
    first, last = _span(job, jobs, y.shape[1])
    for n in range(first, last):
        if t < lengths[n]:
            _copy(y[t, n, d], h[d, n])


# A kernel for each kind of layer: a network that has one of them compiles one.


@kernel(parallel=True)
def forward_layer(cell, packed, results, y, state, lengths, clip, work):
    """y and the last states, from gates that hold the input's contribution.

    cell     `CellGates`
    packed   h2h^T of all directions
    results  gates, cells, hidden; hidden is empty without a projection
    state    h and c, the first state on entry, the last on exit
    lengths  steps of each sample; clip: bounds of c, and whether NaN is clipped as well
    work     (jobs or 1, ...)
    """
    (steps, _, directions, _), workers, cell = y.shape, len(work), CellGates(*cell)
    (gates, _, _), (h, _) = results, state
    count = max(workers, directions)
    for s in range(steps):
        for worker in prange(workers):
            for job in range(np.int64(worker), count, workers):
                share = _share(job, count, directions, s, steps)
                _recur(cell.mode, share, packed, gates, h, work[worker])
        for worker in prange(workers):
            for job in range(np.int64(worker), count, workers):
                share = _share(job, count, directions, s, steps)
                _finish(cell, share, results, y, state, lengths, clip)


@kernel(parallel=True)
def forward_few(cell, weights, results, y, state, lengths, clip, work):
    """`forward_layer` for few steps and samples; `weights` are h2h of the first and of the last
    direction, not packed."""
    (steps, _, directions, _), workers, cell = y.shape, len(work), CellGates(*cell)
    (gates, _, _), (h, _) = results, state
    count = max(workers, directions)
    for s in range(steps):
        for worker in prange(workers):
            for job in range(np.int64(worker), count, workers):
                share = _share(job, count, directions, s, steps)
                _recur_few(cell.mode, share, weights, gates, h)
                _finish(cell, share, results, y, state, lengths, clip)


@kernel(parallel=True)
def forward_projected(cell, weights, results, y, state, lengths, clip, work):
    """`forward_layer` with a projection; `weights` are h2h^T and h2r^T of all directions, packed,
    then those of `forward_few`, which are empty where h2h^T is packed."""
    (steps, _, directions, _), workers, cell = y.shape, len(work), CellGates(*cell)
    (recurrent, projection, ahead, back), (gates, _, hidden), (h, _) = weights, results, state
    count = max(workers, directions)
    for s in range(steps):
        for worker in prange(workers):
            for job in range(np.int64(worker), count, workers):
                share = _share(job, count, directions, s, steps)
                _recur_somehow(cell.mode, share, (recurrent, ahead, back), gates, h, work[worker])
        for worker in prange(workers):
            for job in range(np.int64(worker), count, workers):
                share = _share(job, count, directions, s, steps)
                _finish(cell, share, results, y, state, lengths, clip)
        for worker in prange(workers):
            for job in range(np.int64(worker), count, workers):
                share = _share(job, count, directions, s, steps)
                _project(share, hidden, projection, y, work[worker])
        for worker in prange(workers):
            for job in range(np.int64(worker), count, workers):
                share = _share(job, count, directions, s, steps)
                _keep(share, y, h, lengths)


@inlined
def _previous(d, t, n, steps, length, values, start):
    """The row of `values` (D, T, N, ...) at the step before t, `start`'s if t is the first."""
    before = t - 1 if d == 0 else t + 1
    return values[d, before, n] if 0 <= before < min(steps, length) else start[d, n]


@inlined
def _begin(share, y, buffers, grads, h0, lengths):
    """Previous outputs of a job's samples, and dh with the gradient of y at step t."""
    d, job, jobs, t = share
    (_, before, douts, wide), (gy, dh, _) = buffers, grads
    last_step = t - 1 if d == 0 else t + 1
    first, last = _span(job, jobs, dh.shape[1])
    for n in range(first, last):
        inside = 0 <= last_step < min(y.shape[0], lengths[n])
        _copy(y[last_step, n, d] if inside else h0[d, n], before[d, t, n])
        if t < lengths[n]:
            _add(gy[t, n, d], dh[d, n])
        if wide.size:
            _fill(wide[d, n])
            _fill(douts[d, t, n])
            if t < lengths[n]:
                _copy(dh[d, n], douts[d, t, n])
                _fill(dh[d, n])


@inlined
def _unproject(share, packed, buffers, work):
    """A job's columns of wide, the gradient of the hidden outputs."""
    d, job, jobs, t = share
    _, _, douts, wide = buffers
    (_, steps, samples, out), size = douts.shape, wide.shape[2]
    add_gemm_share(douts.reshape(-1), (d * steps + t) * samples * out, out, samples, packed[d],
                   wide.reshape(-1), d * samples * size, size, size, (job, jobs), work)


@inlined
def _differentiate(cell, share, results, buffers, grads, c0, lengths, clip):
    """dgates of a job's samples."""
    d, job, jobs, t = share
    (gates, cells, _), (dgates, before, _, wide), (_, dh, dc) = results, buffers, grads
    first, last = _span(job, jobs, dh.shape[1])
    for n in range(first, last):
        if t < lengths[n]:
            row = wide[d, n] if wide.size else dh[d, n]
            pair = (cells[d, t % cells.shape[1], n],
                    _previous(d, t, n, cells.shape[1], lengths[n], cells, c0))
            backward_cell(cell, gates[d, t, n], pair, before[d, t, n], row, dc[d, n],
                          dgates[d, t, n], clip)
        else:
            _fill(dgates[d, t, n])


@inlined
def _return(mode, share, packed, dgates, dh, work):
    """dh of the step before += dgates h2h, a job's columns."""
    d, job, jobs, t = share
    (_, steps, samples, width), out = dgates.shape, dh.shape[2]
    columns = width * 3 // 4 if mode == GRU else width
    add_gemm_share(dgates.reshape(-1), (d * steps + t) * samples * width + width - columns, width,
                   samples, packed[d], dh.reshape(-1), d * samples * out, out, out, (job, jobs),
                   work)


@kernel(parallel=True)
def backward_layer(cell, packed, results, buffers, grads, states, lengths, clip, work):
    """Gradients of the pre-activations, and of the first states.

    cell     `CellGates`
    packed   h2h of all directions; work as in `forward_layer`
    results  gates, cells, y: results of the forward pass
    buffers  dgates; before (D, T, N, R), the previous outputs; douts (D, T, N, R), gradients of the
             projected outputs, and wide (D, N, H), workspace: both empty without a projection
    grads    gy, dh, dc; on entry the latter are the gradients of the last states
    states   the first h and c
    """
    (gy, dh, _), (dgates, _, _, _), (_, _, y), (h0, c0) = grads, buffers, results, states
    (steps, _, directions, _), workers, cell = gy.shape, len(work), CellGates(*cell)
    count = max(workers, directions)
    for s in range(steps - 1, -1, -1):
        # gradients of the cells and of the pre-activations
        for worker in prange(workers):
            for job in range(np.int64(worker), count, workers):
                share = _share(job, count, directions, s, steps)
                _begin(share, y, buffers, grads, h0, lengths)
                _differentiate(cell, share, results, buffers, grads, c0, lengths, clip)
        # gradient of the previous outputs, by h2h
        for worker in prange(workers):
            for job in range(np.int64(worker), count, workers):
                share = _share(job, count, directions, s, steps)
                _return(cell.mode, share, packed, dgates, dh, work[worker])


@kernel(parallel=True)
def backward_projected(cell, packed, results, buffers, grads, states, lengths, clip, work):
    """`backward_layer` with a projection; `packed` are h2h and h2r of all directions."""
    (gy, dh, _), (dgates, _, _, _), (_, _, y), (h0, c0) = grads, buffers, results, states
    (recurrent, projection), cell = packed, CellGates(*cell)
    (steps, _, directions, _), workers = gy.shape, len(work)
    count = max(workers, directions)
    for s in range(steps - 1, -1, -1):
        # gradient of the hidden outputs, through the projection
        for worker in prange(workers):
            for job in range(np.int64(worker), count, workers):
                share = _share(job, count, directions, s, steps)
                _begin(share, y, buffers, grads, h0, lengths)
        for worker in prange(workers):
            for job in range(np.int64(worker), count, workers):
                share = _share(job, count, directions, s, steps)
                _unproject(share, projection, buffers, work[worker])
        for worker in prange(workers):
            for job in range(np.int64(worker), count, workers):
                share = _share(job, count, directions, s, steps)
                _differentiate(cell, share, results, buffers, grads, c0, lengths, clip)
        for worker in prange(workers):
            for job in range(np.int64(worker), count, workers):
                share = _share(job, count, directions, s, steps)
                _return(cell.mode, share, recurrent, dgates, dh, work[worker])
