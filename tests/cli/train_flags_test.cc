#include "prenorm/cli/train_flags.h"

#include <gtest/gtest.h>

#include "prenorm/base/error.h"
#include "prenorm/cli/option_reader.h"

namespace prenorm::cli {
namespace {

// Flags as a command line gives them.
struct Read {
  explicit Read(std::vector<std::string> arguments) {
    flags.declare(table);
    read_options(table, {std::move(arguments), {}}, "train", {});
    flags.finish(table);
  }
  OptionTable table;
  TrainFlags flags;
};

TEST(TrainFlags, defaults_depend_on_the_options_they_follow) {
  const Read read({"--max-iters", "400", "--learning-rate", "0.01"});
  EXPECT_EQ(read.flags.train.min_learning_rate(), 0.001);
  EXPECT_EQ(read.flags.train.warmup_steps(), 20);
  EXPECT_EQ(read.flags.train.decay_steps(), 400);
}

TEST(TrainFlags, names_become_the_librarys_values) {
  const Read read({"--norm", "post", "--activation", "relu", "--lr-schedule", "linear", "--min-lr",
                   "0", "--warmup-iters", "3", "--no-tie", "--bias", "--init", "torch"});
  EXPECT_EQ(read.flags.model.norm, NormPlacement::kPost);
  EXPECT_EQ(read.flags.model.activation, Activation::kRelu);
  EXPECT_EQ(read.flags.train.lr_schedule, LrSchedule::kLinear);
  EXPECT_EQ(read.flags.train.min_learning_rate(), 0.0);
  EXPECT_EQ(read.flags.train.warmup_steps(), 3);
  EXPECT_FALSE(read.flags.model.tie_word_embeddings);
  EXPECT_TRUE(read.flags.model.bias);
  EXPECT_EQ(read.flags.train.init, Initialization::kTorch);
}

TEST(TrainFlags, what_makes_no_sense_together_is_refused) {
  EXPECT_THROW(Read({"--n-head", "3"}), ConfigError);
}

TEST(TrainFlags, products_are_in_float32_or_in_bfloat16_with_an_order_of_sums) {
  EXPECT_EQ(Read({}).flags.train.dtype, Products::kFloat32);
  EXPECT_EQ(Read({"--dtype", "float32"}).flags.train.dtype, Products::kFloat32);
  for (const char* dtype : {"bf16", "bfloat16"}) {
    const Read open({"--dtype", dtype});
    EXPECT_EQ(open.flags.train.dtype, fastest_bf16_products(best_isa()));
    EXPECT_TRUE(open.flags.sums_are_open());
    const Read dot({"--dtype", dtype, "--bf16-sums", "dot"});
    EXPECT_EQ(dot.flags.train.dtype, Products::kBfloat16Dot);
    EXPECT_FALSE(dot.flags.sums_are_open());
    EXPECT_EQ(Read({"--dtype", dtype, "--bf16-sums", "tile"}).flags.train.dtype,
              Products::kBfloat16Tile);
  }
  EXPECT_NO_THROW(Read({"--bf16-sums", "auto"}).flags.check_dtype());
  EXPECT_THROW(Read({"--bf16-sums", "dot"}).flags.check_dtype(), ConfigError);
}

TEST(TrainFlags, a_saved_run_keeps_its_order_of_sums_unless_told_otherwise) {
  TrainOptions saved;
  for (const Products products : {Products::kBfloat16Dot, Products::kBfloat16Tile}) {
    saved.dtype = products;
    for (const std::vector<std::string>& flags :
         std::vector<std::vector<std::string>>{{}, {"--dtype", "bf16"}, {"--bf16-sums", "auto"}}) {
      Read read(flags);
      read.flags.rebase(read.table, read.flags.model, saved);
      EXPECT_EQ(read.flags.train.dtype, products);
      EXPECT_FALSE(read.flags.sums_are_open());
    }
    Read float32({"--dtype", "f32"}), tile({"--bf16-sums", "tile"});
    float32.flags.rebase(float32.table, float32.flags.model, saved);
    EXPECT_EQ(float32.flags.train.dtype, Products::kFloat32);
    tile.flags.rebase(tile.table, tile.flags.model, saved);
    EXPECT_EQ(tile.flags.train.dtype, Products::kBfloat16Tile);
    EXPECT_NO_THROW(tile.flags.check_dtype());
  }
}

TEST(TrainFlags, a_saved_run_is_the_base_under_the_flags_that_were_given) {
  Read read({"--max-iters", "900", "--norm", "post"});
  GptConfig model = read.flags.model;
  model.norm = NormPlacement::kPre;
  model.n_layer = 7;
  TrainOptions train;
  train.max_iters = 100;
  train.seed = 99;
  train.init = Initialization::kTorch;
  train.lr_schedule = LrSchedule::kConstant;
  train.min_lr = 0.0005;
  read.flags.rebase(read.table, model, train);
  EXPECT_EQ(read.flags.model.n_layer, 7);
  EXPECT_EQ(read.flags.model.norm, NormPlacement::kPost);
  EXPECT_EQ(read.flags.train.max_iters, 900);
  EXPECT_EQ(read.flags.train.seed, 99u);
  EXPECT_EQ(read.flags.train.init, Initialization::kTorch);
  EXPECT_EQ(read.flags.train.lr_schedule, LrSchedule::kConstant);
  EXPECT_EQ(read.flags.train.min_learning_rate(), 0.0005);
}

TEST(TrainFlags, a_watch_looks_each_log_interval_unless_told_otherwise) {
  EXPECT_EQ(Read({}).flags.train.watch_steps(), 0);
  EXPECT_EQ(Read({"--watch", "--log-interval", "7"}).flags.train.watch_steps(), 7);
  EXPECT_EQ(Read({"--watch", "--watch-interval", "3"}).flags.train.watch_steps(), 3);
  EXPECT_THROW(Read({"--watch-interval", "3"}), ConfigError);
}

}  // namespace
}  // namespace prenorm::cli
