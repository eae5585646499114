"""Vocabularies and word vectors against MXNet, and nbmod's extensions."""

from __future__ import annotations

import hashlib
import zipfile
from collections import Counter

import numpy as np
import pytest

import nbmod as mx
from nbmod.base import MXNetError
from nbmod.contrib.text import names
from tests.programs import text_programs


@pytest.fixture(scope="module")
def both(oracle):
    theirs = oracle.call("mx_scripts.run", "text_programs", "answers")
    return dict(zip(text_programs.LINES, zip(text_programs.answers(mx), theirs, strict=True),
                    strict=True))


@pytest.mark.parametrize("line", text_programs.LINES)
def test_answers_are_mxnets(both, line):
    ours, theirs = both[line]
    np.testing.assert_equal(plain(ours), plain(theirs))


def plain(value):
    """Tuples as lists, as the oracle sends them."""
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


@pytest.fixture
def files(tmp_path):
    return text_programs.namespace(mx, str(tmp_path))


text = mx.contrib.text


@pytest.mark.parametrize("make", ["GloVe('glove.6B.50d.txt', {!r})",
                                  "FastText(embedding_root={!r})",
                                  "create('fasttext', embedding_root={!r})"])
@pytest.mark.filterwarnings("ignore:.*likely a header")
def test_published_vectors_are_read_from_a_folder(files, tmp_path, make):
    embedding = eval("text.embedding." + make.format(str(tmp_path)))
    assert embedding.idx_to_token == ["<unk>", "hello", "world"]
    np.testing.assert_array_equal(embedding.idx_to_vec.asnumpy(), [[0, 0], [1, 2], [3, 4]])


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A function that puts an archive onto what stands for MXNet's server."""
    monkeypatch.setenv("MXNET_GLUON_REPO", (tmp_path / "server").as_uri())

    def publish(kind, archive, files):
        path = tmp_path / "server" / "gluon" / "embeddings" / kind / f"{archive}.zip"
        path.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(path, "w") as target:
            for name, content in files.items():
                target.writestr(name, content)
        monkeypatch.setitem(names.ARCHIVES, archive, hashlib.sha1(path.read_bytes()).hexdigest())
        return path
    return publish


@pytest.mark.parametrize(("cls", "archive", "file"), [
    ("GloVe", "glove.6B", "glove.6B.50d.txt"), ("GloVe", "glove.840B.300d", "glove.840B.300d.txt"),
    ("FastText", "wiki.zh_yue", "wiki.zh_yue.vec"),
    ("FastText", "wiki-news-300d-1M-subword", "wiki-news-300d-1M-subword.vec")])
def test_published_vectors_are_downloaded_once(server, tmp_path, cls, archive, file):
    """MXNet leaves the archive beside the vectors: that of GloVe holds several files."""
    path = server(cls.lower(), archive, {file: "hello 1 2\n", "glove.6B.100d.txt": "world 3 4 5\n"})
    root = tmp_path / "vectors"
    for _ in range(2):
        embedding = getattr(text.embedding, cls)(file, str(root))
        assert embedding.idx_to_token == ["<unk>", "hello"]
        path.unlink(missing_ok=True)
    if archive == "glove.6B":
        assert text.embedding.GloVe("glove.6B.100d.txt", str(root)).vec_len == 3


def test_vectors_that_are_not_there_are_named(server, tmp_path):
    missing = r"glove.6B.100d.txt is not there\. .*6B.zip could not be fetched.*embedding_root"
    with pytest.raises(MXNetError, match=missing):
        text.embedding.GloVe("glove.6B.100d.txt", str(tmp_path))
    server("glove", "glove.6B", {"other.txt": ""})
    with pytest.raises(MXNetError, match=r"100d.txt is not there\. .*is a damaged archive"):
        text.embedding.GloVe("glove.6B.100d.txt", str(tmp_path))
    assert not (tmp_path / "glove" / "glove.6B.100d.txt").exists()
    with pytest.raises(KeyError, match="there is no pretrained file x"):
        text.embedding.FastText("x", str(tmp_path))


def test_checksums_and_files_are_mxnets(oracle):
    theirs = oracle.call("mx_scripts.run", "text_programs", "archives")
    assert theirs == {f"{name}.zip": digest for name, digest in names.ARCHIVES.items()}


def test_counted_tokens_without_a_vector_have_the_unknown_one(files):
    """In MXNet the vectors of the file are assigned to other tokens then."""
    embedding = text.embedding.CustomEmbedding(files["c"], counter=Counter("uux"),
                                               reserved_tokens=["R"], init_unknown_vec=mx.nd.ones)
    assert embedding.idx_to_token == ["<unk>", "R", "u", "x"]
    assert embedding.idx_to_vec.asnumpy().tolist() == [[1, 1], [1, 1], [1, 2], [1, 1]]


WRONG = [
    ("read(g)", "line 4.*'w'.*no list of numbers"),
    ("read(d)", "line 2.*no vector"),
    ("read(h)", "line 2: 3 numbers for 'v', expected 2"),
    ("read(f)", "no line holds"),
    ("changed('no', [5, 6])", "no token 'no'.*'<unk>'"),
    ("changed(['hello', 'cat'], [[5, 6]])", r"\(1, 2\).*\(2, 2\) for 2 token"),
    ("T.embedding.create('glov')", "did you mean 'glove'"),
    ("T.embedding.CompositeEmbedding(V(), [])", "one or several"),
    ("own(b, ';', vocabulary=3)", "int.*Vocabulary"),
    ("V(counter).to_tokens(-1)", "-1.*0 to 6"),
    ("T.utils.count_tokens_from_str('a', '*')", "regular expression"),
]


@pytest.mark.parametrize("line, words", WRONG)
@pytest.mark.filterwarnings("ignore:.*header", "ignore:.*skipped")
def test_wrong_use_is_explained(files, line, words):
    with pytest.raises(MXNetError, match=words):
        eval(line, files)


@pytest.mark.parametrize("lines", ["a\n", "a 1 2\nb 1 2 3\n"])
def test_wrong_files_are_assertion_errors_as_in_mxnet(tmp_path, lines):
    (tmp_path / "wrong.txt").write_text(lines, encoding="utf-8")
    with pytest.raises(AssertionError, match="wrong.txt, line"):
        text.embedding.CustomEmbedding(str(tmp_path / "wrong.txt"))


@pytest.mark.parametrize("content, encoding", [(b"a 1 2\nb\xbf 3 4\n", "utf8"),
                                               (b"a 1 2", "utf-16")])
def test_files_in_another_encoding_are_named(tmp_path, content, encoding):
    path = tmp_path / "wrong.txt"
    path.write_bytes(content)
    with pytest.raises(MXNetError, match=f"wrong.txt: not {encoding} text.*encoding='latin-1'"):
        text.embedding.CustomEmbedding(str(path), encoding=encoding)


@pytest.mark.filterwarnings("ignore:.*header")
def test_wrong_vectors_are_assertion_errors_as_in_mxnet(files):
    with pytest.raises(AssertionError, match="new_vectors is"):
        text.embedding.CustomEmbedding(files["b"], ";").update_token_vectors(
            "<unk>", mx.nd.zeros(9))


def test_what_is_skipped_is_said(files):
    with pytest.warns(UserWarning) as caught:
        text.embedding.CustomEmbedding(files["a"])
    told = [str(warning.message) for warning in caught]
    assert "line 3" in told[0] and "'hello'" in told[0]
    assert "line 5" in told[1] and "header" in told[1]
    assert all(warning.filename == __file__ for warning in caught)
