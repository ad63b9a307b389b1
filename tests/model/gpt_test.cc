#include "prenorm/model/gpt.h"

#include <set>

#include "tests/model/gpt_test_util.h"

namespace prenorm {
namespace {

// --- Values and gradients -----------------------------------------------------------------------

TEST(Gpt, is_the_textbook_and_its_gradient_the_adjoint_of_the_loss) {
  std::vector<GptConfig> configs = each_kind();
  configs.push_back(small_config({.bias = false, .activation = Activation::kRelu}));
  configs.push_back(small_config({.tied = false, .bias = false, .activation = Activation::kGelu}));
  configs.push_back(small_config());
  configs.back().scale_attn_weights = false;
  configs.push_back(small_config());
  configs.back().scale_attn_by_inverse_layer_idx = true;
  for (const GptConfig& c : configs) {
    SCOPED_TRACE(name(c));
    const auto model = random_model(c);
    const Windows w(3, 7, c.vocab_size);
    expect_is_the_textbook(subject_of(*model, w, 1.0 / 21), textbook_of(*model, w));
  }
}

TEST(Gpt, with_dropout_its_gradient_is_the_adjoint_under_the_same_masks) {
  for (const GptConfig& c : each_kind(0.25)) {
    SCOPED_TRACE(name(c));
    const auto model = random_model(c);
    const Windows w(3, 7, c.vocab_size);
    expect_is_the_textbook(subject_of(*model, w, 1.0 / 21), textbook_of(*model, w));
  }
}

TEST(Gpt, of_more_tokens_than_one_sum_block_is_the_textbook) {
  const auto model = random_model(small_config());
  const Windows w(4, 70, 23);
  const Subject s = subject_of(*model, w, 1.0 / 280);
  const Outcome got = s.run(Runtime());
  const auto f = textbook_of(*model, w);
  EXPECT_NEAR(got.y[0], f(s.x)[0], tolerance::kLossRtol * got.y[0]);
  EXPECT_LE(adjoint_error(f, s, got.gradients), tolerance::kAdjointFloat);
}

TEST(Gpt, a_tied_weight_without_the_embeddings_share_is_found) {
  const auto model = random_model(small_config());
  const Windows w(3, 7, 23);
  const Subject s = subject_of(*model, w, 1.0 / 21);
  const Tensors unfinished = subject_of(*model, w, 1.0 / 21, false).run(Runtime()).gradients;
  EXPECT_GT(adjoint_error(textbook_of(*model, w), s, unfinished), tolerance::kPlantedBug);
}

TEST(Gpt, logits_are_the_textbooks) {
  for (const GptConfig& c : each_kind()) {
    SCOPED_TRACE(name(c));
    const auto model = random_model(c);
    const Windows w(2, 9, c.vocab_size);
    reference::ParameterMap<double> map;
    for (const Parameter& p : model->parameters()) map[p.name] = tensor_of(p.shape, p.value);
    const Tensor want =
        reference::gpt(reference::Tokens({2, 9}, w.inputs), reference::from_map(map, c.n_layer),
                       reference::gpt_options({.n_layer = c.n_layer,
                                               .n_head = c.n_head,
                                               .norm = textbook(c.norm),
                                               .tied = c.tie_word_embeddings}));
    const TestMatrix got = logits_of(Runtime(), *model, w);
    expect_close(to_tensor(got.view()).reshaped(want.shape()), want);
  }
}

TEST(Gpt, evaluate_is_the_loss_without_dropout) {
  const Windows w(3, 40, 23);
  const Runtime run;
  const auto plain = random_model(small_config()), dropping = random_model(each_kind(0.3).front());
  Gpt::Workspace work = plain->make_workspace(3, 40), other = dropping->make_workspace(3, 40);
  const LossSum loss = plain->forward_backward(run, work, w.all(), 1.0, kStep);
  EXPECT_EQ(plain->evaluate(run, work, w.all()).loss, loss.loss);
  EXPECT_EQ(dropping->evaluate(run, other, w.all()).loss, loss.loss);
  EXPECT_NE(dropping->forward_backward(run, other, w.all(), 1.0, kStep).loss, loss.loss);
  EXPECT_EQ(loss.count, 120 - std::count(w.targets.begin(), w.targets.end(), -1));
}

// --- The same bits ------------------------------------------------------------------------------

TEST(Gpt, a_step_has_the_same_bits_on_every_target_and_thread_count) {
  for (const GptConfig& c : each_kind(0.1)) {
    SCOPED_TRACE(name(c));
    const auto model = random_model(c);
    expect_same_bits_everywhere(subject_of(*model, Windows(5, 67, c.vocab_size), 1.0 / 335));
  }
}

TEST(Gpt, accumulated_micro_batches_give_the_gradient_bits_of_the_one_batch) {
  for (GptConfig c : each_kind(0.2)) {
    SCOPED_TRACE(name(c));
    c.block_size = 128;
    const auto model = random_model(c);
    const Windows w(8, 128, c.vocab_size);
    const Runtime run(Runtime::Options{2, "auto"});
    const std::vector<float> whole = step_of(run, *model, w, {8}).gradients;
    for (const std::vector<Index>& split :
         {std::vector<Index>{4, 4}, {2, 2, 2, 2}, {2, 6}, {6, 2}}) {
      EXPECT_TRUE(same_bits(step_of(run, *model, w, split).gradients, whole));
    }
    // Without its place in the step a micro-batch would repeat the masks of the first.
    EXPECT_FALSE(same_bits(step_of(run, *model, w, {4, 4}, false).gradients, whole));
  }
}

TEST(Gpt, a_used_workspace_gives_the_bits_of_a_fresh_one) {
  for (const GptConfig& c : each_kind(0.2)) {
    const auto model = random_model(c);
    const Windows small(2, 9, c.vocab_size, 8), large(4, 60, c.vocab_size, 9);
    const Runtime run;
    const auto step = [&](Gpt::Workspace& work, const Windows& w) {
      model->parameters().zero_grad();
      model->forward_backward(run, work, w.all(), 0.01, kStep);
      model->finish_gradients(run, work);
      return gradients_of(*model);
    };
    Gpt::Workspace fresh = model->make_workspace(2, 9), used = model->make_workspace(4, 60);
    const std::vector<float> want = step(fresh, small);
    step(used, large);
    EXPECT_TRUE(same_bits(step(used, small), want)) << name(c);
  }
}

TEST(Gpt, a_token_changes_no_bit_of_the_logits_before_it) {
  for (const GptConfig& c : each_kind()) {
    const auto model = random_model(c);
    const Windows w(1, 80, c.vocab_size);
    on_every_runtime([&](const Runtime& run) {
      const TestMatrix before = logits_of(run, *model, w);
      for (Index t : {0, 17, 64, 79}) {
        Windows changed = w;
        TokenId& token = changed.inputs[static_cast<std::size_t>(t)];
        token = (token + 1) % 23;
        const TestMatrix after = logits_of(run, *model, changed);
        EXPECT_TRUE(same_bits(std::span(after.data).first(static_cast<std::size_t>(t * 23)),
                              std::span(before.data).first(static_cast<std::size_t>(t * 23))));
        EXPECT_FALSE(same_bits(std::span(after.data), std::span(before.data)));
      }
    });
  }
}

TEST(Gpt, an_example_has_the_same_bits_alone_and_among_64) {
  for (const GptConfig& c : each_kind()) {
    const auto model = random_model(c);
    const Windows all(64, 16, c.vocab_size);
    on_every_runtime([&](const Runtime& run) {
      const TestMatrix logits = logits_of(run, *model, all);
      Gpt::Workspace many = model->make_workspace(64, 16), single = model->make_workspace(1, 16);
      for (Index b : {0, 29, 63}) {
        const TokenBatch one = all.part(b, 1);
        TestMatrix alone(16, 23);
        model->logits(run, single, one.inputs, alone.view());
        EXPECT_TRUE(same_bits(
            alone.data,
            std::span(logits.data).subspan(static_cast<std::size_t>(b * 16 * 23), 16 * 23)));
        // The loss of this example in the batch: that of all others is not counted.
        Windows only = all;
        for (Index n = 0; n < 64 * 16; ++n) {
          if (n / 16 != b) only.targets[static_cast<std::size_t>(n)] = -1;
        }
        const LossSum mine = model->evaluate(run, single, one);
        const LossSum same = model->evaluate(run, many, only.all());
        EXPECT_EQ(mine.loss, same.loss);
        EXPECT_EQ(mine.count, same.count);
      }
    });
  }
}

TEST(Gpt, a_model_for_inference_has_the_bits_of_one_for_training) {
  for (const GptConfig& config : each_kind()) {
    for (Index layers : {1, 2, 5}) {  // the inference plan shares memory between layers
      GptConfig c = config;
      c.n_layer = layers;
      const auto training = random_model(c), inference = random_model(c, Gpt::Mode::kInference);
      const Windows w(3, 33, c.vocab_size);
      const Runtime run;
      EXPECT_TRUE(same_bits(logits_of(run, *training, w), logits_of(run, *inference, w)));
      Gpt::Workspace a = training->make_workspace(3, 33), b = inference->make_workspace(3, 33);
      EXPECT_EQ(training->evaluate(run, a, w.all()).loss,
                inference->evaluate(run, b, w.all()).loss);
      EXPECT_GT(training->workspace_bytes(3, 33), inference->workspace_bytes(3, 33));
    }
  }
}

// --- Incremental decoding -----------------------------------------------------------------------

void expect_decoded_bits(const Runtime& run, const Gpt& model, const Windows& w, Gpt::Cache& cache,
                         const TestMatrix& want, const std::vector<Index>& pieces) {
  cache.clear();
  Index past = 0;
  for (Index piece : pieces) {
    std::vector<TokenId> tokens;
    for (Index b = 0; b < w.batch; ++b) {
      const auto row = w.inputs.begin() + b * w.time + past;
      tokens.insert(tokens.end(), row, row + piece);
    }
    TestMatrix last(w.batch, model.config().vocab_size, 3);
    model.decode(run, cache, {tokens.data(), {w.batch, piece}}, last.view());
    past += piece;
    ASSERT_EQ(cache.length(), past);
    for (Index b = 0; b < w.batch; ++b) {
      const auto row = want.view()[b * w.time + past - 1];
      ASSERT_EQ(0, std::memcmp(last.view()[b].data(), row.data(),
                               static_cast<std::size_t>(row.size()) * sizeof(float)))
          << "sequence " << b << ", after " << past << " tokens";
    }
  }
}

TEST(Gpt, decoding_with_the_cache_gives_the_logit_bits_of_the_whole_sequence) {
  for (const GptConfig& c : each_kind()) {
    SCOPED_TRACE(name(c));
    const Windows w(2, 80, c.vocab_size);
    on_every_runtime([&](const Runtime& run) {
      const auto model = random_model(c, Gpt::Mode::kInference);
      const TestMatrix want = logits_of(run, *model, w);
      Gpt::Cache cache = model->make_cache(2);
      for (bool packed : {false, true}) {
        if (packed) model->pack(run);
        expect_decoded_bits(run, *model, w, cache, want, {80});
        expect_decoded_bits(run, *model, w, cache, want, std::vector<Index>(80, 1));
        expect_decoded_bits(run, *model, w, cache, want, {5, 60, 1, 1, 13});
      }
      EXPECT_TRUE(same_bits(logits_of(run, *model, w), want)) << "packed";
    });
  }
}

TEST(Gpt, weights_packed_part_by_part_between_tokens_change_no_bit) {
  for (const GptConfig& c : each_kind()) {
    SCOPED_TRACE(name(c));
    const Windows w(2, 20, c.vocab_size);
    on_every_runtime([&](const Runtime& run) {
      const auto model = random_model(c, Gpt::Mode::kInference);
      const TestMatrix want = logits_of(run, *model, w);
      Gpt::Cache cache = model->make_cache(2, 20);
      int calls = 1;
      do {
        expect_decoded_bits(run, *model, w, cache, want, {18, 1, 1});
        ++calls;
      } while (model->pack_next(run));
      expect_decoded_bits(run, *model, w, cache, want, {18, 1, 1});
      EXPECT_EQ(calls, c.n_layer + 2);
      EXPECT_FALSE(model->pack_next(run));
    });
  }
}

TEST(Gpt, a_cache_has_room_for_the_tokens_that_were_asked_for) {
  const auto model = random_model(small_config(), Gpt::Mode::kInference);
  const Windows w(1, 10, 23);
  const Runtime run;
  TestMatrix last(1, 23);
  Gpt::Cache cache = model->make_cache(1, 9);
  model->decode(run, cache, {w.inputs.data(), {1, 9}}, last.view());
  expect_error<ShapeError>(
      [&] {
        model->decode(run, cache, {w.inputs.data() + 9, {1, 1}}, last.view());
      },
      "Gpt: tokens after 9 cached: expected [1, 1 to 0], found [1, 1]");
}

TEST(Gpt, weights_in_bfloat16_give_the_bits_of_a_model_of_rounded_weights) {
  const Windows w(2, 40, 23);
  const Runtime run;
  const auto model = random_model(small_config(), Gpt::Mode::kInference);
  const auto rounded = random_model(small_config(), Gpt::Mode::kInference);
  EXPECT_EQ(model->smallest_format(), kernels::WeightFormat::kFloat32);
  kernels::round_to_bfloat16(run, rounded->parameters().values());
  EXPECT_EQ(rounded->smallest_format(), kernels::WeightFormat::kBfloat16);
  const TestMatrix exact = logits_of(run, *model, w), want = logits_of(run, *rounded, w);
  model->pack(run, kernels::WeightFormat::kBfloat16);
  EXPECT_TRUE(same_bits(logits_of(run, *model, w), want));
  EXPECT_FALSE(same_bits(exact, want));
}

TEST(Gpt, a_refused_token_leaves_the_cache_as_it_was) {
  const auto model = random_model(small_config(), Gpt::Mode::kInference);
  const Windows w(1, 10, 23);
  const Runtime run;
  const TestMatrix want = logits_of(run, *model, w);
  Gpt::Cache cache = model->make_cache(1);
  TestMatrix last(1, 23);
  model->decode(run, cache, {w.inputs.data(), {1, 9}}, last.view());
  const TokenId wrong = 23;
  expect_error<ShapeError>(
      [&] {
        model->decode(run, cache, {&wrong, {1, 1}}, last.view());
      },
      "Embedding 'wte': expected token ids in [0, 23), found 23 at [0, 0]");
  EXPECT_EQ(cache.length(), 9);
  model->decode(run, cache, {w.inputs.data() + 9, {1, 1}}, last.view());
  EXPECT_TRUE(same_bits(last.data, std::span(want.data).last(23)));
}

// --- Parameters and errors ----------------------------------------------------------------------

TEST(Gpt, names_its_parameters_as_hugging_face_does) {
  std::set<std::string> names;
  GptConfig c = small_config({.tied = false});
  c.n_layer = 1;
  const Gpt model(c);
  for (const Parameter& p : model.parameters()) {
    names.insert(p.name);
    // Matrices and embeddings decay; norms and biases do not.
    EXPECT_EQ(p.decays, p.shape.size() == 2) << p.name;
  }
  const std::set<std::string> want{"transformer.wte.weight",
                                   "transformer.wpe.weight",
                                   "transformer.h.0.ln_1.weight",
                                   "transformer.h.0.ln_1.bias",
                                   "transformer.h.0.attn.c_attn.weight",
                                   "transformer.h.0.attn.c_attn.bias",
                                   "transformer.h.0.attn.c_proj.weight",
                                   "transformer.h.0.attn.c_proj.bias",
                                   "transformer.h.0.ln_2.weight",
                                   "transformer.h.0.ln_2.bias",
                                   "transformer.h.0.mlp.c_fc.weight",
                                   "transformer.h.0.mlp.c_fc.bias",
                                   "transformer.h.0.mlp.c_proj.weight",
                                   "transformer.h.0.mlp.c_proj.bias",
                                   "transformer.ln_f.weight",
                                   "transformer.ln_f.bias",
                                   "lm_head.weight"};
  EXPECT_EQ(names, want);
  EXPECT_EQ(Gpt(small_config()).parameters().find("lm_head.weight"), nullptr);
}

TEST(Gpt, made_for_inference_refuses_to_train) {
  const auto model = random_model(small_config(), Gpt::Mode::kInference);
  const Windows w(1, 4, 23);
  const Runtime run;
  Gpt::Workspace work = model->make_workspace(1, 4);
  expect_error<Error>([&] { model->forward_backward(run, work, w.all(), 1.0, kStep); },
                      "Gpt: expected a model made for training, found one for inference");
  EXPECT_TRUE(model->parameters().grads().empty());
}

TEST(Gpt, names_what_does_not_fit) {
  const auto model = random_model(small_config());
  const Runtime run;
  Gpt::Workspace work = model->make_workspace(2, 8);
  const Windows w(3, 8, 23);
  TestMatrix logits(24, 23), few(8, 23);
  expect_error<ShapeError>([&] { model->make_workspace(1, 81); },
                           "Gpt: workspace: expected at least one sequence of 1 to 80 tokens, "
                           "found [1, 81]");
  expect_error<ShapeError>([&] { model->make_workspace(0, 8); },
                           "Gpt: workspace: expected at least one sequence of 1 to 80 tokens, "
                           "found [0, 8]");
  expect_error<ShapeError>([&] { model->logits(run, work, w.tokens(), logits.view()); },
                           "Gpt: tokens: expected at most [2, 8], found [3, 8]");
  expect_error<ShapeError>(
      [&] { model->logits(run, work, w.part(0, 2).inputs, few.view()); },
      "CrossEntropyHead 'transformer.wte.weight': logits: expected [16, 23], found [8, 23]");
  const TokenBatch uneven{w.part(0, 2).inputs, w.part(0, 1).targets};
  expect_error<ShapeError>([&] { model->evaluate(run, work, uneven); },
                           "Gpt: targets: expected [2, 8], found [1, 8]");
  expect_error<ShapeError>([&] { model->forward_backward(run, work, uneven, 1.0, kStep); },
                           "Gpt: targets: expected [2, 8], found [1, 8]");
  Windows wrong(2, 8, 23);
  wrong.targets[10] = 23;
  expect_error<ShapeError>([&] { model->evaluate(run, work, wrong.all()); },
                           "CrossEntropyHead 'transformer.wte.weight': expected targets in "
                           "[0, 23) or -1, found 23 at 10");
  wrong.inputs[9] = -1;
  expect_error<ShapeError>([&] { model->evaluate(run, work, wrong.all()); },
                           "Embedding 'wte': expected token ids in [0, 23), found -1 at [1, 1]");
  Gpt::Cache cache = model->make_cache(1);
  TestMatrix last(1, 23);
  const Windows full(1, 80, 23);
  model->decode(run, cache, full.tokens(), last.view());
  expect_error<ShapeError>(
      [&] {
        model->decode(run, cache, {full.inputs.data(), {1, 1}}, last.view());
      },
      "Gpt: tokens after 80 cached: expected [1, 1 to 0], found [1, 1]");
}

}  // namespace
}  // namespace prenorm
