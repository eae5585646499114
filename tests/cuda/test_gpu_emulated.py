"""The emulated card: programs in PTX do what a card does, and samples of ops agree with the CPU."""

from __future__ import annotations

import os
import subprocess

import numpy as np
import pytest

from tests.cuda import compilers, ptx_machine, setup
from tests.cuda.ptx_program import PtxError, parse

SAMPLES = ("exp-0", "sum-0", "softmax-0", "sort-0", "dot-0", "_contrib_DeformableConvolution-0",
           "_contrib_ROIAlign-0", "_power_scalar-1")
"""Elements, shuffles, shared memory, local arrays, tiles, float positions that are rounded, -1 in
tuples, and functions that are called."""
BASE = 1 << 32


class Memory:
    """Memory of whose bytes all but the last 64 are allocated."""

    def __init__(self, *arrays: np.ndarray):
        self.base = BASE
        self.data = np.concatenate([np.ascontiguousarray(array).view(np.uint8).ravel()
                                    for array in arrays] + [np.zeros(64, np.uint8)])

    def check(self, start: np.ndarray, size: int) -> None:
        if ((start < 0) | (start + size > len(self.data) - 64)).any():
            raise PtxError("an address outside of all arrays")


def ran(body: str, array: np.ndarray, threads: int, blocks: int = 1, functions: str = ""
        ) -> np.ndarray:
    """The array after a kernel on its address, which is in %rd1; %r1 is the thread, and %rd2 the
    address of its own word."""
    text = f"""
.version 8.0
.target sm_80
{functions}
.visible .entry kernel(
	.param .u64 kernel_param_0
)
{{
	.reg .pred 	%p<9>;
	.reg .b16 	%rs<9>;
	.reg .f32 	%f<9>;
	.reg .b32 	%r<30>;
	.reg .b64 	%rd<9>;
	.shared .align 4 .b8 	room[64];

	ld.param.u64 	%rd1, [kernel_param_0];
	mov.u32 	%r1, %tid.x;
	mov.u32 	%r2, %ctaid.x;
	mov.u32 	%r3, %ntid.x;
	mad.lo.s32 	%r1, %r2, %r3, %r1;
	mul.wide.s32 	%rd2, %r1, 4;
	add.s64 	%rd2, %rd1, %rd2;
	{body}
	ret;
}}
"""
    memory = Memory(array)
    ptx_machine.run(parse(text), memory, (blocks,), (threads,), [np.uint64(BASE)])
    return memory.data[:array.nbytes].view(array.dtype)


@pytest.mark.parametrize("code, expected", [
    ("add.s32 %r4, %r1, -3; st.global.u32 [%rd2], %r4;", np.arange(8) - 3),
    ("shl.b32 %r4, %r1, 30; shr.s32 %r4, %r4, 31; st.global.u32 [%rd2], %r4;",
     np.array([0, 0, -1, -1] * 2)),
    ("sub.s32 %r4, %r1, 5; div.s32 %r5, %r4, 3; st.global.u32 [%rd2], %r5;",
     np.array([-1, -1, -1, 0, 0, 0, 0, 0])),
    ("sub.s32 %r4, %r1, 5; rem.s32 %r5, %r4, 3; st.global.u32 [%rd2], %r5;",
     np.array([-2, -1, 0, -2, -1, 0, 1, 2])),
    ("sub.s32 %r4, %r1, 5; mul.wide.s32 %rd3, %r4, 1000; shr.u64 %rd4, %rd3, 32; "
     "cvt.u32.u64 %r5, %rd4; st.global.u32 [%rd2], %r5;", np.array([-1] * 5 + [0] * 3)),
    ("bfe.u32 %r4, %r1, 1, 2; st.global.u32 [%rd2], %r4;", np.arange(8) >> 1),
    ("prmt.b32 %r4, %r1, -1, 0x5410; st.global.u32 [%rd2], %r4;",
     np.arange(8) | np.int64(-65536)),
    ("popc.b32 %r4, %r1; st.global.u32 [%rd2], %r4;", [0, 1, 1, 2, 1, 2, 2, 3]),
    ("setp.lt.s32 %p1, %r1, 5; setp.gt.and.s32 %p2, %r1, 2, %p1; selp.b32 %r4, 7, 9, %p2; "
     "st.global.u32 [%rd2], %r4;", [9, 9, 9, 7, 7, 9, 9, 9]),
])
def test_integers(code, expected):
    found = ran(code, np.zeros(8, np.int32), 8)
    np.testing.assert_array_equal(found, np.asarray(expected, np.int64).astype(np.int32))


X = np.array([-2.5, -0.0, 0.5, 1.5, 2.5, np.nan, np.inf, 3e9], np.float32)


@pytest.mark.parametrize("code, dtype, expected", [
    ("fma.rn.f32 %f2, %f1, 0f40000000, 0fBF800000; st.global.f32 [%rd2], %f2;", np.float32,
     X * 2 - 1),
    ("max.f32 %f2, %f1, 0f00000000; st.global.f32 [%rd2], %f2;", np.float32,
     [0, 0, 0.5, 1.5, 2.5, 0, np.inf, 3e9]),
    ("cvt.rni.s32.f32 %r4, %f1; st.global.u32 [%rd2], %r4;", np.int32,
     [-2, 0, 0, 2, 2, 0, 2 ** 31 - 1, 2 ** 31 - 1]),
    ("cvt.rmi.f32.f32 %f2, %f1; st.global.f32 [%rd2], %f2;", np.float32, np.floor(X)),
    ("cvt.sat.f32.f32 %f2, %f1; st.global.f32 [%rd2], %f2;", np.float32,
     [0, 0, 0.5, 1, 1, 0, 1, 1]),
    ("setp.neu.f32 %p1, %f1, %f1; selp.b32 %r4, 1, 0, %p1; st.global.u32 [%rd2], %r4;", np.int32,
     np.isnan(X)),
    ("setp.ne.f32 %p1, %f1, %f1; selp.b32 %r4, 1, 0, %p1; st.global.u32 [%rd2], %r4;", np.int32,
     [0] * 8),      # ordered: it finds no NaN
    ("cvt.rn.f16.f32 %rs1, %f1; cvt.f32.f16 %f2, %rs1; st.global.f32 [%rd2], %f2;", np.float32,
     [-2.5, -0.0, 0.5, 1.5, 2.5, np.nan, np.inf, np.inf]),
])
def test_floats(code, dtype, expected):
    with np.errstate(all="ignore"):
        expected = np.asarray(expected, dtype)
    found = ran(f"ld.global.f32 %f1, [%rd2]; {code}", X, 8).view(dtype)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("mode, side", [("rp", 1), ("rm", -1)])
def test_directed_rounding(mode, side):
    """The nearest number that is not below, or not above, the exact product."""
    x = np.array([-2.5, 0.3, 1.7, 3e9, -1e-30, 7.0], np.float32)
    found = ran("ld.global.f32 %f1, [%rd2]; "
                f"mul.{mode}.f32 %f2, %f1, 0f3F800003; st.global.f32 [%rd2], %f2;", x, 6)
    exact = x.astype(np.float64) * (1 + 3 * 2.0 ** -23)
    assert (side * (found - exact) >= 0).all()
    assert (side * (np.nextafter(found, np.float32(-side * np.inf)) - exact) < 0).all()


def test_threads_part_and_meet():
    """Odd ones loop as often as their number says; after that all shuffle together."""
    found = ran("""
	mov.u32 	%r10, 0;
	and.b32 	%r4, %r1, 1;
	setp.eq.s32 	%p1, %r4, 0;
	@%p1 bra 	$L_even;
	mov.u32 	%r5, %r1;
$L_loop:
	add.s32 	%r10, %r10, 10;
	add.s32 	%r5, %r5, -1;
	setp.gt.s32 	%p2, %r5, 0;
	@%p2 bra 	$L_loop;
	bra.uni 	$L_met;
$L_even:
	mov.u32 	%r10, %r1;
$L_met:
	shfl.sync.bfly.b32 	%r11, %r10, 1, 31, -1;
	st.global.u32 	[%rd2], %r11;""", np.zeros(64, np.int32), 32, 2)
    own = np.array([10 * i if i % 2 else i for i in range(64)])
    np.testing.assert_array_equal(found, own.reshape(-1, 2)[:, ::-1].ravel())


def test_blocks_have_memory_of_their_own():
    found = ran("""
	mov.u32 	%r4, %tid.x;
	mov.u32 	%r5, room;
	shl.b32 	%r6, %r4, 2;
	add.s32 	%r6, %r5, %r6;
	st.shared.u32 	[%r6], %r1;
	bar.sync 	0;
	xor.b32 	%r7, %r4, 7;
	shl.b32 	%r7, %r7, 2;
	add.s32 	%r7, %r5, %r7;
	ld.shared.u32 	%r8, [%r7];
	st.global.u32 	[%rd2], %r8;""", np.zeros(24, np.int32), 8, 3)
    np.testing.assert_array_equal(found, np.arange(24).reshape(3, 8)[:, ::-1].ravel())


def test_atomic_operations_see_one_another():
    found = ran("atom.global.add.u32 %r4, [%rd1], %r1; "
                "setp.ne.s32 %p1, %r1, 0; @%p1 st.global.u32 [%rd2], %r4;",
                np.zeros(6, np.int32), 6)
    np.testing.assert_array_equal(found, [15, 0, 1, 3, 6, 10])


def test_functions_have_registers_and_local_memory_of_their_own():
    """Threads whose number is odd call one that loops as often as that says, on its stack."""
    found = ran("""
	and.b32 	%r4, %r1, 1;
	setp.eq.s32 	%p1, %r4, 0;
	@%p1 bra 	$L_end;
	{ // callseq 0, 0
	.param .b32 param0;
	st.param.b32 	[param0+0], %r1;
	.param .b32 retval0;
	call.uni (retval0),
	triangle,
	(
	param0
	);
	ld.param.b32 	%r5, [retval0+0];
	} // callseq 0
	add.s32 	%r5, %r5, %r4;
	st.global.u32 	[%rd2], %r5;
$L_end:""", np.zeros(8, np.int32), 8, functions="""
.func (.param .b32 func_retval0) triangle(
	.param .b32 triangle_param_0
)
{
	.local .align 8 .b8 	__local_depot1[8];
	.reg .pred 	%p<3>;
	.reg .b32 	%r<5>;
	.reg .b64 	%SP<2>;

	mov.u64 	%SP0, __local_depot1;
	cvta.local.u64 	%SP1, %SP0;
	ld.param.u32 	%r1, [triangle_param_0];
	mov.u32 	%r2, 0;
	st.u32 	[%SP1+4], %r2;
$L_again:
	ld.local.u32 	%r2, [%SP0+4];
	add.s32 	%r2, %r2, %r1;
	st.u32 	[%SP1+4], %r2;
	add.s32 	%r1, %r1, -1;
	setp.gt.s32 	%p1, %r1, 0;
	@%p1 bra 	$L_again;
	ld.u32 	%r4, [%SP1+4];
	st.param.b32 	[func_retval0+0], %r4;
	ret;
}
""")
    np.testing.assert_array_equal(found, [0, 1 + 1, 0, 6 + 1, 0, 15 + 1, 0, 28 + 1])


@pytest.mark.parametrize("code, said", [
    ("st.global.u32 [%rd2+64], %r1;", "an address outside of all arrays"),
    ("st.global.u32 [%rd2+2], %r1;", "is no multiple of 4"),
    ("mov.u32 %r5, room; st.shared.u32 [%r5+64], %r1;", "byte 64 of 64 of shared memory"),
    ("setp.eq.s32 %p1, %r1, 0; @%p1 bra $L_a; bar.sync 0; bra.uni $L_b;\n$L_a:\n bar.sync 0;\n"
     "$L_b:\n", "wait at different barriers"),
    ("frobnicate.b32 %r4, %r1;", "does not know this instruction"),
])
def test_what_a_card_does_not_allow_is_named(code, said):
    with pytest.raises(PtxError, match=said):
        ran(code, np.zeros(8, np.int32), 8)


@pytest.mark.parametrize("compiler", compilers.COMPILERS)
def test_samples_agree(compiler):
    """Of kernels as this compiler makes them."""
    python = setup.find_python(compiler)
    if python is None:
        pytest.skip("python -m tests.cuda.setup has not made the environment of this compiler")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("NUMBA_")}
    done = subprocess.run([python, "-m", "tests.cuda.emulated", *SAMPLES], capture_output=True,
                          text=True, env={**environment, "NBMOD_CUDA_COMPILER": compiler})
    assert done.returncode == 0 and "0 failed" in done.stdout, done.stdout + done.stderr
