"""Blocks have MXNet's names, texts and errors, and call their hooks."""

from __future__ import annotations

import copy
import pickle
import threading
import warnings

import pytest

import nbmod as mx
from tests.compare import assert_like
from tests.programs import gluon_blocks

CLASSES = gluon_blocks.networks(mx)
Affine = CLASSES["Affine"]


def test_names_and_graphs_are_those_of_mxnet(oracle):
    assert_like(gluon_blocks.names(mx), oracle.call("mx_gluon.names"))


def test_errors_are_those_of_mxnet(oracle, tmp_path):
    """Their classes, and how their texts begin, which scripts match."""
    assert_like(gluon_blocks.errors(mx, str(tmp_path)),
                oracle.call("mx_gluon.errors", str(tmp_path)))


def test_scopes_are_those_of_their_thread():
    block, prefixes = Affine(2, prefix="net_"), []
    with block.name_scope():
        thread = threading.Thread(target=lambda: prefixes.append(Affine(2, prefix="own_").prefix))
        thread.start()
        thread.join()
        prefixes.append(Affine(2, prefix="own_").prefix)
    assert prefixes == ["own_", "net_own_"]


def test_a_scope_ends_with_an_error():
    with pytest.raises(KeyError), Affine(2, prefix="net_").name_scope():
        raise KeyError
    assert Affine(2, prefix="own_").prefix == "own_"
    assert mx.sym.relu(mx.sym.var("x"), name="r").name == "r"


def test_hooks_are_called_until_they_are_detached():
    net, calls = gluon_blocks.made(mx), []
    x = mx.nd.array(gluon_blocks.data())
    before = net.register_forward_pre_hook(lambda block, args: calls.append((block, args)))
    after = net.register_forward_hook(lambda block, args, out: calls.append((block, args, out)))
    out = net(x)
    assert [len(each) for each in calls] == [2, 3] and calls[1] == (net, (x,), out)
    before.detach()
    with after:
        net(x)
    net(x)
    assert len(calls) == 3
    hook = print
    net.register_forward_hook(hook)
    with pytest.raises(AssertionError, match="The same hook"):
        net.register_forward_hook(hook)


def test_a_hook_may_detach_itself():
    net, calls = gluon_blocks.made(mx), []
    handles = [net.register_forward_hook(lambda *each: (calls.append(0), handles[0].detach())),
               net.register_forward_hook(lambda *each: calls.append(1))]
    for _ in range(2):
        net(mx.nd.array(gluon_blocks.data()))
    assert calls == [0, 1, 1]


def test_unregistered_blocks_are_warned_of():
    class Listed(mx.gluon.Block):
        def __init__(self):
            super().__init__()
            self.known = Affine(2)
            self.lists, self.dicts = [self.known, [Affine(1)]], {"a": Affine(1)}
            self.fine = [self.known]

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        names = [*Listed().collect_params()]
    assert [str(each.message).partition(" is")[0] for each in caught] == [
        '"Listed.lists"', '"Listed.dicts"']
    assert len(names) == 2


def test_apply_reaches_children_first():
    net, order = gluon_blocks.made(mx), []
    assert net.apply(lambda block: order.append(block.name)) is net
    assert order == ["net_affine0_act", "net_affine0", "net_normalized0", "net_last", "net"]


def test_a_summary_counts_shared_parameters_once(capsys):
    net = gluon_blocks.shared(mx, "net_")
    net.initialize()
    net.summary(mx.nd.ones((2, 4)))
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "Input (2, 4) 0" in lines and "Affine-2 (2, 4) 20" in lines
    assert lines[-4:-1] == ["Non-trainable params: 0",
                            "Shared params in forward computation graph: 20",
                            "Unique parameters in model: 20"]


def test_summaries_are_those_of_mxnet(oracle):
    assert_like(gluon_blocks.summary(mx), oracle.call("mx_gluon.summary"))


class Chain(mx.gluon.HybridBlock):
    """A block that pickle finds."""

    def __init__(self, depth, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.weight = self.params.get("weight", shape=(4, 0), allow_deferred_init=True)
            self.inner = Chain(depth - 1) if depth else None

    def hybrid_forward(self, F, x, weight):
        x = F.FullyConnected(x, weight, no_bias=True, num_hidden=4)
        return x if self.inner is None else self.inner(x)


@pytest.mark.parametrize("hybridized", [False, True])
@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))])
def test_copies_compute_and_learn_alone(duplicate, hybridized):
    """MXNet refuses to copy a block that has been called hybridized."""
    net, x = Chain(2, prefix="net_"), mx.nd.array(gluon_blocks.data())
    net.initialize()
    net.hybridize(hybridized)
    output = net(x).asnumpy()
    twin = duplicate(net)
    assert twin._active == hybridized and [*twin.collect_params()] == [*net.collect_params()]
    assert twin.weight is twin.collect_params()["net_weight"] is not net.weight
    with mx.autograd.record():
        value = twin(x).sum()
    value.backward()
    assert twin.weight.grad().asnumpy().any() and not net.weight.grad().asnumpy().any()
    twin.weight.set_data(mx.nd.zeros((4, 4)))
    assert (net(x).asnumpy() == output).all() and not twin(x).asnumpy().any()
    assert twin.inner.name_scope()._block is twin.inner
    assert isinstance(twin.inner.name_scope(), mx.gluon.block._BlockScope)  # MXNet's name
