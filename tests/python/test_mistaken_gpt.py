"""The outside witness is right: tests/python/mistaken_gpt.py makes every mistake as the values that
were recorded for the textbook do, and without one it is transformers' GPT-2, to the bit. And the judge
of diagnose_cases.py tells right answers from wrong ones."""

import contextlib
import importlib.util
import io
import re

import pytest
import torch
from conftest import ROOT
from diagnose_cases import Case, Folder, Shape, judge
from mistaken_gpt import Mistake, MistakenGpt, record
from safetensors.torch import load_file, save_file
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


@pytest.mark.parametrize("fused", [False, True])
def test_every_mistake_gives_the_recorded_logits(textbook, fused):
    p = {name: tensor.detach() for name, tensor in textbook.parameters().items()}
    config = {"n_layer": textbook.LAYERS, "n_head": textbook.HEADS, "n_embd": textbook.C,
              "n_inner": textbook.WIDTH, "vocab_size": textbook.V, "n_positions": textbook.P,
              "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new"}
    cases = list(recorded_mistakes())
    assert len({mistake.name for mistake, _ in cases}) > 35
    for mistake, expected in cases:
        model = MistakenGpt(config, [mistake]).double()
        model.take(p)
        for block in model.transformer.h:
            block.attn.fused = fused
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


def answer(status, *mistakes, candidates=()):
    entries = [{"name": m.name, "where": m.where, "value": m.value, "margin": 9.0} for m in mistakes]
    return {"status": status, "mistakes": entries, "candidates": list(candidates),
            "first_divergence": None}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return Folder(tmp_path_factory.mktemp("model"), Shape(n_layer=2, n_embd=32, time=16), seed=1)


DDOF = Mistake("norm.ddof")
EPS = Mistake("norm.eps-value", "transformer.h.1.ln_2", 1e-3)
HIDDEN = Mistake("attention.mask-finite", value=-1e4)
RIGHT = [
    ([], answer("equal")),
    ([DDOF], answer("named", DDOF)),
    ([DDOF, EPS], answer("named", EPS, DDOF)),
    ([EPS], answer("named", EPS._replace(value=1.09e-3))),
    ([HIDDEN], answer("equal")),
    ([DDOF, HIDDEN], answer("named", DDOF)),
]
WRONG = [
    ([], answer("named", DDOF)),
    ([], answer("unknown")),
    ([], answer("named")),
    ([DDOF], answer("equal")),
    ([DDOF], answer("unknown")),
    ([DDOF], answer("named", DDOF, Mistake("norm.rms"))),
    ([DDOF], answer("named", DDOF, DDOF)),
    ([DDOF], answer("named", DDOF._replace(where="transformer.h.0"))),
    ([DDOF, EPS], answer("named", DDOF)),
    ([EPS], answer("named", EPS._replace(value=1.2e-3))),
    ([EPS], answer("named", EPS._replace(value=None))),
    ([EPS], answer("named", EPS._replace(where="everywhere"))),
    ([EPS], answer("named", EPS._replace(where="transformer.h.1.ln_1"))),
    ([DDOF], answer("ambiguous", candidates=["norm.ddof", "norm.rms"])),
    ([DDOF], answer("ambiguous", candidates=["norm.rms"])),
    ([DDOF, EPS], answer("ambiguous", DDOF, candidates=["norm.rms", "norm.eps-value"])),
]


def test_the_judge_accepts_right_answers(folder):
    assert not [f"{c}: {judge(Case(folder, c), a)}" for c, a in RIGHT if judge(Case(folder, c), a)]


def test_the_judge_sees_wrong_answers(folder):
    assert not [(c, a) for c, a in WRONG if not judge(Case(folder, c), a)]


def test_candidates_must_be_such_as_rounding_cannot_tell_apart(folder, tmp_path):
    zero = [Mistake("attention.mask-zero", "transformer.h.1")]
    both = answer("ambiguous", candidates=["attention.mask-zero", "attention.mask-finite"])
    assert "attention.mask-finite" in judge(Case(folder, zero, stages=False), both)
    far = Folder(tmp_path, Shape(n_layer=2, n_embd=32, time=16), seed=1)
    weights = load_file(tmp_path / "model.safetensors")
    with torch.no_grad():  # all scores far below any mask's number
        for name in weights:
            if name.endswith("c_attn.bias"):
                weights[name][:32], weights[name][32:64] = -3e3, 3e3
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    assert judge(Case(far, zero, stages=False), both) == ""


def test_a_clean_run_in_a_small_type_is_named_as_such(folder):
    case = Case(folder, [], "bfloat16")
    assert judge(case, answer("named", Mistake("numbers.bf16"))) == ""
    assert "numbers.bf16" in judge(case, answer("equal"))
    assert "numbers.f16" in judge(case, answer("named", Mistake("numbers.f16")))
