"""A network on 8-bit integers: train in float32, quantize, and compare predictions and time.

Quantized parameters take a quarter of the memory.  Large convolutions also take less time on
processors with instructions for 8-bit products (docs/quantization.md has figures); this network is
too small: it takes longer than in float32.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable

import numpy as np

import nbmod as mx
from nbmod import bench
from nbmod.cli.demo import load_digits


def network() -> mx.sym.Symbol:
    x = mx.sym.Variable("data")
    for number, filters in ((1, 16), (2, 32)):
        x = mx.sym.Convolution(x, kernel=(3, 3), pad=(1, 1), num_filter=filters,
                               name=f"conv{number}")
        x = mx.sym.BatchNorm(x, fix_gamma=False, name=f"norm{number}")
        x = mx.sym.Activation(x, act_type="relu", name=f"relu{number}")
    x = mx.sym.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max", name="pool")
    x = mx.sym.FullyConnected(mx.sym.Flatten(x, name="flat"), num_hidden=10, name="fc")
    return mx.sym.SoftmaxOutput(x, name="softmax")


def predictor(symbol: mx.sym.Symbol, args: dict, aux: dict, data: mx.io.DataIter
              ) -> Callable[[], np.ndarray]:
    """A function that tells the most probable class of each image."""
    module = mx.mod.Module(symbol)
    module.bind(data.provide_data, data.provide_label, for_training=False)
    module.set_params(args, aux)
    return lambda: module.predict(data).asnumpy().argmax(axis=1)


def main(argv: list[str] | None = None) -> float:
    """Train and quantize; return the share of digits for which both networks predict the same."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--calib-mode", default="naive", choices=["naive", "entropy", "none"])
    options = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    mx.random.seed(0)

    images, labels = load_digits(16)
    held_out = np.arange(len(labels)) % 5 == 0
    train = mx.io.NDArrayIter(images[~held_out], labels[~held_out], 60, shuffle=True)
    test = mx.io.NDArrayIter(images[held_out], labels[held_out], 60)
    module = mx.mod.Module(network())
    module.fit(train, num_epoch=options.epochs, initializer=mx.init.Xavier(),
               optimizer_params={"learning_rate": 0.02, "momentum": 0.9})
    exact = module.symbol, *module.get_params()
    quantized = mx.contrib.quantization.quantize_model_mkldnn(
        *exact, calib_mode=options.calib_mode, num_calib_examples=300,
        calib_data=None if options.calib_mode == "none" else train)

    networks = {"float32": predictor(*exact, test), "8 bits": predictor(*quantized, test)}
    want, got = (predict() for predict in networks.values())
    logging.info("accuracy in float32 %.3f, in 8 bits %.3f", *(
        (classes == labels[held_out]).mean() for classes in (want, got)))
    exact_ms, byte_ms = (1e3 * each.seconds for each in bench.side_by_side(networks).values())
    logging.info("milliseconds in float32 %.1f, in 8 bits %.1f", exact_ms, byte_ms)
    if byte_ms > exact_ms:
        logging.info("8 bits take longer here, as the network is small; large convolutions gain "
                     "(docs/quantization.md)")
    agreement = float((want == got).mean())
    logging.info("same prediction for %.3f of the digits", agreement)
    return agreement


if __name__ == "__main__":
    main()
