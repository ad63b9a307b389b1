"""What bench/accuracy.py measures: inputs made from fixed seeds, references in 80-bit or 64-bit
arithmetic, and PyTorch's float32 results on the same inputs.

A case has a name, the operation of bench/accuracy.cc, inputs, and functions that give the exact and
PyTorch's results by the same names as the kernels'.
"""

import math
from dataclasses import dataclass
from typing import Callable

import numpy
import torch
from torch.nn import functional as F

Exact = numpy.longdouble
EPS = 1e-5  # of layer norms


@dataclass
class Case:
    name: str
    operation: str
    inputs: dict  # argument → array, as the kernels and PyTorch take it
    exact: Callable  # inputs → result → array of Exact
    torch: Callable  # inputs → result → array of float32


def ulps(got, exact):
    """|got − exact| in units of the last place of a float32 as large as the exact value, for each
    element; infinite where only one of the two is a finite number that a float can hold. Below the
    smallest normal float the unit stays 2^-149."""
    _, exponent = numpy.frexp(exact)
    unit = numpy.ldexp(Exact(1), numpy.maximum(exponent, -125) - 24)
    with numpy.errstate(over="ignore", invalid="ignore"):
        rounded = exact.astype(numpy.float32)
        distance = numpy.abs(got.astype(Exact) - exact) / unit
    whole = numpy.isfinite(got) & numpy.isfinite(rounded)
    return numpy.where(whole, distance, numpy.where(got == rounded, 0.0, numpy.inf))


def floats(stride):
    """Every stride-th float32, of all signs and sizes, finite."""
    bits = numpy.arange(0, 2**32, stride, dtype=numpy.uint64).astype(numpy.uint32)
    x = bits.view(numpy.float32)
    return x[numpy.isfinite(x)]


def tensors(inputs):
    return {name: torch.from_numpy(array) for name, array in inputs.items()}


def each(function):
    """A function of Python floats on arrays; its error of 1e-16 is far below a float's ulp."""
    return lambda x: numpy.array([function(v) for v in x.tolist()], dtype=Exact)


# --- Elementwise ----------------------------------------------------------------------------------

erf, erfc = each(math.erf), each(math.erfc)


def exact_gelu(x):
    return {"y": x * erfc(-x / numpy.sqrt(2.0)) / 2, "slope": exact_gelu_slope(x)}


def exact_gelu_slope(x):
    density = numpy.exp(-x.astype(Exact) ** 2 / 2) / Exact(math.sqrt(2 * math.pi))
    return erfc(-x / numpy.sqrt(2.0)) / 2 + x * density


def exact_gelu_tanh(x):
    x = x.astype(Exact)
    pi = 4 * numpy.arctan(Exact(1))
    scale, cubic = 2 * numpy.sqrt(2 / pi), Exact("0.044715")
    z = numpy.clip(scale * (x + cubic * x**3), -11000, 11000)
    steepness = scale * (1 + 3 * cubic * x * x)
    gate, rest = 1 / (1 + numpy.exp(-z)), 1 / (1 + numpy.exp(z))
    return {"y": x * gate, "slope": gate * (1 + x * rest * steepness)}


def torch_gelu(approximate):
    def run(inputs):
        x = torch.from_numpy(inputs["x"]).requires_grad_()
        y = F.gelu(x, approximate=approximate)
        (slope,) = torch.autograd.grad(y.sum(), x)
        return {"y": y.detach().numpy(), "slope": slope.numpy()}

    return run


def elementwise(name, operation, x, exact, theirs):
    return Case(name, operation, {"x": x}, lambda i: {"y": exact(i["x"].astype(Exact))},
                lambda i: {"y": theirs(torch.from_numpy(i["x"])).numpy()})


def elementwise_cases(stride):
    x = floats(stride)
    every = f"every {stride:,}th float"
    yield elementwise(f"exp, {every}", "exp", x, numpy.exp, torch.exp)
    yield elementwise(f"tanh, {every}", "tanh", x, numpy.tanh, torch.tanh)
    yield elementwise(f"erf, {every}", "erf", x, erf, torch.erf)


def gelu_cases(stride):
    count = 800_000_000 // stride
    rows = ((f"every {stride:,}th float", floats(stride)),
            ("-1 to 6", numpy.linspace(-1, 6, count, dtype=numpy.float32)),
            ("-3 to -1", numpy.linspace(-3, -1, count, dtype=numpy.float32)),
            ("-14.5 to -3", numpy.linspace(-14.5, -3, count, dtype=numpy.float32)))
    for where, x in rows:
        yield Case(f"GELU (erf), {where}", "gelu", {"x": x}, lambda i: exact_gelu(i["x"]),
                   torch_gelu("none"))
        yield Case(f"GELU (tanh), {where}", "gelu-tanh", {"x": x},
                   lambda i: exact_gelu_tanh(i["x"]), torch_gelu("tanh"))


def infinity_cases():
    x = numpy.array([-numpy.inf, numpy.inf], dtype=numpy.float32)
    limits = {"y": numpy.array([0, numpy.inf], Exact), "slope": numpy.array([0, 1], Exact)}
    for name, operation, kind in (("erf", "gelu", "none"), ("tanh", "gelu-tanh", "tanh")):
        yield Case(f"GELU ({name}), −∞ and ∞", operation, {"x": x}, lambda i: limits,
                   torch_gelu(kind))


# --- Layer norm -----------------------------------------------------------------------------------

def exact_layer_norm(inputs):
    x, weight, bias, dy = (inputs[k].astype(Exact) for k in ("x", "weight", "bias", "dy"))
    # The mean as a pair: what its first part leaves is averaged again.
    mean = x.mean(axis=1, keepdims=True)
    centred = x - mean
    centred -= centred.mean(axis=1, keepdims=True)
    rstd = 1 / numpy.sqrt((centred**2).mean(axis=1, keepdims=True) + Exact(EPS))
    hat, g = centred * rstd, dy * weight
    dx = rstd * (g - g.mean(axis=1, keepdims=True)
                 - hat * (g * hat).mean(axis=1, keepdims=True))
    return {"y": hat * weight + bias, "dx": dx, "dweight": (dy * hat).sum(axis=0),
            "dbias": dy.sum(axis=0)}


def torch_layer_norm(inputs):
    t = tensors(inputs)
    x, weight, bias = (t[k].requires_grad_() for k in ("x", "weight", "bias"))
    y = F.layer_norm(x, (x.shape[1],), weight, bias, EPS)
    dx, dweight, dbias = torch.autograd.grad(y, (x, weight, bias), t["dy"])
    return {"y": y.detach().numpy(), "dx": dx.numpy(), "dweight": dweight.numpy(),
            "dbias": dbias.numpy()}


def layer_norm_case(name, width, make):
    random = numpy.random.default_rng([17, width, *name.encode()])
    rows = 3 if width > 10_000 else 32

    def normal(*shape):
        return random.standard_normal(shape).astype(numpy.float32)

    # The sum of mean and spread is rounded to float here, once; both sides take these floats.
    x = make(random, (rows, width)).astype(numpy.float32)
    # Normalised denormals are about 1e-38: any other bias would hide them.
    bias = normal(width) / 4 if "denormal" not in name else numpy.zeros(width, numpy.float32)
    inputs = {"x": x, "weight": 1 + normal(width) / 4, "bias": bias, "dy": normal(rows, width)}
    return Case(f"{name}, d = {width:,}", "layer-norm", inputs, exact_layer_norm, torch_layer_norm)


def layer_norm_cases(widths):
    def around(mean, spread):
        return lambda random, shape: mean + spread * random.standard_normal(shape)

    kinds = (("normal", around(0, 1)),
             ("mean 100, spread 1", around(100, 1)),
             ("mean 1e4, spread 1", around(1e4, 1)),
             ("mean 1e4, spread 1e-2", around(1e4, 1e-2)),
             ("size 1e18", around(0, 1e18)),
             ("mean 1e30, spread 1e24", around(1e30, 1e24)),
             ("size 1e30", around(0, 1e30)),
             ("size 3e38", lambda random, shape: 3e38 * random.uniform(-1, 1, shape)),
             ("denormal, size 1e-40", around(0, 1e-40)),
             ("constant 0.1", lambda random, shape: numpy.full(shape, 0.1)),
             ("constant 1234.5", lambda random, shape: numpy.full(shape, 1234.5)))
    for width in widths:
        for name, make in kinds:
            # A row of one has a gradient of 0 everywhere, one of two is ruled by rounding unless
            # its variance is near eps.
            if width > 2 or name in ("normal", "mean 1e4, spread 1e-2", "constant 0.1"):
                yield layer_norm_case(name, width, make)


# --- Rows of logits -------------------------------------------------------------------------------

def exact_softmax(inputs):
    x = inputs["x"].astype(Exact)
    e = numpy.exp(x - x.max(axis=1, keepdims=True))
    return {"y": e / e.sum(axis=1, keepdims=True)}


def exact_cross_entropy(inputs):
    x, targets = inputs["x"].astype(Exact), inputs["targets"]
    rows = numpy.arange(len(targets))
    others = numpy.exp(x - x[rows, targets][:, None])
    others[rows, targets] = 0
    return {"loss": numpy.log1p(others.sum(axis=1))}


def torch_cross_entropy(inputs):
    t = tensors(inputs)
    return {"loss": F.cross_entropy(t["x"], t["targets"], reduction="none").numpy()}


def logit_cases(classes, rows):
    random = numpy.random.default_rng(23)
    for scale in (1, 10, 60):
        x = (scale * random.standard_normal((rows, classes))).astype(numpy.float32)
        yield Case(f"softmax, {classes:,} classes, logits of size {scale}", "softmax", {"x": x},
                   exact_softmax,
                   lambda i: {"y": torch.softmax(torch.from_numpy(i["x"]), -1).numpy()})
    for count, lift in ((2, 0), (65, 0), (65, 15), (classes, 0), (classes, 25)):
        height = rows if count == classes else 64
        x = random.standard_normal((height, count)).astype(numpy.float32)
        targets = random.integers(0, count, height)
        x[numpy.arange(height), targets] += lift
        sure = f", the target's {lift} above" if lift else ""
        yield Case(f"cross-entropy, {count:,} classes{sure}", "cross-entropy",
                   {"x": x, "targets": targets}, exact_cross_entropy, torch_cross_entropy)


# --- Matrix products ------------------------------------------------------------------------------

def product_cases(longest):
    random = numpy.random.default_rng(29)
    shapes = [(m, k, n) for m, k, n in ((64, 64, 192), (256, 256, 64), (64, 768, 256),
                                        (1, 768, 768), (64, 1600, 96), (64, 3072, 96),
                                        (16, 50257, 64)) if k <= longest]
    for m, k, n in shapes:
        for kind in ("normal", "positive"):
            a, b = (random.standard_normal(s).astype(numpy.float32) for s in ((m, k), (k, n)))
            if kind == "positive":
                a, b = numpy.abs(a), numpy.abs(b)
            yield Case(f"{kind}, {m} × {k:,} × {n}", "matmul", {"a": a, "b": b},
                       lambda i: {"c": i["a"].astype(float) @ i["b"].astype(float)},
                       lambda i: {"c": (torch.from_numpy(i["a"])
                                        @ torch.from_numpy(i["b"])).numpy()})
