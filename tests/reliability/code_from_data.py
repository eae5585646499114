"""No code from data: files that would run a program are refused, or read as the text they are.

Every attack tries to create a file. It succeeded if the file is there afterwards, or if the
interpreter reported (PEP 578) that a process, a connection, or a library was asked for, or that a
file outside the folder was opened for writing.
"""

from __future__ import annotations

import io
import json
import os
import pathlib
import pickle
import subprocess
import sys
import tarfile
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from tests.reliability.figures import Effort, Figure, Promise

MARK = "proof"
SHELL = f"touch {MARK}"
PYTHON = f"open('{MARK}', 'w')"

FORBIDDEN = {"os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty",
             "os.startfile", "subprocess.Popen", "pty.spawn", "socket.connect", "socket.bind",
             "urllib.Request", "ctypes.dlopen", "webbrowser.open", "shutil.rmtree"}


@dataclass(frozen=True)
class Attack:
    """A file for one of the readers of `loaders`."""

    name: str
    reader: str
    content: bytes


# --------------------------------------------------------------------------------------- pickles

class _Call:
    """Pickled as a call."""

    def __init__(self, function: Callable[..., object], *args: object):
        self.call = function, args

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return self.call


def _global(module: str, name: str, argument: str) -> bytes:
    """A call of any name, also one that this machine does not have; protocol 0."""
    return f"c{module}\n{name}\n(S{argument!r}\ntR.".encode()


CALLED = {
    "os.system": SHELL, "posix.system": SHELL, "nt.system": SHELL, "os.popen": SHELL,
    "subprocess.getoutput": SHELL, "subprocess.call": SHELL, "pty.spawn": SHELL,
    "commands.getoutput": SHELL, "platform.popen": SHELL, "builtins.eval": PYTHON,
    "builtins.exec": PYTHON, "__builtin__.eval": PYTHON, "__builtin__.execfile": "a.py",
    "builtins.compile": PYTHON, "builtins.__import__": "this", "timeit.timeit": PYTHON,
    "cProfile.run": PYTHON, "pdb.run": PYTHON, "code.interact": PYTHON, "runpy.run_path": "a.py",
    "importlib.import_module": "antigravity", "ctypes.CDLL": "a.so", "builtins.open": MARK,
    "io.open": MARK, "numpy.load": "a.npy", "numpy.testing._private.utils.runstring": PYTHON,
    "mxnet.library.load": "a.so", "nbmod.library.load": "a.so", "mxnet.optimizer.os.system": SHELL,
    "nbmod.optimizer.os.system": SHELL, "mxnet.optimizer.optimizer.Optimizer.create_optimizer":
    SHELL, "mxnet.ndarray.load": "a.params", "torch.load": "a.pt", "pickle.loads": "cos\n",
}


def _deeper_pickles() -> dict[str, bytes]:
    """Other instructions that make or change objects."""
    system = b"\x8c\x02os\x8c\x06system\x93"  # STACK_GLOBAL
    made = {
        "INST": f"(S{SHELL!r}\nios\nsystem\n.".encode(),
        "OBJ": f"(cos\nsystem\nS{SHELL!r}\no.".encode(),
        "NEWOBJ": b"\x80\x02cos\nsystem\n(S" + repr(SHELL).encode() + b"\nt\x81.",
        "NEWOBJ_EX": b"\x80\x04" + system + b"(S" + repr(SHELL).encode() + b"\nt}\x92.",
        "REDUCE in a dictionary": b"\x80\x04}K\x00" + system + b"\x8c" + bytes([len(SHELL)])
        + SHELL.encode() + b"\x85Rs.",
        "EXT1": b"\x80\x02\x82\x01)R.", "PERSID": f"P{SHELL}\n.".encode(),
        "dotted name": b"\x80\x04\x8c\x0fmxnet.optimizer\x8c\x0asys.modules\x93.",
        "BUILD of a class": b"\x80\x04\x8c\x0fmxnet.optimizer\x8c\x03SGD\x93}\x8c\x08__init__"
        + system + b"sb.",
        "BUILD of slots": b"\x80\x04\x8c\x0fmxnet.optimizer\x8c\x03SGD\x93)\x81N}\x8c\x09__class__"
        + system + b"s\x86b.",
        "attribute that is called": b"\x80\x04\x8c\x0fmxnet.optimizer\x8c\x03SGD\x93)\x81}"
        b"\x8c\x06update" + system + b"sb.",
        "getattr": b"cbuiltins\ngetattr\n(cos\n__dict__\nS'get'\ntR.",
    }
    for protocol in range(6):
        made[f"reduced, protocol {protocol}"] = pickle.dumps(_Call(os.system, SHELL), protocol)
        made[f"states and a call, protocol {protocol}"] = pickle.dumps(
            {0: None, 1: _Call(exec, PYTHON)}, protocol)
    with io.BytesIO() as file:
        np.save(file, np.array([_Call(os.system, SHELL)], object), allow_pickle=True)
        made["array of objects"] = file.getvalue()
    return made


def pickles() -> dict[str, bytes]:
    """All of them, by name."""
    called = {name: _global(*name.rsplit(".", 1), argument) for name, argument in CALLED.items()}
    return called | _deeper_pickles()


# ------------------------------------------------------------------------------------------ text

EXPRESSIONS = [
    f"__import__('os').system('{SHELL}')", f"(__import__('os').system('{SHELL}'),)",
    f"[x for x in [{PYTHON}]]", f"{PYTHON}", f"lambda: {PYTHON}", f"$({SHELL})", f"`{SHELL}`",
    f"; {SHELL} #", f"| {SHELL}", f"'+{PYTHON}+'", "{0.__class__.__mro__}", "%(os)s",
    f"!!python/object/apply:os.system ['{SHELL}']",
]

LINES = (("CSV", "{},2,3"), ("LibSVM", "1 0:{}"), ("image list", "0\t{}\ta.jpg"),
         ("image list", "0\t1\t{}"), ("word vectors", "a {} 2"), ("record index", "0\t{}"),
         ("training state (.resume)", '{{"format": "{}"}}'))


def _graph(op: str, attrs: dict[str, str], of_input: dict[str, str]) -> bytes:
    return json.dumps({
        "nodes": [{"op": "null", "name": "data", "attrs": of_input, "inputs": []},
                  {"op": op, "name": "a", "attrs": attrs, "inputs": [[0, 0, 0]]}],
        "arg_nodes": [0], "heads": [[1, 0, 0]], "attrs": {"mxnet_version": ["int", 10901]},
    }).encode()


def graphs() -> dict[str, bytes]:
    """Graphs whose attributes are expressions, and operators that call addresses."""
    made = {}
    for index, text in enumerate(EXPRESSIONS):
        for op, name in (("Reshape", "shape"), ("Pooling", "kernel"), ("_plus_scalar", "scalar"),
                         ("Cast", "dtype"), ("Activation", "act_type"), ("Custom", "op_type")):
            made[f"{op} {name}, expression {index}"] = _graph(op, {name: text}, {})
        for name in ("__shape__", "__dtype__", "__init__", "__lr_mult__", "__storage_type__",
                     "__ctx_group__", "__profiler_scope__"):
            made[f"{name}, expression {index}"] = _graph("exp", {}, {name: text})
    for op in ("_Native", "_NDArray"):
        made[op] = _graph(op, {"info": "0x41414141"}, {})
    for op in ("os.system", "builtins.eval", "../../library.so", "__class__"):
        made[f"the operator {op}"] = _graph(op, {}, {})
    for init in (["eval", {"_": PYTHON}], ["os.system", {"command": SHELL}], ["__class__", {}]):
        made[f"__init__ {init[0]}"] = _graph("exp", {}, {"__init__": json.dumps(init)})
    return made


def _archive(member: tarfile.TarInfo, content: bytes = b"") -> bytes:
    from nbmod.ops.build import archive, store

    with io.BytesIO() as file:
        with tarfile.open(fileobj=file, mode="w") as made:
            archive._add(made, archive.CONTENTS, json.dumps(
                {"compiler": store.compiler_of(), "kernels": [member.name]}).encode())
            member.size = len(content)
            made.addfile(member, io.BytesIO(content))
        return file.getvalue()


def archives() -> dict[str, bytes]:
    """Archives whose members are written or linked elsewhere."""
    made = {name: _archive(tarfile.TarInfo(name), b"x")
            for name in (f"../{MARK}", f"../../{MARK}", f"/tmp/{MARK}", "a/../../../b")}
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE):
        link = tarfile.TarInfo("fill-" + "0" * 40 + ".nbmod")
        link.type, link.linkname = kind, "/etc/passwd"
        made[f"a member of kind {kind!r}"] = _archive(link)
    return made


def attacks() -> Iterator[Attack]:
    """All attacks."""
    for name, content in pickles().items():
        for reader in ("optimizer states", "parameters", "training state (.resume)", "symbol JSON",
                       "compiled kernel", "archive of kernels"):
            yield Attack(f"pickle: {name}", reader, content)
    for name, content in graphs().items():
        yield Attack(name, "symbol JSON", content)
    for name, content in archives().items():
        yield Attack(name, "archive of kernels", content)
    for index, text in enumerate(EXPRESSIONS):
        for reader, line in LINES:
            yield Attack(f"expression {index} in {line!r}", reader, line.format(text).encode())


# ---------------------------------------------------------------------------------------- trials

class Watch:
    """Notes what the interpreter is asked for while it is `armed`."""

    def __init__(self, folder: pathlib.Path):
        self.folder, self.armed = folder, False
        self.seen: list[str] = []
        sys.addaudithook(self._note)

    def _note(self, event: str, args: tuple[object, ...]) -> None:
        if not self.armed:
            return
        if event in FORBIDDEN:
            self.seen.append(f"{event}{args!r:.80}")
        if event == "open" and isinstance(args[1], str) and set(args[1]) & set("wax+"):
            path = os.path.realpath(str(args[0]))
            if not path.startswith(str(self.folder)):
                self.seen.append(f"{path} opened for writing")

    def of(self, attack: Attack) -> list[str]:
        """What an attack brought about."""
        from nbmod.base import MXNetError
        from tests.reliability import loaders

        loader, = loaders.chosen([attack.reader])
        self.armed = True
        try:
            loader.load(attack.content, self.folder)
        except MXNetError:
            pass
        except Exception as error:
            self.seen.append(f"{type(error).__name__}: {error}"[:150])
        finally:
            self.armed = False
        seen, self.seen = self.seen, []
        if list(self.folder.rglob(MARK)) or os.path.exists(MARK):
            seen.append("the program of the file was run")
        return seen


def work() -> None:
    """Try all in this process, whose audit hook cannot be removed; print a line of JSON."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve()
        os.chdir(folder)
        os.environ["NBMOD_CACHE_DIR"] = str(folder / "cache" / "kernels")
        from tests.reliability import loaders

        for loader in loaders.LOADERS:  # imports, and compiles what the readers need
            if loader.name != "archive of kernels":
                loader.load(loader.samples()[0], folder)
        watch, failures, trials = Watch(folder), [], 0
        for attack in attacks():
            trials += 1
            failures += [f"{attack.reader}, {attack.name}: {what}" for what in watch.of(attack)]
        print(json.dumps({"trials": trials, "failures": failures}))


def measure(_effort: Effort) -> list[Figure]:
    """All attacks, whatever the effort: they take seconds."""
    done = subprocess.run([sys.executable, "-m", "tests.reliability.code_from_data"],
                          capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    return [Figure("Attacks by files", found["trials"], tuple(found["failures"]))]


ORACLE = """
import os, sys, warnings
warnings.simplefilter("ignore")
import mxnet as mx
os.chdir(sys.argv[1])
try:
    mx.optimizer.get_updater(mx.optimizer.create("sgd")).set_states(open("attack", "rb").read())
except BaseException:
    pass
"""


def measure_mxnet(_effort: Effort) -> list[Figure]:
    """The pickles as optimizer states of MXNet, each in a process of its own."""
    from bench import mxnet_environment

    python = mxnet_environment.find_python()
    if python is None:
        sys.exit(mxnet_environment.absence())
    failures = []
    for name, content in pickles().items():
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "attack").write_bytes(content)
            subprocess.run([str(python), "-c", ORACLE, folder], capture_output=True, check=False,
                           timeout=60)
            if pathlib.Path(folder, MARK).exists():
                failures.append(f"optimizer states, {name}: the program of the file was run")
    return [Figure("Attacks by files", len(pickles()), tuple(failures), "optimizer states only")]


PROMISE = Promise(6, "No code from data", "No file runs a program", measure, measure_mxnet)

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    work()
