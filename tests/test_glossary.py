"""docs/glossary.md: files use the words that the page says they define."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
SECTIONS = {section.splitlines()[0]: section for section in PAGE.split("\n## ")[1:]}
LANGUAGE = {"debug_str", "executor", "explain", "grad_req"}
"""Names of MXNet and of users' code, which other files than those of a word define."""


def test_words_are_in_alphabetical_order():
    assert len(SECTIONS) > 60 and list(SECTIONS) == sorted(SECTIONS, key=str.lower)


@pytest.mark.parametrize("word", SECTIONS)
def test_files_define_the_word_and_the_names(word):
    spans = re.findall(r"`([^`]+)`", SECTIONS[word].replace("\n", " "))
    files = [span for span in spans if re.fullmatch(r"nbmod/[\w/]+\.py", span)]
    text = "".join((ROOT / file).read_text(encoding="utf-8") for file in files)
    for one in word.split(", "):    # "accumulates" will do, and `JointGraph` for two words
        assert re.search(r"(?<![a-z])" + r"\s*".join(one[:-1].split()), text, re.I), files
    names = {name for span in spans if span not in files
             for name in re.findall(r"\b[A-Za-z_]{4,}\b", span)} - LANGUAGE
    assert sorted(name for name in names if not re.search(rf"\b{name}\b", text)) == []
