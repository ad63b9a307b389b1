"""`prenorm train --dtype bf16`: the bits are the same on any threads and instruction set, resumed or
not, alone or under mpirun; the loss curve is float32's within 0.01."""

import hashlib
import json

import pytest
from mpirun import Job, require_mpi
from test_reproducible import runs_here

MODEL = ("--n-layer", 2, "--n-head", 4, "--n-embd", 48, "--block-size", 32, "--dropout", 0.1)
SUMS = ("dot", "tile")


def train(prenorm, text_file, folder, *flags, expect=0):
    return prenorm("train", "--data", text_file, "--tokenizer", "char", "--out-dir", folder, *MODEL,
                   "--batch-size", 8, "--seed", 5, "--eval-interval", 20, *flags, expect=expect)


def digest(folder):
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()


@pytest.fixture(scope="module", params=SUMS)
def run(request, prenorm, text_file, tmp_path_factory):
    """The flags of a run, and the hash of the weights that it ends with on one thread."""
    folder = tmp_path_factory.mktemp("bf16") / "one"
    flags = ("--dtype", "bf16", "--bf16-sums", request.param)
    train(prenorm, text_file, folder, *flags, "--max-iters", 60, "--threads", 1)
    return flags, digest(folder)


@pytest.mark.parametrize("way", [("--threads", 2), ("--threads", 3), ("--isa", "avx2"),
                                 ("--isa", "avx512"), ("--isa", "neon")])
def test_the_bytes_depend_on_neither_threads_nor_instruction_set(
    prenorm, text_file, tmp_path, run, way
):
    flags, expected = run
    if way[0] == "--isa" and not runs_here(prenorm, way[1]):
        pytest.skip(f"this machine does not run {way[1]}")
    train(prenorm, text_file, tmp_path / "run", *flags, "--max-iters", 60, *way)
    assert digest(tmp_path / "run") == expected


def test_the_order_of_sums_is_part_of_the_bits_and_float32_is_another(prenorm, text_file, tmp_path):
    hashes = set()
    for name, flags in {"f32": (), "dot": ("--dtype", "bfloat16", "--bf16-sums", "dot"),
                        "tile": ("--dtype", "bf16", "--bf16-sums", "tile")}.items():
        train(prenorm, text_file, tmp_path / name, *flags, "--max-iters", 20)
        hashes.add(digest(tmp_path / name))
    assert len(hashes) == 3


def test_a_run_that_is_resumed_without_the_flags_gives_the_same_bytes(
    prenorm, text_file, tmp_path, run
):
    flags, expected = run
    folder = tmp_path / "run"
    schedule = ("--lr-decay-iters", 60, "--warmup-iters", 3)
    train(prenorm, text_file, folder, *flags, "--max-iters", 20, *schedule)
    train(prenorm, text_file, folder, "--max-iters", 40, "--resume", *schedule)
    train(prenorm, text_file, folder, "--dtype", "bf16", "--max-iters", 60, "--resume", *schedule)
    assert digest(folder) == expected


def test_micro_batches_of_256_tokens_give_the_bytes_of_one_batch(prenorm, text_file, tmp_path, run):
    flags, _ = run
    hashes = set()
    for pieces in (1, 2, 4):
        folder = tmp_path / str(pieces)
        train(prenorm, text_file, folder, *flags, "--max-iters", 20, "--batch-size", 32 // pieces,
              "--gradient-accumulation-steps", pieces)
        hashes.add(digest(folder))
    assert len(hashes) == 1


def test_another_dtype_or_order_of_sums_is_refused_by_name(prenorm, text_file, tmp_path):
    folder = tmp_path / "run"
    train(prenorm, text_file, folder, "--dtype", "bf16", "--bf16-sums", "dot", "--max-iters", 5)
    for flags, found in ((("--dtype", "f32"), "f32"), (("--bf16-sums", "tile"), "bf16-tile")):
        refused = train(prenorm, text_file, folder, "--resume", *flags, "--max-iters", 9, expect=2)
        assert f"--dtype: expected bf16-dot as in the run to go on with, found {found}" in refused.err
    state = json.loads((folder / "training_state.json").read_text())
    assert state["options"]["dtype"] == "bf16-dot"


def test_flags_that_make_no_sense_are_refused(prenorm, text_file, tmp_path):
    refused = train(prenorm, text_file, tmp_path / "a", "--bf16-sums", "dot", expect=2)
    assert "--bf16-sums: expected --dtype bf16 with it, found f32" in refused.err
    assert "fp16" in train(prenorm, text_file, tmp_path / "b", "--dtype", "fp16", expect=2).err


def test_what_computes_the_products_is_told(prenorm, text_file, tmp_path):
    told = train(prenorm, text_file, tmp_path / "a", "--dtype", "bf16", "--bf16-sums", "tile",
                 "--isa", "avx2" if runs_here(prenorm, "avx2") else "auto", "--max-iters", 2).err
    assert "dtype   products in bfloat16, sums as tile, by fused multiply-adds" in told
    assert "notice: no AMX here with " in told and "--dtype f32 is faster" in told
    assert "dtype" not in train(prenorm, text_file, tmp_path / "b", "--max-iters", 2).err


def test_ranks_give_the_bytes_of_a_run_alone(prenorm, text_file, tmp_path):
    require_mpi(prenorm)
    arguments = ["train", text_file, "--n-layer", 2, "--n-embd", 32, "--n-head", 4,
                 "--block-size", 64, "--batch-size", 8, "--max-iters", 8, "--eval-interval", 4,
                 "--eval-iters", 2, "--threads", 1, "--dtype", "bf16"]
    prenorm(*arguments, "--out-dir", tmp_path / "alone")
    for ranks in (2, 3):
        job = Job(prenorm, ranks, [*arguments, "--out-dir", tmp_path / str(ranks)],
                  tmp_path / "log")
        assert job.wait() == 0, job.text()
        assert digest(tmp_path / str(ranks)) == digest(tmp_path / "alone")


def losses(folder):
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").open()]
    return [(row["iter"], row["loss"], row["val_loss"]) for row in rows]


@pytest.mark.parametrize("sums", SUMS)
def test_the_loss_curve_is_that_of_float32_within_a_hundredth(prenorm, text_file, tmp_path, sums):
    """The recipe of the README's first example, smaller: characters, pre-norm, cosine schedule."""
    recipe = ("--tokenizer", "char", "--n-layer", 4, "--n-head", 4, "--n-embd", 64,
              "--block-size", 64, "--batch-size", 12, "--max-iters", 300, "--eval-interval", 50,
              "--eval-iters", 20, "--learning-rate", 1e-3, "--log-interval", 50)
    curves = []
    for name, flags in (("f32", ()), ("bf16", ("--dtype", "bf16", "--bf16-sums", sums))):
        prenorm("train", text_file, "--out-dir", tmp_path / name, *recipe, *flags)
        curves.append(losses(tmp_path / name))
    exact, rounded = curves
    assert len(exact) == 7 and exact != rounded
    for (step, *one), (other_step, *other) in zip(exact, rounded, strict=True):
        assert step == other_step
        for a, b in zip(one, other, strict=True):
            assert (a is None) == (b is None) and (a is None or abs(a - b) < 0.01), (step, a, b)


def test_bench_tells_the_dtype_and_what_computes_it(prenorm):
    flags = ("bench", "train", "--n-layer", 1, "--n-head", 2, "--n-embd", 32, "--block-size", 16,
             "--batch-size", 2, "--vocab-size", 50, "--seconds", 0.1, "--json", "--profile")
    told = json.loads(prenorm(*flags, "--dtype", "bf16").out)
    assert told["dtype"].startswith("bf16-") and told["bf16_unit"]
    assert json.loads(prenorm(*flags, "--dtype", "bf16", "--bf16-sums", "dot").out)["dtype"] == "bf16-dot"
    plain = json.loads(prenorm(*flags).out)
    assert plain["dtype"] == "f32" and "bf16_unit" not in plain
