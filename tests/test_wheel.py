"""What users install: a wheel, built from the sources and installed in a fresh environment.

Its types, commands and files are tested there, in an empty folder, since checkers and Python treat
an installed package otherwise than a checkout.  Dependencies are those of the running environment.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import venv
import zipfile
from importlib.metadata import PathDistribution
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "tests" / "scripts" / "typed_training.py"
WRONG = {number for number, line in enumerate(SCRIPT.read_text().splitlines(), 1)
         if "# wrong" in line}
WITHOUT_WHEEL = {"fast"}
"""Extras whose packages this repository builds, too: see `kernels/wheel.py`."""
pytestmark = pytest.mark.xdist_group("wheel")


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


def tracked(folder: str) -> list[str]:
    """Files of the repository, not those that lie about in a checkout."""
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard",
                             folder], cwd=ROOT, check=True, capture_output=True, text=True)
    return [name for name in listed.stdout.splitlines() if (ROOT / name).exists()]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    if not (ROOT / ".git").exists():
        pytest.skip("NOT A CHECKOUT: no wheel is built")
    folder = tmp_path_factory.mktemp("wheel")
    for name in [*tracked("nbmod"), "setup.cfg", "pyproject.toml", "README.md", "LICENSE"]:
        target = folder / "source" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((ROOT / name).read_bytes())
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    built = subprocess.run([*pip, "wheel", "--no-deps", "-w", str(folder), str(folder / "source")],
                           capture_output=True, text=True, check=False)
    if built.returncode and not os.environ.get("CI"):
        pytest.skip(f"THE WHEEL CANNOT BE BUILT: {built.stderr.strip().splitlines()[-1]}")
    assert not built.returncode, built.stderr
    wheel, = folder.glob("*.whl")
    venv.create(folder / "environment", with_pip=False)
    found = Installed(wheel, folder / "environment" / (
        "Scripts/python.exe" if os.name == "nt" else "bin/python"), folder / "project")
    found.folder.mkdir()
    subprocess.run([*pip, "--python", str(found.python), "install", "--no-deps", str(wheel)],
                   check=True)
    site = found.run(found.python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))")
    # Without the files .pth in them, by which an editable nbmod is found.
    folders = [folder for folder in sys.path if folder.endswith("-packages")]
    Path(site.strip(), "dependencies.pth").write_text("\n".join(folders))
    return found


def test_the_wheel_has_every_file_of_the_package_and_no_other(installed):
    with zipfile.ZipFile(installed.wheel) as file:
        names = {name for name in file.namelist() if ".dist-info/" not in name}
    assert names == set(tracked("nbmod"))


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


def test_data_files_are_found(installed):
    printed = installed.run(installed.python, "-c", """
from nbmod.cli.demo import load_digits
images, labels = load_digits(8)
print(images.shape, labels.shape)""")
    assert printed == "(1797, 1, 8, 8) (1797,)\n"


def types(installed: Installed) -> Path:
    script = installed.folder / SCRIPT.name
    script.write_bytes(SCRIPT.read_bytes())
    return script


def test_mypy_finds_what_is_wrong_and_nothing_else(installed):
    pytest.importorskip("mypy", reason="mypy is not installed: types are not checked")
    printed = installed.run(sys.executable, "-m", "mypy", "--no-error-summary", "--cache-dir",
                            os.devnull, "--python-executable", installed.python, types(installed),
                            status=1)
    lines = re.findall(r"typed_training\.py:(\d+): error", printed)
    assert {int(line) for line in lines} == WRONG, printed


def test_pyright_finds_what_is_wrong_and_nothing_else(installed):
    """In pyright's own mode, in which a name that a package does not export is an error."""
    pytest.importorskip("basedpyright", reason="basedpyright is not installed: types not checked")
    settings = {"typeCheckingMode": "standard", "pythonPath": str(installed.python)}
    (installed.folder / "pyrightconfig.json").write_text(json.dumps(settings))
    printed = installed.run(sys.executable, "-m", "basedpyright", "--outputjson", "--level",
                            "error", "--pythonpath", installed.python, types(installed), status=1)
    found = json.loads(printed)["generalDiagnostics"]
    assert {error["range"]["start"]["line"] + 1 for error in found} == WRONG, printed


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


@pytest.mark.parametrize("old_cards", [False, True])
def test_extras_install_what_they_name(installed, old_cards):
    known = extras(installed.wheel)
    asked = [extra for extra in known if ("cu12" in extra) == old_cards
             and extra not in WITHOUT_WHEEL]
    command = [sys.executable, "-m", "pip", "install", "-q", "--dry-run", "--ignore-installed",
               "--report", str(installed.folder / "report.json"),
               f"{installed.wheel}[{','.join(asked)}]"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode and not os.environ.get("CI"):
        pytest.skip(f"NO PACKAGE INDEX: {done.stderr.strip().splitlines()[-1]}")
    assert not done.returncode, done.stderr
    report = json.loads((installed.folder / "report.json").read_text())
    names = {canonicalize_name(one["metadata"]["name"]) for one in report["install"]}
    for extra in asked:
        assert known[extra] and {canonicalize_name(one.name) for one in known[extra]} <= names
