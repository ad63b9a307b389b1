"""Full, small and read-only disks, limits of file size and memory: one line, exit code 3, and the
states from before are as they were.
"""

import os
import resource
import shutil
import subprocess

import pytest

from small_training import SmallTraining, address_space, quick_folder, undisturbed  # noqa: F401

# A session that ends where the whole training evaluates and reports too.
LESS = ("--max-iters", 12, "--lr-decay-iters", 24, "--warmup-iters", 1)


def file_size(limit):
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))


def contents(folder):
    return {p.relative_to(folder): p.read_bytes()
            for p in sorted(folder.rglob("*")) if p.is_file() and "checkpoint-" in str(p)}


@pytest.fixture
def stopped(prenorm, quick_folder):
    training = SmallTraining(prenorm, quick_folder)
    training.run(*LESS)
    return training


def test_a_limit_of_the_file_size_is_one_line_and_loses_nothing(stopped, undisturbed):
    before = contents(stopped.run_folder)
    error = stopped.fails_with_one_line(3, preexec_fn=file_size(20_000))
    assert "safetensors" in error and "File too large" in error
    assert contents(stopped.run_folder) == before
    stopped.resumes_to(undisturbed)


def test_a_file_size_limit_from_the_start_leaves_no_half_run(prenorm, quick_folder, undisturbed):
    training = SmallTraining(prenorm, quick_folder)
    training.fails_with_one_line(3, preexec_fn=file_size(20_000))
    assert training.step() == -1 and not training.file("model.safetensors").exists()
    training.resumes_to(undisturbed)


@pytest.fixture
def mounted(tmp_path):
    """mount(options): a small file system of its own, where mounting is permitted."""
    folder = tmp_path / "mounted"
    folder.mkdir()

    def mount(*options):
        done = subprocess.run(["mount", *options, str(folder)], capture_output=True, check=False)
        if done.returncode != 0:
            pytest.skip("mounting is not permitted here")
        return folder

    yield mount
    subprocess.run(["umount", str(folder)], capture_output=True, check=False)


def test_a_full_disk_in_the_middle_of_a_run_keeps_the_states_before(prenorm, mounted, undisturbed):
    folder = mounted("-t", "tmpfs", "-o", "size=900k", "tmpfs")
    training = SmallTraining(prenorm, folder)
    training.run(*LESS)
    before = contents(training.run_folder)
    room = os.statvfs(folder)
    (folder / "other").write_bytes(bytes(room.f_bavail * room.f_frsize - 60_000))
    error = training.fails_with_one_line(3)
    assert "No space left on device" in error
    assert contents(training.run_folder) == before
    assert not training.file(".saving").exists()  # what room there was is free again
    prenorm("generate", "-m", training.run_folder, "-p", "the", "-n", 3)
    (folder / "other").unlink()
    training.resumes_to(undisturbed)


def test_a_read_only_disk_is_one_line_before_the_first_step(stopped, mounted):
    run = stopped.run_folder
    folder = mounted("--bind", "-o", "ro", str(stopped.folder))
    if os.access(folder, os.W_OK):  # an older mount makes it read-only in a second call
        subprocess.run(["mount", "-o", "remount,ro,bind", str(folder)], check=True)
    before = contents(run)
    done = subprocess.run(stopped.command(), cwd=folder, env=stopped.environment(),
                          capture_output=True, text=True, check=False)
    assert done.returncode == 3 and "iter" not in done.stderr, done.stderr
    assert done.stderr.startswith("prenorm: run: expected a folder that can be written, found ")
    assert done.stderr.count("\n") == 1
    assert contents(run) == before


def test_a_folder_of_somebody_else_is_one_line(stopped):
    if os.getuid() != 0:
        os.chmod(stopped.run_folder, 0o555)
        error = stopped.fails_with_one_line(3)
        os.chmod(stopped.run_folder, 0o755)
    else:
        nobody = 65534
        stopped.folder.chmod(0o755)
        try:
            error = stopped.fails_with_one_line(3, user=nobody, group=nobody, extra_groups=[])
        except PermissionError:
            pytest.skip("the program cannot be run by another user here")
    assert "Permission denied" in error


def test_too_little_memory_is_one_line_before_the_first_step(prenorm, quick_folder):
    training = SmallTraining(prenorm, quick_folder)
    big = ("--n-layer", 8, "--n-embd", 1024, "--n-head", 16)
    error = training.fails_with_one_line(3, *big, preexec_fn=address_space(400))
    assert error.startswith("prenorm: training: expected ") and "of memory, found " in error
    assert "ulimit -v" in error
    assert training.step() == -1
    training.run(*LESS, preexec_fn=address_space(400))  # a small one fits


def test_memory_that_runs_out_anywhere_before_the_first_step_is_one_line(prenorm, quick_folder):
    training = SmallTraining(prenorm, quick_folder)
    wide = ("--n-embd", 256, "--batch-size", 16, "--block-size", 256, "--max-iters", 1)
    (quick_folder / "text.txt").write_text("a b c d e " * 2000)
    done = []
    for megabytes in (40, 60, 80, 110, 160, 230, 330, 460, 900):
        shutil.rmtree(training.run_folder, ignore_errors=True)
        process = training.start(*wide, preexec_fn=address_space(megabytes))
        out, err = process.communicate(timeout=120)
        if process.returncode == 127 or "error while loading shared libraries" in err:
            continue  # too little for the program itself
        assert process.returncode in (0, 3), (megabytes, process.returncode, err)
        if process.returncode == 3:
            assert err.splitlines()[-1].startswith("prenorm: "), (megabytes, err)
            assert "iter 1/" not in err, (megabytes, err)
        done.append(process.returncode)
    assert 3 in done and done[-1] == 0, done
