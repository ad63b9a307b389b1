"""PyTorch's own test samples through `prenorm apply`: outputs and gradients in float32 against
PyTorch in float64. What ran, what passed and what was left out, with reasons, is printed at the end."""

import warnings

import pytest
import torch
from sample_cases import Report, run_case
from torch_sample_cases import MODULES, OPERATORS

# The least of each family that must run: a sample that goes missing is a failure, not a silence.
LEAST = {
    "LayerNorm": 7, "GELU": 3, "ReLU": 4, "Linear": 3, "Softmax": 3, "Embedding": 2,
    "CrossEntropyLoss": 51, "MultiheadAttention": 16, "TransformerEncoderLayer": 39,
    "TransformerEncoder": 39, "nn.functional.layer_norm": 5, "native_layer_norm": 16,
    "nn.functional.gelu": 8, "nn.functional.relu": 4, "nn.functional.linear": 18, "softmax": 14,
    "nn.functional.embedding": 3, "nn.functional.cross_entropy": 8,
    "nn.functional.scaled_dot_product_attention": 13,
    "nn.functional.multi_head_attention_forward": 0,
}


def module_samples(name):
    from torch.testing._internal.common_modules import module_db

    info = next(m for m in module_db if m.module_cls.__name__ == name)
    return info.module_inputs_func(info, device="cpu", dtype=torch.float64, requires_grad=True,
                                   training=True)


def operator_samples(name):
    from torch.testing._internal.common_methods_invocations import op_db

    for op in op_db:
        if op.name == name:
            yield from op.sample_inputs("cpu", torch.float64, requires_grad=True)


def check(prenorm, tmp_path, name, samples, make_case):
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    report = Report(f"torch {name}")
    for i, sample in enumerate(samples(name)):
        torch.manual_seed(i)
        report.run(str(i), lambda s=sample: make_case(s),
                   lambda case: run_case(prenorm, tmp_path, case))
    assert not report.failures, "\n".join(report.failures)
    assert report.ran >= LEAST[name], list(report.lines())


@pytest.mark.parametrize("name", MODULES)
def test_module_samples(prenorm, tmp_path, name):
    check(prenorm, tmp_path, name, module_samples, MODULES[name])


@pytest.mark.parametrize("name", OPERATORS)
def test_operator_samples(prenorm, tmp_path, name):
    check(prenorm, tmp_path, name, operator_samples, OPERATORS[name])


def test_a_wrong_answer_is_found(prenorm, tmp_path):
    """The comparison itself: another ε, another mask and a missing bias must not pass."""
    from torch_sample_cases import activation_case, layer_norm_case

    torch.manual_seed(3)
    case = layer_norm_case(torch.randn(4, 5).double(), (5,), torch.randn(5), torch.randn(5))
    assert run_case(prenorm, tmp_path, case) == []
    case.flags = ["--eps", 1e-3]
    assert run_case(prenorm, tmp_path, case)
    case = activation_case(torch.randn(100).double(), "gelu")
    case.flags = ["--activation", "gelu-tanh"]
    assert run_case(prenorm, tmp_path, case)
