"""The same bytes come out of training for any number of threads, on every instruction set, with any
split into micro-batches, in one go or resumed. Dropout is on."""

import hashlib
import subprocess

import pytest
import torch
from safetensors.torch import load_file, save_file

MODEL = ("--n-layer", 2, "--n-head", 4, "--n-embd", 48, "--block-size", 32, "--dropout", 0.1)


def train(prenorm, text_file, folder, *flags):
    prenorm("train", "--data", text_file, "--tokenizer", "char", "--out-dir", folder, *MODEL,
            "--batch-size", 8, "--seed", 5, "--eval-interval", 25, *flags)
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def model(prenorm, text_file, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "one"
    train(prenorm, text_file, folder, "--max-iters", 100, "--threads", 1)
    return folder


@pytest.fixture(scope="module")
def one_thread(model):
    return hashlib.sha256((model / "model.safetensors").read_bytes()).hexdigest()


def runs_here(prenorm, isa):
    probe = subprocess.run([prenorm.path, "fingerprint", "--isa", isa], capture_output=True,
                           check=False)
    return b"isa: expected" not in probe.stderr


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
    if not runs_here(prenorm, isa):
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


def logits_file(prenorm, folder, model, tokens, *flags):
    save_file({"input_ids": tokens}, folder / "x.safetensors")
    prenorm("apply", "gpt", "--params", model, "--input", folder / "x.safetensors",
            "--output", folder / "y.safetensors", *flags)
    return folder / "y.safetensors"


def test_logits_are_the_same_bytes_on_any_threads_and_instruction_set(prenorm, tmp_path, model):
    tokens = torch.randint(0, 20, (64, 32), generator=torch.Generator().manual_seed(1))
    ways = [("--threads", n) for n in (1, 2, 3, 8)]
    ways += [("--isa", isa) for isa in ("avx2", "avx512", "neon") if runs_here(prenorm, isa)]
    hashes = {logits_file(prenorm, tmp_path, model, tokens, *way).read_bytes() for way in ways}
    assert len(hashes) == 1


def test_logits_are_the_same_bits_in_any_batch_and_for_any_length(prenorm, tmp_path, model):
    tokens = torch.randint(0, 20, (64, 32), generator=torch.Generator().manual_seed(2))
    whole = load_file(logits_file(prenorm, tmp_path, model, tokens))["logits"]
    for begin, end in [(0, 1), (1, 3), (3, 17), (63, 64)]:
        part = load_file(logits_file(prenorm, tmp_path, model, tokens[begin:end]))["logits"]
        assert torch.equal(part, whole[begin:end])
    for length in (1, 7, 31):
        part = load_file(logits_file(prenorm, tmp_path, model, tokens[:, :length].contiguous()))
        assert torch.equal(part["logits"], whole[:, :length])
