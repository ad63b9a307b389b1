"""GPT-2 in PyTorch, as people write it, with the mistakes that people make: the outside witness for
`prenorm diagnose`. Nothing in it is ours: real modules, named as Hugging Face's, in PyTorch's arithmetic.

    model = MistakenGpt.load(folder, [Mistake("norm.ddof")], torch.bfloat16)
    stages = record(model, input_ids)       also for a GPT2LMHeadModel of transformers

`record` gives what forward hooks see: by the name of each module what it returned last, and `logits`;
a module that is never called is absent.
"""

import json
import math
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import nn
from transformers.activations import ACT2FN
from transformers.pytorch_utils import Conv1D

EVERYWHERE = "everywhere"
IN_BLOCK = ("ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_fc", "mlp.act", "mlp.c_proj")


class Mistake(NamedTuple):
    """A name of the table, a place (a layer, or one norm), and what the name alone leaves open."""

    name: str
    where: str = EVERYWHERE
    value: Any = None

    def at(self, path):
        return self.where == EVERYWHERE or path == self.where or path.startswith(self.where + ".")

    def __str__(self):
        place = "" if self.where == EVERYWHERE else f"@{self.where.removeprefix('transformer.')}"
        return self.name + ("" if self.value is None else f"={self.value}") + place


class Made:
    """The mistakes that one module makes."""

    def __init__(self, mistakes, path):
        self.mistakes = [m for m in mistakes if m.at(path)]

    def __contains__(self, name):
        return any(m.name == name for m in self.mistakes)

    def value(self, name, default):
        return next((m.value for m in self.mistakes if m.name == name), default)

    def of_weight(self, name, tensor):
        """Whether `name` is made on this tensor, as attn.c_proj.weight."""
        return any(m.name == name and m.value == tensor for m in self.mistakes)


class LayerNorm(nn.LayerNorm):
    def __init__(self, width, eps, made):
        super().__init__(width, eps)
        self.made = made

    def forward(self, x):
        made = self.made
        eps = made.value("norm.eps-value", self.eps)
        bare = "norm.no-affine" in made
        weight = None if bare else self.weight
        bias = None if bare or "norm.no-bias" in made else self.bias
        x_hat = self.mistaken_x_hat(x, eps)
        if x_hat is None:
            return F.layer_norm(x, self.normalized_shape, weight, bias, eps)
        y = x_hat if weight is None else x_hat * weight
        return y if bias is None else y + bias

    def mistaken_x_hat(self, x, eps):
        made = self.made
        if "norm.rms" in made:
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)
        if "norm.axis" in made:
            mean, var = x.mean(1, keepdim=True), x.var(1, keepdim=True, unbiased=False)
            return (x - mean) / torch.sqrt(var + eps)
        mean, var = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, unbiased=False)
        if "norm.ddof" in made:
            return (x - mean) / torch.sqrt(x.var(-1, keepdim=True) + eps)
        if "norm.eps-outside-root" in made:
            return (x - mean) / (torch.sqrt(var) + eps)
        if "norm.eps-misplaced" in made:
            return (x - mean) / torch.sqrt(var) + eps
        return None


class Attention(nn.Module):
    fused = False  # PyTorch's own attention where it can make the mistake; else step by step

    def __init__(self, width, heads, made):
        super().__init__()
        self.c_attn = Conv1D(3 * width, width)
        self.c_proj = Conv1D(width, width)
        self.width, self.heads, self.made = width, heads, made

    def split(self, qkv):
        """q, k, v: [B, H, T, D] each."""
        made, (b, t, _), h = self.made, qkv.shape, self.heads
        d = self.width // h
        if "attention.qkv-interleaved" in made:
            return [u.transpose(1, 2) for u in qkv.view(b, t, h, 3, d).unbind(3)]
        parts = dict(zip(made.value("attention.qkv-order", "qkv"), qkv.split(self.width, dim=2)))
        parts = [parts[name] for name in "qkv"]
        if "attention.head-axes" in made:
            return [u.reshape(b, t, d, h).permute(0, 3, 1, 2) for u in parts]
        if "attention.no-split-transpose" in made:
            return [u.reshape(b, h, t, d) for u in parts]
        return [u.view(b, t, h, d).transpose(1, 2) for u in parts]

    def scale(self):
        if "attention.no-scale" in self.made:
            return 1.0
        if "attention.scale-by-width" in self.made:
            return self.width ** -0.5
        return (self.width // self.heads) ** -0.5

    def blocked(self, time):
        made, every = self.made, torch.ones(time, time, dtype=torch.bool)
        if "attention.no-mask" in made:
            return ~every
        if "attention.mask-inverted" in made:
            return every.tril(-1)
        return every.triu(2 if "attention.mask-shifted" in made else 1)

    def attend(self, q, k, v):
        made, blocked = self.made, self.blocked(q.shape[-2])
        alone = ("attention.softmax-axis", "attention.mask-zero", "attention.mask-finite")
        if self.fused and not any(name in made for name in alone):
            return F.scaled_dot_product_attention(q, k, v, attn_mask=~blocked, scale=self.scale())
        fill = 0.0 if "attention.mask-zero" in made else made.value("attention.mask-finite", -math.inf)
        scores = torch.matmul(q, k.transpose(-1, -2)) * self.scale()
        p = scores.masked_fill(blocked, fill).softmax(-2 if "attention.softmax-axis" in made else -1)
        return torch.matmul(p, v)

    def forward(self, x):
        made = self.made
        q, k, v = self.split(self.c_attn(x))
        if "numbers.f16-cache" in made:
            k, v = k.half().to(x.dtype), v.half().to(x.dtype)
        o = self.attend(q, k, v)
        if "attention.no-merge-transpose" not in made:
            o = o.transpose(1, 2)
        return self.c_proj(o.reshape(x.shape))


class HalfTable(nn.Module):
    """An activation that is looked up by its input as a half float."""

    def __init__(self, act):
        super().__init__()
        self.act = act

    def forward(self, x):
        return self.act(x.half().to(x.dtype))


class Mlp(nn.Module):
    KINDS = {"activation.relu": "relu", "activation.gelu-erf": "gelu",
             "activation.gelu-tanh": "gelu_new", "activation.gelu-quick": "quick_gelu"}

    def __init__(self, width, inner, kind, made):
        super().__init__()
        self.c_fc = Conv1D(inner, width)
        kind = next((other for name, other in self.KINDS.items() if name in made), kind)
        self.act = HalfTable(ACT2FN[kind]) if "numbers.f16-gelu" in made else ACT2FN[kind]
        self.c_proj = Conv1D(width, inner)

    def forward(self, x):
        return self.c_proj(self.act(self.c_fc(x)))


class Block(nn.Module):
    def __init__(self, config, mistakes, path):
        super().__init__()
        width, eps = config["n_embd"], config["layer_norm_epsilon"]
        self.made = Made(mistakes, path)
        self.ln_1 = LayerNorm(width, eps, Made(mistakes, f"{path}.ln_1"))
        self.attn = Attention(width, config["n_head"], self.made)
        self.ln_2 = LayerNorm(width, eps, Made(mistakes, f"{path}.ln_2"))
        inner = config.get("n_inner") or 4 * width
        self.mlp = Mlp(width, inner, config["activation_function"], self.made)

    def forward(self, x):
        for norm, f in ((self.ln_1, self.attn), (self.ln_2, self.mlp)):
            if "structure.post-norm" in self.made:
                x = norm(x + f(x))
            elif "structure.residual-from-norm" in self.made:
                y = norm(x)
                x = y + f(y)
            elif "structure.no-residual" in self.made:
                x = f(norm(x))
            else:
                x = x + f(norm(x))
        return x

    @torch.no_grad()
    def spoil_weights(self):
        """The mistakes that are made when weights are loaded."""
        if "norm.swapped-weights" in self.made:
            self.ln_1.weight, self.ln_2.weight = self.ln_2.weight, self.ln_1.weight
            self.ln_1.bias, self.ln_2.bias = self.ln_2.bias, self.ln_1.bias
        for name in ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"):
            module = self.get_submodule(name)
            if self.made.of_weight("weights.transposed", f"{name}.weight"):
                assert module.weight.shape[0] == module.weight.shape[1], name
                module.weight.copy_(module.weight.T.clone())
            if self.made.of_weight("weights.no-bias", f"{name}.bias"):
                module.bias.zero_()


class MistakenGpt(nn.Module):
    def __init__(self, config, mistakes=()):
        super().__init__()
        width = config["n_embd"]
        self.made = Made(mistakes, "")
        blocks = [Block(config, mistakes, f"transformer.h.{i}") for i in range(config["n_layer"])]
        self.transformer = nn.ModuleDict({
            "wte": nn.Embedding(config["vocab_size"], width),
            "wpe": nn.Embedding(config["n_positions"], width),
            "drop": nn.Dropout(0.0),
            "h": nn.ModuleList(blocks),
            "ln_f": LayerNorm(width, config["layer_norm_epsilon"],
                              Made(mistakes, "transformer.ln_f")),
        })
        self.lm_head = nn.Linear(width, config["vocab_size"], bias=False)
        self.tied = config.get("tie_word_embeddings", True)

    @classmethod
    def load(cls, folder, mistakes=(), dtype=torch.float32, fused=False):
        folder = Path(folder)
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        model = cls(config, mistakes)
        model.take(load_file(folder / "model.safetensors"))
        for block in model.transformer.h:
            block.attn.fused = fused
        return model.to(dtype).eval()

    def take(self, weights):
        """The weights, by Hugging Face's names; and the mistakes that are made in taking them."""
        wte = weights["transformer.wte.weight"]
        tied = self.tied or "weights.tied-head" in self.made
        head = wte if tied else weights["lm_head.weight"]
        if "weights.untied-head" in self.made:
            generator = torch.Generator().manual_seed(len(wte))
            head = torch.randn(wte.shape, generator=generator).to(wte.dtype) * wte.std()
        self.load_state_dict({**weights, "lm_head.weight": head})
        for block in self.transformer.h:
            block.spoil_weights()

    def forward(self, input_ids):
        first = self.made.value("position.offset", 0)
        positions = torch.arange(first, first + input_ids.shape[1])
        part = self.transformer
        x = part.drop(part.wte(input_ids) + part.wpe(positions))
        for block in part.h:
            x = block(x)
        if "structure.no-final-norm" not in self.made:
            x = part.ln_f(x)
        if "structure.double-final-norm" in self.made:
            x = part.ln_f(x)
        return self.lm_head(x)


def stage_names(layers):
    """The stages in the order of the forward pass."""
    names = ["transformer.drop"]
    for i in range(layers):
        names += [f"transformer.h.{i}.{name}" for name in IN_BLOCK] + [f"transformer.h.{i}"]
    return [*names, "transformer.ln_f", "logits"]


@torch.no_grad()
def record(model, input_ids):
    """What each stage returned last, by its name."""
    seen, hooks = {}, []
    names = stage_names(len(model.transformer.h))

    def hook_of(name):
        def hook(module, inputs, output):
            output = output[0] if isinstance(output, tuple) else output
            seen[name] = output.detach().clone()
        return hook

    for name in names[:-1]:
        hooks.append(model.get_submodule(name).register_forward_hook(hook_of(name)))
    try:
        out = model(input_ids)
    finally:
        for hook in hooks:
            hook.remove()
    seen["logits"] = getattr(out, "logits", out).detach().clone()
    return {name: seen[name].contiguous() for name in names if name in seen}
