"""A language model as in scripts before `mx.rnn`: an LSTM of single operators.

The initial states are inputs that the iterator provides, batches are a class of the script's own,
and the metric is a NumPy function. Nothing is drawn at random, so the figures are reproducible: it
prints one per epoch, and the last one again for a module that is loaded from a checkpoint.
"""

import argparse
import logging
from collections import namedtuple

import mxnet as mx
import numpy as np

LSTMState = namedtuple("LSTMState", ["c", "h"])
LSTMParam = namedtuple("LSTMParam", ["i2h_weight", "i2h_bias", "h2h_weight", "h2h_bias"])

TEXT = """the cat sat on the mat . the dog sat on the rug . a cat and a dog sat on a mat .
the rat saw the cat and ran . the cat saw the rat and ran . a dog ran on . the dog ran on the mat .
a rat sat . a cat ran . the rat ran on a rug and sat . the dog saw a rat and a cat on the rug ."""


def lstm(num_hidden, indata, prev_state, param, seqidx, layeridx):
    i2h = mx.sym.FullyConnected(data=indata, weight=param.i2h_weight, bias=param.i2h_bias,
                                num_hidden=num_hidden * 4, name="t%d_l%d_i2h" % (seqidx, layeridx))
    h2h = mx.sym.FullyConnected(data=prev_state.h, weight=param.h2h_weight, bias=param.h2h_bias,
                                num_hidden=num_hidden * 4, name="t%d_l%d_h2h" % (seqidx, layeridx))
    gates = mx.sym.SliceChannel(i2h + h2h, num_outputs=4, name="t%d_l%d_slice" % (seqidx, layeridx))
    in_gate = mx.sym.Activation(gates[0], act_type="sigmoid")
    in_transform = mx.sym.Activation(gates[1], act_type="tanh")
    forget_gate = mx.sym.Activation(gates[2], act_type="sigmoid")
    out_gate = mx.sym.Activation(gates[3], act_type="sigmoid")
    next_c = (forget_gate * prev_state.c) + (in_gate * in_transform)
    next_h = out_gate * mx.sym.Activation(next_c, act_type="tanh")
    return LSTMState(c=next_c, h=next_h)


def lstm_unroll(num_layers, seq_len, input_size, num_hidden, num_embed):
    embed_weight = mx.sym.Variable("embed_weight")
    cls_weight = mx.sym.Variable("cls_weight")
    cls_bias = mx.sym.Variable("cls_bias")
    params, states = [], []
    for i in range(num_layers):
        params.append(LSTMParam(*[mx.sym.Variable("l%d_%s" % (i, f)) for f in LSTMParam._fields]))
        states.append(LSTMState(c=mx.sym.Variable("l%d_init_c" % i),
                                h=mx.sym.Variable("l%d_init_h" % i)))
    label = mx.sym.Variable("softmax_label")
    embed = mx.sym.Embedding(data=mx.sym.Variable("data"), input_dim=input_size,
                             weight=embed_weight, output_dim=num_embed, name="embed")
    wordvec = mx.sym.SliceChannel(data=embed, num_outputs=seq_len, squeeze_axis=1)
    hidden_all = []
    for seqidx in range(seq_len):
        hidden = wordvec[seqidx]
        for i in range(num_layers):
            states[i] = lstm(num_hidden, hidden, states[i], params[i], seqidx, i)
            hidden = states[i].h
        hidden_all.append(hidden)
    hidden_concat = mx.sym.Concat(*hidden_all, dim=0)
    pred = mx.sym.FullyConnected(data=hidden_concat, num_hidden=input_size, weight=cls_weight,
                                 bias=cls_bias, name="pred")
    label = mx.sym.Reshape(data=mx.sym.transpose(data=label), shape=(-1,))
    return mx.sym.SoftmaxOutput(data=pred, label=label, name="softmax")


class SimpleBatch(object):
    def __init__(self, data_names, data, label_names, label, bucket_key):
        self.data = data
        self.label = label
        self.data_names = data_names
        self.label_names = label_names
        self.bucket_key = bucket_key
        self.pad = 0
        self.index = None

    @property
    def provide_data(self):
        return [(n, x.shape) for n, x in zip(self.data_names, self.data)]

    @property
    def provide_label(self):
        return [(n, x.shape) for n, x in zip(self.label_names, self.label)]


class SentenceIter(mx.io.DataIter):
    def __init__(self, text, buckets, batch_size, init_states):
        super(SentenceIter, self).__init__()
        self.vocab = {}
        self.buckets = sorted(buckets)
        self.batch_size = batch_size
        self.default_bucket_key = max(buckets)
        self.data = [[] for _ in buckets]
        for sentence in text.replace("\n", " ").split("."):
            words = [self.vocab.setdefault(w, len(self.vocab) + 1) for w in sentence.split()]
            for i, bucket in enumerate(self.buckets):
                if 0 < len(words) <= bucket:
                    self.data[i].append(words + [0] * (bucket - len(words)))
                    break
        self.init_states = init_states
        self.init_state_arrays = [mx.nd.zeros(shape) for _, shape in init_states]
        self.provide_data = [("data", (batch_size, self.default_bucket_key))] + init_states
        self.provide_label = [("softmax_label", (batch_size, self.default_bucket_key))]

    def __iter__(self):
        names = ["data"] + [name for name, _ in self.init_states]
        for bucket, rows in zip(self.buckets, self.data):
            for i in range(len(rows) // self.batch_size):
                data = np.array(rows[i * self.batch_size:(i + 1) * self.batch_size])
                label = np.zeros(data.shape)
                label[:, :-1] = data[:, 1:]
                yield SimpleBatch(names, [mx.nd.array(data)] + self.init_state_arrays,
                                  ["softmax_label"], [mx.nd.array(label)], bucket)

    def reset(self):
        pass


def Perplexity(label, pred):
    label = label.T.reshape((-1,))
    loss = 0.0
    for i in range(pred.shape[0]):
        loss += -np.log(max(1e-10, pred[i][int(label[i])]))
    return np.exp(loss / label.size)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--num-epoch", type=int, default=8)
    parser.add_argument("--gpus", default="")
    parser.add_argument("--prefix", required=True)
    args = parser.parse_args()
    logging.basicConfig(level=logging.DEBUG, format="%(message)s")
    batch_size, num_hidden, num_embed, num_layers = 2, 8, 6, 2
    contexts = [mx.gpu(int(i)) for i in args.gpus.split(",") if i] or [mx.cpu(0)]

    init_c = [("l%d_init_c" % i, (batch_size, num_hidden)) for i in range(num_layers)]
    init_h = [("l%d_init_h" % i, (batch_size, num_hidden)) for i in range(num_layers)]
    data_train = SentenceIter(TEXT, [4, 7, 11], batch_size, init_c + init_h)
    state_names = [name for name, _ in init_c + init_h]

    def sym_gen(seq_len):
        sym = lstm_unroll(num_layers, seq_len, len(data_train.vocab) + 1, num_hidden, num_embed)
        return sym, ["data"] + state_names, ["softmax_label"]

    model = mx.mod.BucketingModule(sym_gen, default_bucket_key=data_train.default_bucket_key,
                                   context=contexts)
    sym = sym_gen(data_train.default_bucket_key)[0]
    shapes = dict(data_train.provide_data + data_train.provide_label)
    rng = np.random.RandomState(7)
    arg_params = {name: mx.nd.array(rng.uniform(-0.3, 0.3, shape)) for name, shape in
                  zip(sym.list_arguments(), sym.infer_shape(**shapes)[0])
                  if name not in shapes}

    figures = []
    model.fit(data_train, eval_metric=mx.metric.np(Perplexity), num_epoch=args.num_epoch,
              arg_params=arg_params, aux_params={}, optimizer="sgd",
              optimizer_params={"learning_rate": 0.05, "momentum": 0.9, "wd": 0.00001},
              batch_end_callback=mx.callback.Speedometer(batch_size, 2, auto_reset=False),
              epoch_end_callback=mx.callback.do_checkpoint(args.prefix),
              eval_end_callback=lambda param: figures.append(param.eval_metric.get()[1]),
              eval_data=data_train)
    for figure in figures:
        print("perplexity %.4f" % figure)

    _, arg_params, aux_params = mx.model.load_checkpoint(args.prefix, args.num_epoch)
    again = mx.mod.BucketingModule(sym_gen, default_bucket_key=data_train.default_bucket_key)
    again.bind(data_train.provide_data, data_train.provide_label, for_training=False)
    again.set_params(arg_params, aux_params)
    print("loaded %.4f" % again.score(data_train, mx.metric.np(Perplexity))[0][1])


if __name__ == "__main__":
    main()
