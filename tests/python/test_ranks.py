"""`prenorm train` under mpirun: the bits of a run alone, and what happens when a rank stops, dies,
hangs or is told to end. Skipped where there is no Open MPI."""

import hashlib
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from mpirun import Job, environment, metrics, require_mpi

SMALL = ["--n-layer", 2, "--n-embd", 32, "--n-head", 4, "--block-size", 64, "--batch-size", 8,
         "--max-iters", 12, "--eval-interval", 6, "--eval-iters", 5, "--log-interval", 2,
         "--warmup-iters", 2, "--threads", 1]
# Long enough for something to happen to it; it saves all the time.
LONG = ["--n-layer", 2, "--n-embd", 32, "--n-head", 4, "--block-size", 64, "--batch-size", 8,
        "--gradient-accumulation-steps", 2, "--dropout", 0.1, "--eval-interval", 0,
        "--save-interval", 5, "--log-interval", 5, "--warmup-iters", 2, "--threads", 1]


@pytest.fixture(autouse=True)
def mpi(prenorm):
    require_mpi(prenorm)


@pytest.fixture
def start(prenorm, text_file, tmp_path):
    """start(ranks, arguments): a job, ended with the test."""
    jobs = []

    def run(ranks, arguments, out_dir, launcher=()):
        jobs.append(Job(prenorm, ranks,
                        ["train", text_file, *arguments, "--out-dir", tmp_path / out_dir],
                        tmp_path / f"log-{len(jobs)}", launcher))
        return jobs[-1]

    yield run
    for job in jobs:
        job.kill()


@pytest.fixture
def alone(prenorm, text_file, tmp_path):
    def run(arguments, out_dir):
        prenorm("train", text_file, *arguments, "--out-dir", tmp_path / out_dir)

    return run


def digest(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def files(folder, name):
    """Every file of this name in a run's folder, by content."""
    return sorted(digest(path) for path in Path(folder).rglob(name))


def assert_same_run(one, other):
    assert digest(one / "model.safetensors") == digest(other / "model.safetensors")
    assert files(one, "training_state.safetensors") == files(other, "training_state.safetensors")
    assert files(one, "training_state.safetensors")
    assert metrics(one) == metrics(other)


@pytest.mark.parametrize("accumulation, more", [
    (2, ["--dropout", 0.1]),
    (4, ["--dropout", 0.1, "--no-tie", "--bias"]),
    (1, ["--norm", "post"]),
])
def test_ranks_give_the_bits_of_a_run_alone(start, alone, tmp_path, accumulation, more):
    arguments = [*SMALL, "--gradient-accumulation-steps", accumulation, *more]
    alone(arguments, "alone")
    for ranks in (1, 2, 3, 4):
        job = start(ranks, arguments, f"ranks-{ranks}")
        assert job.wait() == 0, job.text()
        assert_same_run(tmp_path / "alone", tmp_path / f"ranks-{ranks}")
        assert job.text().count("trained 12 steps") == 1, "one rank speaks for all"


def test_the_fast_sum_trains_too(start, tmp_path):
    job = start(3, [*SMALL, "--gradient-accumulation-steps", 3, "--reduce", "fast"], "fast")
    assert job.wait() == 0, job.text()
    assert metrics(tmp_path / "fast")[-1]["loss"] < metrics(tmp_path / "fast")[1]["loss"]


def test_a_stop_of_one_rank_saves_and_any_number_of_ranks_goes_on(start, alone, tmp_path):
    arguments = [*LONG, "--max-iters", 60]
    alone(arguments, "alone")
    job = start(2, arguments, "stopped")
    job.until("iter 10/60")
    os.kill(job.rank_pid(1), signal.SIGTERM)
    assert job.wait() == 143, job.text()
    assert "stopped and saved at step" in job.text()
    for ranks in (1, 4):
        copy = tmp_path / f"resumed-{ranks}"
        shutil.copytree(tmp_path / "stopped", copy)
        job = start(ranks, [*arguments, "--resume"], copy.name)
        assert job.wait() == 0, job.text()
        assert digest(copy / "model.safetensors") == digest(tmp_path / "alone/model.safetensors")


def test_a_rank_that_is_killed_ends_the_run_and_its_newest_state_goes_on(start, alone, tmp_path):
    arguments = [*LONG, "--max-iters", 60]
    alone(arguments, "alone")
    job = start(2, arguments, "killed")
    job.until("iter 20/60")
    begin = time.monotonic()
    os.kill(job.rank_pid(1), signal.SIGKILL)
    assert job.wait(20) != 0
    assert time.monotonic() - begin < 5
    assert job.all_gone()
    job = start(2, [*arguments, "--resume"], "killed")
    assert job.wait() == 0, job.text()
    assert digest(tmp_path / "killed/model.safetensors") == digest(
        tmp_path / "alone/model.safetensors")
    assert metrics(tmp_path / "killed") == metrics(tmp_path / "alone")


def test_a_rank_that_hangs_is_named_and_ends_the_run(start):
    job = start(3, [*LONG, "--max-iters", 100000, "--rank-timeout", 2], "hangs")
    job.until("iter 20/")
    begin = time.monotonic()
    os.kill(job.rank_pid(1), signal.SIGSTOP)
    assert job.wait(30) == 3
    assert time.monotonic() - begin < 12
    lines = [line for line in job.text().splitlines() if line.startswith("prenorm: ")]
    assert len(lines) == 1 and lines[0].startswith("prenorm: rank 1: expected its part of step ")
    assert lines[0].endswith("within 2 s (--rank-timeout), found it stopped"), lines
    assert job.all_gone(), "the rank that was stopped lives on"


def test_a_request_to_save_reaches_the_ranks_through_mpirun(start, tmp_path):
    arguments = [*LONG, "--max-iters", 100000, "--save-interval", 100000]
    job = start(2, arguments, "asked")
    job.until("iter 20/")
    job.process.send_signal(signal.SIGUSR1)
    job.until("saved at step")
    time.sleep(0.2)
    assert job.process.poll() is None, "it goes on"
    job.process.kill()
    job.process.wait()
    job.kill()
    job = start(1, [*arguments, "--resume", "--max-iters", 200], "asked")
    assert job.wait() == 0, job.text()
    assert "resume  step" in job.text()


def test_an_error_is_told_once(start, prenorm, tmp_path):
    job = start(3, [*SMALL, "--data", tmp_path / "nothing.txt"], "none")
    assert job.wait() == 3
    assert job.text().count("prenorm: ") == 1, job.text()
    assert "nothing.txt: expected a readable file, found no such file" in job.text()


def test_numbers_that_stop_being_finite_are_told_once(start):
    job = start(2, [*SMALL, "--learning-rate", 1e6, "--warmup-iters", 0, "--max-iters", 100], "nan")
    assert job.wait() == 4
    assert job.text().count("prenorm: training: expected finite numbers") == 1, job.text()


def test_a_build_without_mpi_says_so_and_trains_nothing(prenorm, text_file, tmp_path):
    program = tmp_path / "bin" / "prenorm"
    program.parent.mkdir()
    shutil.copy(prenorm.path, program)
    done = subprocess.run(
        ["mpirun", "--oversubscribe", "-n", "2", program, "train", text_file, "--out-dir",
         tmp_path / "run"], capture_output=True, text=True, check=False, env=environment())
    assert done.returncode == 2
    assert "prenorm: mpirun: expected a prenorm with MPI (prenorm_mpi.so) for 2 ranks" in done.stderr
    assert not (tmp_path / "run").exists()


def test_the_program_itself_is_not_linked_with_mpi(prenorm):
    linked = subprocess.run(["ldd", prenorm.path], capture_output=True, text=True, check=True)
    assert "libmpi" not in linked.stdout


AGENT = """#!/bin/sh
# mpirun's remote shell: the last number of the address names the namespace.
space=PREFIX${1##*.}; shift
exec ip netns exec "$space" unshare --uts sh -c "hostname $space; $*"
"""


@pytest.fixture
def machines(tmp_path):
    """Two network namespaces with a cable between them, each a machine with a name of its own."""
    prefix = f"pn{os.getpid() % 10000}-"
    net = "10.213.77"

    if shutil.which("ip") is None:
        pytest.skip("no network namespaces without iproute2")

    def ip(*words):
        return subprocess.run(["ip", *words], capture_output=True, check=True)

    try:
        ip("netns", "add", prefix + "1")
        ip("netns", "add", prefix + "2")
        ip("link", "add", prefix + "v1", "netns", prefix + "1", "type", "veth", "peer", "name",
           prefix + "v2", "netns", prefix + "2")
        for i in "12":
            ip("-n", prefix + i, "addr", "add", f"{net}.{i}/24", "dev", f"{prefix}v{i}")
            ip("-n", prefix + i, "link", "set", f"{prefix}v{i}", "up")
            ip("-n", prefix + i, "link", "set", "lo", "up")
        agent = tmp_path / "agent"
        agent.write_text(AGENT.replace("PREFIX", prefix))
        agent.chmod(0o755)
        yield prefix, net, agent
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("network namespaces are not permitted here")
    finally:
        for i in "12":
            subprocess.run(["ip", "netns", "del", prefix + i], capture_output=True, check=False)


def test_machines_that_share_a_network_alone_give_the_bits_of_a_run_alone(
        machines, prenorm, text_file, alone, tmp_path):
    prefix, net, agent = machines
    arguments = [*SMALL, "--gradient-accumulation-steps", 2, "--dropout", 0.1]
    alone(arguments, "alone")
    command = ["ip", "netns", "exec", prefix + "1", "mpirun", "-n", "2",
               "-H", f"{net}.1:1,{net}.2:1", "--mca", "plm_rsh_agent", agent,
               "--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include", f"{net}.0/24",
               "--mca", "oob_tcp_if_include", f"{net}.0/24",
               prenorm.path, "train", text_file, *arguments, "--out-dir", tmp_path / "far"]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=120, check=False, env=environment())
    assert done.returncode == 0, done.stdout + done.stderr
    assert_same_run(tmp_path / "alone", tmp_path / "far")
