#include "prenorm/study/diagnose_probe.h"

#include <gmock/gmock.h>

#include "prenorm/formats/tensor_file.h"
#include "prenorm/study/diagnose.h"
#include "tests/study/diagnose_testing.h"
#include "tests/temporary_folder.h"

namespace prenorm {
namespace {

using reference::Numbers;

TEST(DiagnoseProbe, is_a_model_folder_with_an_input) {
  const TemporaryFolder folder("diagnose-probe");
  write_diagnose_probe(folder.path());
  const DiagnoseModel model = read_diagnose_model(folder.path());
  EXPECT_GE(model.layers(), 2);
  const TensorFile input = read_tensors(folder.path() / "input.safetensors");
  ASSERT_NE(input.find("input_ids"), nullptr);
}

TEST(DiagnoseProbe, keeps_subtle_mistakes_visible_in_bfloat16) {
  const TemporaryFolder folder("diagnose-probe");
  write_diagnose_probe(folder.path());
  const DiagnoseModel model = read_diagnose_model(folder.path());
  const DiagnoseModel small = rounded(model, Numbers::kBfloat16);
  const TensorFile input = read_tensors(folder.path() / "input.safetensors");
  const Tensor& t = *input.find("input_ids");
  reference::Tokens tokens({t.shape[0], t.shape[1]});
  const std::vector<Index> ids = input.integers(t);
  for (Index i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<TokenId>(ids[static_cast<std::size_t>(i)]);
  }
  const Runtime run;
  for (const MistakeChoice& made : {MistakeChoice{.name = "norm.eps-outside-root"},
                                    MistakeChoice{.name = "activation.gelu-quick"},
                                    MistakeChoice{.name = "attention.scale-by-width"},
                                    MistakeChoice{.name = "position.offset", .number = 1}}) {
    const DiagnoseInput dump = dump_of(small, tokens, {made}, Dumped::kLogits, Numbers::kBfloat16);
    const Diagnosis found = diagnose(run, model, dump);
    ASSERT_EQ(found.mistakes.size(), 1u) << made.name;
    EXPECT_EQ(found.mistakes.front().name, made.name);
  }
}

TEST(DiagnoseProbe, the_hook_is_a_script_that_saves_stages) {
  EXPECT_THAT(std::string(diagnose_hook()), testing::HasSubstr("register_forward_hook"));
}

}  // namespace
}  // namespace prenorm
