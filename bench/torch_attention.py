#!/usr/bin/env python3
"""PyTorch's side of `prenorm bench attention`: torch.nn.functional.scaled_dot_product_attention on the
same shapes, one JSON object a line (`batch`, `time`, `forward_ms`, `backward_ms`). Needs PyTorch."""
import json
import time

import torch
from flags import arguments, parser_of

SHAPES = [(64, 64), (16, 256), (4, 1024), (1, 4096), (1, 16384)]
HEADS, HEAD_WIDTH = 6, 64


def times(batch, steps, seconds):
    shape = batch, HEADS, steps, HEAD_WIDTH
    q, k, v = (torch.rand(shape, requires_grad=True) for _ in range(3))
    grad = torch.rand(shape)
    forward, backward, begin = [], [], time.perf_counter()
    while time.perf_counter() - begin < seconds or len(forward) < 4:
        start = time.perf_counter()
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        middle = time.perf_counter()
        torch.autograd.grad(out, (q, k, v), grad)
        forward.append(middle - start)
        backward.append(time.perf_counter() - middle)
    return min(forward), min(backward)


def main():
    a = arguments(parser_of(__doc__))
    for batch, steps in SHAPES:
        forward, backward = times(batch, steps, a.seconds / len(SHAPES))
        print(json.dumps({"batch": batch, "time": steps, "forward_ms": forward * 1e3,
                          "backward_ms": backward * 1e3}), flush=True)


if __name__ == "__main__":
    main()
