"""`prenorm diagnose` on runs of PyTorch: each mistake of the table from stages and from logits, pairs,
clean runs in three types, single blocks. bench/confusion.py asks the same of many more;
test_diagnose_files.py has what is read and written."""

import json
import random

import pytest
import torch
from diagnose_cases import (
    Case, CleanCase, Folder, Shape, judge, mistakes_everywhere, mistakes_in_one_place, random_pair)
from mistaken_gpt import Mistake
from safetensors.torch import save_file
from torch import nn

MODEL = Shape(n_layer=3, n_head=3, n_embd=48, time=20)
UNTIED = Shape(n_layer=2, n_head=2, n_embd=32, n_inner=32, activation_function="gelu",
               tie_word_embeddings=False, vocab_size=67, time=18)


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return Folder(tmp_path_factory.mktemp("model"), MODEL, seed=3)


@pytest.fixture(scope="module")
def untied(tmp_path_factory):
    return Folder(tmp_path_factory.mktemp("untied"), UNTIED, seed=4)


def ask(prenorm, case, directory, *more):
    """The answer of the program; its exit code agrees with its status."""
    done = prenorm(*case.write(directory), *more, expect=None)
    assert done.returncode in (0, 1), done.err
    answer = json.loads(done.out)
    assert (done.returncode == 0) == (answer["status"] == "equal")
    return answer


def wrong_answers(prenorm, cases, directory):
    found = []
    for case in cases:
        answer = ask(prenorm, case, directory)
        wrong = judge(case, answer)
        if wrong:
            found.append(f"{case}: {wrong}")
        if not case.stages:
            assert answer["first_divergence"] is None, str(case)
    return found


# --- Mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("stages", [True, False], ids=["stages", "logits"])
def test_every_mistake_is_named(prenorm, folder, untied, tmp_path, stages):
    cases = [Case(f, [m], stages=stages) for f in (folder, untied)
             for m in mistakes_everywhere(f.shape)
             if f is folder or m.name.startswith(("activation", "weights"))]
    assert len({c.mistakes[0].name for c in cases}) >= 37
    assert not wrong_answers(prenorm, cases, tmp_path)


@pytest.mark.parametrize("stages", [True, False], ids=["stages", "logits"])
def test_a_mistake_in_one_place_is_found_there(prenorm, folder, tmp_path, stages):
    places = list(mistakes_in_one_place(folder.shape, random.Random(2)))
    cases = [Case(folder, [m], stages=stages) for m in places[::1 if stages else 3]]
    assert not wrong_answers(prenorm, cases, tmp_path)


@pytest.mark.parametrize("stages", [True, False], ids=["stages", "logits"])
def test_two_mistakes_are_named(prenorm, folder, tmp_path, stages):
    pick = random.Random(5)
    cases = [Case(folder, random_pair(folder, pick)[0], stages=stages) for _ in range(6)]
    assert not wrong_answers(prenorm, cases, tmp_path)


@pytest.mark.parametrize(("name", "stage"), [
    ("norm.ddof", "transformer.h.1.ln_2"),
    ("attention.no-scale", "transformer.h.1.attn.c_proj"),
    ("activation.relu", "transformer.h.1.mlp.act"),
    ("structure.no-residual", "transformer.h.1.ln_2"),
])
def test_the_first_stage_that_departs_is_said(prenorm, folder, tmp_path, name, stage):
    where = stage if name == "norm.ddof" else "transformer.h.1"
    answer = ask(prenorm, Case(folder, [Mistake(name, where)]), tmp_path)
    assert answer["first_divergence"] == stage


def test_a_mistake_below_the_rounding_is_no_mistake(prenorm, folder, tmp_path):
    case = Case(folder, [Mistake("attention.mask-finite", value=-1e4)], stages=False)
    assert torch.equal(case.dump()["logits"], Case(folder, []).dump()["logits"])
    assert ask(prenorm, case, tmp_path)["status"] == "equal"


def test_an_unknown_head_is_not_guessed_from_few_tokens(prenorm, tmp_path):
    few = Folder(tmp_path / "few", Shape(n_layer=2, n_embd=64, batch=1, time=12), seed=6)
    answer = ask(prenorm, Case(few, [Mistake("weights.untied-head")], stages=False), tmp_path)
    assert answer["status"] == "unknown" and answer["mistakes"] == []


# --- Clean runs -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_a_clean_run_is_not_accused(prenorm, folder, tmp_path, dtype):
    small = Folder(tmp_path / "small", Shape(n_layer=1, n_head=1, n_embd=16, time=2,
                                             weights="initial"), seed=8)
    large = Folder(tmp_path / "large", Shape(n_layer=6, n_head=8, n_embd=128, time=40,
                                             weights="outliers"), seed=9)
    cases = [CleanCase(f, dtype, stages, attention) for f in (folder, small, large)
             for stages in (True, False) for attention in ("eager", "sdpa")]
    assert not wrong_answers(prenorm, cases, tmp_path / "dump")


# --- Blocks ---------------------------------------------------------------------------------------


def block(norm_first=True, activation="relu", eps=1e-5):
    torch.manual_seed(12)
    layer = nn.TransformerEncoderLayer(32, 4, 64, 0.0, activation, eps, batch_first=True,
                                       norm_first=norm_first)
    with torch.no_grad():
        for p in layer.parameters():
            p.add_(0.2 * torch.randn_like(p))
    return layer.train()  # with dropout 0: the formula itself, not the fused path


def ask_block(prenorm, directory, layer, causal=True, options=()):
    x = torch.randn(2, 10, 32, generator=torch.Generator().manual_seed(1))
    mask = nn.Transformer.generate_square_subsequent_mask(10) if causal else None
    with torch.no_grad():
        output = layer(x, src_mask=mask, is_causal=causal)
    save_file(dict(layer.named_parameters()), directory / "params.safetensors")
    save_file({"input": x}, directory / "x.safetensors")
    save_file({"output": output}, directory / "theirs.safetensors")
    done = prenorm("diagnose", "--params", directory / "params.safetensors", "--input",
                   directory / "x.safetensors", "--theirs", directory / "theirs.safetensors",
                   "--heads", 4, *options, "--json", expect=None)
    assert done.returncode in (0, 1), done.err
    return json.loads(done.out)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_clean_block_is_equal(prenorm, tmp_path, norm):
    layer = block(norm == "pre")
    answer = ask_block(prenorm, tmp_path, layer, options=["--norm", norm, "--activation", "relu"])
    assert answer["status"] == "equal" and answer["mistakes"] == []


@pytest.mark.parametrize(("name", "value", "made"), [
    ("attention.no-mask", None, {"causal": False}),
    ("structure.post-norm", None, {"layer": {"norm_first": False}}),
    ("activation.gelu-erf", None, {"layer": {"activation": "gelu"}}),
    ("norm.eps-value", 1e-3, {"layer": {"eps": 1e-3}}),
])
def test_a_mistake_in_a_block_is_named(prenorm, tmp_path, name, value, made):
    layer = block(**made.get("layer", {}))
    answer = ask_block(prenorm, tmp_path, layer, made.get("causal", True),
                       ["--norm", "pre", "--activation", "relu"])
    assert [m["name"] for m in answer["mistakes"]] == [name]
    assert value is None or answer["mistakes"][0]["value"] == pytest.approx(value, rel=0.1)
