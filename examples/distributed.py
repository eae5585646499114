"""The network of `digits.py`, trained by several processes, each on its part of the images.

    nbmod launch -n 2 --restarts 3 examples/distributed.py

Rank 0 draws and packs the images, and saves a checkpoint after every epoch.  If a process dies, all
of them start again from the last checkpoint, and end with the parameters that they would have had.

Needs `pip install 'nbmod[mpi,image]'`.
"""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

import digits

import nbmod as mx


def train(prefix: str, store: mx.kv.KVStoreBase, args: argparse.Namespace) -> mx.mod.Module:
    """Train on the part of this process, from the last checkpoint if there is one."""
    images = digits.records(f"{prefix}_train", args, shuffle=True, seed=1, rand_crop=True,
                            pad=args.size // 16, fill_value=digits.MEAN,
                            num_parts=store.num_workers, part_index=store.rank)
    begin = mx.model.latest_epoch(prefix)
    if begin:
        module = mx.mod.Module.load(prefix, begin, load_optimizer_states=True)
    else:
        module = mx.mod.Module(digits.resnet(args.filters))
    batches = args.count * 4 // 5 // (args.batch_size * store.num_workers)
    schedule = mx.lr_scheduler.CosineScheduler(args.epochs * batches, base_lr=args.lr)
    module.fit(images, begin_epoch=begin, num_epoch=args.epochs, kvstore=store,
               initializer=mx.init.MSRAPrelu(), optimizer="nag",
               optimizer_params={"learning_rate": args.lr, "momentum": 0.9, "wd": 1e-4,
                                 "lr_scheduler": schedule},
               epoch_end_callback=mx.callback.module_checkpoint(
                   module, prefix, save_optimizer_states=True))
    return module


def main(argv: list[str] | None = None) -> float:
    """Draw, pack and train; returns the accuracy on every fifth image, held out from training."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--folder", type=Path, default=Path("digits"), help="for all files, default: %(default)s")
    add("--count", type=int, default=3000, help="how many images, default: %(default)s")
    add("--size", type=int, default=32, help="their height and width, default: %(default)s")
    add("--filters", type=int, default=16, help="of the first layers, default: %(default)s")
    add("--epochs", type=int, default=6, help="default: %(default)s")
    add("--batch-size", type=int, default=30, help="of each process, default: %(default)s")
    add("--lr", type=float, default=0.1, help="learning rate, default: %(default)s")
    args = parser.parse_args(argv)

    store = mx.kv.create("dist_sync")
    prefix = str(args.folder / "digits")
    if store.rank == 0 and not Path(f"{prefix}_val.rec").exists():
        digits.write_images(args.folder / "images", args.count, args.size)
        digits.pack(args.folder)
    store._barrier()
    module = train(prefix, store, args)
    return dict(module.score(digits.records(f"{prefix}_val", args), "acc"))["accuracy"]


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    print(f"validation accuracy: {main():.3f}")
