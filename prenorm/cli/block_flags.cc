#include "prenorm/cli/block_flags.h"

namespace prenorm::cli {

void BlockFlags::declare(OptionTable& table, ApplyOptions& options) {
  table.integer("heads", options.heads, {1, 1000000}, "attention heads").shown_default("none");
  table.choice("norm", norm_, {"pre", "post"}, "where a block has its norms");
  table.choice("activation", activation_, {"relu", "gelu", "gelu-tanh"},
               "of the feed-forward network");
  table.real("eps", options.eps, {}, "ε of the layer norms");
  table.toggle("causal", options.causal, "a query sees no key after its own position");
  table.real("scale", scale_, {}, "of attention's scores").shown_default("1/√D");
}

void BlockFlags::read(const OptionTable& table, ApplyOptions& options) const {
  options.norm = *norm_placement_from_name(norm_);
  options.activation = *activation_from_name(activation_);
  if (table.given("scale")) options.scale = scale_;
}

}  // namespace prenorm::cli
