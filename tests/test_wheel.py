"""What users install: wheels, built from the sources and installed in a fresh environment.

Types, commands and files are tested there, in an empty folder, since checkers and Python treat an
installed package otherwise than a checkout.  Dependencies are those of the running environment.
`nbmod-mxnet`, by which `import mxnet` is nbmod, is installed beside the wheel of nbmod.
"""

from __future__ import annotations

import importlib.util
import json
import multiprocessing
import os
import re
import shutil
import socket
import subprocess
import sys
import tarfile
import time
import venv
import zipfile
from importlib.metadata import PathDistribution
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import nbmod as mx
from tests.notebooks import NOTEBOOK

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "tests" / "scripts" / "typed_training.py"
WRONG = {number for number, line in enumerate(SCRIPT.read_text().splitlines(), 1)
         if "# wrong" in line}
WITHOUT_WHEEL = {"bench", "fast"}
"""Extras with packages that this repository builds, too: `pytest_nbmod/`, `kernels/wheel.py`."""


class Installed(NamedTuple):
    wheel: Path
    python: Path
    folder: Path
    """An empty folder, from which commands are started."""

    def run(self, *words: object, status: int = 0) -> str:
        """The output of a program of the environment."""
        environment = {name: value for name, value in os.environ.items()
                       if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
        done = subprocess.run([str(word) for word in words], cwd=self.folder, check=False,
                              capture_output=True, text=True, env=environment, timeout=600)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout


def listed(*folders: str) -> list[str]:
    """Files of the repository, not those that lie about in a checkout."""
    done = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *folders],
        cwd=ROOT, check=True, capture_output=True, text=True)
    return [name for name in done.stdout.splitlines() if (ROOT / name).exists()]


def packaged() -> list[str]:
    """Files that a wheel is made of."""
    return listed("nbmod", "stubs", "nbmod_pytest.py")


PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]


@pytest.fixture(scope="module")
def source_distribution(tmp_path_factory):
    """The archive that the wheel is built from, made of the files of the repository."""
    if not (ROOT / ".git").exists():
        pytest.skip("NOT A CHECKOUT: no distributions are built")
    folder = tmp_path_factory.mktemp("source")
    for name in listed():
        target = folder / "source" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((ROOT / name).read_bytes())
    build = f"from setuptools import build_meta; build_meta.build_sdist({str(folder)!r})"
    for words in ([*PIP, "install", "--target", str(folder / "tools"), "setuptools>=77"],
                  [sys.executable, "-c", build]):
        run_or_skip(words, folder / "source", PYTHONPATH=str(folder / "tools"))
    archive, = folder.glob("*.tar.gz")
    return archive


def run_or_skip(words: list[str], cwd: Path, **environment: str) -> None:
    """Run a part of a build; outside of CI, it may need a network that is not there."""
    built = subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=False,
                           env={**os.environ, **environment})
    if built.returncode and not os.environ.get("CI"):
        pytest.skip(f"NOTHING CAN BE BUILT: {built.stderr.strip().splitlines()[-1]}")
    assert not built.returncode, built.stderr


@pytest.fixture(scope="module")
def installed(source_distribution, tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    run_or_skip([*PIP, "wheel", "--no-deps", "-w", str(folder), str(source_distribution)], folder)
    wheel, = folder.glob("*.whl")
    venv.create(folder / "environment", with_pip=False)
    found = Installed(wheel, folder / "environment" / (
        "Scripts/python.exe" if os.name == "nt" else "bin/python"), folder / "project")
    found.folder.mkdir()
    subprocess.run([*PIP, "--python", str(found.python), "install", "--no-deps", str(wheel)],
                   check=True)
    # Without the files .pth in them, by which an editable nbmod is found.
    folders = [folder for folder in sys.path if folder.endswith("-packages")]
    (site_of(found) / "dependencies.pth").write_text("\n".join(folders))
    return found


def asked(wheel: Path, old_cards: bool) -> list[str]:
    """The extras of GPUs before CUDA 13, or all others, whose packages an index has."""
    return [extra for extra in extras(wheel)
            if ("cu12" in extra) == old_cards and extra not in WITHOUT_WHEEL]


@pytest.fixture(scope="module", autouse=True)
def resolutions(installed):
    """By kind of cards, pip as it looks for what the extras name: an index takes its time, in which
    other tests run."""
    def begin(old_cards: bool) -> subprocess.Popen[str]:
        names = ",".join(asked(installed.wheel, old_cards))
        return subprocess.Popen(
            [*PIP, "install", "--dry-run", "--ignore-installed", "--report",
             str(installed.folder / f"report-{old_cards}.json"), f"{installed.wheel}[{names}]"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    begun = {old_cards: begin(old_cards) for old_cards in (False, True)}
    yield begun
    for process in begun.values():
        process.kill()
        process.communicate()


def site_of(installed: Installed) -> Path:
    """The folder of installed packages."""
    return Path(installed.run(installed.python, "-c", "import sysconfig; "
                              "print(sysconfig.get_path('purelib'))").strip())


def test_the_wheel_has_every_file_of_the_package_and_no_other(installed):
    with zipfile.ZipFile(installed.wheel) as file:
        names = {name for name in file.namelist() if ".dist-info/" not in name}
    assert names == {re.sub("^stubs/", "nbmod/", name) for name in packaged()}


def test_the_source_distribution_is_the_repository(source_distribution):
    with tarfile.open(source_distribution) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()
                 if not archive.getmember(name).isdir()}
    assert names - {"PKG-INFO"} - {each for each in names if ".egg-info/" in each} == {*listed()}


def test_the_page_of_the_package_has_no_dead_links(installed):
    with zipfile.ZipFile(installed.wheel) as file:
        name, = (name for name in file.namelist() if name.endswith("/METADATA"))
        metadata = file.read(name).decode()
    assert "License-Expression: Apache-2.0" in metadata
    links = re.findall(r"\]\(([^)]*)\)", metadata)
    assert [link for link in links if not link.startswith(("https://", "#"))] == []


def test_a_release_links_to_its_repository(monkeypatch, tmp_path):
    text = (ROOT / "setup.py").read_text(encoding="utf-8").partition("\nURL = ")[0]
    made: dict[str, object] = {}
    monkeypatch.chdir(tmp_path)
    (tmp_path / "README.md").write_text("[a](docs/a.md) ![b](b.svg) [c](https://c.org) [d](#d)")
    exec(text, made)
    assert made["description"]("https://host/p") == (
        "[a](https://host/p/blob/main/docs/a.md) ![b](https://host/p/raw/main/b.svg) "
        "[c](https://c.org) [d](#d)")
    assert made["description"]("") == "a  [c](https://c.org) [d](#d)"
    assert made["addresses"]("") == {} and "Issues" in made["addresses"]("https://host/p")


def test_it_is_the_wheel_that_is_tested(installed):
    where = installed.run(installed.python, "-c", "import nbmod; print(nbmod.__file__)").strip()
    assert Path(where).is_relative_to(installed.python.parents[1])


def test_commands(installed):
    script = installed.python.parent / ("nbmod.exe" if os.name == "nt" else "nbmod")
    version = installed.run(script, "--version")
    assert re.fullmatch(r"nbmod \d+\.\d+\.\d+\n", version)
    assert installed.run(installed.python, "-m", "nbmod", "--version") == version
    assert installed.run(script, "--help").startswith("usage: nbmod ")
    assert installed.run(installed.python, "-m", "nbmod", "--help").startswith(
        "usage: python -m nbmod ")
    assert "usage: nbmod inspect" in installed.run(script, "inspect", "--help")


def test_the_plugin_of_the_bench_is_there(installed):
    (installed.folder / "test_bench.py").write_text("""
def test_sum(kernel_benchmark):
    assert kernel_benchmark(sum, (1, 2, 3), seconds=0.01).seconds > 0
""")
    printed = installed.run(installed.python, "-m", "pytest", "-p", "nbmod_pytest", "-q",
                            "test_bench.py")
    assert "1 passed" in printed and "test_sum" in printed.partition("kernel benchmarks")[2]


@pytest.fixture(scope="module")
def plugin(installed):
    """The entry point of the bench's plugin, beside nbmod from then on; returns its wheel."""
    folder = installed.wheel.parent / "plugin"
    shutil.copytree(ROOT / "pytest_nbmod", folder / "source",
                    ignore=shutil.ignore_patterns("build", "*.egg-info"))
    subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", "wheel",
                    "--no-deps", "-w", str(folder), str(folder / "source")], check=True)
    wheel, = folder.glob("*.whl")
    unpack(wheel, site_of(installed))
    return wheel


def test_the_entry_point_has_no_modules(plugin):
    """pytest would rewrite the assertions of all modules of its distribution."""
    with zipfile.ZipFile(plugin) as file:
        assert all(".dist-info/" in name for name in file.namelist())


BENCHMARK = """
import sys
from _pytest.assertion.rewrite import AssertionRewritingHook

def test_sum(kernel_benchmark):
    assert kernel_benchmark(sum, (1, 2, 3), seconds=0.01).seconds > 0
    loaders = {name: module.__spec__.loader for name, module in sys.modules.items()
               if name.partition(".")[0] == "nbmod"}
    assert len(loaders) > 50
    assert not [name for name in loaders if isinstance(loaders[name], AssertionRewritingHook)]
"""


@pytest.mark.parametrize("options, conftest", [
    ([], ""), (["-p", "nbmod_pytest"], 'pytest_plugins = ["nbmod_pytest"]')],
    ids=["entry point", "all ways"])
def test_pytest_loads_the_plugin_once(installed, plugin, tmp_path, options, conftest):
    """By its entry point, beside other ways to name it; nbmod's kernels keep their digests."""
    (tmp_path / "conftest.py").write_text(conftest)
    (tmp_path / "test_bench.py").write_text(BENCHMARK)
    printed = installed.run(installed.python, "-m", "pytest", "-q", *options, "--rootdir", tmp_path,
                            tmp_path)
    table = printed.partition("kernel benchmarks")[2]
    assert "1 passed" in table and table.count("\ntest_sum ") == 1


def test_a_run_without_the_fixture_imports_no_nbmod(installed, plugin, tmp_path):
    (tmp_path / "test_other.py").write_text("""
import sys

def test_other(request):
    assert request.config.pluginmanager.has_plugin("nbmod_pytest")
    assert not {"nbmod", "numba", "numpy"} & sys.modules.keys()
""")
    printed = installed.run(installed.python, "-m", "pytest", "-q", "--rootdir", tmp_path, tmp_path)
    assert "1 passed" in printed and "kernel benchmarks" not in printed


def test_the_bench_needs_no_repository(installed):
    (installed.folder / "peer.py").write_text("""
import sys

def total(values):
    assert "nbmod" not in sys.modules
    return lambda: sum(values)
""")
    printed = installed.run(installed.python, "-c", """
import sys
from nbmod import bench
with bench.other_python(sys.executable, "peer.py:total", [1, 2, 3], threads=1) as peer:
    print(*bench.side_by_side({"ours": sum, "theirs": peer}, (1, 2, 3), seconds=0.1))""")
    assert printed == "ours theirs\n"


def test_data_files_are_found(installed):
    printed = installed.run(installed.python, "-c", """
from nbmod.cli.demo import load_digits
images, labels = load_digits(8)
print(images.shape, labels.shape)""")
    assert printed == "(1797, 1, 8, 8) (1797,)\n"


def types(installed: Installed) -> list[Path]:
    """A script of nbmod, and the same one of MXNet."""
    scripts = [installed.folder / f"{name}_training.py" for name in ("nbmod", "mxnet")]
    for script in scripts:
        name = script.stem.partition("_")[0]
        script.write_text(SCRIPT.read_text().replace("import nbmod as mx", f"import {name} as mx"))
    return scripts


EXPECTED = {(name, line) for name in ("nbmod", "mxnet") for line in WRONG}


def test_mypy_finds_what_is_wrong_and_nothing_else(installed, mxnet_wheel):
    pytest.importorskip("mypy", reason="mypy is not installed: types are not checked")
    printed = installed.run(sys.executable, "-m", "mypy", "--no-error-summary", "--cache-dir",
                            os.devnull, "--python-executable", installed.python,
                            *types(installed), status=1)
    lines = re.findall(r"(\w+)_training\.py:(\d+): error", printed)
    assert {(name, int(line)) for name, line in lines} == EXPECTED, printed


def test_pyright_finds_what_is_wrong_and_nothing_else(installed, mxnet_wheel):
    """In pyright's own mode, in which a name that a package does not export is an error."""
    pytest.importorskip("basedpyright", reason="basedpyright is not installed: types not checked")
    settings = {"typeCheckingMode": "standard", "pythonPath": str(installed.python)}
    (installed.folder / "pyrightconfig.json").write_text(json.dumps(settings))
    printed = installed.run(sys.executable, "-m", "basedpyright", "--outputjson", "--level",
                            "error", "--pythonpath", installed.python, *types(installed), status=1)
    found = json.loads(printed)["generalDiagnostics"]
    assert {(Path(error["file"]).stem.partition("_")[0], error["range"]["start"]["line"] + 1)
            for error in found} == EXPECTED, printed


def test_editors_complete_public_names_only(installed):
    """By jedi, from the source alone.  `nbmod` has submodules that are not public; jedi knows no
    package without all of its own."""
    pytest.importorskip("jedi", reason="JEDI IS NOT INSTALLED: completion is not tested")
    printed = installed.run(installed.python, "-c", """
import json, pathlib, jedi
import nbmod as mx
jedi.settings.cache_directory = str(pathlib.Path("jedi"))
script = jedi.Script("import nbmod as mx\\nmx.")
shown = {"": [each.name for each in script.complete(2, 3)]}
for name, (module, attribute) in mx._LAZY.items():
    if not attribute and "__dir__" in vars(getattr(mx, name)):
        script = jedi.Script(f"import nbmod as mx\\nmx.{name}.")
        shown[name] = [each.name for each in script.complete(2, len(f"mx.{name}."))]
public = {name: dir(getattr(mx, name) if name else mx) for name in shown}
inside = [path.stem for path in pathlib.Path(mx.__file__).parent.iterdir()]
print(json.dumps([shown, public, inside]))
""")
    shown, public, inside = json.loads(printed)
    shown[""] = {*shown[""]} - ({*inside} - {*public[""]})
    assert len(shown) > 40
    for name, names in shown.items():
        public_names = {each for each in public[name] if not each.startswith("_")}
        assert {each for each in names if not each.startswith("_")} == public_names, name


def extras(wheel: Path) -> dict[str, list[Requirement]]:
    """The requirements of each extra on this machine."""
    with zipfile.ZipFile(wheel) as file:
        folder, = {name.split("/")[0] for name in file.namelist() if ".dist-info/" in name}
        metadata = PathDistribution(zipfile.Path(wheel, f"{folder}/")).metadata
    needed = [Requirement(text) for text in metadata.get_all("Requires-Dist") or ()]
    return {extra: [one for one in needed if one.marker and one.marker.evaluate({"extra": extra})
                    and not one.marker.evaluate({"extra": ""})]
            for extra in metadata.get_all("Provides-Extra") or ()}


def test_extras_that_errors_and_pages_name_exist(installed):
    texts = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "nbmod").rglob("*.py")]
    named = {extra.strip() for path in texts
             for group in re.findall(r"nbmod\[([\w\s,-]+)\]'", path.read_text(encoding="utf-8"))
             for extra in group.split(",")}
    assert len(named) > 8 and named <= extras(installed.wheel).keys()


# -- nbmod-mxnet ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mxnet_wheel(installed):
    """The wheel of nbmod-mxnet, which is installed beside nbmod from then on."""
    folder = installed.wheel.parent / "mxnet"
    subprocess.run([sys.executable, "-m", "compat_package", "--out", str(folder)], cwd=ROOT,
                   check=True)
    wheel, = folder.glob("*.whl")
    unpack(wheel, site_of(installed))
    return wheel


def unpack(wheel: Path, folder: Path) -> None:
    """Install a wheel that consists of modules."""
    with zipfile.ZipFile(wheel) as file:
        file.extractall(folder)


def run_program(installed: Installed, text: str, *words: object, status: int = 0) -> str:
    """What a program prints on both streams; `words` come before its name."""
    program = installed.folder / "program.py"
    program.write_text("import sys\nsys.stderr = sys.stdout\n" + text)
    return installed.run(installed.python, *words, program, status=status)


def test_nbmod_mxnet_is_of_the_same_version(mxnet_wheel):
    with zipfile.ZipFile(mxnet_wheel) as file:
        folder, = {name.split("/")[0] for name in file.namelist() if ".dist-info/" in name}
        metadata = PathDistribution(zipfile.Path(mxnet_wheel, f"{folder}/")).metadata
        code = [name for name in file.namelist() if name.endswith(".py")]
    assert metadata.get_all("Requires-Dist") == [f"nbmod=={metadata['Version']}"]
    assert metadata["Version"] == mx.__version__ and code == ["mxnet.py", "mxnet_predict.py"]


def test_mxnet_is_nbmod_in_programs_and_workers(installed, mxnet_wheel):
    """One and the same objects under all names, by each way to start a process."""
    printed = run_program(installed, """
import multiprocessing, pickle
from mxnet_predict import Predictor
import mxnet as mx, mxnet.ndarray as nd, mxnet.module.module as module
from mxnet.gluon.nn import basic_layers

def load(number):
    return nd.ones((2,), mx.gpu(1)) * number

if __name__ == "__main__":
    import nbmod
    print(mx.mod.Module is module.Module is nbmod.mod.Module, mx.__version__, mx.gpu(1))
    print(isinstance(pickle.loads(pickle.dumps(load(3))), mx.nd.NDArray), hasattr(mx, "none"))
    print(Predictor is nbmod.mxnet_predict.Predictor, basic_layers is nbmod.gluon.nn.basic_layers)
    for method in multiprocessing.get_all_start_methods():
        with multiprocessing.get_context(method).Pool(1) as pool:
            print(method, pool.map(load, [2])[0].asnumpy())
""", "-W", "ignore")
    methods = multiprocessing.get_all_start_methods()
    assert printed.splitlines() == ["True 1.9.1 gpu(1)", "True False", "True True",
                                    *(f"{method} [2. 2.]" for method in methods)]


def test_old_names_are_not_patched_but_explained(installed, mxnet_wheel):
    program = "import mxnet, numpy\nprint(numpy.fromstring(b'ab', dtype='uint8'))"
    if "fromstring" not in vars(np) or tuple(map(int, np.__version__.split(".")[:2])) < (2, 3):
        program = "import mxnet, collections\ncollections.Mapping"
    *_, last = run_program(installed, program, status=1).splitlines()
    assert last.startswith("nbmod: `nbmod run` gives this name back")


REAL = {"mxnet/__init__.py": "real = True", "mxnet_cu112-1.9.1.dist-info/METADATA": "",
        "mxnet/libmxnet.so": ""}


def install_real(folder: Path) -> None:
    """What stands for the real MXNet."""
    for name, text in REAL.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.mark.parametrize("order", ["before", "after"])
def test_a_real_mxnet_in_its_folder_stays_whole(installed, mxnet_wheel, tmp_path, order):
    """In both orders of installation neither overwrites a file of the other."""
    steps = [lambda: install_real(tmp_path), lambda: unpack(mxnet_wheel, tmp_path)]
    for step in steps if order == "before" else reversed(steps):
        step()
    assert all((tmp_path / name).read_text() == text for name, text in REAL.items())
    program = f"sys.path.insert(0, {str(tmp_path)!r})\nimport mxnet\nprint(mxnet.__file__)\n"
    assert run_program(installed, program) == f"{tmp_path / 'mxnet' / '__init__.py'}\n"
    shutil.rmtree(tmp_path / "mxnet")
    assert run_program(installed, program) == f"{tmp_path / 'mxnet.py'}\n"


def test_a_real_mxnet_in_another_folder_is_not_hidden(installed, mxnet_wheel, tmp_path):
    install_real(tmp_path)
    program = f"sys.path.append({str(tmp_path)!r})\nimport mxnet.module"
    assert re.search("\nImportError: nbmod-mxnet in .* does not hide the real MXNet in "
                     f"{re.escape(str(tmp_path / 'mxnet'))}: uninstall one of the two, .*\n",
                     run_program(installed, program, status=1))
    beside = run_program(installed, program.replace("mxnet.module", "mxnet\nprint(mxnet.nd)"),
                         "-m", "nbmod", "run")
    assert beside.startswith("<module 'nbmod.ndarray'")


def test_pytest_runs_tests_of_mxnet(installed, mxnet_wheel):
    (installed.folder / "test_own.py").write_text("""
import mxnet as mx
def test_sum():
    assert mx.nd.ones(3).sum().asscalar() == 3
""")
    printed = installed.run(installed.python, "-m", "pytest", "-q", "-p", "no:cacheprovider",
                            "test_own.py")
    assert "1 passed" in printed


def require(package: str) -> None:
    """Skip a test of another package where it is absent, and say so."""
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} IS NOT INSTALLED: nbmod-mxnet is not tested with it")


def test_loaders_of_torch_start_workers(installed, mxnet_wheel):
    require("torch")
    printed = run_program(installed, """
import torch, mxnet as mx
class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, index):
        return torch.from_numpy((mx.nd.ones((3,)) * index).asnumpy())
if __name__ == "__main__":
    for method in ("spawn", None):
        print([float(batch.sum()) for batch in torch.utils.data.DataLoader(
            Data(), batch_size=2, num_workers=2, multiprocessing_context=method)])
""")
    assert printed == "[3.0, 15.0]\n" * 2


def test_notebooks_import_mxnet(installed, mxnet_wheel):
    for package in ("nbclient", "ipykernel"):
        require(package)
    assert run_program(installed, NOTEBOOK) == "[1. 1.]\n\n"


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="gunicorn runs on Unix")
def test_servers_with_workers_import_mxnet(installed, mxnet_wheel, tmp_path):
    require("gunicorn")
    (installed.folder / "server.py").write_text("""
import mxnet as mx
def application(environ, start_response):
    start_response("200 OK", [])
    return [str(mx.nd.ones(3).sum().asscalar()).encode()]
""")
    address = tmp_path / "socket"
    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen(
            [installed.python, "-m", "gunicorn", "-w", "2", "-b", f"unix:{address}",
             "server:application"], cwd=installed.folder, stderr=log)
    try:
        assert [answer(str(address)) for _ in range(4)] == ["3.0"] * 4
    finally:
        server.terminate()
        server.wait(30)
    assert (tmp_path / "log").read_text().count("Booting worker") == 2


def answer(address: str) -> str:
    """The body of an answer of a server, which may not have started yet."""
    for _ in range(600):
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(60)
            if client.connect_ex(address):
                time.sleep(0.1)
                continue
            client.sendall(b"GET / HTTP/1.0\r\n\r\n")
            with client.makefile() as file:
                return file.read().splitlines()[-1]
    return "no answer"


# -- at the end, since pip has worked on it from the beginning ------------------------------------


@pytest.mark.parametrize("old_cards", [False, True])
def test_extras_install_what_they_name(installed, resolutions, old_cards):
    _, errors = resolutions[old_cards].communicate(timeout=600)
    if resolutions[old_cards].returncode and not os.environ.get("CI"):
        pytest.skip(f"NO PACKAGE INDEX: {errors.strip().splitlines()[-1]}")
    assert not resolutions[old_cards].returncode, errors
    report = json.loads((installed.folder / f"report-{old_cards}.json").read_text())
    names = {canonicalize_name(one["metadata"]["name"]) for one in report["install"]}
    known = extras(installed.wheel)
    for extra in asked(installed.wheel, old_cards):
        assert known[extra] and {canonicalize_name(one.name) for one in known[extra]} <= names
