"""What happens to a training that runs for long: signals, closed pipes, a second training in its
folder, options that change, early stopping, numbers that go bad.
"""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import termios
import time

import pytest

from small_training import SmallTraining, quick_folder, undisturbed  # noqa: F401

ENDLESS = ("--max-iters", 1_000_000, "--lr-decay-iters", 24, "--warmup-iters", 1)


def wait_until(condition, process):
    deadline = time.monotonic() + 60
    while not condition():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.003)


@pytest.fixture
def training(prenorm, quick_folder):
    return SmallTraining(prenorm, quick_folder)


def test_sigusr1_saves_and_training_goes_on(training):
    process = training.start(*ENDLESS, "--save-interval", 900_000, "--no-save-best",
                             "--eval-interval", 0)
    wait_until(lambda: training.file("metrics.jsonl").exists() and len(training.metrics()) > 2,
               process)
    steps = []
    for _ in range(2):
        before = training.step()
        process.send_signal(signal.SIGUSR1)
        wait_until(lambda: training.step() > before, process)
        steps.append(training.step())
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 143 and "stopped and saved at step" in out
    assert err.count("notice: saved at step ") == 2, err
    assert training.step() >= steps[1] > steps[0] >= 0


def test_the_first_signal_saves_and_the_second_ends_at_once(training):
    process = training.start(*ENDLESS)
    wait_until(lambda: training.step() > 0, process)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130
    process.communicate()
    done = training.run("--max-iters", training.step() + 2, "--lr-decay-iters", 24,
                        "--warmup-iters", 1)
    assert "resume  step" in done.stderr


def test_a_terminal_that_is_closed_saves(training):
    leader, terminal = os.openpty()

    def own_terminal():
        fcntl.ioctl(2, termios.TIOCSCTTY, 0)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ignored under nohup, and then for good

    process = training.start(*ENDLESS, stdout=terminal, stderr=terminal, start_new_session=True,
                             preexec_fn=own_terminal)
    os.close(terminal)
    wait_until(lambda: training.file("metrics.jsonl").exists() and len(training.metrics()) > 2,
               process)
    os.close(leader)
    assert process.wait(timeout=60) == 129
    step = training.step()
    assert step > 0
    training.run("--max-iters", step + 1, "--lr-decay-iters", 24, "--warmup-iters", 1)


def test_a_signal_ends_a_long_evaluation(training):
    # More than a minute of evaluation before the first step.
    (training.folder / "text.txt").write_text("the cat sees the dog. " * 60_000)
    process = training.start(*ENDLESS, "--eval-iters", 0, "--val-fraction", 0.9)
    wait_until(lambda: training.file("metrics.jsonl").exists(), process)
    time.sleep(0.3)
    begin = time.monotonic()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 143 and time.monotonic() - begin < 5


def test_one_folder_holds_one_training_at_a_time(training):
    process = training.start(*ENDLESS)
    try:
        wait_until(lambda: training.step() > 0, process)
        error = training.fails_with_one_line(3)
        assert f"found one (process {process.pid})" in error
        assert process.poll() is None
    finally:
        process.kill()
        process.communicate()
    training.run("--max-iters", training.step() + 2, "--lr-decay-iters", 24, "--warmup-iters", 1)


def test_output_that_nobody_reads_ends_no_training(training, undisturbed):
    process = training.start()
    process.stdout.close()
    process.stderr.close()
    assert process.wait(timeout=60) == 0
    assert training.outcome() == undisturbed


def test_a_full_standard_output_is_one_line_after_the_training(training, undisturbed):
    with open("/dev/full", "w") as full:
        error = training.fails_with_one_line(3, stdout=full)
    assert error.startswith("prenorm: standard output: expected room to write")
    assert training.outcome() == undisturbed


def test_saves_by_the_clock_change_no_bit(training, undisturbed):
    training.run("--save-every-minutes", 1e-9)
    sums, position, metrics = training.outcome()
    assert (sums, position, metrics) == undisturbed


def test_keep_says_how_many_states_stay(training):
    training.run("--keep", 4, "--no-save-best")
    assert sorted(p.name for p in training.run_folder.iterdir() if p.is_dir()) == [
        "checkpoint-18", "checkpoint-20", "checkpoint-22", "checkpoint-24"]
    done = training.run("--keep", 1, "--max-iters", 26)
    assert "notice: keep: 4 before, 1 now" in done.stderr
    assert [p.name for p in training.run_folder.iterdir() if p.is_dir()] == ["checkpoint-26"]
    training.fails_with_one_line(2, "--keep", 0)


def test_best_is_the_state_of_the_lowest_validation_loss(prenorm, training):
    # A learning rate that spoils the model later on.
    training.run("--learning-rate", 3, "--min-lr", 3, "--warmup-iters", 200, "--max-iters", 40,
                 "--save-interval", 4, "--eval-interval", 3, "--eval-iters", 0)
    losses = {line["iter"]: line["val_loss"] for line in training.metrics() if "val_loss" in line}
    best = min((iter for iter in losses if iter > 0), key=losses.get)
    assert 3 < best < 39 and best % 4
    state = json.loads(training.file("best/training_state.json").read_text())
    assert state["position"]["iter"] == best
    assert state["position"]["best_val_loss"] == losses[best]


def test_training_ends_when_patience_does_and_stays_ended(training):
    flags = ("--learning-rate", 0.3, "--min-lr", 0.3, "--warmup-iters", 10, "--max-iters", 90,
             "--eval-interval", 3, "--patience", 3, "--json")
    done = training.run(*flags)
    result = json.loads(done.stdout)
    assert result["out_of_patience"] and result["iter"] < 90
    assert result["iter"] == result["best_iter"] + 9
    again = json.loads(training.run(*flags).stdout)
    assert again["iter"] == result["iter"] and again["out_of_patience"]
    outcome = training.outcome()
    # The counter is part of the state: cut off in between, it ends at the same step.
    shutil.rmtree(training.run_folder)
    training.run(*flags, "--max-iters", result["iter"] - 3, "--lr-decay-iters", 90)
    again = json.loads(training.run(*flags, "--lr-decay-iters", 90).stdout)
    assert again["iter"] == result["iter"] and training.outcome() == outcome


@pytest.mark.parametrize("flag, value", [
    ("--batch-size", 3), ("--gradient-accumulation-steps", 3), ("--seed", 8), ("--init", "torch"),
    ("--val-fraction", 0.2), ("--n-embd", 32), ("--block-size", 8), ("--dropout", 0.2),
    ("--tokenizer", "char"), ("--norm", "post")])
def test_what_would_change_the_meaning_of_a_run_is_refused_by_name(training, flag, value):
    training.run("--max-iters", 4)
    error = training.fails_with_one_line(2, flag, value)
    name = {"--dropout": "embd-pdrop"}.get(flag, flag.strip("-"))
    assert name in error or name.replace("-", "_") in error


def test_other_data_is_refused_and_options_that_may_change_are_told(training):
    training.run("--max-iters", 4)
    done = training.run("--learning-rate", 0.004, "--max-iters", 8, "--grad-clip", 0.5)
    for line in ("learning_rate: 0.003 before, 0.004 now", "max_iters: 4 before, 8 now",
                 "grad_clip: 1.0 before, 0.5 now"):
        assert f"notice: {line}" in done.stderr
    (training.folder / "text.txt").write_text("another text " * 200)
    assert "train_tokens" in training.fails_with_one_line(2)


def test_the_watch_belongs_to_the_run(training):
    training.run("--max-iters", 4, "--watch", "--watch-interval", 2)
    training.run("--max-iters", 8)
    watched = [line["iter"] for line in training.metrics() if "watch" in line]
    assert watched == [1, 2, 4, 6, 8]
    done = training.run("--max-iters", 12, "--no-watch")
    assert "notice: watch: true before, false now" in done.stderr
    assert [line["iter"] for line in training.metrics() if "watch" in line] == watched


def test_the_first_bad_number_is_told_without_a_watch(training):
    error = training.fails_with_one_line(4, "--learning-rate", 1e6, "--grad-clip", 0, "--norm",
                                         "post", "--warmup-iters", 0, "--max-bad-steps", 3)
    assert "found 3 steps in a row" in error
    found = [line for line in training.metrics() if "non_finite" in line]
    assert len(found) == 1 and found[0]["non_finite"]["stage"]


def test_a_loss_spike_is_told_once_and_changes_no_bit(training):
    flags = ("--learning-rate", 0.05, "--min-lr", 0.05, "--warmup-iters", 0, "--max-iters", 200,
             "--grad-clip", 0, "--eval-interval", 0, "--save-interval", 50, "--no-save-best",
             "--beta2", 0.5)
    done = training.run(*flags, expect=None)
    spikes = [line for line in training.metrics() if "loss_spike" in line]
    assert done.stderr.count("far above the median") == len(spikes)
    for line in spikes:
        assert line["loss_spike"]["loss"] > line["loss_spike"]["limit"]


def test_a_closed_pipe_ends_quietly(training, undisturbed):
    process = training.start(stderr=subprocess.STDOUT)
    assert process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=60) == 0
    assert training.outcome() == undisturbed
