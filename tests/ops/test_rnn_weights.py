"""The flat parameter vector of the RNN op: pieces are contiguous, and in MXNet's order."""

from __future__ import annotations

import numpy as np
import pytest

from nbmod.ops.rnn.rnn_weights import GATES, RnnLayout
from nbmod.ops.shape import ShapeMismatch

LAYOUTS = [RnnLayout(mode, 4, layers, both, projection) for mode in GATES for layers in (1, 3)
           for both in (False, True) for projection in ((0, 3) if mode == "lstm" else (0,))]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_pieces_are_one_after_another(layout):
    for pieces in (layout.pieces(5), layout.matrices(5)):
        at = 0
        for piece in pieces:
            assert piece.offset == at
            at += int(np.prod(piece.shape))
        assert at == layout.size(5)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_input_size_follows_from_the_size(layout):
    assert layout.input_size(layout.size(7)) == 7
    with pytest.raises(ShapeMismatch, match="parameters has"):
        layout.input_size(layout.size(7) + 1)
    with pytest.raises(ShapeMismatch, match="parameters has"):
        layout.input_size(layout.size(0))


@pytest.mark.parametrize("layout", [x for x in LAYOUTS if not x.projection_size], ids=str)
def test_names_and_places_are_mxnets(oracle, layout):
    size = layout.size(5)
    theirs = oracle.call("mx_scripts.run", "recurrent", "unpacked", layout.mode,
                         layout.state_size, layout.num_layers, layout.bidirectional, size)
    ours = {piece.name: np.arange(size, dtype=np.float32)[piece.span].reshape(piece.shape)
            for piece in layout.pieces(5)}
    assert list(ours) == list(theirs)
    for name, array in theirs.items():
        np.testing.assert_array_equal(ours[name], array, name)
