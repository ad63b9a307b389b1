#include "prenorm/study/check_subject.h"

#include <fmt/format.h>

#include <bit>
#include <cstdint>

#include "prenorm/base/philox.h"
#include "prenorm/study/kernel_pass.h"

namespace prenorm {

CheckSeams::CheckSeams()
    : logits([](const Runtime& run, const Gpt& model, Gpt::Workspace& work, TokenMatrix tokens,
                Matrix out) { model.logits(run, work, tokens, out); }),
      decode([](const Runtime& run, const Gpt& model, Gpt::Cache& cache, TokenMatrix tokens,
                Matrix last) { model.decode(run, cache, tokens, last); }),
      layer(kernel_pass),
      gradients([](const Runtime& run, Gpt& model, Gpt::Workspace& work, const TokenBatch& batch) {
        const LossSum loss = model.forward_backward(run, work, batch, 1.0, {});
        model.finish_gradients(run, work);
        return loss;
      }) {}

std::string counted(Index count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::vector<TokenId> random_tokens(Index count, Index vocab_size, std::uint64_t seed) {
  const PhiloxKey key = RandomStream{.seed = seed}.key();
  std::vector<TokenId> tokens(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<TokenId>(random_word(key, i) % static_cast<std::uint32_t>(vocab_size));
  }
  return tokens;
}

void BitDifference::compare(ConstMatrix a, ConstMatrix b) {
  for (Index r = 0; r < a.dim(0); ++r) {
    const float* x = a[r].data();
    const float* y = b[r].data();
    for (Index c = 0; c < a.dim(1); ++c) {
      differing_ += std::bit_cast<std::uint32_t>(x[c]) != std::bit_cast<std::uint32_t>(y[c]);
    }
  }
  compared_ += a.dim(0) * a.dim(1);
}

}  // namespace prenorm
