"""`nbmod launch`: its options, the command of MPI, and scripts that run as ranks."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import nbmod as mx
from nbmod.cli import launch
from nbmod.cli import main as cli
from nbmod.launcher import mpiexec, placement, worker
from nbmod.launcher.placement import Placement
from tests.kvstore.distributed.launched import Launch, absence

SCRIPT = str(Path(__file__).with_name("misfortunes.py"))

with_mpi = pytest.mark.skipif(bool(absence()) and os.environ.get("NBMOD_REQUIRE_MPI") != "1",
                              reason=absence() or "MPI")
with_proc = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc")


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    launch.arguments(parser)
    return parser.parse_args(words)


# ---------------------------------------------------------------------------------- command lines

@pytest.mark.parametrize("before", [
    [], ["--"], ["python"], ["python3", "-u"], ["/usr/bin/python3.11"], ["--", "python", "-B"]])
def test_commands_may_begin_with_python(before):
    options = parsed("-n", "2", *before, SCRIPT, "--lr", "0.1", "-n", "9")
    assert launch._script(options.program) == [SCRIPT, "--lr", "0.1", "-n", "9"]
    assert options.num_workers == 2


def test_options_of_mxnets_launcher_are_taken_with_a_note():
    options = parsed("--num-workers", "4", "--num-servers", "2", "--hostfile", SCRIPT,
                     "--launcher", "ssh", "--sync-dst-dir", "/tmp/x", "--env-worker", "A:1:2",
                     "--env", "B:x y", "--env-server", "C:3", "--p3", "python", SCRIPT)
    launch._refuse(options)
    assert dict(options.env) == {"A": "1:2", "B": "x y"}
    assert [note.split()[0] for note in launch._notes(options)] == [
        "-s", "--env-server", "--sync-dst-dir", "--p3"]
    assert not [*launch._notes(parsed("-n", "1", SCRIPT))]


@pytest.mark.parametrize("words, text", [
    (["-n", "2"], "no script is given"),
    (["-n", "2", "--"], "no script is given"),
    (["-n", "2", "python", "-m", "train"], "Python's options -m and -c are not supported"),
    (["-n", "2", "bash", "train.sh"], "there is no file 'bash'"),
    (["-n", "2", "--launcher", "sge", SCRIPT], "--launcher sge is not supported"),
    (["-n", "2", "--launcher", "yarn", SCRIPT], "in a job that the scheduler has started"),
    (["-n", "2", "-H", "no-hosts", SCRIPT], "no file of hosts 'no-hosts'"),
    (["-n", "2", "--restarts", "-1", SCRIPT], "--restarts is -1"),
])
def test_what_cannot_be_launched_is_one_line(words, text, capsys):
    assert cli.main(["launch", *words]) == 1
    told = capsys.readouterr().err
    assert told.startswith("nbmod: launch: ") and text in told and told.count("\n") == 1


def test_a_rank_launches_no_ranks(monkeypatch, capsys):
    monkeypatch.setenv("PMI_SIZE", "4")
    assert cli.main(["launch", "-n", "2", SCRIPT]) == 1
    assert "this process is a rank already, which mpiexec of MPICH" in capsys.readouterr().err


def test_without_mpiexec_the_extra_is_named(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cli.main(["launch", "-n", "2", SCRIPT]) == 1
    assert "pip install 'nbmod[mpi]'" in capsys.readouterr().err


def test_mpiexec_beside_python_comes_before_that_of_the_path(monkeypatch, tmp_path):
    for folder in ("here", "elsewhere"):
        (tmp_path / folder).mkdir()
        for name in ("mpiexec", "mpiexec.exe"):
            (tmp_path / folder / name).write_text("")
            (tmp_path / folder / name).chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "here" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "elsewhere"))
    assert Path(mpiexec.find()).parent.name == "here"


@pytest.mark.parametrize("kind, expected", [
    ("openmpi", ["--bind-to", "none", "--map-by", "node:OVERSUBSCRIBE", "--hostfile", "hosts"]),
    ("openmpi4", ["--bind-to", "none", "--oversubscribe", "--map-by", "node", "--hostfile",
                  "hosts"]),
    ("other", ["-hostfile", "hosts"])])
def test_each_mpi_has_its_own_command_line(kind, expected):
    line = mpiexec.command("mpiexec", kind, mpiexec.Ranks(4, "hosts", {"COLOR": "red"}), ["run"])
    assert line[:3 + len(expected)] == ["mpiexec", "-n", "4", *expected] and line[-1] == "run"
    given = ["-env", "COLOR", "red"] if kind == "other" else ["-x", "COLOR=red"]
    assert line[-1 - len(given):-1] == given
    assert ("PATH" in line) == (kind != "other"), "Open MPI's other hosts get few variables"


@pytest.mark.parametrize("told, kind", [
    ("mpiexec (Open MPI) 5.0.11\n\nReport bugs", "openmpi"), ("mpirun (Open MPI) 4.1.2\n",
                                                              "openmpi4"),
    ("HYDRA build details:\n    Version: 5.0.2\n", "other"),
    ("Intel(R) MPI Library for Linux* OS, Version 2021.19\n", "other")])
def test_the_mpi_is_recognised_by_its_version(told, kind, tmp_path):
    if os.name != "posix":
        pytest.skip("needs a shell")
    program = tmp_path / "mpiexec"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{told}END\n")
    program.chmod(0o755)
    assert mpiexec.kind_of(str(program)) == kind


REPORTS = {
    "Open MPI": "-" * 74 + "\nprterun noticed that process rank 1 exited on\n[0] is a rank's\n"
                "signal 9.\n" + "-" * 74 + "\n",
    "MPICH": "\n" + "=" * 83 + "\n=   EXIT CODE: 9\n" + "=" * 83 + "\n[0] is a rank's\n"
             "YOUR APPLICATION TERMINATED\n"}


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
@pytest.mark.parametrize("explained", [True, False])
def test_reports_of_mpiexec_are_shown_if_no_worker_has_explained(report, explained, capfd):
    """Lines of ranks are always shown, and so are other lines of `mpiexec`."""
    said = "nbmod: rank 1 of 2 was killed\n" * explained
    text = f"a warning\n[0] x\n{report}{said}"
    program = f"import sys; sys.stderr.write({text!r})"
    running = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    relay = launch._Relay(running)
    running.wait()
    relay.finish()
    lines = capfd.readouterr().err.splitlines()
    own = ["a warning", "[0] x", "[0] is a rank's", *said.splitlines()]
    others = [line for line in report.splitlines() if not line.startswith("[0]")]
    assert lines == (own if explained else own + others)


# ------------------------------------------------------------------------------- the environment

@pytest.mark.parametrize("environ, launcher, place", [
    ({}, None, (0, None, None)),
    ({"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, None, (0, None, None)),
    ({"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
      "PMIX_RANK": "3"}, "Open MPI's mpiexec", (3, 4, 2)),
    ({"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALNRANKS": "2"},
     "mpiexec of MPICH, Intel MPI or Microsoft MPI", (1, 2, 2)),
    ({"SLURM_PROCID": "5", "SLURM_STEP_NUM_TASKS": "8", "SLURM_STEP_TASKS_PER_NODE": "4(x2)",
      "PMIX_RANK": "5"}, "Slurm's srun", (5, 8, 4)),
    ({"PMIX_RANK": "2"}, "a launcher that speaks PMIx", (2, None, None)),
])
def test_launchers_are_recognised_by_their_variables(environ, launcher, place):
    assert placement.launcher_of(environ) == launcher
    assert placement.placement_of(environ)[:3] == place


def test_ranks_of_a_host_share_its_cores(monkeypatch):
    monkeypatch.setattr(worker, "cores", lambda: 12)
    found = worker.thread_variables(Placement(0, 8, 4), environ={"OMP_NUM_THREADS": "7"})
    assert found == dict.fromkeys(
        ["NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"], "3")
    assert worker.thread_variables(Placement(0, 99, 99), environ={})["OMP_NUM_THREADS"] == "1"


def test_processes_of_other_roles_end_and_workers_get_the_command(monkeypatch, capsys):
    for role in ("server", "scheduler"):
        with pytest.raises(SystemExit) as ended:
            placement.refuse_roles({"DMLC_ROLE": role})
        assert ended.value.code == 0
        told = capsys.readouterr().err
        assert role in told and told.count("\n") == 1
    monkeypatch.setattr(sys, "argv", ["train it.py", "--lr", "1"])
    with pytest.raises(mx.MXNetError,
                       match=r"nbmod launch -n 4 'train it.py' --lr 1\n"):
        placement.refuse_roles({"DMLC_ROLE": "worker", "DMLC_NUM_WORKER": "4"})
    placement.refuse_roles({"DMLC_ROLE": "worker", "PMI_SIZE": "4"})
    placement.refuse_roles({})


def test_stores_ask_for_the_role(monkeypatch):
    monkeypatch.setenv("DMLC_ROLE", "server")
    with pytest.raises(SystemExit):
        mx.kv.create("dist_sync")


def test_another_mpi_than_that_of_mpi4py_is_named():
    environ = {"PMI_SIZE": "4", "PMI_RANK": "0"}
    placement.require_size(4, environ)
    placement.require_size(7, {})
    with pytest.raises(mx.MXNetError, match="has started 4 ranks, but mpi4py sees 1"):
        placement.require_size(1, environ)


# ------------------------------------------------------------------------------------------ ranks

@with_mpi
def test_ranks_run_a_script_of_mxnet_together(tmp_path):
    """Their sums, their threads, variables, and lines with the rank; on the hosts of a file."""
    (tmp_path / "hosts").write_text("localhost\n")
    run = Launch(["-n", "3", "-s", "1", "-H", str(tmp_path / "hosts"), "--threads", "1", "--env",
                  "COLOR:red", "python", SCRIPT, "nothing", "-1"])
    assert run.wait() == 0, run.text
    for rank in range(3):
        assert run.said(f"[{rank}] ") == [
            f"[{rank}] rank {rank} of 3 has 6, 1 threads, red",
            f"[{rank}] a line without an end"], run.text
    assert len(run.said("nbmod: launch: -s is ignored")) == 1 and len(run.lines) == 7


@with_mpi
@with_proc
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_every_rank(number):
    run = Launch(["-n", "2", "--restarts", "3", SCRIPT, "sleep_long", "1"])
    run.until(lambda: run.said("[1] now"), "it sleeps")
    os.kill(run.process.pid, number)
    assert run.wait() == 128 + number
    assert run.said("nbmod: ") == []


@with_mpi
@with_proc
@pytest.mark.parametrize("victim", [
    "launch", pytest.param("--bind-to", id="mpiexec"), "nbmod.launcher.worker"])
def test_nothing_is_left_whoever_is_killed(victim):
    run = Launch(["-n", "2", SCRIPT, "sleep_long", "0"])
    run.until(lambda: run.said("[0] now"), "it sleeps")
    os.kill(run.process.pid if victim == "launch" else run.processes(victim)[-1], signal.SIGKILL)
    assert run.wait() != 0


@with_mpi
def test_the_example_trains_on_two_processes(tmp_path):
    """Each reads its part of the images, of which batch normalization keeps its own means."""
    script = Path(__file__).parents[3] / "examples" / "distributed.py"
    run = Launch(["-n", "2", str(script), "--folder", str(tmp_path), "--count", "600", "--size",
                  "16", "--filters", "8", "--batch-size", "20", "--epochs", "8"])
    assert run.wait() == 0, run.text
    assert run.text.count(f"{tmp_path}/digits_train.rec, 240 records") == 2
    found = [float(line.partition(": ")[2]) for _, line in run.lines if "accuracy: " in line]
    assert len(found) == 2 and min(found) > 0.6


@with_mpi
def test_doctor_tests_the_exchange(capfd):
    assert cli.main(["doctor", "--dist"]) == 0
    rows = dict(line.strip().split("  ", 1) for line in capfd.readouterr().out.splitlines()[1:])
    assert rows["ranks"].strip() == "3 on 1 host(s)" and rows["thread level"].strip()
    for size in ("1 kB", "10 MB", "100 MB"):
        assert rows[f"exchange of {size}"].strip().startswith("passed, ")
