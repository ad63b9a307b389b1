"""A case for `prenorm apply` beside what PyTorch makes of it in float64, and the report of a whole
family of cases: how many ran, how many passed, and which were left out for what reason."""

from collections import Counter
from dataclasses import dataclass, field

import torch
from safetensors.torch import load_file, save_file

RTOL, ATOL = 1.3e-6, 1e-5  # torch.testing.assert_close's for float32
GRADIENT = 1e-5  # of each tensor's norm
WORSE = 2.0  # ... or, where that is more, times the error of PyTorch's own float32


class LeftOut(Exception):
    """A sample outside of what is supported, with the reason."""


@dataclass
class Case:
    layer: str
    function: object  # of a dict of tensors, named as `parameters` and `inputs` are; gives output
    inputs: dict
    parameters: dict = field(default_factory=dict)
    flags: list = field(default_factory=list)

    def rounded(self):
        """All numbers as float32 holds them, so that both sides start from the same."""
        def one(x):
            return x.detach().float() if x.is_floating_point() else x.detach()
        return {k: one(v).contiguous() for k, v in {**self.parameters, **self.inputs}.items()}


def torch_result(case, dtype, grad_output):
    """output and grad.NAME of every tensor of numbers but the masks."""
    tensors = {}
    for name, x in case.rounded().items():
        tensors[name] = x.to(dtype).clone() if x.is_floating_point() else x
        if x.is_floating_point() and name != "attn_mask":
            tensors[name].requires_grad_()
    output = case.function(tensors)
    found = {"output": output.detach()}
    if grad_output is not None:
        output.backward(grad_output.to(dtype))
        for name, x in tensors.items():
            if x.requires_grad:
                found["grad." + name] = torch.zeros_like(x) if x.grad is None else x.grad
    return found


def our_result(prenorm, folder, case, grad_output):
    tensors = case.rounded()
    inputs = {name: tensors[name] for name in case.inputs}
    if grad_output is not None:
        inputs["grad_output"] = grad_output.contiguous()
    save_file(inputs, folder / "x.safetensors")
    arguments = ["apply", case.layer, "--input", folder / "x.safetensors",
                 "--output", folder / "y.safetensors", *case.flags]
    if case.parameters:
        save_file({name: tensors[name] for name in case.parameters}, folder / "p.safetensors")
        arguments += ["--params", folder / "p.safetensors"]
    prenorm(*arguments)
    return load_file(folder / "y.safetensors")


def run_case(prenorm, folder, case, gradients=True):
    """Lines that say what differs; none where all is well."""
    grad_output = None
    with torch.no_grad():
        shape = case.function(case.rounded()).shape
    if gradients:
        grad_output = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    exact = torch_result(case, torch.float64, grad_output)
    single = torch_result(case, torch.float32, grad_output)
    ours = our_result(prenorm, folder, case, grad_output)
    wrong = []
    for name, want in exact.items():
        if name not in ours:
            wrong.append(f"{name} is missing")
            continue
        got = ours[name].double()
        if got.shape != want.shape:
            wrong.append(f"{name}: shape {tuple(got.shape)}, expected {tuple(want.shape)}")
        elif not close(name, got, want, single[name].double()):
            wrong.append(f"{name}: off by {(got - want).abs().max():.3g} of "
                         f"{want.abs().max():.3g}")
    return wrong


def close(name, got, want, theirs):
    if name == "output":
        if torch.allclose(got, want, rtol=RTOL, atol=ATOL, equal_nan=True):
            return True
        return bool((got - want).norm() <= WORSE * (theirs - want).norm())
    if not torch.isfinite(got).all():
        return False
    error = (got - want).norm()
    # A gradient that is zero by symmetry (softmax of one class, a key's bias) is rounding alone.
    floor = max(want.norm().item() * GRADIENT, 1e-7 * want.numel() ** 0.5)
    return bool(error <= max(floor, WORSE * (theirs - want).norm().item()))


class Report:
    """Counts of one family, printed at the end of the run by conftest.py."""

    all = []

    def __init__(self, name):
        self.name, self.passed, self.failures, self.reasons = name, 0, [], Counter()
        Report.all.append(self)

    def run(self, label, make_case, run):
        try:
            wrong = run(make_case())
        except LeftOut as reason:
            self.reasons[str(reason)] += 1
            return
        except AssertionError as error:
            wrong = [str(error)]
        if wrong:
            self.failures.append(f"{self.name} {label}: " + "; ".join(wrong))
        else:
            self.passed += 1

    @property
    def ran(self):
        return self.passed + len(self.failures)

    def lines(self):
        left_out = sum(self.reasons.values())
        yield (f"{self.name:<34} {self.ran:>4} run {self.passed:>4} passed "
               f"{len(self.failures):>3} failed {left_out:>4} left out")
        for reason, count in sorted(self.reasons.items()):
            yield f"{'':<36}{count:>4} {reason}"
