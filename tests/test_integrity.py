"""Checksums beside a checkpoint: every damaged bit is found when it is asked for."""

from __future__ import annotations

import random
import shutil
import subprocess

import pytest

import nbmod as mx
from nbmod.base import MXNetError
from nbmod.core.integrity import verify_checkpoint
from tests.programs import resume_runs


@pytest.fixture
def prefix(tmp_path):
    module, train = trained()
    module.fit(train, train, num_epoch=2, **resume_runs.SGD,
               epoch_end_callback=mx.callback.module_checkpoint(
                   module, str(tmp_path / "net"), save_optimizer_states=True, integrity=True))
    return str(tmp_path / "net")


def trained():
    train = resume_runs.plain(*resume_runs.samples(1))
    return mx.mod.Module(resume_runs.network(0, "training", False)), train


def test_a_sound_checkpoint(prefix, tmp_path):
    """Also after `fit` has added what it found in validation to the `.resume` file."""
    for epoch in (1, 2):
        mx.model.load_checkpoint(prefix, epoch, verify=True)
        mx.mod.Module.load(prefix, epoch, load_optimizer_states=True, verify=True)
        names = {line.split("  ")[1] for line in
                 (tmp_path / f"net-000{epoch}.sha256").read_text().splitlines()}
        assert names == {"net-symbol.json", *(f"net-000{epoch}.{kind}" for kind in
                                              ("params", "states", "resume"))}


@pytest.mark.skipif(not shutil.which("sha256sum"), reason="needs sha256sum")
def test_other_programs_can_check_it(prefix, tmp_path):
    subprocess.run(["sha256sum", "--check", "--strict", "net-0002.sha256"], cwd=tmp_path,
                   check=True, capture_output=True)


@pytest.mark.parametrize("name", ["net-symbol.json", "net-0002.params", "net-0002.states",
                                  "net-0002.resume", "net-0002.sha256"])
def test_every_flipped_bit_is_found(prefix, tmp_path, name):
    path, chosen = tmp_path / name, random.Random(7)
    sound = path.read_bytes()
    for position in chosen.sample(range(8 * len(sound)), 40):
        damaged = bytearray(sound)
        damaged[position // 8] ^= 1 << position % 8
        path.write_bytes(damaged)
        with pytest.raises(MXNetError, match="net-0002"):
            verify_checkpoint(prefix, 2)
    path.write_bytes(sound)
    verify_checkpoint(prefix, 2)


def test_files_that_are_missing_are_named(prefix, tmp_path):
    (tmp_path / "net-0001.states").unlink()
    with pytest.raises(MXNetError, match=r"net-0001\.states is missing"):
        mx.model.load_params(prefix, 1, verify=True)
    (tmp_path / "net-0001.sha256").unlink()
    with pytest.raises(MXNetError, match=r"no checksums to verify.*integrity=True"):
        mx.mod.Module.load(prefix, 1, verify=True)


def test_checksums_follow_a_save_without_them(prefix):
    """Otherwise a checkpoint that was saved again would look damaged."""
    mx.model.save_checkpoint(prefix, 2, mx.sym.var("x"), {}, {})
    mx.model.load_checkpoint(prefix, 2, verify=True)
    with pytest.raises(MXNetError, match=r"net-symbol\.json is not what was saved"):
        mx.model.load_checkpoint(prefix, 1, verify=True)


def test_buckets(tmp_path):
    def network(length):
        data = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, flatten=False, name="fc")
        return mx.sym.mean(data, axis=1), ["data"], None

    prefix = str(tmp_path / "net")
    module = mx.mod.BucketingModule(network, default_bucket_key=4)
    module.bind([("data", (1, 4, 3))], for_training=False)
    module.init_params()
    module.save_checkpoint(prefix, 1, integrity=True)
    mx.mod.BucketingModule.load(prefix, 1, network, 4, verify=True)
    for name in ("net-4-symbol.json", "net.buckets"):
        path = tmp_path / name
        sound = path.read_bytes()
        path.write_bytes(sound[:-1] + b"\1")
        with pytest.raises(MXNetError, match=f"{name} is not what was saved"):
            mx.mod.BucketingModule.load(prefix, 1, network, 4, verify=True)
        path.write_bytes(sound)
