"""Every system call of a resume and a save that touches the run's folder fails once, or is the last
that the process makes; afterwards the run resumes and ends in the bytes of an undisturbed one.

The calls are counted by a library that is preloaded into the program (tests/faults/). Where a call
fails the program ends with 3 and one line, or goes on where the call did not matter. A choice of the
calls; all of them with PRENORM_LONG_TESTS=1.
"""

import shutil
from pathlib import Path

import pytest

from small_training import LONG, SmallTraining, quick_folder, undisturbed  # noqa: F401

FIRST, SECOND = 4, 6  # the steps of the session before, and of the one that is disturbed

# What can happen to a call.
NEEDS_ROOM = {"ENOSPC", "full", "EIO"}
FAULTS = {
    "open": NEEDS_ROOM, "write": NEEDS_ROOM | {"short"}, "mkdir": NEEDS_ROOM, "link": NEEDS_ROOM,
    "fsync": {"EIO", "ENOSPC"}, "close": {"EIO"}, "rename": {"EIO", "ENOSPC"},
    "renameat2": {"EIO", "ENOSPC"}, "ftruncate": {"EIO"}, "unlink": {"EIO"}, "unlinkat": {"EIO"},
    "rmdir": {"EIO"},
}


class Disturbed:
    """A run that stands at FIRST, copied for each fault."""

    def __init__(self, prenorm, folder, layer):
        self.training = SmallTraining(prenorm, folder)
        self.layer = layer
        self.kept = folder / "kept"
        self.session(FIRST)
        shutil.copytree(self.training.run_folder, self.kept)

    def session(self, steps, expect=0, **env):
        # The schedule is that of the whole run, however far the session goes.
        return self.training.run("--max-iters", steps, "--lr-decay-iters", 24, "--warmup-iters", 1,
                                 expect=expect, env=env)

    def disturb(self, at, kind, log=""):
        shutil.rmtree(self.training.run_folder)
        shutil.copytree(self.kept, self.training.run_folder)
        return self.session(SECOND, expect=None, LD_PRELOAD=str(self.layer),
                            FAULTS_FOLDER=str(self.training.run_folder), FAULTS_AT=str(at),
                            FAULTS_KIND=kind, FAULTS_LOG=str(log))

    def calls(self):
        log = self.training.folder / "calls"
        assert self.disturb(0, "", log).returncode == 0
        return [line.split(" ")[0] for line in log.read_text().splitlines()]


@pytest.fixture
def disturbed(prenorm, quick_folder):
    layer = Path(prenorm.path).parent / "tests" / "faults" / "fault_layer.so"
    assert layer.exists(), f"{layer}: expected it to be built with the tests"
    return Disturbed(prenorm, quick_folder, layer.resolve())


def whole(disturbed):
    """What the run comes to when nothing disturbs it."""
    disturbed.disturb(0, "")
    disturbed.session(8)
    return disturbed.training.outcome()


def choice(points):
    return points if LONG else points[:: max(1, len(points) // 40)]


def test_the_layer_sees_the_calls_of_a_save(disturbed):
    calls = disturbed.calls()
    assert set(calls) <= set(FAULTS), set(calls)
    for name in ("open", "write", "fsync", "close", "rename", "renameat2", "link", "unlinkat",
                 "mkdir"):
        assert name in calls, name
    assert len(calls) > 60


def test_a_process_killed_at_any_call_resumes_to_the_same_bytes(disturbed):
    calls, expected = disturbed.calls(), whole(disturbed)
    for at in choice(range(1, len(calls) + 1)):
        done = disturbed.disturb(at, "kill")
        assert done.returncode == -9, (at, calls[at - 1], done.stderr)
        disturbed.session(8)
        assert disturbed.training.outcome() == expected, (at, calls[at - 1])


def test_a_call_that_fails_is_one_line_and_the_run_resumes_to_the_same_bytes(disturbed):
    calls, expected = disturbed.calls(), whole(disturbed)
    points = [(at, kind) for at, name in enumerate(calls, 1) for kind in sorted(FAULTS[name])]
    refused = 0
    for at, kind in choice(points):
        done = disturbed.disturb(at, kind)
        where = (at, calls[at - 1], kind, done.stderr)
        if done.returncode != 0:
            assert kind != "short" and done.returncode == 3, where
            assert done.stderr.splitlines()[-1].startswith("prenorm: "), where
            assert done.stderr.count("prenorm: ") == 1, where
            assert ": expected " in done.stderr and "found" in done.stderr, where
            refused += 1
        disturbed.session(8)
        assert disturbed.training.outcome() == expected, where
    assert refused > len(choice(points)) / 4
