// Every truncation and every flipped bit of five small valid files: each is a typed error or a
// valid load whose numbers can be read.
#include <gtest/gtest.h>

#include <functional>

#include "prenorm/base/error.h"
#include "prenorm/base/json.h"
#include "prenorm/base/stopwatch.h"
#include "prenorm/formats/npy.h"
#include "prenorm/formats/npz.h"
#include "prenorm/formats/torch_file.h"
#include "prenorm/text/bpe_json.h"
#include "prenorm/text/bpe_tokenizer.h"
#include "tests/hostile/hostile_file.h"
#include "tests/hostile/limits.h"

namespace prenorm::hostile {
namespace {

using Bytes = std::span<const std::byte>;

struct Counts {
  int refused = 0, accepted = 0;
};

void read_all(const std::vector<Tensor>& tensors) {
  for (const Tensor& t : tensors) {
    ASSERT_EQ(t.bytes.size(), static_cast<std::size_t>(t.size()) * dtype_size(t.dtype));
    if (!dtype_is_floating_point(t.dtype)) continue;
    std::vector<double> values(static_cast<std::size_t>(t.size()));
    doubles_from(t.dtype, t.bytes, values);
  }
}

// Tries a copy whose end is the end of its memory, so that a sanitizer sees a read behind it.
void attempt(const std::string& bytes, const std::function<void(Bytes)>& read, Counts& counts) {
  const auto copy = std::make_unique<std::byte[]>(bytes.size());
  std::memcpy(copy.get(), bytes.data(), bytes.size());
  try {
    read({copy.get(), bytes.size()});
    ++counts.accepted;
  } catch (const Error&) {
    ++counts.refused;
  }
}

Counts sweep(const std::string& valid, const std::function<void(Bytes)>& read) {
  Counts counts;
  const auto start = Clock::now();
  for (std::size_t n = 0; n < valid.size(); ++n) attempt(valid.substr(0, n), read, counts);
  EXPECT_EQ(counts.accepted, 0) << "a truncated file was accepted";
  for (std::size_t bit = 0; bit < 8 * valid.size(); ++bit) {
    std::string flipped = valid;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
    attempt(flipped, read, counts);
  }
  EXPECT_EQ(static_cast<std::size_t>(counts.refused + counts.accepted), 9 * valid.size());
  std::cout << valid.size() << " bytes: " << counts.refused << " refused, " << counts.accepted
            << " accepted, " << seconds_since(start) << " s\n";
  return counts;
}

TEST(HostileSweep, safetensors) {
  const Counts counts =
      sweep(valid_safetensors(), [](Bytes bytes) { read_all(Safetensors(bytes, "x").tensors()); });
  EXPECT_GE(counts.accepted, 42 * 8);  // the numbers themselves may be any
}

TEST(HostileSweep, npy) {
  sweep(valid_npy(), [](Bytes bytes) { read_all({parse_npy(bytes, "x")}); });
}

TEST(HostileSweep, npz) {
  sweep(valid_npz(), [](Bytes bytes) { read_all(Npz(bytes, "x").tensors()); });
}

TEST(HostileSweep, torch) {
  sweep(valid_torch(), [](Bytes bytes) { read_all(TorchFile(bytes, "x").tensors()); });
}

TEST(HostileSweep, tokenizer_json) {
  // Compact, and without the 256 bytes that stand in every one: those would be most of the sweep.
  const std::string valid =
      R"({"added_tokens":[{"id":3,"content":"<s>","special":true}],"normalizer":null,)"
      R"("pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},"decoder":)"
      R"({"type":"ByteLevel"},"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},)"
      R"("merges":["a b"]}})";
  sweep(valid, [](Bytes bytes) {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const BpeTokenizer tokenizer(bpe_model_of(parse_json(text, "x"), "x"));
    for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
      static_cast<void>(tokenizer.decode({&id, 1}));
    }
  });
}

TEST(HostileSweep, metrics_line) {
  sweep(R"({"iter":5,"watch":{"loss":2.5,"grad_norm":1.5,"layers":[{"rms":1}]}})", [](Bytes bytes) {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    static_cast<void>(parse_json(text, "x"));
  });
}

}  // namespace
}  // namespace prenorm::hostile
