#include "prenorm/cli/convert.h"

#include "prenorm/base/error.h"
#include "prenorm/cli/common.h"
#include "prenorm/model/convert.h"

namespace prenorm::cli {
namespace {

class Convert : public Verb {
 public:
  void declare(OptionTable& table) override {
    table.group("Input");
    table.texts("model", paths_, "PATH", "model folder, ckpt.pt of nanoGPT, or a state dict")
        .short_name('m')
        .from_positionals();
    table.integer("n-head", n_head_, {1}, "attention heads, where the file does not tell")
        .shown_default("as the file says");
    table.choice("activation", activation_, {"keep", "relu", "gelu", "gelu-tanh"},
                 "activation, in place of what the file says");
    table.group("Output");
    table.text("out-dir", out_dir_, "DIR", "folder to write into");
    table.choice("layout", layout_, {"hf", "nanogpt", "torch"}, "names and layout of the tensors");
    table
        .choice("dtype", dtype_, {"keep", "f32", "f16", "bf16", "f64"},
                "floating-point type of the tensors")
        .shown_default("as they are");
    table.text("config", common_.config, "FILE", "TOML file with values for these flags");
  }

  int run(const OptionTable& table, const Streams& streams) override {
    if (paths_.size() != 1) {
      throw ConfigError("-m: expected one model folder or file, found " +
                        std::to_string(paths_.size()));
    }
    if (out_dir_.empty()) throw ConfigError("--out-dir: expected a folder to write, found none");
    ConvertOptions options;
    options.layout = *weight_layout_from_name(layout_);
    if (dtype_ == "f32") options.dtype = Dtype::kF32;
    if (dtype_ == "f16") options.dtype = Dtype::kF16;
    if (dtype_ == "bf16") options.dtype = Dtype::kBF16;
    if (dtype_ == "f64") options.dtype = Dtype::kF64;
    if (table.given("n-head")) options.hints.n_head = n_head_;
    if (activation_ != "keep") options.hints.activation = activation_from_name(activation_);
    for (const std::string& notice : convert_model(paths_.front(), out_dir_, options)) {
      streams.log.print("{}\n", notice);
    }
    return kDone;
  }

 private:
  std::vector<std::string> paths_;
  std::string out_dir_, layout_ = "hf", dtype_ = "keep", activation_ = "keep";
  Index n_head_ = 1;
  CommonFlags common_;
};

}  // namespace

std::unique_ptr<Verb> make_convert() { return std::make_unique<Convert>(); }

}  // namespace prenorm::cli
