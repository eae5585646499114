"""Names of MXNet's C interface that scripts import from `mxnet.base`."""

from __future__ import annotations

import array
import ctypes

import numpy as np
import pytest

import nbmod as mx
from nbmod.base import (
    _LIB,
    NDArrayHandle,
    SymbolHandle,
    _Null,
    c_array,
    c_str,
    c_str_array,
    check_call,
    data_dir,
    mx_real_t,
    mx_uint,
    py_str,
)
from nbmod.ndarray import ndarray
from tests.programs import library_calls


def test_values_are_converted():
    assert mx_real_t is np.float32 and mx_uint is ctypes.c_uint
    assert py_str(c_str("käse").value) == "käse" == py_str("käse")
    assert list(c_array(mx_uint, (x for x in (1, 2)))) == [1, 2]
    assert [py_str(text) for text in c_str_array(["a", "b"])] == ["a", "b"]
    shared = mx.base.c_array_buf(ctypes.c_int, array.array("i", [1, 2, 3]))
    assert list(shared) == [1, 2, 3]
    floats = (ctypes.c_float * 2)(1, 2)
    view = mx.base.ctypes2numpy_shared(ctypes.cast(floats, mx.base.mx_float_p), (2,))
    floats[0] = 5
    assert view.tolist() == [5, 2] and len(mx.base.ctypes2buffer(floats, 8)) == 8
    assert repr(_Null) == "_Null"


def test_types_have_mxnets_numbers():
    types = [None, np.float32, np.float64, np.float16, np.uint8, np.int32, np.int8, np.int64,
             np.bool_]
    assert [ndarray._DTYPE_NP_TO_MX[each] for each in types] == [*range(-1, 8)]
    assert [ndarray._DTYPE_MX_TO_NP[number] for number in range(-1, 8)] == types
    numbers = {"undefined": -1, "default": 0, "row_sparse": 1, "csr": 2}
    assert numbers == ndarray._STORAGE_TYPE_STR_TO_ID
    assert {number: name for name, number in numbers.items()} == ndarray._STORAGE_TYPE_ID_TO_STR
    assert mx.sym.var("x", stype="csr").attr("__storage_type__") == "2"


def test_handles_are_declared_and_calls_refused():
    handle = NDArrayHandle()
    assert handle.value is None and SymbolHandle is ctypes.c_void_p
    with pytest.raises(mx.MXNetError, match="_LIB.MXNDArrayCreate: nbmod is written in Python"):
        check_call(_LIB.MXNDArrayCreate(None, ctypes.byref(handle)))
    with pytest.raises(mx.MXNetError, match="status -1"):
        check_call(-1)
    assert check_call(0) is None
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        _ = mx.base.no_such_name


@pytest.mark.parametrize("ctx", [mx.cpu(), pytest.param(mx.gpu(0), marks=pytest.mark.gpu)], ids=str)
def test_arrays_are_copied_from_and_to_pointers_as_mxnets(oracle, ctx):
    assert library_calls.copies(mx, ctx) == oracle.call("mx_scripts.run", "library_calls", "copies")
    assert library_calls.wrong_copy(mx)
    assert oracle.call("mx_scripts.run", "library_calls", "wrong_copy")
    with pytest.raises(mx.MXNetError, match="has 4 elements, 16 were to be copied.*not bytes"):
        _LIB.MXNDArraySyncCopyFromCPU(mx.nd.ones((2, 2)).handle, None, 16)
    with pytest.raises(mx.MXNetError, match="handle is a c_void_p, expected that of a dense array"):
        _LIB.MXNDArraySyncCopyToCPU(NDArrayHandle(), None, 1)


def test_copies_from_pointers_reach_derived_values():
    """A prediction folds BatchNorm into weights, and must see those that a pointer has written."""
    data = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, no_bias=True, name="fc")
    executor = mx.sym.BatchNorm(data, name="bn").simple_bind(mx.cpu(), grad_req="null", data=(1, 2))
    weight = executor.arg_dict["fc_weight"]
    for value in (1, 3):
        host = np.full((2, 2), value, "float32")
        _LIB.MXNDArraySyncCopyFromCPU(weight.handle, host.ctypes.data, 4)
        executor.aux_dict["bn_moving_var"][:] = 1
        (out,) = executor.forward(data=mx.nd.ones((1, 2)))
        assert out.asnumpy() == pytest.approx(2 * value, rel=1e-3)


def test_the_folder_of_files_is_mxnets(monkeypatch):
    monkeypatch.setenv("MXNET_HOME", "/elsewhere")
    assert data_dir() == "/elsewhere"
    monkeypatch.delenv("MXNET_HOME")
    assert data_dir() == mx.base.data_dir_default()


def test_classes_of_errors_are_registered_by_name():
    @mx.error.register
    class Mine(mx.MXNetError):
        """An error of a script."""

    assert mx.base.error_types["Mine"] is Mine
    assert mx.error.register("Other")(Mine) is mx.base.error_types["Other"] is Mine
    assert mx.base.error_types["ValueError"] is ValueError
    assert "report it" in str(mx.error.InternalError("lost"))
    assert str(mx.error.InternalError("MXNet hint: none")) == "MXNet hint: none"
    with pytest.raises(TypeError, match="register_error: 3 is given"):
        mx.base.register_error(3)


def test_documentation_is_built_from_classes():
    class stackDoc(mx.ndarray_doc.NDArrayDoc):  # noqa: N801
        """Added."""

    arguments = ["a", "num_args"], ["NDArray-or-Symbol", "int"], ["first", "count"]
    array = mx.ndarray_doc._build_doc("stack", "Stack.", *arguments)
    assert array.splitlines()[:5] == ["Stack.", "Parameters", "----------", "a : NDArray",
                                      "    first"]  # fmt: skip
    assert array.endswith("Added.") and "num_args" not in array
    symbol = mx.symbol_doc._build_doc("stack", "Stack.", *arguments)
    assert "a : Symbol" in symbol and "Added." not in symbol
