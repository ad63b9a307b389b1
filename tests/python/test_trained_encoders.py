"""Trained post-norm encoders beside PyTorch in float64: the state dicts of torch.nn.TransformerEncoder
that the package sceptr ships, through `prenorm apply stack`."""

import pytest
import torch
from safetensors.torch import load_file, save_file
from wheels import package_files

HEADS = 8
# torch.testing.assert_close's defaults for float32. Two of the encoders take PyTorch's own float32
# beyond them; there the bound is twice its error.
RTOL, ATOL = 1.3e-6, 1e-5
PADDED = 4


@pytest.fixture(scope="module")
def saves(tmp_path_factory):
    folder = package_files("sceptr", "1.2.0", tmp_path_factory.mktemp("sceptr"))
    return sorted((folder / "sceptr" / "_model_saves").glob("*/state_dict.pt"))


def stack_of(state):
    """The tensors from "layers." on, as TransformerEncoder names them."""
    return {name[name.index("layers."):]: t for name, t in state.items() if "layers." in name}


def encoder_of(stack):
    layers = 1 + max(int(name.split(".")[1]) for name in stack)
    inner, width = stack["layers.0.linear1.weight"].shape
    layer = torch.nn.TransformerEncoderLayer(width, HEADS, inner, 0.0, "relu", batch_first=True,
                                             dtype=torch.float64)
    encoder = torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
    encoder.load_state_dict({name: t.double() for name, t in stack.items()}, strict=True)
    return encoder


def inputs_of(state, batch, time):
    """What a stack is made for: a residue as one of 20, a loop as one of 6 and a place in it, through
    the model's projection; where it has none, rows of its token embedding."""
    projection = [t for name, t in state.items() if name.endswith("_initial_projector.weight")]
    if not projection:
        table = state["_token_embedder.token_embedding.weight"]
        return table[torch.randint(3, table.shape[0], (batch, time))]
    features = torch.zeros(batch, time, projection[0].shape[1])
    features.scatter_(2, torch.randint(0, 18, (batch, time, 1)), 1.0)
    features[..., 20] = 1.0
    features[..., -1] = torch.linspace(0, 1, time)
    return features @ projection[0].T


def test_the_package_has_its_sixteen_encoders(saves):
    assert len(saves) == 16


def test_each_trained_encoder_has_torchs_outputs(prenorm, saves, tmp_path):
    for number, save in enumerate(saves):
        state = torch.load(save, map_location="cpu", weights_only=True)
        stack = stack_of(state)
        encoder = encoder_of(stack).train()  # the fused inference path has other padding rules
        torch.manual_seed(number)
        x = inputs_of(state, 3, 23)
        padding = torch.zeros(3, 23, dtype=torch.bool)
        padding[1, -PADDED:] = True
        params, inputs, output = (tmp_path / f"{number}.{part}.safetensors" for part in "pio")
        save_file({name: t.contiguous() for name, t in stack.items()}, params)
        save_file({"input": x, "key_padding_mask": padding}, inputs)
        prenorm("apply", "stack", "--params", params, "--input", inputs, "--output", output,
                "--heads", HEADS, "--norm", "post", "--activation", "relu", "--no-causal")
        with torch.no_grad():
            want = encoder(x.double(), src_key_padding_mask=padding)
            single = encoder.float()(x, src_key_padding_mask=padding)
        error = (load_file(output)["output"] - want).abs()
        bound = (ATOL + RTOL * want.abs()).clamp(min=2 * float((single - want).abs().max()))
        assert (error <= bound).all(), f"{save.parent.name}: {float(error.max())}"
