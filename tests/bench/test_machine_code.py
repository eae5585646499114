"""Facts of machine code: of written assembly, and of kernels at the levels of CPUs."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from nbmod.base import ArgumentError
from nbmod.bench.machine_code import (
    MachineCode,
    facts_of_assembly,
    hot_loop_before_assembly,
    machine_code,
)
from nbmod.ops.build.levels import is_supported

X86 = """
main:
    .cfi_startproc
    vxorps %xmm0, %xmm0, %xmm0
    callq *%rax
.LBB0_1:
    movq (%rdi), %rdx
.LBB0_2:                                # the hot loop
    vmovups (%rsi,%rax,4), %zmm1
    vfmadd213ps (%rdx,%rax,4), %zmm2, %zmm1
    vmovups %zmm1, -64(%rsp)
    vaddps 128(%rsp), %zmm1, %zmm3
    addq $16, %rsp
    addq $16, %rax
    cmpq %rax, %rcx
    jne .LBB0_2
    decq %rbx
    jne .LBB0_1
.LBB0_4:
    vaddss (%rsi), %xmm0, %xmm0
    vaddss (%rsi), %xmm0, %xmm0
    jne .LBB0_4
    retq
"""
ARM = """
main:
.LBB0_2:
    ldp q0, q1, [x8], #32
    fmla v2.4s, v0.4s, v1.4s
    str q2, [sp, #16]
    bl sinf
    subs x9, x9, #4
    b.ne .LBB0_2
    ret
"""


def test_facts_are_those_of_the_widest_innermost_loop():
    assert facts_of_assembly(X86) == MachineCode(8, 512, 1, 2, 0)
    assert facts_of_assembly(ARM) == MachineCode(6, 128, 1, 1, 1)
    assert facts_of_assembly("main:\n    retq\n") == MachineCode(0, 0, 0, 0, 0)


def test_single_numbers_and_calls():
    loop = ".L1:\n    callq sin\n    vaddsd (%rsi), %xmm0, %xmm0\n    jne .L1\n"
    assert facts_of_assembly(loop) == MachineCode(3, 64, 0, 0, 1)


INTERMEDIATE = """
define void @other() {
entry:
  br label %again
again:                                            ; preds = %again, %entry
  %x = fadd double %y, %z
  br i1 %c, label %again, label %end, !llvm.loop !3
end:
  ret void
}

define i32 @kernel(ptr %a) {
entry:
  br label %outer
outer:
  br label %vector.body
vector.body:                                      ; preds = %vector.body, %outer
  %wide.load = load <8 x float>, ptr %a, align 4, !tbaa !5
  %1 = call fast <8 x float> @llvm.fma.v8f32(<8 x float> %wide.load, <8 x float> %2, <8 x float> %3)
  %4 = call i64 @llvm.smax.i64(i64 %5, i64 0)
  br i1 %6, label %"next one", label %vector.body, !llvm.loop !25
"next one":
  br i1 %7, label %again, label %outer
again:
  ret i32 0
}
"""


def test_the_loop_before_assembly_is_the_widest_of_any_function():
    loop = hot_loop_before_assembly(INTERMEDIATE)
    assert len(loop) == 4 and "; preds" not in "".join(loop) and "!" not in "".join(loop)
    assert loop[1].startswith("%1 = call fast <8 x float> @llvm.fma")
    assert hot_loop_before_assembly(INTERMEDIATE.partition("define i32")[0]) == [
        "%x = fadd double %y, %z", "br i1 %c, label %again, label %end"]
    assert hot_loop_before_assembly("define void @f() {\nentry:\n  ret void\n}\n") == []


KERNEL = """
import json, numpy as np
from dataclasses import asdict
from nbmod.bench.machine_code import machine_code
from nbmod.ops.jit import kernel
from nbmod.ops.simd import roofline

@kernel(fastmath=True)
def axpy(a, x, y):
    for i in range(x.size):
        y[i] += a * x[i]

x = np.ones(64, np.float32)
axpy(np.float32(2), x, x.copy())
values = np.zeros(roofline.STRIDE // 4, np.float32)
roofline.multiply_add(values, 2)
print(json.dumps([asdict(machine_code(each)[0]) for each in (axpy, roofline.multiply_add)]))
"""


@pytest.mark.skipif(not is_supported("x86-64-v3"), reason="the kernels are for x86-64-v3")
@pytest.mark.parametrize("level, bits, chains", [("x86-64-v3", 256, 12), ("x86-64-v4", 512, 24)])
def test_kernels_at_the_levels_of_cpus(level, bits, chains, tmp_path):
    if not is_supported(level):
        pytest.skip(f"the host is not {level}")
    script = tmp_path / "kernel.py"
    script.write_text(KERNEL)
    ran = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True,
                         env=os.environ | {"NBMOD_CPU_LEVEL": level})
    axpy, peak = json.loads(ran.stdout)
    # LLVM takes 256 bits for loops of its own on some hosts with 512.
    assert axpy["vector_bits"] in (256, bits) and axpy["fmas"] > 0 and axpy["calls"] == 0
    assert peak["vector_bits"] == bits and peak["fmas"] % chains == 0
    assert peak["fmas"] > 0 and peak["spills"] == 0


def test_what_has_no_machine_code_is_an_error():
    with pytest.raises(ArgumentError, match="expected one that numba compiles"):
        machine_code(len)
