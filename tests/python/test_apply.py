"""`prenorm apply` against PyTorch in float64: random layers, shapes, options, masks, names and file
formats, from fixed seeds. Outputs agree within torch.testing.assert_close's defaults for float32,
every gradient within 1e-5 of its norm, or, where that is more, twice PyTorch's own error in float32;
`--reference` within 1e-10."""

import random

import numpy
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

RTOL, ATOL, GRADIENT, TEXTBOOK = 1.3e-6, 1e-5, 1e-5, 1e-10
ACTIVATIONS = {
    "relu": nn.functional.relu,
    "gelu": nn.functional.gelu,
    "gelu-tanh": lambda x: nn.functional.gelu(x, approximate="tanh"),
}


class FeedForward(nn.Module):
    def __init__(self, width, inner, activation, bias):
        super().__init__()
        self.linear1 = nn.Linear(width, inner, bias=bias)
        self.linear2 = nn.Linear(inner, width, bias=bias)
        self.activation = activation

    def forward(self, x):
        return self.linear2(self.activation(self.linear1(x)))


class Draw:
    """A random layer with its inputs, in float64 of float32 numbers."""

    def __init__(self, layer, seed):
        choose = self.random = random.Random(f"{layer}, {seed}")
        torch.manual_seed(choose.randrange(2**31))
        self.layer = layer
        self.batched = choose.random() < 0.8
        self.batch = choose.choice([1, 2, 3]) if self.batched else 1
        self.heads = choose.choice([1, 1, 2, 3, 5, 25])
        self.width = self.heads * choose.choice([1, 2, 3, 5, 8])
        if layer in ("layer-norm", "feed-forward"):
            self.width = choose.choice([1, 2, 3, 7, 16, 33, 100, 257])
        self.inner = choose.choice([1, 3, 4 * self.width, 50])
        self.time = choose.choice([1, 2, 7, 17, 65, 130])
        self.norm = choose.choice(["pre", "post"])
        self.activation = choose.choice(list(ACTIVATIONS))
        self.eps = choose.choice([1e-5, 1e-5, 1e-3, 1e-12])
        self.causal = choose.random() < 0.5
        self.bias = choose.random() < 0.7
        self.module = self.make_module().double()
        with torch.no_grad():
            for p in self.module.parameters():
                size = p.shape[-1] ** -0.5 if p.ndim == 2 else 1.0
                p.copy_(torch.randn_like(p).mul_(size).float())
        shape = [self.batch, self.time, self.width][0 if self.batched else 1 :]
        self.x = self.floats(shape)
        self.dy = self.floats(shape)
        self.attn_mask = self.key_padding = None
        if layer in ("attention", "block", "stack"):
            self.draw_masks()

    def __str__(self):
        return ", ".join(f"{name} {tuple(value.shape) if torch.is_tensor(value) else value}"
                         for name, value in vars(self).items() if name not in ("module", "random"))

    def floats(self, shape):
        return torch.randn(shape).double()

    def make_module(self):
        if self.layer == "layer-norm":
            return nn.LayerNorm(self.width, self.eps, bias=self.bias)
        if self.layer == "feed-forward":
            return FeedForward(self.width, self.inner, ACTIVATIONS[self.activation], self.bias)
        if self.layer == "attention":
            return nn.MultiheadAttention(self.width, self.heads, bias=self.bias, batch_first=True)
        layer = nn.TransformerEncoderLayer(
            self.width, self.heads, self.inner, 0.0, ACTIVATIONS[self.activation], self.eps,
            batch_first=True, norm_first=self.norm == "pre", bias=self.bias)
        if self.layer == "block":
            return layer
        norm = nn.LayerNorm(self.width, self.eps) if self.random.random() < 0.5 else None
        return nn.TransformerEncoder(layer, self.random.choice([1, 2, 3]), norm,
                                     enable_nested_tensor=False)

    def draw_masks(self):
        """Masks that leave each query its own key at least."""
        time, batch, heads = self.time, self.batch, self.heads
        kind = self.random.choice(["none", "bool", "float", "per head", "padding", "both"])
        if kind in ("bool", "both"):
            self.attn_mask = (torch.rand(time, time) < 0.4).logical_and(~torch.eye(time).bool())
        if kind == "float":
            self.attn_mask = torch.randn(time, time)
            self.attn_mask[(torch.rand(time, time) < 0.3) & ~torch.eye(time).bool()] = -torch.inf
        if kind == "per head":
            self.attn_mask = torch.randn(batch * heads, time, time)
        if kind in ("padding", "both") and self.batched:
            self.key_padding = torch.zeros(batch, time, dtype=torch.bool)
            if time > 1:
                self.key_padding[0, time - time // 2 :] = True
                if self.attn_mask is not None:  # a padded query keeps the first key
                    self.attn_mask[:, 0] = False

    def torch_mask(self, dtype):
        mask = self.attn_mask
        if mask is not None and mask.dtype == torch.bool:
            mask = torch.zeros(mask.shape).masked_fill(mask, -torch.inf)
        if self.causal:
            after = torch.triu(torch.full((self.time, self.time), -torch.inf), 1)
            mask = after if mask is None else mask + after
        return None if mask is None else mask.to(dtype)

    def torch_result(self, dtype):
        module = self.module.to(dtype)
        x = self.x.to(dtype, copy=True).requires_grad_()
        mask = self.torch_mask(dtype)
        padding = self.key_padding
        if padding is not None:
            padding = torch.zeros(padding.shape, dtype=dtype).masked_fill(padding, -torch.inf)
        if self.layer == "attention":
            y = module(x, x, x, attn_mask=mask, key_padding_mask=padding, need_weights=False)[0]
        elif self.layer == "block":
            y = module(x, src_mask=mask, src_key_padding_mask=padding)
        elif self.layer == "stack":
            y = module(x, mask=mask, src_key_padding_mask=padding)
        else:
            y = module(x)
        names, parameters = zip(*module.named_parameters())
        gradients = torch.autograd.grad(y, [x, *parameters], self.dy.to(dtype))
        found = {"output": y.detach()}
        found.update(zip(["grad.input", *("grad." + n for n in names)], gradients))
        self.module.double()
        return {name: t.double() for name, t in found.items()}

    def flags(self):
        flags = ["--norm", self.norm, "--activation", self.activation, "--eps", self.eps,
                 "--causal" if self.causal else "--no-causal"]
        return flags + ["--heads", self.heads]

    def inputs(self):
        tensors = {"input": self.x.float(), "grad_output": self.dy.float(),
                   "attn_mask": self.attn_mask, "key_padding_mask": self.key_padding}
        return {name: t.contiguous() for name, t in tensors.items() if t is not None}


GPT2_NAMES = [("self_attn.in_proj_", "attn.c_attn."), ("self_attn.out_proj", "attn.c_proj"),
              ("linear1", "mlp.c_fc"), ("linear2", "mlp.c_proj"), ("norm1", "ln_1"),
              ("norm2", "ln_2"), ("layers.", "h."), ("norm.", "ln_f.")]


def gpt2_name(layer, name):
    if layer == "layer-norm":
        return name
    name = "self_attn." + name if layer == "attention" else name
    for ours, theirs in GPT2_NAMES:
        name = name.replace(ours, theirs)
    prefix = {"attention": "attn.", "feed-forward": "mlp."}.get(layer, "")
    return ("transformer." if layer == "stack" else "") + name.removeprefix(prefix)


def to_gpt2(layer, tensors):
    """Names and layouts of GPT-2 from those of PyTorch; norms and biases stay as they are."""
    return {gpt2_name(layer, n): (t.T if t.ndim == 2 else t).contiguous()
            for n, t in tensors.items()}


def save(path, tensors):
    if path.suffix == ".npz":
        numpy.savez(path, **{n: t.numpy() for n, t in tensors.items()})
    else:
        save_file(tensors, path)


def apply(prenorm, folder, layer, parameters, inputs, *flags, suffix=".safetensors"):
    save(folder / f"P{suffix}", parameters)
    save(folder / f"X{suffix}", inputs)
    prenorm("apply", layer, "--params", folder / f"P{suffix}", "--input", folder / f"X{suffix}",
            "--output", folder / "Y.safetensors", "--threads", 2, *flags)
    return load_file(folder / "Y.safetensors")


def assert_agrees(found, exact, single):
    """found: ours in float32; exact, single: PyTorch's in float64 and float32."""
    assert set(found) == set(exact)
    for name, want in exact.items():
        got = found[name].double()
        assert got.shape == want.shape, name
        error = (got - want).abs()
        theirs = (single[name] - want).abs()
        if name == "output":
            allowed = (ATOL + RTOL * want.abs()).clamp(min=2 * float(theirs.max()))
            assert bool((error <= allowed).all()), f"{name}: {float((error - allowed).max())}"
        else:
            allowed = max(GRADIENT * float(want.norm()), 2 * float(theirs.norm()))
            assert float(error.norm()) <= allowed, f"{name}: {float(error.norm())} > {allowed}"


LAYERS = ["layer-norm", "feed-forward", "attention", "block", "stack"]


@pytest.mark.parametrize("layer", LAYERS)
def test_random_layers_agree_with_pytorch(prenorm, layer, tmp_path):
    for seed in range(12):
        draw = Draw(layer, seed)
        parameters = {n: p.detach().float().contiguous()
                      for n, p in draw.module.named_parameters()}
        exact, single = draw.torch_result(torch.float64), draw.torch_result(torch.float32)
        gpt2 = seed % 3 == 2
        if gpt2:
            parameters = to_gpt2(layer, parameters)
        suffix = ".npz" if seed % 4 == 1 else ".safetensors"
        runs = {}
        for mode in ([], ["--reference"]):
            found = apply(prenorm, tmp_path, layer, parameters, draw.inputs(), *draw.flags(), *mode,
                          suffix=suffix)
            if gpt2:
                back = {"grad." + gpt2_name(layer, n): "grad." + n
                        for n, _ in draw.module.named_parameters()}
                found = {back.get(n, n): t.T if n in back and t.ndim == 2 else t
                         for n, t in found.items()}
            runs[bool(mode)] = found
        context = f"{layer}, draw {seed}: {draw}"
        try:
            assert_agrees(runs[False], exact, single)
            for name, want in exact.items():
                got = runs[True][name]
                assert got.dtype == torch.float64
                limit = TEXTBOOK * max(1.0, float(want.norm()))
                assert float((got - want).norm()) <= limit, f"--reference: {name}"
        except AssertionError as error:
            raise AssertionError(f"{error}\n{context}") from error
