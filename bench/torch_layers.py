#!/usr/bin/env python3
"""PyTorch's side of `prenorm bench layers`: the same layers on the same shapes, one JSON object a
line (`layer`, `input`, `ms`). Needs PyTorch."""
import json
import time

import torch
from torch.nn import functional as F
from flags import arguments, parser_of

BLOCKS = [(1, 1, 768, 12), (1, 128, 768, 12), (8, 128, 768, 12), (8, 512, 768, 12),
          (32, 64, 128, 4)]


def best(call, seconds):
    call()
    times, begin = [], time.perf_counter()
    while time.perf_counter() - begin < seconds or len(times) < 3:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def report(layer, shape, call, seconds):
    print(json.dumps({"layer": layer, "input": list(shape), "ms": best(call, seconds) * 1e3}),
          flush=True)


def norm(rows, width, seconds):
    x = torch.randn(rows, width, requires_grad=True)
    layer = torch.nn.LayerNorm(width)
    with torch.no_grad():
        report("layer norm, forward", x.shape, lambda: layer(x), seconds)
    y, dy = layer(x), torch.randn(rows, width)
    inputs = (x, layer.weight, layer.bias)
    report("layer norm, backward", x.shape,
           lambda: torch.autograd.grad(y, inputs, dy, retain_graph=True), seconds)


def activation(name, approximate, seconds):
    x = torch.randn(1024, 3072, requires_grad=True)
    with torch.no_grad():
        report(name + ", forward", x.shape, lambda: F.gelu(x, approximate=approximate), seconds)
    y, dy = F.gelu(x, approximate=approximate), torch.randn(1024, 3072)
    report(name + ", backward", x.shape,
           lambda: torch.autograd.grad(y, x, dy, retain_graph=True), seconds)


def adamw(count, seconds):
    parameter = torch.nn.Parameter(torch.randn(count))
    parameter.grad = torch.randn(count)
    optimizer = torch.optim.AdamW([parameter], fused=True)
    report("AdamW", (count,), optimizer.step, seconds)


def block(batch, steps, width, heads, seconds):
    layer = torch.nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, F.gelu, norm_first=True,
                                             batch_first=True)
    mask = torch.nn.Transformer.generate_square_subsequent_mask(steps)
    x = torch.randn(batch, steps, width, requires_grad=True)
    dy = torch.randn(batch, steps, width)

    def both():
        layer(x, src_mask=mask, is_causal=True).backward(dy)

    report("block, forward and backward", x.shape, both, seconds)
    layer.eval()
    with torch.no_grad():
        report("block, evaluation", x.shape, lambda: layer(x, src_mask=mask, is_causal=True),
               seconds)


def main():
    a = arguments(parser_of(__doc__))
    each = a.seconds / 22
    for rows, width in ((8192, 768), (8192, 128), (1024, 4096)):
        norm(rows, width, each)
    activation("gelu", "none", each)
    activation("gelu-tanh", "tanh", each)
    logits = torch.randn(1024, 50257)
    report("softmax", logits.shape, lambda: torch.softmax(logits, -1), each)
    adamw(1 << 24, each)
    for shape in BLOCKS:
        block(*shape, each)


if __name__ == "__main__":
    main()
