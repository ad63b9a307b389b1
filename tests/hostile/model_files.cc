// Model folders whose weights are missing, of another model, or not to be read.
#include <sys/stat.h>

#include <utility>
#include <vector>

#include "prenorm/formats/safetensors.h"
#include "tests/hostile/hostile_file.h"

namespace prenorm::hostile {
namespace {

constexpr const char* kWeights = "model.safetensors";

class Table : public HostileTable {
 public:
  Table() : HostileTable("model_", Opener::kModel) {}

  HostileFile& add(const std::string& name, const std::string& expected) {
    return add_folder(name, valid_model(), kWeights, expected);
  }
  // The valid weights after a change to the list of tensors.
  template <typename Change>
  HostileFile& tensors(const std::string& name, const std::string& expected, Change change) {
    HostileFile& file = add(name, expected);
    const Safetensors valid(std::as_bytes(std::span(weights_)), "valid");
    std::vector<Tensor> changed = valid.tensors();
    change(changed);
    file.files[kWeights] = serialize_safetensors(std::move(changed));
    return file;
  }

 private:
  const std::string weights_ = valid_model().at(kWeights);
};

Tensor& named(std::vector<Tensor>& tensors, const std::string& name) {
  for (Tensor& t : tensors) {
    if (t.name == name) return t;
  }
  return tensors.front();
}

constexpr std::array<float, 1024> kOnes = [] {
  std::array<float, 1024> ones{};
  for (float& x : ones) x = 1.0f;
  return ones;
}();

void add_tensors(Table& table) {
  using Tensors = std::vector<Tensor>;
  const auto extra = [&](const std::string& name, const std::string& as) {
    table.tensors(name, "1 unexpected",
                  [&](Tensors& all) { all.push_back(tensor(as, {4}, std::span(kOnes).first(4))); });
  };
  extra("with_another_tensor", "transformer.h.0.attn.c_attn.weight_scale");
  extra("with_a_layer_too_many", "transformer.h.1.ln_1.weight");
  extra("with_a_mask_of_layer_00", "transformer.h.00.attn.bias");
  extra("with_a_mask_of_layer_plus_0", "transformer.h.+0.attn.bias");
  extra("with_a_mask_of_layer_minus_1", "transformer.h.-1.attn.bias");
  extra("with_a_mask_of_layer_2_to_the_64", "transformer.h.18446744073709551616.attn.bias");
  extra("with_a_mask_of_another_layer", "transformer.h.1.attn.bias");
  table.tensors("without_a_tensor", "1 missing", [](Tensors& all) { all.pop_back(); });
  table.tensors("without_tensors", "16 missing", [](Tensors& all) { all.clear(); });
  table.tensors("of_integers", "1 of another shape or type",
                [](Tensors& all) { named(all, "transformer.ln_f.weight").dtype = Dtype::kI32; });
  table.tensors("of_a_matrix_turned_over", "1 of another shape or type", [](Tensors& all) {
    named(all, "transformer.h.0.attn.c_attn.weight").shape = {12, 4};
  });
  table.tensors("of_a_shape_with_an_axis_more", "1 of another shape", [](Tensors& all) {
    named(all, "transformer.ln_f.weight").shape = {4, 1};
  });
  table.tensors("with_a_name_twice", "one tensor of this name", [](Tensors& all) {
    all.push_back(named(all, "transformer.ln_f.weight"));
    all.back().name = "ln_f.weight";
  });
  table.tensors("with_a_head_that_is_not_tied", "a copy of wte.weight", [](Tensors& all) {
    all.push_back(tensor("lm_head.weight", {256, 4}, std::span(kOnes)));
  });
  table
      .tensors("with_biases_that_are_not_zero", "zeros, as the model has no biases",
               [](Tensors& all) {
                 named(all, "transformer.ln_f.bias").bytes =
                     std::as_bytes(std::span(kOnes).first(4));
               })
      .files["config.json"] = gpt_config_with("prenorm_bias", "false");
}

void add_places(Table& table) {
  table.add("missing", "no such file").files.erase(kWeights);
  table.add("empty", "an empty file").files[kWeights].clear();
  table.add("that_is_a_git_lfs_pointer", "Git LFS pointer").files[kWeights] =
      "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n";
  for (const bool device : {false, true}) {
    HostileFile& file =
        table.add(device ? "that_is_a_device" : "that_is_a_pipe", "a pipe or a device");
    file.files.erase(kWeights);
    file.arrange = [device](const std::filesystem::path& folder) {
      if (device) {
        std::filesystem::create_symlink("/dev/urandom", folder / kWeights);
      } else {
        mkfifo((folder / kWeights).c_str(), 0600);
      }
    };
  }
  HostileFile* file = &table.add("whose_index_leads_out", "plain file names in weight_map");
  file->files.erase(kWeights);
  file->files["model.safetensors.index.json"] = R"({"weight_map":{"a":"../../x"}})";
  file->culprit = "model.safetensors.index.json";
  file = &table.add("whose_pickle_runs_code", "a zip archive");
  file->files.erase(kWeights);
  file->files["pytorch_model.bin"] = "cos\nsystem\n(S'id'\ntR.";
  file->culprit = "pytorch_model.bin";
  file = &table.add("folder_missing", "no such folder");
  file->opened = "nowhere";
  file->culprit = "nowhere";
}

}  // namespace

std::vector<HostileFile> model_files() {
  Table table;
  add_tensors(table);
  add_places(table);
  return table.take();
}

}  // namespace prenorm::hostile
