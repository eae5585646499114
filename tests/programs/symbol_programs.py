"""Expressions over `mx.sym` with equal results in nbmod and MXNet; imports neither of them.

Each line is evaluated under a fresh NameManager, in a namespace with `mx`, `sym`, `np`, `nd`, the
variables `a b c x`, and the helpers below.  A result is plain data: symbols become their JSON, an
exception becomes "error".
"""

from __future__ import annotations

import copy
import pickle
import warnings
from typing import Any

import numpy as np

COMPOSITION = """
fc(name='fc')
fc()
fc(name='fc', lr_mult=3, wd_mult='7', ctx_group='dev1')
fc(name='fc', attr={'__mood__': '1', 'lr_mult': '5'}, lr_mult=3)
fc(name='fc', __init__='zeros')
fc(name='fc', num_hiden=3)
fc(name='fc', attr={'mood': 'happy'})
fc(name='fc', weight_lr_mult=3)
sym.FullyConnected(x)
sym.FullyConnected(x, num_hidden='abc')
sym.FullyConnected(x, num_hidden=4.5)
sym.FullyConnected(num_hidden=4, name='a')
sym.FullyConnected(datta=x, num_hidden=4)
sym.FullyConnected(x, a, b, num_hidden=4, no_bias=True)
sym.FullyConnected(3, num_hidden=4)
sym.FullyConnected(x, a, b, 4, False, True, 'positional')
sym.FullyConnected(bias=b, data=x, num_hidden=4, name='kw')
sym.Activation(x, 'relu', 'named')
sym.Activation(x, 'rellu')
sym.Convolution(x, kernel=[3, 3], num_filter=np.int64(4), stride=(np.int32(1), 1), name='c')
sym.Convolution(x, kernel=(3, 3), num_filter=2, no_bias=True)
sym.clip(x, np.float32(.1), 1)
sym.clip(x, 0, 6, out=None, attr=None)
[sym.Cast(x, dtype=d) for d in ('float32', np.float16, float, int, bool, np.dtype('int8'), 'float')]
sym.Concat(x, a, b, dim=1, name='s')
sym.Concat(x, x, num_args=2)
sym.Concat(x, x, num_args=3, name='s')
sym.Concat(x, x, num_args=1)
sym.Concat([x, x])
sym.Concat(num_args=2, name='s')
sym.Concat()
sym.Concat(arg1=x, arg0=a, name='s')
sym.Concat(arg1=x, num_args=3, name='s')
sym.Concat(x, arg1=a)
sym.Concat(data=x)
sym.add_n(x, x)
sym.ElementWiseSum(x, a)
sym.stack(x, x, axis=1)
sym.exp(sym.SliceChannel(x, num_outputs=3))
sym.Concat(sym.SliceChannel(x, num_outputs=3))
sym.Concat(*sym.SliceChannel(x, num_outputs=3, name='sl'))
sym.SliceChannel(x, num_outputs=3) + 1
sym.exp(sym.Group([a]))
sym.BatchNorm(x, name='bn')
sym.BatchNorm(x, name='bn', eps=1e-5, lr_mult=3)
sym.BatchNorm(x, name='bn', __init__='zeros')
sym.BatchNorm(x, moving_var=sym.var('mv'), name='bn')
sym.BatchNorm(x, moving_var=sym.var('mv', init='mine'), name='bn')
sym.BatchNorm(x, moving_mean=x * 2)
sym.exp(sym.BatchNorm(x, output_mean_var=True))
sym.BatchNorm(sym.BatchNorm(x, moving_mean=a, name='b1') + a, moving_mean=a, name='b2')
sym.LeakyReLU(x, act_type='prelu', name='lr')
sym.LeakyReLU(x, act_type='leaky', slope=.1)
sym.UpSampling(x, scale=2, sample_type='bilinear', num_filter=3, num_args=2, name='up')
sym.UpSampling(x, a * 1, scale=2, sample_type='nearest')
sym.Pooling(x, kernel=(2, 2), pool_type='avg')
sym.Pooling(x, kernel=(2, 2), pool_type='max')
sym.Dropout(x)
sym.exp(x, foo=a)
sym.exp(x, force_mirroring='True', mirror_stage='1')
sym.exp(x, name='')
sym.exp(x, 'n', None, None, 4, 5)
sym.elemwise_add(lhs=a, rhs=b)
sym.elemwise_add(a, b, name='q').attr('name')
sym.softmax(x, axis=-1)
sym.Reshape(x, shape=(0, -1))
sym.reshape(x, (1, -1))
sym.SwapAxis(x, 0, 1)
"""

NAMES = """
[f(x).name for f in (sym.relu, sym.exp, sym.Flatten, sym.flatten, sym.BlockGrad, sym.stop_gradient)]
[f(x, x).name for f in (sym.Concat, sym.concat, sym.ElementWiseSum, sym.add_n, sym.broadcast_add)]
[f(x, a).name for f in (sym.broadcast_plus, sym.dot, sym.Softmax, sym.SoftmaxOutput)]
[f(x).name for f in (sym.identity, sym._internal._copy, sym.sum_axis, sym.SwapAxis, sym.swapaxes)]
[sym._internal._Plus(x, x).name, sym._internal._PlusScalar(x, scalar=2).name]
[sym._internal._plus_scalar(x, scalar=2).name, (x + 1).name, sym.op.exp(x).name]
[sym.random.uniform().name, sym.random.normal(0, 1, shape=(2,)).name, sym.random_uniform().name]
[sym.exp(x).name for _ in range(12)]
[(x + x).name for _ in range(3)] + [(x + 1).name, (1 - x).name, (x - 1).name, (2 ** x).name]
prefixed('p_')
[sym.exp(x).name, nested(), sym.exp(x).name]
again()
sym.FullyConnected(x, num_hidden=2).list_arguments()
mx.name.NameManager.current.get(None, 'hint'), mx.name.NameManager.current.get('given', 'hint')
mx.name.Prefix('a_').get(None, 'h'), mx.name.Prefix('a_').get('n', 'h')
sym.SliceChannel(x, num_outputs=3, name='s').list_outputs()
sym.SliceChannel(x, num_outputs=1, name='s').list_outputs()
sym.BatchNorm(x, name='bn').list_outputs()
sym.BatchNorm(x, name='bn', output_mean_var=True).list_outputs()
x.list_outputs()
"""

OPERATORS = """
[x + a, x - a, x * a, x / a, x % a, x ** a]
[x == a, x != a, x > a, x >= a, x < a, x <= a]
[x + 2, x - 2, x * 2, x / 2, x % 2, x ** 2]
[2 + x, 2 - x, 2 * x, 2 / x, 2 % x, 2 ** x]
[x == 2, x != 2, x > 2, x >= 2, x < 2, x <= 2]
[2 == x, 2 != x, 2 > x, 2 >= x, 2 < x, 2 <= x]
[-x, abs(x)]
[x * s for s in (1, 2.0, 1e-5, np.float32(.1), np.float64(.1), np.int32(3), 1e20, 1 / 3, 2 ** 40)]
[np.float32(2) * x, np.float64(2) - x, np.int64(2) ** x]
x + [1]
x + np.ones((1,))
np.ones(2) + x
x + 'a'
x + None
x == None
bool(x)
hash(x)
x @ x
x // 2
+x
inplace('x += 1')
inplace('x /= 1')
inplace('x %= 2')
[sym.pow(x, a), sym.pow(x, 2), sym.pow(2, x)]
[sym.maximum(x, a), sym.maximum(x, 2), sym.maximum(2, x)]
[sym.minimum(x, a), sym.minimum(x, 2), sym.minimum(2, x)]
[sym.hypot(x, a), sym.hypot(x, 2), sym.hypot(2, x)]
[sym.pow(2, 3), sym.power(2, 3), sym.maximum(2, 3), sym.minimum(2, 3), sym.hypot(3, 4)]
sym.maximum('a', x)
[sym.zeros((2, 3)), sym.zeros((2, 3), dtype='float16', name='q'), sym.ones(3)]
[sym.full((2, 3), 1), sym.full((2, 3), 1.5, dtype=np.int32, name='z')]
[sym.arange(5), sym.arange(1, 5, 2, 3, dtype='int32', name='ar')]
sym.zeros((2, 3), attr={'__a__': 'b'})
sym.histogram(x)
sym.split_v2(x, 'a')
"""

FLUENT = """
[x.reshape(shape=(1, -1)), x.reshape((1, -1)), x.flatten(), x.flatten(inplace=True)]
[x.expand_dims(1), x.expand_dims(1, inplace=True), x.squeeze(), x.squeeze(axis=(0, 1))]
[x.astype('float16'), x.astype(dtype=np.float16)]
[x.sum(), x.sum(1), x.sum(axis=1, name='s'), x.mean(), x.max(axis=0), x.prod()]
[x.slice((0,), (1,)), x.slice_axis(0, 1, None), x.slice_like(a), x.transpose(), x.transpose((1, 0))]
[x.split(2), x.clip(0, 1), x.flip(1), x.tile((1, 2)), x.repeat(2), x.pick(a), x.take(a)]
[x.log(), x.sqrt(), x.relu(), x.sigmoid(), x.softmax(), x.log_softmax(), x.zeros_like()]
[x.one_hot(3), x.argmax(axis=1), x.pad('constant', (0, 0))]
x.reshape(1, -1)
x.dot(a)
x.asnumpy()
x.copy()
x.detach()
x.T
x.shape
"""

STRUCTURE = """
names(net(x=pre))
names(net(x=pre, name='new'))
names(net(y=b))
names(net(3))
names(net())
names(net(name='zz'))
names(net(sym.Group([a, b])))
names(net(pre, x=b))
names(sym.Group([fc(name='fc'), net])(x=pre))
names(sym.Group([x, fc(name='fc')])(x=pre))
names(sym.Group([fc(name='f'), net])(x=pre, name='gg'))
names(sym.SliceChannel(x, num_outputs=2, name='sl')(x=pre))
names(net(x=x))
names(net(x=sym.var('fc_weight')))
names(sym.Group([net, net(x=pre)]))
names(net)
names(sym.BatchNorm(x, name='bn')(bn_moving_mean=a))
names(sym.BatchNorm(x, name='bn')(bn_moving_mean=a * 2))
names(net(x=a * 2)(a=b * 3))
names((a - b)(a=b, b=a))
x(x=pre)
[g[0].name, g[1].name, g[True].name, g['fc_output'].name, x['x'].name]
g[3]
g['fc_weight']
g[1.0]
[names(g[0:2]), names(g[:]), names(g[::2]), names(g[1:2])]
g[1:1]
sym.Group([net, net])['act_output']
[s.name for s in g]
[len(g), len(x), len(bn), len(sym.BatchNorm(x))]
bn.get_internals().list_outputs()
[net.get_internals()[n].name for n in ('fc_output', 'act_output', 'x')]
net.get_internals()['fc']
names(net.get_internals())
[net.get_children().list_outputs(), g.get_children().list_outputs(), x.get_children()]
names(sym.Group([g, x]))
sym.Group([])
sym.Group([x, 3])
sym.Group(x)
names(sym.Group((x, a)))
[repr(s) for s in (x, net, g, sym.Group([x]), sym.SliceChannel(x, num_outputs=2, name='q')[1])]
[s.name for s in (x, net, g, sym.Group([x]), sym.SliceChannel(x, num_outputs=2, name='q'))]
names(sym.BatchNorm(x, moving_mean=a, name='bn') + a)
names(sym.var('d') + sym.var('d'))
pickle.loads(pickle.dumps(bn))
names(copy.copy(g)), names(copy.deepcopy(g))
copied()
bn.debug_str()
sym.Group([sym.SliceChannel(x, num_outputs=2, name='q')[1] + 1, net]).debug_str()
x.debug_str()
net.list_inputs(), net.list_arguments(), bn.list_auxiliary_states(), bn.list_inputs()
net.gradient(['x'])
"""

ATTRIBUTES = """
sym.var('y', shape=(2, 3), lr_mult=2, wd_mult=.5, dtype='float16', stype='row_sparse', __foo__='b')
sym.var('y', foo='bar')
sym.var('y', __foo__=3)
sym.var('y', attr={'a': 'b', 'lr_mult': '3', '__x__': 'q', 'ctx_group': 'g'}, lr_mult=2)
sym.var('y', attr={'a': 3})
sym.var(3)
sym.var('')
[sym.var('y', dtype=d).attr('__dtype__') for d in ('float32', np.float64, 'uint8', np.int32, bool)]
sym.var('y', dtype='complex64')
sym.var('y', init='zeros')
[sym.var('y', shape=s).attr('__shape__') for s in ((2,), (2, 3), [2, 3], (0, 3), (-1, 3), ())]
sym.var('y', attr={'weight_lr_mult': '3'})
conv.attr_dict()
[conv.attr(k) for k in ('kernel', '__m__', 'm', 'lr_mult', '__lr_mult__', 'nope', 'name')]
[x.attr('shape'), g.attr('num_hidden'), bn.attr('output_mean_var'), g.list_attr()]
conv.list_attr(recursive=True)
set_attr(sym.var('v'), a='b', lr_mult='3')
set_attr(sym.exp(x), a='b')
set_attr(sym.clip(x, 0, 1), a_min='0.5')
set_attr(sym.clip(x, 0, 1), a_min='zzz')
set_attr(sym.clip(x, 0, 1), weight_lr_mult='3')
set_attr(sym.exp(x), a=3)
set_attr(g, __a__='b')
mx.AttrScope(a=3)
scoped("sym.var('v')")
scoped("sym.exp(x)")
scoped("fc(name='fc')")
scoped("sym.var('v', attr={'ctx_group': 'g2'})")
scoped("sym.exp(x, ctx_group='g3')")
scoped("sym.exp(x, attr={'ctx_group': 'g3'})")
scoped("sym.var('v', lr_mult=5)")
scoped("x + 1")
scoped("sym.zeros((2,))")
scoped("scoped_inner()")
mx.AttrScope.current.get(None), mx.AttrScope.current.get({'a': 'b'})
sym.var('a"b', attr={'__q__': 'v"w' + chr(92) + 'n'})
sym.var('tab' + chr(9) + 'line' + chr(10) + 'e' + chr(233) + chr(8364) + chr(1) + chr(127) + '/')
"""

INFERENCE = """
net.infer_shape(x=(2, 5))
net.infer_shape(y=(2, 5))
net.infer_shape()
net.infer_shape_partial()
net.infer_shape_partial(fc_weight=(3, 0))
net.infer_shape(x=(2, 5), fc_weight=(3, 4))
net.infer_shape(x=(0, 5))
net.infer_shape_partial(x=(0, 5))
net.infer_shape_partial(x=(-1, 5))
net.infer_shape(x=[2, 5])
net.infer_shape(x=5)
net.infer_shape(x=(np.int64(2), np.int32(5)))
net.infer_shape(x=(2.0, 5))
net.infer_shape((2, 5), x=(2, 5))
(a + b).infer_shape(a=(2, 5))
(a + b).infer_shape(a=(2, 5), b=(3, 4))
(sym.var('v', shape=(2, 3)) + a).infer_shape()
(sym.var('v', shape=(2, 3)) + a).infer_shape(v=(3, 3))
(sym.var('v', shape=(0, 3)) + a).infer_shape(a=(4, 3))
(sym.var('v', shape=()) + a).infer_shape(a=(4, 3))
(sym.var('v', shape=()) + a).infer_shape_partial()
(sym.var('v', attr={'__shape__': 'None'}) + a).infer_shape(a=(4, 3))
fc(sym.var('w', shape=())).infer_shape(x=(2, 5))
sym.BatchNorm(x, name='bn').infer_shape(x=(2, 3, 4, 4))
x.infer_shape(x=(1,))
sym.Group([net, a]).infer_shape(x=(2, 3))
sym.Group([net, a]).infer_shape_partial(x=(2, 3))
net.infer_type(x='float32')
net.infer_type(x=np.float16)
net.infer_type()
net.infer_type_partial()
net.infer_type(y='float32')
(a + b).infer_type(a='float32', b='float64')
(a + b).infer_type_partial()
(sym.var('v', dtype='float64') + a).infer_type()
(sym.var('v', dtype='float64') + a).infer_type(v='float32')
sym.Cast(x, dtype='float16').infer_type()
x.infer_type(x='zzz')
sym.BatchNorm(x, name='bn').infer_type(x='float16')
(sym.zeros((2,)) + a).infer_type()
"""

SUBJECTS = {
    "composition": COMPOSITION, "names": NAMES, "operators": OPERATORS, "fluent": FLUENT,
    "structure": STRUCTURE, "attributes": ATTRIBUTES, "inference": INFERENCE,
}  # fmt: skip


def lines(subject: str) -> list[str]:
    return [line for line in SUBJECTS[subject].splitlines() if line.strip()]


def answers(mx: Any, subject: str) -> list[Any]:
    """The results of `mx` for every line of a subject."""
    return [answer(mx, line) for line in lines(subject)]


def differences(mx: Any, subject: str, theirs: list[Any]) -> str:
    """Lines with other results in `mx`, with both results; "" when there are none."""
    wrong = []
    for line, want, got in zip(lines(subject), theirs, answers(mx, subject), strict=True):
        if got != want:
            wrong.append(f"{line}\n  MXNet: {str(want)[:2000]}\n  nbmod: {str(got)[:2000]}")
    return "\n".join(wrong)


def answer(mx: Any, expression: str) -> Any:
    with mx.name.NameManager(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return plain(mx, eval(expression, namespace(mx)))
        except Exception:
            return "error"


def plain(mx: Any, value: Any) -> Any:
    """Nested lists, dicts, strings, numbers and None."""
    if isinstance(value, mx.sym.Symbol):
        return value.tojson()
    if isinstance(value, (list, tuple)):
        return [plain(mx, item) for item in value]
    if isinstance(value, dict):
        return {key: plain(mx, item) for key, item in value.items()}
    if isinstance(value, type):
        return np.dtype(value).name
    return value


def namespace(mx: Any) -> dict[str, Any]:
    """The names an expression may use."""
    sym = mx.sym
    a, b, c, x = (sym.Variable(name) for name in "abcx")

    def fc(**kwargs: Any) -> Any:
        return sym.FullyConnected(x, num_hidden=3, **kwargs)

    with mx.name.NameManager():
        net = sym.Activation(fc(name="fc"), act_type="relu", name="act")
        pre = sym.FullyConnected(a, num_hidden=4, name="pre")
        bn = sym.BatchNorm(net, name="bn", output_mean_var=True)
        conv = sym.Convolution(x, kernel=(3, 3), num_filter=2, name="cv", attr={"__m__": "1"},
                               lr_mult=2)  # fmt: skip
    known = {"mx": mx, "sym": sym, "np": np, "copy": copy, "pickle": pickle, "a": a, "b": b, "c": c,
             "x": x, "fc": fc, "net": net, "pre": pre, "bn": bn, "conv": conv,
             "g": sym.Group([net.get_internals()["fc_output"], net, pre])}  # fmt: skip
    programs = Programs(mx, known)
    known.update({name: getattr(programs, name) for name in vars(Programs) if name[0] != "_"})
    return known


class Programs:
    """Programs that need more than one expression."""

    def __init__(self, mx: Any, known: dict[str, Any]) -> None:
        self._mx, self._known = mx, known
        self._sym, self._x = mx.sym, known["x"]

    def names(self, s: Any) -> Any:
        return s.list_inputs(), s.list_outputs(), [i.name for i in s.get_internals()]

    def prefixed(self, prefix: str) -> Any:
        sym, x = self._sym, self._x
        with self._mx.name.Prefix(prefix):
            made = [sym.exp(x), sym.exp(x, name="q"), sym.var("v"), x + 1]
            with self._mx.name.NameManager():
                made.append(sym.exp(x))
            made.append(sym.exp(x))
        return [s.name for s in made]

    def nested(self) -> str:
        with self._mx.name.NameManager():
            return self._sym.exp(self._x).name

    def again(self) -> list[str]:
        manager, found = self._mx.name.NameManager(), []
        for _ in range(2):
            with manager:
                found += [self._sym.exp(self._x).name, self._sym.exp(self._x).name]
        return found

    def inplace(self, statement: str) -> Any:
        local = {"x": self._x}
        exec(statement, local)
        return local["x"]

    def copied(self) -> Any:
        net = self._known["net"]
        twin = copy.copy(net)
        twin._set_attr(__a__="b")
        return net.attr_dict(), twin.attr_dict()

    def set_attr(self, symbol: Any, **kwargs: Any) -> Any:
        symbol._set_attr(**kwargs)
        return symbol

    def scoped(self, expression: str) -> Any:
        with self._mx.AttrScope(ctx_group="g1", lr_mult="0.1", __data__="great"):
            return eval(expression, self._known)

    def scoped_inner(self) -> Any:
        with self._mx.AttrScope(ctx_group="inner"):
            inner = self._sym.var("v")
        return self._sym.Group([inner, self._sym.var("w")])
