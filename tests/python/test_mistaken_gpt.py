"""The outside witness is right: tests/python/mistaken_gpt.py makes every mistake as the values that
were recorded for the textbook do, and without one it is transformers' GPT-2, to the bit."""

import contextlib
import importlib.util
import io
import re

import pytest
import torch
from conftest import ROOT
from mistaken_gpt import Mistake, MistakenGpt, record
from transformers import GPT2Config, GPT2LMHeadModel

RECORDED = ROOT / "tests" / "reference" / "expected_values.h"


@pytest.fixture(scope="module")
def textbook():
    """tests/reference/expected_values.py: its inputs and its checksum."""
    spec = importlib.util.spec_from_file_location("expected_values", RECORDED.with_suffix(".py"))
    module = importlib.util.module_from_spec(spec)
    with contextlib.redirect_stdout(io.StringIO()):
        spec.loader.exec_module(module)
    torch.set_default_dtype(torch.float32)
    return module


def recorded_mistakes():
    table = RECORDED.read_text(encoding="utf-8").split("kMistakes[] = {", 1)[1].split("};", 1)[0]
    rows = re.findall(r'\{"(.*?)", "(.*?)", "(.*?)", (.*?), (.*?)\}', table)
    for name, where, text, number, logits in rows:
        value = text or None
        if name in ("norm.eps-value", "attention.mask-finite"):
            value = float(number)
        elif name == "position.offset":
            value = int(float(number))
        elif name.startswith("weights.") and text:
            value = f"{text}.{'weight' if name.endswith('transposed') else 'bias'}"
        yield Mistake(name, where or "everywhere", value), float(logits)


def test_every_mistake_gives_the_recorded_logits(textbook):
    p = {name: tensor.detach() for name, tensor in textbook.parameters().items()}
    config = {"n_layer": textbook.LAYERS, "n_head": textbook.HEADS, "n_embd": textbook.C,
              "n_inner": textbook.WIDTH, "vocab_size": textbook.V, "n_positions": textbook.P,
              "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new"}
    cases = list(recorded_mistakes())
    assert len({mistake.name for mistake, _ in cases}) > 35
    for mistake, expected in cases:
        model = MistakenGpt(config, [mistake]).double()
        model.take(p)
        if mistake.name == "weights.untied-head":  # theirs is known there
            model.lm_head.weight.data.copy_(p["lm_head.weight"])
        found = textbook.checksum(model(textbook.TOKENS))
        assert found == pytest.approx(expected, rel=1e-11), str(mistake)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_without_a_mistake_every_stage_is_that_of_transformers(tmp_path, dtype, tied):
    torch.manual_seed(7)
    config = GPT2Config(n_layer=3, n_head=4, n_embd=48, vocab_size=61, n_positions=32,
                        tie_word_embeddings=tied, attn_implementation="eager")
    theirs = GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for p in theirs.parameters():
            p.add_(0.1 * torch.randn_like(p))
    theirs.save_pretrained(tmp_path)
    ids = torch.randint(0, 61, (2, 17))
    expected = record(theirs.to(dtype), ids)
    found = record(MistakenGpt.load(tmp_path, dtype=dtype), ids)
    assert list(found) == list(expected) and len(found) == 3 * 8 + 3
    for name, value in expected.items():
        assert torch.equal(found[name], value), name
