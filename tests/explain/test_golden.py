"""The plans of ten networks are those of the texts in `golden`."""

from __future__ import annotations

import pytest

from tests.explain import golden
from tests.explain.networks import NETWORKS


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A folder with the texts of this version."""
    folder = tmp_path_factory.mktemp("golden")
    golden.write(folder)
    return folder


@pytest.mark.parametrize("name", NETWORKS)
def test_plans_change_only_where_that_is_meant(name, written):
    """After a change that is meant: `python -m tests.explain.golden`, and read the difference."""
    text = (written / f"{name}.txt").read_text()
    assert text == (golden.FOLDER / f"{name}.txt").read_text()


def test_there_is_a_text_for_every_network():
    assert {path.stem for path in golden.FOLDER.iterdir()} == {*NETWORKS}
