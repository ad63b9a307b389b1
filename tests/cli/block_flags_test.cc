#include "prenorm/cli/block_flags.h"

#include <gtest/gtest.h>

#include "prenorm/cli/option_reader.h"

namespace prenorm::cli {
namespace {

ApplyOptions options_of(std::vector<std::string> arguments) {
  OptionTable table;
  BlockFlags block;
  ApplyOptions options;
  table.group("Block");
  block.declare(table, options);
  const std::vector<VerbTable> verbs = {{"apply", &table}};
  read_options(table, {std::move(arguments), {}}, "apply", verbs);
  block.read(table, options);
  return options;
}

TEST(BlockFlags, without_flags_a_block_is_gpt_2s) {
  const ApplyOptions options = options_of({});
  EXPECT_EQ(options.norm, NormPlacement::kPre);
  EXPECT_EQ(options.activation, Activation::kGeluTanh);
  EXPECT_EQ(options.eps, 1e-5);
  EXPECT_TRUE(options.causal);
  EXPECT_FALSE(options.scale);
}

TEST(BlockFlags, each_flag_reaches_its_option) {
  const ApplyOptions options = options_of({"--heads", "3", "--norm", "post", "--activation", "relu",
                                           "--eps", "1e-6", "--no-causal", "--scale", "0.5"});
  EXPECT_EQ(options.heads, 3);
  EXPECT_EQ(options.norm, NormPlacement::kPost);
  EXPECT_EQ(options.activation, Activation::kRelu);
  EXPECT_EQ(options.eps, 1e-6);
  EXPECT_FALSE(options.causal);
  EXPECT_EQ(options.scale, 0.5);
}

}  // namespace
}  // namespace prenorm::cli
