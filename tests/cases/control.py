"""Loops and branches; the functions are in tests/programs/control_programs.py."""

from __future__ import annotations

from tests.cases.sample import Sample, array, uniform

CELL = {"weight": (3, 2), "recurrent": (3, 3), "bias": (3,)}
CAPTURED = {"data": (3, 2), "state": (2,), "weight": (2, 2)}
UNTIL = {"x": uniform(0.5, 0.6, (3,)), "weight": uniform(0.8, 0.9, (3,)), "limit": array([2.0])}
FAILS = "MXNet fails at this gradient"
NESTED = "MXNet has while loops and branches only at the top"
UNSET = "MXNet leaves gradients unset that the branch taken does not have"


def _foreach(program: str, **inputs: object) -> Sample:
    return Sample("_foreach", inputs, {"program": program}, note=program)


def _eager(op: str, program: str, **inputs: object) -> Sample:
    return Sample(op, inputs, {"program": program}, grad=(), out=(), note=f"{program}, eager")


def _mine(op: str, program: str, why: str, *grad: str, **inputs: object) -> Sample:
    return Sample(op, inputs, {"program": program}, grad=grad, oracle=False, why=why, note=program)


def _while(program: str, *grad: str, **inputs: object) -> Sample:
    return Sample("_while_loop", inputs, {"program": program}, grad=grad, note=program)


def _cond(program: str, test: float, grad: tuple[str, ...] = (), oracle: bool = True) -> Sample:
    return Sample("_cond", {"test": array([test]), "x": (2, 3), "y": (2, 3)}, {"program": program},
                  grad=grad, note=program, mx_dtypes=("float32", "float16"), oracle=oracle,
                  inference=False, why="MXNet wants float32 predicates, and takes the type of other"
                  f" inputs from them; {UNSET}")


SAMPLES = [
    _foreach("products", data=(4, 2, 3), state=(2, 3), weight=(2, 3)),
    _foreach("products", data=(1, 2), state=(2,), weight=(2,)),
    _foreach("products", data=(3,), state=(1,), weight=(1,)),
    Sample("_foreach", {"data": (3, 2), "state": (2,), "weight": (2,)}, {"program": "products"},
           grad=(), is_train=False, dtypes=("int32", "float32")),
    _foreach("rnn", data=(5, 2, 2), state=(2, 3), **CELL),
    Sample("_foreach", {"a": (3, 2), "b": (3, 4), "s": (2,), "t": (2,)}, {"program": "lists"},
           note="lists", inference=False, why="MXNet takes data of unknown shape for vectors"),
    Sample("_foreach", CAPTURED, {"program": "captured"}, grad=(), note="captured"),
    _mine("_foreach", "captured", FAILS, "data", "state", "weight", **CAPTURED),
    _foreach("mapped", data=(3, 2, 2), weight=(2, 2)),
    _foreach("folded", data=(3, 2), state=(2,)),
    _foreach("twice", data=(3, 4, 1), state=(1,)),
    _mine("_foreach", "chosen", NESTED, "data", "state", data=(4, 2), state=(2,),
          limit=array([1.0])),
    _eager("_foreach", "chosen", data=(4, 2), state=(2,), limit=array([1.0])),
    _mine("_foreach", "counted", NESTED, "data", "state", data=(3, 2), state=(2,)),
    _eager("_foreach", "counted", data=(3, 2), state=(2,)),
    _while("powers", "x", "weight", count=array([1]), x=(2, 2), weight=(2, 2)),
    _mine("_while_loop", "until", FAILS, "x", "weight", **UNTIL),
    _while("until", **UNTIL),
    _while("one_variable", "count", count=array([0.5])),
    _while("loops", "x", count=array([1]), x=(3, 2)),
    _cond("branch", 0), _cond("branch", 0, ("x", "y"), False),
    _cond("branch", 1), _cond("branch", 1, ("x", "y"), False),
    _cond("branches", 0.5), _cond("branches", 0.5, ("x", "y"), False),
    _cond("branches", 0), _cond("branches", 0, ("x", "y"), False),
    Sample("_cond", {"test": array([0]), "x": (2, 3), "y": (2, 3)}, {"program": "branch"},
           grad=("x", "y"), dtypes=("float32",), note="gradient"),
]
