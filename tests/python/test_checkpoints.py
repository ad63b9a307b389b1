"""Folders of the gpt2 type as `transformers` saves them, with every option of the config, in every
file form: the same logits and the same greedy tokens. Broken ones are refused."""

import json
import shutil

import numpy
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import GPT2Config, GPT2LMHeadModel

CONTEXT = 64
PROMPT = "the cat sees "

OPTIONS = {
    "plain": {},
    "relu, narrow": {"activation_function": "relu", "n_inner": 40},
    "gelu, epsilon": {"activation_function": "gelu", "layer_norm_epsilon": 1e-3, "n_inner": None},
    "gelu_pytorch_tanh, scale": {
        "activation_function": "gelu_pytorch_tanh",
        "scale_attn_weights": False,
        "reorder_and_upcast_attn": True,
    },
    "by layer": {"scale_attn_by_inverse_layer_idx": True, "reorder_and_upcast_attn": True},
    "untied": {"tie_word_embeddings": False, "bos_token_id": 3, "eos_token_id": None},
}


@pytest.fixture(scope="module")
def byte_tokenizer(prenorm, text_file, tmp_path_factory):
    """The two files of a tokenizer of 256 tokens."""
    folder = tmp_path_factory.mktemp("tokenizer") / "run"
    prenorm("train", text_file, "--tokenizer", "byte", "--out-dir", folder, "--n-layer", 1,
            "--n-head", 1, "--n-embd", 8, "--block-size", 8, "--max-iters", 1, "--eval-iters", 1)
    return [folder / "tokenizer.json", folder / "tokenizer_config.json"]


def random_model(**options):
    torch.manual_seed(1)
    settings = {"vocab_size": 256, "n_positions": CONTEXT, "n_embd": 32, "n_layer": 3, "n_head": 4,
                "bos_token_id": 0, "eos_token_id": None, "initializer_range": 0.3, **options}
    model = GPT2LMHeadModel(GPT2Config(**settings)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias") or ".ln_" in name:
                parameter += 0.2 * torch.randn_like(parameter)
    return model


def check_same(prenorm, folder, model, byte_tokenizer, tmp_path, tolerance=2e-5):
    ids = torch.randint(0, 256, (2, 40), generator=torch.Generator().manual_seed(2))
    save_file({"input_ids": ids}, tmp_path / "ids.safetensors")
    prenorm("apply", "gpt", "--params", folder, "--input", tmp_path / "ids.safetensors",
            "--output", tmp_path / "out.safetensors")
    ours = load_file(tmp_path / "out.safetensors")["logits"]
    with torch.no_grad():
        theirs = model(ids).logits
    numpy.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance)
    for file in byte_tokenizer:
        shutil.copy(file, folder)
    done = prenorm("generate", "-m", folder, "-p", PROMPT, "-n", 50, "--temp", 0, "--json")
    tokens = list(PROMPT.encode())
    with torch.no_grad():
        for _ in range(50):
            tokens.append(int(model(torch.tensor([tokens[-CONTEXT:]])).logits[0, -1].argmax()))
    assert json.loads(done.out)["ids"] == tokens[len(PROMPT):]


@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_of_the_config(prenorm, byte_tokenizer, tmp_path, name):
    model = random_model(**OPTIONS[name])
    model.save_pretrained(tmp_path / "model")
    check_same(prenorm, tmp_path / "model", model, byte_tokenizer, tmp_path)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_dtypes(prenorm, byte_tokenizer, tmp_path, dtype):
    model = random_model().to(dtype)
    model.save_pretrained(tmp_path / "model")
    check_same(prenorm, tmp_path / "model", model.float(), byte_tokenizer, tmp_path)


def test_a_model_in_several_files(prenorm, byte_tokenizer, tmp_path):
    model = random_model()
    model.save_pretrained(tmp_path / "model", max_shard_size="40kB")
    assert len(list((tmp_path / "model").glob("*.safetensors"))) > 2
    check_same(prenorm, tmp_path / "model", model, byte_tokenizer, tmp_path)


@pytest.mark.parametrize("prefix", ["", "transformer."])
def test_pytorch_model_bin(prenorm, byte_tokenizer, tmp_path, prefix):
    model = random_model()
    model.save_pretrained(tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").unlink()
    state = model.state_dict()
    if not prefix:
        state = {k.removeprefix("transformer."): v for k, v in state.items()}
    # Not row-major in the file, and a buffer of older versions.
    state[prefix + "h.0.attn.c_attn.weight"] = state[prefix + "h.0.attn.c_attn.weight"].T.clone().T
    state[prefix + "h.0.attn.bias"] = torch.ones(1, 1, CONTEXT, CONTEXT, dtype=torch.bool)
    torch.save(state, tmp_path / "model" / "pytorch_model.bin")
    check_same(prenorm, tmp_path / "model", model, byte_tokenizer, tmp_path)


def test_pytorch_model_bin_in_several_files(prenorm, byte_tokenizer, tmp_path):
    model = random_model()
    folder = tmp_path / "model"
    model.save_pretrained(folder)
    (folder / "model.safetensors").unlink()
    state = model.state_dict()
    names = sorted(state)
    weight_map = {}
    for part, chosen in enumerate([names[:10], names[10:]]):
        file = f"pytorch_model-{part + 1:05}-of-00002.bin"
        torch.save({name: state[name] for name in chosen}, folder / file)
        weight_map.update(dict.fromkeys(chosen, file))
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": weight_map}))
    check_same(prenorm, folder, model, byte_tokenizer, tmp_path)


def refused(prenorm, folder, *words):
    done = prenorm("inspect", folder, expect=3)
    for word in words:
        assert word in done.err, done.err
    assert done.out == ""


def test_an_index_that_disagrees_is_refused(prenorm, tmp_path):
    folder = tmp_path / "model"
    random_model().save_pretrained(folder, max_shard_size="40kB")
    path = folder / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    good = index["weight_map"]
    first = next(iter(good.values()))

    def changed(change, *words):
        weight_map = dict(good)
        change(weight_map)
        path.write_text(json.dumps({**index, "weight_map": weight_map}))
        refused(prenorm, folder, *words)

    changed(lambda m: m.update(extra=first), "index.json: expected", "missing: extra in")
    changed(lambda m: m.pop("transformer.wpe.weight"), "unexpected: transformer.wpe.weight")
    shutil.copy(folder / first, tmp_path / "outside.safetensors")
    for name in ["../outside.safetensors", str(tmp_path / "outside.safetensors"), "..", ""]:
        changed(lambda m: m.update({k: name for k in m if m[k] == first}), "plain file names")
    (folder / "link.safetensors").symlink_to("../outside.safetensors")
    changed(lambda m: m.update({k: "link.safetensors" for k in m if m[k] == first}),
            "own folder", "a link that leads out")


def test_the_links_of_a_cache_are_followed(prenorm, tmp_path):
    random_model().save_pretrained(tmp_path / "model", max_shard_size="40kB")
    snapshot, blobs = tmp_path / "hub" / "snapshots" / "abc", tmp_path / "hub" / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    for file in (tmp_path / "model").iterdir():
        shutil.copy(file, blobs / f"blob-{file.name}")
        (snapshot / file.name).symlink_to(f"../../blobs/blob-{file.name}")
    prenorm("inspect", snapshot)


def test_all_missing_extra_and_misshapen_tensors_are_listed(prenorm, tmp_path):
    folder = tmp_path / "model"
    model = random_model()
    model.save_pretrained(folder)
    state = load_file(folder / "model.safetensors")
    state.pop("transformer.h.1.ln_1.bias")
    state.pop("transformer.ln_f.weight")
    state["transformer.h.9.ln_1.bias"] = torch.zeros(32)
    state["transformer.h.0.attn.c_attn.weight"] = torch.zeros(96, 32)
    save_file(state, folder / "model.safetensors")
    refused(prenorm, folder, "missing: transformer.h.1.ln_1.bias",
            "missing: transformer.ln_f.weight", "unexpected: transformer.h.9.ln_1.bias",
            "transformer.h.0.attn.c_attn.weight: expected [32, 96], found [96, 32]")


def test_a_head_that_is_a_copy_or_contradicts(prenorm, byte_tokenizer, tmp_path):
    folder = tmp_path / "model"
    model = random_model()
    model.save_pretrained(folder)
    state = load_file(folder / "model.safetensors")
    state["lm_head.weight"] = state["transformer.wte.weight"].clone()
    save_file(state, folder / "model.safetensors")
    check_same(prenorm, folder, model, byte_tokenizer, tmp_path)
    state["lm_head.weight"][3, 4] += 1
    save_file(state, folder / "model.safetensors")
    refused(prenorm, folder, "lm_head.weight", "tie_word_embeddings is true")


@pytest.mark.parametrize("key, value", [
    ("activation_function", "silu"), ("add_cross_attention", True), ("n_inner", 0),
    ("layer_norm_epsilon", "x"), ("model_type", "gpt_neo"), ("n_head", 5), ("n_positions", -1),
    ("resid_pdrop", 1.5), ("tie_word_embeddings", 1), ("bos_token_id", "a"),
])
def test_options_that_are_refused(prenorm, tmp_path, key, value):
    folder = tmp_path / "model"
    random_model().save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    config[key] = value
    (folder / "config.json").write_text(json.dumps(config))
    refused(prenorm, folder, "config.json", key, "expected", "found")


class Attack:
    def __reduce__(self):
        return (print, ("executed",))


def test_a_pickle_that_would_run_code_is_refused(prenorm, tmp_path):
    torch.save({"x": torch.zeros(2), "y": Attack()}, tmp_path / "a.pt")
    done = prenorm("inspect", tmp_path / "a.pt", expect=3)
    assert ".print', which is not run" in done.err
    assert "executed" not in done.out
    torch.save({"x": torch.zeros(2)}, tmp_path / "b.pt", _use_new_zipfile_serialization=False)
    done = prenorm("inspect", tmp_path / "b.pt", expect=3)
    assert "older form" in done.err


def test_tensors_of_every_kind_from_a_pt_file(prenorm, tmp_path):
    base = torch.arange(24, dtype=torch.float32).reshape(2, 3, 4)
    tensors = {
        "whole": base, "slice": base[1:, :, 1:3], "turned": base.permute(2, 0, 1),
        "scalar": torch.tensor(3.5), "empty": torch.zeros(0, 4), "row": base[0, 1],
        "spread": torch.ones(1, 4).expand(3, 4), "parameter": torch.nn.Parameter(torch.ones(2)),
        **{str(d): torch.arange(3).to(d) for d in (
            torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16,
            torch.int8, torch.uint8, torch.bool)},
    }
    torch.save(tensors, tmp_path / "a.pt")
    save_file({k: v.detach().contiguous().clone() for k, v in tensors.items()},
              tmp_path / "a.safetensors")
    rows = [{row["name"]: row for row in json.loads(
        prenorm("inspect", tmp_path / f"a.{kind}", "--json").out)["tensors"]}
        for kind in ("pt", "safetensors")]
    assert rows[0] == rows[1]


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "f64"])
def test_what_convert_writes_opens_without_a_warning(prenorm, tmp_path, dtype, caplog):
    model = random_model().double()
    model.save_pretrained(tmp_path / "in")
    for out in ("a", "b"):
        prenorm("convert", tmp_path / "in", "--out-dir", tmp_path / out, "--dtype", dtype)
    a, b = ((tmp_path / out / "model.safetensors").read_bytes() for out in ("a", "b"))
    assert a == b
    loaded, report = GPT2LMHeadModel.from_pretrained(tmp_path / "a", output_loading_info=True)
    assert not any(report.values()), report
    assert "weight" not in caplog.text
    assert loaded.lm_head.weight is loaded.transformer.wte.weight
    torch_type = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16,
                  "f64": torch.float64}[dtype]
    for name, value in loaded.state_dict().items():
        assert value.dtype == torch_type
        assert torch.equal(value, model.state_dict()[name].to(torch_type)), name


def test_nanogpt_and_mingpt_checkpoints_become_folders(prenorm, byte_tokenizer, tmp_path):
    for kind in ("nanogpt", "mingpt"):
        model = random_model(activation_function="gelu" if kind == "nanogpt" else "gelu_new",
                             tie_word_embeddings=kind == "nanogpt")
        matrices = ("c_attn.weight", "c_proj.weight", "c_fc.weight")
        state = {k: v.T.contiguous() if k.endswith(matrices) else v
                 for k, v in model.state_dict().items()}
        if kind == "nanogpt":
            state = {"_orig_mod." + k: v for k, v in state.items()}
            torch.save({"model": state, "optimizer": {"state": {0: {"step": torch.tensor(3.0)}}},
                        "model_args": {"n_layer": 3, "n_head": 4, "n_embd": 32,
                                       "block_size": CONTEXT, "bias": True, "vocab_size": 256,
                                       "dropout": 0.0},
                        "iter_num": 7, "best_val_loss": torch.tensor(1.5), "config": {"a": [1]}},
                       tmp_path / "ckpt.pt")
            prenorm("convert", tmp_path / "ckpt.pt", "--out-dir", tmp_path / kind)
        else:
            for layer in range(3):
                state[f"transformer.h.{layer}.attn.bias"] = torch.ones(1, 1, CONTEXT, CONTEXT)
            torch.save(state, tmp_path / "model.pt")
            prenorm("convert", tmp_path / "model.pt", "--out-dir", tmp_path / kind, "--n-head", 4)
        check_same(prenorm, tmp_path / kind, model, byte_tokenizer, tmp_path)


def test_what_convert_writes_for_pytorch_loads_there(prenorm, tmp_path):
    model = random_model()
    model.save_pretrained(tmp_path / "in")
    prenorm("convert", tmp_path / "in", "--out-dir", tmp_path / "nano", "--layout", "nanogpt")
    nano = torch.load(tmp_path / "nano" / "ckpt.pt", weights_only=True)
    state = model.state_dict()
    assert nano["model_args"]["n_head"] == 4 and nano["model_args"]["bias"] is True
    assert set(nano["model"]) == set(state)
    assert (nano["model"]["lm_head.weight"].data_ptr()
            == nano["model"]["transformer.wte.weight"].data_ptr())
    name = "transformer.h.1.attn.c_attn.weight"
    assert torch.equal(nano["model"][name], state[name].T)
    prenorm("convert", tmp_path / "in", "--out-dir", tmp_path / "torch", "--layout", "torch")
    loaded = torch.load(tmp_path / "torch" / "model.pt", weights_only=True)
    encoder = torch.nn.TransformerEncoder(
        torch.nn.TransformerEncoderLayer(32, 4, 128, norm_first=True), 3, torch.nn.LayerNorm(32),
        enable_nested_tensor=False)
    encoder.load_state_dict({k: v for k, v in loaded.items() if not k.startswith("wt")
                             and not k.startswith("wp")})
    assert torch.equal(encoder.layers[1].self_attn.in_proj_weight, state[name].T)
