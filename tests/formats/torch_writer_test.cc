#include "prenorm/formats/torch_writer.h"

#include <gtest/gtest.h>

#include "prenorm/base/error.h"
#include "prenorm/base/file.h"
#include "tests/temporary_folder.h"

namespace prenorm {
namespace {

TEST(TorchWriter, what_is_written_is_read_back_and_bytes_are_stable) {
  const TemporaryFolder folder("torch-writer");
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const auto write = [&](const std::filesystem::path& path) {
    TorchWriter out;
    out.begin_dict("model");
    Tensor t = tensor("a.weight", {2, 3}, std::span(values));
    out.add(t);
    t.name = "head.weight";
    out.add(t);
    out.end_dict();
    out.add("n", Index{7});
    out.add("large", Index{1} << 40);
    out.add("x", 0.1);
    out.add("yes", true);
    out.add("word", std::string("gelu"));
    out.add("none", TorchScalar());
    out.save(path);
  };
  write(folder.path() / "a.pt");
  write(folder.path() / "b.pt");
  EXPECT_EQ(read_file(folder.path() / "a.pt"), read_file(folder.path() / "b.pt"));
  const TorchFile file(folder.path() / "a.pt");
  ASSERT_EQ(file.tensors().size(), 2u);
  EXPECT_EQ(file.tensors()[0].name, "model.a.weight");
  EXPECT_EQ(shape_text(file.tensors()[0].shape), "[2, 3]");
  std::vector<float> back(6);
  floats_from(Dtype::kF32, file.tensors()[0].bytes, back);
  EXPECT_EQ(back, values);
  EXPECT_EQ(file.tensors()[1].bytes.data(), file.tensors()[0].bytes.data());  // one storage
  EXPECT_EQ(*file.scalar("n"), TorchScalar(Index{7}));
  EXPECT_EQ(*file.scalar("large"), TorchScalar(Index{1} << 40));
  EXPECT_EQ(*file.scalar("x"), TorchScalar(0.1));
  EXPECT_EQ(*file.scalar("yes"), TorchScalar(true));
  EXPECT_EQ(*file.scalar("word"), TorchScalar("gelu"));
  EXPECT_EQ(*file.scalar("none"), TorchScalar());
}

TEST(TorchWriter, a_type_without_a_storage_is_refused) {
  const std::vector<Index> values = {1};
  TorchWriter out;
  EXPECT_THROW(out.add(tensor("a", {1}, std::span(values))), Error);
}

}  // namespace
}  // namespace prenorm
