"""Backward shape inference: inputs inferred from outputs, and partially known shapes.

Each row: op, parameters, shapes of inputs and outputs before, and after. 0 is an unknown dimension,
None an unknown rank. Forward inference from complete inputs is tested by the samples of every op.
Rows marked `more` infer more than MXNet does; all others are MXNet's results.
"""

from __future__ import annotations

import pytest

from nbmod import MXNetError
from nbmod.ops import OPS

U = None
LENGTHS = {"use_sequence_length": True}
REST = [
    ("Reshape", {"shape": (0, -1)}, [(0, 6)], [U], [(0, 6)], [(0, 0)]),
    ("Reshape", {"shape": (0, -1)}, [(0, 6)], [(2, 6)], [(2, 6)], [(2, 6)]),
    ("Reshape", {"shape": (0, -1)}, [(2, 0)], [(2, 6)], [(2, 6)], [(2, 6)]),
    ("Reshape", {"shape": (-1, 6)}, [(2, 0, 3)], [U], [(2, 0, 3)], [(0, 6)]),
    ("Reshape", {"shape": (-1, 6)}, [(2, 0, 3)], [(4, 6)], [(2, 4, 3)], [(4, 6)]),
    ("Reshape", {"shape": (4, 6)}, [(2, 0, 3)], [U], [(2, 4, 3)], [(4, 6)]),
    ("Reshape", {"shape": (4, 6)}, [(2, 0, 0)], [U], [(2, 0, 0)], [(4, 6)]),
    ("Reshape", {"shape": (4, 6)}, [U], [(4, 6)], [U], [(4, 6)]),
    ("Reshape", {"shape": (-3, 0)}, [(0, 3, 4)], [U], [(0, 3, 4)], [(0, 4)]),
    ("Reshape", {"shape": (-3, 0)}, [(0, 3, 4)], [(6, 4)], [(2, 3, 4)], [(6, 4)]),
    ("Reshape", {"shape": (-4, -1, 2, 0)}, [(0, 4)], [(6, 2, 4)], [(12, 4)], [(6, 2, 4)]),
    ("Reshape", {"shape": (0, 0)}, [(0, 4)], [(6, 4)], [(6, 4)], [(6, 4)]),
    ("Reshape", {"shape": (0, -2)}, [(0, 4)], [U], [(0, 4)], [(0, 4)]),
    ("Reshape", {"target_shape": (4, 6)}, [(0, 3, 4)], [U], [(2, 3, 4)], [(4, 6)]),
    ("Flatten", {}, [(5, 0, 4)], [(5, 12)], [(5, 3, 4)], [(5, 12)], "more"),
    ("Flatten", {}, [(0, 3, 4)], [U], [(0, 3, 4)], [(0, 12)], "more"),
    ("expand_dims", {"axis": 1}, [(2, 0)], [U], [(2, 0)], [(2, 1, 0)]),
    ("expand_dims", {"axis": 1}, [U], [(2, 1, 3)], [(2, 3)], [(2, 1, 3)]),
    ("expand_dims", {"axis": -1}, [(0, 3)], [(2, 3, 0)], [(2, 3)], [(2, 3, 1)]),
    ("squeeze", {"axis": 1}, [(0, 0)], [(3,)], [(3, 1)], [(3,)], "more"),
    ("squeeze", {}, [(0, 1)], [U], [(0, 1)], [U]),
    ("transpose", {"axes": (1, 0, 2)}, [U], [(2, 3, 4)], [(3, 2, 4)], [(2, 3, 4)]),
    ("transpose", {"axes": (1, 0, 2)}, [(0, 3, 4)], [(3, 2, 4)], [(2, 3, 4)], [(3, 2, 4)]),
    ("SwapAxis", {"dim1": 0, "dim2": 2}, [(0, 3, 4)], [U], [(0, 3, 4)], [(4, 3, 0)]),
    ("SwapAxis", {"dim1": 0, "dim2": 2}, [U], [(4, 3, 2)], [(2, 3, 4)], [(4, 3, 2)], "more"),
    ("Concat", {"num_args": 2}, [(2, 3), (0, 4)], [U], [(2, 3), (2, 4)], [(2, 7)]),
    ("Concat", {"num_args": 2}, [(0, 3), (0, 4)], [(2, 7)], [(2, 3), (2, 4)], [(2, 7)]),
    ("Concat", {"num_args": 2}, [(2, 3), (2, 0)], [(2, 7)], [(2, 3), (2, 4)], [(2, 7)], "more"),
    ("Concat", {"num_args": 2}, [(2, 3), U], [U], [(2, 3), (2, 0)], [(2, 0)]),
    ("_rnn_param_concat", {"num_args": 2, "dim": 0}, [(15,), (0,)], [(27,)], [(15,), (12,)],
     [(27,)]),
    ("_rnn_param_concat", {"num_args": 3, "dim": 0}, [(0,), (15,), (0,)], [(27,)],
     [(6,), (15,), (6,)], [(27,)]),
    ("stack", {"num_args": 2}, [(2, 0), (0, 3)], [U], [(2, 3), (2, 3)], [(2, 2, 3)]),
    ("stack", {"num_args": 2, "axis": 1}, [(0, 5), U], [(4, 2, 5)], [(4, 5), (4, 5)], [(4, 2, 5)],
     "more"),
    ("SliceChannel", {"num_outputs": 2}, [(0, 6)], [(2, 3), U], [(2, 6)], [(2, 3), (2, 3)]),
    ("SliceChannel", {"num_outputs": 2}, [(0, 6)], [U, (2, 3)], [(2, 6)], [(2, 3), (2, 3)]),
    ("SliceChannel", {"num_outputs": 2}, [(0, 4)], [U, U], [(0, 4)], [(0, 2), (0, 2)]),
    ("SliceChannel", {"num_outputs": 2}, [U], [U, (2, 3)], [(2, 6)], [(2, 3), (2, 3)], "more"),
    ("SliceChannel", {"num_outputs": 2, "squeeze_axis": True}, [(0, 2, 0)], [(2, 3), U],
     [(2, 2, 3)], [(2, 3), (2, 3)]),
    ("_split_v2", {"indices": (0, 2)}, [(0, 5)], [(2, 2), (2, 3)], [(2, 5)], [(2, 2), (2, 3)]),
    ("_split_v2", {"indices": (0, 2)}, [(0, 5)], [U, U], [(0, 5)], [(0, 2), (0, 3)]),
    ("slice", {"begin": (0, 1), "end": (None, 3)}, [(0, 3)], [U], [(0, 3)], [(0, 2)]),
    ("slice_axis", {"axis": 1, "begin": 0, "end": 2}, [(0, 3)], [U], [(0, 3)], [(0, 2)]),
    ("slice_like", {"axes": (0,)}, [(3, 0), (2, 2)], [U], [(3, 0), (2, 2)], [(2, 0)]),
    ("Crop", {"num_args": 2}, [(0, 2, 5, 6), (3, 4, 2, 3)], [U], [(0, 2, 5, 6), (3, 4, 2, 3)],
     [(0, 2, 2, 3)]),
    ("Pad", {"mode": "edge", "pad_width": (0, 0, 1, 2)}, [(0, 3)], [U], [(0, 3)], [(0, 6)]),
    ("repeat", {"repeats": 2, "axis": 1}, [(0, 3)], [U], [(0, 3)], [(0, 6)]),
    ("depth_to_space", {"block_size": 2}, [(0, 8, 2, 3)], [U], [(0, 8, 2, 3)], [(0, 2, 4, 6)]),
    ("sum", {"axis": 1}, [(0, 3)], [U], [(0, 3)], [(0,)]),
    ("sum", {"axis": 1}, [(2, 0)], [U], [(2, 0)], [(2,)]),
    ("sum", {}, [(2, 0)], [U], [(2, 0)], [(1,)]),
    ("broadcast_to", {"shape": (2, 3)}, [U], [U], [U], [U]),
    ("broadcast_to", {"shape": (2, 3)}, [(1, 0)], [U], [(1, 0)], [(2, 3)], "more"),
    ("pick", {}, [(2, 3), U], [U], [(2, 3), (2,)], [(2,)]),
    ("pick", {"keepdims": True}, [(2, 3), U], [U], [(2, 3), (2,)], [(2, 1)]),
    ("Embedding", {"input_dim": 5, "output_dim": 3}, [(0, 4), U], [U], [(0, 4), (5, 3)],
     [(0, 4, 3)]),
    ("take", {}, [(0, 4), (2, 5)], [U], [(0, 4), (2, 5)], [(2, 5, 4)]),
    ("_slice_assign", {"begin": (0, 1), "end": (1, 3)}, [(2, 3), U], [U], [(2, 3), (1, 2)],
     [(2, 3)]),
    ("_zeros", {"shape": (0, 3)}, [], [U], [], [(0, 3)]),
    ("_zeros", {"shape": (0, 3)}, [], [(2, 0)], [], [(2, 3)]),
    ("_zeros", {}, [], [(2, 3)], [], [(2, 3)]),
    ("_arange", {"start": 3, "infer_range": True}, [], [(5,)], [], [(5,)]),
    ("dot", {}, [(0, 3), (3, 4)], [U], [(0, 3), (3, 4)], [(0, 4)]),
    ("dot", {}, [(2, 3), (0, 4)], [U], [(2, 3), (3, 4)], [(2, 4)], "more"),
    ("batch_dot", {}, [(5, 0, 3), (5, 3, 4)], [U], [(5, 0, 3), (5, 3, 4)], [(5, 0, 4)]),
    ("_linalg_gemm", {}, [(2, 3), (3, 4), U], [U], [(2, 3), (3, 4), (2, 4)], [(2, 4)]),
    ("SequenceMask", LENGTHS, [U, U], [(4, 3, 2)], [(4, 3, 2), (3,)], [(4, 3, 2)], "more"),
    ("SequenceMask", LENGTHS, [(4, 0, 2), (3,)], [U], [(4, 3, 2), (3,)], [(4, 3, 2)], "more"),
    ("SequenceLast", LENGTHS, [(0, 3, 2), U], [U], [(0, 3, 2), (3,)], [(3, 2)]),
    ("CTCLoss", {}, [(5, 0, 4), (3, 2)], [U, U], [(5, 3, 4), (3, 2)], [(3,), (5, 3, 4)],
     "more"),
    ("_contrib_interleaved_matmul_encdec_qk", {"heads": 2}, [(3, 2, 8), U], [U],
     [(3, 2, 8), (0, 2, 16)], [(4, 3, 0)], "more"),
    ("_contrib_interleaved_matmul_selfatt_valatt", {"heads": 2}, [(3, 2, 24), U], [U],
     [(3, 2, 24), (4, 3, 3)], [(3, 2, 8)], "more"),
    ("_linalg_trmm", {}, [U, (3, 4)], [U], [(3, 3), (3, 4)], [(3, 4)], "more"),
    ("_linalg_trsm", {"rightside": True}, [(4, 4), (3, 0)], [U], [(4, 4), (3, 4)], [(3, 4)],
     "more"),
    ("_linalg_potrf", {}, [(2, 3, 0)], [U], [(2, 3, 3)], [(2, 3, 3)], "more"),
    ("_linalg_syevd", {}, [U], [(3, 3), U], [(3, 3)], [(3, 3), (3,)], "more"),
    ("_linalg_makediag", {"offset": 1}, [(0, 3)], [U], [(0, 3)], [(0, 4, 4)], "more"),
    ("im2col", {"kernel": (2, 2)}, [(0, 3, 4, 4)], [U], [(0, 3, 4, 4)], [(0, 12, 9)], "more"),
    ("khatri_rao", {"num_args": 2}, [(2, 3), (4, 0)], [U], [(2, 3), (4, 3)], [(8, 3)], "more"),
    ("_contrib_index_copy", {}, [(4, 2), (3,), U], [U], [(4, 2), (3,), (3, 2)], [(4, 2)], "more"),
    ("_random_pdf_normal", {}, [(2, 3), (2,), U], [U], [(2, 3), (2,), (2,)], [(2, 3)], "more"),
]  # fmt: skip


@pytest.mark.parametrize("row", REST, ids=[f"{row[0]}-{i}" for i, row in enumerate(REST)])
def test_what_follows(row):
    name, attrs, ins, outs, ins_after, outs_after = row[:6]
    assert OPS[name].from_attrs(attrs).infer_shape(ins, outs) == (ins_after, outs_after)


CONFLICTS = [
    ("Reshape", {"shape": (0, -1)}, [(0, 6)], [(2, 5)]),
    ("expand_dims", {"axis": 1}, [U], [(2, 2, 3)]),
    ("Concat", {"num_args": 2}, [(0, 3), (0, 4)], [(2, 7, 1)]),
    ("SliceChannel", {"num_outputs": 2}, [(4, 6)], [(2, 3), U]),
    ("stack", {"num_args": 2}, [(2, 3), U], [(2, 4, 3)]),
    ("transpose", {}, [(2, 3)], [(2, 3)]),
]  # fmt: skip


@pytest.mark.parametrize("name, attrs, ins, outs", CONFLICTS, ids=[row[0] for row in CONFLICTS])
def test_contradictions_are_errors(name, attrs, ins, outs):
    with pytest.raises(MXNetError):
        OPS[name].from_attrs(attrs).infer_shape(ins, outs)
