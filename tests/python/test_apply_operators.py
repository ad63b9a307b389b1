"""The operators of `prenorm apply` (linear, activation, softmax, attention's core, embedding,
cross-entropy), attention to other keys, whole models and refusals, against PyTorch and
`transformers` in float64."""

import math

import pytest
import torch
from safetensors.torch import load_file, save_file
from test_apply import ATOL, GRADIENT, RTOL, TEXTBOOK, save
from torch.nn import functional as F
from transformers import GPT2Config, GPT2LMHeadModel


class Operator:
    """Runs both modes of `apply` and compares them with a function of float64 tensors."""

    def __init__(self, prenorm, folder):
        self.prenorm, self.folder = prenorm, folder

    def run(self, layer, inputs, parameters=None, *flags, suffix=".safetensors"):
        arguments = ["apply", layer, "--input", self.folder / f"X{suffix}",
                     "--output", self.folder / "Y.safetensors"]
        save(self.folder / f"X{suffix}", {n: t.contiguous() for n, t in inputs.items()})
        if parameters is not None:
            save(self.folder / f"P{suffix}", {n: t.contiguous() for n, t in parameters.items()})
            arguments += ["--params", self.folder / f"P{suffix}"]
        self.prenorm(*arguments, *flags)
        return load_file(self.folder / "Y.safetensors")

    def check(self, layer, f, inputs, parameters=None, *flags, constants=None, suffix=".safetensors"):
        """f(dict of float64 tensors) gives the output; `inputs` get gradients, `constants` not."""
        constants, parameters = constants or {}, parameters or {}
        leaves = {n: t.double().requires_grad_() for n, t in {**inputs, **parameters}.items()}
        with torch.enable_grad():
            want = f({**leaves, **constants})
        dy = torch.randn(want.shape)
        gradients = torch.autograd.grad(want, list(leaves.values()), dy.double())
        exact = {"output": want.detach()}
        exact.update(("grad." + n, g) for n, g in zip(leaves, gradients))
        files = {**inputs, **constants, "grad_output": dy}
        for mode in ([], ["--reference"]):
            found = self.run(layer, files, parameters or None, *flags, *mode, suffix=suffix)
            assert set(found) == set(exact)
            for name, tensor in exact.items():
                got = found[name]
                assert got.shape == tensor.shape, name
                if mode:
                    assert got.dtype == torch.float64
                    torch.testing.assert_close(got, tensor, rtol=TEXTBOOK, atol=TEXTBOOK)
                elif name == "output":
                    torch.testing.assert_close(got.double(), tensor, rtol=RTOL, atol=ATOL)
                else:
                    error = float((got.double() - tensor).norm())
                    assert error <= GRADIENT * float(tensor.norm()) + 1e-12, f"{name}: {error}"


@pytest.fixture
def operator(prenorm, tmp_path):
    torch.manual_seed(5)
    return Operator(prenorm, tmp_path)


def test_without_the_outputs_gradient_there_is_no_other(operator):
    files, parameters = {"input": torch.randn(3, 7)}, {"weight": torch.randn(5, 7)}
    for mode in ([], ["--reference"]):
        assert set(operator.run("linear", files, parameters, *mode)) == {"output"}


@pytest.mark.parametrize("shape", [(7,), (3, 7), (2, 3, 4, 7)])
@pytest.mark.parametrize("bias", [True, False])
def test_linear(operator, shape, bias):
    parameters = {"weight": torch.randn(5, 7), "bias": torch.randn(5)}
    if not bias:
        del parameters["bias"]
    operator.check("linear", lambda t: F.linear(t["input"], t["weight"], t.get("bias")),
                   {"input": torch.randn(shape)}, parameters, suffix=".npz" if bias else ".safetensors")


@pytest.mark.parametrize("shape", [(), (1,), (5, 33), (2, 1, 3, 17)])
@pytest.mark.parametrize("kind", ["relu", "gelu", "gelu-tanh"])
def test_activation(operator, shape, kind):
    functions = {"relu": F.relu, "gelu": F.gelu, "gelu-tanh": lambda x: F.gelu(x, approximate="tanh")}
    operator.check("activation", lambda t: functions[kind](t["input"]),
                   {"input": 3 * torch.randn(shape)}, None, "--activation", kind)


@pytest.mark.parametrize("shape, axis", [((), -1), ((9,), 0), ((3, 4, 5), -1), ((3, 4, 5), 0),
                                         ((3, 4, 5), 1)])
def test_softmax(operator, shape, axis):
    operator.check("softmax", lambda t: F.softmax(t["input"], axis),
                   {"input": 4 * torch.randn(shape)}, None, "--axis", axis)


@pytest.mark.parametrize("axes, shape", [(1, (8,)), (2, (4, 3, 5)), (3, (2, 2, 3, 5))])
@pytest.mark.parametrize("affine", ["none", "weight", "both"])
def test_layer_norm_over_several_axes(operator, axes, shape, affine):
    features = shape[-axes:]
    parameters = {}
    if affine != "none":
        parameters["weight"] = torch.randn(features)
    if affine == "both":
        parameters["bias"] = torch.randn(features)
    operator.check(
        "layer-norm",
        lambda t: F.layer_norm(t["input"], features, t.get("weight"), t.get("bias"), 1e-3),
        {"input": torch.randn(shape)}, parameters, "--eps", 1e-3, "--normalized-axes", axes)


@pytest.mark.parametrize("leading", [(), (2,), (2, 3), (2, 1, 3)])
@pytest.mark.parametrize("mask", ["none", "causal", "bool", "float", "scale", "values"])
def test_scaled_dot_product_attention(operator, leading, mask):
    time, keys, width = 5, 70 if mask == "float" else 7, 6
    out_width = {"values": 9, "scale": 2}.get(mask, width)
    flags = ["--causal" if mask == "causal" else "--no-causal"]
    constants, scale = {}, None
    if mask == "bool":  # true lets a key be seen
        constants["attn_mask"] = torch.rand(time, keys) < 0.6
        constants["attn_mask"][:, 2] = True
    if mask == "float":
        constants["attn_mask"] = torch.randn(*leading[:1], *([1] * len(leading[1:])), 1, keys)
    if mask == "scale":
        scale = 0.3
        flags += ["--scale", scale]

    def attention(t):
        added = t.get("attn_mask")
        added = added.double() if added is not None and added.dtype != torch.bool else added
        return F.scaled_dot_product_attention(t["query"], t["key"], t["value"], added,
                                              is_causal=mask == "causal", scale=scale)

    inputs = {"query": torch.randn(*leading, time, width), "key": torch.randn(*leading, keys, width),
              "value": torch.randn(*leading, keys, out_width)}
    operator.check("scaled-dot-product-attention", attention, inputs, None, *flags,
                   constants=constants)


@pytest.mark.parametrize("batch", [None, 1, 3])
@pytest.mark.parametrize("mask", ["none", "causal", "bool", "per head", "padding"])
def test_attention_to_other_keys(operator, batch, mask):
    time, keys, width, heads = 4, 7, 12, 3
    module = torch.nn.MultiheadAttention(width, heads, batch_first=True).double()
    parameters = {n: torch.randn(p.shape) / 2 for n, p in module.named_parameters()}
    leading = [] if batch is None else [batch]
    constants = {}
    if mask == "bool":
        constants["attn_mask"] = torch.rand(time, keys) < 0.4
        constants["attn_mask"][:, 0] = False
    if mask == "per head":
        constants["attn_mask"] = torch.randn((batch or 1) * heads, time, keys)
    if mask == "padding":
        constants["key_padding_mask"] = torch.zeros(*leading, keys, dtype=torch.bool)
        constants["key_padding_mask"][..., -2:] = True

    def attention(t):
        blocked = t.get("attn_mask")
        if mask == "causal":
            blocked = torch.ones(time, keys).triu(1).bool()
        if mask == "per head":
            blocked = blocked.double()
        weights = {n: t[n] for n in parameters}
        return torch.func.functional_call(
            module, weights, (t["input"], t["key"], t["value"]),
            {"attn_mask": blocked, "key_padding_mask": t.get("key_padding_mask"),
             "need_weights": False})[0]

    inputs = {"input": torch.randn(*leading, time, width), "key": torch.randn(*leading, keys, width),
              "value": torch.randn(*leading, keys, width)}
    operator.check("attention", attention, inputs, parameters, "--heads", heads,
                   "--causal" if mask == "causal" else "--no-causal", constants=constants)


def test_separate_projections_are_the_packed_ones(operator):
    x, packed = torch.randn(2, 3, 6), torch.randn(18, 6)
    rest = {"in_proj_bias": torch.randn(18), "out_proj.weight": torch.randn(6, 6),
            "out_proj.bias": torch.randn(6)}
    parts = {f"{n}_proj_weight": packed[6 * i : 6 * i + 6] for i, n in enumerate("qkv")}
    files = {"input": x, "grad_output": torch.randn_like(x)}
    one = operator.run("attention", files, {"in_proj_weight": packed, **rest}, "--heads", 2)
    three = operator.run("attention", files, {**parts, **rest}, "--heads", 2)
    assert torch.equal(one["output"], three["output"])
    assert torch.equal(one["grad.in_proj_weight"],
                       torch.cat([three[f"grad.{n}_proj_weight"] for n in "qkv"]))


@pytest.mark.parametrize("shape", [(), (4,), (2, 3)])
@pytest.mark.parametrize("padding", [None, 2])
def test_embedding(operator, shape, padding):
    ids = torch.randint(0, 6, shape)
    flags = [] if padding is None else ["--padding-idx", padding]
    operator.check("embedding", lambda t: F.embedding(t["input_ids"], t["weight"], padding), {},
                   {"weight": torch.randn(6, 5)}, *flags, constants={"input_ids": ids})


@pytest.mark.parametrize("shape", [(7,), (4, 7), (2, 7, 3), (2, 7, 3, 2)])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
def test_cross_entropy(operator, shape, reduction, smoothing):
    targets = torch.randint(0, 7, shape[:1] * (len(shape) > 1) + shape[2:])
    if targets.ndim:
        targets.view(-1)[1] = 3  # ignored
    ignore = 3 if targets.ndim else -100
    operator.check(
        "cross-entropy",
        lambda t: F.cross_entropy(t["input"], t["targets"], ignore_index=ignore,
                                  reduction=reduction, label_smoothing=smoothing),
        {"input": 5 * torch.randn(shape)}, None, "--reduction", reduction, "--label-smoothing",
        smoothing, "--ignore-index", ignore, constants={"targets": targets})


@pytest.mark.parametrize("layer", ["attention", "block", "stack"])
@pytest.mark.parametrize("mode", [[], ["--reference"]])
def test_a_query_that_sees_no_key_has_output_zero_and_finite_gradients(operator, layer, mode):
    width, heads = 6, 2
    if layer == "attention":
        module = torch.nn.MultiheadAttention(width, heads, bias=False, batch_first=True)
    else:
        module = torch.nn.TransformerEncoderLayer(width, heads, 8, 0.0, norm_first=True,
                                                  batch_first=True)
        if layer == "stack":
            module = torch.nn.TransformerEncoder(module, 2, enable_nested_tensor=False)
    x = torch.randn(2, 4, width)
    mask = torch.zeros(4, 4, dtype=torch.bool)
    mask[2] = True
    padding = torch.tensor([[False] * 4, [True] * 4])
    found = operator.run(layer, {"input": x, "grad_output": torch.randn_like(x), "attn_mask": mask,
                                 "key_padding_mask": padding}, dict(module.state_dict()),
                         "--heads", heads, "--activation", "relu", *mode)
    assert all(bool(t.isfinite().all()) for t in found.values())
    if layer == "attention":
        assert not found["output"][1].any() and not found["output"][0, 2].any()
        assert not found["grad.input"][1].any()


@pytest.fixture(scope="module", params=["tied", "untied", "without prefix"])
def gpt2(request, tmp_path_factory):
    torch.manual_seed(11)
    config = GPT2Config(vocab_size=19, n_positions=9, n_embd=12, n_layer=2, n_head=3,
                        tie_word_embeddings=request.param != "untied", resid_pdrop=0.1,
                        scale_attn_by_inverse_layer_idx=request.param == "untied")
    model = GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p), alpha=0.3)
    folder = tmp_path_factory.mktemp("gpt2")
    model.save_pretrained(folder)
    if request.param == "without prefix":
        tensors = load_file(folder / "model.safetensors")
        save_file({n.removeprefix("transformer."): t for n, t in tensors.items()},
                  folder / "model.safetensors", {"format": "pt"})
    return folder, model.double()


@pytest.mark.parametrize("shape", [(9,), (1, 1), (3, 8)])
def test_models(prenorm, gpt2, tmp_path, shape):
    folder, model = gpt2
    ids = torch.randint(0, 19, shape, generator=torch.Generator().manual_seed(1))
    targets = torch.randint(0, 19, shape, generator=torch.Generator().manual_seed(2))
    if targets.numel() > 3:
        targets.view(-1)[:2] = torch.tensor([-100, -1])
    save_file({"input_ids": ids, "targets": targets}, tmp_path / "X.safetensors")
    logits = model(ids.reshape(-1, shape[-1])).logits.reshape(*shape, 19)
    kept = targets.masked_fill(targets < 0, -100)
    loss = F.cross_entropy(logits.reshape(-1, 19), kept.reshape(-1))
    names, parameters = zip(*model.named_parameters())
    gradients = dict(zip(names, torch.autograd.grad(loss, parameters)))
    saved = load_file(folder / "model.safetensors")
    for mode in ([], ["--reference"]):
        prenorm("apply", "gpt", "--params", folder, "--input", tmp_path / "X.safetensors",
                "--output", tmp_path / "Y.safetensors", *mode)
        found = load_file(tmp_path / "Y.safetensors")
        assert set(found) == {"logits", "loss", *("grad." + n for n in saved)}
        tight = {"rtol": TEXTBOOK, "atol": TEXTBOOK}
        near = tight if mode else {"rtol": RTOL, "atol": ATOL}
        torch.testing.assert_close(found["logits"].double(), logits.detach(), **near)
        torch.testing.assert_close(found["loss"].double(), loss.detach(), **near)
        for name in saved:
            full = name if name in gradients else "transformer." + name
            want = gradients[full]
            error = float((found["grad." + name].double() - want).norm())
            assert error <= (TEXTBOOK if mode else GRADIENT) * float(want.norm()), name


@pytest.mark.parametrize("mode", [[], ["--reference"]])
def test_models_with_masks_and_a_gradient_of_the_logits(prenorm, gpt2, tmp_path, mode):
    folder, model = gpt2
    generator = torch.Generator().manual_seed(4)
    ids = torch.randint(0, 19, (2, 7), generator=generator)
    padding = torch.zeros(2, 7, dtype=torch.bool)
    padding[1, 2:4] = True
    logits = model(ids, attention_mask=(~padding).long(),
                   position_ids=torch.arange(7).expand(2, 7)).logits
    grad_output = torch.randn(logits.shape, generator=generator)
    names, parameters = zip(*model.named_parameters())
    gradients = dict(zip(names, torch.autograd.grad(logits, parameters, grad_output.double())))
    save_file({"input_ids": ids, "key_padding_mask": padding, "grad_output": grad_output},
              tmp_path / "X.safetensors")
    prenorm("apply", "gpt", "--params", folder, "--input", tmp_path / "X.safetensors",
            "--output", tmp_path / "Y.safetensors", *mode)
    found = load_file(tmp_path / "Y.safetensors")
    saved = load_file(folder / "model.safetensors")
    assert set(found) == {"logits", *("grad." + n for n in saved)}
    near = {"rtol": TEXTBOOK, "atol": TEXTBOOK} if mode else {"rtol": RTOL, "atol": ATOL}
    torch.testing.assert_close(found["logits"].double(), logits.detach(), **near)
    for name in saved:
        want = gradients[name if name in gradients else "transformer." + name]
        error = float((found["grad." + name].double() - want).norm())
        assert error <= (TEXTBOOK if mode else GRADIENT) * float(want.norm()), name


def test_tokens_beyond_the_context_are_refused(prenorm, gpt2, tmp_path):
    save_file({"input_ids": torch.zeros(1, 10, dtype=torch.int64)}, tmp_path / "X.safetensors")
    done = prenorm("apply", "gpt", "--params", gpt2[0], "--input", tmp_path / "X.safetensors",
                   "--output", tmp_path / "Y.safetensors", expect=3)
    assert "'input_ids': expected at most 9 tokens" in done.err and "[1, 10]" in done.err


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_inputs_of_other_floating_point_types(operator, dtype):
    x, weight = torch.randn(3, 5).to(dtype), torch.randn(5).to(dtype)
    want = F.layer_norm(x.double(), (5,), weight.double())
    found = operator.run("layer-norm", {"input": x}, {"weight": weight}, "--reference")
    torch.testing.assert_close(found["output"], want, rtol=TEXTBOOK, atol=TEXTBOOK)
    found = operator.run("layer-norm", {"input": x}, {"weight": weight})
    assert found["output"].dtype == torch.float32
    torch.testing.assert_close(found["output"].double(), want, rtol=RTOL, atol=ATOL)


@pytest.mark.parametrize("shape", [(0, 3, 4), (2, 0, 4)])
def test_nothing_gives_nothing(operator, shape):
    module = torch.nn.TransformerEncoderLayer(4, 2, 6)
    x = torch.zeros(shape)
    found = operator.run("block", {"input": x, "grad_output": x}, dict(module.state_dict()),
                         "--heads", 2)
    assert found["output"].shape == shape and found["grad.input"].shape == shape
    assert all(not t.any() and t.dtype == torch.float32 for t in found.values())


def test_numbers_that_are_not_finite_pass_on(operator):
    x = torch.randn(3, 4)
    x[1, 2] = math.nan
    found = operator.run("layer-norm", {"input": x}, {"weight": torch.ones(4)})["output"]
    assert found[1].isnan().all() and found[0].isfinite().all() and found[2].isfinite().all()
