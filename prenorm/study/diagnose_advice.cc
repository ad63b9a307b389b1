#include "prenorm/study/diagnose_advice.h"

#include <string>

#include "prenorm/base/error.h"

namespace prenorm {
namespace {

constexpr MistakeAdvice kAdvice[] = {
    {"norm.eps-value", "The layer norms add another ε to the variance than the model's.",
     "nn.LayerNorm(width, eps=config.layer_norm_epsilon)",
     "GPT4All's BERT normalised with 1e-5 where the model has 1e-12: "
     "https://github.com/nomic-ai/gpt4all/pull/1946"},
    {"norm.eps-outside-root", "ε is added to the standard deviation, not to the variance.",
     "(x - mean) / torch.sqrt(var + eps)",
     "burn's LayerNorm: https://github.com/tracel-ai/burn/issues/2185"},
    {"norm.eps-misplaced",
     "A parenthesis is misplaced: ε is added to the quotient, not under the root.",
     "(x - mean) / torch.sqrt(var + eps)",
     "The neighbour of ε outside the root, as in "
     "https://github.com/hyunwoongko/transformer/issues/7"},
    {"norm.ddof", "The variance is divided by C − 1, as torch.std and torch.var do by default.",
     "var = x.var(-1, keepdim=True, unbiased=False)",
     "The Annotated Transformer's LayerNorm: "
     "https://github.com/harvardnlp/annotated-transformer/pull/119"},
    {"norm.axis",
     "Mean and variance are taken over the time for each channel, not over the features.",
     "mean, var = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, unbiased=False)",
     "attention-is-all-you-need-pytorch: "
     "https://github.com/jadore801120/attention-is-all-you-need-pytorch/pull/17"},
    {"norm.no-affine", "The norms neither scale by γ nor shift by β.",
     "nn.LayerNorm(width, elementwise_affine=True), and load its weight and bias",
     "LBANN's Transformers: https://github.com/LBANN/lbann/pull/2076"},
    {"norm.no-bias", "The norms do not shift by β.",
     "nn.LayerNorm(width, bias=True), and load ln.bias",
     "A norm made for models without biases (nanoGPT's bias=False) given GPT-2's weights"},
    {"norm.rms", "The mean is not subtracted: RMS norm in place of layer norm.",
     "nn.LayerNorm(width) in place of nn.RMSNorm(width)",
     "A block of LLaMA's kind given the weights of GPT-2's kind"},
    {"norm.swapped-weights", "The weights of ln_1 are used in ln_2, and the reverse.",
     "x = x + attn(ln_1(x)); x = x + mlp(ln_2(x))",
     "MLX's decoder layer called ln1 where ln2 belongs: "
     "https://github.com/ml-explore/mlx/issues/1636"},
    {"structure.post-norm",
     "The norms stand after the residual sums (post-norm), not before the sub-layers.",
     "x = x + attn(ln_1(x)); x = x + mlp(ln_2(x))",
     "Pre- and post-norm changed places in MLX: https://github.com/ml-explore/mlx/pull/1327"},
    {"structure.residual-from-norm",
     "The residual starts from the normed input: y = LN(x), x = y + f(y).", "x = x + attn(ln_1(x))",
     "PyTorch's first norm_first: https://github.com/pytorch/pytorch/issues/61165"},
    {"structure.no-residual", "The residual connection is missing: x = f(LN(x)).",
     "x = x + attn(ln_1(x)); x = x + mlp(ln_2(x))",
     "BitNet's x = x + x after attention: https://github.com/kyegomez/BitNet/issues/32"},
    {"structure.no-final-norm", "The norm after the last block is left out.",
     "logits = lm_head(ln_f(x))",
     "Models whose encoder has no norm at its end (post-norm) as a pattern for those that have"},
    {"structure.double-final-norm", "The norm after the last block is applied twice.",
     "logits = lm_head(ln_f(x))",
     "nn.Transformer's two norms at its end: https://github.com/pytorch/pytorch/issues/50086"},
    {"attention.no-mask", "Every token sees every token: the causal mask is missing.",
     "F.scaled_dot_product_attention(q, k, v, is_causal=True)",
     "Four causal models of transformers saw the future: "
     "https://github.com/huggingface/transformers/issues/48745"},
    {"attention.mask-zero",
     "Blocked scores are set to 0 before the softmax, which gives them weight.",
     "scores = scores.masked_fill(blocked, float('-inf'))",
     "Blocked scores set to about zero: "
     "https://github.com/hyunwoongko/transformer/issues/10"},
    {"attention.mask-finite",
     "Blocked scores are set to a finite number that real scores come near to.",
     "scores = scores.masked_fill(blocked, float('-inf'))",
     "−1e4 in transformers: https://github.com/huggingface/transformers/pull/17306"},
    {"attention.mask-shifted", "The causal mask is off by one: a future token is visible.",
     "blocked = torch.ones(T, T, dtype=torch.bool).triu(1)",
     "triu(2), or tril(1) of what is visible, where the diagonal was counted once too often"},
    {"attention.mask-inverted", "The mask is upside down: a token sees itself and the future.",
     "blocked = torch.ones(T, T, dtype=torch.bool).triu(1)",
     "PyTorch 1.3's subsequent mask: https://github.com/pytorch/pytorch/issues/29546"},
    {"attention.no-scale", "The scores are not scaled by 1/√D.",
     "scores = q @ k.transpose(-2, -1) * head_width ** -0.5",
     "MLC-LLM's fallback: https://github.com/mlc-ai/mlc-llm/pull/3426"},
    {"attention.scale-by-width",
     "The scores are scaled by 1/√C, the model's width, not the head's.",
     "scores = q @ k.transpose(-2, -1) * head_width ** -0.5",
     "dfdx: https://github.com/chelsea0x3b/dfdx/issues/171"},
    {"attention.qkv-order", "q, k and v are taken from the packed projection in another order.",
     "q, k, v = qkv.split(width, dim=2)",
     "Conversions between packings, as Megatron's to GPT-2's: "
     "https://github.com/huggingface/transformers/issues/12004"},
    {"attention.qkv-interleaved", "The packed projection is read head by head, [H, 3, D].",
     "q, k, v = qkv.split(width, dim=2)",
     "q, k, v of one head side by side: https://github.com/awslabs/slapo/pull/46"},
    {"attention.head-axes", "Heads and features are exchanged: q, k, v viewed as [B, T, D, H].",
     "q = q.view(B, T, H, D).transpose(1, 2)", "einops' \"(d h)\" where \"(h d)\" belongs"},
    {"attention.no-split-transpose",
     "q, k, v are viewed as [B, H, T, D] without a transposition, which mixes tokens.",
     "q = q.view(B, T, H, D).transpose(1, 2)",
     "FuxiCTR's attention: https://github.com/reczoo/FuxiCTR/issues/30"},
    {"attention.no-merge-transpose",
     "The heads' outputs are reshaped to [B, T, C] without a transposition, which mixes tokens.",
     "y = y.transpose(1, 2).reshape(B, T, C)",
     "https://github.com/jsbaan/transformer-from-scratch/pull/6"},
    {"attention.softmax-axis", "The softmax runs over the queries, not over the keys.",
     "p = scores.softmax(dim=-1)",
     "labml's annotated UNet: "
     "https://github.com/labmlai/annotated_deep_learning_paper_implementations/issues/146"},
    {"position.offset", "The positions are shifted: token t gets the embedding of t + n.",
     "positions = torch.arange(T)",
     "BART's offset of 2: https://github.com/huggingface/transformers/issues/19240"},
    {"activation.relu", "The activation is ReLU, the model's is another.",
     "act = ACT2FN[config.activation_function]",
     "nn.TransformerEncoderLayer, whose default is ReLU, given GPT-2's weights"},
    {"activation.gelu-erf", "The activation is the exact GELU (erf), the model's is another.",
     "F.gelu(x, approximate='tanh')",
     "A text-to-speech model served with erf, trained with tanh: "
     "https://github.com/kyutai-labs/pocket-tts/pull/278"},
    {"activation.gelu-tanh", "The activation is the tanh form of GELU, the model's is another.",
     "F.gelu(x)",
     "dfdx had only the approximation: https://github.com/chelsea0x3b/dfdx/issues/804"},
    {"activation.gelu-quick", "The activation is x sigmoid(1.702 x), the model's is another.",
     "act = ACT2FN[config.activation_function]",
     "CLIP's checkpoints: https://github.com/mlfoundations/open_clip/issues/771"},
    {"weights.transposed", "A square matrix is used transposed; its shape does not tell.",
     "linear.weight.copy_(conv1d.weight.T), for GPT-2's matrices are [in, out]",
     "GPT-2's Conv1D in AutoGPTQ: https://github.com/AutoGPTQ/AutoGPTQ/pull/139"},
    {"weights.no-bias", "The bias of a linear module is not used.",
     "nn.Linear(width_in, width_out, bias=True), and load its bias",
     "load_state_dict(strict=False), which passes over what a module does not have"},
    {"weights.untied-head", "The head is another matrix than wte, though the model is tied.",
     "lm_head.weight = wte.weight",
     "Ministral 3 loaded with a random head: "
     "https://github.com/huggingface/transformers/pull/43429"},
    {"weights.tied-head", "The head is wte, though the model has a head of its own.",
     "lm_head.weight.copy_(state['lm_head.weight'])",
     "TensorRT-LLM tied heads silently: https://github.com/NVIDIA/TensorRT-LLM/issues/3324"},
    {"numbers.bf16", "The whole run is in bfloat16.", "model.float()",
     "torch_dtype=torch.bfloat16 in a comparison with float32"},
    {"numbers.f16", "The whole run is in half floats.", "model.float()",
     "torch_dtype=torch.float16 in a comparison with float32"},
    {"numbers.f16-cache", "Keys and values are rounded to half floats.",
     "keep k and v in the type of x", "llama.cpp's cache, whose type is f16 by default"},
    {"numbers.f16-gelu",
     "The activation's input is rounded to half floats, as a table of them does.",
     "compute the activation in float32",
     "ggml's table on CPUs: https://github.com/ggml-org/llama.cpp/issues/29252"},
};

}  // namespace

std::span<const MistakeAdvice> mistake_advice() { return kAdvice; }

const MistakeAdvice& advice_on(std::string_view name) {
  for (const MistakeAdvice& advice : kAdvice) {
    if (advice.name == name) return advice;
  }
  throw ConfigError("advice: expected a mistake of the table, found '" + std::string(name) + "'");
}

}  // namespace prenorm
