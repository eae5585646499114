"""Options of the native iterators: MXNet's, with its defaults, listed by signature and help."""

from __future__ import annotations

import dataclasses
import inspect
import re

import numpy as np
import pytest

import nbmod as mx
from nbmod.base import MXNetError
from nbmod.io import image_det_record, image_record, mnist, text
from nbmod.io.native import options_of

OPTIONS = {"CSVIter": text._CSVOptions, "LibSVMIter": text._LibSVMOptions,
           "MNISTIter": mnist._Options, "ImageRecordIter": image_record._ImageRecordOptions,
           "ImageRecordIter_v1": image_record._ImageRecordOptions,
           "ImageRecordUInt8Iter": image_record._ImageRecordOptions,
           "ImageRecordUInt8Iter_v1": image_record._ImageRecordOptions,
           "ImageRecordInt8Iter": image_record._ImageRecordOptions,
           "ImageDetRecordIter": image_det_record._DetRecordOptions}
GIVEN = {"data_csv": "a", "data_libsvm": "a", "path_imgrec": "a", "data_shape": (3, 8, 8)}
OTHERWISE = {"ctx", "path_imgrec", "std_r", "std_g", "std_b", "std_a"}
"""ctx means nothing here; a record file that is not named is an error; MXNet's 0 for no deviation
of images with boxes counts as 1."""


def required(name):
    """Options without which there is no iterator."""
    fields = {field.name for field in dataclasses.fields(OPTIONS[name])}
    return {"batch_size": 128} | {key: value for key, value in GIVEN.items() if key in fields}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_are_mxnets(oracle, name):
    documented = oracle.call("mx_scripts.run", "iterator_programs", "documented", name)
    plain = options_of(OPTIONS[name], required(name))
    assert len(documented) > 8
    for option, kind in documented.items():
        assert hasattr(plain, option), option
        default = re.search(r"default='?(.*?)'?$", kind)
        if default and option not in OTHERWISE:
            given = required(name) | {option: default[1].replace("[", "(").replace("]", ")")}
            found = [getattr(options, option)
                     for options in (options_of(OPTIONS[name], given), plain)]
            if isinstance(found[0], float):
                found = [np.float32(value) for value in found]  # so MXNet writes them
            assert found[0] == found[1], option


@pytest.mark.parametrize("name", OPTIONS)
def test_signature_and_docstring_list_the_options(name):
    function = getattr(mx.io, name)
    shown = {parameter.name: parameter.default
             for parameter in inspect.signature(function).parameters.values()}
    fields = {field.name: field.default for field in dataclasses.fields(OPTIONS[name])}
    fixed = {"dtype"} & (fields.keys() - shown.keys())
    assert fixed == ({"dtype"} if "Int8" in name else set())
    assert shown.keys() - {"options"} == fields.keys() - fixed
    for option in fields.keys() - fixed:
        default = fields[option]
        expected = inspect.Parameter.empty if default is dataclasses.MISSING else default
        assert shown[option] == expected
        assert f"\n{option} : " in function.__doc__


@pytest.mark.parametrize("name, option", [
    *((name, "dtype") for name in ("CSVIter", "LibSVMIter", "MNISTIter")),
    ("ImageRecordIter", "aug_seq"), ("ImageDetRecordIter", "aug_seq")])
def test_what_is_not_done_is_refused_by_name(name, option):
    with pytest.raises(MXNetError, match=option):
        options_of(OPTIONS[name], required(name) | {option: "float16"})


def test_unknown_options_are_ignored_as_in_mxnet(tmp_path):
    (tmp_path / "t.csv").write_text("1,2,3\n4,5,6\n")
    batches = mx.io.CSVIter(data_csv=str(tmp_path / "t.csv"), data_shape=(3,), batch_size=2,
                            num_workers=3, data_cvs="similar to a known one")
    assert next(batches).data[0].shape == (2, 3)
