"""PyTorch's own test samples (torch.testing._internal: the inputs of its module and operator tests)
as cases for `prenorm apply`. Each function below takes one sample and gives a Case, or raises LeftOut
with the reason why that kind of sample is not run."""

import torch
from sample_cases import Case, LeftOut
from torch import nn
from torch.nn import functional

GELU = {"none": "gelu", "tanh": "gelu-tanh"}


def named(**tensors):
    return {name: x for name, x in tensors.items() if x is not None}


# --- layer norm ---------------------------------------------------------------------------------


def layer_norm_case(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    if eps < 0:
        raise LeftOut("a negative ε")
    if weight is None and bias is not None:  # which no module has; a weight of ones is the same
        weight = torch.ones_like(bias)
    flags = ["--eps", eps]
    if weight is None:
        flags += ["--normalized-axes", len(normalized_shape)]

    def function(t):
        return functional.layer_norm(t["input"], normalized_shape, t.get("weight"), t.get("bias"),
                                     eps)

    return Case("layer-norm", function, {"input": x}, named(weight=weight, bias=bias), flags)


def layer_norm_module(sample):
    module = nn.LayerNorm(*sample.constructor_input.args, **sample.constructor_input.kwargs)
    for p in module.parameters():
        nn.init.normal_(p)
    return layer_norm_case(sample.forward_input.args[0], module.normalized_shape, module.weight,
                           module.bias, module.eps)


def layer_norm_op(sample):
    return layer_norm_case(sample.input, *sample.args, **sample.kwargs)


# --- activations, linear, softmax, embedding ----------------------------------------------------


def activation_case(x, activation):
    kinds = {"gelu": functional.gelu, "relu": functional.relu,
             "gelu-tanh": lambda x: functional.gelu(x, approximate="tanh")}
    return Case("activation", lambda t: kinds[activation](t["input"]), {"input": x},
                flags=["--activation", activation])


def gelu_module(sample):
    kind = [*sample.constructor_input.args, "none"][0]
    return activation_case(sample.forward_input.args[0], GELU[kind])


def gelu_op(sample):
    return activation_case(sample.input, GELU[sample.kwargs.get("approximate", "none")])


def relu_module(sample):
    return activation_case(sample.forward_input.args[0], "relu")


def relu_op(sample):
    return activation_case(sample.input, "relu")


def linear_case(x, weight, bias=None):
    return Case("linear", lambda t: functional.linear(t["input"], t["weight"], t.get("bias")),
                {"input": x}, named(weight=weight, bias=bias))


def linear_module(sample):
    module = nn.Linear(*sample.constructor_input.args, **sample.constructor_input.kwargs)
    forward = sample.forward_input
    return linear_case((forward.args or [forward.kwargs["input"]])[0], module.weight, module.bias)


def linear_op(sample):
    return linear_case(sample.input, *sample.args, **sample.kwargs)


def softmax_case(x, axis):
    return Case("softmax", lambda t: t["input"].softmax(axis), {"input": x},
                flags=["--axis", axis])


def softmax_module(sample):
    return softmax_case(sample.forward_input.args[0], *sample.constructor_input.args)


def softmax_op(sample):
    return softmax_case(sample.input, sample.args[0])


def embedding_case(weight, ids, **options):
    return Case("embedding", lambda t: functional.embedding(t["input_ids"], t["weight"], **options),
                {"input_ids": ids}, {"weight": weight})


def embedding_module(sample):
    module = nn.Embedding(*sample.constructor_input.args, **sample.constructor_input.kwargs)
    return embedding_case(module.weight, sample.forward_input.args[0])


def embedding_op(sample):
    return embedding_case(sample.input, *sample.args, **sample.kwargs)


# --- cross-entropy ------------------------------------------------------------------------------


def cross_entropy_case(logits, targets, weight=None, reduction="mean", ignore_index=-100,
                       label_smoothing=0.0):
    if weight is not None:
        raise LeftOut("class weights, which no language model trains with")
    if targets.is_floating_point():
        raise LeftOut("probabilities as targets, not token ids")

    def function(t):
        return functional.cross_entropy(t["input"], t["targets"], reduction=reduction,
                                        ignore_index=ignore_index, label_smoothing=label_smoothing)

    return Case("cross-entropy", function, {"input": logits, "targets": targets},
                flags=["--reduction", reduction, "--ignore-index", ignore_index,
                       "--label-smoothing", label_smoothing])


def cross_entropy_module(sample):
    return cross_entropy_case(*sample.forward_input.args, **sample.constructor_input.kwargs)


def cross_entropy_op(sample):
    return cross_entropy_case(sample.input, *sample.args, **sample.kwargs)


# --- attention ----------------------------------------------------------------------------------


def sdpa_op(sample):
    options = dict(sample.kwargs)
    if options.pop("dropout_p", 0.0) > 0:
        raise LeftOut("dropout with PyTorch's random masks")
    causal = options.pop("is_causal", False)
    tensors = {"query": sample.input, "key": sample.args[0], "value": sample.args[1]}
    batch = torch.broadcast_shapes(*(x.shape[:-2] for x in tensors.values()))
    inputs = {k: x.expand(*batch, *x.shape[-2:]) for k, x in tensors.items()}
    mask = options.pop("attn_mask", None)
    assert not options, options
    if mask is not None:
        inputs["attn_mask"] = mask

    def function(t):
        return functional.scaled_dot_product_attention(
            t["query"], t["key"], t["value"], attn_mask=t.get("attn_mask"), is_causal=causal)

    return Case("scaled-dot-product-attention", function, inputs,
                flags=["--causal" if causal else "--no-causal"])


def unlike_their_start(module):
    """PyTorch's own first parameters, moved, because its biases start at 0 and its norms at 1 and 0."""
    with torch.no_grad():
        for p in module.parameters():
            p.add_(0.2 * torch.randn_like(p))


def batch_first(x, module_is):
    """[T, B, C] as [B, T, C]."""
    return x if x is None or module_is or x.ndim == 2 else x.transpose(0, 1)


def attention_module(sample):
    options = dict(sample.constructor_input.kwargs)
    if options["add_bias_kv"] or options["add_zero_attn"]:
        raise LeftOut("add_bias_kv and add_zero_attn, which no language model has")
    first = options.pop("batch_first")
    module = nn.MultiheadAttention(**options, batch_first=True).double()
    unlike_their_start(module)
    query, key, value = (batch_first(x, first) for x in sample.forward_input.args)
    inputs = named(input=query, key=key, value=value, **sample.forward_input.kwargs)

    def function(t):
        parameters = {name: t[name] for name, _ in module.named_parameters()}
        return torch.func.functional_call(
            module, parameters, (t["input"], t["key"], t["value"]),
            {"attn_mask": t.get("attn_mask"), "key_padding_mask": t.get("key_padding_mask"),
             "need_weights": False})[0]

    return Case("attention", function, inputs, dict(module.named_parameters()),
                ["--heads", module.num_heads, "--no-causal"])


def attention_op(sample):
    query, key, value, width, heads, weight, bias, bias_k, _, zero, p_drop, *_ = [sample.input,
                                                                               *sample.args]
    if bias_k is not None or zero:
        raise LeftOut("add_bias_kv and add_zero_attn, which no language model has")
    if p_drop > 0:
        raise LeftOut("dropout with PyTorch's random masks")
    raise AssertionError(f"a sample not seen before: {width} {heads} {weight} {bias} {key} {value}")


def activation_of(layer):
    if layer.activation is functional.relu:
        return "relu"
    assert layer.activation is functional.gelu, layer.activation
    return "gelu"


def encoder_case(kind, module, layer, sample, first):
    x, *rest = sample.forward_input.args
    assert not rest, rest
    kwargs = dict(sample.forward_input.kwargs)
    inputs = named(input=batch_first(x, first),
                   attn_mask=kwargs.pop("src_mask", kwargs.pop("mask", None)),
                   key_padding_mask=kwargs.pop("src_key_padding_mask", None))
    assert not any(value is not None for value in kwargs.values()), kwargs
    unlike_their_start(module)

    def function(t):
        parameters = {name: t[name] for name, _ in module.named_parameters()}
        mask = t.get("attn_mask"), t.get("key_padding_mask")
        return torch.func.functional_call(
            module, parameters, (t["input"], mask[0]), {"src_key_padding_mask": mask[1]})

    # Training mode, dropout 0: the formula itself rather than the fused path, which has no gradient.
    module.train()
    flags = ["--heads", layer.self_attn.num_heads, "--no-causal", "--activation",
             activation_of(layer), "--norm", "pre" if layer.norm_first else "post",
             "--eps", layer.norm1.eps]
    return Case(kind, function, inputs, dict(module.named_parameters()), flags)


def encoder_layer_module(sample):
    kwargs = dict(sample.constructor_input.kwargs)
    first = kwargs.pop("batch_first", False)
    layer = nn.TransformerEncoderLayer(*sample.constructor_input.args, **kwargs, batch_first=True)
    if layer.dropout.p > 0:
        raise LeftOut("dropout with PyTorch's random masks")
    return encoder_case("block", layer.double(), layer, sample, first)


def encoder_module(sample):
    layer, *rest = sample.constructor_input.args
    first = layer.self_attn.batch_first
    layer.self_attn.batch_first = True
    if layer.dropout.p > 0:
        raise LeftOut("dropout with PyTorch's random masks")
    kwargs = {**sample.constructor_input.kwargs, "enable_nested_tensor": False}
    module = nn.TransformerEncoder(layer, *rest, **kwargs)
    return encoder_case("stack", module.double(), layer, sample, first)


MODULES = {
    "LayerNorm": layer_norm_module,
    "GELU": gelu_module,
    "ReLU": relu_module,
    "Linear": linear_module,
    "Softmax": softmax_module,
    "Embedding": embedding_module,
    "CrossEntropyLoss": cross_entropy_module,
    "MultiheadAttention": attention_module,
    "TransformerEncoderLayer": encoder_layer_module,
    "TransformerEncoder": encoder_module,
}
OPERATORS = {
    "nn.functional.layer_norm": layer_norm_op,
    "native_layer_norm": layer_norm_op,
    "nn.functional.gelu": gelu_op,
    "nn.functional.relu": relu_op,
    "nn.functional.linear": linear_op,
    "softmax": softmax_op,
    "nn.functional.embedding": embedding_op,
    "nn.functional.cross_entropy": cross_entropy_op,
    "nn.functional.scaled_dot_product_attention": sdpa_op,
    "nn.functional.multi_head_attention_forward": attention_op,
}
