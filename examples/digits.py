"""Image files, record files of them, and a residual network that classifies them.

Digits are drawn as if by hand and written as JPEG files, a folder for each class.  `im2rec` packs
them into record files; `ImageRecordIter` decodes, crops and normalizes them in threads, while a
small ResNet trains on several contexts.  Every epoch saves a checkpoint, from which `--begin-epoch`
resumes.  The last one is loaded to classify a new image.

Needs `pip install 'nbmod[image]'`.
"""

from __future__ import annotations

import argparse
import logging
import shlex
from pathlib import Path

import numpy as np

import nbmod as mx
from nbmod.cli import main as cli
from nbmod.imgproc.codecs import encode

FORMS = [
    ["20 00 08 48 40 20"],
    ["20 28", "03 20, 20 28"],
    ["02 00 40 44 08, 08 48"],
    ["01 00 40 44 14, 14 44 48 08 07"],
    ["30 05 45, 30 38", "10 05 45, 32 38"],
    ["40 00, 00 04, 04 42 48 08 07"],
    ["30 02 08 48 44 05"],
    ["00 40, 40 18", "00 40, 40 18, 04 44"],
    ["20 00 03 45 48 08 05 43 40 20"],
    ["43 04 00 40 41, 41 38"],
]
"""Variants of each digit: strokes, separated by commas.  A stroke is a sequence of points, each of
which is a column from 0 to 4 and a row from 0 to 8."""

MEAN, DEVIATION = 128, 64
"""The approximate mean and deviation of pixels."""


# ------------------------------------------------------------------------------------- images

def draw(digit: int, size: int, random: np.random.Generator) -> np.ndarray:
    """A digit in some colors on paper: uint8 (size, size, 3), red first."""
    pixels = np.stack(np.meshgrid(*[np.arange(size) + 0.5] * 2), -1)
    away = distance(pixels, written(digit, size, random))
    ink = np.clip(random.uniform(0.03, 0.06) * size + 0.5 - away, 0, 1)[..., None]
    pen, paper = random.permutation([random.uniform(0, 100, 3), random.uniform(155, 255, 3)])
    light = 1 + (pixels / size - 0.5) @ random.uniform(-0.4, 0.4, (2, 1))
    image = (ink * pen + (1 - ink) * paper) * light + random.normal(0, 6, (size, size, 3))
    return np.clip(image, 0, 255).astype(np.uint8)


def written(digit: int, size: int, random: np.random.Generator) -> np.ndarray:
    """Lines (count, 2 ends, 2 coordinates) of a digit, with the variation of handwriting."""
    slant, turn = random.normal(0, 0.15, 2)
    form = np.array([[1, 0], [slant, 1]]) @ [[np.cos(turn), np.sin(turn)],
                                             [-np.sin(turn), np.cos(turn)]]
    form *= random.uniform([0.9, 0.7], [1.2, 1]) * size / 10
    middle = random.uniform(0.45, 0.55, 2) * size
    lines = []
    for stroke in random.choice(FORMS[digit]).split(","):
        points = np.array([[int(column), int(row)] for column, row in stroke.split()])
        points = rounded(points + random.normal(0, 0.25, points.shape))
        points = (points - (2, 4)) @ form + middle
        lines.append(np.stack([points[:-1], points[1:]], 1))
    return np.concatenate(lines)


def rounded(points: np.ndarray) -> np.ndarray:
    """A polyline smoothed by cutting corners repeatedly (Chaikin, 1974); its ends stay."""
    for _ in range(2):
        before, after = points[:-1], points[1:]
        cut = np.stack([0.75 * before + 0.25 * after, 0.25 * before + 0.75 * after], 1)
        points = np.concatenate([points[:1], cut.reshape(-1, 2)[1:-1], points[-1:]])
    return points


def distance(points: np.ndarray, lines: np.ndarray) -> np.ndarray:
    """The distance of every point (..., 2) to the nearest line."""
    start, way = lines[:, 0], lines[:, 1] - lines[:, 0]
    offset = points[..., None, :] - start
    share = np.clip((offset * way).sum(-1) / np.maximum((way * way).sum(-1), 1e-9), 0, 1)
    return np.linalg.norm(offset - share[..., None] * way, axis=-1).min(-1)


def write_images(folder: Path, count: int, size: int) -> None:
    """`count` JPEG files in `folder/0` to `folder/9`."""
    for digit in range(10):
        (folder / str(digit)).mkdir(parents=True, exist_ok=True)
    for number in range(count):
        digit = number % 10
        image = draw(digit, size, np.random.default_rng(number))
        (folder / str(digit) / f"{number:05}.jpg").write_bytes(encode(image, "jpg"))


def pack(folder: Path) -> None:
    """Record files of the images, one to train with and one to validate, and a sheet of some."""
    prefix, images = str(folder / "digits"), str(folder / "images")
    tool("im2rec", "--list", "--recursive", "--train-ratio", "0.8", prefix, images)
    tool("im2rec", prefix, images)
    tool("rec", "sheet", f"{prefix}_val.rec", f"{prefix}.png")


def tool(*command: str) -> None:
    """Run one of nbmod's tools, and print the equivalent shell command."""
    print(f"$ nbmod {shlex.join(command)}", flush=True)
    if cli.main(command):
        raise SystemExit(1)


# -------------------------------------------------------------------------------------- network

def convolution(x: mx.sym.Symbol, filters: int, stride: int, name: str) -> mx.sym.Symbol:
    x = mx.sym.Convolution(x, kernel=(3, 3), stride=(stride, stride), pad=(1, 1), no_bias=True,
                           num_filter=filters, name=f"{name}_conv")
    return mx.sym.BatchNorm(x, fix_gamma=False, name=f"{name}_bn")


def residual(x: mx.sym.Symbol, filters: int, stride: int, name: str) -> mx.sym.Symbol:
    """Two convolutions and a shortcut."""
    y = mx.sym.Activation(convolution(x, filters, stride, f"{name}_a"), act_type="relu")
    y = convolution(y, filters, 1, f"{name}_b")
    if stride > 1:
        x = mx.sym.Convolution(x, kernel=(1, 1), stride=(stride, stride), no_bias=True,
                               num_filter=filters, name=f"{name}_around")
    return mx.sym.Activation(x + y, act_type="relu", name=name)


def resnet(filters: int) -> mx.sym.Symbol:
    """Three residual units; after the first each halves the image size and doubles the filters."""
    x = convolution(mx.sym.Variable("data"), filters, 1, "stem")
    x = residual(mx.sym.Activation(x, act_type="relu"), filters, 1, "unit1")
    x = residual(x, 2 * filters, 2, "unit2")
    x = residual(x, 4 * filters, 2, "unit3")
    x = mx.sym.Flatten(mx.sym.Pooling(x, global_pool=True, pool_type="avg", kernel=(1, 1)))
    x = mx.sym.FullyConnected(x, num_hidden=10, name="scores")
    return mx.sym.SoftmaxOutput(x, name="softmax")


# ------------------------------------------------------------------------------------- training

def records(name: str, args: argparse.Namespace, **changes: object) -> mx.io.MXDataIter:
    """Batches of normalized images from a record file."""
    return mx.io.ImageRecordIter(
        path_imgrec=f"{name}.rec", path_imgidx=f"{name}.idx", batch_size=args.batch_size,
        data_shape=(3, args.size, args.size), mean_r=MEAN, mean_g=MEAN, mean_b=MEAN,
        std_r=DEVIATION, std_g=DEVIATION, std_b=DEVIATION, **changes)


def train(prefix: str, args: argparse.Namespace) -> float:
    """Save a checkpoint after every epoch; returns the validation accuracy of the last."""
    images = records(f"{prefix}_train", args, shuffle=True, seed=1, rand_crop=True,
                       pad=args.size // 16, fill_value=MEAN)
    validation = records(f"{prefix}_val", args)
    contexts = [mx.cpu(i) for i in range(args.contexts)]
    if args.begin_epoch:
        module = mx.mod.Module.load(prefix, args.begin_epoch, load_optimizer_states=True,
                                    context=contexts)
    else:
        module = mx.mod.Module(resnet(args.filters), context=contexts)
    steps = args.epochs * (args.count * 4 // 5 // args.batch_size)
    module.fit(images, eval_data=validation, begin_epoch=args.begin_epoch, num_epoch=args.epochs,
               kvstore="device", initializer=mx.init.MSRAPrelu(),
               optimizer="nag", optimizer_params={
                   "learning_rate": args.lr, "momentum": 0.9, "wd": 1e-4,
                   "lr_scheduler": mx.lr_scheduler.CosineScheduler(steps, base_lr=args.lr)},
               batch_end_callback=mx.callback.Speedometer(args.batch_size, frequent=10),
               epoch_end_callback=mx.callback.module_checkpoint(
                   module, prefix, save_optimizer_states=True))
    return dict(module.score(validation, "acc"))["accuracy"]


def recognize(path: Path, prefix: str, epoch: int) -> np.ndarray:
    """Probabilities of the ten digits for an image in a file, by a checkpoint."""
    image = mx.image.imread(str(path)).astype("float32").transpose((2, 0, 1))
    batch = mx.nd.expand_dims((image - MEAN) / DEVIATION, axis=0)
    module = mx.mod.Module.load(prefix, epoch, label_names=None)
    module.bind([("data", batch.shape)], for_training=False)
    return module.predict(mx.io.NDArrayIter(batch)).asnumpy()[0]


def main(argv: list[str] | None = None) -> float:
    """Draw, pack, train and predict; returns the accuracy on every fifth image, held out from
    training."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--folder", type=Path, default=Path("digits"), help="for all files, default: %(default)s")
    add("--count", type=int, default=3000, help="how many images, default: %(default)s")
    add("--size", type=int, default=32, help="their height and width, default: %(default)s")
    add("--filters", type=int, default=16, help="of the first layers, default: %(default)s")
    add("--epochs", type=int, default=6, help="default: %(default)s")
    add("--begin-epoch", type=int, default=0, help="go on from the checkpoint of this epoch")
    add("--batch-size", type=int, default=60, help="default: %(default)s")
    add("--contexts", type=int, default=2, help="that share a batch, default: %(default)s")
    add("--lr", type=float, default=0.1, help="learning rate, default: %(default)s")
    args = parser.parse_args(argv)

    prefix, unseen = str(args.folder / "digits"), args.folder / "unseen.jpg"
    if not args.begin_epoch:
        write_images(args.folder / "images", args.count, args.size)
        pack(args.folder)
    mx.random.seed(0)
    accuracy = train(prefix, args)

    unseen.write_bytes(encode(draw(7, args.size, np.random.default_rng(args.count)), "jpg"))
    chances = recognize(unseen, prefix, args.epochs)
    print(f"{unseen}: a {chances.argmax()}, with a probability of {chances.max():.1%}")
    return accuracy


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    print(f"validation accuracy: {main():.3f}")
