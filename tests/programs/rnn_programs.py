"""Expressions over `mx.rnn` with equal results in nbmod and MXNet; imports neither of them.

Each line is evaluated under a fresh NameManager, in a namespace with `R` (`mx.rnn`), `sym`, `nd`,
the variables `x` and `y`, and the helpers of `Programs`.  A result is plain data: symbols become
their JSON, an exception becomes "error".
"""

from __future__ import annotations

import hashlib
import itertools
import warnings
from typing import Any

import numpy as np

from tests.programs.symbol_programs import plain

CELLS = """
R.RNNCell(5)
R.RNNCell(5, 'relu', 'x_')
R.RNNCell(5, activation='softsign')
R.LSTMCell(5)
R.LSTMCell(5, 'x_', forget_bias=2)
R.GRUCell(5)
R.FusedRNNCell(5)
R.FusedRNNCell(5, 2, 'gru', get_next_state=True)
R.FusedRNNCell(5, 2, 'rnn_relu', True, .3, True)
R.FusedRNNCell(5, 1, 'rnn_tanh', True, .3, prefix='f_', forget_bias=3)
R.FusedRNNCell(5, 2, bidirectional=True, dropout=.5).unfuse()
R.FusedRNNCell(5, 3, 'gru', dropout=.5, prefix='g_').unfuse()
R.FusedRNNCell(5, 2, 'rnn_relu').unfuse()
R.FusedRNNCell(5, 2, 'rnn_tanh', forget_bias=2.).unfuse()
stack(R.LSTMCell(4, 'a_'), R.DropoutCell(.5), R.GRUCell(3, 'b_'))
stack(R.DropoutCell(.5), R.RNNCell(3), R.DropoutCell(0))
stack(R.FusedRNNCell(4, prefix='a_'), R.DropoutCell(.5), R.FusedRNNCell(3, prefix='b_'))
stack(R.LSTMCell(4, 'a_'), R.FusedRNNCell(3, prefix='b_', get_next_state=True), R.GRUCell(3))
stack()
R.BidirectionalCell(R.LSTMCell(4, 'l_'), R.GRUCell(3, 'r_'))
R.BidirectionalCell(R.RNNCell(4, prefix='l_'), R.RNNCell(4, prefix='r_'), output_prefix='o_')
R.BidirectionalCell(stack(R.RNNCell(4, prefix='l_'), R.GRUCell(2)), R.RNNCell(4, prefix='r_'))
R.BidirectionalCell(R.FusedRNNCell(4, prefix='l_'), R.FusedRNNCell(4, prefix='r_'))
R.BidirectionalCell(R.FusedRNNCell(4, prefix='l_'), R.LSTMCell(4, prefix='r_'))
R.BidirectionalCell(R.ResidualCell(R.GRUCell(4, 'l_')), R.DropoutCell(.2))
R.DropoutCell(.5)
R.DropoutCell(0)
R.ZoneoutCell(R.LSTMCell(4), .3, .2)
R.ZoneoutCell(R.LSTMCell(4), .3)
R.ZoneoutCell(R.GRUCell(4), zoneout_states=.2)
R.ZoneoutCell(R.RNNCell(4))
R.ZoneoutCell(R.FusedRNNCell(4))
R.ZoneoutCell(stack(R.RNNCell(4)), .5, .5)
R.ZoneoutCell(R.BidirectionalCell(R.RNNCell(4, prefix='l_'), R.RNNCell(4)), .5, .5)
R.ZoneoutCell(R.ResidualCell(R.RNNCell(4)), .5)
R.ResidualCell(R.LSTMCell(4))
R.ResidualCell(R.ResidualCell(R.GRUCell(4)))
R.ResidualCell(R.FusedRNNCell(4))
R.ResidualCell(R.FusedRNNCell(4, get_next_state=True))
R.ResidualCell(R.DropoutCell(.5))
R.ResidualCell(stack(R.LSTMCell(4, 'a_'), R.ResidualCell(R.GRUCell(4))))
R.ResidualCell(R.BidirectionalCell(R.RNNCell(2, prefix='l_'), R.RNNCell(2, prefix='r_')))
R.ModifierCell(R.LSTMCell(4))
stack(R.ZoneoutCell(R.LSTMCell(4), .5), R.ResidualCell(R.LSTMCell(4, 'b_')), R.DropoutCell(.5))
R.ConvRNNCell((2, 3, 8, 8), 4)
R.ConvRNNCell((2, 3, 9, 8), 4, (5, 3), (2, 1), (2, 2), (2, 1), (0, 2), (1, 2), prefix='c_')
R.ConvRNNCell((2, 3, 8, 8), 4, activation='tanh', conv_layout='NCHW')
R.ConvRNNCell((2, 8, 8, 3), 4, conv_layout='NHWC')
R.ConvRNNCell((2, 3, 8, 8), 4, i2h_weight_initializer='xavier', h2h_bias_initializer='ones')
R.ConvRNNCell((2, 3, 8, 8), 4, h2h_weight_initializer=mx.init.One(), i2h_bias_initializer=None)
R.ConvRNNCell((2, 3, 8, 8), 4, h2h_kernel=(2, 3))
R.ConvRNNCell((2, 3, 8, 8), 4, params=R.RNNParams('q_'))
R.ConvLSTMCell((2, 3, 8, 8), 4)
R.ConvLSTMCell((2, 3, 8, 8), 4, prefix='c_', activation='relu')
R.ConvLSTMCell((2, 8, 8, 3), 4, conv_layout='NHWC')
R.ConvGRUCell((2, 3, 8, 8), 4)
R.ConvGRUCell((2, 3, 8, 8), 4, prefix='c_', activation='softrelu')
R.ResidualCell(R.ConvLSTMCell((2, 4, 8, 8), 4))
stack(R.ConvRNNCell((2, 3, 8, 8), 4), R.ConvGRUCell((2, 4, 8, 8), 4))
R.LSTMCell(5, params=R.RNNParams('q_'))
R.BaseRNNCell('b_')
""".strip().splitlines()

UNROLLED = [f"cell.unroll({length}, {inputs}, layout={layout!r}, merge_outputs={merge})"
            for length, inputs in ((2, "x"), (2, "[x, y]"), (1, "x"), (1, "[x]"))
            for layout, merge in itertools.product(("NTC", "TNC"), (None, True, False))
            if length == 2 or merge is None]

USES = [
    *UNROLLED,
    "cell(x, cell.begin_state())",
    "cell(x, cell.begin_state(batch_size=7))",
    "[cell.unroll(2, x), cell.unroll(1, y)]",
    "[cell(x, cell.begin_state()), cell(y, cell.begin_state())]",
    "cell.unroll(2, x, begin_state=cell.begin_state(batch_size=7, dtype='float64'))",
    "cell.unroll(2, x, cell.begin_state(func=sym.ones, dtype='int32'))",
    "cell.unroll(2, x, cell.begin_state(func=sym.Variable))",
    "cell.begin_state(func=recorded)",
    "cell.begin_state(init_sym=recorded)",
    "cell.begin_state(func=recorded, mood=1)",
    "cell.begin_state(recorded, batch_size=7)",
    "(cell.state_info, cell.state_shape)",
    "cell._gate_names",
    "cell._prefix",
    "(cell.params._prefix, sorted(cell.params._params))",
    "(cell._own_params, cell.params and 0, cell._own_params, cell._modified)",
    "[cell.params.get('i2h_weight'), cell.params.get('mine', init='zeros', shape=(2, 3))]",
    "R.BidirectionalCell(cell, R.GRUCell(3, 'gg_')).unroll(2, x)",
    "R.SequentialRNNCell(cell.params).add(cell)",
    "cell.unfuse()._cells and 0",
]

ALONE = """
R.RNNParams().get('w')
R.RNNParams('p_').get('w', shape=(2, 3), lr_mult=2, init='zeros')
same(R.RNNParams('p_'))
shared(R.RNNCell(3, prefix='a_', params=p), R.RNNCell(3, prefix='b_', params=p))
shared(R.LSTMCell(3, 'a_', p), R.LSTMCell(3, 'b_', p))
stack(R.RNNCell(3), R.LSTMCell(3), params=p).unroll(2, x)
stack(R.DropoutCell(.5), params=p).unroll(2, x)
stack(R.RNNCell(3, params=p), params=p)
sorted(stack(R.RNNCell(3), R.LSTMCell(3)).params._params)
R.BidirectionalCell(R.DropoutCell(.5), R.DropoutCell(.2), p).unroll(1, x)
R.BidirectionalCell(R.RNNCell(3), R.RNNCell(3), p)
R.BidirectionalCell(R.RNNCell(3, params=p), R.RNNCell(3), p)
R.RNNCell(3).unroll(2, [x])
R.RNNCell(3).unroll(3, [x, y])
R.RNNCell(3).unroll(2, sym.Group([x, y]))
R.RNNCell(3).unroll(2, sym.Group([x, y]), layout='TNC')
R.RNNCell(3).unroll(2, (x, y))
R.RNNCell(3).unroll(2, x, layout='NCT')
R.RNNCell(3).unroll(2, x, layout='TN')
R.RNNCell(3).unroll(2, [x, y], layout='CTN', merge_outputs=True)
R.RNNCell(3).unroll(0, [])
R.RNNCell(3).unroll(2, 3)
R.RNNCell(3)(x, [])
R.RNNCell(3)(x, [x, y])
R.LSTMCell(3)(x, [x])
R.LSTMCell(3)(x, [x, y])
R.LSTMCell(3).begin_state(func=recorded, shape=(1, 2), __layout__='X')
R.LSTMCell(3).begin_state(func=recorded, name='mine')
R.RNNCell('a').unroll(1, x)
R.DropoutCell('a')
R.DropoutCell(np.float32(.5)).unroll(1, x)
R.FusedRNNCell(5, mode='lstmp').unroll(2, x)
[R.FusedRNNCell(5, mode=m)._gate_names for m in ('rnn_relu', 'rnn_tanh', 'lstm', 'gru')]
[R.FusedRNNCell(5, mode=m)._num_gates for m in ('rnn_relu', 'rnn_tanh', 'lstm', 'gru')]
[R.FusedRNNCell(5, bidirectional=b)._directions for b in (False, True)]
[R.FusedRNNCell(5, 3, bidirectional=True).state_info, R.FusedRNNCell(5, 3, 'gru').state_shape]
[[c._prefix for c in R.FusedRNNCell(5, 3, dropout=d).unfuse()._cells] for d in (0, .5)]
[R.ConvLSTMCell((2, 3, 8, 8), 4)] and sym.Convolution(x, kernel=(1, 1), num_filter=1)
[R.ConvGRUCell((1, 3, 8, 8), 4)._num_gates, R.ConvLSTMCell((1, 3, 8, 8), 4)._num_gates]
R.ConvRNNCell((3, 8, 8), 4)
used_base(R.LSTMCell(3))
used_base(R.FusedRNNCell(3, get_next_state=True))
modified(R.LSTMCell(3))
fused_parameter()
custom_cell()
"""


def lines(subject: str) -> list[str]:
    """The expressions of a subject: a cell (its index as text), or "alone"."""
    if subject == "alone":
        return ALONE.strip().splitlines()
    return [use.replace("cell", f"({CELLS[int(subject)]})", 1) if use.count("cell") == 1
            else f"[{use} for cell in [{CELLS[int(subject)]}]]" for use in USES]


SUBJECTS = [*map(str, range(len(CELLS))), "alone"]


def digests(mx: Any) -> dict[str, list[str]]:
    """The results of `mx` for every line of every subject, each as a hash or "error"."""
    return {subject: [digest(answer(mx, line)) for line in lines(subject)] for subject in SUBJECTS}


def digest(value: Any) -> str:
    """Equal for equal results; "error" for that."""
    return value if value == "error" else hashlib.sha256(repr(value).encode()).hexdigest()


def answer(mx: Any, expression: str) -> Any:
    """The value of an expression as plain data, or "error"."""
    with mx.name.NameManager(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return plain(mx, eval(expression, namespace(mx)))
        except Exception:
            return "error"


def namespace(mx: Any) -> dict[str, Any]:
    """The names an expression may use."""
    programs = Programs(mx)
    known = {"mx": mx, "R": mx.rnn, "sym": mx.sym, "nd": mx.nd, "np": np,
             "p": mx.rnn.RNNParams("p_"), "x": mx.sym.Variable("x"), "y": mx.sym.Variable("y")}
    known.update({name: getattr(programs, name) for name in vars(Programs) if name[0] != "_"})
    return known


class Programs:
    """Programs that need more than one expression."""

    def __init__(self, mx: Any) -> None:
        self._mx = mx

    def stack(self, *cells: Any, **options: Any) -> Any:
        stacked = self._mx.rnn.SequentialRNNCell(**options)
        for cell in cells:
            stacked.add(cell)
        return stacked

    def recorded(self, *args: Any, **kwargs: Any) -> Any:
        return [args, sorted(kwargs.items())]

    def same(self, params: Any) -> Any:
        return params.get("w") is params.get("w", shape=(2, 3))

    def shared(self, *cells: Any) -> Any:
        outputs = [cell.unroll(1, self._mx.sym.Variable("x"))[0][0] for cell in cells]
        return self._mx.sym.Group(outputs)

    def used_base(self, cell: Any) -> Any:
        """Whether a modified cell still has initial states."""
        self._mx.rnn.ResidualCell(cell)
        return cell.begin_state()

    def modified(self, cell: Any) -> Any:
        residual = self._mx.rnn.ResidualCell(cell)
        return [residual.begin_state(), cell._modified, residual._modified]

    def fused_parameter(self) -> Any:
        cell = self._mx.rnn.FusedRNNCell(3)
        return cell._parameter, cell._parameter.attr_dict()

    def custom_cell(self) -> Any:
        """A cell as users write them, with one state per input and its activation by name."""
        sym = self._mx.sym

        class Accumulator(self._mx.rnn.BaseRNNCell):
            def __init__(self, prefix: str) -> None:
                super().__init__(prefix=prefix)
                self._scale = self.params.get("scale", init="ones")

            @property
            def state_info(self) -> Any:
                return [{"shape": (0, 3), "__layout__": "NC"}]

            def __call__(self, inputs: Any, states: Any) -> Any:
                self._counter += 1
                total = inputs * self._scale + states[0]
                name = f"{self._prefix}t{self._counter}_out"
                return self._get_activation(total, "tanh", name=name), [total]

        cell = Accumulator("mine_")
        args = {"mine_scale": self._mx.nd.ones((3,))}
        return (cell.unroll(3, sym.Variable("x"), merge_outputs=True), cell.state_shape,
                sorted(cell.unpack_weights(args)), sorted(cell.pack_weights(args)))
