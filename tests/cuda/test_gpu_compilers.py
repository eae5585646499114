"""The compilers of GPU kernels: which is chosen, what both must make, and how they are compared."""

import ast
import json
import os
import re
import struct
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import nbmod as mx
from nbmod.core import gpus
from nbmod.core.config import CONFIG
from nbmod.ops.cuda.runtime import compiler
from nbmod.ops.cuda.runtime.ptx import __all__ as ptx_names
from nbmod.ops.cuda.runtime.ptx_instructions import INSTRUCTIONS
from tests.cuda import compilers, setup
from tests.cuda.machine_code import machine_code, parameter_sizes


@pytest.mark.parametrize("asked, installed, chosen", [
    ("", ["numba_cuda_mlir"], "mlir"), ("", ["numba_cuda_mlir", "numba_cuda"], "numba-cuda"),
    ("", ["numba_cuda"], "numba-cuda"), ("", [], "numba-cuda"),
    ("numba-cuda", ["numba_cuda_mlir"], "numba-cuda"), ("mlir", [], "mlir"),
])
def test_the_successor_is_chosen_alone_or_by_its_name(asked, installed, chosen, monkeypatch):
    monkeypatch.setattr(CONFIG, "cuda_compiler", asked)
    monkeypatch.setattr(compiler, "find_spec", lambda name: name in installed or None)
    assert compiler.choice() == chosen


def test_another_compiler_is_refused():
    done = subprocess.run([sys.executable, "-c", "import nbmod"], capture_output=True, text=True,
                          env={**os.environ, "NBMOD_CUDA_COMPILER": "nvcc"})
    assert "NBMOD_CUDA_COMPILER" in done.stderr and "mlir or numba-cuda" in done.stderr


@pytest.mark.parametrize("asked, said", [
    ("", "pip install 'nbmod[cuda]'"),
    ("mlir", "pip install 'nbmod[cuda-mlir]', as NBMOD_CUDA_COMPILER=mlir asks"),
    ("numba-cuda", "pip install 'nbmod[cuda]', as NBMOD_CUDA_COMPILER=numba-cuda asks"),
])
def test_a_missing_compiler_is_named(asked, said, monkeypatch):
    monkeypatch.setattr(CONFIG, "cuda_compiler", asked)
    monkeypatch.setattr(gpus, "cuda_module", lambda: None)
    monkeypatch.setattr(gpus, "gpu_count", lambda: 0)
    assert gpus.gpus_offered().endswith(f"(they take {said})")


@pytest.mark.parametrize("name, instruction", INSTRUCTIONS.items())
def test_instructions_name_each_of_their_operands(name, instruction):
    assert name in ptx_names
    count = len(instruction.results) + len(instruction.operands)
    assert all(f"${i}" in instruction.text for i in range(count))
    assert f"${count}" not in instruction.text
    assert len(instruction.constraints.split(",")) == count


def elf(sections):
    """A 64-bit ELF file of these sections, as far as `machine_code` reads it."""
    names = b"\0" + b"\0".join(sections) + b"\0.names\0"
    body, headers = bytes(64), [(0, 0, 0)]
    for name, content in [*sections.items(), (b".names", names)]:
        headers.append((names.index(name), len(body), len(content)))
        body += content
    table = b"".join(struct.pack("<IIQQQQ", name, 0, 0, 0, at, size) + bytes(24)
                     for name, at, size in headers)
    head = bytearray(body[:64])
    struct.pack_into("<Q", head, 0x28, len(body))
    struct.pack_into("<HHH", head, 0x3A, 64, len(headers), len(headers) - 1)
    return bytes(head) + body[64:] + table


def branch(instructions, capability):
    """A branch by so many instructions from the one behind it."""
    words = instructions * 4
    if capability >= (9, 0):
        return 0x947 | (words & 0xFF) << 16 | (words >> 8 & (1 << 48) - 1) << 34
    return 0x947 | (words & (1 << 48) - 1) << 34


@pytest.mark.parametrize("capability", [(8, 0), (9, 0), (10, 0)])
def test_instructions_of_the_hot_loop_are_counted(capability):
    fma, dmul, other = 0x223, 0x228, 0x224
    code = [other, fma, other, fma, branch(-4, capability),     # 1 to 4, two multiply-adds
            *[other] * 300, branch(-301, capability),           # a longer one, without
            branch(-307, capability),                           # around both
            dmul, branch(-1, capability)]                       # the end, which is no loop
    cubin = elf({b".text.k": b"".join(word.to_bytes(16, "little") for word in code)})
    assert machine_code(cubin, capability) == (len(code), 1, 2, 4, 2)


def test_sizes_of_parameters_are_read():
    info = struct.pack("<BBH", 3, 0x19, 24) + b"".join(
        struct.pack("<BBHIHHI", 4, 0x17, 12, 0, order, 0, size << 18 | 0xFF)
        for order, size in ((1, 4), (0, 8)))
    assert parameter_sizes(elf({b".nv.info.k": info})) == [8, 4]


FIGURES = {"registers": 32, "spilled": 0, "stack": 0, "shared": 512, "total": 200, "loop": 40,
           "loop_math": 8, "threads": 256}


@pytest.mark.parametrize("changes, said", [
    ({}, ""), ({"registers": 40}, "blocks at once 8 to 6"), ({"spilled": 8}, "spills 0 to 8"),
    ({"stack": 4}, "local memory"), ({"shared": 1024}, "shared memory 512 to 1024"),
    ({"loop": 80, "loop_math": 16}, ""), ({"loop": 80}, "per multiply-add 5.0 to 10.0"),
    ({"loop_math": 0, "total": 500}, "instructions 200 to 500"),
])
def test_what_gets_worse_is_named(changes, said):
    name = "nbmod.ops.cuda.lib.gemm.multiply('*float32', 'int32') sm_90"
    pair, = compilers.pairs([(name, FIGURES)], [(name, FIGURES | changes), ("new", FIGURES)])
    found = compilers.worse(pair)
    assert bool(found) == bool(said) and said in "".join(found)
    page = "\n".join(compilers.report([pair], ["one 1", "two 2"]))
    assert "| sm_90 | 1 |" in page and ("Nothing." in page) == (not said)
    assert r"`lib.gemm.multiply` \*float32 sm_90" in page


PRODUCTS = """
    import json
    from tests.cuda import compile
    from tests.cuda.machine_code import machine_code, _sections
    ghost = compile.Ghost()
    jobs = compile.jobs_of(compile.products(ghost), False)
    found = {}
    for job in jobs:
        if "tensor_cores" in job.kernel.function.__module__:
            binary = compile.compiler.compile_kernel(
                job.kernel.function, job.kinds, (9, 0), (job.threads, job.kernel.min_blocks))
            words = [int.from_bytes(code[at:at + 16], "little")
                     for code in _sections(binary.cubin, b".text")
                     for at in range(0, len(code), 16)]
            found[str(job)] = sum(word & 0x1FF == 0x3C for word in words)
            break
    print(json.dumps(found))
"""


def run_by(name, program, tmp_path, python=None):
    """What a program says, as JSON, when it compiles for a device by a compiler; "" is any."""
    python = python or (setup.find_python(name) if name else None)
    if python is None:
        pytest.skip("NO KERNEL WAS COMPILED for a device: python -m tests.cuda.setup makes it so")
    env = {key: value for key, value in os.environ.items() if key != "NUMBA_ENABLE_CUDASIM"}
    done = subprocess.run([python, "-c", textwrap.dedent(program)], capture_output=True, text=True,
                          env={**env, "NBMOD_CUDA_COMPILER": name,
                               "NBMOD_CACHE_DIR": str(tmp_path)})
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.gpu
@pytest.mark.parametrize("name", setup.REQUIREMENTS)
def test_products_use_tensor_cores(name, tmp_path):
    count, = run_by(name, PRODUCTS, tmp_path).values()
    assert count >= 16      # a warp's tile of 64 by 32 elements, 16 by 8 for an instruction


SEMANTICS = """
    import json, math, re
    import numpy as np
    from nbmod.ops.cuda.runtime import compiler
    from nbmod.ops.cuda.runtime.launch import cuda, thread, threads

    def unequal(y, x):                  # NaN is unequal to itself
        y[0] = 1.0 if x[0] != x[0] else 0.0

    def before(y, x, i):                # an index may be negative, as may what is stored
        y[0] = x[i]
        y[1] = i

    def rounded(y, x):                  # too large for an integer, or NaN
        y[0] = math.floor(x[0]) + math.ceil(x[1]) + math.trunc(x[2])

    def counted(y, n):                  # 32 bits, and one division at most
        for i in range(thread(), n, threads()):
            y[i] = 0.0

    def divided(y, i):                  # by a constant
        y[0] = i // 100 + i % 100

    found = {}
    for function, kinds in ((unequal, "*float32 *float32"), (before, "*int64 *int64 int32"),
                            (rounded, "*float32 *float32"), (counted, "*float32 int32"),
                            (divided, "*int32 int32")):
        codes = compiler._lto_code(function, tuple(kinds.split()), (9, 0), (256, 1))
        with compiler.linked(codes, (9, 0), ("-ptx",)) as (nvjitlink, handle):
            text = bytearray(nvjitlink.get_linked_ptx_size(handle))
            nvjitlink.get_linked_ptx(handle, text)
        found[function.__name__] = re.findall("^\\s*([a-z][\\w.]+)\\s", text.decode(), re.M)
    print(json.dumps(found))
"""


@pytest.mark.gpu
@pytest.mark.parametrize("name", setup.REQUIREMENTS)
def test_what_kernels_mean_does_not_depend_on_the_compiler(name, tmp_path):
    found = run_by(name, SEMANTICS, tmp_path)
    assert {"setp.nan.f32", "setp.neu.f32"}.intersection(found["unequal"])
    assert not [each for each in found["before"] if re.match(r"(cvt|mul\.wide).*u32", each)]
    assert any(re.match(r"cvt\.s64\.s32|mul\.wide\.s32", each) for each in found["before"])
    assert {"cvt.rmi.f32.f32", "cvt.rpi.f32.f32", "cvt.rzi.f32.f32"} <= {*found["rounded"]}
    assert not [each for each in found["rounded"] if re.match(r"cvt\.r\w+\.[su]", each)]
    divisions = [each for each in found["counted"] if each.startswith("div")]
    assert divisions in (["div.s32"], ["div.u32"])
    assert "cvta.to.global.u64" in found["counted"]      # instructions are found at all
    assert "mul.hi.s32" in found["divided"] and not [
        each for each in found["divided"] if each.startswith(("div", "rem", "atom"))]


@pytest.mark.gpu
@pytest.mark.parametrize("name, package", [("mlir", "numba-cuda-mlir"),
                                           ("numba-cuda", "numba-cuda")])
def test_the_only_compiler_is_used_without_a_setting(name, package, tmp_path):
    program = """
        import json
        from nbmod.ops.cuda.runtime.compiler import compiler, compiler_name
        print(json.dumps([compiler_name(), compiler().__name__]))
    """
    said, module = run_by("", program, tmp_path, setup.find_python(name))
    assert said.startswith(f"{package} ")
    assert module.endswith(f"compiler_{name.replace('-', '_')}")


@pytest.mark.parametrize("value, other, alike", [
    (3, 4, True), (2.5, 3.5, True), ((1, 2), (3, 4), True), ((1, 2), (1, 2, 3), False),
    (True, False, False), (1, 1.0, False), ("x", "y", False), (None, 1, False),
])
def test_kernels_that_differ_in_numbers_only_are_one_for_a_quick_check(value, other, alike):
    one, two = (lambda x, value=each: (lambda: (x, value)) for each in (value, other))
    one, two = one(0), two(0)
    assert compiler.fingerprint(one) != compiler.fingerprint(two)
    assert (compiler.fingerprint(one, False) == compiler.fingerprint(two, False)) == alike


def test_what_is_compiled_depends_on_files_of_the_compiler():
    for name in compiler.PACKAGES:
        file = Path(compiler.__file__).with_name(f"compiler_{name.replace('-', '_')}.py")
        text = file.read_text()
        sources = ast.literal_eval(re.search(r"^SOURCES = (\(.*?\))$", text, re.M | re.S)[1])
        assert {file.stem, *re.findall(r"^from \.(\w+) import", text, re.M)} <= {*sources}
        assert all(file.with_name(f"{source}.py").exists() for source in sources)


def test_a_simulated_gpu_loads_no_compiler():
    code = ("import sys, nbmod as mx; (mx.nd.ones(2, ctx=mx.gpu(0)) + 1).asnumpy()\n"
            "print([m for m in sys.modules if m.startswith(('numba_cuda', 'numba.cuda.codegen'))])")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1"})
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.gpu
def test_checks_name_the_compiler_and_stop_in_time(capsys):
    from nbmod.ops.cuda import check

    assert check.main(["--limit", "0"]) == 0
    said = capsys.readouterr().out
    assert "compiled by the simulator" in said and "stopped after 0 seconds: " in said
    assert mx.num_gpus()
