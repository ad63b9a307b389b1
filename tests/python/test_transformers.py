"""A run folder is a Hugging Face folder: `transformers` opens what prenorm trains, computes the
same numbers and says the same tokens, and prenorm opens what `transformers` saves."""

import json

import numpy
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoTokenizer, GPT2LMHeadModel

CONTEXT = 32


@pytest.fixture(scope="module", params=["char", "byte"])
def run_folder(request, prenorm, text_file, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / request.param
    prenorm("train", "--data", text_file, "--tokenizer", request.param, "--out-dir", folder,
            "--n-layer", 2, "--n-head", 4, "--n-embd", 64, "--block-size", CONTEXT,
            "--max-iters", 150, "--batch-size", 8, "--warmup-iters", 10, "--seed", 1)
    return folder


@pytest.fixture(scope="module")
def model(run_folder):
    return GPT2LMHeadModel.from_pretrained(run_folder).eval()


def continuation(prenorm, folder, prompt, tokens, *flags):
    done = prenorm("generate", "-m", folder, "-p", prompt, "-n", tokens, "--json", *flags)
    return json.loads(done.out)


def test_tokenizers_agree(run_folder, text_file):
    tokenizer = AutoTokenizer.from_pretrained(run_folder)
    text = text_file.read_text(encoding="utf-8")[:500]
    ids = tokenizer(text)["input_ids"]
    assert len(ids) == len(text)
    assert tokenizer.decode(ids) == text


def test_a_hundred_greedy_tokens_are_the_same(prenorm, run_folder, model):
    tokenizer = AutoTokenizer.from_pretrained(run_folder)
    prompt = "the cat sees "
    ours = continuation(prenorm, run_folder, prompt, 100, "--temp", 0)["ids"]
    ids = tokenizer(prompt)["input_ids"]
    theirs = []
    with torch.no_grad():
        for _ in range(100):  # the window slides, as ours does
            logits = model(torch.tensor([(ids + theirs)[-CONTEXT:]])).logits
            theirs.append(int(logits[0, -1].argmax()))
    assert ours == theirs


def test_log_probabilities_agree_within_2e_5(prenorm, run_folder, model, text_file):
    tokenizer = AutoTokenizer.from_pretrained(run_folder)
    text = text_file.read_text(encoding="utf-8")
    for window in range(5):
        prompt = text[-2000 + window * 100 :][: CONTEXT - 8]
        ours = continuation(prenorm, run_folder, prompt, 8, "--seed", window)
        ids = tokenizer(prompt)["input_ids"] + ours["ids"]
        with torch.no_grad():
            logprobs = model(torch.tensor([ids])).logits[0].double().log_softmax(-1)
        first = len(ids) - 8
        theirs = [float(logprobs[first + i - 1, ids[first + i]]) for i in range(8)]
        numpy.testing.assert_allclose(ours["logprobs"], theirs, rtol=0, atol=2e-5)


def test_evaluation_agrees(prenorm, run_folder, model, text_file, tmp_path):
    text = text_file.read_text(encoding="utf-8")[-1000:]
    held_out = tmp_path / "held_out.txt"
    held_out.write_text(text, encoding="utf-8")
    ours = json.loads(prenorm("eval", "-m", run_folder, "--data", held_out, "--json").out)
    ids = AutoTokenizer.from_pretrained(run_folder)(text)["input_ids"]
    total = count = 0
    with torch.no_grad():
        for start in range(0, len(ids) - 1, CONTEXT):
            inputs = ids[start : start + CONTEXT]
            targets = ids[start + 1 : start + CONTEXT + 1]
            logits = model(torch.tensor([inputs[: len(targets)]])).logits[0].double()
            total += float(torch.nn.functional.cross_entropy(
                logits, torch.tensor(targets), reduction="sum"))
            count += len(targets)
    assert ours["tokens"] == count
    assert abs(ours["loss"] - total / count) < 1e-5


def test_what_transformers_saves_loads_into_the_same_bits(prenorm, run_folder, model, tmp_path):
    model.save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(run_folder).save_pretrained(tmp_path)
    saved = load_file(tmp_path / "model.safetensors")
    for name, tensor in load_file(run_folder / "model.safetensors").items():
        match = saved.get(name, saved.get(name.removeprefix("transformer.")))
        assert match is not None and torch.equal(tensor, match), name
    prompt = "a dog likes"
    ours = continuation(prenorm, run_folder, prompt, 50, "--seed", 3)
    assert continuation(prenorm, tmp_path, prompt, 50, "--seed", 3) == ours
