#!/usr/bin/env python3
"""One training step of a GPT-2 model in PyTorch on the CPU, the peer of `prenorm bench train`.

Forward, cross-entropy, backward, clipping to 1, fused AdamW, on random tokens; prints one JSON
object. Needs PyTorch. Flags are those of `prenorm bench train`, and --compile.
"""
import argparse
import json
import resource
import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F
from flags import arguments, parser_of


class Block(nn.Module):
    """x + attention(ln_1(x)), then + mlp(ln_2(x)), with the tanh GELU."""

    def __init__(self, width, heads, bias):
        super().__init__()
        self.heads = heads
        self.ln_1 = nn.LayerNorm(width, bias=bias)
        self.ln_2 = nn.LayerNorm(width, bias=bias)
        self.attn = nn.Linear(width, 3 * width, bias=bias)
        self.proj = nn.Linear(width, width, bias=bias)
        self.up = nn.Linear(width, 4 * width, bias=bias)
        self.down = nn.Linear(4 * width, width, bias=bias)

    def forward(self, x):
        batch, steps, width = x.shape
        q, k, v = self.attn(self.ln_1(x)).split(width, dim=2)
        shape = (batch, steps, self.heads, width // self.heads)
        q, k, v = (part.view(shape).transpose(1, 2) for part in (q, k, v))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(mixed.transpose(1, 2).reshape(batch, steps, width))
        return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.tokens = nn.Embedding(a.vocab_size, a.n_embd)
        self.positions = nn.Embedding(a.block_size, a.n_embd)
        self.blocks = nn.ModuleList(Block(a.n_embd, a.n_head, a.bias) for _ in range(a.n_layer))
        self.norm = nn.LayerNorm(a.n_embd, bias=a.bias)

    def forward(self, inputs, targets):
        x = self.tokens(inputs) + self.positions(torch.arange(inputs.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


def main():
    parser = parser_of(__doc__, n_layer=12, n_head=12, n_embd=768, block_size=256, batch_size=4,
                       vocab_size=50257)
    parser.add_argument("--bias", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32", help="bf16: autocast")
    a = arguments(parser)
    model = Gpt(a)
    for p in model.parameters():
        if p.dim() > 1:
            nn.init.normal_(p, 0.0, 0.02)
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95),
                                  weight_decay=0.1, fused=True)
    loss_of = torch.compile(model) if a.compile else model
    shape = (a.batch_size, a.block_size)
    inputs, targets = torch.randint(a.vocab_size, shape), torch.randint(a.vocab_size, shape)

    def step():
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=a.dtype == "bf16"):
            loss = loss_of(inputs, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    for _ in range(3):
        step()
    times, begin = [], time.perf_counter()
    while time.perf_counter() - begin < a.seconds or len(times) < 4:
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    print(json.dumps({
        "step_ms_min": min(times) * 1e3,
        "step_ms_median": statistics.median(times) * 1e3,
        "tokens_per_second": a.batch_size * a.block_size / min(times),
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "compiled": a.compile,
    }))


if __name__ == "__main__":
    main()
