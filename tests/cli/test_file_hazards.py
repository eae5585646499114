"""Whatever writes files, and what can go wrong with them: sources stay whole, errors name the file.

Every command and function that writes meets every hazard: the target is a source, under its own
name or that of a link, or a folder, a full disk, in a folder that is missing or cannot be written,
or has the suffix of another format.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

import nbmod as mx
from nbmod.cli import im2rec, rec, warmup
from nbmod.cli import main as cli
from nbmod.imgproc import codecs
from nbmod.recordio import MXIndexedRecordIO, MXRecordIO, pack

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="makes symbolic links, knows /dev")


def net():
    return mx.sym.FullyConnected(mx.sym.Variable("data", shape=(1, 3)), num_hidden=2, name="fc")


def module():
    trained = mx.mod.Module(net(), label_names=None)
    trained.bind([("data", (1, 3))])
    trained.init_params(mx.init.One())
    trained.init_optimizer(optimizer="adam")
    return trained


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """Sources of every kind."""
    folder = tmp_path_factory.mktemp("originals")
    (folder / "images").mkdir()
    with MXIndexedRecordIO(folder / "train.idx", folder / "train.rec", "w") as writer:
        for number in range(3):
            image = codecs.encode(np.full((6, 7, 3), 80 * number, np.uint8), "png")
            (folder / "images" / f"{number}.png").write_bytes(image)
            writer.write_idx(number, pack((0, number, number, 0), image))
    (folder / "out.lst").write_text("".join(f"{k}\t{k}\t{k}.png\n" for k in range(3)))
    module().save_checkpoint(str(folder / "net"), 1, save_optimizer_states=True)
    pool = mx.sym.Pooling(mx.sym.Variable("data"), global_pool=True, kernel=(1, 1), name="pool")
    mx.model.save_checkpoint(str(folder / "pool"), 1, pool, {}, {})
    model = mx.convert.read_model(str(folder / "net"))
    for suffix in ("safetensors", "npz"):
        with pytest.warns(UserWarning) if suffix == "npz" else contextlib.nullcontext():
            mx.convert.write_model(model, str(folder / f"net.{suffix}"))
    return folder


@pytest.fixture
def folder(originals, tmp_path, monkeypatch):
    """A copy of them, which is the current folder."""
    shutil.copytree(originals, tmp_path / "files")
    monkeypatch.chdir(tmp_path / "files")
    monkeypatch.setattr(warmup, "warm", lambda *arguments: None)    # that compiles is tested there
    return tmp_path / "files"


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
            for path in folder.rglob("*")}


@dataclass
class Tool:
    """A command, whose words have OUT in place of the target, or a function of the target."""

    words: str = ""
    call: object = None
    out: str = "out.rec"
    """A good name of the target."""
    sources: list[str] = field(default_factory=list)
    written: str = "OUT"
    """The file that is written, if the target is a prefix."""
    wrong: str = "out.params"
    """A name with the suffix of another format; empty if all are right."""

    def run(self, out, capsys):
        """Status, and what was said."""
        if self.words:
            words = [out if word == "OUT" else word for word in self.words.split()]
            capsys.readouterr()
            return cli.main(words), capsys.readouterr().err
        try:
            self.call(out)
        except mx.MXNetError as error:
            return 1, str(error) + "\n"
        return 0, ""


def plot(path):
    epoch = {"epoch": 0, "train": {"accuracy": 0.5}, "validation": {}}
    pytest.importorskip("matplotlib")
    mx.history.plot([epoch], path)


def dump(path):
    from nbmod.profiler.recorder import Recorder

    Recorder().write(path)


def chart(path):
    net().simple_bind(mx.cpu(), data=(1, 3)).plan_chart(path)


def export(path):
    pytest.importorskip("onnx")
    mx.onnx.export_model("net-symbol.json", "net-0001.params", [(1, 3)], onnx_file_path=path,
                         verify=False)


def records(path):
    with MXRecordIO(path, "w") as writer:
        writer.write(b"new")


def indexed_records(path):
    with MXIndexedRecordIO(f"{path}.idx", path, "w") as writer:
        writer.write_idx(1, b"new")


def log(path):
    mx.callback.CSVLogger(path)._write({"epoch": 1})


MODEL = ["net-symbol.json", "net-0001.params"]
TOOLS = {
    "rec slice": Tool("rec slice train.rec OUT", sources=["train.rec", "train.idx"]),
    "rec repair": Tool("rec repair train.rec OUT", sources=["train.rec", "train.idx"]),
    "rec merge": Tool("rec merge OUT train.rec train.rec", sources=["train.rec", "train.idx"]),
    "rec sheet": Tool("rec sheet train.rec OUT", out="out.png", sources=["train.rec"],
                      wrong="out.rec"),
    "rec2idx": Tool("rec2idx train.rec OUT", out="out.idx", sources=["train.rec"],
                    wrong="out.rec"),
    "im2rec --list": Tool("im2rec --list OUT images", out="new", written="OUT.lst", wrong=""),
    "im2rec": Tool("im2rec --num-thread 1 OUT images", out="out", sources=["out.lst"],
                   written="OUT.rec", wrong=""),
    "convert to safetensors": Tool("convert net-0001.params -o OUT", out="out.safetensors",
                                   sources=MODEL, wrong="out.pt"),
    "convert to npz": Tool("convert net.safetensors -o OUT", out="out.npz",
                           sources=["net.safetensors"], wrong="out.pt"),
    "convert to params": Tool("convert net.npz -o OUT", out="out.params", sources=["net.npz"],
                              wrong="out.rec"),
    "convert to json": Tool("convert net.safetensors -o OUT", out="out.json",
                            sources=["net.safetensors"], wrong="out.lst"),
    "convert to a checkpoint": Tool("convert net.safetensors -o OUT", out="new",
                                    sources=["net.safetensors"], written="OUT-symbol.json",
                                    wrong=""),
    "convert states": Tool("convert net-0001.states -o OUT", out="out.states.safetensors",
                           sources=["net-0001.states"], wrong="out.npz"),
    "warmup --export": Tool("warmup net-symbol.json --shape data=1,3 --export OUT", out="out.tar",
                            sources=["net-symbol.json"], wrong="out.json"),
    "demo": Tool("demo --epochs 1 --out OUT", out="", written="OUT/lenet-0001.params", wrong=""),
    "predict": Tool("predict pool images/0.png --shape data=1,3,2,2 --out OUT", out="",
                    written="OUT/0.png", wrong=""),
    "nd.save": Tool(call=lambda path: mx.nd.save(path, {"a": mx.nd.ones(2)}), out="out.params",
                    wrong="out.rec"),
    "Symbol.save": Tool(call=lambda path: net().save(path), out="out.json"),
    "safetensors.save": Tool(call=lambda path: mx.safetensors.save(path, {"a": mx.nd.ones(2)}),
                             out="out.safetensors"),
    "save_optimizer_states": Tool(call=lambda path: module().save_optimizer_states(path),
                                  out="out.states"),
    "save_checkpoint": Tool(call=lambda path: mx.model.save_checkpoint(path, 1, net(), {}, {}),
                            out="new", written="OUT-0001.params", wrong=""),
    "export_model": Tool(call=export, out="out.onnx", sources=MODEL),
    "history.plot": Tool(call=plot, out="out.svg"),
    "profiler": Tool(call=dump, out="out.json", wrong=""),
    "plan_chart": Tool(call=chart, out="out.svg", wrong=""),
    "MXRecordIO": Tool(call=records, wrong=""),
    "MXIndexedRecordIO": Tool(call=indexed_records, wrong=""),
    "CSVLogger": Tool(call=log, out="out.csv", wrong=""),
}



def each_but(*names):
    return pytest.mark.parametrize("name", [name for name in TOOLS if name not in names])


with_sources = pytest.mark.parametrize("name", [name for name, tool in TOOLS.items()
                                                if tool.sources])


def refused(tool, out, folder, capsys, names):
    """The tool fails, says so in a sentence that names the file, and leaves all as it was."""
    before = contents(folder)
    status, said = tool.run(out, capsys)
    assert status == 1 and contents(folder) == before
    assert any(name in said for name in names), said
    assert len(said.splitlines()) == 1, said


def place(tool, make):
    """Make something where the tool writes; the target that leads there."""
    written = Path(tool.written.replace("OUT", tool.out or "made"))
    written.parent.mkdir(exist_ok=True)
    make(written)
    return tool.out or "made", written


@with_sources
@pytest.mark.parametrize("link", ["", "symbolic link", "hard link"])
def test_a_source_is_not_written(folder, capsys, name, link):
    tool = TOOLS[name]
    for source in tool.sources:
        if link:
            out, written = place(tool, lambda path, source=source: (
                os.link if link == "hard link" else os.symlink)(os.path.abspath(source), path))
            refused(tool, out, folder, capsys, [str(written)])
            written.unlink()
        elif tool.written == "OUT":
            refused(tool, source, folder, capsys, [source])


@pytest.mark.parametrize("words, file", [
    ("rec slice train.rec train.small", "train.idx"), ("rec merge train.x train.rec", "train.idx"),
    ("rec repair train.rec train", "train.idx"), ("rec slice train.rec other.idx", "other.idx"),
    ("rec repair train.rec.part train.rec.part", "train.rec.part"),
    ("convert net-0001.params -o net", "net-symbol.json"), ("rec2idx train.idx", "train.idx"),
    ("convert net --epoch 1 -o net-symbol.json", "net-symbol.json"),
    ("warmup net-symbol.json --shape data=1,3 --export net-symbol.json", "net-symbol.json")])
def test_files_of_derived_names_are_not_written_over_sources(folder, capsys, words, file):
    shutil.copy("train.rec", "train.rec.part")
    refused(Tool(words), "", folder, capsys, [file])


def test_a_partial_file_is_a_source_like_any_other(folder, capsys):
    """Such as that of an interrupted im2rec."""
    os.rename("train.rec", "train.rec.part")
    before = contents(folder)
    assert cli.main("rec repair train.rec.part train.rec".split()) == 0
    assert contents(folder) == before | {"train.rec": before["train.rec.part"]}


@each_but()
def test_a_folder_is_no_file(folder, capsys, name):
    tool = TOOLS[name]
    out, written = place(tool, Path.mkdir)
    refused(tool, out, folder, capsys, [str(written)])


@each_but("demo", "predict")    # which make the folder
@pytest.mark.parametrize("parent", ["none", "train.rec"], ids=["no folder", "a file"])
def test_a_folder_must_be_there(folder, capsys, name, parent):
    tool = TOOLS[name]
    refused(tool, f"{parent}/{tool.out}", folder, capsys, [f"{parent}/{tool.out}"])


@pytest.mark.parametrize("name", ["demo", "predict"])
def test_a_folder_that_is_made_is_no_file(folder, capsys, name):
    for out in ("train.rec", "train.rec/below"):
        refused(TOOLS[name], out, folder, capsys, [out])


@pytest.mark.skipif(sys.platform != "linux", reason="a folder that even root cannot write to")
@each_but("im2rec")    # which expects a list there
def test_a_folder_must_be_writable(folder, capsys, name):
    tool = TOOLS[name]
    refused(tool, f"/sys/{tool.out or 'made'}", folder, capsys, ["/sys/"])


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@each_but("demo", "MXIndexedRecordIO")    # which trains first, and writes an index meanwhile
def test_a_disk_may_be_full(folder, capsys, name):
    tool = TOOLS[name]
    out, written = place(tool, lambda path: path.symlink_to("/dev/full"))
    refused(tool, out, folder, capsys, [str(written)])


@pytest.mark.parametrize("name", [name for name, tool in TOOLS.items() if tool.wrong])
def test_the_suffix_of_another_format_is_refused(folder, capsys, name):
    refused(TOOLS[name], TOOLS[name].wrong, folder, capsys, [TOOLS[name].wrong])


@each_but("demo")    # which trains
def test_links_stay_links_and_modes_stay_modes(folder, capsys, name):
    """The right result: the file behind the link has the new content, for its owner only."""
    tool = TOOLS[name]
    behind = folder / "behind"
    behind.write_bytes(b"old")
    behind.chmod(0o600)
    out, written = place(tool, lambda path: path.symlink_to(behind))
    before = contents(folder)
    assert tool.run(out, capsys)[0] == 0
    assert written.is_symlink() and stat.S_IMODE(behind.stat().st_mode) == 0o600
    assert behind.read_bytes() != b"old"
    after = contents(folder)
    assert {path: after[path] for path in before if path not in ("behind", str(written))} == {
        path: content for path, content in before.items()
        if path not in ("behind", str(written))}
    assert not [path for path in after if ".nbmod-" in path or path.endswith(".part")]


# ------------------------------------------------------------------------------- concurrent runs

def test_another_process_that_writes_the_same_records_is_refused(folder, capsys, monkeypatch):
    """In the middle of a run, a second one begins."""
    words = "im2rec --num-thread 1 --pass-through out images".split()
    assert cli.main(words) == 0
    before, pack_one, seconds = contents(folder), im2rec._pack, []

    def interrupted(*arguments):
        if not seconds:
            seconds.append(None)
            seconds[0] = cli.main(words)
        return pack_one(*arguments)

    monkeypatch.setattr(im2rec, "_pack", interrupted)
    assert cli.main(words) == 0 and seconds == [1]
    assert "out.rec: not written, as another process is writing it" in capsys.readouterr().err
    assert contents(folder) == before


@pytest.mark.parametrize("name", ["rec slice", "rec2idx"])
def test_of_two_runs_one_whole_file_is_left(folder, capsys, monkeypatch, name):
    tool, seconds = TOOLS[name], []
    assert tool.run("expected" + tool.out[3:], capsys)[0] == 0

    class Interrupted(MXRecordIO):
        def read(self):
            if not seconds:
                seconds.append(None)
                seconds[0] = tool.run(tool.out, capsys)[0]
            return super().read()

    for module in (rec, sys.modules["nbmod.cli.rec2idx"]):
        monkeypatch.setattr(module, "MXRecordIO", Interrupted)
    assert tool.run(tool.out, capsys)[0] == 0 and seconds == [0]
    left = contents(folder)
    for suffix in (".rec", ".idx"):
        assert left.get(f"out{suffix}") == left.get(f"expected{suffix}")
    assert not [path for path in left if ".nbmod-" in path or path.endswith(".part")]


WRITING = """
import sys
from nbmod.recordio import MXIndexedRecordIO
writer = MXIndexedRecordIO("out.idx", "out.rec", "w")
writer.write_idx(1, b"ours")
print("open", flush=True)
sys.stdin.read()
writer.close()
"""


def test_a_file_of_records_has_one_process_that_writes_it(folder):
    with subprocess.Popen([sys.executable, "-c", WRITING], stdin=subprocess.PIPE, text=True,
                          stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == "open\n"
        with pytest.raises(mx.MXNetError, match="out.rec: .*another process is writing it"):
            MXRecordIO("out.rec", "w")
        with pytest.raises(mx.MXNetError, match="another process is writing it"):
            MXIndexedRecordIO("new.idx", "out.rec", "w")
        assert not os.path.exists("new.idx")
        process.communicate("")
    assert list(MXRecordIO("out.rec", "r")) == [b"ours"]
    assert MXIndexedRecordIO("out.idx", "out.rec", "r").read_idx(1) == b"ours"


def test_an_index_and_its_records_are_two_files(folder):
    before = contents(folder)
    with pytest.raises(mx.MXNetError, match="train.rec: not written, as it is the same file"):
        MXIndexedRecordIO("train.rec", "train.rec", "w")
    with pytest.raises(mx.MXNetError, match="images: cannot be written: Is a directory"):
        MXIndexedRecordIO("train.idx", "images", "w")
    with pytest.raises(mx.MXNetError, match="images: cannot be written: Is a directory"):
        MXIndexedRecordIO("images", "train.rec", "w")
    assert contents(folder) == before
