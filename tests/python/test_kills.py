"""Trainings that are killed at random moments end in the bytes of one that was not.

30 kills, or 220 with PRENORM_LONG_TESTS=1. The moments are drawn from a fixed seed over the time
that a training takes, so they fall into its start, its steps and its saves, about half of which is
writing files.
"""

import random
import shutil
import subprocess
import time

from small_training import LONG, SmallTraining, quick_folder, undisturbed  # noqa: F401


def test_a_training_killed_again_and_again_ends_in_the_bytes_of_an_undisturbed_one(
        prenorm, quick_folder, undisturbed):
    training = SmallTraining(prenorm, quick_folder)
    begin = time.monotonic()
    training.run()
    took = time.monotonic() - begin
    shutil.rmtree(training.run_folder)

    moments = random.Random(7)
    kills = with_state = finished = 0
    while kills < (220 if LONG else 30):
        process = training.start(stdout=subprocess.DEVNULL)
        try:
            process.wait(moments.uniform(0, took))
        except subprocess.TimeoutExpired:
            process.kill()
        _, err = process.communicate()
        if process.returncode == 0:  # the moment came after its end
            assert training.outcome() == undisturbed
            finished += 1
            shutil.rmtree(training.run_folder)
            continue
        assert process.returncode == -9, err
        kills += 1
        with_state += training.step() >= 0
    assert with_state > kills / 3  # most of them in the middle of something
    training.resumes_to(undisturbed)


def test_a_reader_finds_a_whole_model_at_every_moment(prenorm, quick_folder):
    training = SmallTraining(prenorm, quick_folder)
    process = training.start("--max-iters", 100000, "--lr-schedule", "constant",
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while training.step() < 0 or not training.file("model.safetensors").exists():
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.005)
        for _ in range(40 if LONG else 12):
            done = prenorm("eval", "-m", training.run_folder, training.folder / "text.txt", "--json")
            assert '"loss":' in done.out
    finally:
        process.kill()
        process.wait()
