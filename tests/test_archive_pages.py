"""The pages of docs/archives: their commands and programs run on archives of the layouts shown."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import nbmod as mx
from nbmod.cli import main as cli
from nbmod.cli.origins import _KNOWN
from nbmod.core.archive_members import read_members
from nbmod.imgproc import codecs
from tests.made_archives import MAKERS, picture

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "archives"
ARCHIVES = {
    "README": ["image_classification"], "image-classification": ["image_classification"],
    "object-detection": ["object_detection"], "semantic-segmentation": ["semantic_segmentation"],
    "linear-learner": ["linear_learner"],
    "insightface": ["insightface_recognition", "insightface_detection"],
    "compreface": ["compreface"]}


def blocks(page: str, kind: str) -> list[str]:
    """Code of one kind on a page."""
    return re.findall(rf"```{kind}\n(.*?)```", (FOLDER / f"{page}.md").read_text(encoding="utf-8"),
                      re.S)


def commands(page: str) -> list[list[str]]:
    return [shlex.split(line, comments=True) for block in blocks(page, "sh")
            for line in block.splitlines()]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with what the pages name besides archives."""
    monkeypatch.chdir(tmp_path)
    picture(tmp_path / "image.jpg")
    (tmp_path / "rows.csv").write_text("1,2,3,4\n")
    for name in ("labels.txt", "classes.txt"):
        (tmp_path / name).write_text("cat\ndog\nowl\n")
    return tmp_path


@pytest.mark.parametrize("page", ARCHIVES)
def test_commands_and_programs_run(folder, capsys, page):
    for kind in ARCHIVES[page]:
        path = MAKERS[kind](folder)
        if page != "README":
            text = (FOLDER / f"{page}.md").read_text(encoding="utf-8")
            assert all(name in text for name in read_members(path)), "the layout is another one"
    if page == "insightface":
        _write_records(folder)
    if page == "compreface":
        net = mx.gluon.model_zoo.vision.resnet18_v1(classes=3)
        net.initialize()
        net(mx.nd.zeros((1, 3, 32, 32)))
        net.save_parameters("mask.params")
    for command in commands(page):
        assert command[0] == "nbmod" and cli.main(command[1:]) == 0, capsys.readouterr().err
    for code in blocks(page, "python"):
        exec(compile(code, f"{page}.md", "exec"), {})


def _write_records(folder: Path) -> None:
    """Two images of one identity, as InsightFace's `train.rec` has them."""
    image = codecs.encode(np.zeros((112, 112, 3), np.uint8), "jpg")
    (folder / "property").write_text("1,112,112\n")
    with mx.recordio.MXIndexedRecordIO("train.idx", "train.rec", "w") as records:
        records.write_idx(0, mx.recordio.pack(mx.recordio.IRHeader(2, (3.0, 4.0), 0, 0), b""))
        for number in (1, 2):
            records.write_idx(number, mx.recordio.pack((0, 0.0, number, 0), image))
        records.write_idx(3, mx.recordio.pack(mx.recordio.IRHeader(2, (1.0, 3.0), 3, 0), b""))


def test_pages_know_one_another():
    """Each is in the table of the first page, and is that of an algorithm."""
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    pages = {path.name for path in FOLDER.glob("*.md")} - {"README.md"}
    assert {*re.findall(r"\(([\w-]+\.md)\)", text)} == pages == {
        *(f"{page}.md" for page in ARCHIVES)} - {"README.md"}
    assert {algorithm.page for _, algorithm in _KNOWN} | {"compreface.md"} == pages
    for page in ("serving", "convert"):
        assert "archives/README.md" in (FOLDER.parent / f"{page}.md").read_text(encoding="utf-8")
