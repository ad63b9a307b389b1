"""The same bytes come out of training for any number of threads, on every instruction set, with any
split into micro-batches, in one go or resumed. Dropout is on."""

import hashlib
import subprocess

import pytest

MODEL = ("--n-layer", 2, "--n-head", 4, "--n-embd", 48, "--block-size", 32, "--dropout", 0.1)


def train(prenorm, text_file, folder, *flags):
    prenorm("train", "--data", text_file, "--tokenizer", "char", "--out-dir", folder, *MODEL,
            "--batch-size", 8, "--seed", 5, "--eval-interval", 25, *flags)
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def one_thread(prenorm, text_file, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "one"
    return train(prenorm, text_file, folder, "--max-iters", 100, "--threads", 1)


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_training_gives_the_same_bytes_for_any_number_of_threads(
    prenorm, text_file, tmp_path, one_thread, threads
):
    folder = tmp_path / "run"
    assert train(prenorm, text_file, folder, "--max-iters", 100, "--threads", threads) == one_thread


def test_another_seed_gives_other_bytes(prenorm, text_file, tmp_path, one_thread):
    folder = tmp_path / "run"
    assert train(prenorm, text_file, folder, "--max-iters", 100, "--seed", 6) != one_thread


@pytest.mark.parametrize("isa", ["avx2", "avx512", "neon"])
def test_training_gives_the_same_bytes_on_every_instruction_set(
    prenorm, text_file, tmp_path, one_thread, isa
):
    probe = subprocess.run(
        [prenorm.path, "train", text_file, "--out-dir", tmp_path / "probe", "--max-iters", "1",
         "--isa", isa], capture_output=True, check=False)
    if b"isa: expected" in probe.stderr:
        pytest.skip(f"this machine does not run {isa}")
    folder = tmp_path / "run"
    assert train(prenorm, text_file, folder, "--max-iters", 100, "--isa", isa) == one_thread


def test_a_run_that_is_resumed_gives_the_same_bytes(prenorm, text_file, tmp_path, one_thread):
    """Cut at step 40 by a smaller --max-iters, with the schedule of the whole run."""
    folder = tmp_path / "run"
    schedule = ("--lr-decay-iters", 100, "--warmup-iters", 5)
    train(prenorm, text_file, folder, "--max-iters", 40, *schedule)
    assert train(prenorm, text_file, folder, "--max-iters", 100, "--resume", *schedule) == one_thread


def test_micro_batches_of_whole_sum_blocks_give_the_bytes_of_one_batch(
    prenorm, text_file, tmp_path
):
    """1,024 tokens a step, in pieces of 1,024, 512 and 256."""
    hashes = [
        train(prenorm, text_file, tmp_path / str(pieces), "--max-iters", 100,
              "--batch-size", 32 // pieces, "--gradient-accumulation-steps", pieces)
        for pieces in (1, 2, 4)
    ]
    assert hashes[0] == hashes[1] == hashes[2]
