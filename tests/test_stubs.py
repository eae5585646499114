"""Stubs of names created at run time: up to date, and understood by editors.

Type checkers are tested on an installed wheel, in `tests/test_wheel.py`.
"""

from __future__ import annotations

import ast
import configparser
import importlib.util
import re
from pathlib import Path

import pytest

import nbmod as mx
from tests.test_house import FILES, tree_of

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def generator():
    spec = importlib.util.spec_from_file_location("generate_stubs", ROOT / "docs/generate_stubs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def stubs(generator):
    return generator.stubs()


def test_the_stubs_are_up_to_date(generator, stubs):
    assert generator.stale(stubs) == [], "run python docs/generate_stubs.py"


def test_stubs_that_are_out_of_date_are_found(generator, stubs, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(generator, "ROOT", tmp_path)
    monkeypatch.setattr(generator, "stubs", lambda: stubs)
    assert generator.main(["--check"]) == 1 and generator.main([]) == 0
    assert generator.main(["--check"]) == 0
    (tmp_path / "nbmod/_lazy_names.pyi").write_text("changed")
    (tmp_path / "nbmod/old.pyi").write_text("gone")
    capsys.readouterr()
    assert generator.main(["--check"]) == 1
    assert capsys.readouterr().out.split() == ["nbmod/_lazy_names.pyi", "nbmod/old.pyi"]
    assert generator.main([]) == 0 and generator.stale(stubs) == []


def test_no_stub_hides_a_module(stubs):
    assert not [path for path in stubs
                if (ROOT / path).with_suffix(".py").exists() or path.endswith("__init__.pyi")
                and (ROOT / path).with_suffix(".py").exists()]


def test_names_that_modules_pass_on_are_written_out():
    """Checkers compute no `__all__`: `import *` of a module with another one is nothing to them."""
    computed = []
    for path in FILES:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ImportFrom) and node.level == 1 and node.names[0].name == "*":
                passed = path.parent.joinpath(*node.module.split(".")).with_suffix(".py")
                if passed in FILES and not writes_names(passed):
                    computed.append((passed.relative_to(ROOT), path.name))
    assert computed == []


def writes_names(path):
    """Whether a module has a list of its public names, as text."""
    names = [each for node in tree_of(path).body if isinstance(node, ast.Assign)
             and ast.unparse(node.targets[0]) == "__all__"
             for each in getattr(node.value, "elts", [None])]
    return all(isinstance(each, ast.Constant) for each in names)


def test_stubs_are_part_of_the_package(stubs):
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    shipped = {path for pattern in config["options.package_data"]["nbmod"].split(", ")
               for path in (ROOT / "nbmod").glob(pattern)} | {*(ROOT / "stubs").glob("*.pyi")}
    assert {ROOT / path for path in stubs} <= shipped


@pytest.mark.parametrize("flavour", ["symbol", "ndarray"])
@pytest.mark.parametrize("space", ["op", "contrib", "image", "linalg", "random", "_internal"])
def test_stubs_name_what_there_is(stubs, flavour, space):
    module = getattr(getattr(mx, flavour), space)
    text = stubs[f"nbmod/{flavour}/_op_stubs/{space}.pyi"]
    names = re.findall(r"^(?:def (\w+)\(|(\w+) = |from .* import \w+ as (\w+))", text, re.M)
    found = {name for names in names for name in names if name}
    assert found - {"__all__"} == set(re.findall(r'"(\w+)"', text.partition("]\n")[0]))
    assert all(callable(getattr(module, name)) for name in found - {"__all__"})


@pytest.fixture(scope="module")
def editor(tmp_path_factory):
    """Completions as editors request them: a script that ends at the cursor."""
    jedi = pytest.importorskip("jedi", reason="jedi is not installed: completion is not tested")
    jedi.settings.cache_directory = str(tmp_path_factory.mktemp("jedi"))
    environment = jedi.InterpreterEnvironment()
    project = jedi.Project(ROOT)
    return lambda text: jedi.Script(f"import nbmod as mx\n{text}", project=project,
                                    environment=environment)


@pytest.mark.parametrize(("text", "name"), [
    ("mx.sy", "sym"), ("mx.ini", "init"), ("mx.set_num", "set_num_threads"),
    ("mx.sym.Conv", "Convolution"), ("mx.sym.Fully", "FullyConnected"), ("mx.sym.con", "contrib"),
    ("mx.sym.contrib.box_n", "box_nms"), ("mx.sym.Variable('x').rel", "relu"),
    ("mx.sym.Convolution().infer_sh", "infer_shape"), ("mx.sym.linalg.gem", "gemm2"),
    ("mx.nd.do", "dot"), ("mx.nd.zer", "zeros"), ("mx.nd.dot().asn", "asnumpy"),
    ("(mx.nd.zeros(1) + 1).ex", "exp"), ("mx.nd.contrib.fore", "foreach"), ("mx.nd.ad", "add"),
    ("mx.mod.Mod", "Module"), ("mx.mod.Module().fi", "fit"), ("mx.init.Xav", "Xavier"),
    ("mx.io.NDA", "NDArrayIter"), ("mx.optimizer.SG", "SGD"), ("mx.metric.Acc", "Accuracy"),
    ("mx.kv.cre", "create"),
])
def test_editors_complete(editor, text, name):
    found = {completion.name: completion for completion in editor(text).complete()}
    assert name in found


@pytest.mark.parametrize(("text", "parameters", "doc"), [
    ("mx.sym.Convolution(", ("data", "kernel", "num_filter", "no_bias", "name"), "num_group"),
    ("mx.sym.contrib.box_nms(", ("data", "overlap_thresh"), "boxes"),
    ("mx.nd.dot(", ("lhs", "rhs", "transpose_a", "out"), "transpose"),
    ("mx.nd.Cast(", ("data", "dtype"), "type"),
    ("mx.nd.zeros(1).softmax(", ("axis", "temperature"), "exp"),
    ("mx.mod.Module(", ("symbol", "data_names", "context"), "Parameters"),
    ("mx.mod.Module().fit(", ("train_data", "eval_metric", "num_epoch"), "Parameters"),
    ("mx.init.Xavier(", ("rnd_type", "factor_type", "magnitude"), "Parameters"),
    ("mx.io.NDArrayIter(", ("data", "label", "batch_size"), "Parameters"),
])
def test_editors_show_signatures_and_documentation(editor, text, parameters, doc):
    signature, = editor(text).get_signatures()
    assert [name for name in (parameter.name for parameter in signature.params)
            if name in parameters] == list(parameters)
    assert doc in signature.docstring(raw=True)
