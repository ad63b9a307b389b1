"""Writes expected_values.h: what PyTorch computes in float64 for the tests of the textbook.

    python tests/reference/expected_values.py > tests/reference/expected_values.h

Inputs are written by one formula, `val`, here and in values.h. A result is compared by its
checksum, the dot product with another such tensor, so that a test needs one number a tensor.
The mistakes are made here by ordinary PyTorch code, the way people make them.
"""

import math

import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
MASK32 = 2**32 - 1
B, T, C, HEADS, WIDTH, V, P, LAYERS = 2, 4, 6, 3, 8, 7, 6, 2
TOKENS = torch.tensor([[3, 1, 6, 1], [0, 5, 2, 4]])
TARGETS = torch.tensor([[1, -1, 1, 2], [5, 2, -1, 6]])


def val(k, shape, den):
    out = []
    for i in range(math.prod(shape)):
        h = ((i + 1) * 2654435761 + (k + 1) * 40503) & MASK32
        h = (h ^ (h >> 15)) * 2246822519 & MASK32
        h = (h ^ (h >> 13)) * 3266489917 & MASK32
        h ^= h >> 16
        out.append(((h % 1009) - 504) / den)
    return torch.tensor(out).reshape(shape)


def checksum(x, k=900):
    return float((x.detach() * val(k, tuple(x.shape), 512)).sum())


def parameter_shapes():
    yield "transformer.wte.weight", (V, C)
    yield "transformer.wpe.weight", (P, C)
    for i in range(LAYERS):
        h = f"transformer.h.{i}."
        for norm, modules in (("ln_1", (("attn.c_attn", C, 3 * C), ("attn.c_proj", C, C))),
                              ("ln_2", (("mlp.c_fc", C, WIDTH), ("mlp.c_proj", WIDTH, C)))):
            yield h + norm + ".weight", (C,)
            yield h + norm + ".bias", (C,)
            for name, n_in, n_out in modules:
                yield h + name + ".weight", (n_in, n_out)
                yield h + name + ".bias", (n_out,)
    yield "transformer.ln_f.weight", (C,)
    yield "transformer.ln_f.bias", (C,)
    yield "lm_head.weight", (V, C)


def parameters():
    p = {}
    for k, (name, shape) in enumerate(parameter_shapes()):
        is_gamma = ".ln_" in name and name.endswith(".weight")
        p[name] = val(100 + k, shape, 1024) + (1 if is_gamma else 0)
        p[name].requires_grad_()
    return p


def layer_norm(x, weight, bias, eps=1e-5, mistake=""):
    dim = -2 if mistake == "norm.axis" else -1
    m = x.mean(dim, keepdim=True)
    if mistake == "norm.rms":
        m = torch.zeros_like(m)
    v = ((x - m) ** 2).mean(dim, keepdim=True)
    if mistake == "norm.ddof":
        v = x.var(dim, keepdim=True)
    if mistake == "norm.eps-value":
        eps = 1e-3
    x_hat = (x - m) / torch.sqrt(v + eps)
    if mistake == "norm.eps-outside-root":
        x_hat = (x - m) / (torch.sqrt(v) + eps)
    if mistake == "norm.eps-misplaced":
        x_hat = (x - m) / torch.sqrt(v) + eps
    if mistake == "norm.no-affine":
        return x_hat
    if mistake == "norm.no-bias" or bias is None:
        return x_hat * weight
    return x_hat * weight + bias


def activation(x, kind):
    return {"relu": F.relu, "gelu-erf": F.gelu,
            "gelu-tanh": lambda u: F.gelu(u, approximate="tanh"),
            "gelu-quick": lambda u: u * torch.sigmoid(1.702 * u)}[kind](x)


def attention(qkv, mistake="", text="", attn_mask=None):
    b, t, _ = qkv.shape
    d = C // HEADS
    if mistake == "attention.qkv-interleaved":
        q, k, v = qkv.view(b, t, HEADS, 3, d).unbind(3)
        q, k, v = (u.transpose(1, 2) for u in (q, k, v))
    else:
        parts = dict(zip(text if mistake == "attention.qkv-order" else "qkv", qkv.split(C, dim=2)))
        q, k, v = parts["q"], parts["k"], parts["v"]
        if mistake == "attention.head-axes":
            q, k, v = (u.view(b, t, d, HEADS).permute(0, 3, 1, 2) for u in (q, k, v))
        elif mistake == "attention.no-split-transpose":
            q, k, v = (u.reshape(b, HEADS, t, d) for u in (q, k, v))
        else:
            q, k, v = (u.view(b, t, HEADS, d).transpose(1, 2) for u in (q, k, v))
    if mistake == "numbers.f16-cache":
        k, v = k.half().double(), v.half().double()
    mistaken_scales = {"attention.no-scale": 1.0, "attention.scale-by-width": C ** -0.5}
    scale = mistaken_scales.get(mistake, d ** -0.5)
    scores = q @ k.transpose(-1, -2) * scale
    future = torch.ones(t, t).triu(1).bool()
    fill = -math.inf
    if mistake == "attention.no-mask":
        future[:] = False
    if mistake == "attention.mask-shifted":
        future = torch.ones(t, t).triu(2).bool()
    if mistake == "attention.mask-inverted":
        future = torch.ones(t, t).tril(-1).bool()
    if mistake == "attention.mask-zero":
        fill = 0.0
    if mistake == "attention.mask-finite":
        fill = -1.5
    if attn_mask is not None:
        scores = scores + attn_mask
    scores = scores.masked_fill(future, fill)
    p = scores.softmax(-2 if mistake == "attention.softmax-axis" else -1)
    o = p @ v
    if mistake == "attention.no-merge-transpose":
        return o.reshape(b, t, C)
    return o.transpose(1, 2).reshape(b, t, C)


def gpt(p, tokens, norm="pre", act="gelu-tanh", tied=True, bias=True, mistake="", text="",
        where=""):
    def get(name):
        return p[name] if bias or not name.endswith(".bias") else torch.zeros_like(p[name])

    def mistake_in(place):
        return mistake if where in ("", place) else ""

    def ln(x, name):
        source = name
        if mistake == "norm.swapped-weights" and "ln_f" not in name:
            source = name.replace("ln_1", "ln_0").replace("ln_2", "ln_1").replace("ln_0", "ln_2")
        weight, offset = get(source + ".weight"), get(source + ".bias")
        return layer_norm(x, weight, offset, mistake=mistake_in(name))

    def linear(x, name):
        w, b = get(name + ".weight"), get(name + ".bias")
        if name.endswith(text) and mistake == "weights.transposed":
            w = w.T
        if name.endswith(text) and mistake == "weights.no-bias":
            b = torch.zeros_like(b)
        return x @ w + b

    if mistake.startswith("activation."):
        act = mistake.removeprefix("activation.")
    if mistake == "structure.post-norm":
        norm = "post"
    first = 2 if mistake == "position.offset" else 0
    wte, wpe = p["transformer.wte.weight"], p["transformer.wpe.weight"]
    x = wte[tokens] + wpe[first:first + tokens.shape[1]]
    for i in range(LAYERS):
        h = f"transformer.h.{i}."

        def attn(u):
            qkv = linear(u, h + "attn.c_attn")
            return linear(attention(qkv, mistake_in(f"transformer.h.{i}"), text), h + "attn.c_proj")

        def mlp(u):
            a = linear(u, h + "mlp.c_fc")
            if mistake == "numbers.f16-gelu":
                a = a.half().double()
            return linear(activation(a, act), h + "mlp.c_proj")

        for name, f in (("ln_1", attn), ("ln_2", mlp)):
            if mistake == "structure.residual-from-norm":
                y = ln(x, h + name)
                x = y + f(y)
            elif mistake == "structure.no-residual":
                x = f(ln(x, h + name))
            elif norm == "post":
                x = ln(x + f(x), h + name)
            else:
                x = x + f(ln(x, h + name))
    if mistake != "structure.no-final-norm":
        x = ln(x, "transformer.ln_f")
    if mistake == "structure.double-final-norm":
        x = ln(x, "transformer.ln_f")
    tied = {"weights.untied-head": False, "weights.tied-head": True}.get(mistake, tied)
    return x @ p["transformer.wte.weight" if tied else "lm_head.weight"].T


MISTAKES = """norm.eps-value norm.eps-outside-root norm.eps-misplaced norm.ddof norm.axis
norm.no-affine norm.no-bias norm.rms norm.swapped-weights structure.post-norm
structure.residual-from-norm structure.no-residual structure.no-final-norm
structure.double-final-norm attention.no-mask attention.mask-zero attention.mask-finite
attention.mask-shifted attention.mask-inverted attention.no-scale attention.scale-by-width
attention.qkv-order:qvk attention.qkv-order:kqv attention.qkv-order:kvq attention.qkv-order:vqk
attention.qkv-order:vkq attention.qkv-interleaved attention.head-axes attention.no-split-transpose
attention.no-merge-transpose attention.softmax-axis position.offset activation.relu
activation.gelu-erf activation.gelu-quick weights.transposed:attn.c_proj weights.no-bias:attn.c_attn
weights.no-bias:attn.c_proj weights.no-bias:mlp.c_fc weights.no-bias:mlp.c_proj
weights.untied-head numbers.f16-cache numbers.f16-gelu norm.ddof@transformer.h.1.ln_1
norm.rms@transformer.ln_f attention.no-scale@transformer.h.0""".split()
NUMBERS = {"norm.eps-value": 1e-3, "attention.mask-finite": -1.5, "position.offset": 2}


def print_table(name, comment, row_type, rows):
    print(f"\n// {comment}\ninline constexpr {row_type} {name}[] = {{")
    for row in rows:
        print("    {" + ", ".join(row) + "},")
    print("};")


def quoted(text):
    return '"' + text + '"'


def gradient_rows(settings):
    p = parameters()
    logits = gpt(p, TOKENS, **settings)
    loss = F.cross_entropy(logits.view(-1, V), TARGETS.view(-1), ignore_index=-1, reduction="sum")
    (loss / 6).backward()
    rows = [(quoted("logits"), repr(checksum(logits))), (quoted("loss"), repr(loss.item() / 6))]
    for name, tensor in p.items():
        absent = tensor.grad is None or (not settings["bias"] and name.endswith(".bias"))
        if not absent:
            rows.append((quoted(name), repr(checksum(tensor.grad))))
    return rows


def mask_rows():
    qkv = val(1, (B, T, 3 * C), 256)
    blocked = torch.zeros(T, T, dtype=torch.bool)
    blocked[[2, 3, 3], [0, 1, 2]] = True
    added = val(3, (T, T), 128)
    padding = torch.tensor([[False, True, False, False], [False, False, False, True]])
    infinite = torch.zeros(T, T).masked_fill(blocked, -math.inf)
    keys = torch.zeros(B, 1, 1, T).masked_fill(padding[:, None, None], -math.inf)
    for name, mask in (("causal", torch.zeros(T, T)), ("blocked", infinite), ("added", added),
                       ("key_padding", keys)):
        x = qkv.clone().requires_grad_()
        out = attention(x, attn_mask=mask)
        out.backward(val(4, (B, T, C), 512))
        yield quoted(name), repr(checksum(out)), repr(checksum(x.grad))


def main():
    print("// What PyTorch computes in float64 for the inputs of values.h: written by "
          "expected_values.py.\n#pragma once\n\nnamespace prenorm::reference::expected {\n")
    print("struct Checksum {\n  const char* name;\n  double value;\n};")
    print("struct OutputAndGradient {\n  const char* name;\n  double output, gradient;\n};")
    print("struct MistakenLogits {\n  const char *name, *where, *text;\n  double number, logits;\n};")
    p = parameters()
    rows = []
    for spec in MISTAKES:
        name, _, where = spec.partition("@")
        name, _, text = name.partition(":")
        logits = gpt(p, TOKENS, mistake=name, text=text, where=where)
        rows.append((quoted(name), quoted(where), quoted(text), repr(float(NUMBERS.get(name, 1))),
                     repr(checksum(logits))))
    print_table("kMistakes", "Logits of the tiny model with one mistake.", "MistakenLogits", rows)
    print_table("kPreTied", "Pre-norm, GELU (tanh), tied head.", "Checksum",
                gradient_rows({"bias": True}))
    print_table("kPostUntied", "Post-norm, GELU (erf), head of its own, no biases.", "Checksum",
                gradient_rows({"norm": "post", "act": "gelu-erf", "tied": False, "bias": False}))
    print_table("kMasks", "Attention of packed q, k, v under the causal rule and one more mask.",
                "OutputAndGradient", mask_rows())
    print("\n}  // namespace prenorm::reference::expected")


main()
