"""Attributes in every spelling of files: what MXNet parses, nbmod parses to the same value."""

from __future__ import annotations

import pytest

import nbmod as mx
from tests.programs import spellings

SENSELESS = {
    ("kernel", "[3, 3)"), ("stride", "[3, 3)"), ("pad", "[3, 3)"), ("shape", "[3, 3)"),
    ("pad", "(-1, 3)"), ("kernel", "(-1, 3)"), ("num_group", "-4"), ("p", "nan"), ("shape", "()"),
    ("shape", "(7,)"), ("axes", "(0,1,1,2)"), ("begin", "(0, -2)"), ("begin", "(1L, 0L)"),
    ("sizes", "()"),
}  # fmt: skip
"""What MXNet takes and nbmod refuses: brackets that do not match, sizes that cannot be."""


@pytest.mark.filterwarnings("ignore:Cannot decide")
@pytest.mark.parametrize("number", range(len(spellings.CASES)),
                         ids=["-".join((c[0], c[2])) for c in spellings.CASES])
def test_what_mxnet_reads_is_read_alike(oracle, number):
    _, _, name, texts = spellings.CASES[number]
    ours = spellings.read(mx, number)
    theirs = oracle.call("mx_scripts.run", "spellings", "read", number)
    different = {text: (mine, want) for text, mine, want in zip(texts, ours, theirs, strict=True)
                 if want != "refused" and mine != want and (name, text) not in SENSELESS}
    assert not different, f"(nbmod, MXNet): {different}"
    assert any(want != "refused" for want in theirs)
