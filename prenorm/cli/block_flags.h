// The flags that say what a layer or block alone is, for the verbs that take its parameters from a
// file: --heads, --norm, --activation, --eps, --causal, --scale.
#pragma once
#include <string>

#include "prenorm/cli/option_table.h"
#include "prenorm/study/apply.h"

namespace prenorm::cli {

class BlockFlags {
 public:
  // Both must outlive the table.
  void declare(OptionTable& table, ApplyOptions& options);
  // Fills in what a flag's value alone does not set.
  void read(const OptionTable& table, ApplyOptions& options) const;

 private:
  std::string norm_ = "pre", activation_ = "gelu-tanh";
  double scale_ = 0.0;
};

}  // namespace prenorm::cli
