"""Parameters on a GPU that no machine has: what fails, and when."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Facts = dict[str, Any]


def attempt(call: Callable[[], Any]) -> str:
    """The text of a result; of an error, whether parameters still wait for their shape."""
    try:
        return str(call())
    except Exception as error:
        deferred = type(error).__name__ == "DeferredInitializationError"
        return "waits" if deferred else "fails"


def answers(mx: Any) -> Facts:
    """Outcomes of calls on parameters, and on blocks of which a part has known shapes."""
    absent, ones = mx.gpu(99), mx.nd.ones((2, 3))
    return {**waiting(mx, absent, ones), **known(mx, absent), **blocks(mx, absent, ones)}


def waiting(mx: Any, absent: Any, ones: Any) -> Facts:
    each = mx.gluon.Parameter("w", shape=(2, 0), allow_deferred_init=True)
    found = {"deferred": attempt(lambda: each.initialize(ctx=[absent, mx.cpu()]))}
    found["devices"] = attempt(each.list_ctx)
    for name in ("data", "list_data", "grad", "list_grad"):
        found[name] = attempt(getattr(each, name))
    found["values"] = attempt(lambda: each.set_data(ones))
    found["moved"] = [attempt(lambda ctx=ctx: each.reset_ctx(ctx)) + attempt(each.list_ctx)
                      for ctx in (absent, mx.cpu(1))]
    each._finish_deferred_init()
    found["made"] = each.data().asnumpy().tolist(), attempt(each.list_ctx)
    return found


def known(mx: Any, absent: Any) -> Facts:
    each = mx.gluon.Parameter("w", shape=(2, 3))
    return {"known": [attempt(lambda: each.initialize(ctx=absent)), attempt(each.data),
                      attempt(each.list_ctx), attempt(lambda: each.initialize(ctx=mx.cpu(1))),
                      attempt(each.list_ctx), attempt(lambda: each.reset_ctx(absent))]}


def blocks(mx: Any, absent: Any, ones: Any) -> Facts:
    nn, found = mx.gluon.nn, {}
    for name, net in {"all unknown": nn.BatchNorm(), "weight unknown": nn.Dense(3),
                      "no bias": nn.Dense(3, use_bias=False)}.items():
        facts = [attempt(lambda net=net: net.initialize(ctx=absent))]
        facts += [attempt(parameter.list_ctx) for parameter in net.collect_params().values()]
        facts += [attempt(lambda net=net: net(ones).shape)]
        facts += [attempt(lambda net=net: net.initialize(ctx=mx.cpu()))]
        found[name] = [*facts, attempt(lambda net=net: net(ones).shape)]
    return found
