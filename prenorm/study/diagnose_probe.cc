#include "prenorm/study/diagnose_probe.h"

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "prenorm/formats/safetensors.h"
#include "prenorm/model/checkpoint.h"

namespace prenorm {
namespace {

constexpr Index kLayers = 2, kHeads = 4, kWidth = 32, kVocabulary = 96, kTime = 24, kBatch = 4;

GptConfig probe_config() {
  GptConfig config;
  config.vocab_size = kVocabulary;
  config.block_size = 2 * kTime;
  config.n_layer = kLayers;
  config.n_head = kHeads;
  config.n_embd = kWidth;
  config.layer_norm_epsilon = 0.05;  // large: where it stands shows
  config.embd_pdrop = config.attn_pdrop = config.resid_pdrop = 0.0;
  return config;
}

// Normal numbers, the same on every machine: sums of twelve uniform ones.
class Normal {
 public:
  float operator()(double spread, double mean = 0.0) {
    double sum = -6.0;
    for (int i = 0; i < 12; ++i) sum += static_cast<double>(generator_() >> 8) * 0x1p-24;
    return static_cast<float>(mean + spread * sum);
  }

 private:
  std::mt19937 generator_{20};
};

// Tokens and positions of several sizes: rows far below √ε tell one small ε from another, rows far
// above it show everything else.
void fill_embedding(Parameter& p, Normal& normal, double smallest, double largest) {
  const Index width = p.shape[1];
  for (Index row = 0; row < p.shape[0]; ++row) {
    const double spread = row % 3 == 0 ? smallest : largest;
    for (Index c = 0; c < width; ++c) {
      p.value[static_cast<std::size_t>(row * width + c)] = normal(spread, 0.3 * spread);
    }
  }
}

void fill(Parameter& p, Normal& normal) {
  const std::string& name = p.name;
  const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
  if (has("wte")) return fill_embedding(p, normal, 0.003, 0.5);
  if (has("wpe")) return fill_embedding(p, normal, 0.002, 0.3);
  const bool bias = name.ends_with(".bias");
  const double in = static_cast<double>(p.shape.front());
  for (float& x : p.value) {
    if (has(".ln_")) {
      x = bias ? normal(0.3) : normal(0.4, 1.0);
    } else if (has("mlp.c_fc")) {
      x = bias ? normal(1.0, -0.8) : normal(1.2 / std::sqrt(in));
    } else if (bias) {
      x = normal(0.3);
    } else {
      x = normal((has("mlp.c_proj") ? 3.0 : has("c_proj") ? 1.0 : 2.0) / std::sqrt(in));
    }
  }
}

}  // namespace

void write_diagnose_probe(const std::filesystem::path& folder) {
  Gpt model(probe_config(), Gpt::Mode::kInference);
  Normal normal;
  for (Parameter& p : model.parameters()) fill(p, normal);
  save_pretrained(model, folder);
  std::mt19937 generator(7);
  std::vector<std::int64_t> ids(static_cast<std::size_t>(kBatch * kTime));
  for (std::int64_t& id : ids) {
    id = static_cast<std::int64_t>(generator() % static_cast<unsigned>(kVocabulary));
  }
  save_safetensors(folder / "input.safetensors",
                   {tensor("input_ids", {kBatch, kTime}, std::span<const std::int64_t>(ids))});
}

std::string_view diagnose_hook() {
  return R"(# Dumps what every module returned last: dump(model, input_ids, "theirs.safetensors")
import torch
from safetensors.torch import save_file


def dump(model, input_ids, path):
    stages, handles = {}, []

    def hook(name):
        def keep(module, inputs, output):
            output = output[0] if isinstance(output, tuple) else output
            if torch.is_tensor(output):
                stages[name] = output.detach().cpu().clone().contiguous()
        return keep

    for name, module in model.named_modules():
        parts = name.split(".")
        if "h" in parts[:-1] or parts[-1] in ("drop", "ln_f"):
            handles.append(module.register_forward_hook(hook(name)))
    with torch.no_grad():
        output = model.eval()(input_ids)
    for handle in handles:
        handle.remove()
    output = getattr(output, "logits", output)
    stages["logits"] = (output[0] if isinstance(output, tuple) else output).cpu().contiguous()
    save_file(stages, path)
    save_file({"input_ids": input_ids.cpu().long().contiguous()}, "input.safetensors")
)";
}

}  // namespace prenorm
