"""A script of ranks that train together, resume from the last checkpoint, and say what they have.

    nbmod launch -n 2 training.py PREFIX [--epochs 4] [--pause 0.1] [--die RANK,EPOCH,BATCH]

Rank 0 writes the parameters and momenta of all epochs, below PREFIX.  Every rank prints a digest of
the parameters at the end.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import signal
import time

import numpy as np

import nbmod as mx

BATCH, BATCHES, EPOCHS = 10, 6, 4


def network() -> mx.sym.Symbol:
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=16, name="fc1")
    x = mx.sym.Dropout(mx.sym.Activation(x, act_type="tanh"), p=0.3)
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(x, num_hidden=3, name="fc2"), name="softmax")


def samples(part: int, parts: int) -> mx.io.NDArrayIter:
    """The part of a rank, of as many samples as all ranks have batches."""
    random = np.random.RandomState(7)
    data = random.normal(size=(BATCH * BATCHES * parts, 8)).astype("f4")
    label = data[:, :3].argmax(1).astype("f4")
    return mx.io.NDArrayIter(data[part::parts], label[part::parts], BATCH, shuffle=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("prefix")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--die", default="")
    args = parser.parse_args()
    store = mx.kv.create("dist_sync")
    mx.random.seed(100 + store.rank)
    np.random.seed(store.rank)
    begin = mx.model.latest_epoch(args.prefix)
    module = (mx.mod.Module.load(args.prefix, begin, load_optimizer_states=True) if begin
              else mx.mod.Module(network()))
    first = os.environ["NBMOD_DIST_RESTARTS"] == "0"

    def at_batch(param: mx.model.BatchEndParam) -> None:
        print(f"epoch {param.epoch}, batch {param.nbatch}", flush=True)
        time.sleep(args.pause)
        if first and args.die == f"{store.rank},{param.epoch},{param.nbatch}":
            os.kill(os.getpid(), signal.SIGKILL)

    module.fit(samples(store.rank, store.num_workers), num_epoch=args.epochs, begin_epoch=begin,
               kvstore=store, optimizer="sgd",
               optimizer_params={"learning_rate": 0.1, "momentum": 0.9},
               batch_end_callback=at_batch, epoch_end_callback=mx.callback.module_checkpoint(
                   module, args.prefix, save_optimizer_states=True))
    digest = hashlib.sha256()
    for _, array in sorted(module.get_params()[0].items()):
        digest.update(array.asnumpy().tobytes())
    print(f"began at {begin}, parameters {digest.hexdigest()[:16]}")


if __name__ == "__main__":
    main()
