"""A language model as scripts with `mx.rnn`: fused cells in training, unfused ones afterwards.

It trains on sentences in buckets, saves a checkpoint with `do_rnn_checkpoint`, loads it into the
unfused network, and prints the perplexities of both on the same sentences.
"""

import argparse
import logging

import mxnet as mx
import numpy as np

parser = argparse.ArgumentParser(description="Train an LSTM language model")
parser.add_argument("--num-layers", type=int, default=2)
parser.add_argument("--num-hidden", type=int, default=12)
parser.add_argument("--num-embed", type=int, default=8)
parser.add_argument("--gpus", type=str, help="list of gpus to run, e.g. 0 or 0,2,5")
parser.add_argument("--kv-store", type=str, default="device")
parser.add_argument("--num-epochs", type=int, default=6)
parser.add_argument("--lr", type=float, default=0.02)
parser.add_argument("--optimizer", type=str, default="adam")
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--disp-batches", type=int, default=5)
parser.add_argument("--model-prefix", type=str, required=True)

buckets = [5, 9]
start_label = 1
invalid_label = 0


def make_sentences():
    words = ["w%d" % i for i in range(20)]
    rng = np.random.RandomState(3)
    lines = []
    for _ in range(160):
        at, line = rng.randint(20), []
        for _ in range(rng.randint(3, 10)):
            line.append(words[at])
            at = (3 * at + 1 + rng.randint(2)) % 20
        lines.append(line)
    return lines


def get_data(layout, batch_size):
    sentences, vocab = mx.rnn.encode_sentences(make_sentences(), invalid_label=invalid_label,
                                               start_label=start_label)
    it = mx.rnn.BucketSentenceIter(sentences, batch_size, buckets=buckets,
                                   invalid_label=invalid_label, layout=layout)
    return it, vocab


def sym_gen_of(stack, vocab, args, layout):
    def sym_gen(seq_len):
        data = mx.sym.Variable("data")
        label = mx.sym.Variable("softmax_label")
        embed = mx.sym.Embedding(data=data, input_dim=len(vocab), output_dim=args.num_embed,
                                 name="embed")
        stack.reset()
        output, _ = stack.unroll(seq_len, inputs=embed, merge_outputs=True, layout=layout)
        pred = mx.sym.Reshape(output, shape=(-1, args.num_hidden))
        pred = mx.sym.FullyConnected(data=pred, num_hidden=len(vocab), name="pred")
        label = mx.sym.Reshape(label, shape=(-1,))
        pred = mx.sym.SoftmaxOutput(data=pred, label=label, name="softmax")
        return pred, ("data",), ("softmax_label",)

    return sym_gen


def train(args):
    data_train, vocab = get_data("TN", args.batch_size)
    cell = mx.rnn.FusedRNNCell(args.num_hidden, num_layers=args.num_layers, mode="lstm")
    contexts = [mx.gpu(int(i)) for i in args.gpus.split(",")] if args.gpus else mx.cpu(0)
    model = mx.mod.BucketingModule(sym_gen=sym_gen_of(cell, vocab, args, "TNC"),
                                   default_bucket_key=data_train.default_bucket_key,
                                   context=contexts)
    model.fit(train_data=data_train, eval_metric=mx.metric.Perplexity(invalid_label),
              kvstore=args.kv_store, optimizer=args.optimizer,
              optimizer_params={"learning_rate": args.lr, "wd": 0.00001},
              initializer=mx.init.Xavier(factor_type="in", magnitude=2.34),
              num_epoch=args.num_epochs,
              batch_end_callback=mx.callback.Speedometer(args.batch_size, args.disp_batches),
              epoch_end_callback=mx.rnn.do_rnn_checkpoint(cell, args.model_prefix, 2))
    model.score(data_train, mx.metric.Perplexity(invalid_label))
    return model, cell


def test(args, cell):
    data_val, vocab = get_data("NT", args.batch_size)
    stack = cell.unfuse()
    _, arg_params, aux_params = mx.rnn.load_rnn_checkpoint(stack, args.model_prefix,
                                                           args.num_epochs)
    model = mx.mod.BucketingModule(sym_gen=sym_gen_of(stack, vocab, args, "NTC"),
                                   default_bucket_key=data_val.default_bucket_key,
                                   context=mx.cpu(0))
    model.bind(data_val.provide_data, data_val.provide_label, for_training=False)
    model.set_params(arg_params, aux_params)
    return model, data_val


if __name__ == "__main__":
    logging.basicConfig(level=logging.DEBUG, format="%(message)s")
    args = parser.parse_args()
    fused, cell = train(args)
    unfused, data_val = test(args, cell)
    figures = []
    for batch in data_val:
        metrics = []
        for model, turned in ((unfused, batch), (fused, mx.io.DataBatch(
                [batch.data[0].T], [batch.label[0].T], bucket_key=batch.bucket_key,
                provide_data=[("data", batch.data[0].T.shape)],
                provide_label=[("softmax_label", batch.label[0].T.shape)]))):
            metric = mx.metric.Perplexity(invalid_label)
            model.forward(turned, is_train=False)
            model.update_metric(metric, turned.label)
            metrics.append(metric.get()[1])
        figures.append(metrics)
    print("perplexity %.6f %.6f" % tuple(np.mean(figures, axis=0)))
