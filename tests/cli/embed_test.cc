#include "prenorm/cli/embed.h"

#include <gtest/gtest.h>

#include "tests/cli/run_fixture.h"

namespace prenorm::cli {
namespace {

using EmbedVerb = RunFixture;

// Vectors are compared with transformers' in tests/python/test_embed.py.
TEST_F(EmbedVerb, what_is_no_encoder_is_refused) {
  expect_error(run({"embed", "text.txt"}), 2, "-m: expected a model folder, found none");
  expect_error(run({"embed", "-m", "run", "text.txt"}), 3,
               "run/tokenizer.json: expected a model of type WordPiece, found \"BPE\"");
  expect_error(run({"embed", "-m", "run", "-", "-"}), 2, "--data: expected '-'");
  expect_error(run({"embed", "-m", "run", "--pooling", "min"}), 2,
               "--pooling: expected one of mean|cls|max, found 'min'");
}

}  // namespace
}  // namespace prenorm::cli
