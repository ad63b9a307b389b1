#include "prenorm/formats/torch_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "prenorm/base/error.h"
#include "tests/formats/torch_bytes.h"

namespace prenorm {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

TorchFile parse(const std::string& file) {
  return TorchFile(std::as_bytes(std::span(file)), "a.pt");
}

std::vector<float> floats(const Tensor& t) {
  std::vector<float> out(static_cast<std::size_t>(t.size()));
  floats_from(t.dtype, t.bytes, out);
  return out;
}

const std::string kSix = floats_as_bytes({0, 1, 2, 3, 4, 5});

TorchTensor six(std::vector<int> shape, std::vector<int> strides, int offset = 0) {
  return {"FloatStorage", "0", 6, offset, std::move(shape), std::move(strides)};
}

std::string file_of(const TorchTensor& t) {
  return torch_file(pickled_dict({{"w", pickled(t)}}), {kSix});
}

void expect_refused(const std::string& file, const std::string& expected,
                    const std::string& found) {
  EXPECT_THAT([&] { parse(file); },
              ThrowsMessage<FormatError>(AllOf(HasSubstr("a.pt"), HasSubstr("expected " + expected),
                                               HasSubstr("found " + found))));
}

TEST(TorchFile, tensors_and_plain_values_are_told_by_their_paths) {
  const std::string file = torch_file(
      pickled_dict({{"model", pickled_dict({{"a.weight", pickled(six({2, 3}, {3, 1}))}})},
                    {"args", pickled_dict({{"n", pickled(7)}, {"bias", "\x89"}, {"x", "N"}})},
                    {"list", "](" + pickled("gelu") + "\x88" + "e"}}),
      {kSix});
  const TorchFile torch = parse(file);
  ASSERT_EQ(torch.tensors().size(), 1u);
  EXPECT_EQ(torch.tensors()[0].name, "model.a.weight");
  EXPECT_EQ(shape_text(torch.tensors()[0].shape), "[2, 3]");
  EXPECT_THAT(floats(torch.tensors()[0]), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(*torch.scalar("args.n"), TorchScalar(Index{7}));
  EXPECT_EQ(*torch.scalar("args.bias"), TorchScalar(false));
  EXPECT_EQ(*torch.scalar("args.x"), TorchScalar());
  EXPECT_EQ(*torch.scalar("list.0"), TorchScalar("gelu"));
  EXPECT_EQ(*torch.scalar("list.1"), TorchScalar(true));
  EXPECT_EQ(torch.scalar("model"), nullptr);
}

TEST(TorchFile, strides_and_offsets_are_honoured) {
  const auto values = [](const TorchTensor& t) {
    const std::string file = file_of(t);
    return floats(parse(file).tensors().at(0));
  };
  EXPECT_THAT(values(six({3, 2}, {1, 3})), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_THAT(values(six({2, 2}, {3, 1}, 1)), ElementsAre(1, 2, 4, 5));
  EXPECT_THAT(values(six({2}, {1}, 4)), ElementsAre(4, 5));
  EXPECT_THAT(values(six({2, 2}, {0, 1})), ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(values(six({}, {}, 5)), ElementsAre(5));
  EXPECT_THAT(values(six({0, 4}, {4, 1})), ElementsAre());
  EXPECT_THAT(values(six({1, 6}, {99, 1})), ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(TorchFile, a_tensor_outside_its_storage_is_refused) {
  expect_refused(file_of(six({7}, {1})), "a tensor inside its storage of 6 elements", "shape [7]");
  expect_refused(file_of(six({2}, {1}, 5)), "a tensor inside its storage", "shape [2]");
  expect_refused(file_of(six({2, 2}, {5, 1})), "a tensor inside its storage", "shape [2, 2]");
  expect_refused(file_of(six({2147483647, 2147483647, 8}, {0, 0, 0})), "a tensor inside", "shape");
  expect_refused(file_of(six({2147483647}, {0})), "tensors of at most", "more");
  expect_refused(file_of(six({2}, {-1}, 1)), "sizes and strides from 0", "another value");
  expect_refused(file_of(six({2}, {})), "a stride for each axis", "others");
  TorchTensor other = six({1}, {1});
  other.elements = 5;
  expect_refused(file_of(other), "5 elements of torch.FloatStorage", "24 bytes");
  other = six({1}, {1});
  other.key = "../0";
  expect_refused(file_of(other), "a member 'data/../0'", "none");
}

TEST(TorchFile, what_is_no_tensor_or_plain_value_is_refused_by_name) {
  expect_refused(torch_file("cos\nsystem\n" + pickled("ls") + "\x85R", {}), "only what tensors",
                 "'os.system', which is not run");
  TorchTensor odd = six({1}, {1});
  odd.type = "UntypedStorage";
  expect_refused(file_of(odd), "only what tensors", "'torch.UntypedStorage'");
  expect_refused(torch_file("ctorch\nFloatStorage\n)R", {}), "a tensor", "a call of");
  expect_refused(torch_file("]q\1h\1a", {}), "values at most 32 deep", "more");
  expect_refused(torch_file("}(" + pickled("a") + "N" + pickled("a") + "Nu", {}), "each name once",
                 "it twice");
  expect_refused(torch_file("}(" + pickled("a") + "NNNu", {}), "keys that are strings", "another");
}

TEST(TorchFile, other_archives_are_refused_with_what_they_are) {
  using namespace std::string_literals;
  expect_refused("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", "a zip archive",
                 "its older form: load it there and save it again");
  expect_refused(zip_file({{"a/version", "3\n"}}), "a member data.pkl", "none");
  expect_refused(zip_file({{"a/data.pkl", "N."}, {"a/constants.pkl", ""}}), "tensors as torch.save",
                 "a TorchScript program");
  expect_refused(zip_file({{"a/data.pkl", "N.", true}}), "stored members", "a deflated one");
  expect_refused(zip_file({{"a/data.pkl", "N."}, {"a/byteorder", "big"}}), "byte order little",
                 "big");
}

TEST(TorchFile, archives_of_torch_are_told_from_those_of_numpy) {
  const auto is_torch = [](const std::string& f) {
    return is_torch_file(std::as_bytes(std::span(f)));
  };
  EXPECT_TRUE(is_torch(file_of(six({1}, {1}))));
  EXPECT_FALSE(is_torch(zip_file({{"a.npy", ""}})));
  EXPECT_FALSE(is_torch(zip_file({})));
  EXPECT_FALSE(is_torch("PK"));
}

TEST(TorchFile, every_truncation_and_bit_flip_is_an_error_or_a_valid_load) {
  const std::string good =
      torch_file(pickled_dict({{"w", pickled(six({3, 2}, {1, 3}))}, {"n", pickled(7)}}), {kSix});
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_THROW(parse(good.substr(0, size)), FormatError) << size;
  }
  int loaded = 0;
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string bytes = good;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
    try {
      const TorchFile file = parse(bytes);
      for (const Tensor& t : file.tensors()) {
        ASSERT_EQ(t.bytes.size(), static_cast<std::size_t>(t.size()) * dtype_size(t.dtype));
      }
      ++loaded;
    } catch (const FormatError&) {
    }
  }
  EXPECT_LT(loaded, static_cast<int>(good.size()) * 8 / 2);  // the checksums catch most of them
  // The same behind a checksum that is right: what the pickle machine sees.
  const std::string value = pickled_dict({{"w", pickled(six({3, 2}, {1, 3}))}});
  for (std::size_t bit = 0; bit < value.size() * 8; ++bit) {
    std::string bytes = value;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
    try {
      parse(torch_file(bytes, {kSix}));
    } catch (const FormatError&) {
    }
  }
}

}  // namespace
}  // namespace prenorm
