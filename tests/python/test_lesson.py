"""The lesson page without a browser: it is made of the sources beside it, the program carries it, and
its functions, compiled for this machine, agree with PyTorch and with `prenorm apply --reference`."""

import json
import math
import re

import numpy
import pytest
import torch
from lesson_page import PAGE, Native, load_build, mistake_notes, tokens_of
from safetensors.torch import load_file, save_file
from torch.nn import functional
from transformers import GPT2Config, GPT2LMHeadModel

EXACT = 1e-9

build = load_build()


@pytest.fixture(scope="module")
def native(tmp_path_factory):
    return Native(tmp_path_factory.mktemp("lesson"))


def test_the_page_is_of_the_sources_beside_it():
    assert build.recorded("code") == build.code_hash(), "run docs/lesson/build.py: the C++ changed"
    assert build.recorded("page") == build.page_hash(), "run docs/lesson/build.py: page/ changed"


def test_the_hash_of_the_code_sees_code_and_no_comments(monkeypatch):
    files = build.code_files()
    assert "prenorm/reference/layer_norm.h" in files and "docs/lesson/error_hook.cc" in files
    now = build.code_hash()
    header = files["prenorm/reference/layer_norm.h"]
    for change, same in [(header + "// words\n", True), (header.replace("\n", "\n  "), True),
                         (header.replace("sqrt(variance + eps)", "sqrt(variance - eps)"), False)]:
        monkeypatch.setattr(build, "code_files",
                            lambda text=change: files | {"prenorm/reference/layer_norm.h": text})
        assert (build.code_hash() == now) == same


def test_the_page_is_what_build_makes():
    found, made_by = build.compiler_version(), build.recorded("compiler")
    if found is None:
        pytest.skip("without clang-19 and its wasm32 packages the module cannot be compiled")
    if found != made_by:
        pytest.skip(f"another compiler: the page is made by {made_by}, here is {found}")
    assert build.build(fresh=True) == PAGE.read_text(encoding="utf-8")


def test_the_page_fetches_nothing():
    text = PAGE.read_text(encoding="utf-8")
    # Namespaces are names, not addresses.
    addresses = set(re.findall(r"https?://[^\s\"'<>)]+", text)) - {"http://www.w3.org/2000/svg"}
    assert not addresses
    assert "default-src 'none'" in text
    assert not re.search(r"<(?:script|img|iframe|link)[^>]*\s(?:src|href)=\"(?!data:|#)", text)


def test_the_program_writes_the_same_bytes(prenorm, tmp_path):
    prenorm("lesson", "-o", tmp_path / "lesson.html")
    assert (tmp_path / "lesson.html").read_bytes() == PAGE.read_bytes()
    assert prenorm("lesson", "-o", "-").stdout == PAGE.read_bytes()


@pytest.mark.parametrize("eps", [1e-5, 1.0, 1e-8])
def test_layer_norm_by_hand_is_pytorchs(native, eps):
    torch.manual_seed(3)
    x, weight, bias = (torch.randn(*shape).double() for shape in ([3, 4], [4], [4]))
    steps = native.layer_norm(x.numpy(), weight.tolist(), bias.tolist(), eps)
    norm = functional.layer_norm
    assert numpy.allclose(steps["mean"].ravel(), x.mean(-1), rtol=0, atol=EXACT)
    assert numpy.allclose(steps["variance"].ravel(), x.var(-1, unbiased=False), rtol=0, atol=EXACT)
    assert numpy.allclose(steps["x_hat"], norm(x, (4,), eps=eps), rtol=0, atol=EXACT)
    assert numpy.allclose(steps["y"], norm(x, (4,), weight, bias, eps), rtol=0, atol=EXACT)


def test_layer_norms_switches_compute_what_they_say(native):
    x = [[1.0, 4, 3, 0], [2, -1, 0.5, 1], [-3, 2, 1, 0]]
    t = torch.tensor(x).double()
    plain = ([1.0] * 4, [0.0] * 4)
    wrong = {
        "norm.ddof": (t - t.mean(-1, True)) / (t.var(-1, keepdim=True) + 0.1).sqrt(),
        "norm.axis": (t - t.mean(0)) / (t.var(0, unbiased=False) + 0.1).sqrt(),
        "norm.eps-outside-root": (t - t.mean(-1, True)) / (t.std(-1, unbiased=False, keepdim=True) + 0.1),
        "norm.eps-misplaced": (t - t.mean(-1, True)) / t.std(-1, unbiased=False, keepdim=True) + 0.1,
    }
    for name, expected in wrong.items():
        y = native.layer_norm(x, *plain, 0.1, [{"name": name}])["y"]
        assert numpy.allclose(y, expected, rtol=0, atol=EXACT), name


def hugging_face(native, activation="gelu_new"):
    model = GPT2LMHeadModel(GPT2Config(
        vocab_size=27, n_positions=17, n_embd=8, n_layer=2, n_head=2, activation_function=activation,
        attn_pdrop=0, resid_pdrop=0, embd_pdrop=0, attn_implementation="eager")).double().eval()
    state = {n: t for n, t in native.parameters().items() if n != "lm_head.weight"}
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert set(missing) <= {"lm_head.weight"} and not unexpected
    model.tie_weights()
    return model


def test_the_model_is_hugging_faces_gpt2_stage_by_stage(native):
    model, text = hugging_face(native), "the cat sat on"
    seen = {}
    for name, module in model.named_modules():
        if name.split(".")[-1] in ("drop", "ln_1", "ln_2", "c_attn", "c_proj", "c_fc", "act", "ln_f"):
            module.register_forward_hook(lambda _, __, out, name=name: seen.update({name: out}))
    with torch.no_grad():
        logits = model(tokens_of(text)).logits
    stages = native.model(text)
    assert numpy.allclose(stages["logits"], logits[0], rtol=0, atol=EXACT)
    assert len(seen) == 2 + 2 * 7
    for name, out in seen.items():
        assert numpy.allclose(stages[name], out[0], rtol=0, atol=EXACT), name


def test_the_model_is_that_of_apply_reference(native, prenorm, tmp_path):
    hugging_face(native).float().save_pretrained(tmp_path / "model")
    save_file({"input_ids": tokens_of("break it")}, tmp_path / "x.safetensors")
    prenorm("apply", "gpt", "--reference", "--params", tmp_path / "model",
            "--input", tmp_path / "x.safetensors", "--output", tmp_path / "y.safetensors")
    logits = load_file(tmp_path / "y.safetensors")["logits"][0]
    assert numpy.allclose(native.model("break it")["logits"], logits, rtol=0, atol=EXACT)


def test_post_norm_is_pytorchs_encoder_layer(native):
    p = native.parameters()
    layers, x = [], torch.from_numpy(native.model("norms", post=True)["transformer.drop"])[None]
    for l in range(2):
        layer = torch.nn.TransformerEncoderLayer(
            8, 2, 32, 0.0, lambda u: functional.gelu(u, approximate="tanh"), batch_first=True,
            norm_first=False).double().eval()
        names = {"norm1": "ln_1", "norm2": "ln_2", "self_attn.out_proj": "attn.c_proj",
                 "linear1": "mlp.c_fc", "linear2": "mlp.c_proj"}
        state = {}
        for kind in ("weight", "bias"):
            for ours, theirs in names.items():
                tensor = p[f"transformer.h.{l}.{theirs}.{kind}"]
                state[f"{ours}.{kind}"] = tensor.T if tensor.ndim == 2 else tensor
            packed = p[f"transformer.h.{l}.attn.c_attn.{kind}"]
            state[f"self_attn.in_proj_{kind}"] = packed.T if packed.ndim == 2 else packed
        layer.load_state_dict(state)
        layers.append(layer)
    mask = torch.nn.Transformer.generate_square_subsequent_mask(5).double()
    stages = native.model("norms", post=True)
    with torch.no_grad():
        for l, layer in enumerate(layers):
            x = layer(x, src_mask=mask)
            assert numpy.allclose(stages[f"transformer.h.{l}"], x[0], rtol=0, atol=EXACT)


def test_no_sublayers_make_a_pre_norm_stack_the_identity(native):
    pre, post = native.model("ident", 0.0), native.model("ident", 0.0, post=True)
    assert numpy.array_equal(pre["transformer.drop"], pre["transformer.h.1"])
    assert not numpy.allclose(post["transformer.drop"], post["transformer.h.1"], atol=0.1)


@pytest.mark.parametrize("post", [False, True])
def test_tokens_before_a_change_move_by_nothing(native, post):
    before, after = (native.model(text, post=post)["logits"] for text in ("the cat s", "the cot s"))
    assert numpy.array_equal(before[:5], after[:5])
    assert (numpy.abs(before[5:] - after[5:]).max(-1) > 1e-3).all()
    loose = {"mistakes": [{"name": "attention.no-mask"}], "post": post}
    before, after = (native.model(text, **loose)["logits"] for text in ("the cat s", "the cot s"))
    assert (numpy.abs(before[:5] - after[:5]).max(-1) > 0).all()


def test_growth_is_what_the_page_says(native):
    sizes = {name: values.ravel() for name, values in native.growth(24, 4.0).items()}
    assert numpy.allclose(sizes["plain"][:4], [1, 4, 16, 64], rtol=1e-12)
    for name in ("normed", "post", "pre.branch"):
        assert numpy.allclose(sizes[name], 1, atol=1e-4), name
    for gain in (0.5, 1.0, 4.0):
        pre = native.growth(24, gain)["pre"].ravel()
        predicted = [math.sqrt(1 + gain * gain * l) for l in range(25)]
        assert numpy.allclose(pre, predicted, rtol=0.12), gain


def test_every_mistake_has_its_notes_and_moves_the_output(native):
    found = mistake_notes()
    assert sorted(found) == sorted(native.mistakes()) and len(found) == 40
    for name, (settings, choice) in found.items():
        right = native.model("attend", **settings)
        wrong = native.model("attend", mistakes=[choice], **settings)
        assert not numpy.array_equal(right["logits"], wrong["logits"]), name
