// The results of the modules of a model, by the names of Hugging Face's GPT-2 modules: what a
// forward hook on `transformer.h.0.ln_1` and so on would see. A module called twice leaves its last
// result; one that is never called is absent.
//
//   Stages<double> stages;
//   gpt(tokens, parameters, options, {}, Recorder<double>(&stages));
//   const Tensor<double>* ln_1 = stages.find("transformer.h.0.ln_1");
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "prenorm/reference/tensor.h"

namespace prenorm::reference {

template <typename S>
class Stages {
 public:
  using Entry = std::pair<std::string, Tensor<S>>;

  void set(const std::string& name, const Tensor<S>& value) {
    std::erase_if(entries_, [&](const Entry& entry) { return entry.first == name; });
    entries_.emplace_back(name, value);
  }
  const Tensor<S>* find(std::string_view name) const {
    for (const Entry& entry : entries_) {
      if (entry.first == name) return &entry.second;
    }
    return nullptr;
  }
  // In the order in which the modules returned.
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  std::vector<Entry> entries_;
};

// Passed down through the layers, each adding its name; records nothing by default.
template <typename S>
class Recorder {
 public:
  Recorder() = default;
  explicit Recorder(Stages<S>* stages, std::string prefix = "")
      : stages_(stages), prefix_(std::move(prefix)) {}

  // Of a module inside: Recorder("transformer.").under("h.0.") records "transformer.h.0.ln_1".
  Recorder under(const std::string& name) const { return Recorder(stages_, prefix_ + name); }

  // Records the value and hands it on.
  Tensor<S> operator()(const std::string& name, Tensor<S> value) const {
    if (stages_ != nullptr) stages_->set(prefix_ + name, value);
    return value;
  }

 private:
  Stages<S>* stages_ = nullptr;
  std::string prefix_;
};

}  // namespace prenorm::reference
