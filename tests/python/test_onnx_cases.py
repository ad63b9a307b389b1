"""ONNX's node cases (they come with the onnx package) through `prenorm apply`: what ran, what passed
and what was left out, with reasons, is printed at the end."""

from pathlib import Path

import onnx
import onnx.backend.test
import pytest
import torch
from onnx import numpy_helper
from safetensors.torch import load_file, save_file
from sample_cases import ATOL, RTOL, LeftOut, Report

CASES = Path(onnx.backend.test.__file__).parent / "data" / "node"
# Prefix of the folders, and the least of each family that must run.
FAMILIES = {
    "LayerNormalization": ("test_layer_normalization_", 19),
    "Gelu": ("test_gelu_", 4),
    "Softmax": ("test_softmax_", 7),
    "SoftmaxCrossEntropyLoss": ("test_sce_", 18),
    "NegativeLogLikelihoodLoss": ("test_nllloss_", 0),
    "Attention": ("test_attention_", 39),
}


def tensors_in(folder, names, kind):
    found = {}
    for i, name in enumerate(names):
        path = folder / "test_data_set_0" / f"{kind}_{i}.pb"
        if name and path.exists():
            proto = onnx.TensorProto.FromString(path.read_bytes())
            found[name] = torch.from_numpy(numpy_helper.to_array(proto).copy())
    return found


class OnnxCase:
    """One node with its attributes, inputs in the node's order (None where absent), outputs."""

    def __init__(self, folder):
        model = onnx.load(folder / "model.onnx")
        (self.node,) = model.graph.node
        self.attributes = {a.name: onnx.helper.get_attribute_value(a) for a in self.node.attribute}
        inputs = tensors_in(folder, [i.name for i in model.graph.input], "input")
        outputs = tensors_in(folder, [o.name for o in model.graph.output], "output")
        self.inputs = [inputs.get(name) for name in self.node.input]
        self.expected = outputs[self.node.output[0]]
        if any(x is not None and x.dtype == torch.float16 for x in self.inputs):
            raise LeftOut("float16 arithmetic")

    def text(self, name, default):
        value = self.attributes.get(name, default)
        return value.decode() if isinstance(value, bytes) else value


def layer_normalization(case):
    x, weight, bias = (*case.inputs, None)[:3]
    parameters = {"weight": weight} if bias is None else {"weight": weight, "bias": bias}
    return "layer-norm", {"input": x}, parameters, ["--eps", case.text("epsilon", 1e-5)]


def gelu(case):
    kind = {"none": "gelu", "tanh": "gelu-tanh"}[case.text("approximate", "none")]
    return "activation", {"input": case.inputs[0]}, {}, ["--activation", kind]


def softmax(case):
    return "softmax", {"input": case.inputs[0]}, {}, ["--axis", case.text("axis", -1)]


def cross_entropy(case):
    logits, targets, weights = (*case.inputs, None)[:3]
    if weights is not None:
        raise LeftOut("class weights, which no language model trains with")
    return "cross-entropy", {"input": logits, "targets": targets.long()}, {}, [
        "--reduction", case.text("reduction", "mean"),
        "--ignore-index", case.text("ignore_index", -100)]


def negative_log_likelihood(_):
    raise LeftOut("picks numbers out of given log-probabilities: no arithmetic of ours")


def attention(case):
    q, k, v, mask, past_k, past_v, *_ = (*case.inputs, *[None] * 6)
    if case.text("softcap", 0.0):
        raise LeftOut("softcap, which GPT-2 does not have")
    heads = case.text("q_num_heads", 0), case.text("kv_num_heads", 0)
    if q.ndim == 3:
        q, k, v = (x.unflatten(-1, (h, -1)).transpose(1, 2)
                   for x, h in zip((q, k, v), (heads[0], heads[1], heads[1])))
    if q.shape[1] != k.shape[1]:
        raise LeftOut("grouped-query attention, which GPT-2 does not have")
    if len(case.inputs) > 6:
        raise LeftOut("padding of keys by their count, which a mask expresses")
    if past_k is not None:
        if case.text("is_causal", 0):
            raise LeftOut("the causal rule in a cache's window, tested by the cache's own tests")
        k, v = torch.cat([past_k, k], 2), torch.cat([past_v, v], 2)
    inputs = {"query": q, "key": k, "value": v}
    if mask is not None:
        inputs["attn_mask"] = mask
    flags = ["--causal" if case.text("is_causal", 0) else "--no-causal"]
    if "scale" in case.attributes:
        flags += ["--scale", case.attributes["scale"]]
    return "scaled-dot-product-attention", inputs, {}, flags


ADAPTERS = {
    "LayerNormalization": layer_normalization,
    "Gelu": gelu,
    "Softmax": softmax,
    "SoftmaxCrossEntropyLoss": cross_entropy,
    "NegativeLogLikelihoodLoss": negative_log_likelihood,
    "Attention": attention,
}


def run(prenorm, folder, case):
    layer, inputs, parameters, flags = ADAPTERS[case.node.op_type](case)
    save_file({k: x.contiguous() for k, x in inputs.items()}, folder / "x.safetensors")
    arguments = ["apply", layer, "--input", folder / "x.safetensors", "--output",
                 folder / "y.safetensors", *flags]
    if parameters:
        save_file(parameters, folder / "p.safetensors")
        arguments += ["--params", folder / "p.safetensors"]
    prenorm(*arguments)
    got, want = load_file(folder / "y.safetensors")["output"], case.expected
    if want.ndim == 3 and got.ndim == 4:
        got = got.transpose(1, 2).flatten(2)
    if got.shape != want.shape:
        return [f"shape {tuple(got.shape)}, expected {tuple(want.shape)}"]
    if torch.allclose(got, want, rtol=RTOL, atol=ATOL):
        return []
    return [f"off by {(got - want).abs().max():.3g} of {want.abs().max():.3g}"]


@pytest.mark.parametrize("op", FAMILIES)
def test_node_cases(prenorm, tmp_path, op):
    prefix, least = FAMILIES[op]
    report = Report(f"onnx {op}")
    folders = [f for f in sorted(CASES.glob(prefix + "*")) if "_expanded" not in f.name]
    assert folders
    for folder in folders:
        report.run(folder.name, lambda f=folder: OnnxCase(f),
                   lambda case: run(prenorm, tmp_path, case))
    assert not report.failures, "\n".join(report.failures)
    assert report.ran >= least, list(report.lines())
