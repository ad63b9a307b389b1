// What PyTorch computes in float64 for the inputs of values.h: written by expected_values.py.
#pragma once

namespace prenorm::reference::expected {

struct Checksum {
  const char* name;
  double value;
};
struct OutputAndGradient {
  const char* name;
  double output, gradient;
};
struct MistakenLogits {
  const char *name, *where, *text;
  double number, logits;
};

// Logits of the tiny model with one mistake.
inline constexpr MistakenLogits kMistakes[] = {
    {"norm.eps-value", "", "", 0.001, 3.821786918953957},
    {"norm.eps-outside-root", "", "", 1.0, 3.827108842912654},
    {"norm.eps-misplaced", "", "", 1.0, 3.8271335225131318},
    {"norm.ddof", "", "", 1.0, 3.362978724116496},
    {"norm.axis", "", "", 1.0, 4.3078947590034495},
    {"norm.no-affine", "", "", 1.0, 1.8866763510406481},
    {"norm.no-bias", "", "", 1.0, 2.336989523143797},
    {"norm.rms", "", "", 1.0, 1.3012965457226158},
    {"norm.swapped-weights", "", "", 1.0, 0.6307575579212995},
    {"structure.post-norm", "", "", 1.0, 4.945391153277409},
    {"structure.residual-from-norm", "", "", 1.0, 7.233720519065538},
    {"structure.no-residual", "", "", 1.0, 0.5034076409495187},
    {"structure.no-final-norm", "", "", 1.0, 2.100256698004607},
    {"structure.double-final-norm", "", "", 1.0, 2.9110809283402954},
    {"attention.no-mask", "", "", 1.0, 4.210142984900088},
    {"attention.mask-zero", "", "", 1.0, 4.457948176560355},
    {"attention.mask-finite", "", "", -1.5, 4.359258031977069},
    {"attention.mask-shifted", "", "", 1.0, 4.321545138850109},
    {"attention.mask-inverted", "", "", 1.0, 4.554985757228103},
    {"attention.no-scale", "", "", 1.0, 3.7238226300643213},
    {"attention.scale-by-width", "", "", 1.0, 3.941466778716565},
    {"attention.qkv-order", "", "qvk", 1.0, -2.1695814033895213},
    {"attention.qkv-order", "", "kqv", 1.0, 3.960268686582883},
    {"attention.qkv-order", "", "kvq", 1.0, -2.1133143793283726},
    {"attention.qkv-order", "", "vqk", 1.0, 0.8024415184851315},
    {"attention.qkv-order", "", "vkq", 1.0, 0.8778853449920015},
    {"attention.qkv-interleaved", "", "", 1.0, 4.37034746136622},
    {"attention.head-axes", "", "", 1.0, 5.597517809073089},
    {"attention.no-split-transpose", "", "", 1.0, 3.166787233585632},
    {"attention.no-merge-transpose", "", "", 1.0, 1.070575677315426},
    {"attention.softmax-axis", "", "", 1.0, 2.6021229303944278},
    {"position.offset", "", "", 2.0, 3.45437048132095},
    {"activation.relu", "", "", 1.0, 3.848041567122976},
    {"activation.gelu-erf", "", "", 1.0, 3.827467630592952},
    {"activation.gelu-quick", "", "", 1.0, 3.820574526206829},
    {"weights.transposed", "", "attn.c_proj", 1.0, 1.3168729078656778},
    {"weights.no-bias", "", "attn.c_attn", 1.0, 4.08176368800661},
    {"weights.no-bias", "", "attn.c_proj", 1.0, 5.651559314590241},
    {"weights.no-bias", "", "mlp.c_fc", 1.0, 2.588049176710795},
    {"weights.no-bias", "", "mlp.c_proj", 1.0, 2.8207122452765887},
    {"weights.untied-head", "", "", 1.0, 1.5556954324244179},
    {"numbers.f16-cache", "", "", 1.0, 3.8274078340248203},
    {"numbers.f16-gelu", "", "", 1.0, 3.826749786230787},
    {"norm.ddof", "transformer.h.1.ln_1", "", 1.0, 3.560814796479759},
    {"norm.rms", "transformer.ln_f", "", 1.0, 1.5167004104467687},
    {"attention.no-scale", "transformer.h.0", "", 1.0, 3.73421139135301},
};

// Pre-norm, GELU (tanh), tied head.
inline constexpr Checksum kPreTied[] = {
    {"logits", 3.8271202733638687},
    {"loss", 2.575608051388529},
    {"transformer.wte.weight", -1.007357685684611},
    {"transformer.wpe.weight", -0.3393478138276485},
    {"transformer.h.0.ln_1.weight", 0.06482734647617686},
    {"transformer.h.0.ln_1.bias", 0.23572876488641573},
    {"transformer.h.0.attn.c_attn.weight", 0.37065591147976995},
    {"transformer.h.0.attn.c_attn.bias", 0.10126984747401677},
    {"transformer.h.0.attn.c_proj.weight", -0.17418922951682328},
    {"transformer.h.0.attn.c_proj.bias", 0.0779495202337046},
    {"transformer.h.0.ln_2.weight", 0.13374212296438348},
    {"transformer.h.0.ln_2.bias", 0.09579265186546965},
    {"transformer.h.0.mlp.c_fc.weight", -1.29875039790362},
    {"transformer.h.0.mlp.c_fc.bias", -0.43891796519190496},
    {"transformer.h.0.mlp.c_proj.weight", -0.20630758328270277},
    {"transformer.h.0.mlp.c_proj.bias", -0.07338863358832812},
    {"transformer.h.1.ln_1.weight", -0.019204114857244346},
    {"transformer.h.1.ln_1.bias", 0.04515360844628558},
    {"transformer.h.1.attn.c_attn.weight", -0.020757078456861117},
    {"transformer.h.1.attn.c_attn.bias", -0.10406252302551419},
    {"transformer.h.1.attn.c_proj.weight", 0.6637872720475892},
    {"transformer.h.1.attn.c_proj.bias", -0.16512995595436564},
    {"transformer.h.1.ln_2.weight", 0.139176724097313},
    {"transformer.h.1.ln_2.bias", -0.04771223899068545},
    {"transformer.h.1.mlp.c_fc.weight", -0.01992688595030101},
    {"transformer.h.1.mlp.c_fc.bias", -0.025316219350570997},
    {"transformer.h.1.mlp.c_proj.weight", -0.11492687817508877},
    {"transformer.h.1.mlp.c_proj.bias", -0.11707397660500658},
    {"transformer.ln_f.weight", 0.15529901374693553},
    {"transformer.ln_f.bias", 0.10107443375452121},
};

// Post-norm, GELU (erf), head of its own, no biases.
inline constexpr Checksum kPostUntied[] = {
    {"logits", 3.845039925337711},
    {"loss", 1.6655040217341892},
    {"transformer.wte.weight", 0.27888539703977394},
    {"transformer.wpe.weight", 0.23362426247209436},
    {"transformer.h.0.ln_1.weight", -0.29583505627423173},
    {"transformer.h.0.attn.c_attn.weight", 0.04977566135143846},
    {"transformer.h.0.attn.c_proj.weight", 0.06061825878673424},
    {"transformer.h.0.ln_2.weight", -0.15528106675588643},
    {"transformer.h.0.mlp.c_fc.weight", 0.13009706101227195},
    {"transformer.h.0.mlp.c_proj.weight", 0.012792392218422877},
    {"transformer.h.1.ln_1.weight", -0.0919862405151021},
    {"transformer.h.1.attn.c_attn.weight", 0.04311766183116235},
    {"transformer.h.1.attn.c_proj.weight", -0.17881743614362255},
    {"transformer.h.1.ln_2.weight", -0.040725459573317115},
    {"transformer.h.1.mlp.c_fc.weight", -0.11747488546888787},
    {"transformer.h.1.mlp.c_proj.weight", -0.046610083379280146},
    {"transformer.ln_f.weight", 0.19124884382935833},
    {"lm_head.weight", 0.5730491515787215},
};

// Attention of packed q, k, v under the causal rule and one more mask.
inline constexpr OutputAndGradient kMasks[] = {
    {"causal", -7.384614929884781, 0.3629258620092508},
    {"blocked", -9.237616542617655, 0.6809934940642508},
    {"added", -10.291756885392047, -0.7360167928860499},
    {"key_padding", -8.135638898173262, -0.8981291625019614},
};

}  // namespace prenorm::reference::expected
