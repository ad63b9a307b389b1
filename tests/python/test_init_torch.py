"""`--init torch`: the first weights are those of a GPT-2 written with torch.nn in nanoGPT's order
after torch.manual_seed(seed), and twenty steps of training go the same way."""

import json
import math

import numpy
import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F

STEPS = 20
BATCH = 6
LEARNING_RATE = 5e-3
WARM_UP = 4


class Attention(nn.Module):
    def __init__(self, width, heads, bias):
        super().__init__()
        self.c_attn = nn.Linear(width, 3 * width, bias=bias)
        self.c_proj = nn.Linear(width, width, bias=bias)
        self.heads = heads

    def forward(self, x):
        batch, time, width = x.shape
        q, k, v = (part.view(batch, time, self.heads, width // self.heads).transpose(1, 2)
                   for part in self.c_attn(x).chunk(3, dim=-1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(mixed.transpose(1, 2).reshape(batch, time, width))


class FeedForward(nn.Module):
    def __init__(self, width, bias):
        super().__init__()
        self.c_fc = nn.Linear(width, 4 * width, bias=bias)
        self.c_proj = nn.Linear(4 * width, width, bias=bias)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self, width, heads, bias):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width, bias=bias)
        self.attn = Attention(width, heads, bias)
        self.ln_2 = nn.LayerNorm(width, bias=bias)
        self.mlp = FeedForward(width, bias)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    """The modules in nanoGPT's order, which decides who draws which random numbers."""

    def __init__(self, vocabulary, context, layers, heads, width, bias, tie):
        super().__init__()
        self.transformer = nn.ModuleDict({
            "wte": nn.Embedding(vocabulary, width),
            "wpe": nn.Embedding(context, width),
            "h": nn.ModuleList(Block(width, heads, bias) for _ in range(layers)),
            "ln_f": nn.LayerNorm(width, bias=bias),
        })
        self.lm_head = nn.Linear(width, vocabulary, bias=False)
        if tie:
            self.transformer["wte"].weight = self.lm_head.weight
        self.apply(self.initialise)
        for name, parameter in self.named_parameters():
            if name.endswith("c_proj.weight"):
                nn.init.normal_(parameter, mean=0.0, std=0.02 / math.sqrt(2 * layers))

    @staticmethod
    def initialise(module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, mean=0.0, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, inputs, targets):
        parts = self.transformer
        x = parts["wte"](inputs) + parts["wpe"](torch.arange(inputs.shape[1]))
        for block in parts["h"]:
            x = block(x)
        logits = self.lm_head(parts["ln_f"](x))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def text_of(characters):
    """A text with exactly that many kinds of characters, of which each follows from two others."""
    a, b, out = 1, 1, [chr(0x61 + i) for i in range(characters)]
    for i in range(900):
        a, b = b, (3 * a + b + i // 50) % characters
        out.append(chr(0x61 + b))
    return "".join(out)


def ours(prenorm, folder, text, seed, layers, heads, width, context, bias, tie, *flags):
    data = folder / "text.txt"
    data.write_text(text, encoding="utf-8")
    prenorm("train", data, "--tokenizer", "char", "--val-fraction", 0, "--out-dir", folder / "run",
            "--init", "torch", "--seed", seed, "--n-layer", layers, "--n-head", heads, "--n-embd",
            width, "--block-size", context, "--bias" if bias else "--no-bias",
            "--tie" if tie else "--no-tie", *flags)
    return folder / "run"


CONFIGS = {
    # name: layers, heads, width, context, characters, bias, tied, seed
    "plain": (2, 4, 32, 16, 20, True, True, 1337),
    "no_bias": (3, 2, 24, 9, 13, False, True, 1),
    "odd_sizes": (2, 1, 5, 7, 11, True, True, 42),  # no size is a multiple of 16
    "tables_below_16": (1, 1, 3, 4, 4, True, True, 7),  # drawn number by number
    "untied": (2, 3, 9, 5, 17, False, False, 2**32 + 5),  # torch takes the low half of a seed
}


@pytest.mark.parametrize("name", CONFIGS)
def test_the_first_weights_are_torchs(prenorm, tmp_path, name):
    layers, heads, width, context, characters, bias, tie, seed = CONFIGS[name]
    torch.manual_seed(seed)
    model = Gpt(characters, context, layers, heads, width, bias, tie)
    # One step of a size that no weight notices: 0 becomes 1e-30 at most.
    run = ours(prenorm, tmp_path, text_of(characters), seed, layers, heads, width, context, bias,
               tie, "--max-iters", 1, "--batch-size", 1, "--learning-rate", 1e-30)
    saved = load_file(run / "model.safetensors")
    theirs = {k: v for k, v in model.state_dict().items() if not (tie and k == "lm_head.weight")}
    left = set(saved)
    for key, want in theirs.items():
        got = saved[key]
        left.discard(key)
        if key.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight")):
            got = got.T
        if torch.backends.cpu.get_cpu_capability().startswith("AVX"):
            # 1e-30: the step above. Everything else is equal to the bit.
            torch.testing.assert_close(got, want, rtol=0, atol=1e-29, msg=lambda m, k=key: f"{k}: {m}")
        else:  # torch's other code computes the same stream less exactly
            torch.testing.assert_close(got, want, rtol=0, atol=0.02 * 4e-6)
    # A model without biases is saved with zeros.
    assert all(key.endswith(".bias") and not saved[key].any() for key in left), left


def philox(counter, key):
    """Philox 4x32-10, as prenorm's base/philox.h."""
    c, k, word = list(counter), list(key), 2**32 - 1
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & word, (a >> 32) ^ c[3] ^ k[1], a & word]
        k = [(k[0] + 0x9E3779B9) & word, (k[1] + 0xBB67AE85) & word]
    return c


def window_start(seed, step, sequence, windows):
    """Where sequence `sequence` of a step begins: prenorm's train/batch_order.h."""
    batch_order = 2
    key = philox((step, 0, batch_order, 0x70726E6D), (seed & 0xFFFFFFFF, seed >> 32))[:2]
    excess = 2**64 % windows
    attempt = 0
    while True:
        words = philox((sequence & 0xFFFFFFFF, sequence >> 32, attempt, 0), key)
        draw = words[1] << 32 | words[0]
        if draw >= excess:
            return (draw - excess) % windows
        attempt += 1


def batch(tokens, seed, step, context):
    starts = [window_start(seed, step, s, len(tokens) - context) for s in range(BATCH)]
    windows = torch.stack([tokens[s : s + context + 1] for s in starts])
    return windows[:, :-1], windows[:, 1:]


def learning_rate(step):
    if step < WARM_UP:
        return LEARNING_RATE * (step + 1) / (WARM_UP + 1)
    floor, ratio = LEARNING_RATE / 10, (step - WARM_UP) / (STEPS - WARM_UP)
    return floor + 0.5 * (1 + math.cos(math.pi * ratio)) * (LEARNING_RATE - floor)


def torch_losses(model, tokens, seed, context):
    groups = [{"params": [p for p in model.parameters() if (p.dim() >= 2) == decays],
               "weight_decay": 0.1 if decays else 0.0} for decays in (True, False)]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.99), eps=1e-8)
    losses = []
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step)
        loss = model(*batch(tokens, seed, step, context))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("name", ["plain", "no_bias", "odd_sizes"])
def test_twenty_steps_give_torchs_losses(prenorm, tmp_path, name):
    layers, heads, width, context, characters, bias, tie, seed = CONFIGS[name]
    text = text_of(characters)
    run = ours(prenorm, tmp_path, text, seed, layers, heads, width, context, bias, tie,
               "--max-iters", STEPS, "--batch-size", BATCH, "--log-interval", 1,
               "--learning-rate", LEARNING_RATE, "--warmup-iters", WARM_UP, "--dropout", 0)
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    torch.manual_seed(seed)
    model = Gpt(characters, context, layers, heads, width, bias, tie)
    tokens = torch.tensor([ord(c) - 0x61 for c in text])
    theirs = torch_losses(model, tokens, seed, context)
    assert [row["iter"] for row in rows] == list(range(1, STEPS + 1))
    assert theirs[0] - theirs[-1] > 1e-3  # it learns
    numpy.testing.assert_allclose([row["loss"] for row in rows], theirs, rtol=0, atol=1e-5)


def test_the_default_has_numbers_of_its_own(prenorm, tmp_path):
    weights = []
    for init in ("prenorm", "torch"):
        folder = tmp_path / init
        folder.mkdir()
        run = ours(prenorm, folder, text_of(9), 1, 1, 1, 8, 4, False, True, "--init", init,
                   "--max-iters", 1)
        weights.append((run / "model.safetensors").read_bytes())
    assert weights[0] != weights[1]
