"""Automatic names and attributes: as in MXNet, and not shared by threads."""

from __future__ import annotations

import threading

import pytest

import nbmod as mx
from nbmod.attribute import AttrScope
from nbmod.name import NameManager, Prefix
from tests.programs import symbol_programs


@pytest.mark.filterwarnings("ignore:.*sparse storage")
@pytest.mark.parametrize("subject", ["names", "attributes"])
def test_answers_are_mxnets(oracle, subject):
    theirs = oracle.call("mx_symbol.answers", subject)
    wrong = symbol_programs.differences(mx, subject, theirs)
    assert not wrong, wrong


def in_thread(function):
    found = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]


def test_every_thread_counts_for_itself():
    x = mx.sym.Variable("x")
    with Prefix("mine_"):
        assert mx.sym.exp(x).name == "mine_exp0"
        assert in_thread(lambda: mx.sym.exp(x).name) == "exp0"
        assert mx.sym.exp(x).name == "mine_exp1"


def test_every_thread_has_its_own_attributes():
    with AttrScope(ctx_group="mine"):
        assert in_thread(lambda: mx.sym.Variable("v").list_attr()) == {}
        assert mx.sym.Variable("v").attr("ctx_group") == "mine"


def test_a_block_that_raises_restores_what_was_before():
    manager, scope = NameManager.current, AttrScope.current
    with pytest.raises(ZeroDivisionError), Prefix("p_"), AttrScope(__a__="1"):
        raise ZeroDivisionError
    assert NameManager.current is manager and AttrScope.current is scope


def test_one_manager_can_be_entered_inside_itself():
    manager = NameManager()
    with manager, Prefix("p_"), manager:
        assert manager.get(None, "a") == "a0"
        assert NameManager.current is manager
    assert NameManager.current is not manager
