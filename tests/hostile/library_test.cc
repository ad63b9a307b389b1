// Every malformed file through the library: a typed error that names the file and the fault, in
// time; and the valid files from which they are made do load.
#include <gtest/gtest.h>

#include <ctime>
#include <set>

#include "prenorm/base/error.h"
#include "tests/hostile/hostile_file.h"
#include "tests/hostile/limits.h"
#include "tests/temporary_folder.h"

namespace prenorm::hostile {
namespace {

// The first line of the typed error; anything else is a failure.
std::string refusal(const HostileFile& file) {
  const TemporaryFolder folder("hostile");
  write_hostile(file, folder.path());
  const std::clock_t start = std::clock();  // of the processor: the machine may be busy
  std::string message;
  try {
    open_hostile(file, folder.path());
    ADD_FAILURE() << file.name << ": was accepted";
  } catch (const Error& error) {
    message = error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << file.name << ": no error of the library's, but " << error.what();
  }
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  EXPECT_TRUE(!kMeasured || seconds < kMostSeconds) << file.name << ": " << seconds << " s";
  return message.substr(0, message.find('\n'));
}

void expect_refused(const std::vector<HostileFile>& files) {
  for (const HostileFile& file : files) {
    const std::string message = refusal(file);
    EXPECT_NE(message.find(file.expected), std::string::npos)
        << file.name << "\n  expected: " << file.expected << "\n  message: " << message;
    EXPECT_NE(message.find(file.culprit), std::string::npos)
        << file.name << "\n  expected: " << file.culprit << "\n  message: " << message;
  }
}

TEST(HostileFiles, safetensors_are_refused) { expect_refused(safetensors_files()); }
TEST(HostileFiles, numpy_arrays_and_archives_are_refused) { expect_refused(numpy_files()); }
TEST(HostileFiles, torch_files_are_refused) { expect_refused(torch_files()); }
TEST(HostileFiles, indexes_and_shards_are_refused) { expect_refused(index_files()); }
TEST(HostileFiles, configs_are_refused) { expect_refused(config_files()); }
TEST(HostileFiles, model_folders_are_refused) { expect_refused(model_files()); }
TEST(HostileFiles, tokenizers_are_refused) { expect_refused(bpe_files()); }
TEST(HostileFiles, wordpiece_tokenizers_are_refused) { expect_refused(wordpiece_files()); }
TEST(HostileFiles, sentence_encoders_are_refused) { expect_refused(encoder_files()); }
TEST(HostileFiles, training_states_are_refused) { expect_refused(state_files()); }
TEST(HostileFiles, toml_and_metrics_are_refused) { expect_refused(text_files()); }

TEST(HostileFiles, have_names_of_their_own_and_are_at_least_150) {
  std::set<std::string> names;
  for (const HostileFile& file : all_hostile_files()) {
    EXPECT_TRUE(names.insert(file.name).second) << file.name;
    EXPECT_FALSE(file.expected.empty()) << file.name;
  }
  EXPECT_GE(names.size(), 150u);
}

// Else a table would test a fault that its files have for another reason.
TEST(HostileFiles, the_valid_files_behind_them_are_accepted) {
  const auto accept = [](Opener opener, Files files, const std::string& opened) {
    HostileFile file;
    file.opener = opener;
    file.files = std::move(files);
    file.opened = opened;
    const TemporaryFolder folder("valid");
    write_hostile(file, folder.path());
    EXPECT_NO_THROW(open_hostile(file, folder.path())) << opened;
  };
  accept(Opener::kTensors, {{"x.safetensors", valid_safetensors()}}, "x.safetensors");
  accept(Opener::kTensors, {{"x.npy", valid_npy()}}, "x.npy");
  accept(Opener::kTensors, {{"x.npz", valid_npz()}}, "x.npz");
  accept(Opener::kTensors, {{"x.pt", valid_torch()}}, "x.pt");
  accept(Opener::kIndex, valid_index(), "model.safetensors.index.json");
  accept(Opener::kModel, valid_model(), "");
  accept(Opener::kTokenizer, valid_bpe(), "");
  accept(Opener::kTokenizer, valid_gpt2_tokenizer(), "");
  accept(Opener::kTokenizer, valid_wordpiece(), "");
  accept(Opener::kTokenizer, valid_vocabulary(), "");
  accept(Opener::kEncoder, valid_encoder(), "");
  accept(Opener::kState, {{"training_state.json", valid_state()}}, "");
  accept(Opener::kToml, {{"x.toml", valid_toml()}}, "x.toml");
  accept(Opener::kMetrics, {{"x.jsonl", valid_metrics()}}, "x.jsonl");
}

}  // namespace
}  // namespace prenorm::hostile
