"""`prenorm eval --stride` beside a computation in torch after Hugging Face's guide to perplexity."""

import json
import math

import pytest
import torch
from transformers import AutoTokenizer, GPT2LMHeadModel

CONTEXT = 24


@pytest.fixture(scope="module")
def folder(prenorm, text_file, tmp_path_factory):
    path = tmp_path_factory.mktemp("run") / "run"
    prenorm("train", "--data", text_file, "--tokenizer", "char", "--out-dir", path, "--n-layer", 2,
            "--n-head", 2, "--n-embd", 32, "--block-size", CONTEXT, "--max-iters", 60,
            "--batch-size", 8)
    return path


def losses(model, ids, window, stride):
    """Of every token that the guide's loop predicts: the labels of what an earlier window has seen
    are ignored, and the first of each window is not predicted."""
    found, previous_end = {}, 0
    for begin in range(0, len(ids), stride):
        end = min(begin + window, len(ids))
        with torch.no_grad():
            rows = model(torch.tensor([ids[begin:end]])).logits[0].double().log_softmax(-1)
        for at in range(max(previous_end, begin + 1), end):
            assert at not in found
            found[at] = -float(rows[at - begin - 1, ids[at]])
        previous_end = end
        if end == len(ids):
            break
    return found


@pytest.mark.parametrize("window,stride", [(24, 1), (24, 12), (24, 7), (16, 5), (24, 24)])
def test_strided_evaluation_is_the_guides(prenorm, folder, text_file, tmp_path, window, stride):
    text = text_file.read_text(encoding="utf-8")[-403:]
    file = tmp_path / "text.txt"
    file.write_text(text, encoding="utf-8")
    ours = json.loads(prenorm("eval", "-m", folder, file, "--json", "--window", window, "--stride",
                              stride).out)
    ids = AutoTokenizer.from_pretrained(folder)(text)["input_ids"]
    found = losses(GPT2LMHeadModel.from_pretrained(folder).eval(), ids, window, stride)
    mean = sum(found.values()) / len(found)
    assert ours["tokens"] == len(found)
    assert abs(ours["loss"] - mean) < 1e-5
    assert ours["perplexity"] == pytest.approx(math.exp(mean), rel=2e-5)
    assert ours["bits_per_byte"] == pytest.approx(mean / math.log(2), abs=2e-5)
