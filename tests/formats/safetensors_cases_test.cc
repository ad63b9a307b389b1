// The public reports of ../shared/cases that are about safetensors files and half precision.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "prenorm/base/error.h"
#include "prenorm/base/file.h"
#include "prenorm/base/json.h"
#include "prenorm/formats/safetensors.h"

namespace prenorm {
namespace {

namespace fs = std::filesystem;

const fs::path kCases = fs::path(PRENORM_SOURCE_DIR) / ".." / "shared" / "cases";

std::string from_hex(const std::string& hex) {
  std::string out;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    out += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return out;
}

double number(const Json& value) {
  if (value == "inf") return std::numeric_limits<double>::infinity();
  if (value == "-inf") return -std::numeric_limits<double>::infinity();
  if (value == "nan") return std::numeric_limits<double>::quiet_NaN();
  return value.get<double>();
}

class SafetensorsCases : public ::testing::Test {
 protected:
  void SetUp() override {
    const fs::path file = kCases / "cases.jsonl";
    if (!fs::exists(file)) GTEST_SKIP() << "no " << file << ": the shared cases are not here";
    std::string text = read_file(file);
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = text.find('\n', at);
      Json json = parse_json(text.substr(at, end - at), file.string());
      cases_.emplace(json.at("id").get<std::string>(), std::move(json));
      at = end == std::string::npos ? text.size() : end + 1;
    }
  }

  // The case's file: its bytes on disk must be those of the case.
  Safetensors load(const std::string& id) {
    return Safetensors(kCases / cases_.at(id).at("input").at("file").get<std::string>());
  }

  std::string refusal(const std::string& bytes) {
    try {
      Safetensors(std::as_bytes(std::span(bytes)), "x");
    } catch (const FormatError& error) {
      return error.what();
    }
    return "accepted";
  }

  std::map<std::string, Json> cases_;
};

TEST_F(SafetensorsCases, files_to_be_rejected_are_rejected) {
  int rejected = 0;
  for (const auto& [id, json] : cases_) {
    if (json["input"]["op"] != "safetensors_load") continue;
    const Json& expected = json["expected"];
    if (!expected["behaviour"].get<std::string>().starts_with("reject")) continue;
    EXPECT_THROW(load(id), FormatError) << id;
    ++rejected;
    if (!expected.contains("more_bytes_hex")) continue;
    for (const Json& hex : expected["more_bytes_hex"]) {
      EXPECT_NE(refusal(from_hex(hex.get<std::string>())), "accepted") << id << " " << hex;
      ++rejected;
    }
  }
  EXPECT_GE(rejected, 19);
}

TEST_F(SafetensorsCases, messages_name_the_fault) {
  const auto message = [this](const std::string& id) {
    return refusal(from_hex(cases_.at(id)["input"]["bytes_hex"].get<std::string>()));
  };
  EXPECT_THAT(message("ST-01"), ::testing::HasSubstr("Git LFS pointer"));
  EXPECT_THAT(message("ST-04"), ::testing::HasSubstr("overlap"));
  EXPECT_THAT(message("ST-09"), ::testing::HasSubstr("bytes after the last tensor"));
  EXPECT_THAT(message("ST-10"), ::testing::HasSubstr("hole"));
  EXPECT_THAT(message("ST-11"), ::testing::HasSubstr("'a' twice"));
}

TEST_F(SafetensorsCases, files_to_be_accepted_have_the_values_of_the_case) {
  int compared = 0;
  for (const auto& [id, json] : cases_) {
    if (json["input"]["op"] != "safetensors_load") continue;
    const Json& expected = json["expected"];
    if (!expected["behaviour"].get<std::string>().starts_with("accept")) continue;
    const Safetensors file = load(id);
    for (const Tensor& t : file.tensors()) {
      if (!expected.contains(t.name)) continue;
      const Json& want = expected[t.name];
      const std::vector<float> values = file.floats(t);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double x = number(want.is_array() ? want[i] : want);
        EXPECT_TRUE(std::isnan(x) ? std::isnan(values[i]) : values[i] == x) << id << " " << i;
        EXPECT_EQ(std::signbit(values[i]), std::signbit(x)) << id << " " << i;
        ++compared;
      }
    }
  }
  EXPECT_GE(compared, 18);
  EXPECT_THAT(load("ST-15").find("z")->shape, ::testing::ElementsAre(2, 0));
  EXPECT_EQ(load("ST-17").tensors().at(0).name, "\xCE\xBB.weight");
}

TEST_F(SafetensorsCases, casts_round_as_the_case_says) {
  const auto check = [](const Json& from, const Json& to, auto narrow, auto widen) {
    for (std::size_t i = 0; i < from.size(); ++i) {
      EXPECT_EQ(widen(narrow(from[i].get<float>())), number(to[i])) << from[i];
    }
  };
  const auto bf16 = [&](const Json& from, const Json& to) {
    check(from, to, bf16_from_float, float_from_bf16);
  };
  const auto f16 = [&](const Json& from, const Json& to) {
    check(from, to, f16_from_float, float_from_f16);
  };
  const Json &a = cases_.at("ST-20"), &b = cases_.at("ST-21");
  bf16(a["input"]["f32_to_bf16"], a["expected"]["bf16"]);
  f16(a["input"]["f32_to_f16"], a["expected"]["f16"]);
  bf16(b["input"]["x"], b["expected"]["bf16"]);
  f16(b["input"]["x"], b["expected"]["f16"]);
}

}  // namespace
}  // namespace prenorm
