"""`nbmod explain`: plans of the files that `inspect` takes, and what it asks for."""

from __future__ import annotations

import json

import pytest

import nbmod as mx
from nbmod.cli import main as cli
from nbmod.explain.explanation import Explanation
from tests.safetensors.test_safetensors import network, parameters


@pytest.fixture
def saved(tmp_path):
    """The prefix of a checkpoint."""
    net = network()
    prefix = str(tmp_path / "net")
    mx.model.save_checkpoint(prefix, 7, net, *parameters(net, data=(1, 1, 6, 6)))
    return prefix


@pytest.fixture
def explain(capsys):
    """Exit status and texts of `explain`."""
    def call(*words):
        status = cli.main(["explain", *map(str, words)])
        told = capsys.readouterr()
        return status, told.out, told.err
    return call


@pytest.mark.parametrize("suffix", ["", "-symbol.json", "-0007.params"])
def test_files_of_a_checkpoint_have_one_plan(saved, explain, suffix):
    status, text, _ = explain(saved + suffix, "--shape", "data=1,1,6,6")
    executor = network().simple_bind(mx.cpu(), grad_req="null", data=(1, 1, 6, 6))
    assert status == 0 and text == f"{executor.explain()}\n"


def test_training_asks_for_gradients_of_parameters(saved, explain, tmp_path):
    for name, files in (("a.json", saved), ("b.json", f"{saved}-symbol.json")):
        assert explain(files, "--shape", "data=2,1,6,6", "--train", "--json", tmp_path / name
                       )[0] == 0
    facts = json.loads((tmp_path / "a.json").read_text())
    assert facts == json.loads((tmp_path / "b.json").read_text())
    names = facts["network"]["arguments"]
    assert [*facts["network"]["requests"]] == [
        name for name in names if name != "data" and not name.endswith("label")]
    assert explain(tmp_path / "a.json")[1] == explain(saved, "--shape", "data=2,1,6,6",
                                                      "--train")[1]


@pytest.mark.parametrize("options, message", [
    ([], "the shape of data does not follow"),
    (["--shape", "dat=1,1,6,6"], "did you mean 'data'"),
    (["--shape", "data=1,1,6,6", "--type", "date=float16"], "did you mean 'data'")])
def test_it_says_which_inputs_it_needs(saved, explain, options, message):
    status, _, told = explain(f"{saved}-symbol.json", *options)
    assert status == 1 and message in told


@pytest.mark.parametrize("options", [["--ctx", "tpu"], ["--type", "float16"]])
def test_damaged_options_are_refused(saved, explain, options):
    with pytest.raises(SystemExit):
        explain(saved, "--shape", "data=1,1,6,6", *options)


@pytest.mark.parametrize("content", ['{"schema": "nbmod.explain", "version": 99}', "[]", "{"])
def test_files_that_are_no_facts_are_refused(tmp_path, explain, content):
    (tmp_path / "facts.json").write_text(content)
    assert explain(tmp_path / "facts.json")[0] == 1


def test_passes_are_worth_what_a_plan_without_them_takes_more(saved, explain):
    status, text, _ = explain(saved, "--shape", "data=1,1,6,6", "--without", "reuse_memory",
                              "inplace")
    assert status == 0
    answer = network().simple_bind(mx.cpu(), grad_req="null", data=(1, 1, 6, 6)).explain().without(
        "reuse_memory", "inplace")
    assert text == f"{answer}\n"
    assert explain(saved, "--shape", "data=1,1,6,6", "--without", "cse2")[0] == 1


def test_steps_are_measured_on_request(saved, explain, tmp_path):
    path = tmp_path / "facts.json"
    status, _, _ = explain(saved, "--shape", "data=1,1,6,6", "--train", "--run", "--json", path)
    values = json.loads(path.read_text())
    assert status == 0
    assert [each["step"] for each in values["measured"]["steps"]] == [
        *range(len(values["plan"]["steps"]))]
    assert all(values["run"]["steps"])


def test_advice_is_that_of_the_executor(saved, explain):
    executor = network().simple_bind(mx.cpu(), grad_req="null", data=(1, 1, 6, 6))
    status, text, _ = explain(saved, "--shape", "data=1,1,6,6", "--advice")
    assert status == 0 and text == f"{executor.explain().advice()}\n"


def test_questions_have_the_answers_of_python(saved, explain, tmp_path):
    executor = network().simple_bind(mx.cpu(), grad_req="null", data=(1, 1, 6, 6))
    plan = executor.explain()
    node = next(plan.facts.nodes[number].name for number in plan.facts.graph
                if plan.facts.nodes[number].op)
    with mx.without_passes("blocked_layout"):
        other = network().simple_bind(mx.cpu(), grad_req="null", data=(1, 1, 6, 6)).explain()
    (tmp_path / "other.json").write_text(other.json())
    questions = {
        f"--why={node}": plan.why(node), f"--why-not={node}:cse": plan.why_not(node, "cse"),
        f"--alive={node}_output@0": plan.alive(f"{node}_output", 0),
        "--storage=0": plan.storage(0), "--step=0": plan.step(0), "--peak": plan.peak(),
        f"--diff={tmp_path / 'other.json'}": plan.compare(other),
        f"--diff={saved}-symbol.json": plan.compare(plan)}
    for option, answer in questions.items():
        assert explain(saved, "--shape", "data=1,1,6,6", option) == (0, f"{answer}\n", "")
    options = [each for each in questions if not each.startswith("--diff")]
    status, text, _ = explain(saved, "--shape", "data=1,1,6,6", *options)
    assert status == 0 and text == "\n\n".join(
        str(answer) for option, answer in questions.items() if option in options) + "\n"


def test_a_network_that_cannot_be_bound_has_a_page(saved, explain, tmp_path):
    for words, stage, node, message in (
            (["--shape", "data=1,1"], "inference", "conv", "conv (Convolution): "),
            ([], "inference", "data", "the shape of data does not follow")):
        files = tmp_path / "page.html", tmp_path / "facts.json"
        status, text, told = explain(f"{saved}-symbol.json", *words, "--page", files[0], "--json",
                                     files[1], "--why", node)
        assert status == 1 and message in told
        assert "is not bound: it fails in inference" in text and "unknown by then" in text
        failure = json.loads(files[1].read_text())["failure"]
        facts = Explanation.load(files[1]).facts
        assert (failure["stage"], facts.nodes[failure["node"]].name) == (stage, node)
        assert message in failure["message"] and message in files[0].read_text("utf-8")


def test_code_and_values_are_told_on_request(saved, explain, tmp_path):
    path = tmp_path / "facts.json"
    asked = [saved, "--shape", "data=1,1,6,6", "--json", path]
    status, text, _ = explain(*asked, "--code", "conv")
    facts = Explanation.load(path).facts
    assert status == 0 and "step 0 conv (Convolution)" in text
    assert [facts.plan.steps[each.step].name for each in facts.code.steps] == ["conv"]


def test_unknown_names_are_one_line_on_stderr(saved, explain):
    status, text, told = explain(saved, "--shape", "data=1,1,6,6", "--why", "nothing")
    assert status == 1 and not text and told.startswith("nbmod: explain: there is no node")
    with pytest.raises(SystemExit):
        explain(saved, "--shape", "data=1,1,6,6", "--alive", "conv")


def test_a_page_is_written_with_the_other_plan(saved, explain, tmp_path):
    first, second = (network().simple_bind(mx.cpu(), grad_req="null", data=shape).explain()
                     for shape in ((1, 1, 6, 6), (2, 1, 6, 6)))
    first.advice()
    (tmp_path / "other.json").write_text(second.json())
    first.page(tmp_path / "expected.html", second, f"nbmod explain {saved} --shape data=1,1,6,6")
    asked = [saved, "--shape", "data=1,1,6,6", "--advice", "--diff", tmp_path / "other.json"]
    assert explain(*asked, "--page", tmp_path / "page.html")[0] == 0
    assert (tmp_path / "page.html").read_bytes() == (tmp_path / "expected.html").read_bytes()
    status, _, told = explain(*asked, "--page", tmp_path / "other.json")
    assert status == 1 and "it is read here" in told


def test_reproducers_are_written(saved, explain, tmp_path):
    folder = tmp_path / "new"
    status, text, _ = explain(saved, "--shape", "data=1,1,6,6", "--reproduce", "0", "--out", folder)
    names = {path.suffix for path in folder.iterdir()}
    assert status == 0 and names == {".py", ".json", ".npz"}
    assert text.split()[1].startswith(str(folder))
